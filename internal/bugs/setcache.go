//go:build bug_setcache

package bugs

// SetCache is the bug that what is projected into Redis replaces what is there, be it newer.
const SetCache = true
