package postgres

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// A claim scans lanes: one range of the ready index per priority, each only over
// what is due, and the gaps between them, which hold nothing unless a priority is
// used for the first time.
//
// A full claim scans each lane from its start and is exact in its order. When the
// start of the index is full of rows that are running, or finished but not yet
// vacuumed because of a long transaction, full claims become slow. If marks make
// them at least twice as fast, most claims then start at a mark, where this process
// last claimed, and full ones, which find what lies below the marks (late commits,
// released jobs), take a bounded share of the time. Lanes and marks are hints of
// one process: a wrong one costs time or, for a moment, order, never a job.
type lanes struct {
	mu      sync.Mutex
	known   []int16 // ascending
	learned time.Time
	scans   map[string]*scan // by the kinds asked for
}

// scan is what one kind of claim has found so far.
type scan struct {
	marks     map[int16]mark // by lane
	fullCost  time.Duration  // of a full claim, smoothed
	markCost  time.Duration  // of one from the marks, smoothed; 0: none tried
	nextFull  time.Time      // from then on the next claim is full
	nextProbe time.Time      // from then on marks are tried again that did not pay
}

// mark is a place in a lane: this process has claimed up to it. It stays settling
// behind the database's clock, where jobs may still appear out of order because
// their enqueuers commit at different times.
type mark struct {
	runAt time.Time
	id    int64
}

func markAt(j *dibs.RawJob) mark {
	if settled := j.ClaimedAt.Add(-settling); j.RunAt.After(settled) {
		return mark{runAt: settled}
	}
	return mark{runAt: j.RunAt, id: j.ID}
}

func (m mark) before(n mark) bool {
	return m.runAt.Before(n.runAt) || m.runAt.Equal(n.runAt) && m.id < n.id
}

const (
	relearn     = 10 * time.Second // how often the list of lanes is read anew
	maxLanes    = 200              // known ones; what is above is one gap
	maxScans    = 100              // sets of kinds remembered
	settling    = 100 * time.Millisecond
	fullShare   = 20                   // full claims take at most one part in this of the time
	maxFullWait = time.Second          // but come this often
	probeEvery  = 5 * time.Second      // marks that did not pay are tried again
	cheapFull   = 2 * time.Millisecond // up to this cost, and cheapRow for each row, every claim is full
	cheapRow    = 10 * time.Microsecond
)

func newLanes() *lanes { return &lanes{scans: map[string]*scan{}} }

func (l *lanes) add(priority int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, found := slices.BinarySearch(l.known, priority); !found && len(l.known) < maxLanes {
		l.known = slices.Insert(l.known, at, priority)
	}
}

// learn replaces the known lanes by those read from the table.
func (l *lanes) learn(priorities []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known, l.learned = priorities, time.Now()
}

func (l *lanes) mustLearn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.learned) > relearn
}

// begin decides whether the next claim is full.
func (l *lanes) begin(kinds []string, n int) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.scan(kinds)
	now := time.Now()
	pays := s.markCost == 0 || s.fullCost > 2*s.markCost
	if !pays && now.After(s.nextProbe) {
		s.nextProbe = now.Add(probeEvery)
		pays = true
	}
	if pays && s.fullCost > cheapFull+time.Duration(n)*cheapRow && now.Before(s.nextFull) {
		return false
	}
	s.nextFull = now.Add(min(fullShare*s.fullCost, maxFullWait))
	return true
}

// done notes what a claim found and cost.
func (l *lanes) done(kinds []string, full bool, cost time.Duration, jobs []*dibs.RawJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.scan(kinds)
	if full {
		s.fullCost = smooth(s.fullCost, cost)
	} else {
		s.markCost = smooth(s.markCost, cost)
	}
	for _, j := range jobs {
		p := int16(j.Priority)
		if m := markAt(j); s.marks[p].before(m) {
			s.marks[p] = m
		}
		if at, found := slices.BinarySearch(l.known, p); !found && len(l.known) < maxLanes {
			l.known = slices.Insert(l.known, at, p)
		}
	}
}

func smooth(old, cost time.Duration) time.Duration {
	if old == 0 {
		return cost
	}
	return (old*3 + cost) / 4
}

// lower makes the next claims full: this process has put jobs back below its marks.
func (l *lanes) lower() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.scans {
		s.nextFull = time.Time{}
	}
}

// scan is called with mu held.
func (l *lanes) scan(kinds []string) *scan {
	key := ""
	if len(kinds) > 0 {
		sorted := slices.Clone(kinds)
		slices.Sort(sorted)
		key = strings.Join(sorted, "\x00")
	}
	s := l.scans[key]
	if s == nil {
		if len(l.scans) >= maxScans {
			clear(l.scans)
		}
		s = &scan{marks: map[int16]mark{}}
		l.scans[key] = s
	}
	return s
}

// How claim.sql reads a range.
const (
	gap int16 = iota
	oldestFirst
	newestFirst
)

// args are the parameters of claim.sql that describe the ranges to scan.
func (l *lanes) args(kinds []string, order dibs.Order, full bool) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.scan(kinds)
	n := 2*len(l.known) + 1
	how, low, high := make([]int16, 0, n), make([]int16, 0, n), make([]int16, 0, n)
	runAt, id := make([]time.Time, 0, n), make([]int64, 0, n)
	put := func(h int16, from, to int32, start mark) {
		if from <= to {
			how, low, high = append(how, h), append(low, int16(from)), append(high, int16(to))
			runAt, id = append(runAt, start.runAt), append(id, start.id)
		}
	}
	way := oldestFirst
	if order == dibs.LIFO {
		way = newestFirst
	}
	next := int32(0)
	for _, p := range l.known {
		put(gap, next, int32(p)-1, mark{})
		start := mark{}
		if !full {
			start = s.marks[p]
		}
		put(way, int32(p), int32(p), start)
		next = int32(p) + 1
	}
	put(gap, next, dibs.MaxPriority, mark{})
	return []any{how, low, high, runAt, id}
}
