package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/storetest"
)

// functionsStore is a store that enqueues through the functions of the schema.
type functionsStore struct {
	*postgres.Store
	schema string
	pool   *pgxpool.Pool
}

// rowsOf runs a query and reads the enqueued jobs that it returns.
type rowsOf func(query string, args ...any) ([]dibs.Enqueued, error)

func (s functionsStore) Enqueue(ctx context.Context, jobs []dibs.NewJob) (out []dibs.Enqueued, err error) {
	if _, err := s.Store.Enqueue(ctx, nil); err != nil { // the store is closed
		return nil, err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(t pgx.Tx) error {
		out, err = s.enqueueIn(jobs, onPgx(ctx, t))
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, s.AddNewQueues(ctx)
}

func (s functionsStore) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	var own functionsTx
	err := pgx.BeginFunc(ctx, s.pool, func(t pgx.Tx) error {
		own = functionsTx{s.Tx(t), s, func(ctx context.Context) rowsOf { return onPgx(ctx, t) }}
		return f(own)
	})
	if err != nil {
		return err
	}
	own.Wake()
	return s.AddNewQueues(ctx)
}

// functionsTx is a caller's transaction that enqueues through the functions.
type functionsTx struct {
	dibs.Tx
	s  functionsStore
	on func(context.Context) rowsOf
}

func (t functionsTx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return t.s.enqueueIn(jobs, t.on(ctx))
}

func onPgx(ctx context.Context, t pgx.Tx) rowsOf {
	return func(query string, args ...any) ([]dibs.Enqueued, error) {
		rows, err := t.Query(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e dibs.Enqueued, err error) {
			return e, row.Scan(&e.ID, &e.Existing, &e.Replaced, &e.Pushed)
		})
	}
}

func onSQL(ctx context.Context, t dibs.SQLTx) rowsOf {
	return func(query string, args ...any) (list []dibs.Enqueued, err error) {
		rows, err := t.QueryContext(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var e dibs.Enqueued
			if err := rows.Scan(&e.ID, &e.Existing, &e.Replaced, &e.Pushed); err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		return list, rows.Err()
	}
}

// enqueueIn calls enqueue for each job of a small batch, and enqueue_many for a large one, or one
// whose answers say more than ids.
func (s functionsStore) enqueueIn(jobs []dibs.NewJob, rows rowsOf) ([]dibs.Enqueued, error) {
	schema, out := pgx.Identifier{s.schema}.Sanitize(), make([]dibs.Enqueued, 0, len(jobs))
	many, flows := len(jobs) > 3, false
	for i := range jobs {
		many = many || jobs[i].UniqueKey != ""
		_, _, known := idsAfter(&jobs[i])
		flows = flows || jobs[i].Ref != "" || len(jobs[i].After) > 0 && (len(jobs) > 1 || !known)
	}
	if !flows && (!many || len(jobs) < 40 && spaced(jobs)) {
		for i := range jobs {
			arguments, values, err := argumentsOf(&jobs[i])
			if err != nil {
				return nil, err
			}
			one, err := rows("select "+schema+".enqueue("+arguments+"), false, false, false", values...)
			if err != nil {
				return nil, asInvalid(fmt.Sprintf("jobs[%d].", i), err)
			}
			out = append(out, one...)
		}
		return out, nil
	}
	text, err := jsonOf(jobs)
	if err != nil {
		return nil, err
	}
	list, err := rows("select id, existing, replaced, pushed from "+schema+".enqueue_many($1::text::json)", text)
	if err != nil {
		return nil, asInvalid("", err)
	}
	return append(out, list...), nil
}

// spaced finds a payload with spaces around it. A payload in a field of a JSON object does not keep these.
func spaced(jobs []dibs.NewJob) bool {
	for i := range jobs {
		if text, err := payloadOf(&jobs[i]); err == nil && len(bytes.TrimSpace(text)) < len(text) {
			return true
		}
	}
	return false
}

func payloadOf(j *dibs.NewJob) ([]byte, error) {
	switch p := j.Payload.(type) {
	case nil:
		return []byte("null"), nil
	case []byte:
		return p, nil
	case json.RawMessage:
		return p, nil
	}
	return json.Marshal(j.Payload)
}

// idsAfter is the argument of enqueue for the jobs that a job comes after. known is false if they take more than one.
func idsAfter(j *dibs.NewJob) (argument string, ids []int64, known bool) {
	for _, d := range j.After {
		name, ok := map[dibs.Need]string{"": "after", dibs.NeedCompleted: "after", dibs.NeedEnded: "after_end", dibs.NeedFailed: "after_failed"}[d.On]
		if !ok || d.Ref != "" || d.ID == 0 || argument != "" && argument != name {
			return "", nil, false
		}
		argument, ids = name, append(ids, d.ID)
	}
	return argument, ids, true
}

// argumentsOf are the named arguments of a call of enqueue.
func argumentsOf(j *dibs.NewJob) (text string, values []any, err error) {
	payload, err := payloadOf(j)
	if err != nil {
		return "", nil, err
	}
	var list []string
	add := func(name, as string, value any) {
		values = append(values, value)
		list = append(list, fmt.Sprintf("%s => $%d::%s", name, len(values), as))
	}
	add("queue", "text", j.Queue)
	add("payload", "text::json", string(payload))
	for _, a := range []struct{ name, value string }{
		{"kind", j.Kind},
		{"group_key", j.Group},
		{"unique_key", j.UniqueKey},
		{"unique_until", string(j.UniqueUntil)},
		{"unique_window", j.UniqueWindow},
		{"if_held", string(j.IfHeld)},
	} {
		if a.value != "" {
			add(a.name, "text", a.value)
		}
	}
	for _, a := range []struct {
		name  string
		value time.Duration
	}{{"delay", j.Delay}, {"unique_for", j.UniqueFor}, {"delay_limit", j.DelayLimit}} {
		if a.value != 0 {
			add(a.name, "bigint * interval '1 microsecond'", a.value.Microseconds())
		}
	}
	if j.Priority != nil {
		add("priority", "int", *j.Priority)
	}
	if !j.RunAt.IsZero() {
		add("run_at", "timestamptz", j.RunAt)
	}
	if j.MaxAttempts != 0 {
		add("max_attempts", "int", j.MaxAttempts)
	}
	if len(j.Metadata) > 0 {
		add("metadata", "text::json", string(j.Metadata))
	}
	if argument, ids, _ := idsAfter(j); len(ids) > 0 {
		add(argument, "bigint[]", ids)
	}
	return strings.Join(list, ", "), values, nil
}

// jsonOf writes jobs as enqueue_many reads them.
func jsonOf(jobs []dibs.NewJob) (string, error) {
	var out strings.Builder
	for i := range jobs {
		j := &jobs[i]
		payload, err := payloadOf(j)
		if err != nil {
			return "", err
		}
		fields := []string{`"payload":` + string(payload)}
		add := func(name string, set bool, value any) {
			if !set {
				return
			}
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(value); err != nil {
				panic(err)
			}
			fields = append(fields, fmt.Sprintf("%q:%s", name, bytes.TrimSpace(b.Bytes())))
		}
		add("queue", j.Queue != "", j.Queue)
		add("kind", j.Kind != "", j.Kind)
		add("group", j.Group != "", j.Group)
		add("unique_key", j.UniqueKey != "", j.UniqueKey)
		add("unique_until", j.UniqueUntil != "", j.UniqueUntil)
		add("unique_window", j.UniqueWindow != "", j.UniqueWindow)
		add("if_held", j.IfHeld != "", j.IfHeld)
		add("delay", j.Delay != 0, j.Delay.String())
		add("unique_for", j.UniqueFor != 0, j.UniqueFor.String())
		add("delay_limit", j.DelayLimit != 0, j.DelayLimit.String())
		add("priority", j.Priority != nil, j.Priority)
		add("max_attempts", j.MaxAttempts != 0, j.MaxAttempts)
		add("ref", j.Ref != "", j.Ref)
		after := make([]wire.Dep, len(j.After))
		for n, d := range j.After {
			after[n] = wire.Dep{ID: d.ID, Ref: d.Ref, On: d.On}
		}
		add("after", len(after) > 0, after)
		if !j.RunAt.IsZero() {
			fields = append(fields, `"run_at":"`+j.RunAt.Format(time.RFC3339Nano)+`"`)
		}
		if len(j.Metadata) > 0 {
			fields = append(fields, `"metadata":`+string(j.Metadata))
		}
		out.WriteString(",{" + strings.Join(fields, ",") + "}")
	}
	return "[" + strings.TrimPrefix(out.String(), ",") + "]", nil
}

// asInvalid makes an InvalidError of the functions' errors.
func asInvalid(place string, err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "22023" {
		return err
	}
	field := e.ColumnName
	if _, n, found := strings.Cut(field, "["); found && place != "" {
		field = "after[" + n // of whichever argument
	}
	return &dibs.InvalidError{Field: place + field, Reason: strings.TrimPrefix(e.Message, e.ColumnName+": ")}
}

// What the suite of tests demands of a store also holds if jobs are enqueued by the functions of
// the schema.
func TestStoreThroughTheFunctions(t *testing.T) {
	all := newSchemas(t, "by_sql")
	server := all.server
	storetest.RunSome(t, storetest.PostgreSQL, func(t testing.TB) storetest.Setup {
		o := postgres.Options{Schema: all.take(t), MaxConns: 6}
		var stores []*postgres.Store
		open := func(t testing.TB) functionsStore {
			s, err := postgres.Open(t.Context(), server, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			markIfAsked(s)
			stores = append(stores, s)
			pool, err := pgxpool.New(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return functionsStore{s, o.Schema, pool}
		}
		store := open(t)
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("search_path", o.Schema)
		u.RawQuery = q.Encode()
		db, err := sql.Open("pgx", u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return storetest.Setup{
			Store:   store,
			Another: func(t testing.TB) admin.Database { return open(t) },
			Begin: map[string]storetest.Begin{
				"sql": storetest.SQL(db, func(t dibs.SQLTx) dibs.Tx {
					return functionsTx{store.SQLTx(t), store, func(ctx context.Context) rowsOf { return onSQL(ctx, t) }}
				}),
				"pgx": beginWith(u.String(), func(t pgx.Tx) dibs.Tx {
					return functionsTx{store.Tx(t), store, func(ctx context.Context) rowsOf { return onPgx(ctx, t) }}
				}),
			},
			Pass: func(ctx context.Context, d time.Duration) error { return postgres.Pass(ctx, d, stores...) },
		}
	}, withoutFunctions())
}

// withoutFunctions says why the functions do not apply to tests of the suite.
func withoutFunctions() map[string]string {
	without := map[string]string{
		"enqueue/a bad batch spoils nobody else's":                          "a kind has a default in SQL",
		"enqueue/a bad job in the middle leaves nothing of its batch":       "the server refuses what is no JSON before it calls a function",
		"limits/a job that breaks a rule is refused":                        "a kind has a default in SQL, and TestTheFunctionsRefuseInTheSameWords tries the rules",
		"limits/a job with a name or metadata that break a rule is refused": "text that is no JSON is PostgreSQL's to refuse, and TestTheFunctionsRefuseInTheSameWords tries the rules",
		"windows/a window of the calendar holds the key of its jobs":        "in SQL windows are in UTC",
		"tx/bad input does nothing and leaves the transaction usable":       "an error in SQL aborts a transaction",
	}
	// In the other chapters jobs have been enqueued when the test begins.
	tried := strings.Fields("enqueue unique held windows txwindows tx wide limits wake steps flows txflows")
	if needs.AtNight() {
		tried = append(tried, "groups", "grouplimits", "concurrency", "stats", "waiting", "race", "flow order", "flows at once")
	}
	for _, name := range storetest.Names() {
		if chapter, _, _ := strings.Cut(name, "/"); !slices.Contains(tried, chapter) {
			without[chapter] = "it does not depend on how jobs are enqueued"
		}
	}
	return without
}
