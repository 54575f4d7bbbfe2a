package daemon

import "runtime/debug"

// garbagePercent lets the heap grow to five times what is in use before it is
// collected. A node holds some ten megabytes and makes garbage at a hundred
// megabytes a second: at the usual 100 it would collect many times a second,
// which took a seventh of its CPU.
const garbagePercent = 400

// CollectSeldom sets that for a process that runs nodes, unless the operator
// said something else with GOGC.
// GOMEMLIMIT bounds the heap as always.
func CollectSeldom(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
