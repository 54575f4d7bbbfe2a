//go:build bug_nofence

package bugs

// NoFence: a result is taken whichever attempt it is of.
const NoFence = true
