package uistream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/gowebpki/jcs"

	"github.com/countersign/countersign/pkg/strictjson"
)

// Signed is what the signature of an approval request covers. It proves that
// whoever holds the secret asked about exactly this call; it covers neither
// the answer nor who may give it.
type Signed struct {
	ApprovalID string
	ToolCallID string
	ToolName   string
	Input      strictjson.Raw
}

// Sign makes the signature of an approval request as the SDK of a version
// makes it: base64url without padding of HMAC-SHA-256. The input is hashed in
// its canonical form (RFC 8785), which is that of JavaScript's own JSON.
func (s Signed) Sign(secret []byte, v Version) (string, error) {
	payload, err := s.payload(v)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(payload)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// Verify tells, in constant time, whether a signature is one that either
// version makes. V6's joins its fields by line breaks, so it is taken only
// where no field has one.
func (s Signed) Verify(secret []byte, signature string) bool {
	for _, v := range []Version{V7, V6} {
		if v == V6 && strings.Contains(s.ApprovalID+s.ToolCallID+s.ToolName, "\n") {
			continue
		}
		if want, err := s.Sign(secret, v); err == nil && hmac.Equal([]byte(want), []byte(signature)) {
			return true
		}
	}
	return false
}

func (s Signed) payload(v Version) ([]byte, error) {
	canonical, err := canonical(s.Input)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(canonical)
	digest := base64.RawURLEncoding.EncodeToString(sum[:])
	if v < V7 {
		return []byte(strings.Join([]string{s.ApprovalID, s.ToolCallID, s.ToolName, digest}, "\n")), nil
	}
	fields, err := strictjson.Marshal([]string{"ai-sdk-tool-approval-v1", s.ApprovalID, s.ToolCallID, s.ToolName, digest})
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return fields, nil
}

// canonical is RFC 8785's form of a JSON value. The library takes objects and
// arrays alone, so the value stands in an array meanwhile.
func canonical(value strictjson.Raw) ([]byte, error) {
	out, err := jcs.Transform(append(append([]byte("["), value...), ']'))
	if err != nil {
		return nil, fmt.Errorf("sign: the input has no canonical form: %w", err)
	}
	return out[1 : len(out)-1], nil
}
