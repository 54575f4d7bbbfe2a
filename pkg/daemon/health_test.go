package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/daemon"
)

func TestARequiredCheckMakesUnreadyAndAWatchedOneDoesNot(t *testing.T) {
	t.Parallel()
	broken := func(context.Context) error { return errors.New("dial db.internal: refused") }
	fine := func(context.Context) error { return nil }
	for _, c := range []struct {
		name               string
		required, watched  func(context.Context) error
		status             int
		said               string
		postgres, natsSays string
	}{
		{"all fine", fine, fine, 200, "ready", "ok", "ok"},
		{"NATS is down", fine, broken, 200, "ready", "ok", "failed"},
		{"Postgres is down", broken, fine, 503, "not-ready", "failed", "ok"},
	} {
		var log bytes.Buffer
		health := daemon.NewHealth(daemon.NewLogger(&log, "json", "info"))
		health.Require("postgres", c.required)
		health.Watch("nats", c.watched)
		status, body := get(health.Handler(nil), "/readyz")
		var answer struct {
			Status string
			Checks map[string]string
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if status != c.status || answer.Status != c.said ||
			answer.Checks["postgres"] != c.postgres || answer.Checks["nats"] != c.natsSays {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if strings.Contains(body, "db.internal") {
			t.Errorf("%s: the answer names a host: %s", c.name, body)
		}
		if failing := status != 200 || c.natsSays == "failed"; failing != strings.Contains(log.String(), "db.internal") {
			t.Errorf("%s: log = %s", c.name, log.String())
		}
	}
}

func TestADrainingServiceLivesAndIsNotReady(t *testing.T) {
	t.Parallel()
	health := daemon.NewHealth(daemon.NewLogger(t.Output(), "json", "info"))
	routes := health.Handler(http.NotFoundHandler())
	if status, _ := get(routes, "/readyz"); status != 200 {
		t.Errorf("before draining /readyz is %d", status)
	}
	health.Drain()
	if status, body := get(routes, "/readyz"); status != 503 || !strings.Contains(body, "draining") {
		t.Errorf("while draining /readyz is %d %s", status, body)
	}
	if status, _ := get(routes, "/healthz"); status != 200 {
		t.Errorf("while draining /healthz is %d", status)
	}
}

func TestAskingOftenDoesNotCheckOften(t *testing.T) {
	t.Parallel()
	asked := 0 // under the lock of Health
	health := daemon.NewHealth(daemon.NewLogger(t.Output(), "json", "info"))
	health.Require("postgres", func(context.Context) error { asked++; return nil })
	routes := health.Handler(nil)
	for range 20 {
		get(routes, "/readyz")
	}
	if asked > 2 {
		t.Errorf("20 questions made %d checks", asked)
	}
}

func get(handler http.Handler, path string) (int, string) {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}
