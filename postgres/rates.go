package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/bucket"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/settings"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// paced is what rates let a claim do.
type paced struct {
	free int           // so many jobs may start by the queue's rate
	held time.Duration // jobs are held up for so long, if that is known
}

// underRates is a claim from a queue that may have rates: what they let start is reckoned
// before it, and counted after it.
func (s *Store) underRates(q queueRow, token dibs.Token, claim step, p *paced) []step {
	p.free = math.MaxInt
	if q.Rate.N == 0 && !q.groupRates {
		return []step{claim}
	}
	b := bucket.Of(q.Rate)
	spent := step{
		sql:  s.sql.get("rate_spent"),
		args: []any{q.Name, [16]byte(token), b.Step, b.Slack, q.version},
		row: func(scan func(...any) error) error {
			var after pgtype.Int8
			err := scan(&after)
			p.held = us(after.Int64)
			return err
		},
	}
	if q.Rate.N == 0 {
		return []step{claim, spent}
	}
	free := step{
		sql:  s.sql.get("rate_free"),
		args: []any{q.Name, b.Step, b.Slack},
		row: func(scan func(...any) error) error {
			var text string
			err := scan(&text)
			if err == nil {
				p.free, err = strconv.Atoi(text)
			}
			return err
		},
	}
	return []step{free, claim, spent}
}

// dropRates deletes, after an admission, what is known of groups that need no row for their queue's
// rate any more: each second it looks at the next dropsRates of them.
func (s *Store) dropRates(q queueRow) []step {
	if q.GroupRate.N == 0 {
		return nil
	}
	l := s.queues.lanesOf(q.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.ratesLooked) < dropRatesEvery {
		return nil
	}
	l.ratesLooked = time.Now()
	return []step{{sql: s.sql.get("drop_rates"), args: []any{q.Name, l.ratesAfter, dropsRates}, row: func(scan func(...any) error) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return scan(&l.ratesAfter)
	}}}
}

const (
	dropRatesEvery = time.Second
	dropsRates     = 1000
)

// ringAfter has a queue claimed from again when its rates let jobs start of which this claim
// got too few. If the queue's rate cut the claim short, jobs may start by now.
func (s *Store) ringAfter(queue string, p paced, got, wanted int) {
	if got < wanted && (p.held > 0 || got >= p.free) {
		s.bell.WakeHeld(queue, p.held)
	}
}

// SetGroup implements dibs.Admin.
func (s *Store) SetGroup(ctx context.Context, queue, group string, c dibs.GroupChange) error {
	if err := s.ready(ctx, "set group", checks.Group(queue, group, c)); err != nil {
		return err
	}
	err := s.upkeep.run(ctx, slices.Concat(s.groupLock(queue), s.useGroups(queue, c), s.groupSteps(queue, group, c))...)
	return wrap("set group", s.groupChanged(ctx, queue, c, err))
}

// ChangeGroup implements dibs.Admin.
func (s *Store) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	read := func() ([]dibs.Group, error) { return s.Groups(ctx, queue) }
	return settings.ChangeGroup(queue, group, f, read, func(old dibs.Group, c dibs.GroupChange) error {
		err := s.transact(ctx, "change group", func(t pgx.Tx) error {
			tx := onPgx(t, t.Conn().Config())
			if err := tx.run(ctx, s.groupLock(queue)...); err != nil {
				return err
			}
			list, err := s.readsOn(func(*Store) conn { return tx }).Groups(ctx, queue)
			if err := settings.OrStale(checks.GroupOf(list, group) == old, err); err != nil {
				return err
			}
			return tx.run(ctx, slices.Concat(s.useGroups(queue, c), s.groupSteps(queue, group, c))...)
		})
		if errors.Is(err, settings.ErrStale) {
			return err
		}
		return wrap("change group", s.groupChanged(ctx, queue, c, err))
	})
}

// groupLock lets nobody else admit jobs or change groups of a queue until the transaction ends.
func (s *Store) groupLock(queue string) []step {
	return []step{waitBriefly, {sql: s.sql.get("lock_admit"), args: []any{s.admitKey(queue)}}}
}

// useGroups makes a queue that has groups, unless there is one, and has admissions and claims look for rates of groups
// if a change gives a group one. Where it is to hold for what follows, groupLock comes first: deletions of queues take it, too.
func (s *Store) useGroups(queue string, c dibs.GroupChange) []step {
	steps := []step{{sql: s.sql.get("add_queue"), args: []any{[]string{queue}, []bool{true}}}}
	if c.Rate != nil && c.Rate.N > 0 {
		steps = append(steps, step{sql: s.sql.get("use_group_rates"), args: []any{queue}})
	}
	return steps
}

func (s *Store) groupSteps(queue, group string, c dibs.GroupChange) (steps []step) {
	if c.Limit != nil {
		steps = append(steps, step{sql: s.sql.get("set_group"), args: []any{queue, group, *c.Limit}})
	}
	if r := c.Rate; r != nil {
		b := bucket.Of(*r)
		steps = append(steps, step{
			sql:  s.sql.get("set_group_rate"),
			args: []any{queue, group, r.N, r.Per.Microseconds(), r.Burst, b.Step, b.Slack},
		})
	}
	return append(steps, step{sql: s.sql.get("wake_group"), args: []any{queue, group}})
}

// groupChanged has claims follow a change of a group, unless it failed with err.
func (s *Store) groupChanged(ctx context.Context, queue string, c dibs.GroupChange, err error) error {
	if err == nil {
		_, _, err = s.queue(ctx, queue)
	}
	s.Wake(queue)
	return err
}
