package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// ErrRefused is wrapped by every refusal: the target is not one that may be
// called, however often it is tried. Nothing was sent.
var ErrRefused = errors.New("target refused")

const (
	// dialTimeout bounds one connection attempt: a live server answers a SYN
	// within a few round trips, also after a lost one.
	dialTimeout = 10 * time.Second
	// idleTimeout is shorter than the time after which common servers close
	// an idle connection (Node: 5 s), so that we are the first to let go and
	// no request meets a connection that is being closed.
	idleTimeout = 3 * time.Second
	// maxHeaderBytes bounds the header block of an answer.
	maxHeaderBytes = 64 << 10
)

// Egress connects to targets that the guard lets through. It is safe for
// concurrent use.
type Egress struct {
	guard     *ssrf.Guardian
	hosts     map[string]bool
	transport *http.Transport
}

// NewEgress makes an Egress whose allow list holds CIDRs ("10.1.0.0/16"),
// addresses ("127.0.0.1") and host names ("localhost", "tools.internal"). A
// listed host may resolve to any address. Blank entries are skipped.
func NewEgress(allow []string) (*Egress, error) {
	e := &Egress{hosts: map[string]bool{}}
	var v4, v6 []netip.Prefix
	for _, entry := range allow {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		prefix, isPrefix, err := parsePrefix(entry)
		switch {
		case err != nil:
			return nil, err
		case !isPrefix:
			e.hosts[canonicalHost(entry)] = true
		case prefix.Addr().Is4():
			v4 = append(v4, prefix)
		default:
			v6 = append(v6, prefix)
		}
	}
	e.guard = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	e.transport = e.newTransport()
	return e, nil
}

func parsePrefix(entry string) (netip.Prefix, bool, error) {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		return prefix.Masked(), true, nil
	}
	if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), true, nil
	}
	if strings.ContainsAny(entry, "/:@ *") {
		return netip.Prefix{}, false, fmt.Errorf("allowed target %q: write a CIDR (10.0.0.0/8), an address or a host name without scheme, port or wildcard", entry)
	}
	return netip.Prefix{}, false, nil
}

func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

func (e *Egress) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // the environment must not redirect what was approved
		DialContext:            e.dial,
		Protocols:              protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		DisableCompression:     true,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    64,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// HTTPClient gives a client that goes through the guard and follows no
// redirect: the 3xx answer itself is returned. timeout bounds a whole
// exchange, body included; zero leaves that to the request's context.
// Clients of one Egress share their idle connections.
func (e *Egress) HTTPClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport:     e.transport,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Check refuses URLs that could never be a target: another scheme than http
// and https, no host, credentials in front of the host. Addresses are checked
// when they are connected to.
func Check(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the URL cannot be parsed", ErrRefused)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%w: the URL's scheme is %q; use http or https", ErrRefused, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: the URL names no host", ErrRefused)
	case u.User != nil:
		return nil, fmt.Errorf("%w: the URL carries credentials; put them into a header", ErrRefused)
	}
	return u, nil
}

// dial connects through the guard and counts what is written.
func (e *Egress) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	var refused refusal
	if host, _, err := net.SplitHostPort(address); err != nil || !e.hosts[canonicalHost(host)] {
		dialer.Control = func(network, address string, raw syscall.RawConn) error {
			return refused.note(address, e.guard.Safe(network, address, raw))
		}
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		// Of several addresses the dialer reports one failure; a refusal
		// among them is the one that will not go away.
		if cause := refused.cause(); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	metered := &meteredConn{Conn: conn}
	if report, ok := ctx.Value(dialedKey{}).(func(*meteredConn)); ok {
		report(metered)
	}
	return metered, nil
}
