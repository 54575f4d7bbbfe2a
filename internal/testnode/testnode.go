// Package testnode gives tests packages from the npm registry, exactly as a
// lock file names them. A folder with package.json and package-lock.json is
// installed once into the user's cache, under the hash of both, since an
// installation takes far longer than a test.
//
// Make the lock file with npm install --omit-lockfile-registry-resolved, so
// that it names no registry's host and works with any mirror.
package testnode

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// locked are the files that say what is installed.
var locked = []string{"package.json", "package-lock.json"}

// Packages installs what the lock file in folder names, if that was not done
// before, and gives the node_modules folder. Without Node.js the test fails
// with the command that brings it.
func Packages(t testing.TB, folder string) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing; on Debian and Ubuntu this brings it: scripts/setup.sh node", tool)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	installed := filepath.Join(cache, "countersign", "npm-"+fingerprint(t, folder))
	if _, err := os.Stat(installed); err != nil {
		install(t, folder, installed)
	}
	return filepath.Join(installed, "node_modules")
}

// Run runs a script of a folder, with the folder's packages and the JSON of
// in as its input, and reads its output into out.
func Run(t testing.TB, folder, script string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	must(t, err)
	// A script that is passed like this finds packages from its folder.
	node := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", string(read(t, folder, script)))
	node.Dir, node.Stdin = filepath.Dir(Packages(t, folder)), bytes.NewReader(body)
	var said bytes.Buffer
	node.Stderr = &said
	answer, err := node.Output()
	if err != nil {
		t.Fatalf("node %s: %v\n%s", script, err, said.Bytes())
	}
	if err := json.Unmarshal(answer, out); err != nil {
		t.Fatalf("node %s: %v in %q", script, err, answer)
	}
}

// install fills a folder of its own and moves it into place in one step, so
// that two test binaries never share half an installation.
func install(t testing.TB, folder, installed string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(installed), 0o755))
	fresh, err := os.MkdirTemp(filepath.Dir(installed), "installing-")
	must(t, err)
	defer os.RemoveAll(fresh)
	for _, name := range locked {
		must(t, os.WriteFile(filepath.Join(fresh, name), read(t, folder, name), 0o644))
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci with %s: %v\n%s", folder, err, out)
	}
	if err := os.Rename(fresh, installed); err != nil {
		if _, there := os.Stat(installed); there != nil { // another binary was faster
			t.Fatal(err)
		}
	}
}

func fingerprint(t testing.TB, folder string) string {
	t.Helper()
	hash := sha256.New()
	for _, name := range locked {
		hash.Write(read(t, folder, name))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

func read(t testing.TB, folder, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	must(t, err)
	return content
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
