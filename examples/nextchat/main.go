// Command nextchat is an example of a page: an unmodified useChat of the AI
// SDK in a browser, which talks to Countersign's nodes itself. What is here is
// the page's own backend: it serves the page, knows who the person is, and
// mints the person's token with its key, which no browser sees.
//
//	npm ci && npm run build
//	go run . --url http://127.0.0.1:8787 --key cs_…
//
// README.md beside it says more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/countersign/countersign/pkg/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "nextchat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) error {
	flags := flag.NewFlagSet("nextchat", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", getenv("COUNTERSIGN_URL"), "`addresses` of Countersign's nodes, with commas; COUNTERSIGN_URL by default")
	key := flags.String("key", getenv("COUNTERSIGN_API_KEY"), "API `key` with the role backend, whose tokens may decide; COUNTERSIGN_API_KEY by default")
	listen := flags.String("listen", "127.0.0.1:3000", "`address` of the page")
	dist := flags.String("dist", "dist", "`folder` of the built page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *url == "" || *key == "" {
		return errors.New("name the server and the key with --url and --key, or COUNTERSIGN_URL and COUNTERSIGN_API_KEY")
	}
	if _, err := os.Stat(*dist + "/page.js"); err != nil {
		return errors.New("the page is not built; in examples/nextchat: npm ci && npm run build")
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	log.Info("look", "url", "http://"+listener.Addr().String())
	page := newPage(strings.Split(*url, ","), *key, *dist, log)
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// page is the page's backend.
type page struct {
	nodes []string
	keys  []*client.Client // of each node
	log   *slog.Logger
}

func newPage(nodes []string, key, dist string, log *slog.Logger) http.Handler {
	p := &page{nodes: nodes, log: log}
	for _, node := range nodes {
		p.keys = append(p.keys, client.New(node, key, client.WithTries(1)))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServer(http.Dir(dist)))
	mux.HandleFunc("GET /session", p.session)
	policy := "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' " + strings.Join(nodes, " ") +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// session is what the page needs to talk to Countersign as a person. Here
// anybody may say who they are; a real backend asks its own sign-in, and
// whether the person may see the topic.
type session struct {
	Nodes     []string  `json:"nodes"`
	Token     string    `json:"token"`
	Subject   string    `json:"subject"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func (p *page) session(w http.ResponseWriter, r *http.Request) {
	topic, person := r.URL.Query().Get("chat"), r.URL.Query().Get("as")
	token, err := p.mint(r.Context(), client.TokenRequest{Subject: "user:" + person, Topics: []string{topic}, ExpiresIn: "15m"})
	if err != nil {
		p.log.Warn("cannot mint a token", "error", err)
		http.Error(w, "There is no session to be had now.", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(session{p.nodes, token.Token, token.Subject, token.ExpiresAt})
}

// mint asks one node after the other: any of them will do.
func (p *page) mint(ctx context.Context, request client.TokenRequest) (token client.Token, err error) {
	for _, node := range p.keys {
		if token, err = node.MintToken(ctx, request); err == nil {
			return token, nil
		}
	}
	return token, err
}
