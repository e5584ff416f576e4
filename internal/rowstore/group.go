package rowstore

import (
	"database/sql"

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

// settleTouched gives the places of all touched groups. After it has counted them, and before it gives them, it calls
// between with each queue, unless between is nil.
func (s *Session) settleTouched(between func(*Session, *queue) error) error {
	if len(s.touched) == 0 {
		return nil
	}
	counted := make(map[group]places, len(s.touched))
	queues := map[string]*queue{}
	for g := range s.touched {
		q, err := s.queue(g.queue)
		if err != nil {
			return err
		}
		if q == nil {
			continue
		}
		if counted[g], err = s.places(q, g.key); err != nil {
			return err
		}
		queues[g.queue] = q
	}
	if between != nil {
		for _, q := range queues {
			if err := between(s, q); err != nil {
				return err
			}
		}
	}
	var again []group
	rounds := map[string]*round{}
	for name, q := range queues {
		if q.Order == dibs.Fair {
			rounds[name] = &round{}
		}
	}
	for g, held := range counted {
		busy, err := s.give(queues[g.queue], g, held, rounds[g.queue])
		if err != nil {
			return err
		}
		if busy {
			again = append(again, g)
		}
	}
	clear(s.touched)
	if len(again) > 0 {
		s.jobsHeld = true
		s.ask(again, s.now()+micro(heldJobs))
	}
	return nil
}

// places says who holds the places of a group.
type places struct {
	limit     int
	running   int  // places of running jobs
	started   int  // places of jobs that wait for their retry in a strict queue
	loose     int  // places of other waiting jobs, which a better job may take
	overtaken bool // a blocked job comes before one of the loose ones
	turnless  int  // loose places of jobs without a turn
}

func (s *Session) places(q *queue, key string) (h places, err error) {
	if h.limit, err = s.groupLimit(q, key); err == nil {
		_, err = s.one("group", []any{q.Name, key, s.now(), q.Strict}, &h.running, &h.started, &h.loose, &h.overtaken, &h.turnless)
	}
	return h, err
}

// give gives the places of a group as they were counted; r is the round of a fair queue, or nil. busy is true if another transaction has locked a job
// whose place should change: the job keeps its place, and the places must be given again.
func (s *Session) give(q *queue, g group, h places, r *round) (busy bool, err error) {
	now := s.now()
	pace, err := s.pace(q, g.key)
	if err != nil {
		return false, err
	}
	left := max(0, h.limit-h.running)
	most, room := pace.most(left), max(0, left-h.started)
	free := pace.free(now, room, h.started)
	var out displaced
	if h.overtaken || r != nil && h.turnless > 0 || h.started > most || h.loose > free {
		if out, err = s.displace(g, now, q.Strict, most); err != nil {
			return false, err
		}
		busy = out.started < h.started-most || out.loose < h.loose
		h.started, h.loose = h.started-out.started, h.loose-out.loose
	}
	admitted := 0
	if free > h.loose {
		n, err := s.admitFirst(g, free-h.loose, r, out.turns)
		if err != nil {
			return false, err
		}
		admitted = int(n)
	}
	if admitted > 0 {
		s.woken[g.queue] = true
	}
	all := admitted == free-h.loose
	if !all && s.concurrent() && !busy {
		_, err = s.one("blocked", []any{g.queue, g.key}, &busy)
	}
	if err == nil {
		err = s.hold(g, pace, h.started+h.loose+admitted, free < room && all)
	}
	s.count(g.queue, func(t *tally) {
		t.waiting += int64(admitted - out.blocked)
		t.blocked -= int64(admitted - out.blocked)
	})
	return busy, err
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
