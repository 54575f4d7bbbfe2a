package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// resolve takes a person's word on a call whose outcome is unknown. What
// stands afterwards is shown in any case.
func (c *Console) resolve(w http.ResponseWriter, r *http.Request, p model.Principal) {
	topic := model.TopicID(r.PostFormValue("topic"))
	id, err := model.ParseUUID[model.CallID](r.PostFormValue("call"))
	if err != nil {
		c.show(w, r, p, topic, http.StatusNotFound, refusal("There is no such call."))
		return
	}
	resolved, err := c.UseCases.Resolve(r.Context(), approval.Origin{By: p, Channel: channel}, id, approval.ResolutionRequest{
		Outcome: r.PostFormValue("outcome"),
		// Browsers send line breaks of forms as CR LF.
		Evidence: strings.ReplaceAll(strings.TrimSpace(r.PostFormValue("evidence")), "\r\n", "\n"),
	})
	status, n := resolution(resolved, err)
	switch {
	case n == nil:
		c.fail(w, err)
	case status == http.StatusOK && n.Tone == "":
		http.Redirect(w, r, topicURL(topic), http.StatusSeeOther)
	default:
		c.show(w, r, p, topic, status, n)
	}
}

// resolution says in words what became of a resolution, as outcome does for a
// decision.
func resolution(d store.ResolvedCall, err error) (int, *notice) {
	alive, mayBeAlive := errors.AsType[*model.AttemptMayBeAlive](err)
	switch {
	case err == nil && d.Result == model.ResolutionApplied:
		return http.StatusOK, &notice{}
	case err == nil:
		return http.StatusOK, &notice{"good", "This stands already" + standingResolution(d) + "."}
	case mayBeAlive:
		return http.StatusConflict, refusal("Your answer was not taken: the attempt may still be alive for " +
			alive.Wait.Round(time.Second).String() + ". Its own result would be better than anybody's word.")
	case errors.Is(err, model.ErrAlreadyResolved):
		return http.StatusConflict, refusal("Your answer was not taken, for another stands" + standingResolution(d) + ".")
	case errors.Is(err, model.ErrNotUnknown):
		return http.StatusConflict, refusal("The outcome of this call is not unknown.")
	case errors.Is(err, model.ErrNotPermitted):
		return http.StatusForbidden, refusal("You may not say what became of this call.")
	case errors.Is(err, model.ErrNotFound):
		return http.StatusNotFound, refusal("There is no such call.")
	case errors.Is(err, model.ErrInvalid):
		return http.StatusUnprocessableEntity, refusal("Your answer was not taken: " + visible.Line(err.Error()))
	}
	return 0, nil
}

// standingResolution is ": happened, by user:bob", or says that the tool's
// own result came.
func standingResolution(d store.ResolvedCall) string {
	if d.Call == nil || d.Call.Resolution == nil {
		return ": the tool's own result"
	}
	return ": " + string(d.Call.Resolution.Outcome) + ", by " + visible.Line(d.Call.Resolution.By)
}
