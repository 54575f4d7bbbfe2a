package users

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/countersign/countersign/examples/modelserver/scripted"
)

// wish is what a person's message tells the model to call, as its text.
type wish struct {
	Calls []wished `json:"calls"`
}

type wished struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
}

// Model is the provider of the run: a model that does what the last message
// tells it, and fails as providers do, by chance drawn from the seed.
func Model(seed uint64) http.Handler {
	r := rand.New(rand.NewPCG(seed, 0x6d6f64656c))
	return scripted.New(func(q scripted.Request) scripted.Answer {
		answer := obey(q)
		switch n := r.IntN(100); {
		case n < 4:
			return scripted.Answer{Status: http.StatusInternalServerError}
		case n < 6:
			return scripted.Answer{Status: http.StatusUnauthorized} // for good
		case n < 12:
			answer.Events[r.IntN(len(answer.Events))].Cut = true
		}
		return answer
	})
}

// obey calls what a person asks for, and says something once that is over.
func obey(q scripted.Request) scripted.Answer {
	var w wish
	if last := q.Last(); last.Role != "user" || json.Unmarshal([]byte(strings.TrimSpace(last.Text())), &w) != nil || len(w.Calls) == 0 {
		return scripted.Stream(scripted.Say("That is all."), scripted.End("stop"))
	}
	events := [][]scripted.Event{scripted.Say("I will.")}
	for i, c := range w.Calls {
		events = append(events, scripted.Call(i, "", c.Tool, string(c.Input)))
	}
	return scripted.Stream(append(events, scripted.End("tool_calls"))...)
}
