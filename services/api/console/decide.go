package console

import (
	"errors"
	"net/http"
	"strings"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// channel is where decisions of this page come from, in the audit.
const channel = "page"

// decide answers a card. What stands afterwards is shown in any case.
func (c *Console) decide(w http.ResponseWriter, r *http.Request, p model.Principal) {
	topic := model.TopicID(r.PostFormValue("topic"))
	id, err := model.ParseUUID[model.ApprovalID](r.PostFormValue("approval"))
	verdict := r.PostFormValue("verdict")
	if err != nil || verdict != "approve" && verdict != "deny" {
		c.show(w, r, p, topic, http.StatusNotFound, refusal("There is no such card."))
		return
	}
	approved := verdict == "approve"
	decided, err := c.UseCases.Decide(r.Context(), approval.Origin{By: p, Channel: channel}, id, approval.DecisionRequest{
		Approved: &approved, Digest: r.PostFormValue("digest"),
		// Browsers send line breaks of forms as CR LF.
		Reason: strings.ReplaceAll(strings.TrimSpace(r.PostFormValue("reason")), "\r\n", "\n"),
	})
	status, n := outcome(decided, err)
	switch {
	case n == nil:
		c.fail(w, err)
	case status == http.StatusOK && n.Tone == "":
		http.Redirect(w, r, topicURL(topic), http.StatusSeeOther)
	default:
		c.show(w, r, p, topic, status, n)
	}
}

// outcome says in words what became of an answer; a plain success needs none,
// for the page shows it. Without a notice the error is nobody's to see.
func outcome(d store.Decided, err error) (int, *notice) {
	switch {
	case err == nil && d.Result == model.DecisionApplied:
		return http.StatusOK, &notice{}
	case err == nil && d.Result == model.DecisionRecorded:
		return http.StatusOK, &notice{"good", "Your approval is recorded. More people must approve before it runs."}
	case err == nil:
		return http.StatusOK, &notice{"good", "This stands already: " + standingVerdict(d) + "."}
	case errors.Is(err, model.ErrAlreadyDecided):
		return http.StatusConflict, refusal("Your answer was not taken: already " + standingVerdict(d) + ".")
	case errors.Is(err, model.ErrApprovalClosed):
		return http.StatusGone, refusal("Your answer came too late: the card is " + closedText(d) + ". The tool did not run.")
	case errors.Is(err, model.ErrCardStale):
		return http.StatusPreconditionFailed, refusal("The card changed after you saw it. Nothing was decided; look at it again.")
	case errors.Is(err, model.ErrNotPermitted):
		return http.StatusForbidden, refusal("You may not answer this card.")
	case errors.Is(err, model.ErrNotFound):
		return http.StatusNotFound, refusal("There is no such card.")
	case errors.Is(err, model.ErrInvalid):
		return http.StatusUnprocessableEntity, refusal("Your answer was not taken: " + visible.Line(err.Error()))
	}
	return 0, nil
}

// standingVerdict is "denied by user:bob".
func standingVerdict(d store.Decided) string {
	if d.Call == nil || d.Call.Approval == nil {
		return "decided"
	}
	a := d.Call.Approval
	return string(a.State) + " by " + visible.Line(a.DecidedBy)
}

func closedText(d store.Decided) string {
	if d.Call == nil || d.Call.Approval == nil {
		return "closed"
	}
	return string(d.Call.Approval.State)
}
