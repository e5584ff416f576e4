package pgtest

import (
	"context"
	"errors"
	"net/url"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestEachURLIsAFreshDatabaseThatIsDropped(t *testing.T) {
	t.Parallel()
	var first string
	t.Run("one", func(t *testing.T) {
		first = URL(t)
		query(t, first, "create table t (); select 1")
	})
	second := URL(t)
	if n := query(t, second, "select count(*) from pg_class where relname = 't'"); n != 0 {
		t.Errorf("a fresh database holds the table of another test")
	}
	if _, err := pgx.Connect(t.Context(), first); code(err) != "3D000" { // invalid_catalog_name
		t.Errorf("connecting to the database of an ended test: %v, want that it does not exist", err)
	}
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	server, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("postgres", "wrong")
	if _, err := pgx.Connect(t.Context(), u.String()); code(err) != "28P01" { // invalid_password
		t.Errorf("connecting with a wrong password: %v, want a refusal", err)
	}
}

func TestACommittedRowSurvivesEveryWayToEndAServer(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	query(t, s.URL(), "create table t (n int); select 1")
	ways := []func(){
		func() { s.Restart(Fast) },
		func() { s.Restart(Immediate) },
		func() { s.Kill(); s.Start() },
	}
	for i, end := range ways {
		// The process of an open connection outlives the killed server for a moment.
		conn, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			t.Fatal(err)
		}
		query(t, s.URL(), "insert into t values (1); select 1")
		end()
		conn.Close(t.Context())
		if n := query(t, s.URL(), "select count(*) from t"); n != i+1 {
			t.Errorf("after end %d the table holds %d rows, want %d", i, n, i+1)
		}
	}
	s.Stop(Fast)
	if _, err := pgx.Connect(t.Context(), s.URL()); err == nil {
		t.Error("a stopped server takes connections")
	}
}

// TestNoServerIsLeft kills a test process that has a server. The server must end too.
func TestNoServerIsLeft(t *testing.T) {
	t.Parallel()
	if os.Getenv("PGTEST_CHILD") != "" {
		os.Stdout.WriteString(NewServer(t).URL())
		os.Stdout.Close()
		select {} // wait to be killed
	}
	skipIfShort(t)
	child := osexec.Command(os.Args[0], "-test.run=^TestNoServerIsLeft$")
	child.Env = append(os.Environ(), "PGTEST_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 200)
	n, err := out.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	server := string(text[:n])
	query(t, server, "select 1")
	child.Process.Kill()
	child.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, server)
		if err != nil && ctx.Err() == nil {
			return
		}
		if err == nil {
			conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			t.Fatal("the server of a killed test process still takes connections")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// query runs statements and returns the integer that the last one returns.
func query(t *testing.T, server, statements string) int {
	t.Helper()
	ctx := t.Context()
	config, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, statements).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	last := results[len(results)-1]
	n := 0
	for _, digit := range last.Rows[0][0] {
		n = 10*n + int(digit-'0')
	}
	return n
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
