package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// Fault 71: a tool does not end while its worker has to. The worker breaks it
// off in time to write down that the outcome is unknown, and ends.
func TestFault71AToolThatDoesNotEndIsBrokenOff(t *testing.T) {
	t.Parallel()
	d, call := hanging(t, "COUNTERSIGN_GRACE=4s")
	begin := time.Now()
	if err := d.Workers[0].Stop(syscall.SIGTERM); err != nil {
		t.Errorf("it did not end well: %v", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("with 4 s of grace it took %s", took)
	}
	// No continuer runs: what is known is known from the worker.
	if now, err := d.Node(0).Call(t.Context(), call); err != nil || now.Run != "outcome-unknown" || len(now.Attempts) != 1 {
		t.Errorf("the call: %s, %v", now.Raw, err)
	}
}

// Fault 71: a second signal ends a worker and an api node at once, whatever
// they do. What that leaves behind is what a crash leaves: a lease.
func TestFault71ASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	d, call := hanging(t)
	d.StartContinuer(0)
	for _, service := range []*testcluster.Service{d.Workers[0], d.API[1]} {
		service.Signal(syscall.SIGTERM)
		testcluster.Eventually(t, service.Name+" is stopping", func(context.Context) error {
			if !service.Log.Contains(`"msg":"stopping"`) {
				return errors.New("it is not")
			}
			return nil
		})
		begin := time.Now()
		if err := service.Stop(syscall.SIGTERM); err == nil || !strings.Contains(err.Error(), "exit status 130") {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s took %s", service.Name, took)
		}
	}
	testcluster.Eventually(t, "the lease is lost", func(ctx context.Context) error {
		now, err := d.Node(0).Call(ctx, call)
		if err == nil && now.Run != "outcome-unknown" {
			err = fmt.Errorf("the run is %s", now.Run)
		}
		return err
	})
}

// hanging is a deployment of two api nodes and a worker that runs a call of
// an unsafe tool which never answers.
func hanging(t *testing.T, env ...string) (d *testcluster.Deployment, call string) {
	t.Helper()
	d = testcluster.Servers(t)
	d.StartAPI(0)
	d.StartAPI(1, "COUNTERSIGN_API_DRAIN=1m")
	d.StartWorker(0, env...)
	d.Ready()
	called := make(chan struct{}, 8)
	tool := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is it noticed that the worker is gone
		called <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(tool.Close)
	_, err := d.Node(0).PutTool(t.Context(), "hang", client.Tool{Effect: "unsafe", Timeout: "2m", HTTP: &client.HTTPTool{URL: tool.URL}})
	must(t, err)
	_, err = d.Node(0).PutPolicy(t.Context(), "allow", client.Policy{Tools: []string{"hang"}, Action: "allow"})
	must(t, err)
	out, err := d.Node(0).RegisterTurn(t.Context(), "t", client.TurnRequest{MessageID: "m",
		Parts: []client.Part{client.ToolPart("hang", "c", []byte(`{"n":1}`))}})
	must(t, err)
	testcluster.Eventually(t, "the tool is called", func(context.Context) error {
		if len(called) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	return d, out.Turn.Calls[0].ID
}
