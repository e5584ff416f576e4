package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// No function or operator that somebody puts into a schema of the path, even before the
// server's own, is ever called, however dibs is connected.
func TestNothingPlantedInTheSearchPathIsCalled(t *testing.T) {
	t.Parallel()
	texts := sentTexts(t)
	address := pgtest.URL(t)
	if err := Migrate(t.Context(), address, Options{}); err != nil {
		t.Fatal(err)
	}
	p := pgtest.Plant(t, address)
	for _, text := range texts {
		p.For(text)
	}
	for _, text := range texts {
		meant, err := p.Parsed(text, "pg_catalog")
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := p.Parsed(Plain(text), "pg_catalog"); plain != meant {
			t.Errorf("this needs parentheses where operators meet (%v):\n%s", err, text)
		}
		if planted, err := p.Parsed(text, "planted, pg_catalog"); planted != meant {
			t.Errorf("this means something else where others may plant (%v):\n%s", err, text)
		}
	}
	hostile := withParam(t, address, "search_path", "planted, pg_catalog")
	for i, c := range sessions {
		(&everyVerb{T: t, store: c.open(t, hostile, nil), address: hostile, admin: withParam(t, address, "search_path", "pg_catalog"), round: fmt.Sprint(i)}).run()
	}
	if err := Migrate(t.Context(), hostile, Options{Schema: "other"}); err != nil {
		t.Error(err)
	}
	if n := p.Hits(); n > 0 {
		t.Errorf("%d calls of what was planted", n)
	}
	if made := p.Dependents(); len(made) > 0 {
		t.Errorf("the schema depends on what was planted: %q", made)
	}
}

// sentTexts are all statements that a store sends: those in the Go code, and those of its
// files, each of which must have been sent.
func sentTexts(t *testing.T) []string {
	t.Helper()
	address := pgtest.URL(t)
	if err := Migrate(t.Context(), address, Options{}); err != nil {
		t.Fatal(err)
	}
	sent := &pgtest.Sent{Texts: map[string]bool{}}
	s := newWith(pgx.QueryExecModeCacheStatement).open(t, address, sent)
	(&everyVerb{T: t, store: s, address: address, admin: address, tracer: sent, round: "0"}).run()
	files, err := load("dibs")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files.all() {
		if !sent.Texts[text] && !strings.HasPrefix(name, "enqueue_copy") && name != "locks_awaited" { // COPY bypasses the tracer, and the other needs a waiting call
			t.Errorf("no verb has sent %s.sql", name)
		}
		sent.Texts[text] = true
	}
	// Commands look up no operators, functions or types.
	command := regexp.MustCompile(`^(begin|commit|rollback|savepoint|release|show|copy|listen) `)
	var texts []string
	for _, text := range slices.Sorted(maps.Keys(sent.Texts)) {
		if !command.MatchString(strings.TrimSpace(text) + " ") {
			texts = append(texts, text)
		}
	}
	return texts
}

func withParam(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx does not read a + as a blank
	return u.String()
}

// sessionKind is one way to connect a store.
type sessionKind struct {
	name string
	open func(t *testing.T, address string, tracer *pgtest.Sent) *Store
}

var sessions = []sessionKind{
	{"Open", func(t *testing.T, address string, tracer *pgtest.Sent) *Store {
		return openedFor(t, address, Options{}, tracer)
	}},
	{"Open behind a pooler", func(t *testing.T, address string, tracer *pgtest.Sent) *Store {
		return openedFor(t, address, Options{Pooler: true}, tracer)
	}},
	newWith(pgx.QueryExecModeCacheStatement), newWith(pgx.QueryExecModeCacheDescribe),
	newWith(pgx.QueryExecModeExec), newWith(pgx.QueryExecModeSimpleProtocol),
}

func openedFor(t *testing.T, address string, o Options, _ *pgtest.Sent) *Store {
	t.Helper()
	s, err := Open(t.Context(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newWith(mode pgx.QueryExecMode) sessionKind {
	return sessionKind{"New, " + mode.String(), func(t *testing.T, address string, tracer *pgtest.Sent) *Store {
		t.Helper()
		config, err := pgxpool.ParseConfig(address)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DefaultQueryExecMode = mode
		if tracer != nil {
			config.ConnConfig.Tracer = tracer
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s, err := New(t.Context(), pool, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}}
}

// everyVerb makes all calls of a store.
type everyVerb struct {
	*testing.T
	store   *Store
	address string // URL of callers' transactions
	admin   string // URL of the test's own connections
	tracer  *pgtest.Sent
	round   string
}

func (v *everyVerb) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

func (v *everyVerb) run() {
	v.Helper()
	conn, err := pgx.Connect(v.Context(), v.admin)
	v.must(err)
	defer conn.Close(context.WithoutCancel(v.Context()))
	e := &explaining{T: v.T, store: v.store, conn: conn, round: v.round}
	e.enqueue(v.store.db)
	e.change()
	e.work()
	e.expire()
	e.operate()
	e.flows()
	v.operate()
	v.inTransactions()
}

// operate makes the operators' calls that explaining leaves out.
func (v *everyVerb) operate() {
	v.Helper()
	ctx, s, q := v.Context(), v.store, "operate"+v.round
	wake, stop := s.Wakeups(q)
	defer stop()
	_, err := s.Enqueue(ctx, jobsOf(q, "", copyFrom))
	v.must(err)
	<-wake
	s.bell.sendNotify([]string{q})
	jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: q, Worker: "w", N: 6})
	v.must(err)
	_, err = s.Claim(ctx, dibs.ClaimRequest{Queue: q, Worker: "w", N: 1})
	v.must(err)
	v.must(s.Finish(ctx, []dibs.Outcome{
		jobs[0].Lease().Complete([]byte("1")), jobs[1].Lease().Die("no"), jobs[2].Lease().Release(),
		jobs[3].Lease().Cancel(""), jobs[4].Lease().Snooze(time.Hour), jobs[5].Lease().RetryAfter(0, "no"),
	}))
	_, err = s.Due(ctx, []string{q}, nil)
	v.must(err)
	row, _, err := s.queue(ctx, q)
	v.must(err)
	m := &marks{eager: true}
	v.must(s.moveMarks(ctx, row, nil, m))
	_, err = s.ChangeQueue(ctx, q, dibs.QueueChange{Concurrency: new(100)}.Apply) // a new limit while jobs run
	v.must(err)
	_, err = s.Claim(ctx, dibs.ClaimRequest{Queue: q, Worker: "w", N: 1})
	v.must(err)
	_, err = s.Locks(ctx, q, 3)
	v.must(err)
	_, err = s.Diagnose(ctx)
	v.must(err)
	_, err = s.Queues(ctx)
	v.must(err)
	w := dibs.WorkerInfo{ID: checks.NewToken(), Name: q, Queues: []string{q}, State: dibs.WorkerWorking}
	v.must(s.Register(ctx, w))
	v.look(q)
	_, err = s.DeleteEnded(ctx, []int64{1 << 50}, time.Now())
	v.must(err)
	_, err = s.Workers(ctx)
	v.must(err)
	_, err = s.DueKinds(ctx, q)
	v.must(err)
	w.State = dibs.WorkerStopped
	v.must(s.Register(ctx, w))
	v.must(s.SetSchedules(ctx, q, []dibs.Schedule{{Name: q, Spec: "@yearly", Kind: "k", Queue: q}}))
	_, err = s.RunSchedule(ctx, q)
	v.must(err)
	_, err = s.NextTicks(ctx, dibs.Schedule{Spec: "@yearly"}, 1)
	v.must(err)
	v.must(s.tick(ctx))
	_, err = s.busyJobs(ctx, &tickRound{conn: s.db}, []scheduleRow{{Schedule: dibs.Schedule{SkipOverlap: true, LastJob: 1}}})
	v.must(err)
	v.must(s.SetSchedules(ctx, q, nil))
	v.must(s.retain(ctx, &dibs.Swept{}))
	_, err = s.inTurn(ctx, "tally", step{sql: s.sql.get("merge_tally"), args: []any{mergeBatch, 120}})
	v.must(err)
	_, err = s.Check(ctx)
	v.must(err)
	v.must(s.upkeep.run(ctx, step{sql: "insert into " + ident(s.o.schema()) + ".tally (queue, waiting) values ($1, 5)", args: []any{q}}))
	v.must(s.upkeep.run(ctx, step{sql: "insert into " + ident(s.o.schema()) + ".payload (id, payload) values (-1, 'of no job')"}))
	v.must(s.upkeep.run(ctx, step{sql: "insert into " + ident(s.o.schema()) + ".step (job, name, value) values (-1, 'of no job', '1')"}))
	_, err = s.Repair(ctx)
	v.must(err)
}

// look makes the calls of those who look at a queue.
func (v *everyVerb) look(queue string) {
	v.Helper()
	ctx, s := v.Context(), v.store
	_, err := s.History(ctx, nil, 0)
	v.must(err)
	_, err = s.Failures(ctx, admin.FailureFilter{Queues: []string{queue}})
	v.must(err)
	_, err = s.Times(ctx, queue)
	v.must(err)
	_, err = s.Backlogs(ctx, queue, "")
	v.must(err)
	_, err = s.List(ctx, admin.Filter{Queue: queue, UniqueKey: "any"})
	v.must(err)
}

// inTransactions makes calls in transactions of callers and of the store.
func (v *everyVerb) inTransactions() {
	v.Helper()
	ctx := v.Context()
	v.must(v.store.InTx(ctx, func(t dibs.Tx) error { v.inTx(t); return nil }))
	config := v.store.pool.Config().ConnConfig.Copy()
	given, err := pgx.ParseConfig(v.address)
	v.must(err)
	config.RuntimeParams = given.RuntimeParams // the parameters that the caller has given
	if v.tracer != nil {
		config.Tracer = v.tracer
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	v.must(err)
	defer conn.Close(context.WithoutCancel(ctx))
	v.must(pgx.BeginFunc(ctx, conn, func(t pgx.Tx) error { v.inTx(v.store.Tx(t)); return nil }))
	db := stdlib.OpenDB(*config)
	defer db.Close()
	t, err := db.BeginTx(ctx, &sql.TxOptions{})
	v.must(err)
	v.inTx(v.store.SQLTx(t))
	v.must(t.Commit())
	t, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	v.must(err)
	_, err = v.store.SQLTx(t).Claim(ctx, dibs.ClaimRequest{Queue: "l", Worker: "w", N: 3}) // refused because of its isolation level
	if err == nil {
		v.Error("a claim under a limit in a transaction that does not see what runs")
	}
	v.must(t.Rollback())
}

func (v *everyVerb) inTx(t dibs.Tx) {
	v.Helper()
	ctx := v.Context()
	unique := jobsOf("u", "", 2)
	unique[0].UniqueKey = "tx" + v.round
	replacing := slices.Clone(unique)
	replacing[0].IfHeld, replacing[0].UniqueFor = dibs.HeldReplace, time.Hour
	for _, jobs := range [][]dibs.NewJob{jobsOf("q", "", 3), unique, unique, replacing, jobsOf("copied", "", copyFrom)} {
		_, err := t.Enqueue(ctx, jobs)
		v.must(err)
	}
	jobs, err := t.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 3})
	v.must(err)
	if len(jobs) < 2 {
		v.Fatalf("claimed %d jobs", len(jobs))
	}
	v.must(t.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Retry("no"), jobs[1].Lease().Die("no")}))
}
