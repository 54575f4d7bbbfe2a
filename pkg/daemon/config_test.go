package daemon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
)

type settings struct {
	daemon.Common
	Listen string        `name:"listen" env:"COUNTERSIGN_LISTEN" default:"127.0.0.1:8787" help:"Where to listen."`
	Slots  int           `name:"slots" env:"COUNTERSIGN_SLOTS" default:"8" help:"Runs at a time."`
	Hosts  []string      `name:"allow-targets" env:"COUNTERSIGN_ALLOW_TARGETS" help:"Targets."`
	Eager  bool          `name:"eager" env:"COUNTERSIGN_EAGER" help:"Be eager."`
	Key    daemon.Secret `name:"key" env:"COUNTERSIGN_KEY" help:"A key."`
}

// env is an environment with the one required setting in it.
func env(pairs ...string) func(string) string {
	values := map[string]string{"COUNTERSIGN_DATABASE_URL": "postgres://app:hunter2@db/countersign"}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return values[name] }
}

func parse(args []string, getenv func(string) string) (settings, error) {
	var cfg settings
	err := daemon.Parse("api", "Answers.", &cfg, args, getenv, io.Discard)
	return cfg, err
}

func TestFlagsWinOverTheEnvironmentAndThatOverDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := parse([]string{"--slots=3"}, env("COUNTERSIGN_SLOTS", "5", "COUNTERSIGN_LISTEN", ":1",
		"COUNTERSIGN_ALLOW_TARGETS", "10.0.0.0/8,host", "COUNTERSIGN_EAGER", "true", "COUNTERSIGN_GRACE", "2m",
		"COUNTERSIGN_LOG_LEVEL", ""))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Slots != 3 || cfg.Listen != ":1" || !cfg.Eager || cfg.Grace != 2*time.Minute ||
		!slices.Equal(cfg.Hosts, []string{"10.0.0.0/8", "host"}) {
		t.Errorf("settings = %+v", cfg)
	}
	if cfg.LogLevel != "info" || cfg.NATSURL.Reveal() != "nats://127.0.0.1:4222" {
		t.Errorf("defaults = %+v", cfg.Common)
	}
}

func TestTheProcessEnvironmentIsReadThroughGetenvAlone(t *testing.T) {
	t.Setenv("COUNTERSIGN_SLOTS", "99")
	cfg, err := parse(nil, env())
	if err != nil || cfg.Slots != 8 {
		t.Errorf("slots = %d, %v; want the default", cfg.Slots, err)
	}
}

func TestASecretCanComeFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("postgres://app:from-file@db/c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := parse(nil, env("COUNTERSIGN_DATABASE_URL", "", "COUNTERSIGN_DATABASE_URL_FILE", file))
	if err != nil || cfg.DatabaseURL.Reveal() != "postgres://app:from-file@db/c" {
		t.Errorf("url = %q, %v", cfg.DatabaseURL.Reveal(), err)
	}
}

func TestErrorsNameTheSettingAndNeverASecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   []string
		getenv func(string) string
		want   string
	}{
		{"missing", nil, env("COUNTERSIGN_DATABASE_URL", ""), "--database-url or COUNTERSIGN_DATABASE_URL must be set"},
		{"number", nil, env("COUNTERSIGN_SLOTS", "many"), "COUNTERSIGN_SLOTS"},
		{"level", nil, env("COUNTERSIGN_LOG_LEVEL", "loud"), "log-level"},
		{"flag", []string{"--slot=1"}, env(), "--slot"},
		{"url", nil, env("COUNTERSIGN_DATABASE_URL", "hunter2"), "COUNTERSIGN_DATABASE_URL"},
		{"url flag", []string{"--database-url=hunter2"}, env(), "--database-url"},
		{"both", nil, env("COUNTERSIGN_KEY", "hunter2", "COUNTERSIGN_KEY_FILE", "/x"), "COUNTERSIGN_KEY_FILE are both set"},
		{"no file", nil, env("COUNTERSIGN_KEY_FILE", "/does/not/exist"), "COUNTERSIGN_KEY_FILE"},
	} {
		_, err := parse(c.args, c.getenv)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want one that names %q", c.name, err, c.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows a secret: %v", c.name, err)
		}
	}
}

func TestHelpListsEverySettingWithItsVariableAndDefault(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var cfg settings
	err := daemon.Parse("api", "Answers.", &cfg, []string{"-h"}, env("COUNTERSIGN_DATABASE_URL", ""), &out)
	if !errors.Is(err, daemon.ErrHelp) {
		t.Fatalf("Parse = %v, want ErrHelp", err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range append(daemon.Variables(&cfg),
		"--database-url", "--listen", "--slots", "127.0.0.1:8787", "nats://127.0.0.1:4222", "30s", "required") {
		if !strings.Contains(text, want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestTheSettingsInForceAreLoggedWithSecretsMasked(t *testing.T) {
	t.Setenv("COUNTERSIGN_SLOTZ", "1")
	cfg, err := parse(nil, env("COUNTERSIGN_KEY", "hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	daemon.Announce(daemon.NewLogger(&out, "json", "info"), &cfg, os.Getenv)
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
	var first map[string]string
	if err := json.NewDecoder(bytes.NewReader(out.Bytes())).Decode(&first); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"msg": "starting", "slots": "8", "grace": "30s", "key": "***",
		"database-url": "postgres://app:***@db/countersign",
	} {
		if first[name] != want {
			t.Errorf("%s = %q, want %q", name, first[name], want)
		}
	}
	if !strings.Contains(out.String(), "COUNTERSIGN_SLOTZ") {
		t.Errorf("nobody warns of the misspelt variable:\n%s", out.String())
	}
}
