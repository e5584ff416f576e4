package rowstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

const (
	// sweepEvery is how often a process sweeps as a part of its claims.
	sweepEvery = time.Second
	// claimCheckEvery is how often the sweep looks at a claim, however long its leases are,
	// to forget it once its jobs are finished.
	claimCheckEvery = time.Minute
	// lockedCheckEvery is how soon the sweep looks again at a claim if another transaction holds one of its jobs.
	lockedCheckEvery = time.Second
	// lanesAtOnce is how many priorities a claim looks up in one statement.
	lanesAtOnce = 4
)

// Claim takes up to r.N due jobs in the queue's order.
func (s *Store) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	ctx = s.nearQueue(ctx, r.Queue)
	_, _ = s.takeInbox(ctx, sweepEvery) // a claim that finds no job reports the error below
	jobs, err := s.claimOnce(ctx, r)
	if err != nil || len(jobs) > 0 {
		return jobs, err
	}
	if found, err := s.takeInbox(ctx, 0); err != nil || !found {
		return nil, err
	}
	return s.claimOnce(ctx, r)
}

func (s *Store) claimOnce(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	c, soon, err := s.admitting(ctx, r.Queue, func(tx *Session) (c claimed, err error) {
		if r.Again && s.resting(r) {
			return c, nil
		}
		c.began = time.Now()
		if c.jobs, err = tx.claim(r); err != nil {
			return c, err
		}
		c.took = time.Since(c.began)
		if len(c.jobs) == r.N {
			return c, nil
		}
		if len(c.jobs) == 0 {
			tx.idle++
		}
		if c.held, err = tx.heldFor(r.Queue); tx.others.missed {
			c.held = missedTurn
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	if c.took > 0 {
		s.Rests.Note(r.Queue, r.Kinds, c.began, c.took, len(c.jobs) > 0)
	}
	if soon > 0 && len(c.jobs) < r.N && (c.held == 0 || soon < c.held) {
		c.held = soon
	}
	if c.held > 0 {
		s.bell.WakeHeld(r.Queue, c.held)
	}
	return c.jobs, nil
}

// claimed is what a claim has found. A database may roll a claim back and run it again, so each run fills a new one.
type claimed struct {
	jobs  []*dibs.RawJob
	held  time.Duration // workers are woken after this time; 0: they are not woken
	began time.Time
	took  time.Duration // how long the claim looked for jobs; 0: it did not look
}

// resting reports whether a claim should return nothing without looking, because the last claim for these kinds has
// read past many jobs of other kinds and found nothing. Workers that were woken in the meantime are woken again after
// the pause.
func (s *Store) resting(r dibs.ClaimRequest) bool {
	left, woken := s.Rests.Left(r.Queue, r.Kinds, time.Now(), s.bell.LastWoken(r.Queue))
	if left > 0 && woken {
		s.bell.WakeHeld(r.Queue, left)
	}
	return left > 0
}

func (s *Session) claim(r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	q, err := s.queue(r.Queue)
	if err != nil || q == nil || q.Paused {
		return nil, err
	}
	if err := s.placeGroups(q); err != nil {
		return nil, err
	}
	if q, err = s.claimTurn(q); err != nil || q == nil || q.Paused {
		return nil, err
	}
	n, err := s.room(q, r)
	if err != nil || n <= 0 {
		return nil, err
	}
	c := s.newClaim(q, r.Worker, r.Lease)
	kinds, err := jsonNames(r.Kinds)
	if err != nil {
		return nil, err
	}
	if q.Order == dibs.Fair {
		if err := s.claimFair(c, kinds, n); err != nil {
			return nil, err
		}
	}
	if err := s.claimLanes(c, kinds, n); err != nil || len(c.jobs) == 0 {
		return nil, err
	}
	return c.jobs, s.record(c)
}

// TryClaim claims jobs in a transaction that will be rolled back. It returns how many, and whether the queue is paused.
func (s *Session) TryClaim(r dibs.ClaimRequest) (claimed int, paused bool, err error) {
	q, err := s.queue(r.Queue)
	if err != nil {
		return 0, false, err
	}
	if q == nil {
		return 0, false, checks.UnknownQueue(r.Queue)
	}
	if s.concurrent() {
		if err := s.admit(r.Queue); err != nil {
			return 0, false, err
		}
	}
	jobs, err := s.claim(r)
	if err == nil {
		err = s.WriteTally()
	}
	return len(jobs), q.Paused, err
}

// pendingClaim is a claim under way, with the jobs that it has taken so far.
type pendingClaim struct {
	queue  *queue
	worker string
	token  dibs.Token
	now    int64
	until  int64
	jobs   []*dibs.RawJob
}

func (s *Session) newClaim(q *queue, worker string, lease time.Duration) *pendingClaim {
	if lease == 0 {
		lease = q.Lease
	}
	now := s.now()
	if s.placesAt > 0 {
		now = min(now, s.placesAt)
	}
	token := checks.NewToken()
	if s.certified() {
		token[0] = PlaceOf(q.Name)
	}
	return &pendingClaim{queue: q, worker: worker, token: token, now: now, until: now + micro(lease)}
}

// room is how many jobs a claim may take: no more than the queue's concurrency limit and rate
// let start, and none ahead if there are groups, a limit or a rate.
func (s *Session) room(q *queue, r dibs.ClaimRequest) (int, error) {
	if q.Rate.N > 0 {
		free, err := s.mayStart(q)
		if err != nil {
			return 0, err
		}
		r.N, r.Ahead = min(r.N-r.Ahead, free), 0
	}
	if q.Concurrency == 0 {
		grouped := false
		if r.Ahead > 0 {
			if _, err := s.one("grouped", []any{q.Name}, &grouped); err != nil {
				return 0, err
			}
		}
		if grouped {
			return r.N - r.Ahead, nil
		}
		return r.N, nil
	}
	if _, err := s.expire(); err != nil {
		return 0, err
	}
	uncounted, err := s.countRunning(q.Name)
	if err != nil {
		return 0, err
	}
	var running int
	if _, err := s.one("running", []any{q.Name, q.Concurrency}, &running); err != nil {
		return 0, err
	}
	running += uncounted
	return min(r.N-r.Ahead, q.Concurrency-running), nil
}

// claimLanes takes up to n jobs, priority by priority. So it reads only due jobs, and in the
// right order, whatever plan the database chooses.
func (s *Session) claimLanes(c *pendingClaim, kinds any, n int) error {
	statement := "claim"
	if c.queue.groupRates {
		statement = "claim_rated"
	}
	if c.queue.Order == dibs.LIFO {
		statement += "_newest"
	}
	for after := -1; len(c.jobs) < n; {
		lanes, err := s.lanes(c, after, kinds)
		if err != nil || len(lanes) == 0 {
			return err
		}
		for _, priority := range lanes {
			first := len(c.jobs)
			if first == n {
				return nil
			}
			err := s.each(statement, c.add, c.queue.Name, priority, c.now, kinds, n-first, c.token[:], c.until, c.worker)
			if err != nil {
				return err
			}
			c.sortFrom(first)
		}
		after = lanes[len(lanes)-1]
	}
	return nil
}

func (s *Session) lanes(c *pendingClaim, after int, kinds any) ([]int, error) {
	var lanes []int
	err := s.each("lanes", func(rows *sql.Rows) error {
		var p int
		err := rows.Scan(&p)
		lanes = append(lanes, p)
		return err
	}, c.queue.Name, after, c.now, kinds, lanesAtOnce)
	return lanes, err
}

// add appends the job in a row of claim.sql or resume.sql.
func (c *pendingClaim) add(rows *sql.Rows) error {
	j, err := scanClaimed(rows)
	if err != nil {
		return err
	}
	j.Queue, j.Worker, j.Token = c.queue.Name, c.worker, c.token
	j.ClaimedAt, j.LeaseUntil = fromMicro(c.now), fromMicro(c.until)
	j.Limited, j.Timeout = c.queue.Concurrency > 0, c.queue.JobTimeout
	c.jobs = append(c.jobs, j)
	return nil
}

// sortFrom sorts the jobs from index first on in the queue's order.
func (c *pendingClaim) sortFrom(first int) { checks.SortClaimed(c.jobs[first:], c.queue.Order) }

// record logs the claim, counts its jobs, and frees the unique keys that are held only until a claim.
func (s *Session) record(c *pendingClaim) error {
	var ids, free []int64
	var waited int64
	for _, j := range c.jobs {
		ids = append(ids, j.ID)
		waited = plus(waited, span(j.RunAt.UnixMicro(), c.now))
		if j.UniqueUntil == dibs.UntilClaimed {
			free = append(free, j.ID)
		}
	}
	if err := s.noteLimits(c.queue, c.jobs); err != nil {
		return err
	}
	n := int64(len(ids))
	s.count(c.queue.Name, func(t *tally) {
		t.waiting -= n
		t.running += n
		t.claimed += n
		t.wait = plus(t.wait, waited)
	})
	list := jsonIDs(ids)
	if c.queue.Concurrency > 0 && !s.counted() {
		s.later("count_claimed", list)
	}
	if err := s.spend(c); err != nil {
		return err
	}
	if len(free) > 0 {
		s.later("free_key", jsonIDs(free))
	}
	s.logClaim(c, list)
	return nil
}

func (s *Session) logClaim(c *pendingClaim, ids string) {
	look := min(c.until, c.now+micro(claimCheckEvery))
	s.later("log_claim", c.token[:], c.queue.Name, c.worker, look, ids)
}

// jsonNames encodes names as a statement's parameter; nil if there are none.
func jsonNames(names []string) (any, error) {
	if len(names) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(names)
	return string(b), err
}
