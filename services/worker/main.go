// The worker runs approved tool calls, each exactly once. Any number of them
// may run.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/worker/server"
)

func main() { daemon.Main(server.Command) }
