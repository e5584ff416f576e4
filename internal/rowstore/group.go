package rowstore

import (
	"database/sql"
	"maps"
	"slices"

	"github.com/dibs-queue/dibs"
)

// touch records a group, so that settle gives its places anew before the call ends.
func (s *Session) touch(queue, key string) {
	if key != "" {
		s.touched[group{queue, key}] = true
	}
}

// touchAll touches all groups of a queue.
func (s *Session) touchAll(queue string) error {
	groups, err := s.names("groups", queue)
	for _, g := range groups {
		s.touch(queue, g)
	}
	return err
}

// settle gives the places of all touched groups. Every call that adds a job to a group, takes
// one out or changes the limit ends with settle. So after each transaction the first jobs of
// each group hold its places, and no others do. If others write at the same time, settle only
// leaves wake rows, and the next admission gives the places.
func (s *Session) settle() error {
	if err := s.settleFlows(); err != nil {
		return err
	}
	if s.concurrent() {
		s.askForPlaces()
		return nil
	}
	return s.settleTouched(nil)
}

// settleTouched gives the places of all touched groups. After it has counted those of a queue, and before it gives them,
// it calls between, unless that is nil.
func (s *Session) settleTouched(between func(*Session, *queue) error) error {
	touched := make(map[string][]string)
	for g := range s.touched {
		touched[g.queue] = append(touched[g.queue], g.key)
	}
	var again []group
	for name, keys := range touched {
		q, err := s.queue(name)
		if err != nil {
			return err
		}
		if q == nil {
			continue
		}
		slices.Sort(keys)
		busy, err := s.settleGroups(q, keys, between)
		if err != nil {
			return err
		}
		for _, key := range busy {
			again = append(again, group{name, key})
		}
	}
	clear(s.touched)
	if len(again) > 0 {
		s.others.jobsHeld = true
		s.ask(again, s.now()+micro(heldJobs))
	}
	return nil
}

// settleGroups gives the places of groups of one queue. It returns the groups that are busy: another transaction has
// locked a job whose place should change. The job keeps its place, and the places must be given again.
func (s *Session) settleGroups(q *queue, keys []string, between func(*Session, *queue) error) (busy []string, err error) {
	groups, err := s.places(q, keys)
	if err == nil && between != nil {
		err = between(s, q)
	}
	if err != nil {
		return nil, err
	}
	paces, err := s.paces(q, keys)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		g.pace = paces[g.key]
		if err := s.takePlaces(q, g); err != nil {
			return nil, err
		}
	}
	if err := s.admitFirst(q, groups); err != nil {
		return nil, err
	}
	if err := s.lookForBlocked(q, groups); err != nil {
		return nil, err
	}
	var holds [][3]any
	for _, g := range groups {
		switch {
		case g.over: // claims pass over the group until it is settled: whoever has locked the jobs may be rolled back
			s.ask([]group{{q.Name, g.key}}, 0)
			s.others.jobsHeld = true
		case g.busy:
			busy = append(busy, g.key)
		}
		if g.pace.Step != 0 {
			holds = append(holds, g.hold(s.now()))
		}
		s.count(q.Name, func(t *tally) {
			t.waiting += int64(g.admitted - g.out.blocked)
			t.blocked -= int64(g.admitted - g.out.blocked)
		})
	}
	laterRows(s, "hold", holds, q.Name)
	return busy, nil
}

// places says who holds the places of a group, and what becomes of them.
type places struct {
	key       string
	limit     int
	running   int   // places of running jobs
	started   int   // places of jobs that wait for their retry in a strict queue
	loose     int   // places of other waiting jobs, which a better job may take
	overtaken bool  // a blocked job comes before one of the loose ones
	turnless  int   // loose places of jobs without a turn
	lastTurn  int64 // the last turn of waiting jobs with a place
	blocked   bool  // jobs of the group are blocked

	pace     pace
	short    bool // its rate fills fewer places than there are
	out      displaced
	free     int // how many places there are for blocked jobs
	admitted int // how many blocked jobs have got places
	busy     bool
	over     bool // more jobs have places than may have: others have locked them
}

// places counts the places of groups.
func (s *Session) places(q *queue, keys []string) ([]*places, error) {
	limits, err := s.groupLimits(q, keys)
	if err != nil {
		return nil, err
	}
	all := make([]*places, len(keys))
	err = s.each("places", func(rows *sql.Rows) error {
		h := &places{}
		var i int
		err := rows.Scan(&i, &h.running, &h.started, &h.loose, &h.overtaken, &h.turnless, &h.lastTurn, &h.blocked)
		if err == nil {
			h.key, h.limit, all[i] = keys[i], limits[keys[i]], h
		}
		return err
	}, q.Name, jsonText(keys), s.now(), q.Strict)
	return all, err
}

// groupLimits says how many jobs of each group may run at once.
func (s *Session) groupLimits(q *queue, keys []string) (map[string]int, error) {
	limits := make(map[string]int, len(keys))
	var unknown []string
	for _, key := range keys {
		n, known := q.limits[key]
		if limits[key] = n; !known {
			limits[key], unknown = q.GroupLimit, append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return limits, nil
	}
	err := s.each("group_limits", func(rows *sql.Rows) error {
		var key string
		var n int
		err := rows.Scan(&key, &n)
		limits[key] = n
		return err
	}, q.Name, jsonText(unknown))
	if err != nil {
		return nil, err
	}
	if len(q.limits)+len(unknown) > maxCached {
		clear(q.limits)
	}
	for _, key := range unknown {
		q.limits[key] = limits[key]
	}
	return limits, nil
}

// noteLimits notes of claimed jobs how many of their groups may run at once.
func (s *Session) noteLimits(q *queue, jobs []*dibs.RawJob) error {
	var keys []string
	for _, j := range jobs {
		if j.Group != "" {
			keys = append(keys, j.Group)
		}
	}
	slices.Sort(keys)
	limits, err := s.groupLimits(q, slices.Compact(keys))
	for _, j := range jobs {
		j.GroupLimit = limits[j.Group]
	}
	return err
}

// takePlaces takes the places of a group from those jobs that should not have them, and finds out how many are free.
func (s *Session) takePlaces(q *queue, g *places) (err error) {
	now := s.now()
	left := max(0, g.limit-g.running)
	most, room := g.pace.most(left), max(0, left-g.started)
	free := g.pace.free(now, room, g.started)
	if g.overtaken || q.Order == dibs.Fair && g.turnless > 0 || g.started > most || g.loose > free {
		if g.out, err = s.displace(group{q.Name, g.key}, now, q.Strict, most); err != nil {
			return err
		}
		g.busy = g.out.started < g.started-most || g.out.loose < g.loose
		g.started, g.loose = g.started-g.out.started, g.loose-g.out.loose
		g.over = g.started > most || g.loose > free
		g.blocked = g.blocked || g.out.blocked > 0
	}
	g.free, g.short = max(0, free-g.loose), free < room && free >= g.loose
	return nil
}

// lookForBlocked finds out which groups still have blocked jobs, where that matters.
func (s *Session) lookForBlocked(q *queue, groups []*places) error {
	all := make(map[string]*places)
	for _, g := range groups {
		full := g.admitted == g.free
		if g.short = g.short && full && g.pace.Step != 0; g.blocked && (g.short || !full && !g.busy && s.concurrent()) {
			all[g.key] = g
		} else {
			g.short = false
		}
	}
	if len(all) == 0 {
		return nil
	}
	blocked, err := s.names("blocked", q.Name, jsonText(slices.Collect(maps.Keys(all))))
	if err != nil {
		return err
	}
	for _, key := range blocked {
		g := all[key]
		delete(all, key)
		g.busy = g.busy || !g.short
	}
	for _, g := range all {
		g.short = false
	}
	return nil
}

// displaced counts the jobs that have lost their places, by the kind of place. blocked is how many of them are blocked
// now; the others are not due.
type displaced struct {
	started, loose, blocked int
	turns                   [][2]int64 // the turns and admissions that they had in a fair queue
}

// displace takes their places away from jobs.
func (s *Session) displace(g group, now int64, strict bool, started int) (d displaced, err error) {
	err = s.each("displace", func(rows *sql.Rows) error {
		var gate int
		var wasStarted bool
		var turn, admitted sql.NullInt64
		err := rows.Scan(&gate, &wasStarted, &turn, &admitted)
		if turn.Valid {
			d.turns = append(d.turns, [2]int64{turn.Int64, admitted.Int64})
		}
		if gate == gateBlocked {
			d.blocked++
		}
		if wasStarted {
			d.started++
		} else {
			d.loose++
		}
		return err
	}, g.queue, g.key, now, strict, started)
	return d, err
}

// placeGroups settles, before a claim, the groups of a queue that have to be settled because time has passed. If others
// write at the same time, an admission does this instead.
func (s *Session) placeGroups(q *queue) error {
	if s.concurrent() {
		return nil
	}
	if err := s.freeGroups(q); err != nil {
		return err
	}
	return s.joinGroups(q.Name)
}

// joinGroups moves grouped jobs of a queue that have become due to their groups, and settles
// the groups.
func (s *Session) joinGroups(queue string) error {
	if err := s.joinDue(queue); err != nil {
		return err
	}
	return s.settle()
}

// joinDue moves grouped jobs of a queue that have become due to their groups.
func (s *Session) joinDue(queue string) error {
	joined := int64(0)
	note := func(rows *sql.Rows) error {
		var key string
		if err := rows.Scan(&key); err != nil {
			return err
		}
		s.touch(queue, key)
		joined++
		return nil
	}
	if err := s.each("due", note, queue, s.now(), maxJoin); err != nil {
		return err
	}
	if joined > 0 {
		s.count(queue, func(t *tally) {
			t.waiting -= joined
			t.blocked += joined
		})
	}
	return nil
}

// maxJoin is how many jobs one claim or sweep moves to their groups at most.
const maxJoin = 2_000
