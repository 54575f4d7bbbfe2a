package uistream

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/strictjson"
)

// The vectors are signatures of ai 6.0.325 and 7.0.173.
func TestSignaturesAreTheSDKsOwn(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/sigvectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	secret, n := []byte("test-secret-key-for-hmac-signing"), 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		var vector struct {
			ApprovalID, ToolCallID, ToolName, Canonical string
			V7                                          string `json:"sig_v7"`
			V6                                          string `json:"sig_v6"`
		}
		if err := json.Unmarshal(lines.Bytes(), &vector); err != nil {
			t.Fatal(err)
		}
		s := Signed{vector.ApprovalID, vector.ToolCallID, vector.ToolName, strictjson.Raw(vector.Canonical)}
		for v, want := range map[Version]string{V6: vector.V6, V7: vector.V7} {
			if got, err := s.Sign(secret, v); err != nil || got != want {
				t.Errorf("vector %d, v%d: %s, want %s (%v)", n, v, got, want, err)
			}
		}
		if v6Too := !strings.Contains(vector.ApprovalID, "\n"); !s.Verify(secret, vector.V7) || s.Verify(secret, vector.V6) != v6Too {
			t.Errorf("vector %d: its signatures are not verified as they are to be", n)
		}
		if s.ToolName += "x"; s.Verify(secret, vector.V7) {
			t.Errorf("vector %d: a signature of another tool is taken", n)
		}
	}
	if n == 0 {
		t.Fatal("no vectors")
	}
}

// A signer takes what it signed as clients show it again: an input that they
// cannot be told is told as its text. Without a secret nothing is signed, and
// nothing asked for.
func TestASignerTakesWhatClientsShow(t *testing.T) {
	t.Parallel()
	of := Signed{ApprovalID: "a", ToolCallID: "c", ToolName: "t", Input: strictjson.Raw(`{"__proto__":{}}`)}
	s := NewSigner("sixteen letters.")
	signature, shown := s.Sign(of, V6), of
	if shown.Input = strictjson.Raw(`"{\"__proto__\":{}}"`); signature == "" || s.Check(shown, signature) != "" {
		t.Errorf("%q: %s", signature, s.Check(shown, signature))
	}
	if s.Check(shown, "") == "" || s.Check(of, signature) == "" || NewSigner("another secret..").Check(shown, signature) == "" {
		t.Error("what was not signed is taken")
	}
	if huge := (Signed{Input: strictjson.Raw(`1e999`)}); s.Sign(huge, V7) != "" {
		t.Error("a number that JavaScript has none for is signed")
	}
	if none := NewSigner(""); none != nil || none.Sign(of, V7) != "" || none.Check(of, "x") != "" {
		t.Error("without a secret there is a signature")
	}
}
