package model

import "strings"

// seededBug is a rule done wrong: spoil changes what an event left behind to
// what the wrong rule would have left.
type seededBug struct {
	live   bool // shows in a turn that streams
	crash  bool // shows when a worker dies
	spoil  func(e string, before, after *small)
	breaks string
}

var seededBugs = map[string]seededBug{
	"no claim: whoever looks at it runs it": {breaks: "an unsafe tool had its effect twice (I4)",
		spoil: func(e string, before, after *small) {
			if h := 1; e == "1 claims 0" && before.turn.Calls[0].Run == RunStarted {
				c := after.turn.Calls[0]
				after.workers[h] = hand{call: 0, fence: c.Fence, token: c.ClaimToken}
			}
		}},

	"two-step decider: siblings are read before the lock": {breaks: "there is no continuation (I2)",
		spoil: func(e string, before, after *small) {
			if isVerdict(e) && before.turn.Continuation == nil {
				after.turn.Continuation = nil
			}
		}},

	"a decision in place of another": {breaks: "a verdict was changed (I1)",
		spoil: func(e string, _, after *small) {
			if c := after.turn.Calls[0]; e == "bob denies 0" && c.Approval.State == ApprovalApproved && c.Run == RunNone {
				c.Approval.State, c.State = ApprovalDenied, CallOutputDenied
				c.Changed, c.Approval.Changed = true, true
				recount(after.turn)
			}
		}},

	"an unsafe call is run again after a lost lease": {breaks: "an unsafe call was started again (I4)",
		spoil: func(e string, _, after *small) {
			if c := after.turn.Calls[0]; e == "lose the lease of 0" && c.Run == RunUnknown && after.turn.Ended == "" {
				c.Run, c.Outcome, c.ClaimToken, c.Uncertain = RunQueued, "", "", true
				recount(after.turn)
			}
		}},

	"no fence: an old attempt's result ends the new attempt": {breaks: "an attempt is open",
		spoil: func(e string, before, after *small) {
			for h, was := range before.workers {
				if strings.Contains(e, " finishes succeeded") && was.call == 1 && after.workers[h].call < 0 {
					c := after.turn.Calls[1]
					if c.Run == RunStarted && c.Fence > was.fence {
						c.Run, c.State, c.Changed = RunSucceeded, CallOutputAvailable, true
						recount(after.turn)
					}
				}
			}
		}},

	"a continuation at the last decision": {breaks: "a continuation before everything is settled (I2)",
		spoil: func(e string, _, after *small) {
			if t := after.turn; isVerdict(e) && t.OpenApprovals == 0 && t.Continuation == nil && t.Ended == "" {
				t.Continuation = &Continuation{State: ContinuationReady, Changed: true}
			}
		}},

	"a continuation while the stream goes on": {live: true, breaks: "a continuation before everything is settled (I2)",
		spoil: func(_ string, _, after *small) {
			if t := after.turn; t.OpenCalls == 0 && t.Continuation == nil && t.Ended == "" {
				t.Continuation = &Continuation{State: ContinuationReady, Changed: true}
			}
		}},

	"an ended turn queues a call again": {breaks: "an ended turn has something to run (I6)",
		spoil: func(e string, _, after *small) {
			if c := after.turn.Calls[1]; e == "lose the lease of 1" && after.turn.Ended != "" && c.Run == RunUnknown {
				c.Run, c.Outcome, c.ClaimToken = RunQueued, "", ""
				recount(after.turn)
			}
		}},

	"cancel leaves queued calls": {breaks: "an ended turn has something to run (I6)",
		spoil: func(e string, before, after *small) {
			if c := after.turn.Calls[0]; e == "cancel" && before.turn.Calls[0].Run == RunQueued {
				*c = *before.turn.Calls[0]
				c.Changed = true
				recount(after.turn)
			}
		}},

	"an edit that nobody approved runs": {breaks: "a run that nobody allowed (I5)",
		spoil: func(e string, _, after *small) {
			if c := after.turn.Calls[0]; e == "ann approves 0" && c.Changed {
				c.Digest = []byte("other")
			}
		}},

	"a counter is forgotten": {breaks: "counters of the turn",
		spoil: func(e string, before, after *small) {
			if e == "expire 0" {
				after.turn.OpenApprovals = before.turn.OpenApprovals
			}
		}},

	"a change is not marked": {breaks: "not marked",
		spoil: func(e string, _, after *small) {
			if strings.Contains(e, "finishes") {
				after.turn.Changed = false
			}
		}},

	"accepted twice": {breaks: "two turns completed after one (I2)",
		spoil: func(e string, before, after *small) {
			if e == "a turn accepts" && before.next != nil && !before.next.Discarded {
				after.followers++
				after.next = &Turn{ID: "other", Continues: after.turn.ID, Changed: true}
				after.turn.Continuation.AcceptedBy, after.turn.Continuation.Changed, after.turn.Changed = "other", true, true
			}
		}},

	"what the dead turn had accepted is not returned": {breaks: "accepted by a turn that is not there (I2)",
		spoil: func(e string, before, after *small) {
			if e == "the next turn's stream dies" {
				k := *before.turn.Continuation
				k.Changed = true
				after.turn.Continuation = &k
			}
		}},

	"no sweep takes lost leases": {crash: true, breaks: "stranded (I8)",
		spoil: func(e string, before, after *small) {
			if strings.HasPrefix(e, "lose the lease") {
				*after = *before.load()
			}
		}},
}

func isVerdict(e string) bool {
	return strings.HasPrefix(e, "ann approves") || strings.HasPrefix(e, "bob denies")
}

// recount leaves the counters as the rules would, so that the bug shows in
// what it does and not in its bookkeeping.
func recount(t *Turn) {
	t.count()
	t.Changed = true
}
