package postgres

// ObserveBatches has f called for each batch of calls that goroutines made at the same time and that goes to the
// server as one: with the call, such as "claim", and the number of calls. f must be quick, and may be called by many
// goroutines at once. Calls for 100 jobs and more go by themselves, and are not reported. nil ends it.
func (s *Store) ObserveBatches(f func(call string, calls int)) {
	if s != nil {
		s.batches.Store(&f)
	}
}

// Figures reports by name what the store knows of itself in this process: its pool of connections, the queues
// whose claims long transactions slow down, and what its settlements have done with jobs that waited for others. Package metrics makes metrics of it.
func (s *Store) Figures(report func(name string, value float64)) {
	if s == nil || s.closed == nil || report == nil {
		return
	}
	pool := s.pool.Stat()
	report("pool_max_connections", float64(pool.MaxConns()))
	report("pool_used_connections", float64(pool.AcquiredConns()))
	report("pool_idle_connections", float64(pool.IdleConns()))
	report("pool_opening_connections", float64(pool.ConstructingConns()))
	report("pool_acquires", float64(pool.AcquireCount()))
	report("pool_waits", float64(pool.EmptyAcquireCount()))
	report("pool_wait_seconds", pool.EmptyAcquireWaitTime().Seconds())
	queues, passedOver := s.queues.marked()
	report("marked_queues", float64(queues))
	report("marks_passed_over_transactions", float64(passedOver))
	report("followers_released", float64(s.sweeper.settler.released.Load()))
	report("followers_cancelled", float64(s.sweeper.settler.cancelled.Load()))
}

// marked counts the queues whose claims use marks, and the transactions that these marks have passed over.
func (c *queueCache) marked() (queues, passedOver int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		l.mu.Lock()
		has := 0
		for _, m := range l.marksByKinds {
			m.mu.Lock()
			if passedOver = max(passedOver, len(m.passedOver)); m.places != nil {
				has = 1
			}
			m.mu.Unlock()
		}
		l.mu.Unlock()
		queues += has
	}
	return queues, passedOver
}
