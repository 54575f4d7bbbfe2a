package model

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// The ids that callers choose. They are opaque text: any id that passes
// [CheckID] is kept as it came, and every place with a grammar of its own
// (NATS subjects, Redis keys, URLs) encodes it.
type (
	// TenantID names the owner of everything below it.
	TenantID string
	// TopicID names one conversation within a tenant.
	TopicID string
	// MessageID names one UIMessage within a topic.
	MessageID string
)

// The ids that Countersign makes: UUIDs of version 7 in their canonical
// lower-case text. A continuation has no id of its own: it is unique per
// turn (I2), so its turn's id names it.
type (
	// TurnID names one turn.
	TurnID string
	// CallID names one call.
	CallID string
	// ApprovalID names one approval.
	ApprovalID string
)

// NewTurnID makes an id that sorts by its time of creation, as the next two do.
func NewTurnID() TurnID { return TurnID(newUUID()) }

// NewCallID makes a call's id.
func NewCallID() CallID { return CallID(newUUID()) }

// NewApprovalID makes an approval's id.
func NewApprovalID() ApprovalID { return ApprovalID(newUUID()) }

// NewMessageID makes an id for an assistant message whose caller named none.
func NewMessageID() MessageID { return MessageID(replyPrefix + newUUID()) }

// ReplyID is the id of the message that answers a turn which asks for a reply,
// where whoever answers names none. It is always the same, so that an answer
// that died while it streamed and the one after it are one message.
func ReplyID(asked TurnID) MessageID { return MessageID(replyPrefix + string(asked)) }

const replyPrefix = "msg_"

// NewToken makes a client-made token: the name under which a commit of
// unknown outcome is looked up again.
func NewToken() string { return newUUID() }

func newUUID() string { return uuid.Must(uuid.NewV7()).String() }

// ParseUUID gives the canonical form of an id that Countersign made, or
// [ErrNotFound]: an id that was never made names nothing.
func ParseUUID[ID ~string](text string) (ID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return "", ErrNotFound
	}
	return ID(id.String()), nil
}

// MaxIDLength bounds an id that a caller chooses, in bytes.
const MaxIDLength = 200

// CheckID refuses what must never be an id: nothing, too much, bytes that
// are not UTF-8, and characters that a person cannot see (controls, bidi
// and zero-width formatting).
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("must not be empty")
	case len(id) > MaxIDLength:
		return fmt.Errorf("must not be longer than %d bytes", MaxIDLength)
	}
	return CheckText(id)
}

// CheckText refuses text that is not UTF-8 or holds characters that a person
// cannot see; line breaks and tabs pass only in [CheckProse].
func CheckText(text string) error { return checkRunes(text, "") }

// CheckProse is [CheckText] for text of several lines, such as a reason.
func CheckProse(text string) error { return checkRunes(text, "\n\r\t") }

func checkRunes(text, allowed string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("must be valid UTF-8")
	}
	for _, r := range text {
		if Invisible(r) && !containsRune(allowed, r) {
			return fmt.Errorf("must not hold the invisible character U+%04X", r)
		}
	}
	return nil
}

func containsRune(s string, r rune) bool {
	for _, c := range s {
		if c == r {
			return true
		}
	}
	return false
}

// Invisible tells whether r is a character that shows as nothing, or that
// changes how its neighbours show: controls, bidi marks, zero-width
// characters, tags, variation selectors, the replacement for broken UTF-8.
func Invisible(r rune) bool {
	switch {
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r):
		return true
	case r == utf8.RuneError, r == '\u2028', r == '\u2029', r == '\u034f', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0':
		return true
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0000 && r <= 0xE01EF:
		return true
	}
	return false
}
