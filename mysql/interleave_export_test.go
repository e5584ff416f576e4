package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Through has connections of the store go through another driver.
func (o Options) Through(f func(sqldriver.Connector) sqldriver.Connector) Options {
	o.through = f
	return o
}

// Part is one statement of a file, as the driver gets it.
type Part struct {
	Name, Text string
	Args       int
}

// Parts are the statements of the store by what the driver gets: all parts of a file at once, or one.
func (s *Store) Parts() map[string][]Part {
	all := map[string][]Part{}
	for _, name := range slices.Sorted(maps.Keys(s.sql.Statements)) {
		text := s.sql.Statements[name]
		parsed := parse(text)
		var parts []Part
		for i, p := range parsed.parts {
			part := Part{name, p.text, len(p.order)}
			if i > 0 {
				part.Name = fmt.Sprintf("%s, part %d", name, i+1)
			}
			parts = append(parts, part)
			if _, ok := all[p.text]; !ok {
				all[p.text] = []Part{part}
			}
		}
		all[parsed.whole.text] = parts
	}
	return all
}

// Rewrite changes the text of statements.
func (s *Store) Rewrite(change func(name, text string) string) {
	for name, text := range s.sql.Statements {
		s.sql.Statements[name] = change(name, text)
	}
}

// SweepNever makes claims sweep never: when a sweep is due depends on how fast the machine is.
func (s *Store) SweepNever() {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.upkeep.memory.Upkeep = rowstore.Upkeep{LastSweep: time.Now().Add(24 * time.Hour)}
}

// Stepwise prepares a store whose statements stop. It looks at the jobs that come after others which have ended only if may
// says so, and makes calls again however long they stop.
func (s *Store) Stepwise(may func() bool) {
	s.sql.Concurrent.Patience = time.Hour
	turn := s.sql.Concurrent.Turn
	s.sql.Concurrent.Turn = func(tx *rowstore.Session, t rowstore.Turn, queue string, shared bool) (bool, error) {
		if t == rowstore.TurnFlows && !may() {
			return false, nil
		}
		return turn(tx, t, queue, shared)
	}
}

// Swept is a sweep by a store that does not sweep by itself.
func (s *Store) Swept(ctx context.Context) (dibs.Swept, error) {
	swept, err := s.Sweep(ctx)
	s.SweepNever()
	return swept, err
}
