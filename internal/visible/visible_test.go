package visible

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var texts = []struct{ name, in, want string }{
	{"plain text stays", "rm -rf /tmp/a b", "rm -rf /tmp/a b"},
	{"other scripts stay", "Grüße 你好 שלום 🎉", "Grüße 你好 שלום 🎉"},
	{"line feeds and tabs stay", "a\n\tb", "a\n\tb"},
	{"carriage return", "safe\rEVIL", "safe‹U+000D›EVIL"},
	{"ANSI colour", "\x1b[31mred", "‹U+001B›[31mred"},
	{"OSC 52 clipboard", "\x1b]52;c;ZXZpbA==\a", "‹U+001B›]52;c;ZXZpbA==‹U+0007›"},
	{"C1 control", "a\u009bb", "a‹U+009B›b"},
	{"NUL and DEL", "a\x00b\x7f", "a‹U+0000›b‹U+007F›"},
	{"right-to-left override", "invoice\u202efdp.exe", "invoice‹U+202E›fdp.exe"},
	{"isolates and marks", "\u2066\u2069\u200e\u061c", "‹U+2066›‹U+2069›‹U+200E›‹U+061C›"},
	{"zero width", "pay\u200bpal\u2060", "pay‹U+200B›pal‹U+2060›"},
	{"byte order mark", "\ufeffx", "‹U+FEFF›x"},
	{"tag characters", "a\U000e0041\U000e007f", "a‹U+E0041›‹U+E007F›"},
	{"variation selectors", "a\ufe0f\U000e0100\u180b", "a‹U+FE0F›‹U+E0100›‹U+180B›"},
	{"spaces that are none", "a\u00a0b\u2003c\u3000d\u2800e", "a‹U+00A0›b‹U+2003›c‹U+3000›d‹U+2800›e"},
	{"separators of lines", "a\u2028b\u2029c", "a‹U+2028›b‹U+2029›c"},
	{"private use, unassigned", "\ue000\U0010ffff", "‹U+E000›‹U+10FFFF›"},
	{"broken UTF-8", "a\xffb\xe2\x80", "a‹0xFF›b‹0xE2›‹0x80›"},
	{"a replacement character", "a\ufffd", "a‹U+FFFD›"},
	{"a forged mark", "a‹U+202E›b‹0xFF›", "a‹U+2039›U+202E›b‹U+2039›0xFF›"},
	{"an innocent quotation mark", "‹Zitat›", "‹Zitat›"},
}

func TestTextShowsWhatHides(t *testing.T) {
	for _, c := range texts {
		t.Run(c.name, func(t *testing.T) {
			if got := Text(c.in); got != c.want {
				t.Errorf("Text(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestLineIsOneLine(t *testing.T) {
	if got, want := Line("a\n\tb"), "a‹U+000A›‹U+0009›b"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
}

func TestCountCountsMarks(t *testing.T) {
	if got := Count("a\u202eb\xff\n"); got != 2 {
		t.Errorf("Count = %d, want 2", got)
	}
	if got := CountJSON([]byte(`{"a": "\u202e\u200b"}`)); got != 2 {
		t.Errorf("CountJSON = %d, want 2", got)
	}
}

var documents = []struct{ name, in, want string }{
	{"numbers, order and doubled names stay", `{"b":1.0,"a":9007199254740993,"b":1E+2}`,
		"{\n  \"b\": 1.0,\n  \"a\": 9007199254740993,\n  \"b\": 1E+2\n}"},
	{"empty ones stay short", ` {"a":{},"b":[]} `, "{\n  \"a\": {},\n  \"b\": []\n}"},
	{"scalars", `"x"`, `"x"`},
	{"raw bidi", "\"a\u202eb\"", `"a‹U+202E›b"`},
	{"escaped bidi", `"a\u202eb"`, `"a‹U+202E›b"`},
	{"escaped tag as a pair", `"\udb40\udc41"`, `"‹U+E0041›"`},
	{"lone surrogate", `"\ud800x"`, `"‹U+D800›x"`},
	{"escaped NUL and ESC", `"\u0000\u001b[0m"`, `"‹U+0000›‹U+001B›[0m"`},
	{"escaped letters are read", `"\u0072\u006d -rf \u4f60"`, `"rm -rf 你"`},
	{"an emoji as a pair", `"\ud83c\udf89"`, `"🎉"`},
	{"escaped quotes stay escaped", `"a\u0022: \u005c"`, `"a\": \\"`},
	{"short escapes stay", `"a\n\t\"\\\/b"`, `"a\n\t\"\\\/b"`},
	{"an escaped backslash is no escape", `"\\u202e"`, `"\\u202e"`},
	{"a forged mark", `"\u2039U+202E›"`, `"‹U+2039›U+202E›"`},
	{"a mark forged half and half", `"‹\u0055+202E› ‹U\u002b› ‹0\u0078›"`, `"‹U+2039›U+202E› ‹U+2039›U+› ‹U+2039›0x›"`},
	{"no JSON", "{\"a\": \x1b[1m", "{\"a\": ‹U+001B›[1m"},
	{"broken UTF-8 within a string", "\"\xff\"", `"‹0xFF›"`},
}

func TestJSONShowsTheExactDocument(t *testing.T) {
	for _, c := range documents {
		t.Run(c.name, func(t *testing.T) {
			if got := JSON([]byte(c.in)); got != c.want {
				t.Errorf("JSON(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestJSONLine(t *testing.T) {
	if got, want := JSONLine([]byte(`{"a": [1, "\u202e" ]}`)), `{"a":[1,"‹U+202E›"]}`; got != want {
		t.Errorf("JSONLine = %q, want %q", got, want)
	}
	if got, want := JSONLine([]byte("a\nb")), "a‹U+000A›b"; got != want {
		t.Errorf("JSONLine = %q, want %q", got, want)
	}
}

func FuzzTextShowsEverything(f *testing.F) {
	for _, c := range texts {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mustShow(t, Text(s), "\n\t")
		mustShow(t, Line(s), "")
		if Count(s) == 0 && Text(s) != s {
			t.Errorf("Text(%q) changed the text without a mark", s)
		}
	})
}

func FuzzJSONShowsEverything(f *testing.F) {
	for _, c := range documents {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		mustShow(t, JSON(raw), "\n\t")
		mustShow(t, JSONLine(raw), "")
		if json.Valid(raw) && CountJSON(raw) == 0 {
			mustEqual(t, raw, []byte(JSON(raw)))
		}
	})
}

func FuzzSafeJSONIsTheSameDocument(f *testing.F) {
	for _, c := range documents {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		safe := SafeJSON(raw)
		mustShow(t, string(safe), "\n\t")
		mustEqual(t, raw, safe)
	})
}

func mustEqual(t *testing.T, a, b []byte) {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		return // a number too large for float64
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%q became %q: %v", a, b, err)
	}
	if !reflect.DeepEqual(x, y) {
		t.Errorf("%q became %q", a, b)
	}
}

func mustShow(t *testing.T, shown, allowed string) {
	t.Helper()
	if !utf8.ValidString(shown) {
		t.Fatalf("%q is not UTF-8", shown)
	}
	for _, r := range shown {
		if strings.ContainsRune(allowed, r) {
			continue
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Bidi_Control, unicode.Variation_Selector) {
			t.Fatalf("%q shows %s", shown, fmt.Sprintf("U+%04X", r))
		}
	}
}
