package check

import (
	"strings"

	"github.com/countersign/countersign/test/nemesis/schedule"
)

// keepsFromReporting tells whether a fault can make a worker lose an attempt
// without having sent anything. A connection that breaks and can be made again
// at once is no such fault: the worker asks again under its token.
func keepsFromReporting(kind schedule.Kind, target string) bool {
	switch kind {
	case schedule.Kill, schedule.Pause, schedule.Terminate:
		return strings.HasPrefix(target, "worker")
	case schedule.PostgresKill:
		return true
	case schedule.Cut, schedule.HalfOpen, schedule.LoseBack, schedule.LoseTo, schedule.Delay:
		return strings.HasPrefix(target, "worker") || target == "workers>tool"
	}
	return false
}
