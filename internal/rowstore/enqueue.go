package rowstore

import (
	"cmp"
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// The gates of live jobs; docs/design/0001-storage.md explains them.
const (
	gateReady   = 0
	gateBlocked = 1
	gateLater   = 2
	gateCounted = 3
	gateAfter   = 5 // the job waits for others
)

// enqueueAlone is what Enqueue does inside of its middleware.
func (s *Store) enqueueAlone(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := checkJobs(jobs)
	return call(ctx, s, "enqueue", err, func(tx *Session) ([]dibs.Enqueued, error) { return tx.enqueue(rows) })
}

// checkJobs encodes jobs and makes all checks but that of the queues' own payload limits, so
// that these take no time of the transaction.
func checkJobs(jobs []dibs.NewJob) ([]checks.Row, error) {
	return checks.Jobs(jobs, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
}

func (s *Session) enqueue(rows []checks.Row) ([]dibs.Enqueued, error) {
	if err := s.fit(rows); err != nil {
		return nil, err
	}
	return s.enqueueRows(rows)
}

// enqueueRows inserts jobs. Their queues must exist.
func (s *Session) enqueueRows(rows []checks.Row) ([]dibs.Enqueued, error) {
	done, err := s.insertRows(rows)
	if err != nil {
		return nil, err
	}
	return done, s.settle()
}

// insertRows inserts jobs, and leaves groups and followers to settle. Their queues must exist.
func (s *Session) insertRows(rows []checks.Row) ([]dibs.Enqueued, error) {
	known, err := s.knownParents(rows)
	if err != nil {
		return nil, err
	}
	if err := s.lockKeys(rows); err != nil {
		return nil, err
	}
	now := s.now()
	news := make([]newJob, len(rows))
	for i := range rows {
		var err error
		if news[i], err = s.newJob(&rows[i], now); err != nil {
			return nil, err
		}
	}
	done := make([]dibs.Enqueued, len(rows))
	for i := 0; i < len(rows); {
		statement, n := nextInsert(news[i:])
		if err := s.insert(statement, news[i:i+n], done[i:i+n]); err != nil {
			return nil, err
		}
		i += n
	}
	return done, s.link(rows, done, known)
}

// fit makes the queues that do not exist yet, and checks payloads by the limits of the queues.
func (s *Session) fit(rows []checks.Row) error {
	if err := s.keepQueues(rows); err != nil {
		return err
	}
	return checks.CheckPayloads(rows, func(name string) (int, error) {
		q, err := s.keepQueue(name)
		if err != nil {
			return 0, err
		}
		return q.PayloadLimit, nil
	})
}

// newJob is a job as enqueue.sql stores it.
type newJob struct {
	columns
	payload string
	row     *checks.Row
}

// columns have the same values in all rows of one enqueue_alike.
type columns struct {
	queue, kind string
	priority    int16
	runAt       int64
	gate        int
	maxAttempts int
	group       string
	uniqueKey   string
	uniqueUntil dibs.UniqueUntil
	createdAt   int64
	metadata    string
}

func (s *Session) newJob(r *checks.Row, now int64) (newJob, error) {
	q, err := s.queue(r.Queue)
	if err != nil {
		return newJob{}, err
	}
	runAt := now + micro(r.Delay)
	if !r.RunAt.IsZero() {
		runAt = max(now, r.RunAt.UnixMicro())
	}
	gate := firstGate(r.Group, runAt, now)
	if len(r.Edges) > 0 {
		gate = gateAfter
	}
	return newJob{columns{
		queue: r.Queue, kind: r.Kind, priority: r.Priority, runAt: runAt, gate: gate,
		maxAttempts: cmp.Or(r.MaxAttempts, q.MaxAttempts), group: r.Group,
		uniqueKey: r.UniqueKey, uniqueUntil: r.UniqueUntil, createdAt: now, metadata: string(r.Metadata),
	}, string(r.Payload), r}, nil
}

// nextInsert chooses the statement for the first of the jobs, and how many jobs it inserts. A
// job with a unique key is inserted alone.
func nextInsert(jobs []newJob) (statement string, n int) {
	first := jobs[0].columns
	switch {
	case first.uniqueKey == "" && begin(jobs, AlikeAtOnce, func(c *columns) bool { return *c == first }):
		return "enqueue_alike", AlikeAtOnce
	case begin(jobs, ManyAtOnce, func(c *columns) bool { return c.uniqueKey == "" }):
		return "enqueue_many", ManyAtOnce
	default:
		return "enqueue", 1
	}
}

// begin reports whether there are n jobs, and ok is true for the columns of the first n.
func begin(jobs []newJob, n int, ok func(*columns) bool) bool {
	for i := 0; i < n; i++ {
		if i == len(jobs) || !ok(&jobs[i].columns) {
			return false
		}
	}
	return true
}

// insert inserts jobs with a statement for this many jobs.
func (s *Session) insert(statement string, jobs []newJob, done []dibs.Enqueued) error {
	if jobs[0].uniqueKey != "" {
		if err := s.applyToHolder(&jobs[0], &done[0]); done[0].Existing || err != nil {
			return err
		}
	}
	s.values = s.values[:0]
	for i := range jobs {
		j := &jobs[i]
		if i == 0 || statement != "enqueue_alike" {
			s.values = append(s.values, j.queue, j.kind, j.priority, j.runAt, j.gate, j.maxAttempts, null(j.group),
				null(j.uniqueKey), null(string(j.uniqueUntil)), j.uniqueKey != "", j.createdAt, null(j.metadata))
		}
		s.values = append(s.values, j.payload)
		s.count(j.queue, func(t *tally) { t.enqueued++ })
		s.countArrival(j.queue, j.group, j.gate)
	}
	if s.err != nil {
		return s.err
	}
	last, step, err := s.dialect.Insert(s.ctx, s.conn, s.dialect.Statements.Get(statement), s.values...)
	for i := range done {
		done[i].ID = last - step*int64(len(done)-1-i) // one statement draws its ids in a row
	}
	if err == nil && !jobs[0].row.Period.IsZero() {
		s.setWindow(&jobs[0], done[0].ID)
	}
	return err
}

// firstGate is the gate of a new job that may start at runAt.
func firstGate(group string, runAt, now int64) int {
	switch {
	case group == "":
		return gateReady
	case runAt <= now:
		return gateBlocked
	default:
		return gateLater
	}
}

// countArrival counts a job that now waits at gate, and touches its group.
func (s *Session) countArrival(queue, key string, gate int) {
	if gate == gateAfter { // it takes no place yet
		s.count(queue, func(t *tally) { t.blocked++ })
		return
	}
	s.woken[queue] = true
	if gate != gateLater { // a job whose time has not come takes no place yet
		s.touch(queue, key)
	}
	s.count(queue, func(t *tally) {
		if gate == gateBlocked {
			t.blocked++
		} else {
			t.waiting++
		}
	})
}
