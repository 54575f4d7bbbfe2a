package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// healthcheckCommand makes any of our programs ask a running one whether it
// is well: "api healthcheck http://127.0.0.1:8787/readyz". Our images hold
// the program and nothing else, so it has to bring its own probe.
const healthcheckCommand = "healthcheck"

// healthcheckTimeout leaves the asked one time for its own checks.
const healthcheckTimeout = checkTimeout + time.Second

func healthcheck(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // the status says enough
	return fmt.Errorf("%s answers %s: %s", url, response.Status, said)
}
