package testservers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/localservers"
)

// patience bounds every step here: on a busy machine starting a Postgres
// takes many seconds, and a test that hangs says less than one that fails.
const patience = 2 * time.Minute

const template = "template_migrated"

// shared is the binary's Postgres with its migrated template.
var shared struct {
	once     sync.Once
	postgres *localservers.Postgres
	err      error
	count    atomic.Int64
}

// Database returns the URL of a fresh database of the shared Postgres,
// dropped with the test. The first call of the binary makes the template by
// migrate; all calls of one binary must pass the same one. A nil migrate
// gives empty databases.
func Database(t testing.TB, migrate func(ctx context.Context, url string) error) string {
	t.Helper()
	shared.once.Do(func() { shared.postgres, shared.err = startShared(migrate) })
	if shared.err != nil {
		t.Fatalf("shared Postgres: %v", shared.err)
	}
	name := fmt.Sprintf("test_%d", shared.count.Add(1))
	// STRATEGY FILE_COPY is several times as fast as the default, which logs
	// every page.
	create := "CREATE DATABASE " + name + " TEMPLATE " + template + " STRATEGY FILE_COPY"
	if err := execute(shared.postgres, create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execute(shared.postgres, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return shared.postgres.DatabaseURL(name)
}

func startShared(migrate func(ctx context.Context, url string) error) (*localservers.Postgres, error) {
	dir, err := sharedFolder()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	postgres, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{
		Dir: filepath.Join(dir, "postgres"),
		Settings: map[string]string{
			"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
			"wal_level": "minimal", "max_wal_senders": "0",
			"max_connections": "300",
		},
	})
	if err != nil {
		return nil, err
	}
	share(postgres.Close)
	if err := execute(postgres, "CREATE DATABASE "+template); err != nil {
		return nil, err
	}
	if migrate != nil {
		if err := migrate(ctx, postgres.DatabaseURL(template)); err != nil {
			return nil, fmt.Errorf("migrate the template: %w", err)
		}
	}
	return postgres, nil
}

// execute runs one statement outside of any test's database.
func execute(postgres *localservers.Postgres, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, postgres.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// PrivatePostgres starts a Postgres for one test, with fsync, that the test
// may kill and start again.
func PrivatePostgres(t testing.TB) *localservers.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	postgres, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{
		Dir:      Dir(t),
		Settings: map[string]string{"max_connections": "300"},
	})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, postgres.Close)
	return postgres
}

// Standby makes a standby of a private Postgres, for one test. With sync the
// primary's commits wait for it from then on; it is started again for that,
// since a running one takes the setting up at some time of its own.
func Standby(t testing.TB, primary *localservers.Postgres, sync bool) *localservers.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	standby, err := localservers.StartStandby(ctx, primary, localservers.PostgresOptions{Dir: Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, standby.Kill)
	if sync {
		err := errors.Join(primary.Set(ctx, "synchronous_standby_names", "*"), primary.Close(), primary.Start(ctx))
		if err != nil {
			t.Fatal(err)
		}
	}
	return standby
}

// closeWith stops a server with its test.
func closeWith(t testing.TB, close func() error) {
	t.Cleanup(func() {
		if err := close(); err != nil {
			t.Error(err)
		}
	})
}
