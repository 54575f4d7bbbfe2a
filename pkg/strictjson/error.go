package strictjson

// Kind tells the two ways in which a body can be wrong.
type Kind string

const (
	// Malformed is text that is not strict JSON at all.
	Malformed Kind = "malformed"
	// Invalid is JSON that does not fit the type that is asked for.
	Invalid Kind = "invalid"
)

// Error says what is wrong with a JSON text.
type Error struct {
	Kind    Kind
	Pointer string // RFC 6901; "" is the whole text
	Detail  string // a sentence without values from the text
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Detail
	}
	return e.Pointer + ": " + e.Detail
}

func malformed(pointer, detail string) *Error {
	return &Error{Kind: Malformed, Pointer: pointer, Detail: detail}
}
