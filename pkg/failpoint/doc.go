// Package failpoint lets a process fail at a named place: die, stop, lose an
// answer, be slow. The places are the gaps between two actions that somebody
// outside can see, such as a commit and the message about it, since those are
// where a crash can leave one done and the other not.
//
// Fail points exist only in programs built with the tag failpoints. Without
// it every function here is empty and inlined, and nothing of this package is
// in the program; a test looks. With it they do nothing until one is armed by
// COUNTERSIGN_FAIL:
//
//	COUNTERSIGN_FAIL=decide.after-commit=kill@3,claim.before-commit=error@1x2
//
// An item is point=action, and may end with @n, the hit that fires, instead of
// the first, and after it with xm, for m hits from there on. The actions:
//
//	kill         SIGKILL to itself, as a power cut
//	stop         SIGSTOP to itself; somebody sends SIGCONT, if they like after
//	             longer than a lease
//	error        the place fails with [ErrInjected]: before an action it is not
//	             done, after an action its answer is lost
//	delay(time)  a pause, such as delay(200ms); no longer than the action it is
//	             a part of may take
//	panic        what a bug would do
//
// An unknown point or action ends the program at its start, with the list of
// those that are known. Every firing is written to stderr before it happens.
//
// It imports nothing of ours, so that every package may be made to fail.
package failpoint
