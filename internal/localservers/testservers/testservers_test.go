package testservers_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

func TestMain(m *testing.M) { testservers.Main(m) }

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE TABLE notes (text text)")
	return err
}

func TestEveryTestGetsAMigratedDatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 3 {
		url := testservers.Database(t, migrate)
		if seen[url] {
			t.Fatalf("%s was given twice", url)
		}
		seen[url] = true
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		var before int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM notes").Scan(&before); err != nil || before != 0 {
			t.Fatalf("a fresh database holds %d notes, %v", before, err)
		}
		if _, err := conn.Exec(t.Context(), "INSERT INTO notes VALUES ('mine')"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRedisIsSharedAndPrivateOnesAreNot(t *testing.T) {
	t.Parallel()
	shared := testservers.Redis(t)
	if again := testservers.Redis(t); again != shared {
		t.Errorf("the shared Redis is %s, then %s", shared, again)
	}
	if private := testservers.PrivateRedis(t).URL(); private == shared {
		t.Errorf("the private Redis is the shared one, %s", shared)
	}
}

func TestNATSIsPrivate(t *testing.T) {
	t.Parallel()
	if a, b := testservers.NATS(t), testservers.NATS(t); a.URL() == b.URL() {
		t.Errorf("two tests share %s", a.URL())
	}
}
