//go:build bug_nofence

package bugs

// NoFence is the bug that a result is taken whichever attempt it is of.
const NoFence = true
