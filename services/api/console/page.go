package console

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// page is everything that the templates show.
type page struct {
	Title  string
	Who    string // "" before signing in
	Chat   bool   // a box to write in
	Topics []topicItem
	Topic  *conversation // nil on the list alone
	Notice *notice
}

// notice answers what a person just did.
type notice struct {
	Tone string // "good", "bad"
	Text string
}

func refusal(text string) *notice { return &notice{"bad", text} }

// topicItem is a conversation in the list; Key names its element.
type topicItem struct {
	Key     string
	Name    string
	Href    string
	Status  model.TopicStatus
	Text    string
	Current bool
}

// listed is how many conversations the list shows, those that wait first.
const listed = 40

var statusTexts = map[model.TopicStatus]string{
	model.TopicStreaming:        "the model is answering",
	model.TopicAwaitingApproval: "waits for a person",
	model.TopicPending:          "working",
	model.TopicDone:             "done",
	model.TopicAborted:          "ended",
	model.TopicError:            "failed",
}

// topics lists conversations: first those that wait for a person.
func (c *Console) topics(ctx context.Context, p model.Principal, current model.TopicID) ([]topicItem, error) {
	waiting, err := c.Rows.ListTopics(ctx, p.Tenant, model.TopicAwaitingApproval, "", listed)
	if err != nil {
		return nil, err
	}
	all, err := c.Rows.ListTopics(ctx, p.Tenant, "", "", listed)
	if err != nil {
		return nil, err
	}
	var out []topicItem
	seen := map[model.TopicID]bool{}
	for _, t := range append(waiting, all...) {
		if seen[t.ID] || len(out) == listed {
			continue
		}
		seen[t.ID] = true
		out = append(out, topicItem{
			Key: "topic-" + hex.EncodeToString([]byte(t.ID)), Name: visible.Line(string(t.ID)), Href: topicURL(t.ID), Status: t.Status(), Text: statusTexts[t.Status()], Current: t.ID == current,
		})
	}
	return out, nil
}

func topicURL(id model.TopicID) string { return "/topic?id=" + url.QueryEscape(string(id)) }

// load fills a page: the list, and the topic if one is named.
func (c *Console) load(ctx context.Context, p model.Principal, id model.TopicID) (page, error) {
	out := page{Title: "Conversations", Who: p.Subject, Chat: c.Chat && p.Has(model.RoleBackend)}
	var err error
	if out.Topics, err = c.topics(ctx, p, id); err != nil || id == "" {
		return out, err
	}
	out.Title = visible.Line(string(id))
	out.Topic, err = c.conversation(ctx, p, id)
	return out, err
}

func (c *Console) index(w http.ResponseWriter, r *http.Request, p model.Principal) {
	out, err := c.load(r.Context(), p, "")
	if err != nil {
		c.fail(w, err)
		return
	}
	c.render(w, http.StatusOK, "page", out)
}

func (c *Console) topic(w http.ResponseWriter, r *http.Request, p model.Principal) {
	c.show(w, r, p, model.TopicID(r.URL.Query().Get("id")), http.StatusOK, nil)
}

// show answers with a topic's page and what there is to say about it.
func (c *Console) show(w http.ResponseWriter, r *http.Request, p model.Principal, id model.TopicID, status int, n *notice) {
	out, err := c.load(r.Context(), p, id)
	if errors.Is(err, model.ErrNotFound) {
		status, n, err = http.StatusNotFound, refusal("There is no such conversation."), nil
	}
	if err != nil {
		c.fail(w, err)
		return
	}
	out.Notice = n
	c.render(w, status, "page", out)
}

// fail answers for an error that the person cannot help.
func (c *Console) fail(w http.ResponseWriter, err error) {
	status, text := http.StatusInternalServerError, "Something went wrong here. It was logged."
	if errors.Is(err, model.ErrUnavailable) {
		status, text = http.StatusServiceUnavailable, "The database cannot be reached right now. Nothing was changed; try again in a moment."
		w.Header().Set("Retry-After", "2")
	} else if !errors.Is(err, context.Canceled) {
		c.log.Error("the page cannot be shown", "error", err)
	}
	http.Error(w, text, status)
}

var _ Rows = (*store.Store)(nil)
