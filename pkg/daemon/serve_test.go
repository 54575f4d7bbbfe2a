package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
)

func TestATakenAddressNamesItsHolderAndTheSetting(t *testing.T) {
	t.Parallel()
	taken := listen(t)
	_, err := daemon.Listen(taken.Addr().String(), "--listen or COUNTERSIGN_LISTEN")
	for _, want := range []string{fmt.Sprint("pid ", os.Getpid()), "--listen or COUNTERSIGN_LISTEN"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen = %v, want an error with %q", err, want)
		}
	}
}

func TestRequestsInProgressEndAndStreamsAreToldTo(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entered := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- daemon.Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-daemon.Draining(r.Context())
			if r.Context().Err() != nil {
				t.Error("stopping has cancelled a request in progress")
			}
			fmt.Fprint(w, "ended well")
		}), 0)
	}()
	answered := make(chan string, 1)
	go func() { answered <- fetch(t, "http://"+listener.Addr().String()) }()
	<-entered
	cancel()
	if got := <-answered; got != "ended well" {
		t.Errorf("answer = %q", got)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if _, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Error("a stopped server still takes connections")
	}
}

// A client that keeps its connections is answered while it is told to go, on
// the connection that it has and on a new one, and none is kept.
func TestAServerThatStopsSaysSoBeforeItIsGone(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- daemon.Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		}), 3*time.Second)
	}()
	client := &http.Client{Transport: &http.Transport{}}
	for n := range 3 {
		response, err := client.Get("http://" + listener.Addr().String())
		if err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(text) != "here" || response.Close != (n > 0) {
			t.Errorf("request %d: %q, %v, the connection ends: %t", n, text, err, response.Close)
		}
		cancel()
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

func TestABodyIsReadUnderADeadlineThatEndsWithIt(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- daemon.Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}), 0)
	}()
	response, err := http.Post("http://"+listener.Addr().String(), "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "body" {
		t.Errorf("echo = %q, %v", text, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// Clients that send a byte now and then, of a header or of a body, are cut off
// in their time, and hold a request up for nobody else.
func TestFault59SlowRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	served, read := make(chan error, 1), make(chan error, 2)
	go func() {
		served <- daemon.Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				_, err := io.Copy(io.Discard, r.Body)
				read <- err
			}
		}), 0)
	}()
	const head = "POST / HTTP/1.1\r\nHost: localhost\r\n"
	var slow sync.WaitGroup
	for _, begin := range []string{head + "X: ", head + "Content-Length: 100000\r\n\r\n", head + "Transfer-Encoding: chunked\r\n\r\n100000\r\n"} {
		slow.Go(func() { dribble(t, listener.Addr().String(), begin) })
	}
	if text := fetch(t, "http://"+listener.Addr().String()); text != "" {
		t.Errorf("meanwhile: %q", text)
	}
	slow.Wait()
	for range 2 {
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a slow body: %v", err)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// dribble begins a request and goes on byte by byte until the connection ends.
func dribble(t *testing.T, address, begin string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	gone := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn)
		gone <- err
	}()
	tick, late := time.NewTicker(100*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	_, err = io.WriteString(conn, begin)
	for err == nil {
		select {
		case <-gone:
			return
		case <-late:
			t.Errorf("still connected a minute after %q", begin)
			return
		case <-tick.C:
			_, err = io.WriteString(conn, "x")
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := daemon.Listen("127.0.0.1:0", "nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // some tests close it by serving
	return listener
}

func fetch(t *testing.T, url string) string {
	response, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
