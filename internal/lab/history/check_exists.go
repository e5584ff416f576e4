package history

// enqueues judges promise 1 for each enqueue call: a committed job exists under its id, a
// job that was rolled back does not exist, and a batch without an answer exists as a
// whole or not at all.
func (j *judge) enqueues() {
	j.seen = j.seenKeys()
	ids := make(map[int64]place)
	for i, c := range j.Calls {
		if c.Verb != Enqueue {
			continue
		}
		u := j.unit(int32(i))
		for at := range c.New {
			n := &c.New[at]
			if n.Existing {
				continue
			}
			j.checked(j.promiseOf(int32(i)), 1)
			p := place{int32(i), int32(at)}
			j.enqueued(p, n, ids)
			where, found := j.seen[n.Key]
			if found && where.call >= 0 && c.Tx != "" && j.Calls[where.call].Tx == c.Tx {
				found = false // only the transaction itself saw the job
			}
			if u == nil || found {
				u.note(found, p.call)
			} else if n.UniqueKey != "" {
				key := [2]string{n.Queue, n.UniqueKey}
				j.absent[key] = append(j.absent[key], &absence{place: p, unit: u})
			} else if !j.mayDelete(n.Queue) {
				u.note(false, p.call)
			}
		}
	}
}

// enqueued judges one new job of an enqueue call.
func (j *judge) enqueued(p place, n *New, ids map[int64]place) {
	s := &j.spans[p.call]
	where, found := j.seen[n.Key]
	if n.By != 0 {
		j.added(p, n, where, found)
		return
	}
	switch s.fate {
	case Nothing:
		if found && (where.call < 0 || j.Calls[p.call].Tx == "" || j.Calls[where.call].Tx != j.Calls[p.call].Tx) {
			j.accuse(1, where.id, []int32{p.call, where.call}, "job %d (key %q) exists, though the transaction that enqueued it failed or was rolled back", where.id, n.Key)
		}
	case Done:
		if other, ok := ids[n.ID]; ok {
			j.accuse(1, n.ID, []int32{other.call, p.call}, "two new jobs were given the id %d", n.ID)
		}
		ids[n.ID] = p
		final := j.final[n.ID]
		switch {
		case found && where.id != n.ID:
			j.accuse(1, n.ID, []int32{p.call, where.call}, "the job with key %q was enqueued with the id %d and has the id %d", n.Key, n.ID, where.id)
		case final == nil && !j.mayDelete(n.Queue):
			j.accuse(1, n.ID, []int32{p.call}, "job %d (key %q) is gone, though its enqueueing was acknowledged", n.ID, n.Key)
		case final != nil && Key(final.Payload) != n.Key:
			j.accuse(1, n.ID, []int32{p.call}, "job %d was enqueued with the key %q and has the payload %s", n.ID, n.Key, clip(final.Payload))
		}
	}
}

// added judges one job that an outcome adds.
func (j *judge) added(p place, n *New, where sighting, found bool) {
	switch s := &j.spans[p.call]; {
	case j.news[n.Key] != p: // the outcome was sent again, and another call was accepted or had no answer
	case s.fate == Nothing && found && (where.call < 0 || j.Calls[p.call].Tx == "" || j.Calls[where.call].Tx != j.Calls[p.call].Tx):
		j.accuse(13, where.id, []int32{p.call, where.call}, "job %d (key %q) exists, though the outcome of job %d that adds it was refused or rolled back", where.id, n.Key, n.By)
	case s.fate == Done && !found && n.UniqueKey == "" && !j.mayDelete(n.Queue):
		j.accuse(13, n.By, []int32{p.call}, "the job with the key %q does not exist, though the outcome of job %d that adds it was accepted", n.Key, n.By)
	}
}

// sighting is the job with a key, and the claim that showed it first; call is -1 if the
// database shows it at the end.
type sighting struct {
	id   int64
	call int32
}

// seenKeys finds every key that was claimed or is in the database at the end. It accuses
// two jobs that have the same key.
func (j *judge) seenKeys() map[string]sighting {
	seen := make(map[string]sighting, len(j.Final))
	see := func(key string, s sighting) {
		if old, ok := seen[key]; !ok {
			seen[key] = s
		} else if old.id != s.id {
			j.accuse(1, s.id, []int32{old.call, s.call}, "the jobs %d and %d have the same key %q: one enqueued job became two", old.id, s.id, key)
		}
	}
	for _, f := range j.Final {
		see(Key(f.Payload), sighting{f.ID, -1})
	}
	for i, c := range j.Calls {
		// A claim that was rolled back may show jobs that were rolled back with it.
		if j.spans[i].fate == Nothing || (c.Verb != Claim && c.Verb != Resume) {
			continue
		}
		for at := range c.Jobs {
			see(c.Jobs[at].Key, sighting{c.Jobs[at].ID, int32(i)})
		}
	}
	return seen
}

// mayDelete reports whether finished jobs of the queue may have been deleted.
func (j *judge) mayDelete(queue string) bool { return j.lane(queue).mayDelete || j.pruned }

// existence judges promise 1 for one job: a client enqueued it, and no claim returned it
// earlier.
func (j *judge) existence(l *life) {
	if l.final == nil && len(l.attempts) == 0 {
		return
	}
	j.checked(1, 1)
	if l.born.call < 0 {
		calls := []int32{-1}
		if len(l.attempts) > 0 {
			calls[0] = l.attempts[0].call
		}
		j.accuse(1, l.id, calls, "job %d (key %q) exists, and nobody enqueued it", l.id, l.key)
		return
	}
	born := &j.spans[l.born.call]
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Key != l.key {
			j.accuse(1, l.id, []int32{l.born.call, a.call}, "job %d was enqueued with the key %q and claimed with the key %q", l.id, l.key, a.Key)
		}
		own := j.Calls[a.call].Tx
		if a.hi < born.seenLo && (own == "" || own != j.Calls[l.born.call].Tx) {
			j.accuse(1, l.id, []int32{l.born.call, a.call}, "job %d was claimed before the commit of its enqueueing began", l.id)
		}
	}
}

func clip(payload []byte) string {
	if len(payload) > 80 {
		return string(payload[:80]) + "…"
	}
	return string(payload)
}
