package adopt_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/checks"
)

// harness makes of an adopted table an admin.Database for storetest. Each queue is a mapping of the
// same table, with the queue's settings. The harness inserts and edits jobs with SQL, as another
// program would.
type harness struct {
	noSchedules
	*settings
	db     *sql.DB
	pg     bool
	maria  bool
	side   bool
	stores map[string]*adopt.Store // stores by queue, made for the settings of version
	made   map[string]int
	mu     sync.Mutex
	closed bool
}

// settings holds the settings of all queues in a database.
type settings struct {
	sync.Mutex
	queues  map[string]dibs.Queue
	version map[string]int
	grouped bool // some job has had a group
}

const harnessTable = `
create table work (
    id %s,
    queue text not null,
    kind text not null,
    payload text not null,
    priority integer not null,
    run_at %[2]s not null,
    created_at %[2]s not null,
    grp text,
    mark %[3]s,
    server text,
    started_at %[2]s,
    lease_end %[2]s,
    attempts integer not null default 0,
    most integer,
    status text,
    ended_at %[2]s,
    error text,
    failed_at %[2]s,
    result text
)`

func newHarness(t testing.TB, driver, dsn string, side bool) *harness {
	t.Helper()
	h := &harness{settings: &settings{queues: map[string]dibs.Queue{}, version: map[string]int{}}, pg: driver == "pgx", maria: driver == "mysql", side: side}
	h.open(t, driver, dsn)
	key, at, mark := "integer primary key", "text", "text"
	if h.pg {
		key, at, mark = "bigint generated always as identity primary key", "timestamptz", "uuid"
	}
	if h.maria {
		h.makeMaria(t)
		return h
	}
	for _, q := range []string{
		fmt.Sprintf(harnessTable, key, at, mark),
		"create index work_open on work (queue, priority, run_at, id) where status is null and mark is null",
		"create index work_running on work (queue) where status is null and mark is not null",
	} {
		if _, err := h.db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *harness) open(t testing.TB, driver, dsn string) {
	t.Helper()
	db, err := patient(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	h.db, h.stores, h.made = db, map[string]*adopt.Store{}, map[string]int{}
}

// another makes a harness for another program on the same table.
func (h *harness) another(t testing.TB, driver, dsn string) *harness {
	o := &harness{settings: h.settings, pg: h.pg, maria: h.maria, side: h.side}
	o.open(t, driver, dsn)
	return o
}

func (h *harness) mapping(q dibs.Queue) mapping.Mapping {
	m := mapping.Mapping{
		Table: "work", Queue: q.Name, ID: mapping.Columns{"id"}, Order: mapping.Columns{"priority", "run_at"},
		Where:       "queue = '" + strings.ReplaceAll(q.Name, "'", "''") + "'",
		Rows:        mapping.Rows{Unfinished: "status is null", NotBefore: "run_at"},
		Kind:        "kind",
		Group:       mapping.Group{Column: "grp", Limit: q.GroupLimit},
		Payload:     mapping.Payload{Columns: mapping.Columns{"payload"}, JSON: true},
		Concurrency: q.Concurrency,
		Lease:       q.Lease, MaxAttempts: q.MaxAttempts, MaxAttemptsColumn: "most", Backoff: q.Backoff,
		Completed: mapping.Change{Set: mapping.Set{"status": "completed", "ended_at": "$now", "result": "$result"}},
		Dead:      &mapping.Change{Set: mapping.Set{"status": "dead", "ended_at": "$now", "error": "$error"}},
		Cancelled: &mapping.Change{Set: mapping.Set{"status": "cancelled", "ended_at": "$now", "error": "$error"}},
		SideTable: h.side,
	}
	if !h.pg && !h.maria {
		m.Times = mapping.TimesMillis
	}
	if h.maria && !h.grouped { // transactions of callers cannot claim where there are groups
		m.Group = mapping.Group{}
	}
	if h.side {
		m.Dead = nil
	} else {
		m.PutBack.Set = mapping.Set{"error": "$error", "failed_at": "$now"}
		m.Available = "mark is null"
		m.Claim = mapping.Claim{Token: "mark", LockedBy: "server", StartedAt: "started_at", Timeout: "lease_end", Attempts: "attempts"}
	}
	return m
}

// store returns the queue's store, with the current settings. With make it creates a missing
// queue.
func (h *harness) store(ctx context.Context, queue string, make bool) (*adopt.Store, error) {
	if queue == "" {
		queue = dibs.DefaultQueue
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, dibs.ErrClosed
	}
	h.Lock()
	q, ok := h.queues[queue]
	if !ok && make {
		q = dibs.DefaultSettings(queue)
		h.queues[queue] = q
		h.version[queue]++
	}
	v, m := h.version[queue], h.mapping(q)
	h.Unlock()
	if !ok && !make {
		return nil, nil
	}
	if s := h.stores[queue]; s != nil && h.made[queue] == v {
		return s, nil
	}
	s, err := adopt.Open(ctx, h.db, m)
	if err == nil {
		h.stores[queue], h.made[queue] = s, v
	}
	return s, err
}

func (h *harness) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := h.prepare(ctx, jobs)
	if err != nil {
		return nil, err
	}
	tx, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.end("rollback")
	done, err := h.insert(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	return done, tx.end("commit")
}

// prepare checks new jobs and creates their queues.
func (h *harness) prepare(ctx context.Context, jobs []dibs.NewJob) ([]checks.Row, error) {
	rows, err := checks.Jobs(jobs, func(string) (int, error) { return dibs.MaxPayload, nil })
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if _, err := h.store(ctx, r.Queue, true); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// rowQuerier is a connection or a transaction.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (h *harness) insert(ctx context.Context, tx rowQuerier, rows []checks.Row) ([]dibs.Enqueued, error) {
	done := make([]dibs.Enqueued, len(rows))
	insert := "insert into work (queue, kind, payload, priority, run_at, created_at, grp, most) values ($1, $2, $3, $4, " +
		h.at("case when $5 = 0 then %[1]s + $6 when $5 > %[1]s then $5 else %[1]s end") + ", " + h.at("%[1]s") + ", $7, $8) returning id"
	for i, r := range rows {
		h.meet(r.Group)
		at := int64(0)
		if !r.RunAt.IsZero() {
			at = r.RunAt.UnixMicro()
		}
		group := sql.NullString{String: r.Group, Valid: r.Group != ""}
		text, args := h.numbered(insert, r.Queue, r.Kind, string(r.Payload), r.Priority, at, r.Delay.Microseconds(), group, r.MaxAttempts)
		err := tx.QueryRowContext(ctx, text, args...).Scan(&done[i].ID)
		if err != nil {
			return nil, err
		}
	}
	return done, nil
}

// at is SQL for a time, from an expression in microseconds in which %[1]s is the current time.
func (h *harness) at(micros string) string {
	if h.pg {
		micros = strings.NewReplacer("$5", "$5::bigint", "$6", "$6::bigint").Replace(micros)
		return "timestamptz 'epoch' + interval '1 microsecond' * (" + fmt.Sprintf(micros, "(extract(epoch from now()) * 1000000)::bigint") + ")"
	}
	if h.maria {
		return "timestamp '1970-01-01 00:00:00' + interval (" + fmt.Sprintf(micros, "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))") + ") microsecond"
	}
	return "strftime('%Y-%m-%d %H:%M:%f', (" + fmt.Sprintf(micros, "cast(unixepoch('now', 'subsec') * 1000000 as integer)") + ") / 1000000.0, 'unixepoch')"
}

// pass lets time pass: it subtracts d from every time of the table's and of the side table's.
func (h *harness) pass(ctx context.Context, d time.Duration) error {
	var set []string
	for _, column := range []string{"run_at", "created_at", "started_at", "lease_end", "ended_at", "failed_at"} {
		earlier := fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%f', %s, '-%f seconds')", column, d.Seconds())
		if h.pg {
			earlier = fmt.Sprintf("%s - interval '%d microseconds'", column, d.Microseconds())
		}
		if h.maria {
			earlier = fmt.Sprintf("%s - interval %d microsecond", column, d.Microseconds())
		}
		set = append(set, column+" = "+earlier)
	}
	_, err := h.db.ExecContext(ctx, "update work set "+strings.Join(set, ", "))
	if err == nil && h.side {
		text, args := h.numbered("update dibs_adopted set claimed_at = claimed_at - $1, lease_until = lease_until - $1, run_at = run_at - $1", d.Microseconds())
		_, err = h.db.ExecContext(ctx, text, args...)
	}
	return err
}

// micros is SQL for a time in microseconds.
func (h *harness) micros(column string) string {
	if h.pg {
		return "(extract(epoch from " + column + ") * 1000000)::bigint"
	}
	if h.maria {
		return "timestampdiff(microsecond, '1970-01-01', " + column + ")"
	}
	return "cast(round(unixepoch(" + column + ", 'subsec') * 1000000.0) as integer)"
}

// among is a condition for the rows whose ids are in a JSON array.
func (h *harness) among(param string) string {
	if h.pg {
		return "id in (select v::bigint from jsonb_array_elements_text(" + param + "::jsonb) v)"
	}
	if h.maria {
		return "id in (select v.id from json_table(" + param + ", '$[*]' columns (id bigint path '$')) v)"
	}
	return "id in (select value from json_each(" + param + "))"
}

type harnessTx struct {
	*sql.Conn
	over bool
}

func (h *harness) begin(ctx context.Context) (*harnessTx, error) {
	conn, err := h.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	statement := "begin immediate"
	if h.pg || h.maria {
		statement = "begin"
	}
	if _, err := conn.ExecContext(ctx, statement); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &harnessTx{Conn: conn}, nil
}

func (tx *harnessTx) end(statement string) error {
	if tx.over {
		return nil
	}
	tx.over = true
	_, err := tx.ExecContext(context.Background(), statement)
	return errors.Join(err, tx.Close())
}

func (h *harness) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	s, err := h.store(ctx, r.Queue, false)
	if err != nil || s == nil {
		return nil, err
	}
	jobs, err := s.Claim(ctx, r)
	if err != nil {
		return nil, err
	}
	return jobs, h.complete(ctx, jobs)
}

func (h *harness) Due(ctx context.Context, queues, kinds []string) (due []string, err error) {
	for _, queue := range queues {
		s, err := h.store(ctx, queue, false)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		found, err := s.Due(ctx, []string{queue}, kinds)
		if err != nil {
			return nil, err
		}
		due = append(due, found...)
	}
	return due, nil
}

func (h *harness) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	s, err := h.store(ctx, r.Queue, false)
	if err != nil || s == nil {
		return nil, err
	}
	jobs, err := s.Resume(ctx, r)
	if err != nil {
		return nil, err
	}
	return jobs, h.complete(ctx, jobs)
}

// complete adds to jobs the fields that only the owners of the table can read.
func (h *harness) complete(ctx context.Context, jobs []*dibs.RawJob) error {
	if len(jobs) == 0 {
		return nil
	}
	byID := make(map[int64]*dibs.RawJob, len(jobs))
	for _, j := range jobs {
		byID[j.ID] = j
	}
	ids, _ := json.Marshal(slices.Collect(maps.Keys(byID))) // no error: they are numbers
	text, args := h.numbered("select id, priority, coalesce(error, ''), coalesce("+h.micros("failed_at")+", "+h.micros("ended_at")+", 0), coalesce(server, ''), coalesce(status, ''), result, attempts, "+
		strings.Join([]string{h.micros("created_at"), h.micros("lease_end"), h.micros("ended_at"), h.micros("started_at"), h.micros("run_at")}, ", ")+
		", coalesce("+h.text("mark")+", '') from work where "+h.among("$1"), string(ids))
	rows, err := h.db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, priority, created, failed int64
		var server, status, mark, failure string
		var result sql.NullString
		var lease, ended, started, run sql.NullInt64
		var attempts int
		if err := rows.Scan(&id, &priority, &failure, &failed, &server, &status, &result, &attempts, &created, &lease, &ended, &started, &run, &mark); err != nil {
			return err
		}
		j := byID[id]
		j.Priority, j.CreatedAt = int(priority), time.UnixMicro(created)
		if h.side && j.RunAt.Before(time.UnixMicro(run.Int64)) {
			j.RunAt = time.UnixMicro(run.Int64)
		}
		if !h.side {
			j.Worker = server
			if failure != "" { // the table keeps only the last error
				j.Errors = []dibs.AttemptError{{Attempt: attempts, At: time.UnixMicro(failed), Worker: "w", Error: failure}}
			}
			if started.Valid {
				j.ClaimedAt = time.UnixMicro(started.Int64)
			}
		}
		switch {
		case status != "":
			j.State, j.FinishedAt = dibs.State(status), time.UnixMicro(ended.Int64)
			if result.Valid {
				j.Result = json.RawMessage(result.String)
			}
		case !h.side && lease.Valid:
			j.LeaseUntil = time.UnixMicro(lease.Int64)
			if err := j.Token.UnmarshalText([]byte(strings.ReplaceAll(mark, "-", ""))); err != nil {
				return err
			}
		case h.side && j.State == dibs.Running && j.Token.IsZero():
			text, args := h.numbered("select coalesce(max(token), '') from dibs_adopted d where d.key = $1", fmt.Sprintf("[%d]", id))
			err := h.db.QueryRowContext(ctx, text, args...).Scan(&mark)
			if err != nil {
				return err
			}
			if err := j.Token.UnmarshalText([]byte(mark)); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}
