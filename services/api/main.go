// The api answers chat backends and people: it registers turns, takes
// decisions and shows what happens. Any number of them may run.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/api/server"
)

func main() { daemon.Main(server.Command) }
