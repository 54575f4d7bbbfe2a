// Package freeport finds ports of the loopback interface for servers that are
// about to be started, and keeps them from everybody else who asks here.
//
// A port that was free a moment ago may be taken by two kinds of others. The
// one is an outgoing connection: so ports lie below the range from which Linux
// serves those. The other is a server that was given the same port, by another
// process of the same test run or while the first server was down: so a port
// is reserved for as long as this process lives, by a listener on the same
// port of another loopback address, which the kernel takes back whatever
// becomes of the process.
//
// It imports nothing but the standard library.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// The ports to choose from; outgoing connections begin at 32768.
const first, last = 20000, 32000

const (
	loopback = "127.0.0.1"
	beside   = "127.0.0.2" // exists on Linux without being set up
)

var (
	mu   sync.Mutex
	held []net.Listener // the reservations of this process
)

// Find gives a port of 127.0.0.1 on which nothing listens.
func Find() (int, error) {
	for range 200 {
		port := first + rand.IntN(last-first)
		if reserve(port) && free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d on %s", first, last, loopback)
}

// Address is [Find] as "127.0.0.1:port".
func Address() (string, error) {
	port, err := Find()
	return address(loopback, port), err
}

// reserve tells whether nobody else has reserved the port; where there is no
// second address, nobody reserves any.
func reserve(port int) bool {
	l, err := net.Listen("tcp", address(beside, port))
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return true
	case err != nil:
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	held = append(held, l)
	return true
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(loopback, port))
	return err == nil && l.Close() == nil
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
