package rowstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
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

// paces reads, in the turn of those who may change it, what the rates of groups have saved up; an empty key is the queue's
// own rate.
func (s *Session) paces(q *queue, keys []string) (map[string]pace, error) {
	all, owed, err := s.lookAtPaces(q, keys)
	if err == nil {
		s.writePaces(q, owed)
	}
	return all, err
}

// lookAtPaces is paces for those who have no turn. owed are the rows of those that owe more than they can.
func (s *Session) lookAtPaces(q *queue, keys []string) (all map[string]pace, owed paceRows, err error) {
	all = make(map[string]pace, len(keys))
	if !q.groupRates {
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key != "" || q.Rate.N == 0 })
	}
	if len(keys) == 0 {
		return all, nil, nil
	}
	own := make(map[string]dibs.Rate, len(keys))
	err = s.each("rates", func(rows *sql.Rows) error {
		var key string
		var r dibs.Rate
		var per int64
		var p pace
		err := rows.Scan(&key, &r.N, &per, &r.Burst, &p.full)
		r.Per = checks.Micros(per)
		own[key], all[key] = r, p
		return err
	}, q.Name, jsonText(keys))
	if err != nil {
		return nil, nil, err
	}
	now := s.now()
	for _, key := range keys {
		r, p := q.Rate, all[key]
		if key != "" {
			if r = q.GroupRate; own[key].N > 0 {
				r = own[key]
			}
		}
		if r.N == 0 {
			all[key] = pace{}
			continue
		}
		p.Bucket = bucket.Of(r)
		if full := p.Owed(p.full, now*1000); full < p.full {
			p.full = full
			owed.add(key, p, now)
		}
		all[key] = p
	}
	return all, owed, nil
}

// paceRows are the rows of spend.sql.
type paceRows [][3]any

func (r *paceRows) add(key string, p pace, now int64) {
	*r = append(*r, [3]any{key, p.full, p.next(now, 1)})
}

func (s *Session) writePaces(q *queue, rows paceRows) { laterRows(s, "spend", rows, q.Name) }

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
	paces, err := s.paces(q, []string{""})
	if err != nil {
		return 0, err
	}
	p := paces[""]
	return int(min(p.Free(p.full, s.now()*1000), dibs.MaxBatch)), nil
}

// spend counts the starts of a claim towards the rates of its queue and of its jobs' groups.
func (s *Session) spend(c *pendingClaim) error {
	starts := map[string]int{}
	if c.queue.Rate.N > 0 {
		starts[""] = len(c.jobs)
	}
	switch {
	case !c.queue.groupRates:
	case s.concurrent():
		s.noteStarts(c)
	default:
		for _, j := range c.jobs {
			if j.Group != "" {
				starts[j.Group]++
			}
		}
	}
	paces, err := s.paces(c.queue, slices.Sorted(maps.Keys(starts)))
	if err != nil {
		return err
	}
	var spent paceRows
	for key, p := range paces {
		if p.Step != 0 {
			p.full = p.After(p.full, c.now*1000, int64(starts[key]))
			spent.add(key, p, c.now)
		}
	}
	s.writePaces(c.queue, spent)
	return nil
}

// hold is the row of hold.sql that says how long the rate of a group holds up the waiting jobs that have places, and, if
// the rate fills fewer places than there are, those that would get the free places.
func (g *places) hold(now int64) [3]any {
	waiting := g.started + g.loose + g.admitted
	notBefore := g.pace.next(now, waiting)
	var until any
	if g.short {
		until = g.pace.next(now, waiting+1)
	} else if notBefore > now {
		until = notBefore
	}
	return [3]any{g.key, notBefore, until}
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
		paces, _, err := s.lookAtPaces(q, []string{""})
		if err != nil {
			return 0, err
		}
		at = paces[""].next(now, 1)
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
	ctx = s.nearQueue(ctx, queue)
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
		s.clock.time = 0 // no start may come after it: see bucket.Owed
		if err := s.fold(q, starts); err != nil {
			return err
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

// fold counts starts, by groups and at their times.
func (s *Session) fold(q *queue, starts map[string][]int64) error {
	paces, err := s.paces(q, slices.Sorted(maps.Keys(starts)))
	if err != nil {
		return err
	}
	var spent paceRows
	for key, p := range paces {
		if p.Step == 0 {
			continue
		}
		slices.Sort(starts[key])
		for _, t := range starts[key] {
			p.full = p.After(p.full, t*1000, 1)
		}
		spent.add(key, p, s.now())
	}
	s.writePaces(q, spent)
	return nil
}
