package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// player does one thing after another, whatever comes to its mind.
type player struct {
	*world
	rand *rand.Rand
	node *Store
	name string
	made int
}

var bg = context.Background() // a player's commits outlast the play

func (p *player) act() {
	wishes := []func(){
		p.register, p.register, p.decide, p.decide, p.decide, p.decide, p.claim, p.claim, p.claim, p.finish, p.finish, p.finish,
		p.follow, p.follow, p.follow, p.follow, p.openLive, p.finishLive, p.finishLive, p.cancel, p.append, p.renew, p.deliver, p.deliver, p.redrive, p.redrive, p.stop,
	}
	wishes[p.rand.IntN(len(wishes))]()
}

func (p *player) oneIn(n int) bool { return p.rand.IntN(n) == 0 }

func (p *player) topic() string { return fmt.Sprint("t", p.rand.IntN(stressSlots)) }

func (p *player) while() WhileOpen {
	switch p.rand.IntN(16) {
	case 0:
		return WhileOpenSupersede
	case 1:
		return WhileOpenBlock
	}
	return WhileOpenParallel
}

func pick[T any](p *player, list *[]T) (one T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(*list) == 0 {
		return one, false
	}
	from := max(0, len(*list)-60) // what is old is over
	return (*list)[from+p.rand.IntN(len(*list)-from)], true
}

func (p *player) keep(turn *model.Turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns = append(p.turns, turn)
	if turn.Live != nil {
		p.lives = append(p.lives, turn)
	}
}

// wish is a registration of the player's own making.
func (p *player) wish(topic string) Registration {
	p.made++
	id := fmt.Sprintf("%s-%d", p.name, p.made)
	r := registration(topic, p.calls(id)...)
	r.Message, r.Content, r.WhileOpen = model.MessageID(id), sum(id), p.while()
	r.Expiry = time.Duration(100+p.rand.IntN(5000)) * time.Millisecond
	if p.oneIn(4) {
		r.Turn.Execution = model.ExecuteEager
	}
	if p.oneIn(4) {
		r.Turn.Hold = &model.Hold{Lease: time.Duration(10+p.rand.IntN(500)) * time.Millisecond, OnLapse: model.LapseDeny}
		if p.oneIn(2) {
			r.Turn.Hold.OnLapse = model.LapsePark
		}
	}
	if p.oneIn(2) {
		r.Turn.Sink = model.Sink{Type: model.SinkJetStream, Name: "x", AcceptWithin: time.Second}
	}
	return r
}

func (p *player) calls(prefix string) []NewCall {
	var out []NewCall
	for i := range p.rand.IntN(4) {
		tool, id := p.tools[p.rand.IntN(len(p.tools))], fmt.Sprint(prefix, "-c", i)
		if p.oneIn(3) {
			out = append(out, allowed(tool, id))
			continue
		}
		c := asking(tool, id)
		c.Call.Approval.Rule.Quorum = 1 + p.rand.IntN(2)
		out = append(out, c)
	}
	return out
}

func (p *player) register() {
	r := p.wish(p.topic())
	out, err := p.node.Register(bg, r)
	if !p.told("register", err) {
		return
	}
	p.keep(out.Turn)
	if p.oneIn(5) { // somebody did not hear the answer
		again, err := p.nodes[p.rand.IntN(3)].Register(bg, r)
		if p.told("register again", err) && (again.Created || again.Turn.ID != out.Turn.ID) {
			p.t.Errorf("the same registration made another turn: %s, %s", out.Turn.ID, again.Turn.ID)
		}
	}
}

// asked picks a call about which somebody was asked.
func (p *player) asked() *model.Call {
	turn, ok := pick(p, &p.turns)
	if !ok || len(turn.Calls) == 0 {
		return nil
	}
	c := turn.Calls[p.rand.IntN(len(turn.Calls))]
	if c.Approval == nil {
		return nil
	}
	return c
}

func (p *player) decide() {
	c := p.asked()
	if c == nil {
		return
	}
	d := verdict(c, !p.oneIn(4), fmt.Sprint("person", p.rand.IntN(3)))
	if d.Approved && p.oneIn(5) {
		input := fmt.Appendf(nil, `{"path":"%d"}`, p.rand.IntN(2))
		d.Edit = &model.Edit{Input: input, Digest: model.Digest(tenant, c.ID, c.Tool.Name, c.Tool.Definition, input)}
	}
	if p.oneIn(20) {
		d.ID = fmt.Sprint("shared", p.rand.IntN(5))
	}
	if p.oneIn(5) {
		d.Seen = c.Digest
	}
	out, err := p.node.Decide(bg, tenant, d)
	if !p.told("decide", err) {
		return
	}
	if out.Result == model.DecisionRecorded {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, known := p.verdicts[c.Approval.ID]; known && before != d.Approved {
		p.t.Errorf("approval %s was acknowledged as %v and as %v (I1)", c.Approval.ID, before, d.Approved)
	}
	p.verdicts[c.Approval.ID] = d.Approved
}

func (p *player) claim() {
	turn, ok := pick(p, &p.turns)
	if !ok || len(turn.Calls) == 0 {
		return
	}
	prepared, err := p.node.Prepare(bg, tenant, turn.Calls[p.rand.IntN(len(turn.Calls))].ID)
	if !p.told("prepare", err) {
		return
	}
	c := prepared.Call
	claim := claimOf(c, model.NewToken())
	claim.Lease = time.Duration(5+p.rand.IntN(300)) * time.Millisecond
	out, err := p.node.Claim(bg, tenant, c.ID, claim)
	if !p.told("claim", err) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprint(c.ID, " ", out.Call.Fence)
	if before := p.tokens[key]; before != "" {
		p.t.Errorf("call %s: fence %d was given to two (I4)", c.ID, out.Call.Fence)
	}
	p.tokens[key] = claim.Token
	p.claims = append(p.claims, claimed{c.ID, out.Call.Fence, claim.Token})
}

func (p *player) finish() {
	c, ok := pick(p, &p.claims)
	if !ok {
		return
	}
	r := []model.Result{
		{Kind: model.ResultSucceeded, Output: []byte(`1`)}, {Kind: model.ResultSucceeded, Output: []byte(`1`)},
		{Kind: model.ResultFailed, Text: "no"}, {Kind: model.ResultUnknown, Text: "?"}, {Kind: model.ResultNothingSent, Text: "refused"},
	}[p.rand.IntN(5)]
	_, err := p.node.Finish(bg, tenant, c.call, c.fence, c.token, r)
	p.told("finish", err)
}

// follow continues a turn, sometimes live, and mostly together with others.
func (p *player) follow() {
	turn, ok := pick(p, &p.turns)
	if !ok || len(turn.Calls) == 0 && !turn.Reply {
		return
	}
	r := p.wish(string(turn.Topic))
	r.Continues = turn.ID
	if p.oneIn(2) {
		r.Message = "" // the next step of the same message
	}
	if p.oneIn(3) {
		p.live(&r)
	}
	out, err := p.node.Register(bg, r)
	if p.told("continue", err) {
		p.keep(out.Turn)
	}
}

func (p *player) live(r *Registration) {
	r.Live, r.Calls, r.Parts = time.Duration(10+p.rand.IntN(400))*time.Millisecond, nil, Parts{[]byte(`{"type":"step-start"}`)}
}

func (p *player) openLive() {
	r := p.wish(p.topic())
	p.live(&r)
	out, err := p.node.Register(bg, r)
	if p.told("open live", err) {
		p.keep(out.Turn)
	}
}

func (p *player) finishLive() {
	turn, ok := pick(p, &p.lives)
	if !ok {
		return
	}
	p.made++
	id := fmt.Sprintf("%s-%d", p.name, p.made)
	e := Ending{Turn: turn.ID, Topic: turn.Topic, Fence: turn.Live.Fence, Token: turn.Live.Token, Content: sum(id),
		Parts: Parts{[]byte(`{"type":"step-start"}`)}, Calls: p.calls(id), Expiry: time.Second, Actor: "key:backend"}
	for i := range e.Calls {
		e.Calls[i].Call.Part = len(e.Parts)
		e.Parts = append(e.Parts, nil)
	}
	if p.oneIn(8) {
		e.Error = "the model failed"
	}
	out, err := p.node.FinishLive(bg, tenant, e)
	if p.told("finish live", err) {
		p.keep(out.Turn)
	}
}

func (p *player) cancel() {
	if !p.oneIn(8) {
		return
	}
	turn, ok := pick(p, &p.turns)
	if !ok {
		return
	}
	id := turn.ID
	if p.oneIn(5) {
		id = ""
	}
	_, err := p.node.Cancel(bg, tenant, turn.Topic, id, "key:ops", "api")
	p.told("cancel", err)
}

func (p *player) append() {
	p.made++
	id := fmt.Sprintf("%s-%d", p.name, p.made)
	m := NewMessage{ID: model.MessageID(id), Role: "user", Parts: []byte(`[{"type":"text","text":"hi"}]`), Content: sum(id)}
	appending := Appending{Topic: model.TopicID(p.topic()), Messages: []NewMessage{m}, WhileOpen: p.while()}
	if p.oneIn(2) {
		appending.Reply = &model.Turn{Execution: model.ExecuteWhenDecided, Sink: model.Sink{Type: model.SinkNone, AcceptWithin: time.Minute}}
		if p.oneIn(4) {
			appending.WhileOpen = WhileOpenQueue
		}
	}
	if turn, ok := pick(p, &p.turns); ok && turn.Message != "" && p.oneIn(8) { // the conversation goes back
		appending.Topic, appending.Messages, appending.Again = turn.Topic, nil, turn.Message
		appending.Reply = &model.Turn{Execution: model.ExecuteWhenDecided, Sink: model.Sink{Type: model.SinkNone, AcceptWithin: time.Minute}}
	}
	out, err := p.node.AppendMessages(bg, tenant, appending)
	if p.told("append", err) && out.Reply != "" {
		p.keep(&model.Turn{ID: out.Reply, Topic: appending.Topic, Reply: true})
	}
}

func (p *player) renew() {
	if turn, ok := pick(p, &p.turns); ok {
		p.told("renew hold", p.node.RenewHold(bg, tenant, turn.ID))
	}
	var renewals []Renewal
	for range 4 {
		if c, ok := pick(p, &p.claims); ok {
			renewals = append(renewals, Renewal{c.call, c.fence, c.token})
		}
	}
	_, err := p.node.RenewLeases(bg, tenant, renewals, 50)
	p.told("renew leases", err)
}

// deliver is what a continuer does with what is due.
func (p *player) deliver() {
	due, err := p.node.DueAnywhere(bg, 0, 0, 20)
	if !p.told("look for due", err) {
		return
	}
	var m Marks
	for _, r := range due.Runs {
		m.Hinted = append(m.Hinted, Hinted{r.Tenant, r.Call, r.Fence})
	}
	for _, c := range due.Continuations {
		if p.oneIn(3) {
			if _, err := p.node.LeaseDelivery(bg, c, 10*time.Millisecond); p.told("lease a delivery", err) {
				p.told("fail a delivery", p.node.DeliveryFailed(bg, c, "refused", 10*time.Millisecond))
			}
			continue
		}
		m.Delivered = append(m.Delivered, Delivered{c.Tenant, c.Turn, c.Generation, 10 * time.Millisecond})
	}
	if len(m.Hinted)+len(m.Delivered) > 0 {
		p.told("deliver", p.node.Mark(bg, m))
	}
}

func (p *player) redrive() {
	if turn, ok := pick(p, &p.turns); ok {
		p.told("redrive", p.node.Redrive(bg, tenant, turn.ID, "key:ops", "api"))
	}
}

func (p *player) stop() {
	turn, ok := pick(p, &p.turns)
	if ok && len(turn.Calls) > 0 && p.oneIn(3) {
		p.told("stop", p.node.StopQueued(bg, tenant, turn.Calls[0].ID, "The tool is gone."))
	}
}
