package sqlite_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	modernc "modernc.org/sqlite"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/sqlite"
	"github.com/dibs-queue/dibs/storetest"
)

// viewStore is a store whose jobs come by way of the view, as those of programs in other
// languages do.
type viewStore struct {
	*sqlite.Store
	insert func() (*sql.Stmt, error) // the view's triggers take long to prepare: it is done once
}

func newViewStore(t interface{ Context() context.Context }, s *sqlite.Store) viewStore {
	return viewStore{s, sync.OnceValues(func() (*sql.Stmt, error) { return s.DB().PrepareContext(t.Context(), viewInsert) })}
}

func (s viewStore) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	var done []dibs.Enqueued
	err := s.InTx(ctx, func(tx dibs.Tx) (err error) {
		done, err = tx.Enqueue(ctx, jobs)
		return err
	})
	return done, err
}

func (s viewStore) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	if ctx == nil || f == nil {
		return s.Store.InTx(ctx, f)
	}
	insert, err := s.insert()
	if err != nil {
		return err
	}
	tx, err := s.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	t := viewTx{s.Store.SQLTx(tx), withInsert{tx, insert}}
	if err := f(t); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	t.Wake()
	return nil
}

func (s viewStore) SQLTx(tx dibs.SQLTx) dibs.Tx {
	return viewTx{s.Store.SQLTx(tx), sqlite.Prepared(tx)}
}

// withInsert is a transaction that does not prepare the insert into the view.
type withInsert struct {
	*sql.Tx
	insert *sql.Stmt
}

func (w withInsert) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if query == viewInsert {
		return w.StmtContext(ctx, w.insert).ExecContext(ctx, args...)
	}
	return w.Tx.ExecContext(ctx, query, args...)
}

// viewTx is a transaction whose jobs come by way of the view.
type viewTx struct {
	dibs.Tx
	tx dibs.SQLTx
}

func (t viewTx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	if len(jobs) > dibs.MaxBatch {
		return nil, &dibs.InvalidError{Field: "jobs", Reason: "are too many"}
	}
	if _, err := t.tx.ExecContext(ctx, "savepoint jobs"); err != nil {
		return nil, err
	}
	done := make([]dibs.Enqueued, len(jobs))
	for i := range jobs {
		var err error
		if done[i], err = t.insertJob(ctx, jobs[i]); err != nil {
			_, undo := t.tx.ExecContext(ctx, "rollback to jobs; release jobs")
			var invalid *dibs.InvalidError
			if errors.As(err, &invalid) {
				return nil, &dibs.InvalidError{Field: fmt.Sprintf("jobs[%d].%s", i, invalid.Field), Reason: invalid.Reason}
			}
			return nil, errors.Join(err, undo)
		}
	}
	_, err := t.tx.ExecContext(ctx, "release jobs")
	return done, err
}

var viewColumns = []string{
	"queue", "kind", "payload", "metadata", "priority", "delay", "run_at", "max_attempts", "group_key",
	"unique_key", "unique_until", "unique_for", "unique_window", "if_held", "delay_limit", "after",
}

var viewInsert = fmt.Sprintf("insert into dibs_new_job (%s) values (?%s)", strings.Join(viewColumns, ", "), strings.Repeat(", ?", len(viewColumns)-1))

// insertJob inserts one job into the view, and reads what became of it.
func (t viewTx) insertJob(ctx context.Context, j dibs.NewJob) (dibs.Enqueued, error) {
	var e dibs.Enqueued
	values, err := viewValues(j)
	if err != nil {
		return e, err
	}
	if _, err := t.tx.ExecContext(ctx, viewInsert, values...); err != nil {
		return e, viewError(err)
	}
	rows, err := t.tx.QueryContext(ctx, "select id, existing, replaced, pushed from dibs_enqueued")
	if err != nil {
		return e, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&e.ID, &e.Existing, &e.Replaced, &e.Pushed); err != nil {
			return e, err
		}
	}
	return e, rows.Err()
}

// viewValues are the values of viewColumns, null where the job says nothing.
func viewValues(j dibs.NewJob) ([]any, error) {
	payload, err := json.Marshal(j.Payload)
	switch p := j.Payload.(type) {
	case []byte:
		payload, err = p, nil
	case json.RawMessage:
		payload, err = p, nil
	}
	switch {
	case err != nil:
		return nil, &dibs.InvalidError{Field: "payload", Reason: err.Error()}
	case !utf8.Valid(payload): // no trigger can tell
		return nil, &dibs.InvalidError{Field: "payload", Reason: "is not valid UTF-8"}
	case j.Kind == "": // the view has a default for it
		return nil, &dibs.InvalidError{Field: "kind", Reason: "is missing"}
	}
	var priority any
	if j.Priority != nil {
		priority = *j.Priority
	}
	var runAt any
	switch {
	case j.RunAt.IsZero():
	case j.RunAt.Nanosecond() == 0:
		runAt = j.RunAt.Unix()
	default:
		runAt = float64(j.RunAt.UnixMicro()) / 1e6
	}
	var after any
	if len(j.After) > 0 {
		list := make([]wire.Dep, len(j.After))
		for i, d := range j.After {
			list[i] = wire.Dep{ID: d.ID, On: d.On}
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		after = string(text)
	}
	return []any{
		j.Queue, j.Kind, string(payload), given(string(j.Metadata)), priority, given(seconds(j.Delay)), runAt, given(j.MaxAttempts), given(j.Group),
		given(j.UniqueKey), given(string(j.UniqueUntil)), given(seconds(j.UniqueFor)), given(j.UniqueWindow), given(string(j.IfHeld)), given(seconds(j.DelayLimit)), after,
	}, nil
}

// given is null for a zero value.
func given[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

// seconds are rounded away from 0 to the microseconds that a file keeps.
func seconds(d time.Duration) float64 {
	if rest := d % time.Microsecond; rest != 0 {
		d += time.Duration(cmp.Compare(rest, 0)) * time.Microsecond
	}
	return float64(d.Microseconds()) / 1e6
}

// viewError turns an error raised by the view's trigger into the InvalidError that it stands for.
func viewError(err error) error {
	var refused *modernc.Error
	const raised = 1811 // SQLITE_CONSTRAINT_TRIGGER
	if !errors.As(err, &refused) || refused.Code() != raised {
		return err
	}
	text := strings.TrimSuffix(refused.Error(), " (1811)")
	text = text[strings.LastIndex(text, "constraint failed: ")+len("constraint failed: "):]
	field, reason, _ := strings.Cut(text, ": ")
	return &dibs.InvalidError{Field: field, Reason: reason}
}

// TestNewJobStore runs the conformance suite with all jobs enqueued by way of the view. It leaves
// out the chapters that are about other calls.
func TestNewJobStore(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	without := map[string]string{
		"windows/a window of the calendar holds the key of its jobs": "names time zones, which SQLite does not know",
	}
	for _, chapter := range []string{
		"due", "extend", "progress", "finish", "fence", "retry", "resume", "sweep", "middleware", "queues", "jobs", "waiting", "list", "schedules", "workers", "repair", "close", "misuse", "flows", "flow order", "txflows", "flows at once", "txsteps", "add", "tx add",
	} {
		without[chapter] = "is about other calls"
	}
	if !needs.AtNight() { // the tests of these chapters begin after their jobs were enqueued
		for _, chapter := range []string{"claim", "txclaim", "twoagents", "grouplimits", "concurrency", "rates", "grouprates", "stats", "history", "failures", "settings", "changes", "rows", "race", "chaos"} {
			without[chapter] = "make night: does not depend on how jobs are enqueued"
		}
	}
	storetest.RunSome(t, storetest.SQLite, func(t testing.TB) storetest.Setup {
		path := filepath.Join(t.TempDir(), "jobs.db")
		open := func(t testing.TB) viewStore {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return newViewStore(t, s)
		}
		s := open(t)
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return open(t) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(s.DB(), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return model.PassInFile(ctx, s.DB(), d) },
		}
	}, without)
}
