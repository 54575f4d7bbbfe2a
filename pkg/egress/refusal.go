package egress

import (
	"fmt"
	"net"
	"sync"
)

// refusal remembers that the guard said no to an address of one dial; the
// dialer may try several addresses at once.
type refusal struct {
	mu    sync.Mutex
	first error
}

// note keeps the first refusal and returns it for the dialer.
func (r *refusal) note(address string, err error) error {
	if err == nil {
		return nil
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		host = address
	}
	err = fmt.Errorf("%w: %s is a private, loopback or reserved address; to allow it, list it in COUNTERSIGN_ALLOW_TARGETS (%w)", ErrRefused, host, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = err
	}
	return err
}

func (r *refusal) cause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}
