package egress_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/egress"
)

func newEgress(t *testing.T, allow ...string) *egress.Egress {
	t.Helper()
	e, err := egress.NewEgress(allow)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestInsideAddressesAreRefused(t *testing.T) {
	t.Parallel()
	e := newEgress(t)
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200",
		"224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1",
		"[::1]", "[::]", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[ff02::1]", "localhost",
	} {
		if _, err := e.Connect(t.Context(), parse(t, "http://"+host+":9/")); !errors.Is(err, egress.ErrRefused) {
			t.Errorf("connect to %s: %v", host, err)
		}
		if _, err := e.HTTPClient(time.Second).Get("http://" + host + ":9/"); !errors.Is(err, egress.ErrRefused) {
			t.Errorf("get %s: %v", host, err)
		}
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := newEgress(t).Connect(t.Context(), parse(t, "http://127.0.0.1/"))
	if err == nil || !strings.Contains(err.Error(), "COUNTERSIGN_ALLOW_TARGETS") {
		t.Error(err)
	}
}

func TestTheAllowListOpensWhatItNames(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(server.Close)
	port := parse(t, server.URL).Port()
	for _, c := range []struct {
		allow, host string
		open        bool
	}{
		{"127.0.0.0/8", "127.0.0.1", true}, {"127.0.0.1", "127.0.0.1", true}, {"127.0.0.0/8", "[::ffff:127.0.0.1]", true},
		{"localhost", "localhost", true}, {"LocalHost.", "localhost", true}, {"127.0.0.0/8", "127.1", true},
		{"localhost", "127.0.0.1", false}, {"10.0.0.0/8", "127.0.0.1", false}, {" ", "127.0.0.1", false},
	} {
		resp, err := newEgress(t, c.allow).HTTPClient(5 * time.Second).Get("http://" + c.host + ":" + port)
		if err == nil {
			resp.Body.Close()
		}
		// 127.1 is a name to some resolvers and an address to others.
		if c.host != "127.1" && (err == nil) != c.open {
			t.Errorf("allow %q, host %s: %v", c.allow, c.host, err)
		}
	}
	for _, bad := range []string{"http://x", "a b", "*.example.com", "10.0.0.0/99", "host:80"} {
		if _, err := egress.NewEgress([]string{bad}); err == nil {
			t.Errorf("allow list takes %q", bad)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var hits int
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hits++
			http.Redirect(w, r, "/elsewhere", status)
		}))
		t.Cleanup(server.Close)
		resp, err := newEgress(t, "127.0.0.1").HTTPClient(0).Post(server.URL, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status || hits != 1 {
			t.Errorf("%d: status %d after %d requests", status, resp.StatusCode, hits)
		}
	}
}

func TestUnfitURLsAreRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "file:///etc/passwd", "ftp://x/", "http://", "http:///x", "http://user:pw@example.com/", "://", "gopher://x"} {
		if _, err := egress.Check(raw); !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%q: %v", raw, err)
		} else if strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: the error repeats the credentials: %v", raw, err)
		}
	}
	if _, err := egress.Check("https://example.com:8443/x?y=1"); err != nil {
		t.Error(err)
	}
}

// TestNothingSentIsProven: a connection that could not be made, and one that
// was closed before the request, prove that nothing was sent.
func TestNothingSentIsProven(t *testing.T) {
	t.Parallel()
	e := newEgress(t, "127.0.0.1")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := "http://" + closed.Addr().String()
	closed.Close()

	var proof egress.Proof
	req, _ := http.NewRequestWithContext(proof.Watch(t.Context()), http.MethodPost, target, strings.NewReader("x"))
	if _, err := e.HTTPClient(0).Do(req); err == nil || proof.Sent() {
		t.Errorf("refused connection: %v, sent %v", err, proof.Sent())
	}
	if _, err := e.Connect(t.Context(), parse(t, target)); err == nil {
		t.Error("connected to a closed port")
	}

	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	conn, err := e.Connect(t.Context(), parse(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	req, _ = http.NewRequest(http.MethodPost, server.URL, strings.NewReader("x"))
	if _, err := conn.RoundTrip(req); err == nil || conn.Sent() || conn.Usable() {
		t.Errorf("closed connection: %v, sent %v", err, conn.Sent())
	}
}

func TestSentIsNoticed(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 2)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server notice that the client went away
		started <- struct{}{}
		<-r.Context().Done()
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	plain := httptest.NewServer(server.Config.Handler)
	t.Cleanup(plain.Close)
	e := newEgress(t, "127.0.0.1")

	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	var proof egress.Proof
	req, _ := http.NewRequestWithContext(proof.Watch(ctx), http.MethodPost, plain.URL, strings.NewReader("x"))
	if _, err := e.HTTPClient(0).Do(req); err == nil || !proof.Sent() {
		t.Errorf("client: %v, sent %v", err, proof.Sent())
	}

	conn, err := e.Connect(t.Context(), parse(t, plain.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx2, cancel2 := context.WithCancel(t.Context())
	go func() { <-started; cancel2() }()
	req, _ = http.NewRequestWithContext(ctx2, http.MethodPost, plain.URL, strings.NewReader("x"))
	if _, err := conn.RoundTrip(req); err == nil || !conn.Sent() {
		t.Errorf("conn: %v, sent %v", err, conn.Sent())
	}

	// A certificate that nobody vouches for ends before the request.
	var unsent egress.Proof
	req, _ = http.NewRequestWithContext(unsent.Watch(t.Context()), http.MethodPost, server.URL, strings.NewReader("x"))
	if _, err := e.HTTPClient(0).Do(req); err == nil || unsent.Sent() {
		t.Errorf("bad certificate: %v, sent %v", err, unsent.Sent())
	}
}

func TestAConnIsUsedAgainAfterItsAnswerWasRead(t *testing.T) {
	t.Parallel()
	var remotes []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { remotes = append(remotes, r.RemoteAddr) }))
	t.Cleanup(server.Close)
	conn, err := newEgress(t, "127.0.0.1").Connect(t.Context(), parse(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		if !conn.Usable() {
			t.Fatal("not usable")
		}
		req, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader("x"))
		resp, err := conn.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if len(remotes) != 3 || remotes[0] != remotes[2] {
		t.Errorf("remotes %v", remotes)
	}
}
