package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
)

// unknown gives a call of unknown outcome, whose attempt's lease ended that
// long ago.
func (s *system) unknown(topic string, ended time.Duration) model.CallID {
	s.t.Helper()
	card := s.card(s.ask(topic, "I will clean up.", `{"path":"old.log"}`).ID)
	yes := true
	by := model.Principal{Tenant: tenant, Key: "all", Subject: "user:bob", Roles: []model.Role{model.RoleApprover}}
	if _, err := s.cases.Decide(s.t.Context(), approval.Origin{By: by, Channel: "api"}, card.Call.Approval.ID, approval.DecisionRequest{Approved: &yes}); err != nil {
		s.t.Fatal(err)
	}
	claim := model.Claim{Token: "token", Worker: "worker-7", Lease: -ended, Digest: card.Call.Digest}
	if _, err := s.store.Claim(s.t.Context(), tenant, card.Call.ID, claim); err != nil {
		s.t.Fatal(err)
	}
	lost := model.Result{Kind: model.ResultUnknown, Text: "The connection broke."}
	if _, err := s.store.Finish(s.t.Context(), tenant, card.Call.ID, 1, "token", lost); err != nil {
		s.t.Fatal(err)
	}
	return card.Call.ID
}

func (b *browser) resolve(topic string, call model.CallID, outcome, evidence string) (int, string) {
	b.t.Helper()
	return b.post("/resolve", url.Values{"topic": {topic}, "call": {string(call)}, "outcome": {outcome}, "evidence": {evidence}})
}

func TestAnUnknownOutcomeIsResolvedOnThePage(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.unknown("t1", time.Hour)
	b := s.signedIn("all", "bob")
	_, page := b.get("/topic?id=t1")
	holds(t, page, "needs attention", "Attempt 1 by worker-7", "The connection broke.", "It happened", "It did not happen", "Nobody can tell", "old.log")
	if status, page := b.resolve("t1", id, "happened", ""); status != http.StatusUnprocessableEntity || !strings.Contains(page, "/evidence") {
		t.Errorf("without evidence: %d", status)
	}
	status, page := b.resolve("t1", id, "happened", " I looked,\r\nit is gone ")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	holds(t, page, "It happened, says", "user:bob", "I looked,\nit is gone")
	if strings.Contains(page, `name="outcome"`) {
		t.Error("the buttons are still there")
	}
	call, err := s.store.Call(t.Context(), tenant, id)
	if err != nil || call.Resolution == nil || call.Resolution.Channel != "page" || call.Resolution.By != "user:bob" {
		t.Errorf("the row says %+v, %v", call.Resolution, err)
	}
	status, page = s.signedIn("all", "carol").resolve("t1", id, "closed", "")
	holds(t, page, "another stands: happened, by user:bob")
	again, same := s.signedIn("all", "carol").resolve("t1", id, "happened", "me too")
	holds(t, same, "This stands already: happened, by user:bob")
	if status != http.StatusConflict || again != http.StatusOK {
		t.Errorf("another: %d, the same: %d", status, again)
	}
}

func TestNobodyAnswersForAnAttemptThatMayBeAlive(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.unknown("t1", -time.Hour)
	b := s.signedIn("all", "bob")
	_, page := b.get("/topic?id=t1")
	holds(t, page, "The attempt may still be alive. Your answer can be taken from")
	status, page := b.resolve("t1", id, "closed", "")
	if status != http.StatusConflict {
		t.Errorf("status %d", status)
	}
	holds(t, page, "the attempt may still be alive for")
}

func TestWhoMayNotDecideDoesNotResolve(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.unknown("t1", time.Hour)
	_, page := s.signedIn("look", "").get("/topic?id=t1")
	holds(t, page, "may look, but not answer")
	if strings.Contains(page, `name="outcome"`) {
		t.Error("there are buttons")
	}
	for key, want := range map[string]int{"look": http.StatusForbidden, "other": http.StatusNotFound} {
		if status, _ := s.signedIn(key, "").resolve("t1", id, "closed", ""); status != want {
			t.Errorf("%s: %d, want %d", key, status, want)
		}
	}
	if status, _ := s.signedIn("all", "bob").post("/resolve?outcome=closed&call="+string(id), url.Values{"topic": {"t1"}}); status != http.StatusNotFound {
		t.Errorf("values in the address: %d", status)
	}
}

func TestACardSaysWhatItMayRepeat(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.unknown("t1", time.Hour)
	s.ask("t1", "Again.", `{"path":"old.log"}`)
	b := s.signedIn("all", "bob")
	_, page := b.get("/topic?id=t1")
	holds(t, page, "Possible duplicate", "whose outcome is not known", string(id))
	b.resolve("t1", id, "did-not-happen", "")
	_, page = b.get("/topic?id=t1")
	holds(t, page, "of which a person found that it did not happen", "It did not happen, says")
}
