package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/countersign/countersign/internal/testnode"
)

// build makes the page as `npm ci && npm run build` does, in a folder of the
// test's own.
func build(t *testing.T) (dist string) {
	t.Helper()
	folder := t.TempDir()
	packages := testnode.Packages(t, ".")
	must(t, os.Symlink(packages, filepath.Join(folder, "node_modules")))
	sources, err := filepath.Glob("*.[tch][sst]*")
	must(t, err)
	for _, name := range append(sources, "package.json", "tsconfig.json") {
		content, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder, name), content, 0o644))
	}
	npm := exec.CommandContext(t.Context(), "npm", "run", "build")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm run build: %v\n%s", err, out)
	}
	return filepath.Join(folder, "dist")
}

// browser is a headless Chromium.
type browser struct {
	t    *testing.T
	mu   sync.Mutex
	in   io.WriteCloser
	out  *bufio.Scanner
	said bytes.Buffer
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	script, err := os.ReadFile("testdata/browser/browser.mjs")
	must(t, err)
	// A script that is passed like this finds packages from its folder.
	run := exec.Command("node", "--input-type=module", "--eval", string(script))
	run.Dir, run.Env = filepath.Dir(testnode.Packages(t, "testdata/browser")), append(os.Environ(), "CHROMIUM="+chromium(t))
	b := &browser{t: t}
	run.Stderr = &b.said
	b.in, err = run.StdinPipe()
	must(t, err)
	out, err := run.StdoutPipe()
	must(t, err)
	b.out = bufio.NewScanner(out)
	must(t, run.Start())
	t.Cleanup(func() {
		_ = b.in.Close() // it closes its windows and ends
		if err := run.Wait(); err != nil {
			t.Errorf("the browser: %v\n%s", err, b.said.Bytes())
		}
	})
	return b
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	t.Fatal("Chromium is missing; on Debian and Ubuntu this brings it: scripts/setup.sh chromium")
	return ""
}

// window is one window, as one person has it.
type window struct {
	*browser
	name string
}

type command struct {
	Do       string `json:"do"`
	Window   string `json:"window"`
	URL      string `json:"url,omitempty"`
	Selector string `json:"selector,omitempty"`
	Text     string `json:"text,omitempty"`
	Value    string `json:"value,omitempty"`
}

func (b *browser) open(name, url string) window {
	b.t.Helper()
	w := window{b, name}
	w.do(command{Do: "open", URL: url})
	b.t.Cleanup(func() {
		if faults := w.do(command{Do: "faults"}); faults != "" {
			b.t.Errorf("the page of %s failed: %s", name, faults)
		}
	})
	return w
}

// do does one thing and waits until it is done, a minute at most.
func (w window) do(c command) string {
	w.t.Helper()
	c.Window = w.name
	line, err := json.Marshal(c)
	must(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.in.Write(append(line, '\n'))
	must(w.t, err)
	var answer struct{ Value, Error string }
	if !w.out.Scan() {
		w.t.Fatalf("the browser ended: %v\n%s", w.out.Err(), w.said.Bytes())
	}
	must(w.t, json.Unmarshal(w.out.Bytes(), &answer))
	if answer.Error != "" {
		w.t.Fatalf("%s: %s %s %q: %s", w.name, c.Do, c.Selector, c.Text, answer.Error)
	}
	return answer.Value
}

// sees waits until an element with the text is there.
func (w window) sees(selector, text string) {
	w.t.Helper()
	w.do(command{Do: "see", Selector: selector, Text: text})
}

func (w window) click(selector string) { w.t.Helper(); w.do(command{Do: "click", Selector: selector}) }

func (w window) fill(selector, value string) {
	w.t.Helper()
	w.do(command{Do: "fill", Selector: selector, Value: value})
}

// write sends a message.
func (w window) write(text string) {
	w.t.Helper()
	w.fill(".composer input", text)
	w.click(".composer button")
}

// read is the text of all elements.
func (w window) read(selector string) string {
	w.t.Helper()
	return w.do(command{Do: "read", Selector: selector})
}

// shot keeps a picture beside the test's other artifacts.
func (w window) shot(name string) {
	w.t.Helper()
	w.do(command{Do: "shot", Value: filepath.Join(w.t.ArtifactDir(), name+"-"+w.name+".png")})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
