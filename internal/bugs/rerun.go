//go:build bug_rerun

package bugs

// RerunUnsafe is the bug that an unsafe call whose lease was lost is queued again.
const RerunUnsafe = true
