package faults

import (
	"net/url"
	"testing"

	"github.com/countersign/countersign/test/nemesis/proxy"
)

// through puts a network that can be broken before the server of a URL, and
// gives the URL by which it is reached that way.
func through(t *testing.T, server string) (*proxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	p, err := proxy.Listen("127.0.0.1:0", u.Host)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	u.Host = p.Addr()
	return p, u.String()
}

// breaks sets what is wrong with a network; nothing heals it.
func breaks(t *testing.T, p *proxy.Proxy, f proxy.Faults) {
	t.Helper()
	must(t, p.Set(f))
}

// parted is a network that passes nothing on and tells nobody.
var parted = proxy.Faults{LoseUp: true, LoseDown: true}
