package store

import (
	"slices"
	"strings"
)

// Invariant is one question to the rows whose answer must be empty. The list
// of them is what [Store.Verify] asks; each is of one of the invariants I1 to
// I10 that package model names.
type Invariant struct {
	Number   string // "I2"
	Name     string // "one-continuation", unique
	Sentence string // what must hold
	Next     string // what to look at where it does not
	// AtRest: it must hold once nothing is under way any more. The others
	// hold in every snapshot, whatever is under way.
	AtRest bool

	// sql gives a row per violation: tenant, topic, turn, call, what is wrong.
	// A table in braces stands for the whole table, or for what a window
	// leaves of it; @since is the window's begin, @late how long something at
	// rest may be overdue.
	sql string
}

// Invariants lists every invariant that rows can show, by number.
func Invariants() []Invariant {
	all := slices.Concat(invariantsOfVerdicts, invariantsOfTurns, invariantsOfRuns, invariantsOfPointers, invariantsAtRest, invariantsOfAudit)
	slices.SortStableFunc(all, func(a, b Invariant) int { return number(a) - number(b) })
	return all
}

func number(i Invariant) int {
	n := 0
	for _, digit := range i.Number[1:] {
		n = n*10 + int(digit-'0')
	}
	return n
}

// everywhere asks of whole tables.
var everywhere = strings.NewReplacer(
	"{topics}", "topics", "{turns}", "turns", "{calls}", "calls", "{approvals}", "approvals", "{decisions}", "decisions",
	"{attempts}", "attempts", "{continuations}", "continuations", "{messages}", "messages", "{audit}", "audit", "{chain}", "audit_chain",
)

// inWindow asks of some turns (@tenants, @turns), of what belongs to them, and
// of the audit since @since. Every table is read by an array of keys, so that
// the cost is that of the window, whatever the size of the tables.
var inWindow = strings.NewReplacer(
	"{turns}", ofTurns("turns"), "{calls}", ofTurns("calls"), "{approvals}", ofTurns("approvals"),
	"{continuations}", ofTurns("continuations"),
	"{decisions}", `(select * from decisions where tenant_id = any(@tenants::text[]) and approval_id = any(array(
	                 select approval_id from `+ofTurns("approvals")+` a)))`,
	"{attempts}", `(select * from attempts where tenant_id = any(@tenants::text[]) and call_id = any(array(
	                 select call_id from `+ofTurns("calls")+` c)))`,
	"{topics}", topicsOfTurns,
	"{messages}", `(select m.* from `+topicsOfTurns+` p join messages m on m.tenant_id = p.tenant_id and m.topic_id = p.topic_id
	                 and m.position > p.messages - 100)`,
	"{audit}", `(select * from audit where xid >= @xid and at >= @since::timestamptz)`,
	"{chain}", `(select c.* from unnest(@tenants::text[]) as t (id) cross join lateral (
	                 select * from audit_chain c where c.tenant_id = t.id order by seq desc limit 1000) c)`,
)

var topicsOfTurns = `(select * from topics where tenant_id = any(@tenants::text[]) and topic_id = any(array(
	                 select topic_id from ` + ofTurns("turns") + ` t)))`

func ofTurns(table string) string {
	return `(select * from ` + table + ` where tenant_id = any(@tenants::text[]) and turn_id = any(@turns::uuid[]))`
}

const settledStates = `('output-available', 'output-error', 'output-denied')`
