//go:build bug_lostcommit

package bugs

// LostCommit is the bug that a commit that was answered with an error is taken for one that
// did not happen, and nobody looks.
const LostCommit = true
