package bus

import (
	"strings"
	"testing"
)

func TestTokensAreReadableAndSafe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"chat-42":        "chat-42",
		"Ab_9":           "Ab_9",
		"":               "=",
		"=":              "=3D",
		"a.b":            "a=2Eb",
		"*":              "=2A",
		">":              "=3E",
		"a b/c":          "a=20b=2Fc",
		"é":              "=C3=A9",
		"\x00\xff":       "=00=FF",
		"$JS.API":        "=24JS=2EAPI",
		"a=2Eb":          "a=3D2Eb",
		"tab\tnewline\n": "tab=09newline=0A",
	} {
		if got := EncodeToken(text); got != want {
			t.Errorf("EncodeToken(%q) = %q, want %q", text, got, want)
		}
		if back, err := DecodeToken(want); err != nil || back != text {
			t.Errorf("DecodeToken(%q) = %q, %v, want %q", want, back, err, text)
		}
	}
}

func TestForeignTokensAreRefused(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "a.b", "a b", "*", "=2", "a=", "==", "=2e", "=GG", "=41", "é", "=2E.", "=2"} {
		if text, err := DecodeToken(token); err == nil {
			t.Errorf("DecodeToken(%q) = %q, want an error", token, text)
		}
	}
}

func TestIdsCannotReachAnotherSubject(t *testing.T) {
	t.Parallel()
	if a, b := SignalSubject("a.b", "c"), SignalSubject("a", "b.c"); a == b {
		t.Errorf("two topics share the subject %s", a)
	}
	if got := SignalSubject("te*", "to.>"); strings.Count(got, ".") != 3 || strings.ContainsAny(got, "*> ") {
		t.Errorf("the subject %q can be misread", got)
	}
	if got, want := ContinuationSubject("default", "my-bot"), "countersign.continuations.default.my-bot"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzToken(f *testing.F) {
	for _, seed := range []string{"", "=", "chat-42", "a.b.>", "*", "=2E", "é\x00\xff ", "a=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token := EncodeToken(text)
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r > '~' || !plain(byte(r)) && r != '=' }) {
			t.Fatalf("EncodeToken(%q) = %q is not a safe token", text, token)
		}
		if back, err := DecodeToken(token); err != nil || back != text {
			t.Fatalf("DecodeToken(%q) = %q, %v, want %q", token, back, err, text)
		}
		if decoded, err := DecodeToken(text); err == nil && EncodeToken(decoded) != text {
			t.Fatalf("two tokens, %q and %q, stand for %q", text, EncodeToken(decoded), decoded)
		}
	})
}
