package bus

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/model"
)

// The subjects, without their tokens.
const (
	signalPrefix       = "countersign.invalidated."
	runPrefix          = "countersign.runs."
	modelPrefix        = "countersign.model."
	continuationPrefix = "countersign.continuations."
	heartbeatPrefix    = "countersign.heartbeats."
	chunkPrefix        = "countersign.chunks."
)

// SignalSubject is where the signal of one topic is published.
func SignalSubject(tenant model.TenantID, topic model.TopicID) string {
	return signalPrefix + EncodeToken(string(tenant)) + "." + EncodeToken(string(topic))
}

// RunSubject is where the run hints of one tenant are published. There is one
// subject per tenant and not per call: the server keeps an index of subjects
// in memory, and nobody listens for a single call.
func RunSubject(tenant model.TenantID) string { return runPrefix + EncodeToken(string(tenant)) }

// ModelSubject is where the model hints of one tenant are published.
func ModelSubject(tenant model.TenantID) string { return modelPrefix + EncodeToken(string(tenant)) }

// ContinuationSubject is where a JetStream sink of that name receives.
func ContinuationSubject(tenant model.TenantID, sink string) string {
	return continuationPrefix + EncodeToken(string(tenant)) + "." + EncodeToken(sink)
}

// HeartbeatSubject is where one worker says how it is.
func HeartbeatSubject(worker string) string { return heartbeatPrefix + EncodeToken(worker) }

// ChunkSubject is where the stream of one live turn goes.
func ChunkSubject(tenant model.TenantID, turn model.TurnID) string {
	return chunkPrefix + EncodeToken(string(tenant)) + "." + EncodeToken(string(turn))
}

const upperHex = "0123456789ABCDEF"

// EncodeToken makes one subject token of any text: letters, digits, '-' and
// '_' stay as they are, every other byte becomes '=' and two upper-case hex
// digits, and nothing becomes a lone '='. Ids hold dots, spaces, slashes,
// wildcards and any script; as tokens they can neither reach another subject
// nor collide. '=' has no meaning in subjects, permissions or consumer names.
func EncodeToken(text string) string {
	if text == "" {
		return "="
	}
	escapes := 0
	for i := range len(text) {
		if !plain(text[i]) {
			escapes++
		}
	}
	if escapes == 0 {
		return text
	}
	var token strings.Builder
	token.Grow(len(text) + 2*escapes)
	for i := range len(text) {
		if c := text[i]; plain(c) {
			token.WriteByte(c)
		} else {
			token.WriteByte('=')
			token.WriteByte(upperHex[c>>4])
			token.WriteByte(upperHex[c&15])
		}
	}
	return token.String()
}

// DecodeToken is the inverse of [EncodeToken]. It refuses every token that
// EncodeToken would not have made, so that one text has one token.
func DecodeToken(token string) (string, error) {
	if token == "=" {
		return "", nil
	}
	var text strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '=' && i+2 < len(token) {
			high, low := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
			if c = byte(high<<4 | low); high < 0 || low < 0 || plain(c) {
				return "", fmt.Errorf("subject token %q: no such escape at byte %d", token, i)
			}
			i += 2
		} else if !plain(c) {
			return "", fmt.Errorf("subject token %q: byte %d must be escaped", token, i)
		}
		text.WriteByte(c)
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("a subject token must not be empty")
	}
	return text.String(), nil
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
