//go:build !bug_nolock

package bugs

// NoTurnLock is the bug that transactions read their turns without locking them, so that of
// two at once each counts what the other is about to change.
const NoTurnLock = false
