package token

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/model"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

func bobs() Token {
	return Token{Tenant: "acme", Key: "web", Subject: "user:bob", Topics: []model.TopicID{"chat/1", "ü"},
		Expires: time.Now().Add(time.Hour).Truncate(time.Second)}
}

func known(tenant model.TenantID, key string) ([]byte, error) {
	if tenant != "acme" || key != "web" {
		return nil, model.ErrNotFound
	}
	return secret, nil
}

func signed(t *testing.T, token Token) string {
	t.Helper()
	text, err := token.Sign(secret)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestATokenSaysWhatWasSigned(t *testing.T) {
	t.Parallel()
	want := bobs()
	got, err := Read(signed(t, want), known)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// forged makes a token with any header, signed with what its maker likes.
func forged(t *testing.T, method jwt.SigningMethod, key any, c jwt.Claims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(method, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return Prefix + text
}

func TestNothingElseIsAToken(t *testing.T) {
	t.Parallel()
	good := signed(t, bobs())
	parts := strings.Split(good, ".")
	content := claims{"acme", "web", []model.TopicID{"x"}, jwt.RegisteredClaims{Subject: "user:eve", ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))}}
	endless := content
	endless.ExpiresAt = nil
	old := bobs()
	old.Expires = time.Now().Add(-time.Second)
	stranger := bobs()
	stranger.Key = "gone"
	for name, text := range map[string]string{
		"nothing":              "",
		"the prefix alone":     Prefix,
		"no prefix":            strings.TrimPrefix(good, Prefix),
		"expired":              signed(t, old),
		"no expiry":            forged(t, jwt.SigningMethodHS256, secret, endless),
		"of a key not there":   signed(t, stranger),
		"another secret":       forged(t, jwt.SigningMethodHS256, []byte("another"), content),
		"an empty secret":      forged(t, jwt.SigningMethodHS256, []byte{}, content),
		"the algorithm none":   forged(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, content),
		"another algorithm":    forged(t, jwt.SigningMethodHS512, secret, content),
		"no signature":         parts[0] + "." + parts[1] + ".",
		"another's content":    parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"tenant":"acme","key":"web","sub":"user:eve","topics":["x"],"exp":99999999999}`)) + "." + parts[2],
		"a last bit that lies": good[:len(good)-1] + string(good[len(good)-1]+1),
		"a dot more":           good + ".",
		"padded":               good + "=",
		"too long":             Prefix + strings.Repeat("a", MaxLength+1),
	} {
		if got, err := Read(text, known); err == nil {
			t.Errorf("%s is read as a token of %s", name, got.Subject)
		}
	}
}

// A node that cannot ask does not say that a token is bad.
func TestAnErrorOfTheRowsIsNoVerdict(t *testing.T) {
	t.Parallel()
	_, err := Read(signed(t, bobs()), func(model.TenantID, string) ([]byte, error) { return nil, model.ErrUnavailable })
	if !errors.Is(err, model.ErrUnavailable) {
		t.Error(err)
	}
}

// A key that has lost its secret signs nothing: an empty one is everybody's.
func TestAnEmptySecretSignsNothing(t *testing.T) {
	t.Parallel()
	text, err := bobs().Sign([]byte{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(text, func(model.TenantID, string) ([]byte, error) { return nil, nil }); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}
