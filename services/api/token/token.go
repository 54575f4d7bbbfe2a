package token

import (
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Prefix begins every token, so that people and scanners see what it is.
const Prefix = "cst_"

// MaxLength is how many bytes a token may have: it must fit into a cookie.
const MaxLength = 3500

// Token is a credential of a person.
type Token struct {
	Tenant  model.TenantID
	Key     string // the name of the key that minted it
	Subject string // "user:bob"
	Topics  []model.TopicID
	Expires time.Time // to the second
}

// ErrInvalid is that a text is no token, or of another signer, or expired.
var ErrInvalid = errors.New("this is no token that is good now")

// claims are a token's content on the wire.
type claims struct {
	Tenant model.TenantID  `json:"tenant"`
	Key    string          `json:"key"`
	Topics []model.TopicID `json:"topics"`
	jwt.RegisteredClaims
}

// Sign makes the text of a token.
func (t Token) Sign(secret []byte) (string, error) {
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{t.Tenant, t.Key, t.Topics, jwt.RegisteredClaims{
		Subject: t.Subject, ExpiresAt: jwt.NewNumericDate(t.Expires),
	}}).SignedString(secret)
	return Prefix + text, err
}

// Is tells whether a credential claims to be a token.
func Is(credential string) bool { return strings.HasPrefix(credential, Prefix) }

// Read checks a token. secret finds what a key's tokens are signed with; its
// error is returned. Errors: [ErrInvalid].
func Read(text string, secret func(model.TenantID, string) ([]byte, error)) (Token, error) {
	text, is := strings.CutPrefix(text, Prefix)
	if !is || len(text) > MaxLength {
		return Token{}, ErrInvalid
	}
	var c claims
	var refused error
	_, err := parser.ParseWithClaims(text, &c, func(*jwt.Token) (any, error) {
		var key []byte
		if key, refused = secret(c.Tenant, c.Key); refused == nil && len(key) == 0 {
			refused = ErrInvalid // anybody can sign with nothing
		}
		return key, refused
	})
	switch {
	case refused != nil:
		return Token{}, refused
	case err != nil:
		return Token{}, ErrInvalid
	}
	return Token{c.Tenant, c.Key, c.Subject, c.Topics, c.ExpiresAt.Time}, nil
}

var parser = jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
	jwt.WithExpirationRequired(), jwt.WithStrictDecoding())
