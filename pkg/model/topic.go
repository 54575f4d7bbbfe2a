package model

// TopicStatus is a conversation's state, as a projection shows it.
type TopicStatus string

// The statuses of a topic.
const (
	TopicPending          TopicStatus = "pending"
	TopicStreaming        TopicStatus = "streaming"
	TopicAwaitingApproval TopicStatus = "awaiting-approval"
	TopicDone             TopicStatus = "done"
	TopicAborted          TopicStatus = "aborted"
	TopicError            TopicStatus = "error"
)

// Topic is one conversation: counters over its turns, and the version that
// grows by one with each transaction that changes it.
type Topic struct {
	Tenant   TenantID
	ID       TopicID
	Version  int64
	Counters TopicCounters
	Last     TopicStatus // of the turn that ended last: done, aborted or error
	Messages int64       // the next message's place
	Unknowns int         // calls whose outcome is, or once was, unknown
}

// TopicCounters count a topic's turns by state. They change by what a
// transaction really changed, under the topic's row lock.
type TopicCounters struct {
	Streaming, Awaiting, Attention, Executing, Continuing, Failed int
}

// Open is the number of turns that have not ended.
func (c TopicCounters) Open() int {
	return c.Streaming + c.Awaiting + c.Attention + c.Executing + c.Continuing + c.Failed
}

// Status derives the topic's status from its own row alone. A turn that is
// parked is never reported done.
func (t Topic) Status() TopicStatus {
	switch c := t.Counters; {
	case c.Streaming > 0:
		return TopicStreaming
	case c.Awaiting > 0 || c.Attention > 0:
		return TopicAwaitingApproval
	case c.Executing > 0 || c.Continuing > 0:
		return TopicPending
	case c.Failed > 0:
		return TopicError
	case t.Last == "":
		return TopicDone
	}
	return t.Last
}

// Add counts a turn by n (1: it is in this state now, -1: it was).
func (c *TopicCounters) Add(t TurnStanding, n int) {
	switch t.State {
	case TurnStreaming:
		c.Streaming += n
	case TurnAwaitingApproval:
		c.Awaiting += n
	case TurnNeedsAttention:
		c.Attention += n
	case TurnExecuting:
		c.Executing += n
	case TurnContinuing:
		if t.ContinuationFailed {
			c.Failed += n
		} else {
			c.Continuing += n
		}
	}
}

// Change names a topic and the version that a commit gave it: what a signal
// is made of.
type Change struct {
	Tenant  TenantID
	Topic   TopicID
	Version int64
}
