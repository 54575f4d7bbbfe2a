package localservers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/internal/owner"
)

// parentFolder, when set, makes this binary the parent of a Postgres, to be
// killed by the test that started it.
const parentFolder = "LOCALSERVERS_TEST_PARENT_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentFolder); dir != "" {
		beParent(dir)
	}
	testservers.Main(m)
}

// beParent starts a Postgres, says where, and waits to be killed.
func beParent(dir string) {
	postgres, err := localservers.StartPostgres(context.Background(), localservers.PostgresOptions{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(postgres.URL())
	<-postgres.Gone()
	os.Exit(1)
}

func TestCommittedRowsSurviveAKilledServer(t *testing.T) {
	t.Parallel()
	postgres := testservers.PrivatePostgres(t)
	url := postgres.URL()
	execute(t, url, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1), (2)")
	if err := postgres.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if postgres.URL() != url {
		t.Errorf("restarted at %s, was at %s", postgres.URL(), url)
	}
	if kept := count(t, url); kept != 2 {
		t.Errorf("%d rows survived, want 2", kept)
	}
}

func TestCommittedRowsSurviveAKilledParent(t *testing.T) {
	t.Parallel()
	dir := testservers.Dir(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentFolder+"="+dir)
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(output).ReadString('\n')
	if url = strings.TrimSpace(url); err != nil || !strings.HasPrefix(url, "postgres://") {
		t.Fatalf("the parent says %q, %v", url, err)
	}
	execute(t, url, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1)")
	_, err = localservers.StartPostgres(t.Context(), localservers.PostgresOptions{Dir: dir})
	if !errors.Is(err, owner.ErrTaken) || !strings.Contains(err.Error(), fmt.Sprint("pid ", parent.Process.Pid)) {
		t.Errorf("a second start on the folder = %v, want ErrTaken naming pid %d", err, parent.Process.Pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed

	postgres := start(t, localservers.PostgresOptions{Dir: dir})
	if kept := count(t, postgres.URL()); kept != 1 {
		t.Errorf("%d rows survived, want 1", kept)
	}
}

func TestAStaleProcessIDDoesNotKeepTheServerFromStarting(t *testing.T) {
	t.Parallel()
	postgres := testservers.PrivatePostgres(t)
	if err := postgres.Kill(); err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Glob(filepath.Join(postgres.Dir(), "data", "postmaster.pid"))
	if err != nil || len(data) != 1 {
		t.Fatalf("a killed server leaves %v, %v", data, err)
	}
	// A living process that is no Postgres of this folder.
	text := fmt.Sprintf("%d\n%s\n", os.Getpid(), postgres.Dir())
	if err := os.WriteFile(data[0], []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsReachTheServerAndCommitsAreDurableByDefault(t *testing.T) {
	t.Parallel()
	postgres := start(t, localservers.PostgresOptions{
		Dir: testservers.Dir(t), Settings: map[string]string{"max_connections": "37"},
	})
	conn := connect(t, postgres.URL())
	for name, want := range map[string]string{
		"max_connections": "37", "fsync": "on", "synchronous_commit": "on", "data_checksums": "on",
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestATakenPortNamesItsHolder(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	dir := testservers.Dir(t)
	starts := map[string]func() error{
		"Postgres": func() error {
			_, err := localservers.StartPostgres(t.Context(), localservers.PostgresOptions{Dir: dir, Port: port})
			return err
		},
		"Redis": func() error {
			_, err := localservers.StartRedis(t.Context(), localservers.RedisOptions{Dir: dir, Port: port})
			return err
		},
		"NATS": func() error {
			_, err := localservers.StartNATS(t.Context(), localservers.NATSOptions{Dir: dir, Port: port})
			return err
		},
	}
	for name, start := range starts {
		if err := start(); err == nil || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
			t.Errorf("%s = %v, want an error that names pid %d", name, err, os.Getpid())
		}
	}
}

func TestAFolderThatPostgresCannotReachIsNamed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // an ordinary user runs Postgres as itself
	}
	closed := filepath.Join(testservers.Dir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "postgres")
	_, err := localservers.StartPostgres(t.Context(), localservers.PostgresOptions{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "cannot enter "+closed) {
		t.Errorf("start = %v, want an error that names %s", err, closed)
	}
}

func start(t *testing.T, options localservers.PostgresOptions) *localservers.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	postgres, err := localservers.StartPostgres(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	return postgres
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn := connect(t, url)
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func count(t *testing.T, url string) (rows int) {
	t.Helper()
	if err := connect(t, url).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}
