package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/countersign/countersign/pkg/store"
)

// TestTheAISDKTakesEveryPart asks the real validateUIMessages of both
// versions about every line of the table.
func TestTheAISDKTakesEveryPart(t *testing.T) {
	t.Parallel()
	folder := sdk(t)
	messages := map[string]json.RawMessage{
		"no turn has parts yet": Message(store.Message{ID: "m", Role: "assistant"}),
		"a person's message":    json.RawMessage(`{"id":"u","role":"user","parts":[{"type":"text","text":"hi"}]}`),
	}
	for _, p := range parts {
		messages[p.name] = Message(p.message())
	}
	body, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "node", "validate.mjs")
	run.Dir, run.Stdin = folder, bytes.NewReader(body)
	var errors bytes.Buffer
	run.Stderr = &errors
	out, err := run.Output()
	if err != nil {
		t.Fatalf("node validate.mjs: %v\n%s", err, errors.Bytes())
	}
	var refused map[string]string
	if err := json.Unmarshal(out, &refused); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	for name, why := range refused {
		t.Errorf("%s is refused: %s", name, why)
	}
}

const sdkFiles = "testdata/validate"

// sdk gives a folder in which both versions of the SDK are installed. It is
// kept in the user's cache under the hash of what it is made from, since the
// installation takes far longer than the test.
func sdk(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing; this brings it: sudo apt-get install -y nodejs npm (version 20 or newer)", tool)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	folder := filepath.Join(cache, "countersign", "ai-sdk-"+fingerprint(t))
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		t.Fatal(err)
	}
	install(t, folder)
	return folder
}

// install fills a folder of its own and moves it into place in one step, so
// that two test binaries never share half an installation.
func install(t *testing.T, folder string) {
	t.Helper()
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "installing-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	if err := os.CopyFS(fresh, os.DirFS(sdkFiles)); err != nil {
		t.Fatal(err)
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci in %s: %v\n%s", sdkFiles, err, out)
	}
	if err := os.Rename(fresh, folder); err != nil {
		if _, there := os.Stat(folder); there != nil { // another binary was faster
			t.Fatal(err)
		}
	}
}

func fingerprint(t *testing.T) string {
	t.Helper()
	hash := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", "validate.mjs"} {
		content, err := os.ReadFile(filepath.Join(sdkFiles, name))
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
