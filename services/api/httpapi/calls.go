package httpapi

import (
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/approval"
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
	wait, err := r.wait()
	if err != nil {
		return answer{}, err
	}
	if err := r.atLeastIn(f.Topic); err != nil {
		return answer{}, err
	}
	var calls []store.CallView
	err = r.awaitList(wait, f.Topic, func() (bool, error) {
		calls, err = a.Store.Calls(r.Context(), r.tenant(), f)
		return len(calls) > 0 || wait == 0, err
	})
	if err != nil {
		return answer{}, err
	}
	return ok(page(calls, limit, view.NewCall, func(c store.CallView) string { return cursorOf(string(c.ID)) })), nil
}

// atLeastIn is minVersion of a list, which needs the topic whose version it
// means.
func (r *request) atLeastIn(topic model.TopicID) error {
	if topic == "" && r.param("minVersion") != "" {
		return approval.NewInvalid("?minVersion", "needs the parameter topic, whose version it means")
	}
	if topic == "" {
		return nil
	}
	return r.atLeast(topic)
}

// callFilter reads the filters of a list of calls. state takes a part's state
// and a run's.
func (r *request) callFilter() (f store.CallFilter, limit int, err error) {
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
	if limit, err = r.limit(); err != nil {
		return f, 0, err
	}
	f.Limit = limit + 1
	fields, err := r.cursor(1)
	if err != nil || fields == nil {
		return f, limit, err
	}
	if f.After, err = model.ParseUUID[model.CallID](fields[0]); err != nil {
		return f, 0, errCursor
	}
	return f, limit, nil
}

func (a *API) getCall(r *request) (answer, error) {
	id, err := idIn[model.CallID](r, "call")
	if err != nil {
		return answer{}, err
	}
	wait, err := r.wait()
	if err != nil {
		return answer{}, err
	}
	call, err := a.Store.Call(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	least := r.param("minVersion") != ""
	if err := r.atLeast(call.Topic); err != nil {
		return answer{}, err
	}
	if wait > 0 {
		err = r.awaitCall(wait, &call)
	} else if least {
		call, err = a.Store.Call(r.Context(), r.tenant(), id)
	}
	if err != nil {
		return answer{}, err
	}
	return ok(view.NewCall(call)), nil
}

// awaitCall waits until the call is settled, or another than it was, and
// leaves what it read last.
func (r *request) awaitCall(wait time.Duration, call *store.CallView) error {
	turn, err := r.api.Store.Turn(r.Context(), r.tenant(), call.Turn)
	if err != nil {
		return err
	}
	id, state, run := call.ID, call.State, call.Run
	return r.await(wait, call.Topic, turn, func() (bool, error) {
		now, err := r.api.Store.Call(r.Context(), r.tenant(), id)
		if err != nil {
			return false, err
		}
		*call = now
		return now.State.Settled() || now.State != state || now.Run != run, nil
	})
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
