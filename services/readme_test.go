package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/internal/localservers/testservers"
)

// What the README says about a backend of one's own is true: its commands run
// as they stand there, and answer what it says.
func TestReadmeYourOwnBackend(t *testing.T) {
	t.Parallel()
	need(t, "curl", "curl")
	need(t, "python3", "python")
	d := deploy(t)
	s := &shell{t: t, dir: t.TempDir(), env: []string{"COUNTERSIGN_URL=" + d.API[0].URL, "COUNTERSIGN_API_KEY=" + d.Key}}
	port := strings.TrimPrefix(freeAddress(t), "127.0.0.1:")
	var commands, server int
	for _, b := range section(t, "Your own backend in 40 lines") {
		b.text = strings.ReplaceAll(b.text, readmePort, port)
		switch b.language {
		case "sh":
			s.add(b)
			if server == 0 { // the first variant, without a webhook
				commands += strings.Count(b.text, "\n")
			}
		case "json":
			s.expect(b)
		case "python":
			write(t, s.dir, "backend.py", b.text)
			server = strings.Count(b.text, "\n")
		}
	}
	if commands == 0 || commands > 40 || server == 0 || server > 40 {
		t.Errorf("the commands are %d lines and the server %d, want at most 40 of each", commands, server)
	}
	s.run()
	same := answers{}
	for i, want := range s.want {
		if want != nil {
			same.compare(t, *want, s.output(i))
		}
	}
}

// readmePort is where the README's server listens.
const readmePort = "8799"

// A new user's first ten minutes, as the README tells them: make dev, the
// demo, a card, its approval.
func TestReadmeFirstTenMinutes(t *testing.T) {
	t.Parallel()
	need(t, "curl", "curl")
	blocks := section(t, "The first ten minutes")
	if got := blocks[0].text; got != "git clone https://github.com/countersign/countersign\ncd countersign\nmake dev\n" {
		t.Fatalf("the first commands are\n%s", got)
	}
	data, listen := testservers.Dir(t), freeAddress(t)
	env := []string{"COUNTERSIGN_DATA=" + data, "COUNTERSIGN_LISTEN=" + listen}
	state, said := makeDev(t, data, env)
	requireWelcome(t, blocks[1].text, said.Tail(100))

	dir := t.TempDir()
	root, err := filepath.Abs("..")
	must(t, err)
	must(t, os.Symlink(filepath.Join(root, "bin"), filepath.Join(dir, "bin")))
	here := func() *shell {
		return &shell{t: t, dir: dir, env: append(env, "COUNTERSIGN_URL="+state.URL, "COUNTERSIGN_API_KEY="+state.APIKey)}
	}
	var table, id string
	for _, b := range blocks[2:] {
		if b.language == "text" {
			id = requireTable(t, b.text, table)
			continue
		}
		s := here()
		b.text = asOnATerminal(strings.ReplaceAll(b.text, readmeCard, id))
		s.add(b)
		s.run()
		table = s.output(0)
	}
	testcluster.Eventually(t, "the approved call is run", func(context.Context) error {
		content, err := os.ReadFile(filepath.Join(data, "workspace", "hello.txt"))
		if err == nil && string(content) != "Hello!" {
			err = fmt.Errorf("the file holds %q", content)
		}
		return err
	})
}

// readmeCard is the short id of the card in the README.
const readmeCard = "4f2a91c0"

var people = regexp.MustCompile(`(?m)^bin/countersign (?:inbox|approve).*$`)

// asOnATerminal makes commands print what a person sees.
func asOnATerminal(commands string) string { return people.ReplaceAllString(commands, "$0 --no-json") }

// firstBuild bounds make dev: the first time, it compiles everything.
const firstBuild = 10 * time.Minute

// makeDev starts make dev in the repository, waits until it is ready, and
// stops it with the test.
func makeDev(t *testing.T, data string, env []string) (state devstate.State, said *cluster.Output) {
	t.Helper()
	said = &cluster.Output{}
	cmd := exec.Command("make", "dev")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "..", append(os.Environ(), env...), said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // make's code for a program that was stopped is not 0
		close(ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("make dev said:\n%s", said.Tail(40))
		}
	})
	testcluster.Within(t, firstBuild, "make dev is ready", func(context.Context) (err error) {
		select {
		case <-ended:
			t.Fatal("make dev has ended")
		default:
		}
		state, err = devstate.Read(data)
		return err
	})
	return state, said
}

var welcomeMasks = strings.NewReplacer(
	regexp.QuoteMeta("3.0"), `[0-9.]+`, regexp.QuoteMeta("/home/you/.local/state/countersign"), `\S+`,
	regexp.QuoteMeta("127.0.0.1:8787"), `127\.0\.0\.1:\d+`, "cs_…", `cs_\S+`)

// requireWelcome: the README's lines are among those that were printed.
func requireWelcome(t *testing.T, want, got string) {
	t.Helper()
	for line := range strings.Lines(want) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line == "…" {
			continue
		}
		if !regexp.MustCompile(`(?m)^` + welcomeMasks.Replace(regexp.QuoteMeta(line)) + `$`).MatchString(got) {
			t.Errorf("make dev does not print %q:\n%s", line, got)
		}
	}
}

var ago = regexp.MustCompile(`^\d+[smhd]$`)

// requireTable compares the README's table with one that was printed, but for
// times, and gives the id that stands where the README's does.
func requireTable(t *testing.T, want, got string) (id string) {
	t.Helper()
	wanted, printed := strings.Fields(want), strings.Fields(got)
	if len(wanted) != len(printed) {
		t.Fatalf("the table is\n%s\nwant\n%s", got, want)
	}
	for i, word := range wanted {
		switch {
		case word == readmeCard:
			id = printed[i]
		case ago.MatchString(word) && ago.MatchString(printed[i]):
		case word != printed[i]:
			t.Errorf("the table says %s where the README says %s", printed[i], word)
		}
	}
	return id
}

// Each service lists its settings by the command that the README names.
func TestReadmeConfiguration(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	must(t, err)
	s := &shell{t: t, dir: t.TempDir()}
	for _, b := range section(t, "Configuration") {
		b.text = "cd '" + root + "'\n" + b.text
		s.add(b)
	}
	s.run()
	for _, setting := range []string{"$COUNTERSIGN_DATABASE_URL_FILE", "$COUNTERSIGN_ALLOW_TARGETS", "$COUNTERSIGN_GRACE"} {
		if !strings.Contains(s.output(0), setting) {
			t.Errorf("no service names %s:\n%s", setting, s.output(0))
		}
	}
}

// Every file that the README names is there.
func TestReadmeLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(readme(t), -1)
	if len(links) < 20 {
		t.Errorf("only %d links were found", len(links))
	}
	for _, link := range links {
		if strings.Contains(link[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", link[1])); err != nil {
			t.Errorf("the README leads to %s: %v", link[1], err)
		}
	}
}

func need(t *testing.T, program, name string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is missing; on Debian and Ubuntu this brings it: scripts/setup.sh %s", program, name)
	}
}

// block is a piece of code in the README.
type block struct {
	language, text string
	line           int
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	must(t, err)
	return string(text)
}

// section gives the code blocks below a heading, in order.
func section(t *testing.T, heading string) []block {
	t.Helper()
	var blocks []block
	var open *block
	inside := false
	for i, line := range strings.SplitAfter(readme(t), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{language: strings.TrimSpace(fence), line: i + 1}
		case isFence:
			if inside {
				blocks = append(blocks, *open)
			}
			open = nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(line, "## "):
			inside = strings.TrimSpace(line[3:]) == heading
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("the README has no code below %q", heading)
	}
	return blocks
}

// shell runs blocks one after the other, as typed into one terminal.
type shell struct {
	t    *testing.T
	dir  string
	env  []string
	code []block
	want []*block // what each answers, if the README says
}

func (s *shell) add(b block) { s.code, s.want = append(s.code, b), append(s.want, nil) }

// expect says what the last block answers.
func (s *shell) expect(b block) { s.want[len(s.want)-1] = &b }

func (s *shell) run() {
	s.t.Helper()
	script := "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
	for i, b := range s.code {
		script += fmt.Sprintf("at=%d\n{ %s\n} > out-%d\n", b.line, b.text, i)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), testcluster.Deadline)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, append(os.Environ(), s.env...), &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		for i := range s.code {
			s.t.Logf("line %d: %s", s.code[i].line, s.output(i))
		}
		s.t.Fatalf("the README's commands: %v\n%s", errors.Join(err, ctx.Err()), said.String())
	}
}

func (s *shell) output(i int) string {
	content, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("out-%d", i)))
	if err != nil {
		return "not run"
	}
	return string(content)
}
