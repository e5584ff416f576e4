package postgres

import (
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

const (
	manyQueues = 1000
	// filledQueues gives each queue jobs of each sort, with their claims, counts and wake
	// rows. The queue "many1" has as many groups as there are queues, each with its own limit.
	filledQueues = `
		insert into dibs.queue (name, grouped)
		select 'many' || q, q % 2 = 1 from generate_series(1, 1000) q
		on conflict (name) do update set grouped = excluded.grouped;
		insert into dibs.turn (queue)
		select 'many' || q from generate_series(1, 1000) q
		on conflict (queue) do nothing;
		insert into dibs.job (queue, kind, payload, priority, run_at, gate, max_attempts, created_at)
		select 'many' || q, 'k', '1', 10 * (n % 2), now() + case when n = 3 then interval '1 hour' else interval '-1 hour' end, 0, 25, now()
		from generate_series(1, 1000) q, generate_series(1, 4) n;
		insert into dibs.job (queue, kind, payload, priority, run_at, gate, max_attempts, created_at, group_key)
		select 'many' || q, 'k', '1', 1, now() + interval '1 hour', n, 25, now(), 'group'
		from generate_series(1, 1000, 2) q, generate_series(1, 2) n;
		insert into dibs.job (queue, kind, payload, priority, run_at, gate, max_attempts, created_at, group_key)
		select 'many1', 'k', '1', 1, now() - interval '1 hour', 1, 25, now(), 'group' || g
		from generate_series(1, 1000) g, generate_series(1, 2) n;
		insert into dibs.group_limit (queue, group_key, places)
		select 'many1', 'group' || g, 2 from generate_series(1, 1000) g;
		insert into dibs.wake_list (queue, groups)
		select 'many1', array_agg('group' || g) from generate_series(1, 1000) g group by g % 10;
		insert into dibs.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload)
		select - 10 * q - n, (array['completed', 'dead', 'cancelled'])[1 + n % 3], now() - n * interval '1 minute', now(), now(), 1, 0, 1, 1, false, 'many' || q, 'k', '1'
		from generate_series(1, 1000) q, generate_series(1, 9) n;
		insert into dibs.history
		select date_trunc('minute', now()) - m * interval '1 minute', 'many' || q, 1, 1, 1, 1, 1, 1, 1
		from generate_series(1, 1000) q, generate_series(0, 125) m
		on conflict (minute, queue) do nothing;
		insert into dibs.tally (queue, waiting, enqueued, completed)
		select 'many' || q, 1, 1, 3 from generate_series(1, 1000) q, generate_series(1, 4) n`
)

// forAll says how many steps per queue a statement for all queues may take. Any other may
// take 15,000, far fewer than one for each pair of queues.
var forAll = map[string]float64{
	"stats": 100, "queues": 20, "pending": 20, "retention": 40, "merge_tally": 120, "history": 20, "failures": 20, "diagnose": 50, "list_finished": 30, "list_live": 30,
	// These enqueue to many queues.
	"add_queue": 30, "enqueue_draw": 20, "enqueue_count": 20, "enqueue (plain)": 20, "enqueue_unique (plain)": 20,
	// These admit 1,000 groups.
	"admit": 100, "due": 20, "wake_groups": 100,
}

// No statement compares every queue with every other, nor every group.
func TestPlansWithManyQueues(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	p := &planTest{T: t, url: url, reads: map[string]readBy{}}
	p.admin = newExplaining(t, url, connKinds[1]).conn
	p.exec("alter table dibs.tally set (autovacuum_enabled = false)")
	lasting := []*explaining{newExplaining(t, url, connKinds[0]), newExplaining(t, url, connKinds[1])}
	for _, e := range lasting {
		e.runOnManyQueues(p, "no rows")
	}
	p.exec(filledQueues)
	for _, e := range lasting {
		e.runOnManyQueues(p, "many queues, plans of when there were none")
	}
	p.exec("analyze")
	newExplaining(t, url, connKinds[0]).runOnManyQueues(p, "many queues, analyzed")
}

// runOnManyQueues runs all statements, on few queues and on many.
func (e *explaining) runOnManyQueues(p *planTest, situation string) {
	e.Helper()
	p.round++
	e.round = fmt.Sprint(p.round)
	e.reads, e.rows, e.steps = map[string]readBy{}, map[string]float64{}, map[string]float64{}
	e.verbs()
	ctx, s := e.Context(), e.store
	s.queues.init()
	var jobs []dibs.NewJob
	for i := range manyQueues {
		jobs = append(jobs, dibs.NewJob{Queue: fmt.Sprint("many", i+1), Kind: "k"})
	}
	for _, key := range []string{"", e.key()} {
		jobs[0].UniqueKey = key
		b, err := s.newBatch(ctx, rowsOf(p, jobs), true)
		e.must(err)
		_, err = s.insert(ctx, b, apart{s.db})
		e.must(err)
	}
	_, err := s.Queues(ctx)
	e.must(err)
	e.must(s.admit(ctx, "many1"))
	_, err = s.List(ctx, admin.Filter{Queue: "many7", Limit: 10})
	e.must(err)
	for name, steps := range e.steps {
		most := 15_000.0
		if each := forAll[name]; each > 0 {
			most = max(most, each*manyQueues)
		}
		if steps > most {
			e.Errorf("%s: %s takes %.0f steps, more than %.0f", situation, name, steps, most)
		}
	}
}

// A process that knows no queue yet reads and makes all queues of a call together.
func TestEnqueueingToManyQueuesTakesFewCalls(t *testing.T) {
	t.Parallel()
	for name, jobs := range map[string]int{"small batches": 90, "large batches": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, sent := tracedStore(t)
			second, read := tracedStoreAt(t, first.pool.Config().ConnString())
			for _, s := range []*Store{first, second} {
				batch := make([]dibs.NewJob, jobs)
				for i := range batch {
					batch[i] = dibs.NewJob{Queue: fmt.Sprint("many", i), Kind: "k"}
				}
				s.o.Pooler = true // the store sends no NOTIFY
				if _, err := s.Enqueue(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
			}
			for what, r := range map[string]*traced{"makes the queues": sent, "reads them": read} {
				if n := len(r.transactions); n > 40 {
					t.Errorf("a process that %s sends %d times: %q", what, n, r.named(first)[:10])
				}
			}
		})
	}
}

// One NOTIFY for all queues replaces ten thousand names.
func TestManyQueuesAreWokenByOneNotification(t *testing.T) {
	t.Parallel()
	s, _ := tracedStore(t)
	other := opened(t, s.pool.Config().ConnString())
	wake, stop := other.Wakeups("many7")
	defer stop()
	<-wake // a wakeup comes when listening begins
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprint("many", i))
	}
	heard := newExplaining(t, s.pool.Config().ConnString(), connKinds[1]).conn
	if _, err := heard.Exec(t.Context(), "listen "+ident(s.bell.channel())); err != nil {
		t.Fatal(err)
	}
	s.bell.sendNotify(names)
	<-wake
	n, err := heard.WaitForNotification(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := s.bell.name + " "; n.Payload != want {
		t.Errorf("the first notification is %q, want %q, which is for all queues", n.Payload, want)
	}
}
