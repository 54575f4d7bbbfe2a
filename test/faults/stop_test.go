package faults

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// mostStopping is how long a service may take to stop.
const mostStopping = 30 * time.Second

// Fault 71: every process is told to stop in turn, while people decide and
// tools run. Behind a load balancer that asks /readyz nobody notices: no request
// is refused, none is cut, and no outcome is unknown.
func TestFault71EveryNodeStopsUnderLoad(t *testing.T) {
	t.Parallel()
	d, w := behindABalancer(t)
	w.takesTime(300 * time.Millisecond)
	w.start(4).goesOn(8)
	for _, service := range each(d) {
		begin := time.Now()
		if err := service.Stop(syscall.SIGTERM); err != nil {
			t.Errorf("it did not end well: %v", err)
		}
		if took := time.Since(begin); took > mostStopping {
			t.Errorf("%s took %s to stop", service.Name, took)
		}
		w.goesOn(4)
		service.Start()
		service.Ready()
		w.goesOn(4)
	}
	if unknown := w.keepsItsPromises(); unknown > 0 || w.cut > 0 || w.refused > 0 {
		t.Errorf("%d outcomes are unknown, %d requests were cut and %d refused", unknown, w.cut, w.refused)
	}
}

// behindABalancer is two of each service, and traffic that comes to the api
// nodes as their load balancer sends it.
func behindABalancer(t *testing.T) (*testcluster.Deployment, *traffic) {
	t.Helper()
	d := testcluster.Servers(t)
	for i := range 2 {
		d.StartAPI(i, "COUNTERSIGN_API_DRAIN=1s")
		d.StartWorker(i)
		d.StartContinuer(i)
	}
	d.Ready()
	w := newTraffic(t, d)
	w.nodes = []*client.Client{client.New(balanced(t, d), d.Key, client.WithTries(1), client.WithActor("user:bob"))}
	return d, w
}

// each is every process of a deployment, one node after the other.
func each(d *testcluster.Deployment) []*testcluster.Service {
	return []*testcluster.Service{d.API[0], d.Workers[0], d.Continuers[0], d.API[1], d.Workers[1], d.Continuers[1]}
}

// takesTime lets the tool take some time, so that processes stop while it runs.
func (w *traffic) takesTime(d time.Duration) {
	w.t.Helper()
	slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			w.tool.Config.Handler.ServeHTTP(rw, r)
		case <-r.Context().Done():
		}
	}))
	w.t.Cleanup(slow.Close)
	tool := w.tool.tool()
	tool.HTTP.URL = slow.URL
	_, err := client.New(w.d.API[0].URL, w.d.Key).PutTool(w.t.Context(), "write", tool)
	must(w.t, err)
}

// balanced is the address of a load balancer before the api nodes. It keeps
// connections to those that are ready, and sends each request once.
func balanced(t *testing.T, d *testcluster.Deployment) string {
	t.Helper()
	b := &balancer{}
	for _, api := range d.API {
		b.nodes = append(b.nodes, api.URL)
	}
	ctx, stop := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		b.watch(ctx)
	}()
	b.look(ctx)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(b.pick()) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 16},
		ErrorHandler: func(rw http.ResponseWriter, r *http.Request, err error) {
			t.Errorf("%s %s was answered with a broken connection: %v", r.Method, r.URL, err)
			rw.WriteHeader(http.StatusBadGateway)
		},
	})
	t.Cleanup(func() {
		proxy.Close()
		stop()
		<-watched
	})
	return proxy.URL
}
