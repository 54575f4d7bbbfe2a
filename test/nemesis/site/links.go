package site

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/countersign/countersign/test/nemesis/proxy"
)

// Link is one connection between two parts, "api-0>postgres", and the proxy
// in it. A link of several clients is one for all of them.
type Link struct {
	Name string
	*proxy.Proxy
}

// link puts a proxy between a name's two parts and gives the address to use
// in the place of the target's.
func (s *Site) link(name, target string) (address string, err error) {
	p, err := proxy.Listen("127.0.0.1:0", target)
	if err != nil {
		return "", fmt.Errorf("link %s: %w", name, err)
	}
	s.links[name] = &Link{name, p}
	return p.Addr(), nil
}

// Link gives a link by its name.
func (s *Site) Link(name string) *Link { return s.links[name] }

// linkURL is a server's URL by way of a link.
func (s *Site) linkURL(name, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Host, err = s.link(name, u.Host)
	return u.String(), err
}

// healLinks takes all faults of the network away.
func (s *Site) healLinks() error {
	var errs []error
	for _, link := range s.links {
		errs = append(errs, link.Heal())
	}
	return errors.Join(errs...)
}

func (s *Site) closeLinks() error {
	var errs []error
	for _, link := range s.links {
		errs = append(errs, link.Close())
	}
	return errors.Join(errs...)
}
