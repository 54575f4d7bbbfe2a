//go:build !bug_rerun

package bugs

// RerunUnsafe: an unsafe call whose lease was lost is queued again.
const RerunUnsafe = false
