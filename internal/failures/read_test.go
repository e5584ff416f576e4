package failures

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// crowd is a database in which jobs of queues have died.
type crowd struct {
	admin.Database
	dead  map[string]int
	calls int
}

func (c *crowd) Failures(_ context.Context, f admin.FailureFilter) (list []admin.Failure, err error) {
	if c.calls++; len(f.Queues)*f.Limit > admin.MaxFailures {
		return nil, fmt.Errorf("%d of each of %d queues", f.Limit, len(f.Queues))
	}
	for _, name := range f.Queues {
		for i := range min(f.Limit, c.dead[name]) {
			list = append(list, admin.Failure{ID: int64(1000 - i), Queue: name, At: time.Unix(int64(-i), 0), Error: "boom"})
		}
	}
	return list, nil
}

func TestNoQueueHidesAnother(t *testing.T) {
	t.Parallel()
	many := map[string]int{"most": 300}
	for i := range 2500 {
		many[fmt.Sprint("q", i)] = 1
	}
	for name, x := range map[string]struct {
		dead       map[string]int
		each, all  int
		want       map[string]int // how many are read, of these queues
		most       int            // how many calls that may take
		incomplete int
	}{
		"none":                           {nil, 100, 200, nil, 0, 0},
		"as many as there are":           {map[string]int{"a": 3, "b": 0, "c": 100}, 100, 200, map[string]int{"a": 3, "b": 0, "c": 100}, 1, 0},
		"as many of each as are wanted":  {map[string]int{"a": 3, "b": 101}, 100, 1000, map[string]int{"a": 3, "b": 100}, 1, 1},
		"what one leaves is another's":   {map[string]int{"a": 10, "b": 500, "c": 500}, 1000, 210, map[string]int{"a": 10, "b": 100, "c": 100}, 1, 2},
		"two large queues":               {map[string]int{"a": 25000, "b": 25000}, admin.MaxFailures, MostRead, map[string]int{"a": 10000, "b": 10000}, 2, 2},
		"one of each of very many":       {many, 1000, 2000, map[string]int{"most": 1, "q7": 1}, 1, 1},
		"few calls for many that differ": {many, 1000, 4000, map[string]int{"most": 300, "q7": 1}, 3, 0},
	} {
		db := &crowd{dead: x.dead}
		var stats []admin.QueueStats
		for queue, n := range x.dead {
			stats = append(stats, admin.QueueStats{Queue: queue, Dead: int64(n)})
		}
		s, err := Newest(t.Context(), db, stats, x.each, x.all)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for queue, n := range x.want {
			if got := s.Queues[queue]; got.Read != n || got.Dead != int64(x.dead[queue]) {
				t.Errorf("%s: of %s %+v, want %d of %d", name, queue, got, n, x.dead[queue])
			}
		}
		if len(s.Partly()) != x.incomplete || db.calls > x.most {
			t.Errorf("%s: %d queues are incomplete, and that took %d calls", name, len(s.Partly()), db.calls)
		}
		for _, g := range s.Groups(Spans{}) {
			if g.Count != g.Read || g.Some() != (g.Count < x.dead[g.Queue]) {
				t.Errorf("%s: a group of %s has %d jobs, %d of %d read", name, g.Queue, g.Count, g.Read, g.Dead)
			}
		}
	}
}
