package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/tool"
)

const (
	// startTimeout bounds the start of a command, which may have to fetch its
	// program first (npx), and the handshake.
	startTimeout = 60 * time.Second
	// connectTimeout bounds the handshake with a URL.
	connectTimeout = 15 * time.Second
	// closeTime is what a session gets to end in an orderly way.
	closeTime = 3 * time.Second
	// restTime is how long an HTTP session may rest before it is asked
	// whether it still exists.
	restTime = 5 * time.Second
)

var errSessionClosed = errors.New("the session with the server was closed")

// session is one connection to one server, for many calls at once.
type session struct {
	client *sdk.ClientSession
	http   bool
	life   context.Context
	kill   context.CancelFunc // ends life, which breaks the transport at once
	dead   chan struct{}      // closed when nothing of the session is left

	mu       sync.Mutex
	lastUsed time.Time
	tools    map[string]Imported // nil: to be listed
	changes  int                 // how often the server said that they changed
	listing  chan struct{}       // holds the one that lists them
}

// dialer is what a session needs to know to come about.
type dialer struct {
	egress  *egress.Egress
	log     *slog.Logger
	changed func(*session)
}

// dial starts or connects to the server and shakes hands, within ctx. The
// session outlives ctx.
func (d dialer) dial(ctx context.Context, server model.MCPServer) (*session, error) {
	life, kill := context.WithCancel(context.Background())
	s := &session{life: life, kill: kill, dead: make(chan struct{}), lastUsed: time.Now(), listing: make(chan struct{}, 1), http: server.URL != ""}
	transport, stderr, timeout, err := d.transport(s, server)
	if err != nil {
		kill()
		return nil, err
	}
	shake, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The SDK does not bound every step of the handshake by its context:
	// breaking the transport does.
	stop := context.AfterFunc(shake, kill)
	s.client, err = d.newClient(s).Connect(shake, transport, nil)
	switch {
	case !stop() && err == nil: // too late: the transport is broken already
		_ = s.client.Close()
		return nil, shake.Err()
	case err != nil:
		kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, explain(server, err, shake.Err(), stderr)
	}
	go func() {
		_ = s.client.Wait()
		kill()
		close(s.dead)
	}()
	return s, nil
}

func (d dialer) newClient(s *session) *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "countersign", Version: "1"}, &sdk.ClientOptions{
		Logger:       d.log,
		Capabilities: &sdk.ClientCapabilities{}, // nobody is here to be asked or sampled
		// The SDK would answer a server's questions and send the call again.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			s.mu.Lock()
			s.tools = nil
			s.changes++
			s.mu.Unlock()
			d.changed(s)
		},
	})
}

func (d dialer) transport(s *session, server model.MCPServer) (sdk.Transport, *tail, time.Duration, error) {
	switch {
	case server.URL != "" && len(server.Command) > 0:
		return nil, nil, 0, fmt.Errorf("%w: the server %q has both a URL and a command", tool.ErrForGood, server.Name)
	case len(server.Command) > 0 && server.Command[0] != "":
		p := &process{command: server.Command, env: server.Env, life: s.life, ended: s.kill}
		return p, &p.stderr, startTimeout, nil
	case server.URL == "":
		return nil, nil, 0, fmt.Errorf("%w: the server %q has neither a URL nor a command", tool.ErrForGood, server.Name)
	}
	if _, err := egress.Check(server.URL); err != nil {
		return nil, nil, 0, fmt.Errorf("%w: %w", tool.ErrForGood, err)
	}
	client := d.egress.HTTPClient(0)
	client.Transport = &tapTransport{next: client.Transport, headers: server.Headers, life: s.life}
	return &sdk.StreamableClientTransport{Endpoint: server.URL, HTTPClient: client, MaxEventSize: maxAnswerBytes},
		&tail{}, connectTimeout, nil
}

// explain words why no session came about.
func explain(server model.MCPServer, err, timeout error, stderr *tail) error {
	if errors.Is(err, egress.ErrRefused) {
		return fmt.Errorf("%w: %w", tool.ErrForGood, err)
	}
	if timeout != nil {
		err = errors.New("it did not answer in time")
	}
	text := fmt.Sprintf("connect to the MCP server %q: %v", server.Name, err)
	if said := strings.TrimSpace(stderr.String()); said != "" {
		text += "; it wrote: " + tool.Text([]byte(said))
	}
	return errors.New(text)
}

func (s *session) alive() bool { return s.life.Err() == nil }

// touch notes that the session is used, and asks one over HTTP that has
// rested whether it still exists: a restarted server has forgotten it, and
// that is better learned before a call than by it.
func (s *session) touch(ctx context.Context) error {
	s.mu.Lock()
	rested := time.Since(s.lastUsed)
	s.lastUsed = time.Now()
	s.mu.Unlock()
	if !s.http || rested < restTime || s.client.ID() == "" {
		return nil
	}
	if err := s.client.Ping(ctx, nil); err != nil {
		return fmt.Errorf("the session does not answer: %w", err)
	}
	return nil
}

// close ends the session: at once if calls are to be broken off, else in an
// orderly way for as long as that takes little time.
func (s *session) close(now bool) {
	if now {
		s.kill()
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.client.Close() }()
	select {
	case <-done:
	case <-time.After(closeTime):
	}
	s.kill()
	<-done
	<-s.dead
}
