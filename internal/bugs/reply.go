//go:build bug_reply

package bugs

// Reply is the bug that a message which is posted again is replied to again.
const Reply = true
