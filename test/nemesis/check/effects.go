package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/rows"
)

// UnsafeOnce is the invariant of unsafe tools.
const UnsafeOnce = "I4: an unsafe call has at most one effect"

// effects compares the ledger with the rows: how often, of what, by whose
// leave.
func effects(f *Facts) (out []Violation) {
	for _, e := range f.Effects {
		if f.calls[e.Call] == nil {
			out = append(out, Violation{Invariant: "I5: nothing runs without a row", Call: e.Call,
				Detail: "the ledger has an effect of a call that does not exist"})
		}
	}
	for i := range f.Rows.Calls {
		c := &f.Rows.Calls[i]
		out = append(out, f.howOften(c)...)
		for _, e := range f.effects[c.ID] {
			out = append(out, f.allowed(c, e)...)
		}
	}
	return out
}

// howOften: I4 by effect class.
func (f *Facts) howOften(c *rows.Call) (out []Violation) {
	did, asked := len(f.effects[c.ID]), f.requests[c.ID]
	switch {
	case c.Effect == "unsafe" && did > 1:
		out = append(out, about(c, UnsafeOnce, "the ledger has %d", did))
	case c.Effect == "keyed" && did > 1:
		out = append(out, about(c, "I4: all attempts of a keyed call carry one key", "its server honours keys and has %d effects", did))
	}
	tries := map[int64]int{}
	for _, r := range asked {
		tries[r.Attempt]++
		if r.Key != c.ID {
			out = append(out, about(c, "I4: all attempts of a call carry one key", "attempt %d came with the key %q", r.Attempt, r.Key))
		}
		if tries[r.Attempt] == 2 {
			out = append(out, about(c, "I4: an attempt is sent once", "attempt %d was sent more than once", r.Attempt))
		}
		if f.attempt(c.ID, r.Attempt) == nil {
			out = append(out, about(c, "I4: every attempt is on the call", "attempt %d was sent and is in no row", r.Attempt))
		}
	}
	if len(asked) > c.MaxAttempts {
		out = append(out, about(c, "I4: a bounded number of attempts", "%d were sent, %d are allowed", len(asked), c.MaxAttempts))
	}
	if c.Run == "succeeded" && did == 0 {
		out = append(out, about(c, "I4: what succeeded was done", "the call succeeded and the ledger has nothing"))
	}
	if c.Resolution == "did-not-happen" && did > 0 {
		out = append(out, about(c, "I4: nobody is heard while an attempt may be alive", "a person who looked said that it did not happen; the ledger has it"))
	}
	return out
}

// allowed: I5 and I6 for one effect.
func (f *Facts) allowed(c *rows.Call, e ledger.Effect) (out []Violation) {
	switch {
	case c.Approval == "" && c.AllowedBy == "":
		out = append(out, about(c, "I5: nothing runs without an approval", "effect %d of a call that nothing allowed", e.N))
	case c.Approval != "" && c.Verdict != "approved":
		out = append(out, about(c, "I6: what is denied, expired, cancelled or superseded has no effect", "effect %d, and its approval is %s", e.N, c.Verdict))
	case c.Run == "" || c.Run == "queued" || c.Run == "stopped":
		out = append(out, about(c, "I6: what never started has no effect", "effect %d, and its run is %q (%s)", e.N, c.Run, c.ErrorText))
	}
	sum := sha256.Sum256(c.Input)
	if hex.EncodeToString(sum[:]) != e.SHA256 {
		out = append(out, about(c, "I5: exactly the approved input runs", "effect %d had input of SHA-256 %s, the row's is %x", e.N, e.SHA256, sum))
	}
	digest := model.Digest(model.TenantID(c.Tenant), model.CallID(c.ID), c.Tool, c.Definition, c.Input)
	if !bytes.Equal(digest, c.Digest) {
		out = append(out, about(c, "I5: exactly the approved input runs", "the row's digest %x is not that of its input, %x", c.Digest, digest))
	}
	if a := f.attempt(c.ID, e.Attempt); a != nil && c.DecidedAt != nil && a.StartedAt.Before(*c.DecidedAt) {
		out = append(out, about(c, "I5: the approval was committed before", "attempt %d started at %s, the decision is of %s", e.Attempt, a.StartedAt, c.DecidedAt))
	}
	if c.Verdict == "approved" && !f.approvedAs(c) {
		out = append(out, about(c, "I5: a committed approval of equal digest", "no %d people approved digest %x", c.Quorum, c.Digest))
	}
	return out
}

// approvedAs tells whether enough people approved exactly what the call is.
func (f *Facts) approvedAs(c *rows.Call) bool {
	people := map[string]bool{}
	for _, d := range f.Rows.Decisions {
		if d.Approval == c.Approval && d.Approved && bytes.Equal(d.Digest, c.Digest) {
			people[d.By] = true
		}
	}
	return len(people) >= max(c.Quorum, 1)
}

// outputs: what a call says that its tool said was said about it, and by the
// attempt that the row says succeeded.
func outputs(f *Facts) (out []Violation) {
	byNumber := map[int]ledger.Effect{}
	for _, e := range f.Effects {
		byNumber[e.N] = e
	}
	for i := range f.Rows.Calls {
		c := &f.Rows.Calls[i]
		var output struct{ Effect int }
		if c.Run != "succeeded" || json.Unmarshal(c.Output, &output) != nil || output.Effect == 0 {
			continue
		}
		e := byNumber[output.Effect]
		if e.Call != c.ID {
			out = append(out, about(c, "I4: a result is of its own call", "its output is %s, which was done for call %s", c.Output, e.Call))
			continue
		}
		for _, a := range f.attempts[c.ID] {
			if a.Outcome == "succeeded" && a.Fence != e.Attempt && c.Effect != "keyed" {
				out = append(out, about(c, "I4: a result is guarded by its own fence",
					"attempt %d is recorded as succeeded with %s, which attempt %d did", a.Fence, c.Output, e.Attempt))
			}
		}
	}
	return out
}

// unsent: an attempt that proved that nothing was sent sent nothing.
func unsent(f *Facts) (out []Violation) {
	for _, a := range f.Rows.Attempts {
		if a.Outcome != "nothing-sent" {
			continue
		}
		for _, r := range f.requests[a.Call] {
			if c := f.calls[a.Call]; r.Attempt == a.Fence && c != nil {
				out = append(out, about(c, "I4: what proved that nothing was sent sent nothing", "attempt %d arrived at the tool (%s)", a.Fence, r.Behave))
			}
		}
	}
	return out
}
