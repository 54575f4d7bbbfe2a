package aisdk

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/uistream"
)

// A sender that hangs with its connection open does not hold its turn for ever.
func TestASilentSenderIsGivenUp(t *testing.T) {
	t.Parallel()
	taking := &taking{silence: 10 * time.Millisecond}
	if err := taking.run(t.Context(), make(chan incoming)); !errors.Is(err, errSilent) {
		t.Errorf("it ended with %v", err)
	}
}

// A sender that takes no answers is given up, and its node's connection with it.
func TestASenderThatReadsNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	given := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taking := &taking{w: w, rc: http.NewResponseController(w)}
		for {
			if err := taking.answer(uistream.Chunk{Type: uistream.Error, ErrorText: strings.Repeat("x", 1<<20)}); err != nil {
				given <- err
				return
			}
		}
	}))
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	select {
	case <-given:
	case <-time.After(6 * writeTimeout):
		t.Error("it is still waited for")
	}
}
