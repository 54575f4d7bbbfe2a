package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/daemon"
)

func TestASecretNeverShowsItself(t *testing.T) {
	t.Parallel()
	values := []any{
		daemon.Secret("hunter2"),
		daemon.URL("postgres://app:hunter2@db:5432/countersign"),
		struct{ S daemon.Secret }{"hunter2"},
		[]daemon.Secret{"hunter2"},
		map[string]daemon.URL{"url": "redis://:hunter2@cache:6379/0"},
	}
	for _, value := range values {
		var out bytes.Buffer
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
			fmt.Fprintf(&out, format+"\n", value)
		}
		if err := json.NewEncoder(&out).Encode(value); err != nil {
			t.Fatal(err)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("value", "value", value)
		slog.New(slog.NewTextHandler(&out, nil)).Info("value", "value", value)
		for _, leak := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%X", "hunter2")} {
			if strings.Contains(out.String(), leak) {
				t.Errorf("%T shows its secret:\n%s", value, out.String())
			}
		}
	}
	if got := daemon.Secret("hunter2").Reveal(); got != "hunter2" {
		t.Errorf("Reveal = %q", got)
	}
}

func TestAURLMasksItsPasswordsAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://app@db/countersign":                      "postgres://app@db/countersign",
		"postgres://app:p@db:5432/c?sslmode=disable":         "postgres://app:***@db:5432/c?sslmode=disable",
		"postgres://app:p@a:1,b:2/c?password=x&sslmode=off":  "postgres://app:***@a:1,b:2/c?password=***&sslmode=off",
		"postgres://app:we:ird@pa/ss@db/c":                   "postgres://app:***@db/c",
		"nats://u:p@a:4222,nats://b:4222,nats://v:q@c:4222":  "nats://u:***@a:4222,nats://b:4222,nats://v:***@c:4222",
		"nats://s3cr3t@a:4222":                               "nats://***@a:4222",
		"redis://:p@cache:6379/0":                            "redis://:***@cache:6379/0",
		"https://hook.example/x?token=abc&Api_Key=def#plain": "https://hook.example/x?token=***&Api_Key=***#plain",
		"": "",
	} {
		if got := daemon.URL(text).String(); got != want {
			t.Errorf("URL(%q) shows %q, want %q", text, got, want)
		}
	}
}
