package main

import (
	"fmt"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/store"
)

// verifyReport is what verify found.
type verifyReport struct {
	found  []store.Violation
	cut    []store.AuditHead // that were kept and are not there any more
	heads  []store.AuditHead
	atRest bool
}

func (r verifyReport) show(out output) error {
	if out.json {
		return out.document(r.document())
	}
	r.showFound(out)
	for _, head := range r.cut {
		out.say("I10 head %s=%s is not in the chain: its end was cut off, or another chain was put in its place; compare with a backup", head.Tenant, head)
	}
	if len(r.found)+len(r.cut) == 0 {
		out.say("%d invariants hold", r.asked())
	}
	for _, head := range r.heads {
		out.say("audit head %s=%s", head.Tenant, head)
	}
	return nil
}

func (r verifyReport) asked() int {
	n := 0
	for _, i := range store.Invariants() {
		if !i.AtRest || r.atRest {
			n++
		}
	}
	return n
}

// showFound prints a table for each invariant that is violated, with what it
// says and what to look at.
func (r verifyReport) showFound(out output) {
	for begin := 0; begin < len(r.found); {
		invariant, end := r.found[begin].Invariant, begin
		table := terminal.Table{Header: []string{"TENANT", "TOPIC", "TURN", "CALL", "WHAT"}}
		for ; end < len(r.found) && r.found[end].Invariant.Name == invariant.Name; end++ {
			v := r.found[end]
			table.Rows = append(table.Rows, []terminal.Cell{
				terminal.Text(string(v.Tenant)), {Text: string(v.Topic), Style: terminal.Bold},
				terminal.Text(string(v.Turn)), terminal.Text(string(v.Call)), terminal.Text(v.Detail),
			})
		}
		out.say("%s %s: violated by %d. %s", invariant.Number, invariant.Name, end-begin, invariant.Sentence)
		out.Table(table)
		out.say("Look at %s", invariant.Next)
		fmt.Fprintln(out.Out)
		begin = end
	}
}

// verifyDocument is the report as JSON.
type verifyDocument struct {
	Holds      bool                `json:"holds"`
	Asked      int                 `json:"asked"`
	Violations []violationDocument `json:"violations"`
	CutHeads   []headDocument      `json:"cutHeads"`
	Heads      []headDocument      `json:"heads"`
}

type violationDocument struct {
	Invariant string `json:"invariant"`
	Check     string `json:"check"`
	Sentence  string `json:"sentence"`
	Tenant    string `json:"tenant"`
	Topic     string `json:"topic,omitempty"`
	Turn      string `json:"turn,omitempty"`
	Call      string `json:"call,omitempty"`
	Detail    string `json:"detail"`
	Next      string `json:"next"`
}

type headDocument struct {
	Tenant string `json:"tenant"`
	Head   string `json:"head"`
}

func (r verifyReport) document() verifyDocument {
	d := verifyDocument{
		Holds: len(r.found)+len(r.cut) == 0, Asked: r.asked(),
		Violations: []violationDocument{}, CutHeads: headDocuments(r.cut), Heads: headDocuments(r.heads),
	}
	for _, v := range r.found {
		d.Violations = append(d.Violations, violationDocument{
			Invariant: v.Invariant.Number, Check: v.Invariant.Name, Sentence: v.Invariant.Sentence, Tenant: string(v.Tenant),
			Topic: string(v.Topic), Turn: string(v.Turn), Call: string(v.Call), Detail: v.Detail, Next: v.Invariant.Next,
		})
	}
	return d
}

func headDocuments(heads []store.AuditHead) []headDocument {
	out := []headDocument{}
	for _, h := range heads {
		out = append(out, headDocument{string(h.Tenant), h.String()})
	}
	return out
}
