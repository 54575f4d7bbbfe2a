package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/store"
)

func TestMain(m *testing.M) { testservers.Main(m) }

// A URL that cannot be used is named by its setting. Its password stays out
// of logs.
func TestMigrateNeverRepeatsTheDatabasesPassword(t *testing.T) {
	for _, url := range []string{
		"s3cret", "owner:s3cret@db/countersign", "postgres:/owner:s3cret@db/countersign",
		"postgres://owner:s3cret%zz@db/countersign", "postgres://owner:s3cret@db:port/countersign",
		"postgres://owner:s3cret@db/countersign?sslmode=perhaps", "host=db password=s3cret",
		"postgres://owner:s3cret@127.0.0.1:1/countersign",
	} {
		for _, from := range []string{"variable", "flag"} {
			args := []string{"migrate"}
			t.Setenv("COUNTERSIGN_DATABASE_URL", "")
			if from == "flag" {
				args = append(args, "--database-url", url)
			} else {
				t.Setenv("COUNTERSIGN_DATABASE_URL", url)
			}
			p := quiet()
			if code := run(t.Context(), args, p); code == exitOK {
				t.Errorf("%s in a %s is taken", url, from)
			}
			said := p.err.(*bytes.Buffer).String() + p.out.(*bytes.Buffer).String()
			if strings.Contains(said, "s3cret") || said == "" {
				t.Errorf("%s in a %s: it says %q", url, from, said)
			}
		}
	}
}

// Migrating brings an empty database to where the api can use it, with a key
// that has every role; again, it changes nothing.
func TestMigrateMakesSureOfSchemaTenantAndKey(t *testing.T) {
	const first = "cs_0123456789abcdef0123456789abcdef"
	url := testservers.Database(t, nil)
	t.Setenv("COUNTERSIGN_DATABASE_URL", url)
	t.Setenv("COUNTERSIGN_FIRST_KEY", first)
	for range 2 {
		p := quiet()
		if code := run(t.Context(), []string{"migrate"}, p); code != exitOK {
			t.Fatalf("exit code %d: %s", code, p.err)
		}
	}
	s, err := store.New(url, store.Options{})
	must(t, err)
	defer s.Close()
	principal, err := s.Authenticate(context.Background(), first)
	must(t, err)
	if principal.Tenant != "default" || len(principal.Roles) != 4 {
		t.Errorf("the first key is %+v", principal)
	}
}
