package postgres

import (
	"context"
	"slices"

	"github.com/dibs-queue/dibs/internal/wakeups"
)

// newQueues are queues into which the functions of the schema have enqueued, and which have no
// settings yet, or do not say that they have groups. The functions leave that to others: their
// transaction may stay open, and whoever enqueues into a queue that it makes would wait for it.
// Sweeps look for such queues, claims from queues without settings, and whoever listens.
type newQueues struct {
	names   []string
	grouped []bool
}

// step finds them, and the named queue if jobs are in it.
func (n *newQueues) step(s *Store, named string) step {
	return step{sql: s.sql.get("new_queues"), args: []any{named}, begin: func() { *n = newQueues{} }, row: func(scan func(...any) error) error {
		var name string
		var grouped bool
		err := scan(&name, &grouped)
		n.names, n.grouped = append(n.names, name), append(n.grouped, grouped)
		return err
	}}
}

// make makes the queues, or marks them as grouped, and wakes the workers of this process.
func (n *newQueues) make(ctx context.Context, s *Store) error {
	if len(n.names) == 0 {
		return nil
	}
	s.queues.forget(n.names) // a queue that this process has known may have been deleted with SQL
	if err := s.addQueues(ctx, n.names, n.grouped); err != nil {
		return err
	}
	if err := s.upkeep.run(ctx, step{sql: s.sql.get("drop_new"), args: []any{n.names}}); err != nil {
		return wrap("add queue", err)
	}
	s.bell.Fruitful(wakeups.All)
	for _, name := range n.names {
		s.bell.Wake(name)
	}
	return nil
}

// addNewQueues finds and makes new queues.
func (s *Store) addNewQueues(ctx context.Context) error {
	var n newQueues
	if err := s.upkeep.run(ctx, n.step(s, wakeups.All)); err != nil {
		return wrap("add queue", err)
	}
	return n.make(ctx, s)
}

// settingsForClaim reads the settings of a queue, which it makes if it is new.
func (s *Store) settingsForClaim(ctx context.Context, name string, c claimer) (q queueRow, ok bool, err error) {
	var n newQueues
	steps := c.clockSteps(s)
	if _, known := s.queues.get(name); !known {
		steps = append(steps, n.step(s, name))
	}
	q, ok, err = s.queueAnd(ctx, name, steps...)
	if err != nil || ok || !slices.Contains(n.names, name) {
		return q, ok, err
	}
	if err := n.make(ctx, s); err != nil {
		return q, false, err
	}
	return s.queue(ctx, name)
}
