package model

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/countersign/countersign/pkg/egress"
)

// Failure is that a provider could not be asked, or broke its answer off. Its
// text is for people, and holds no key.
type Failure struct {
	Text    string
	ForGood bool          // asking again, as it stands, comes to the same
	After   time.Duration // when the provider wants to be asked again; 0 where it did not say
	Kind    string        // for telemetry: the status, or what kind of failure it was
}

func (f *Failure) Error() string { return f.Text }

const (
	// firstPause doubles with every attempt.
	firstPause = 500 * time.Millisecond
	// longestPause bounds what a provider may ask for: the conversation waits.
	longestPause = time.Minute
)

// wait is how long to wait after the n-th attempt, from 0.
func (f *Failure) wait(n int) time.Duration {
	if f.After > 0 {
		return min(f.After, longestPause)
	}
	pause := firstPause << n
	return pause + rand.N(pause/2)
}

// failureOf says what went wrong with a request, without the key.
func failureOf(err error, key string) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	if answer, ok := errors.AsType[*openai.Error](err); ok {
		return refusal(answer, key)
	}
	if broken, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return &Failure{Text: "it broke off with an error: " + clean(string(broken.Event.Data), key), Kind: "stream_error"}
	}
	if errors.Is(err, egress.ErrRefused) {
		return &Failure{Text: "its address may not be called: add it to COUNTERSIGN_ALLOW_TARGETS", ForGood: true, Kind: "refused"}
	}
	return &Failure{Text: "the connection failed: " + clean(err.Error(), key), Kind: "connection"}
}

// refusal reads an answer that is none of 2xx. What a later try may mend is
// tried again.
func refusal(answer *openai.Error, key string) *Failure {
	f := &Failure{Text: "it answered " + strconv.Itoa(answer.StatusCode), Kind: strconv.Itoa(answer.StatusCode)}
	if answer.Message != "" {
		f.Text += ": " + clean(answer.Message, key)
	}
	switch status := answer.StatusCode; {
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		f.After = retryAfter(answer.Response)
	default:
		f.ForGood = true
	}
	return f
}

// retryAfter reads the header, in seconds or as a date; 0 where it is absent.
func retryAfter(r *http.Response) time.Duration {
	if r == nil {
		return 0
	}
	text := r.Header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, longestPause.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// maxReason bounds what is repeated of a provider's words, in bytes.
const maxReason = 500

// clean makes a provider's words fit to be stored and shown: one line, without
// the key.
func clean(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, "***")
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
