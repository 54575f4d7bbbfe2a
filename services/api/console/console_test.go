package console

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
)

func holds(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
}

func TestWithoutAKeyThereIsOnlyTheLogin(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ask("t1", "secret words", `{}`)
	for _, path := range []string{"/", "/topic?id=t1", "/events?id=t1"} {
		status, page := s.browser().get(path)
		if status != http.StatusUnauthorized || strings.Contains(page, "secret") || !strings.Contains(page, "API key") {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, page := s.browser().post("/login", url.Values{"key": {"wrong"}}); status != http.StatusUnauthorized || !strings.Contains(page, "not known") {
		t.Errorf("a wrong key: %d", status)
	}
	if status, _ := s.browser().post("/login", url.Values{"key": {"look"}, "person": {"bob"}}); status != http.StatusUnauthorized {
		t.Errorf("a key that acts for nobody, for a person: %d", status)
	}
}

func TestTheCookieIsOutOfReach(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct{ proto, want string }{
		{"http", "countersign=k=all&p=bob; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"},
		{"https", "__Host-countersign=k=all&p=bob; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/login", strings.NewReader("key=all&person=user:bob"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-Proto", c.proto)
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header.Get("Set-Cookie"); got != c.want {
			t.Errorf("%s: %s", c.proto, got)
		}
	}
}

// inline finds what the policy would refuse to run.
var inline = regexp.MustCompile(`(?i)<script(?:\s+defer)?>|<style|\sstyle=|\son\w+=|javascript:`)

func TestThePageRunsNothingButItsOwn(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ask("t1", "hi", `{}`)
	b := s.signedIn("all", "")
	for _, path := range []string{"/", "/topic?id=t1"} {
		if _, page := b.get(path); inline.MatchString(page) {
			t.Errorf("%s holds %q", path, inline.FindString(page))
		}
	}
	response, err := b.client.Get(s.url + "/assets/script.js")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Security-Policy"); got != policy || response.Header.Get("ETag") == "" {
		t.Errorf("policy %q", got)
	}
}

func TestACardIsApprovedOnThePage(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.ask("t1", "I will clean up.", `{"path": "old.log"}`).ID
	b := s.signedIn("all", "bob")
	_, page := b.get("/topic?id=t1")
	holds(t, page, "I will clean up.", "delete_file", "user:alice", "unsafe", `&#34;path&#34;: &#34;old.log&#34;`)
	if strings.Index(page, `value="approve"`) > strings.Index(page, "old.log") {
		t.Error("the buttons come after the arguments")
	}
	status, page := b.answer("t1", s.card(id), "approve", "  looks\r\nfine ")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	holds(t, page, "Approved by", "user:bob", "looks\nfine")
	if a := s.card(id).Call.Approval; a.State != model.ApprovalApproved || a.DecidedBy != "user:bob" || a.Channel != "page" || a.Reason != "looks\nfine" {
		t.Errorf("the row says %+v", a)
	}
	if strings.Contains(page, `name="verdict"`) {
		t.Error("the buttons are still there")
	}
}

func TestAConflictSaysWhoWasFirst(t *testing.T) {
	t.Parallel()
	s := start(t)
	card := s.card(s.ask("t1", "hi", `{}`).ID)
	s.signedIn("all", "bob").answer("t1", card, "deny", "no")
	status, page := s.signedIn("all", "carol").answer("t1", card, "approve", "")
	if status != http.StatusConflict {
		t.Errorf("status %d", status)
	}
	holds(t, page, "already denied by user:bob")
	status, page = s.signedIn("all", "carol").answer("t1", card, "deny", "")
	if status != http.StatusOK {
		t.Errorf("the same verdict again: %d", status)
	}
	holds(t, page, "stands already: denied by user:bob")
}

func TestAnAnswerToAnotherCardThanTheOneShownIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	card := s.card(s.ask("t1", "hi", `{}`).ID)
	form := s.browser().form("t1", card, "approve", "")
	form.Set("digest", strings.Repeat("0", 64))
	status, page := s.signedIn("all", "bob").post("/decide", form)
	if status != http.StatusPreconditionFailed || s.card(card.Call.Approval.ID).Call.Approval.State != model.ApprovalRequested {
		t.Errorf("status %d", status)
	}
	holds(t, page, "changed after you saw it")
}

// A GET changes nothing, and neither does a form of another site.
func TestOnlyThePagesOwnFormsDecide(t *testing.T) {
	t.Parallel()
	s := start(t)
	card := s.card(s.ask("t1", "hi", `{}`).ID)
	b := s.signedIn("all", "bob")
	form := b.form("t1", card, "approve", "")
	if status, _ := b.get("/decide?" + form.Encode()); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", status)
	}
	if status, _ := b.post("/decide?"+form.Encode(), url.Values{}); status != http.StatusNotFound {
		t.Errorf("values in the address: %d", status)
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		if status, _ := b.post("/decide", form, header...); status != http.StatusForbidden {
			t.Errorf("%v: %d", header, status)
		}
	}
	if got := s.card(card.Call.Approval.ID).Call.Approval.State; got != model.ApprovalRequested {
		t.Errorf("the card is %s", got)
	}
}

func TestWhatHidesIsShown(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ask("t1", "<b>trust me</b>\u202e", `{"path":"a\u202eb<script>alert(1)</script>\u200b"}`)
	_, page := s.signedIn("all", "").get("/topic?id=t1")
	holds(t, page, "&lt;b&gt;trust me&lt;/b&gt;‹U&#43;202E›", "a‹U&#43;202E›b&lt;script&gt;", "2 hidden characters are shown")
	if strings.ContainsAny(page, "\u202e\u200b") {
		t.Error("a hidden character reached the page")
	}
}

func TestWhoMayOnlyLookHasNoButtons(t *testing.T) {
	t.Parallel()
	s := start(t)
	card := s.card(s.ask("t1", "hi", `{}`).ID)
	b := s.signedIn("look", "")
	_, page := b.get("/topic?id=t1")
	holds(t, page, "may look, but not answer")
	if strings.Contains(page, `name="verdict"`) || strings.Contains(page, `name="text"`) {
		t.Error("there are buttons")
	}
	if status, _ := b.answer("t1", card, "approve", ""); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
}

func TestAnotherTenantSeesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	card := s.card(s.ask("t1", "secret", `{}`).ID)
	b := s.signedIn("other", "")
	status, page := b.get("/topic?id=t1")
	unknown, blank := b.get("/topic?id=t2")
	if status != http.StatusNotFound || unknown != status || strings.ReplaceAll(page, "t1", "t2") != blank {
		t.Errorf("status %d, an unknown topic %d", status, unknown)
	}
	if status, _ := b.answer("t1", card, "approve", ""); status != http.StatusNotFound {
		t.Errorf("deciding: %d", status)
	}
}

func TestAMessageIsWrittenOnThePage(t *testing.T) {
	t.Parallel()
	s := start(t)
	status, page := s.signedIn("all", "alice").post("/say", url.Values{"topic": {"a/b"}, "text": {"clean up, please"}})
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	holds(t, page, "clean up, please", "a/b")
}

// What could never be an id names no conversation, and makes none.
func TestAnIDThatCannotBeOneNamesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := s.signedIn("all", "alice")
	for _, id := range []string{"\x00", "a\xffb", "\u202e", "\r\nSet-Cookie: a=b", strings.Repeat("x", 201)} {
		if status, _ := b.get("/topic?id=" + url.QueryEscape(id)); status != http.StatusNotFound {
			t.Errorf("GET %q: %d", id, status)
		}
		if status, _ := b.post("/decide", url.Values{"topic": {id}, "approval": {"x"}, "verdict": {"approve"}}); status != http.StatusNotFound {
			t.Errorf("decide in %q: %d", id, status)
		}
		if status, _ := b.post("/say", url.Values{"topic": {id}, "text": {"hello"}}); status != http.StatusUnprocessableEntity {
			t.Errorf("say in %q: %d", id, status)
		}
	}
	if status, _ := b.post("/say", url.Values{"topic": {"t"}, "text": {"\xff"}}); status != http.StatusUnprocessableEntity {
		t.Errorf("a text that is none: %d", status)
	}
	topics, err := s.store.ListTopics(t.Context(), tenant, "", "", 10)
	if err != nil || len(topics) != 0 {
		t.Errorf("topics: %+v, %v", topics, err)
	}
}

// window reads events of a window until one with this name holds a text.
func window(t *testing.T, b *browser, path string) func(name, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return func(name, text string) {
		t.Helper()
		var event, data string
		for lines.Scan() {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
			case "event":
				event = value
			case "data":
				data += value + "\n"
			case "":
				if event == name && strings.Contains(data, text) {
					return
				}
				event, data = "", ""
			}
		}
		t.Fatalf("the stream ended before an event %s with %q", name, text)
	}
}

func TestEveryOpenWindowFollows(t *testing.T) {
	t.Parallel()
	s := start(t)
	card := s.card(s.ask("t1", "hi", `{}`).ID)
	alice, bob := s.signedIn("all", "alice"), s.signedIn("all", "bob")
	one, two, list := window(t, alice, "/events?id=t1"), window(t, bob, "/events?id=t1"), window(t, bob, "/events")
	one("conversation", "waits for a person")
	two("conversation", "waits for a person")
	list("topics", "waits for a person")
	bob.answer("t1", card, "deny", "too dangerous")
	one("conversation", "too dangerous")
	two("conversation", "too dangerous")
	list("topics", "working")
	s.ask("t2", "another", `{}`)
	list("topics", "t2")
}

func TestADeletedKeyIsSignedOutEverywhere(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ask("t1", "hi", `{}`)
	b := s.signedIn("look", "")
	r, err := b.client.Get(s.url + "/events?id=t1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := s.store.DeleteKey(t.Context(), tenant, "look", "test", "test"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body) // to its end
	if status, page := b.get("/"); status != http.StatusUnauthorized || !strings.Contains(page, "deleted") {
		t.Errorf("status %d", status)
	}
}

var _ UseCases = (*approval.Service)(nil)
