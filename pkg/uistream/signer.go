package uistream

// Signer signs approval requests with an operator's secret, and checks the
// signatures that come back. A nil one signs nothing and asks for nothing.
type Signer struct{ secret []byte }

// NewSigner makes a signer; without a secret there is none.
func NewSigner(secret string) *Signer {
	if secret == "" {
		return nil
	}
	return &Signer{[]byte(secret)}
}

// Sign is the signature of a request as a version's SDK makes it, over the
// input as clients are told it. Where the input has no canonical form, such as
// a number that JavaScript has none for, there is no signature.
func (s *Signer) Sign(of Signed, v Version) string {
	if s == nil {
		return ""
	}
	of.Input = harmless(of.Input)
	signature, err := of.Sign(s.secret, v)
	if err != nil {
		return ""
	}
	return signature
}

// Check says, in the SDK's own words, what is wrong with the signature of what
// a client shows, or "": the request must have been signed for exactly this
// call, in either version's form.
func (s *Signer) Check(shown Signed, signature string) string {
	if s == nil || shown.Verify(s.secret, signature) {
		return ""
	}
	why := "invalid signature"
	if signature == "" {
		why = "missing signature"
	}
	return "Tool approval signature verification failed for approval \"" + shown.ApprovalID + "\" (tool call \"" + shown.ToolCallID + "\"): " + why
}
