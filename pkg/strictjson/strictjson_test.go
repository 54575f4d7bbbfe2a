package strictjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// level is a type with words of its own for what it accepts.
type level string

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "low" && string(text) != "high" {
		return errors.New("must be low or high")
	}
	*l = level(text)
	return nil
}

type body struct {
	Approved *bool             `json:"approved"`
	Reason   string            `json:"reason,omitzero"`
	Count    int               `json:"count,omitzero"`
	Small    int8              `json:"small,omitzero"`
	Ratio    float64           `json:"ratio,omitzero"`
	Hold     bool              `json:"hold,omitzero"`
	Level    level             `json:"level,omitzero"`
	At       time.Time         `json:"at,omitzero"`
	Input    Raw               `json:"input,omitzero"`
	Parts    []Raw             `json:"parts,omitzero"`
	Names    map[string]string `json:"names,omitzero"`
	Inner    struct {
		Name string `json:"name,omitzero"`
	} `json:"inner,omitzero"`
	Any any `json:"any,omitzero"`
}

var bad = []struct {
	name, in string
	kind     Kind
	pointer  string
	detail   string // part of it
}{
	{"empty", "", Malformed, "", "empty"},
	{"white space only", " \n ", Malformed, "", "empty"},
	{"truncated", `{"reason": "x`, Malformed, "/reason", "middle"},
	{"truncated object", `{"reason": "x"`, Malformed, "", "middle"},
	{"trailing value", `{"reason": "x"} {}`, Malformed, "", "follows"},
	{"trailing garbage", `{"reason": "x"}x`, Malformed, "", "follows"},
	{"trailing comma", `{"reason": "x",}`, Malformed, "", "invalid character"},
	{"doubled document", `{}{}`, Malformed, "", "follows"},
	{"duplicate name", `{"reason": "x", "reason": "y"}`, Malformed, "/reason", "twice"},
	{"duplicate name, escaped", `{"reason": "x", "re\u0061son": "y"}`, Malformed, "/reason", "twice"},
	{"duplicate name within a raw value", `{"input": {"a": 1, "a": 2}}`, Malformed, "/input/a", "twice"},
	{"duplicate name within an unread value", `{"inner": {"x": {"a": 1, "a": 2}}}`, Malformed, "/inner/x/a", "twice"},
	{"invalid UTF-8", "{\"reason\": \"\xff\"}", Malformed, "/reason", "UTF-8"},
	{"invalid UTF-8 within a raw value", "{\"input\": \"\xc0\xaf\"}", Malformed, "/input", "UTF-8"},
	{"overlong UTF-8 in a name", "{\"\xc0\xaf\": 1}", Malformed, "", "UTF-8"},
	{"lone surrogate", `{"reason": "\ud800"}`, Malformed, "/reason", "surrogate"},
	{"lone low surrogate", `{"reason": "\udc00x"}`, Malformed, "/reason", "surrogate"},
	{"reversed surrogates", `{"input": "\udc00\ud800"}`, Malformed, "/input", "surrogate"},
	{"raw surrogate bytes", "{\"reason\": \"\xed\xa0\x80\"}", Malformed, "/reason", "UTF-8"},
	{"raw NUL", "{\"reason\": \"a\x00b\"}", Malformed, "/reason", "invalid character"},
	{"raw line feed", "{\"reason\": \"a\nb\"}", Malformed, "/reason", "invalid character"},
	{"byte order mark", "\ufeff{}", Malformed, "", "invalid character"},
	{"comment", `{/* */}`, Malformed, "", "invalid character"},
	{"single quotes", `{'reason': 'x'}`, Malformed, "", "invalid character"},
	{"NaN", `{"ratio": NaN}`, Malformed, "/ratio", "invalid character"},
	{"leading zero", `{"count": 01}`, Malformed, "", "invalid character"},
	{"too deep", `{"input": ` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, Malformed, "", "deeper than 64"},
	{"far too deep", strings.Repeat(`{"a":`, 100_000), Malformed, "", "deeper than 64"},
	{"malformed wins", `{"count": "x", "reason": }`, Malformed, "/reason", "invalid character"},

	{"unknown member", `{"resaon": "x"}`, Invalid, "/resaon", "not a member"},
	{"case variant", `{"Reason": "x"}`, Invalid, "/Reason", "not a member"},
	{"unknown member inside", `{"inner": {"nom~e/": 1}}`, Invalid, "/inner/nom~0e~1", "not a member"},
	{"array for an object", `[]`, Invalid, "", "must be an object, not an array"},
	{"null for an object", `null`, Invalid, "", "must be an object, not null"},
	{"string for a flag", `{"approved": "secret"}`, Invalid, "/approved", "must be true or false, not a string"},
	{"number for a string", `{"reason": 12}`, Invalid, "/reason", "must be a string, not a number"},
	{"string for a number", `{"count": "12"}`, Invalid, "/count", "must be a whole number, not a string"},
	{"fraction for a whole number", `{"count": 1.5}`, Invalid, "/count", "must be a whole number"},
	{"exponent for a whole number", `{"count": 1e3}`, Invalid, "/count", "must be a whole number"},
	{"out of range", `{"small": 300}`, Invalid, "/small", "too large or too small"},
	{"out of range of a double", `{"ratio": 1e400}`, Invalid, "/ratio", "too large or too small"},
	{"object for an array", `{"parts": {}}`, Invalid, "/parts", "must be an array, not an object"},
	{"null for a flag", `{"hold": null}`, Invalid, "/hold", "must be true or false, not null"},
	{"null for a string", `{"reason": null}`, Invalid, "/reason", "must be a string, not null"},
	{"null for an array", `{"parts": null}`, Invalid, "/parts", "must be an array, not null"},
	{"null in a map", `{"names": {"a": null}}`, Invalid, "/names/a", "must be a string, not null"},
	{"null for a time", `{"at": null}`, Invalid, "/at", "must be a time in RFC 3339, not null"},
	{"no time", `{"at": "secret"}`, Invalid, "/at", "must be a time in RFC 3339"},
	{"a type's own words", `{"level": "secret"}`, Invalid, "/level", "must be low or high"},
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			var into body
			var got *Error
			if err := Unmarshal([]byte(c.in), &into); !errors.As(err, &got) {
				t.Fatalf("Unmarshal = %v, want an *Error", err)
			}
			if got.Kind != c.kind || got.Pointer != c.pointer || !strings.Contains(got.Detail, c.detail) {
				t.Errorf("got %s %q %q, want %s %q …%s…", got.Kind, got.Pointer, got.Detail, c.kind, c.pointer, c.detail)
			}
			if strings.Contains(got.Error(), "secret") {
				t.Errorf("%q quotes the value", got)
			}
		})
	}
}

func TestUnmarshalReads(t *testing.T) {
	var got body
	in := `{"approved": true, "reason": "a\u0000b", "input": { "b":1.0,  "a": 9007199254740993 }, "parts": [ {} ],` +
		` "level": "low", "at": "2026-01-02T03:04:05Z", "any": null, "count": -3}`
	if err := Unmarshal([]byte(" "+in+"\n"), &got); err != nil {
		t.Fatal(err)
	}
	if !*got.Approved || got.Reason != "a\x00b" || got.Level != "low" || got.Count != -3 || got.At.Year() != 2026 {
		t.Errorf("got %+v", got)
	}
	if want := `{ "b":1.0,  "a": 9007199254740993 }`; got.Input.String() != want {
		t.Errorf("input is %s, want %s", got.Input, want)
	}
}

func TestNullIsAValueWhereItCanBe(t *testing.T) {
	got := body{Approved: new(bool)}
	if err := Unmarshal([]byte(`{"approved": null, "input": null, "parts": [null], "any": null}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.Approved != nil || got.Input.String() != "null" || got.Parts[0].String() != "null" {
		t.Errorf("got %+v", got)
	}
}

func TestUnknownMembersPassWhenAllowed(t *testing.T) {
	var got body
	if err := Unmarshal([]byte(`{"more": {"a": 1}, "reason": "x"}`), &got, AllowUnknownMembers()); err != nil {
		t.Fatal(err)
	}
	if err := Unmarshal([]byte(`{"more": {"a": 1, "a": 2}}`), &got, AllowUnknownMembers()); err == nil {
		t.Error("a doubled name in a member that is passed over was accepted")
	}
}

func TestValidHoldsItsDepth(t *testing.T) {
	for depth, ok := range map[int]bool{3: true, 2: false} {
		if err := Valid([]byte(`{"a": [{"b": "[[[[\"{{{{"}]}`), depth); (err == nil) != ok {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

func TestMarshalWritesRawByteByByte(t *testing.T) {
	value := struct {
		Z     Raw            `json:"z"`
		A     int            `json:"a"`
		List  []Raw          `json:"list"`
		Map   map[string]Raw `json:"map"`
		None  Raw            `json:"none"`
		Out   Raw            `json:"out,omitzero"`
		Ptr   *Raw           `json:"ptr,omitzero"`
		Text  string         `json:"text"`
		Empty []string       `json:"empty"`
	}{
		Z: Raw(`{ "b":1.0,  "\u0061": 9007199254740993 }`), List: []Raw{Raw(" 1"), Raw(`"<\/>"`)},
		Map: map[string]Raw{"y": Raw("[ ]"), "x": Raw("-0")}, Ptr: &Raw{'0'}, Text: "<0>",
	}
	got, err := Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"z":{ "b":1.0,  "\u0061": 9007199254740993 },"a":0,"list":[ 1,"<\/>"],"map":{"x":-0,"y":[ ]},` +
		`"none":null,"ptr":0,"text":"<0>","empty":[]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMarshalRefusesWhatIsNoJSON(t *testing.T) {
	for _, raw := range []Raw{{}, Raw("{"), Raw("1 2"), Raw(`"a`)} {
		if got, err := Marshal([]Raw{raw}); err == nil {
			t.Errorf("Marshal(%q) = %s", raw, got)
		}
	}
	if got, err := Marshal("\xff"); err == nil {
		t.Errorf("Marshal of broken UTF-8 = %s", got)
	}
}

func TestLargeDocumentsKeepTheirPlaces(t *testing.T) {
	list := make([]Raw, 20_000)
	for i := range list {
		list[i] = Raw(fmt.Sprintf(`{ "n": %d }`, i))
	}
	got, err := Marshal(map[string]any{"list": list, "end": "0"})
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		End  string `json:"end"`
		List []Raw  `json:"list"`
	}
	if err := Unmarshal(got, &back); err != nil || len(back.List) != len(list) || back.End != "0" {
		t.Fatalf("%v, %d values", err, len(back.List))
	}
	for i := range list {
		if !bytes.Equal(back.List[i], list[i]) {
			t.Fatalf("value %d is %s", i, back.List[i])
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, c := range bad {
		f.Add([]byte(c.in))
	}
	f.Add([]byte(`{"input": {"a": [1, "\u0000"]}, "reason": "x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var into body
		err := Unmarshal(data, &into)
		if err == nil && !stdjson.Valid(data) {
			t.Fatalf("accepted %q", data)
		}
		refused, _ := errors.AsType[*Error](err)
		if (err == nil || refused.Kind == Invalid) != (Valid(data, MaxDepth) == nil) {
			t.Fatalf("%q: Unmarshal says %v, Valid says %v", data, err, Valid(data, MaxDepth))
		}
		var raw Raw
		if Unmarshal(data, &raw) != nil {
			return
		}
		if trimmed := bytes.Trim(data, " \t\r\n"); !bytes.Equal(raw, trimmed) {
			t.Fatalf("%q was kept as %q", data, raw)
		}
		if out, err := Marshal(raw); err != nil || !bytes.Equal(out, raw) {
			t.Fatalf("%q was written as %q (%v)", raw, out, err)
		}
	})
}
