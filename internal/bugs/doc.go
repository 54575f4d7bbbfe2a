// Package bugs are known ways to get this system wrong, one constant for
// each. They are all false: the compiler removes what they guard, and nothing
// of them is in any program that is built without their tags. With its tag
// one of them is true, and the harness of test/nemesis has to find it; a
// harness that finds no bug that is there would prove nothing by finding none.
//
// It imports nothing, and whoever mends one of these for good has misread it.
package bugs

// All names every bug by its build tag.
var All = []string{"bug_nolock", "bug_noclaim", "bug_rerun", "bug_nofence", "bug_setcache", "bug_lostcommit", "bug_reply"}
