package versions_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// reader is a transaction that uses the tables, as a report or a dump does, and so blocks a migration. On SQLite,
// where none can block it, the reader is nil.
type reader struct {
	*testing.T
	open  *pgx.Conn
	watch *pgx.Conn
}

func read(t *testing.T, url string) *reader {
	r := &reader{T: t}
	for _, c := range []**pgx.Conn{&r.open, &r.watch} {
		conn, err := pgx.Connect(t.Context(), url)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) }) // it only reads
		*c = conn
	}
	_, err := r.open.Exec(t.Context(), "begin; select from dibs.job; select from dibs.finished")
	must(t, err)
	return r
}

// met waits until the migration waits for the transaction to end.
func (r *reader) met() {
	if r == nil {
		return
	}
	const question = "select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock' and database = (select oid from pg_database where datname = current_database())"
	for n := 0; n == 0; {
		must(r.T, r.watch.QueryRow(r.Context(), question).Scan(&n))
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *reader) end() {
	if r != nil {
		_, err := r.open.Exec(r.Context(), "commit")
		must(r.T, err)
	}
}
