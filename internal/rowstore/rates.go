package rowstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/bucket"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/settings"
)

// pace is how fast the rate of a queue or a group lets jobs start. The zero pace has no limit.
type pace struct {
	bucket.Bucket
	full int64 // when the rate will have saved up all, in nanoseconds since 1970
}

// pace reads what the rate of a group has saved up, or, if key is empty, that of the queue.
func (s *Session) pace(q *queue, key string) (p pace, err error) {
	r := q.Rate
	if key != "" && !q.groupRates || key == "" && r.N == 0 {
		return p, nil
	}
	var own dibs.Rate
	var per int64
	_, err = s.one("rate", []any{q.Name, key}, &own.N, &per, &own.Burst, &p.full)
	if own.Per = checks.Micros(per); key != "" {
		r = q.GroupRate
	}
	if key != "" && own.N > 0 {
		r = own
	}
	if err != nil || r.N == 0 {
		return pace{}, err
	}
	p.Bucket = bucket.Of(r)
	now := s.now()
	if owed := p.Owed(p.full, now*1000); owed < p.full {
		p.full = owed
		s.writePace(q, key, p, now)
	}
	return p, nil
}

func (s *Session) writePace(q *queue, key string, p pace, now int64) {
	s.later("spend", q.Name, key, p.full, p.next(now, 1))
}

// free is how many of the free places of a group its rate fills. Started jobs hold their
// places whatever the rate, and come first.
func (p pace) free(now int64, places, started int) int {
	if p.Step == 0 {
		return places
	}
	return max(0, min(places, int(p.Free(p.full, now*1000))-started))
}

// most is how many places of a group its jobs may keep while they wait for the rate: no more
// than can ever start at once.
func (p pace) most(places int) int {
	if p.Step == 0 {
		return places
	}
	return min(places, int(p.Slack/p.Step)+1)
}

// next is when the n-th start from now on is allowed, in microseconds since 1970, rounded up.
func (p pace) next(now int64, n int) int64 {
	return (p.Next(p.full, now*1000, int64(n)) + 999) / 1000
}

// mayStart is how many jobs the queue's rate lets start now.
func (s *Session) mayStart(q *queue) (int, error) {
	p, err := s.pace(q, "")
	return int(min(p.Free(p.full, s.now()*1000), dibs.MaxBatch)), err
}

// spend counts the starts of a claim towards the rates of its queue and of its jobs' groups.
func (s *Session) spend(c *pendingClaim) error {
	if c.queue.Rate.N > 0 {
		if err := s.spendOne(c, "", len(c.jobs)); err != nil {
			return err
		}
	}
	if !c.queue.groupRates {
		return nil
	}
	if s.concurrent() {
		s.noteStarts(c)
		return nil
	}
	starts := map[string]int{}
	for _, j := range c.jobs {
		if j.Group != "" {
			starts[j.Group]++
		}
	}
	for key, n := range starts {
		if err := s.spendOne(c, key, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) spendOne(c *pendingClaim, key string, n int) error {
	p, err := s.pace(c.queue, key)
	if err != nil || p.Step == 0 {
		return err
	}
	p.full = p.After(p.full, c.now*1000, int64(n))
	s.writePace(c.queue, key, p, c.now)
	return nil
}

// hold notes how long the rate of a group holds up the waiting jobs that have just got
// places, and, if short is true, those that would get the free places.
func (s *Session) hold(g group, p pace, waiting int, short bool) error {
	if p.Step == 0 {
		return nil
	}
	now := s.now()
	if short {
		if _, err := s.one("blocked", []any{g.queue, g.key}, &short); err != nil {
			return err
		}
	}
	notBefore := p.next(now, waiting)
	var until any
	if short {
		until = p.next(now, waiting+1)
	} else if notBefore > now {
		until = notBefore
	}
	s.later("hold", g.queue, g.key, notBefore, until)
	return nil
}

// freeGroups touches the groups that need no longer wait for their rates.
func (s *Session) freeGroups(q *queue) error {
	if !q.groupRates {
		return nil
	}
	groups, err := s.names("held_groups", q.Name, s.now(), maxJoin)
	for _, g := range groups {
		s.touch(q.Name, g)
	}
	return err
}

// heldFor is how long rates hold up the jobs of a queue; 0 if they do not, as far as is known.
func (s *Session) heldFor(name string) (time.Duration, error) {
	q, err := s.queue(name)
	if err != nil || q == nil || q.Paused || q.Rate.N == 0 && !q.groupRates {
		return 0, err
	}
	now := s.now()
	var at int64
	if q.Rate.N > 0 {
		p, err := s.pace(q, "")
		if err != nil {
			return 0, err
		}
		at = p.next(now, 1)
	}
	if q.groupRates {
		var group sql.NullInt64
		if _, err := s.one("next_held", []any{q.Name}, &group); err != nil {
			return 0, err
		}
		if group.Valid && (at <= now || group.Int64 < at) {
			at = group.Int64
		}
	}
	return max(0, checks.Micros(at-now)), nil
}

// ChangeGroup has f change the settings of one group: see dibs.Database.
func (s *Store) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	read := func() (dibs.Group, error) { return s.Reads().Group(ctx, queue, group) }
	return settings.ChangeGroup(queue, group, f, read, func(before, after dibs.Group) error {
		return s.write(ctx, "change group", func(tx *Session) error {
			return tx.changeGroup(queue, group, func(now dibs.Group) (dibs.Group, error) { return after, settings.OrStale(now == before, nil) })
		})
	})
}

// groupSettings reads the settings of one group.
func (s *Session) groupSettings(queue, group string) (dibs.Group, error) {
	g := dibs.Group{Name: group}
	var per int64
	_, err := s.one("group_own", []any{queue, group}, &g.Limit, &g.Rate.N, &per, &g.Rate.Burst)
	g.Rate.Per = checks.Micros(per)
	return g, err
}

// keepGroup keeps other transactions from setting the limit and the rate of a group until this one ends.
func (s *Session) keepGroup(queue, group string) error {
	return s.needTurn(TurnGroup, queue+" "+group, false)
}

// changeGroup has change make the new settings of a group of those that it has.
func (s *Session) changeGroup(queue, group string, change func(dibs.Group) (dibs.Group, error)) error {
	if err := s.keepGroup(queue, group); err != nil {
		return err
	}
	before, err := s.groupSettings(queue, group)
	if err != nil {
		return err
	}
	after, err := change(before)
	if err != nil {
		return err
	}
	q, err := s.keepQueue(queue)
	if err != nil {
		return err
	}
	s.setGroup(q, before, after)
	delete(s.queues, queue)
	s.woken[queue] = true
	s.touch(queue, group)
	return s.settle()
}

func (s *Session) setGroup(q *queue, before, after dibs.Group) {
	switch {
	case after.Limit == before.Limit:
	case after.Limit == 0:
		s.later("unset_group", q.Name, after.Name)
	default:
		s.later("set_group", q.Name, after.Name, after.Limit)
	}
	switch r := after.Rate; {
	case r == before.Rate:
	case r.N == 0:
		s.later("unset_group_rate", q.Name, after.Name)
	default:
		s.later("use_group_rates", q.Name)
		s.later("set_group_rate", q.Name, after.Name, r.N, micro(r.Per), r.Burst)
	}
}

// noteStarts leaves a row with the starts of a claim, which the next admission counts. The claim cannot count them
// itself, since other transactions may be changing the rates of groups.
func (s *Session) noteStarts(c *pendingClaim) {
	var keys []string
	for _, j := range c.jobs {
		if j.Group != "" {
			keys = append(keys, j.Group)
		}
	}
	if keys != nil {
		s.later("start", c.queue.Name, c.now, jsonText(keys))
	}
}

// foldStarts counts the starts that claims have noted towards the rates of their groups. It runs after the groups'
// places were counted: then a job that starts in between is counted twice, as waiting for its start and as started,
// which is safe. The other way round it would not be counted at all.
func (s *Session) foldStarts(q *queue) error {
	if !q.groupRates {
		return nil
	}
	for {
		ids, starts, err := s.startRows(q.Name)
		if err != nil || len(ids) == 0 {
			return err
		}
		for key, at := range starts {
			if err := s.fold(q, key, at); err != nil {
				return err
			}
		}
		if s.later("drop_starts", jsonIDs(ids)); len(ids) < maxJoin {
			return nil
		}
	}
}

func (s *Session) startRows(queue string) (ids []int64, starts map[string][]int64, err error) {
	starts = map[string][]int64{}
	err = s.each("starts", func(rows *sql.Rows) error {
		var id, at int64
		var text string
		var keys []string
		err := rows.Scan(&id, &at, &text)
		if err == nil {
			err = json.Unmarshal([]byte(text), &keys)
		}
		ids = append(ids, id)
		for _, key := range keys {
			starts[key] = append(starts[key], at)
		}
		return err
	}, queue, maxJoin)
	return ids, starts, err
}

func (s *Session) fold(q *queue, key string, at []int64) error {
	p, err := s.pace(q, key)
	if err != nil || p.Step == 0 {
		return err
	}
	slices.Sort(at)
	for _, t := range at {
		p.full = p.After(p.full, t*1000, 1)
	}
	s.writePace(q, key, p, s.now())
	return nil
}
