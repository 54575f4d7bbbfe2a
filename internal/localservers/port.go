package localservers

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/internal/owner"
)

const loopback = "127.0.0.1"

// errPortTaken says that a server found its port in use.
var errPortTaken = errors.New("port in use")

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// portTaken is errPortTaken with the name of whoever has the port.
func portTaken(port int) error {
	if holder, found := owner.Port(loopback, port); found {
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
		if port, err = freeport.Find(); err != nil {
			return 0, err
		}
		if err = start(port); !errors.Is(err, errPortTaken) {
			return port, err
		}
	}
	return 0, err
}
