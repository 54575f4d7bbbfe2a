package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
)

const mask = "***"

// A Secret masks itself: printed with any verb, logged or marshalled it is
// "***", or nothing when it is empty. [Secret.Reveal] gives the value.
type Secret string

// Reveal is the value itself.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString is what %#v prints.
func (s Secret) GoString() string { return fmt.Sprintf("daemon.Secret(%q)", s.String()) }

// Format masks every verb, %x and %q included.
func (s Secret) Format(f fmt.State, verb rune) { formatMasked(f, verb, s.String(), s.GoString()) }

// MarshalText is what JSON and text encodings write.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the value as it stands.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// LogValue is what slog writes.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// A URL is an address that may carry a password. Printed, logged or
// marshalled it shows everything but that; [URL.Reveal] gives the value. It
// may be a list, as NATS and Postgres take it.
type URL string

// Reveal is the value itself, password included.
func (u URL) Reveal() string { return string(u) }

var secretParameter = regexp.MustCompile(`(?i)([?&][^=&#]*(?:pass|secret|token|key)[^=&#]*=)[^&#]*`)

// String is the value with its passwords masked. It works on the text, not on
// a parsed URL, so that what does not parse is masked too; where it is in
// doubt it masks more.
func (u URL) String() string {
	parts := strings.Split(string(u), "://")
	for i := 1; i < len(parts); i++ {
		parts[i] = maskUserinfo(parts[i], isTokenScheme(parts[i-1]))
	}
	return secretParameter.ReplaceAllString(strings.Join(parts, "://"), "${1}"+mask)
}

// maskUserinfo masks the password in "user:password@host/path". Without a
// colon the whole of it can be a token.
func maskUserinfo(text string, token bool) string {
	at := strings.LastIndex(text, "@")
	if at < 0 {
		return text
	}
	if colon := strings.Index(text[:at], ":"); colon >= 0 {
		return text[:colon+1] + mask + text[at:]
	}
	if token {
		return mask + text[at:]
	}
	return text
}

// isTokenScheme says whether the text before "://" ends in a scheme of NATS.
func isTokenScheme(before string) bool {
	for _, scheme := range []string{"nats", "tls", "ws", "wss"} {
		if strings.HasSuffix(before, scheme) {
			return true
		}
	}
	return false
}

// GoString is what %#v prints.
func (u URL) GoString() string { return fmt.Sprintf("daemon.URL(%q)", u.String()) }

// Format masks every verb.
func (u URL) Format(f fmt.State, verb rune) { formatMasked(f, verb, u.String(), u.GoString()) }

// MarshalText is what JSON and text encodings write.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText refuses what has no scheme. The error does not repeat it.
func (u *URL) UnmarshalText(text []byte) error {
	if len(text) > 0 && !strings.Contains(string(text), "://") {
		return fmt.Errorf("must be a URL with a scheme, such as postgres://user@host/database")
	}
	*u = URL(text)
	return nil
}

// LogValue is what slog writes.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

func formatMasked(f fmt.State, verb rune, masked, goString string) {
	switch {
	case verb == 'v' && f.Flag('#'):
		_, _ = io.WriteString(f, goString)
	case verb == 'v':
		_, _ = io.WriteString(f, masked)
	default:
		fmt.Fprintf(f, fmt.FormatString(f, verb), masked)
	}
}
