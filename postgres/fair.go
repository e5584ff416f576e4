package postgres

import "github.com/dibs-queue/dibs"

// textFor returns the texts of statements for a queue with groups.
func (s *Store) textFor(q queueRow) func(name string) string {
	switch {
	case q.Order == dibs.Fair && q.groupRates:
		return s.sql.fairRated
	case q.Order == dibs.Fair:
		return s.sql.fair
	case q.groupRates:
		return s.sql.rated
	}
	return s.sql.get
}

// dropReached deletes, once a second, the turns that a fair queue has left behind.
func (s *Store) dropReached(q queueRow) []step {
	if q.Order != dibs.Fair || !s.sweeper.due(&s.queues.lanesOf(q.Name).reachedDropped, dropRatesEvery) {
		return nil
	}
	return []step{s.step("drop_reached", q.Name)}
}
