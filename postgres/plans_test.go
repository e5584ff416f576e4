package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// explaining is a store on one connection, and a conn that records the plan of each
// statement.
type explaining struct {
	*testing.T
	store          *Store
	round          string
	conn           *pgx.Conn
	callerTx       pgx.Tx            // the caller's transaction, if any
	statementNames map[string]string // names of statements, by text
	reads          map[string]readBy
	rows           map[string]float64 // most rows of growing tables that one run of a statement has read
	steps          map[string]float64 // most rows and rounds of all nodes in one run of a statement
}

// reads are the ways to read growing tables, such as "Index Scan job_ready".
type readBy map[string]bool

// plan is a node in the output of EXPLAIN ANALYZE.
type plan struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Unjoined float64 `json:"Rows Removed by Join Filter"`
	Plans    []plan
}

// small tables have a row per queue, per group with a limit of its own, or per worker.
var small = []string{"queue", "turn", "group_limit", "worker"}

func (p plan) readRows(r readBy) (rows float64) {
	for _, child := range p.Plans {
		rows += child.readRows(r)
	}
	table, _, _ := strings.Cut(p.Index, "_") // a bitmap's index scan names no table
	if p.Relation != "" {
		table = p.Relation
	}
	if table == "" || p.Type == "ModifyTable" || slices.Contains(small, p.Relation) || strings.HasPrefix(p.Index, "group_limit") {
		return rows
	}
	how := p.Type + " " + p.Index
	if p.Index == "" {
		how += "of " + table
	}
	r[how] = true
	return rows + (p.Rows+p.Removed)*p.Loops
}

// steps are the rows that all nodes returned or dropped, at least one for each round: a join
// of everything with everything has many, even where it reads no table.
func (p plan) steps() (n float64) {
	for _, child := range p.Plans {
		n += child.steps()
	}
	return n + max(1, p.Rows+p.Removed+p.Unjoined)*p.Loops
}

// run explains each step, which executes it, rolls that back, and runs the step.
func (e *explaining) run(ctx context.Context, steps ...step) error {
	var db interface {
		Begin(context.Context) (pgx.Tx, error)
	} = e.conn
	if e.callerTx != nil {
		db = e.callerTx
	}
	return pgx.BeginFunc(ctx, db, func(t pgx.Tx) error {
		for _, s := range steps {
			name := e.statementNames[s.sql]
			if name != "" {
				if err := e.explainOne(ctx, t, name, s); err != nil {
					return fmt.Errorf("explain %s: %w", name, err)
				}
			}
			if err := onPgx(t, e.conn.Config()).run(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

func (e *explaining) explainOne(ctx context.Context, t pgx.Tx, name string, s step) error {
	if _, err := t.Conn().Prepare(ctx, name, s.sql); err != nil {
		return err
	}
	args := make([]string, len(s.args))
	for i, a := range s.args {
		args[i] = sqlLiteral(a)
	}
	statement := "explain (analyze, costs off, timing off, summary off, format json) execute " + ident(name)
	if len(args) > 0 {
		statement += "(" + strings.Join(args, ", ") + ")"
	}
	inner, err := t.Begin(ctx)
	if err != nil {
		return err
	}
	var text string
	if err := inner.QueryRow(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		return err
	}
	var top []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		return err
	}
	if e.reads[name] == nil {
		e.reads[name] = readBy{}
	}
	e.rows[name] = max(e.rows[name], top[0].Plan.readRows(e.reads[name]))
	e.steps[name] = max(e.steps[name], top[0].Plan.steps())
	return inner.Rollback(ctx)
}

// sqlLiteral writes a parameter as text; the statement determines its type.
func sqlLiteral(a any) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	switch v := plainArg(a).(type) {
	case nil:
		return "null"
	case *string:
		if v == nil {
			return "null"
		}
		return quote(*v)
	case *time.Time:
		if v == nil {
			return "null"
		}
		return sqlLiteral(*v)
	case *int:
		if v == nil {
			return "null"
		}
		return sqlLiteral(*v)
	case time.Time:
		return quote(v.UTC().Format("2006-01-02 15:04:05.999999Z07:00"))
	default:
		return quote(fmt.Sprint(v))
	}
}

// connKind is a kind of connection: its plans depend on who has set it up.
type connKind struct {
	name, setup string
	tx          bool
}

var connKinds = []connKind{
	{name: "of Open", setup: strings.ReplaceAll(ownTransaction, "true)", "false)")},
	{name: "of a caller's pool", setup: "select 1"},
	{name: "in a caller's transaction, custom plans", setup: "set plan_cache_mode = force_custom_plan", tx: true},
	{name: "in a caller's transaction, generic plans", setup: "set plan_cache_mode = force_generic_plan", tx: true},
}

func newExplaining(t *testing.T, url string, k connKind) *explaining {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the test's database is dropped afterwards
	if _, err := conn.Exec(t.Context(), k.setup); err != nil {
		t.Fatal(err)
	}
	sql, err := load("dibs")
	if err != nil {
		t.Fatal(err)
	}
	e := &explaining{T: t, conn: conn, statementNames: map[string]string{}}
	for name, text := range sql.all() {
		e.statementNames[text] = name
	}
	s := &Store{db: e, upkeep: e, sql: sql, wideFrom: wideFrom, o: Options{Pooler: true}, closed: context.Background()}
	if k.setup != connKinds[0].setup {
		s.db, s.upkeep = planningConn{e}, planningConn{e}
	}
	s.bell = newBell(s)
	s.initMerged()
	e.store = s
	return e
}

// most is how many rows of growing tables a statement may read in these tests, if not 300:
// it acts on at most ten jobs among a million.
var most = map[string]float64{
	"admit":        5000,   // deletes 1000 rows of each of two tables, for as many groups
	"due":          2100,   // finds and then changes up to 1000 jobs
	"diagnose":     25_000, // counts up to 10,000 rows of wake and wake_list each
	"stats":        11_000, // counts up to admin.ScheduledCap scheduled jobs
	"resume":       2500,   // reads the log of 2000 claims
	"list_running": 2500,   // reads the log of 2000 claims
	"list_live":    5000,   // passes over jobs that it does not list
	"wake_groups":  12_000, // wakes every group of the queue, of 5000

	"set_group_rates": 11_000, // changes the rate of every group of the queue, of 5000
	"group_settings":  11_000, // lists those of a queue with 5000
	"drop_rates":      5000,   // looks at 1000 groups
}

// planTest runs all statements in one situation of the tables after another.
type planTest struct {
	*testing.T
	url   string
	admin *pgx.Conn
	reads map[string]readBy // reads by statement, on connections whose plans are checked
	round int
}

func (p *planTest) exec(statements string) {
	p.Helper()
	if _, err := p.admin.Exec(p.Context(), statements); err != nil {
		p.Fatal(err)
	}
}

func (p *planTest) connect() (all []*explaining) {
	p.Helper()
	for _, k := range connKinds {
		all = append(all, newExplaining(p.T, p.url, k))
	}
	return all
}

// checkReads checks what every statement reads, on new connections, or on the lasting ones, which
// keep their plans.
func (p *planTest) checkReads(situation string, lasting []*explaining) {
	p.Helper()
	if lasting == nil {
		lasting = p.connect()
	}
	for i, e := range lasting {
		p.round++
		e.round = fmt.Sprint(p.round)
		e.reads, e.rows, e.steps = map[string]readBy{}, map[string]float64{}, map[string]float64{}
		if connKinds[i].tx {
			e.verbsOfTx()
		} else {
			e.verbs()
			for name, r := range e.reads {
				if p.reads[name] == nil {
					p.reads[name] = readBy{}
				}
				maps.Copy(p.reads[name], r)
			}
		}
		for name, rows := range e.rows {
			limit := most[name]
			if limit == 0 {
				limit = 1000
			}
			if rows > limit {
				p.Errorf("%s, %s: %s reads %.0f rows: %q", situation, connKinds[i].name, name, rows, slices.Sorted(maps.Keys(e.reads[name])))
			}
		}
	}
}

const (
	bigTables = "dibs.job, dibs.payload, dibs.finished, dibs.claim, dibs.wake, dibs.wake_list, dibs.tally, dibs.history, dibs.unique_window, dibs.rate, dibs.edge, dibs.ended_list"
	// million fills the tables with jobs of each sort, and their claims, counts and wake rows.
	million = `
		insert into dibs.job (queue, kind, payload, priority, run_at, gate, max_attempts, created_at, group_key, unique_key, unique_until, unique_held)
		select
			(array['q', 'q', 'q', 'q', 'g', 'g', 'g', 'l', 'lifo', 'u'])[1 + i % 10], 'k', case when i % 3 <> 0 then repeat('1', 50) end, (array[100, 255])[1 + i / 10 % 2],
			now() + case i % 10 when 3 then interval '1 hour' else interval '-1 hour' end,
			case i % 10 when 4 then 1 when 5 then 2 when 6 then least(i / 10 % 20, 1) else 0 end,
			25, now(),
			case i % 10 when 4 then 'big' when 5 then 'later' when 6 then 'small' || i / 200 end,
			case i % 10 when 9 then 'unique' || i end, case i % 10 when 9 then 'finished' end, i % 10 = 9
		from generate_series(1, 1000000) i;
		insert into dibs.payload (id, payload)
		select id, repeat('1', 50) from dibs.job where payload is null on conflict do nothing;
		insert into dibs.payload (id, payload)
		select - i, '1' from generate_series(2, 200000, 2) i;
		insert into dibs.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload)
		select - i, 'completed', now(), now(), now(), 1, 0, 1, 1, false, 'q', 'k', case when i % 2 = 1 then '1' end from generate_series(1, 200000) i;
		insert into dibs.claim (token, check_at, queue, worker, ids)
		select gen_random_uuid(), now() + interval '1 hour', 'other', 'w' || i, array[i] from generate_series(1, 2000) i;
		insert into dibs.wake (queue, group_key)
		select 'other', 'g' || i from generate_series(1, 100000) i;
		insert into dibs.wake_list (queue, groups)
		select 'other', array['g' || i] from generate_series(1, 100000) i;
		insert into dibs.unique_window (queue, unique_key, until, job)
		select 'u', 'unique' || i, now() + interval '1 hour', i from generate_series(1, 200000) i;
		insert into dibs.rate (queue, group_key, step_ns, slack_ns, full_ns)
		select case when i <= 5000 then 'r' else 'other' end, 'g' || i, 1, 1, 1 from generate_series(1, 200000) i;
		insert into dibs.edge (child, parent, need, open)
		select - i, - i % 1000, 'completed', i % 2 = 0 from generate_series(1, 200000) i`
)

// Every statement finds its rows by an index, whatever the tables hold and whatever the
// planner's statistics say.
func TestPlans(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	p := &planTest{T: t, url: url, reads: map[string]readBy{}}
	p.admin = newExplaining(t, url, connKinds[1]).conn
	for table := range strings.SplitSeq(bigTables, ", ") {
		p.exec("alter table " + table + " set (autovacuum_enabled = false)")
		p.exec("alter table " + table + " set unlogged") // quicker to fill
	}
	p.checkReads("no rows, never analyzed", nil)
	p.exec("analyze " + bigTables)
	p.checkReads("few rows, analyzed", nil)
	p.exec("truncate " + bigTables)
	p.exec("vacuum analyze " + bigTables)
	lasting := p.connect()
	p.checkReads("no rows, analyzed", lasting)
	if !testing.Short() {
		p.exec(million)
		p.checkReads("a million rows, analyzed when empty, by plans made then", lasting[:2])
		p.checkReads("a million rows, analyzed when empty", nil)
		p.exec("analyze " + bigTables)
		p.checkReads("a million rows, analyzed", nil)
		p.exec("truncate " + bigTables)
		p.checkReads("no rows, analyzed when there were a million", nil)
	}
	golden.Match(t, "plans.txt", p.text())
}

// text lists how each statement reads tables that grow; every statement must have run.
func (p *planTest) text() string {
	sql, err := load("dibs")
	if err != nil {
		p.Fatal(err)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sql.all())) {
		if slices.Contains([]string{"check", "repairable", "stray_steps", "texts", "payloads", "lock_repair", "tally", "enqueue_copy", "enqueue_copy_wide", "rights"}, name) || strings.HasPrefix(name, "locks_") || strings.HasPrefix(name, "diagnose_") {
			continue // these read everything, or nothing, or the catalogs
		}
		if p.reads[name] == nil {
			p.Errorf("%s was not run", name)
		}
		fmt.Fprintln(&b, name)
		for _, how := range slices.Sorted(maps.Keys(p.reads[name])) {
			fmt.Fprintf(&b, "    %s\n", how)
		}
	}
	return b.String()
}
