package postgres

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
)

// lanes are the priorities that a queue's claims know to be in use. A claim scans one range of
// the ready index for each, only over due jobs, and the gaps between them, which are empty
// unless a priority is used for the first time. Each process has its own list: a wrong one
// costs time, never a job.
type lanes struct {
	eager bool // marks of these lanes are always used: for tests

	mu           sync.Mutex
	known        []int16 // the priorities, ascending
	learned      time.Time
	marksByKinds map[string]*marks // marks for each set of kinds asked for
	ratesLooked  time.Time         // when drop_rates.sql last ran; sweeper.due guards it
	ratesAfter   string            // the last group that drop_rates.sql looked at
	// reachedDropped is when drop_reached.sql last ran; sweeper.due guards it.
	reachedDropped time.Time

	claimedSinceLearned atomic.Bool  // a claim has found jobs since the lanes were learned
	turnsMissed         atomic.Int32 // claims in a row that found another's turn
}

const (
	relearn  = 10 * time.Second // how often the gaps are searched for new lanes
	maxLanes = 200              // known lanes; the priorities above them are one gap
	maxScans = 100              // sets of kinds that have marks
)

func newLanes(eager bool) *lanes { return &lanes{eager: eager, marksByKinds: map[string]*marks{}} }

// add adds lanes while there are fewer than most.
func (l *lanes) add(most int, priorities ...int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range priorities {
		if at, found := slices.BinarySearch(l.known, p); !found && len(l.known) < most {
			l.known = slices.Insert(l.known, at, p)
		}
	}
}

func (l *lanes) list() []int16 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.known)
}

// mustLearn reports whether it is time to search the gaps. While claims find no jobs, it never is.
func (l *lanes) mustLearn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.learned) <= relearn || !l.claimedSinceLearned.Load() && !l.learned.IsZero() {
		return false
	}
	l.learned = time.Now()
	l.claimedSinceLearned.Store(false)
	if len(l.known) >= maxLanes {
		l.known = nil // learn all lanes anew, as some may no longer be in use
	}
	return true
}

// learnLanes searches the gaps of a queue for lanes.
func (s *Store) learnLanes(ctx context.Context, q queueRow, l *lanes) error {
	most := maxLanes
	if q.Order == dibs.LIFO {
		most = dibs.MaxPriority + 1 // LIFO needs to know every priority, since claims read gaps oldest first
	}
	var r laneRanges
	l.ranges(dibs.FIFO, nil, &r)
	var low, high, priorities []int16
	for i, access := range r.access {
		if access == gap {
			low, high = append(low, r.low[i]), append(high, r.high[i])
		}
	}
	err := s.upkeep.run(ctx, column(s.step("lanes", q.Name, low, high, most), &priorities))
	if err == nil {
		l.add(most, priorities...)
	}
	return err
}

// waitForTurn is how long to wait after a claim that did not get the turn. It grows, as the
// transaction that has the turn may stay open.
func (l *lanes) waitForTurn() time.Duration { return reclaimPause << min(l.turnsMissed.Add(1)-1, 8) }

// marks returns the marks of claims for these kinds.
func (l *lanes) marks(kinds []string) *marks {
	key := ""
	if len(kinds) > 0 {
		sorted := slices.Clone(kinds)
		slices.Sort(sorted)
		key = strings.Join(sorted, "\x00")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.marksByKinds[key]
	if m == nil {
		if len(l.marksByKinds) >= maxScans {
			clear(l.marksByKinds)
		}
		m = &marks{eager: l.eager}
		l.marksByKinds[key] = m
	}
	return m
}

// forget drops all marks, so that the next claims read everything.
func (l *lanes) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.marksByKinds)
}

// lowest is the lowest priority of a range. Only SQL by hand makes jobs with a negative one.
const lowest int32 = math.MinInt16

// These say how claim.sql reads a range of priorities.
const (
	gap int16 = iota
	oldestFirst
	newestFirst
	returned // only jobs that were put back to a place below the mark
	inTurns  // jobs with turns, in a fair queue
)

// laneRanges are ranges of priorities to scan, as parameters of claim.sql and due_queues.sql.
type laneRanges struct {
	access, low, high []int16
	runAt             []time.Time
	id                []int64
}

func (r *laneRanges) args() []any { return []any{r.access, r.low, r.high, r.runAt, r.id} }

// args are the parameters of claim.sql that describe the ranges to scan.
func (l *lanes) args(order dibs.Order, marks map[int16]mark) []any {
	var r laneRanges
	l.ranges(order, marks, &r)
	return r.args()
}

// ranges adds the ranges that a claim scans.
func (l *lanes) ranges(order dibs.Order, marks map[int16]mark, r *laneRanges) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 3*len(l.known) + 2
	r.access, r.low, r.high = slices.Grow(r.access, n), slices.Grow(r.low, n), slices.Grow(r.high, n)
	r.runAt, r.id = slices.Grow(r.runAt, n), slices.Grow(r.id, n)
	put := func(access int16, from, to int32, start mark) {
		if from <= to {
			r.access, r.low, r.high = append(r.access, access), append(r.low, int16(from)), append(r.high, int16(to))
			r.runAt, r.id = append(r.runAt, start.runAt), append(r.id, start.id)
		}
	}
	way := oldestFirst
	if order == dibs.LIFO {
		way = newestFirst
	}
	if order == dibs.Fair {
		put(inTurns, lowest, dibs.MaxPriority, mark{})
	}
	next := lowest
	for _, p := range l.known {
		lane := int32(p)
		put(gap, next, lane-1, mark{})
		start, marked := marks[p]
		if marked {
			put(returned, lane, lane, start)
		}
		put(way, lane, lane, start)
		next = lane + 1
	}
	put(gap, next, dibs.MaxPriority, mark{})
}
