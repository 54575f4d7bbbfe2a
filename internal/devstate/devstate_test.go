package devstate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAStateIsFoundByItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Read of an empty folder = %v", err)
	}
	want := State{URL: "http://127.0.0.1:8787", APIKey: "cs_x", WebhookSecret: "whsec_x", NATSURL: "nats://n", RedisURL: "redis://r", DatabaseURL: "postgres://p"}
	for range 2 { // the second replaces the first
		if err := Write(dir, want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Read(dir); err != nil || got != want {
		t.Errorf("Read = %+v, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v in the folder, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestRemoveTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Write(dir, State{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read = %v", err)
	}
}

func TestABrokenFileSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read = %v", err)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		xdg, home string
		uid       int
		want      string
	}{
		{"/state", "/home/a", 1000, "/state/countersign"},
		{"", "/home/a", 1000, "/home/a/.local/state/countersign"},
		{"relative", "/home/a", 1000, "/home/a/.local/state/countersign"}, // XDG: relative paths are ignored
		{"", "", 1000, ""},
		{"", "/root", 0, "/var/lib/countersign"},
		{"/state", "/root", 0, "/state/countersign"},
	} {
		env := map[string]string{"XDG_STATE_HOME": c.xdg, "HOME": c.home}
		got, err := defaultDir(func(name string) string { return env[name] }, c.uid)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
