package localservers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/countersign/countersign/internal/owner"
)

const loopback = "127.0.0.1"

// The ports to choose from lie below the range from which Linux serves
// outgoing connections (32768 and up), so that no connection sits on a
// server's port while that server is being restarted.
const firstPort, lastPort = 20000, 32000

// errPortTaken says that a server found its port in use.
var errPortTaken = errors.New("port in use")

// freePort finds a port on which nothing listens. Another process may take it
// before the server does; starting is then tried again with another one.
func freePort() (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		listener, err := net.Listen("tcp", address(port))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d on %s", firstPort, lastPort, loopback)
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// portTaken is errPortTaken with the name of whoever has the port.
func portTaken(port int) error {
	if holder, found := owner.Port(port); found {
		return fmt.Errorf("%w: %s belongs to %s; stop it or choose another port", errPortTaken, address(port), holder)
	}
	return fmt.Errorf("%w: %s belongs to another process; stop it or choose another port", errPortTaken, address(port))
}

// onPort starts a server on the wanted port, or for 0 on a free one, trying
// others when somebody is faster. It returns the port that was used.
func onPort(wanted int, start func(port int) error) (int, error) {
	if wanted != 0 {
		return wanted, start(wanted)
	}
	var err error
	for range 5 {
		var port int
		if port, err = freePort(); err != nil {
			return 0, err
		}
		if err = start(port); !errors.Is(err, errPortTaken) {
			return port, err
		}
	}
	return 0, err
}
