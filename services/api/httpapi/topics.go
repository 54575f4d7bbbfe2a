package httpapi

import (
	"slices"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/services/api/view"
	"github.com/countersign/countersign/services/api/watch"
)

// maxTopicIDs bounds the topics that one request names.
const maxTopicIDs = 100

var topicStatuses = []string{
	string(model.TopicPending), string(model.TopicStreaming), string(model.TopicAwaitingApproval), string(model.TopicDone),
	string(model.TopicAborted), string(model.TopicError),
}

func (a *API) listTopics(r *request) (answer, error) {
	status, err := r.word("status", topicStatuses...)
	if err != nil {
		return answer{}, err
	}
	if ids := r.namedTopics(); len(ids) > 0 || r.by.Token {
		return r.topicsByID(ids, status)
	}
	limit, after, err := r.paging()
	if err != nil {
		return answer{}, err
	}
	topics, err := a.Store.ListTopics(r.Context(), r.tenant(), model.TopicStatus(status), model.TopicID(after), limit+1)
	if err != nil {
		return answer{}, err
	}
	return ok(page(topics, limit, view.NewTopicBody, func(t store.TopicView) string { return cursorOf(string(t.ID)) })), nil
}

// namedTopics are the topics that a list is asked for. A token asks for its
// own, or for some of them.
func (r *request) namedTopics() []string {
	ids := r.query["id"]
	if !r.by.Token {
		return ids
	}
	var out []string
	for _, own := range r.by.Topics {
		if len(ids) == 0 || slices.Contains(ids, string(own)) {
			out = append(out, string(own))
		}
	}
	return out
}

// topicsByID answers from the projections, in the order asked for.
func (r *request) topicsByID(ids []string, status string) (answer, error) {
	if len(ids) > maxTopicIDs {
		return answer{}, approval.NewInvalid("?id", "must not be given more than 100 times")
	}
	var topics []model.TopicID
	for _, id := range ids {
		if model.CheckID(id) == nil && !slices.Contains(topics, model.TopicID(id)) {
			topics = append(topics, model.TopicID(id))
		}
	}
	found, err := r.api.Projections.Topics(r.Context(), r.tenant(), topics)
	if err != nil {
		return answer{}, err
	}
	out := Page[strictjson.Raw]{Items: []strictjson.Raw{}}
	for _, id := range topics {
		body, known := found[id]
		if known && (status == "" || standingOf(body).Status == status) {
			out.Items = append(out.Items, strictjson.Raw(body))
		}
	}
	return ok(out), nil
}

// standing is what is read out of a projection.
type standing struct {
	Status  string `json:"status"`
	Version int64  `json:"version"`
}

func standingOf(body []byte) standing {
	var s standing
	_ = strictjson.Unmarshal(body, &s, strictjson.AllowUnknownMembers()) // it was made here
	return s
}

func (a *API) getTopic(r *request) (answer, error) {
	id, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	least, err := r.version("minVersion")
	if err != nil {
		return answer{}, err
	}
	found, err := a.Projections.Topics(r.Context(), r.tenant(), []model.TopicID{id})
	if err != nil {
		return answer{}, err
	}
	if body, known := found[id]; known && standingOf(body).Version >= least {
		return ok(strictjson.Raw(body)), nil
	}
	if err := r.atLeast(id); err != nil {
		return answer{}, err
	}
	topic, err := a.Store.Topic(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	return ok(view.NewTopicBody(topic)), nil
}

// events streams a topic. Whether the key still may is asked again all the
// while.
func (a *API) events(r *request) (answer, error) {
	id, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	after, err := watch.LastEventID(r.Request)
	if err != nil {
		return answer{}, approval.NewInvalid("", "the header Last-Event-ID must be the id of a status event")
	}
	return answer{write: r.stream(id, after)}, nil
}

// cancelRequest ends a turn, or all open ones.
type cancelRequest struct {
	Turn string `json:"turn,omitzero" doc:"Absent: all open turns of the topic."`
}

// CancelAnswer is the topic after a cancel.
type CancelAnswer struct {
	Topic view.TopicBody `json:"topic"`
	Ended int            `json:"ended" doc:"How many turns this request ended."`
}

func (a *API) cancel(r *request, in cancelRequest) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	var turn model.TurnID
	if in.Turn != "" {
		if turn, err = model.ParseUUID[model.TurnID](in.Turn); err != nil {
			return answer{}, err
		}
	}
	ended, err := a.Store.Cancel(r.Context(), r.tenant(), topic, turn, r.actor(), r.via)
	if err != nil {
		return answer{}, err
	}
	t, err := a.Store.Topic(r.Context(), r.tenant(), topic)
	if err != nil {
		return answer{}, err
	}
	return ok(CancelAnswer{view.NewTopicBody(t), ended}), nil
}
