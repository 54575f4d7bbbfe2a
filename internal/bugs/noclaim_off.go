//go:build !bug_noclaim

package bugs

// NoClaim is the bug that a worker believes its message, and runs a call whether its claim
// was committed or refused.
const NoClaim = false
