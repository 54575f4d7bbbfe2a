package httpapi

import (
	"net/http"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/view"
)

var callStates = []string{
	string(model.CallInputAvailable), string(model.CallApprovalRequested), string(model.CallApprovalResponded),
	string(model.CallOutputAvailable), string(model.CallOutputError), string(model.CallOutputDenied),
}

var runStates = []string{
	string(model.RunQueued), string(model.RunStarted), string(model.RunSucceeded), string(model.RunFailed),
	string(model.RunStopped), string(model.RunUnknown), string(model.RunClosed),
}

func (a *API) listCalls(r *request) (answer, error) {
	f, limit, err := r.callFilter()
	if err != nil {
		return answer{}, err
	}
	calls, err := listOrWait(r, f.Topic, func() ([]store.CallView, error) { return a.Store.Calls(r.Context(), r.tenant(), f) })
	if err != nil {
		return answer{}, err
	}
	return ok(page(calls, limit, view.NewCall, func(c store.CallView) string { return cursorOf(string(c.ID)) })), nil
}

// callFilter reads the filters of a list of calls. state takes a part's state
// and a run's.
func (r *request) callFilter() (f store.CallFilter, _ int, err error) {
	state, err := r.word("state", append(append([]string{}, callStates...), runStates...)...)
	if err != nil {
		return f, 0, err
	}
	for _, known := range runStates {
		if state == known {
			f.Run, state = model.RunState(state), ""
		}
	}
	f.State = model.CallState(state)
	executor, err := r.word("executor", string(model.ExecutorWorker), string(model.ExecutorCaller))
	if err != nil {
		return f, 0, err
	}
	topic, err := r.id("topic")
	if err != nil {
		return f, 0, err
	}
	f.Executor, f.Topic, f.Topics = model.Executor(executor), model.TopicID(topic), r.ownTopics()
	limit, cursor, err := r.paging()
	if err != nil {
		return f, 0, err
	}
	f.Limit = limit + 1
	f.After, err = idAfter[model.CallID](cursor)
	return f, limit, err
}

func (a *API) getCall(r *request) (answer, error) {
	id, err := idIn[model.CallID](r, "call")
	if err != nil {
		return answer{}, err
	}
	call, err := readOrWait(r, waitable[store.CallView]{
		read:  func() (store.CallView, error) { return a.Store.Call(r.Context(), r.tenant(), id) },
		place: func(c store.CallView) (model.TopicID, model.TurnID) { return c.Topic, c.Turn },
		news: func(was, now store.CallView) bool {
			return now.State.Settled() || now.State != was.State || now.Run != was.Run
		},
	})
	if err != nil {
		return answer{}, err
	}
	return ok(view.NewCall(call)), nil
}

// callInput answers with the exact bytes of a call's input.
func (a *API) callInput(r *request) (answer, error) {
	id, err := idIn[model.CallID](r, "call")
	if err != nil {
		return answer{}, err
	}
	input, err := a.Store.CallInput(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	return answer{write: func(w http.ResponseWriter) error {
		writeRaw(w, http.StatusOK, "application/json", input)
		return nil
	}}, nil
}
