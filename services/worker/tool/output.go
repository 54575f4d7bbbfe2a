package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// MaxOutputBytes is the largest answer that is kept whole.
	MaxOutputBytes = 4 << 20
	// keptBytes is how much of a larger answer is kept: enough to recognise
	// it by, small enough to be shown to a model.
	keptBytes = 256 << 10
	// maxReadBytes is where reading of an answer stops; it bounds the time
	// and not the memory, which ends with MaxOutputBytes.
	maxReadBytes = 64 << 20
	// maxOutputDepth is the nesting up to which an answer is passed on as
	// JSON: what reads it later need not survive every nesting.
	maxOutputDepth = 500
	// maxTextBytes bounds an error's text.
	maxTextBytes = 8 << 10
)

// Output gives the JSON value that stands for what a tool answered:
//
//   - an answer that is JSON in valid UTF-8: itself, byte for byte, without
//     the white space around it
//   - no bytes at all: null
//   - any other text: {"text": "…"}, controls and NUL escaped
//   - bytes that are not UTF-8: {"base64": "…"}
//   - more than [MaxOutputBytes]: {"truncated": true, "bytes": n, "sha256":
//     "…", "text" or "base64": the first 256 KiB}, where bytes and sha256 are
//     of the whole answer; beyond 64 MiB reading stops, and "more": true says
//     that both are of what was read
//
// So nothing is lost without saying so, and no answer, whatever it holds, is
// anything but valid JSON.
func Output(answer []byte) []byte {
	c := capture{sum: sha256.New()}
	_, _ = c.Write(answer) // it takes everything
	return c.output()
}

// ReadOutput is [Output] of everything that r has. An error means that the
// answer was cut off.
func ReadOutput(r io.Reader) (output []byte, read int64, err error) {
	c := &capture{sum: sha256.New()}
	_, err = io.Copy(c, io.LimitReader(r, maxReadBytes))
	if err == nil && c.total == maxReadBytes {
		n, _ := r.Read(make([]byte, 1))
		c.more = n > 0
	}
	return c.output(), c.total, err
}

// capture keeps an answer, or its beginning.
type capture struct {
	kept  []byte
	total int64
	sum   hash.Hash
	more  bool
}

func (c *capture) Write(p []byte) (int, error) {
	c.sum.Write(p)
	c.total += int64(len(p))
	// One byte more than is kept whole shows that it is too much.
	room := MaxOutputBytes + 1 - len(c.kept)
	c.kept = append(c.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

func (c *capture) output() []byte {
	if c.total > MaxOutputBytes {
		part := c.kept[:keptBytes]
		if !utf8.Valid(part) {
			part = trimPartialRune(part)
		}
		return encode(wrapped(part, &truncation{
			Truncated: true, Bytes: c.total, SHA256: hex.EncodeToString(c.sum.Sum(nil)), More: c.more,
		}))
	}
	switch {
	case c.total == 0:
		return []byte("null")
	case utf8.Valid(c.kept) && json.Valid(c.kept) && depth(c.kept) <= maxOutputDepth:
		return bytes.TrimSpace(c.kept)
	}
	return encode(wrapped(c.kept, nil))
}

type truncation struct {
	Truncated bool   `json:"truncated"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	More      bool   `json:"more,omitempty"`
}

type wrapping struct {
	*truncation
	Text   *string `json:"text,omitempty"`
	Base64 string  `json:"base64,omitempty"`
}

func wrapped(part []byte, t *truncation) wrapping {
	if utf8.Valid(part) {
		text := string(part)
		return wrapping{truncation: t, Text: &text}
	}
	return wrapping{truncation: t, Base64: base64.StdEncoding.EncodeToString(part)}
}

func encode(v wrapping) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings and numbers into memory: cannot fail
	return bytes.TrimSpace(b.Bytes())
}

// trimPartialRune drops the beginning of a character that the cut went
// through.
func trimPartialRune(p []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(p); i++ {
		if start := len(p) - i; utf8.RuneStart(p[start]) {
			if !utf8.FullRune(p[start:]) {
				return p[:start]
			}
			break
		}
	}
	return p
}

// depth is the deepest nesting of valid JSON.
func depth(valid []byte) int {
	deepest, level, inString := 0, 0, false
	for i := 0; i < len(valid); i++ {
		switch c := valid[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// Text makes an error's text of what a tool said: valid UTF-8 without NUL,
// at most 8 KiB; what is missing or replaced shows.
func Text(said []byte) string { return text(said, maxTextBytes) }

func text(said []byte, limit int) string {
	cut := len(said) > limit
	if cut {
		said = trimPartialRune(said[:limit])
	}
	s := strings.ToValidUTF8(string(said), "\uFFFD")
	s = strings.TrimSpace(strings.ReplaceAll(s, "\x00", "\uFFFD"))
	if cut {
		s += " … (cut)"
	}
	return s
}
