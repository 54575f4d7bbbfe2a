package faults

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
)

// metric is the sum of a service's samples of one name that have all of the
// labels, each as it is written: kind="run". 0 where there is none.
func metric(ctx context.Context, s *testcluster.Service, name string, labels ...string) (sum float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		value, is := sample(lines.Text(), name, labels)
		if is {
			sum += value
		}
	}
	return sum, nil
}

func sample(line, name string, labels []string) (value float64, is bool) {
	rest, is := strings.CutPrefix(line, name)
	if !is || rest == "" || rest[0] != '{' && rest[0] != ' ' {
		return 0, false
	}
	for _, label := range labels {
		if !strings.Contains(rest, label) {
			return 0, false
		}
	}
	value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
	return value, err == nil
}

// grows waits until a metric is beyond what it is now.
func grows(t *testing.T, s *testcluster.Service, name string, labels ...string) {
	t.Helper()
	before, err := metric(t.Context(), s, name, labels...)
	must(t, err)
	reaches(t, s, before+1, name, labels...)
}

// reaches waits until a metric is at least so much.
func reaches(t *testing.T, s *testcluster.Service, least float64, name string, labels ...string) {
	t.Helper()
	testcluster.Eventually(t, fmt.Sprintf("%s%v of %s reaches %v", name, labels, s.Name, least), func(ctx context.Context) error {
		now, err := metric(ctx, s, name, labels...)
		if err == nil && now < least {
			err = fmt.Errorf("it is %v", now)
		}
		return err
	})
}

// lasting is how much there is of a fault that shows more the more there is:
// "make faults" gives what the table says, "make test" what shows the rule.
func lasting[T any](table, short T) T {
	if os.Getenv("COUNTERSIGN_FAULTS_LONG") != "" {
		return table
	}
	return short
}
