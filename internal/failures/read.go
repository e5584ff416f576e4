package failures

import (
	"cmp"
	"context"
	"slices"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// MostRead is how many dead jobs are read to group those of several queues.
const MostRead = 2 * admin.MaxFailures

// Sample are the jobs of some queues that died last, and how many jobs of each queue these are.
type Sample struct {
	List   []admin.Failure // last died first
	Queues map[string]Extent
}

// Extent is how many dead jobs of a queue were read, and how many there are.
type Extent struct {
	Read int
	Dead int64
}

// Newest reads the jobs that died last: each of each queue that has any, and fewer where these would be more than
// all together. So no queue hides another.
func Newest(ctx context.Context, db admin.Database, stats []admin.QueueStats, each, all int) (Sample, error) {
	stats = slices.DeleteFunc(slices.Clone(stats), func(q admin.QueueStats) bool { return q.Dead <= 0 })
	slices.SortStableFunc(stats, func(a, b admin.QueueStats) int { return cmp.Compare(a.Dead, b.Dead) })
	most := share(stats, each, all)
	s := Sample{Queues: map[string]Extent{}}
	var f admin.FailureFilter
	for _, q := range stats {
		limit := int(min(q.Dead, int64(most)))
		if len(f.Queues) > 0 && (len(f.Queues)+1)*limit > admin.MaxFailures {
			if err := s.read(ctx, db, f); err != nil {
				return s, err
			}
			f.Queues = nil
		}
		f.Queues, f.Limit = append(f.Queues, q.Queue), limit
		s.Queues[q.Queue] = Extent{Dead: q.Dead}
	}
	if len(f.Queues) == 0 {
		return s, nil
	}
	err := s.read(ctx, db, f)
	checks.LastDiedFirst(s.List)
	return s, err
}

// share is how many jobs to read of each queue: at most each, and so many that all is enough for all queues. What
// queues with few dead jobs leave is shared by the others. The queue with the fewest comes first.
func share(stats []admin.QueueStats, each, all int) int {
	for i, q := range stats {
		one := all / (len(stats) - i)
		if q.Dead > int64(one) {
			return max(1, min(one, each))
		}
		all -= int(q.Dead)
	}
	return each
}

func (s *Sample) read(ctx context.Context, db admin.Database, f admin.FailureFilter) error {
	list, err := db.Failures(ctx, f)
	if err != nil {
		return err
	}
	s.List = append(s.List, list...)
	for _, one := range list {
		e := s.Queues[one.Queue]
		e.Read++
		s.Queues[one.Queue] = e
	}
	for _, name := range f.Queues { // others may have put jobs back since these were counted
		if e := s.Queues[name]; e.Read < f.Limit {
			s.Queues[name] = Extent{e.Read, int64(e.Read)}
		}
	}
	return nil
}

// Groups groups the jobs of the sample: see Of.
func (s Sample) Groups(spans Spans) []*Group {
	groups := Of(s.List, spans)
	for _, g := range groups {
		r := s.Queues[g.Queue]
		g.Read, g.Dead = r.Read, r.Dead
	}
	return groups
}

// Partly lists the queues of which only some dead jobs were read.
func (s Sample) Partly() []string {
	var names []string
	for name, r := range s.Queues {
		if int64(r.Read) < r.Dead {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
