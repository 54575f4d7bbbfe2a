// The continuer moves conversations on: it reads what is due from committed
// rows, hints at runs, and hands continuations to their sinks. Any number of
// them may run.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/continuer/server"
)

func main() { daemon.Main(server.Command) }
