package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
)

// listen makes each wakeup of the queue serve the line.
func (l *line) listen() {
	wake, stop := l.hub.db.Wakeups(l.queue)
	over := make(chan struct{})
	l.stop = sync.OnceFunc(func() {
		stop()
		close(over)
	})
	l.hub.run(func() {
		for {
			select {
			case <-wake:
				l.wake()
			case <-over:
				return
			}
		}
	})
}

// wake serves the line after a wakeup, as there may be jobs.
func (l *line) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginRound()
	l.serve()
}

// beginRound begins a round, in which there may be jobs of all kinds. If clients want many different sets of
// kinds, a claim for each would cost too much, so the hub first asks of which kinds the due jobs are.
func (l *line) beginRound() {
	l.round++
	delete(l.nothing, allKinds)
	switch {
	case len(l.nothing) <= fewKinds:
		clear(l.nothing)
	case l.asking:
		l.wokenSince = true
	default:
		l.asking = true
		l.hub.run(l.ask)
	}
}

// ask finds out for which clients there are jobs, and serves them. If a wakeup came meanwhile, it asks again.
// After an error it stops: the hub looks for due jobs again within a second.
func (l *line) ask() {
	for more := true; more; {
		kinds, err := l.dueKinds()
		if err == nil {
			due := make(map[string]bool, len(kinds))
			for _, kind := range kinds {
				due[kind] = true
			}
			rest := l.found(func(some kindSet) bool {
				return slices.ContainsFunc(some.list(), func(kind string) bool { return due[kind] })
			})
			err = l.search(rest)
		}
		more = l.askAgain(err)
	}
}

func (l *line) dueKinds() ([]string, error) {
	ctx, cancel := context.WithTimeout(l.hub.closing, callTimeout)
	defer cancel()
	return l.hub.db.DueKinds(ctx, l.queue)
}

// askAgain ends the asking, and reports whether to ask again.
func (l *line) askAgain(err error) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again = l.wokenSince && err == nil
	l.asking, l.wokenSince = again, false
	return again
}

// found serves the clients for which there may be jobs. It returns the other sets of kinds for which clients
// wait, those first whose last claim is longest ago.
func (l *line) found(jobs func(kindSet) bool) (others []kindSet) {
	sets := l.wanted()
	for set := range sets { // without holding the lock, as there may be many sets of many kinds
		sets[set] = jobs(set)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := map[kindSet]int{}
	for _, w := range l.waiting {
		round, empty := l.nothing[w.kinds]
		if may, asked := sets[w.kinds]; empty && !(asked && may) {
			wanted[w.kinds] = round
		}
	}
	l.nothing = wanted
	l.serve()
	return slices.SortedFunc(maps.Keys(wanted), func(a, b kindSet) int {
		return cmp.Or(cmp.Compare(wanted[a], wanted[b]), cmp.Compare(a.names.Value(), b.names.Value()))
	})
}

// wanted returns the sets of kinds for which clients wait and the last claim has found nothing.
func (l *line) wanted() map[kindSet]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sets := map[kindSet]bool{}
	for _, w := range l.waiting {
		if _, empty := l.nothing[w.kinds]; empty {
			sets[w.kinds] = false
		}
	}
	return sets
}

// search looks for jobs that DueKinds has not seen, as that reads only the first jobs of the queue. It asks
// whether there is a job for any of the sets; if there is, it asks the same for each half of them, and so on.
// Clients of the few sets that are left get a claim. If it runs out of calls, some of the clients that are
// left get one, too.
func (l *line) search(sets []kindSet) error {
	for calls, parts := 0, [][]kindSet{sets}; len(parts) > 0; calls++ {
		if calls == maxSearch {
			rest := slices.Concat(parts...)
			l.foundSets(rest[:min(len(rest), 4*fewKinds)])
			return nil
		}
		some := parts[0]
		parts = parts[1:]
		due, err := l.dueOf(some)
		switch half := len(some) / 2; {
		case err != nil:
			return err
		case !due: // there is no job for either half
		case len(some) <= fewKinds:
			l.foundSets(some)
		default:
			parts = append(parts, some[:half], some[half:])
		}
	}
	return nil
}

// dueOf reports whether there may be a due job for one of the sets of kinds.
func (l *line) dueOf(sets []kindSet) (bool, error) {
	ctx, cancel := context.WithTimeout(l.hub.closing, callTimeout)
	defer cancel()
	var all []string
	for _, set := range sets {
		all = append(all, set.list()...)
	}
	slices.Sort(all)
	for kinds := range slices.Chunk(slices.Compact(all), maxDue) {
		if due, err := l.hub.db.Due(ctx, []string{l.queue}, kinds); err != nil || len(due) > 0 {
			return len(due) > 0, err
		}
	}
	return false, nil
}

// foundSets serves the clients of some sets of kinds.
func (l *line) foundSets(sets []kindSet) {
	l.found(func(some kindSet) bool { return slices.Contains(sets, some) })
}

// calm spares new clients that will wait long enough their first claim, if it is known that
// there are no jobs for them.
func (l *line) calm(clients ...*waiter) {
	if l.failed || len(l.nothing) == 0 {
		return
	}
	for _, w := range clients {
		if w.fresh && w.patient && !w.busy && l.empty(w) {
			w.fresh = false
		}
	}
}

// empty reports whether it is known that there are no jobs for a client.
func (l *line) empty(w *waiter) bool { return l.nothing[allKinds] > 0 || l.nothing[w.kinds] > 0 }
