package rowstore

import "database/sql"

// touch records a group whose places settle must give anew before the call ends.
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

// settle gives the places of all touched groups. Every call that adds a job to a group,
// takes one out or changes the limit ends with settle, so that after each transaction the
// first jobs of each group, and no others, hold its places.
func (s *Session) settle() error {
	for g := range s.touched {
		if err := s.settleGroup(g); err != nil {
			return err
		}
	}
	clear(s.touched)
	return nil
}

func (s *Session) settleGroup(g group) error {
	q, err := s.queue(g.queue)
	if err != nil || q == nil {
		return err
	}
	limit, err := s.groupLimit(q, g.key)
	if err != nil {
		return err
	}
	now, err := s.now()
	if err != nil {
		return err
	}
	var running, started, loose int
	var overtaken bool
	if _, err := s.one("group", []any{g.queue, g.key, now, q.Strict}, &running, &started, &loose, &overtaken); err != nil {
		return err
	}
	pace, err := s.pace(q, g.key)
	if err != nil {
		return err
	}
	left := max(0, limit-running)
	places, room := pace.most(left), max(0, left-started)
	free := pace.free(now, room, started)
	displaced := int64(0)
	if overtaken || started > places || loose > free {
		if displaced, err = s.displace(g, now, q.Strict, places); err != nil {
			return err
		}
		loose = 0
	}
	admitted := int64(0)
	if free > loose {
		if admitted, err = s.exec("admit", g.queue, g.key, free-loose); err != nil {
			return err
		}
	}
	if admitted > 0 {
		s.woken[g.queue] = true
	}
	if err := s.hold(g, pace, min(started, places)+loose+int(admitted), free < room && int(admitted) == free-loose); err != nil {
		return err
	}
	s.count(g.queue, func(t *tally) {
		t.waiting += admitted - displaced
		t.blocked -= admitted - displaced
	})
	return nil
}

// displace takes places away. It returns how many jobs are blocked now; the others are not due.
func (s *Session) displace(g group, now int64, strict bool, started int) (blocked int64, err error) {
	err = s.each("displace", func(rows *sql.Rows) error {
		var gate int
		err := rows.Scan(&gate)
		if gate == gateBlocked {
			blocked++
		}
		return err
	}, g.queue, g.key, now, strict, started)
	return blocked, err
}

// joinGroups moves grouped jobs of a queue that have become due to their groups, and
// settles these.
func (s *Session) joinGroups(queue string) error {
	now, err := s.now()
	if err != nil {
		return err
	}
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
	if err := s.each("due", note, queue, now, maxJoin); err != nil {
		return err
	}
	if joined > 0 {
		s.count(queue, func(t *tally) {
			t.waiting -= joined
			t.blocked += joined
		})
	}
	return s.settle()
}

// maxJoin is how many jobs one claim or sweep moves to their groups at most.
const maxJoin = 2_000
