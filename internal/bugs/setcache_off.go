//go:build !bug_setcache

package bugs

// SetCache: what is projected into Redis replaces what is there, be it newer.
const SetCache = false
