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
// used for the first time. The list of lanes is a hint of one process: a wrong one costs
// time, never a job.
type lanes struct {
	eager bool // see marks

	mu      sync.Mutex
	known   []int16 // ascending
	learned time.Time
	claimed bool              // since then some jobs were
	scans   map[string]*marks // by the kinds asked for
	away    int               // claims in a row that others were at
}

const (
	relearn  = 10 * time.Second // how often the gaps are searched for new lanes
	maxLanes = 200              // known ones; what is above is one gap
	maxScans = 100              // sets of kinds remembered
)

func newLanes(eager bool) *lanes { return &lanes{eager: eager, scans: map[string]*marks{}} }

// add notes lanes, as long as there are fewer than most.
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

// mustLearn says that it is time to search the gaps. Where claims find nothing, they
// have nothing to learn.
func (l *lanes) mustLearn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.learned) <= relearn || !l.claimed && !l.learned.IsZero() {
		return false
	}
	l.learned, l.claimed = time.Now(), false
	if len(l.known) >= maxLanes {
		l.known = nil // some may not be used any more
	}
	return true
}

// gave says that a claim found something.
func (l *lanes) gave() {
	l.mu.Lock()
	l.claimed = true
	l.mu.Unlock()
}

// turnedAway is how long to wait after a claim that found another at it, which may have a
// transaction that stays open.
func (l *lanes) turnedAway() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := lookAgain << min(l.away, 8)
	l.away++
	return wait
}

func (l *lanes) hadTurn() {
	l.mu.Lock()
	l.away = 0
	l.mu.Unlock()
}

// gaps are the ranges of priorities between the lanes.
func (l *lanes) gaps() (low, high []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := int32(0)
	for i := range len(l.known) + 1 {
		end := int32(dibs.MaxPriority) + 1
		if i < len(l.known) {
			end = int32(l.known[i])
		}
		if next < end {
			low, high = append(low, int16(next)), append(high, int16(end-1))
		}
		next = end + 1
	}
	return low, high
}

// marks are those of the claims for these kinds.
func (l *lanes) marks(kinds []string) *marks {
	key := ""
	if len(kinds) > 0 {
		sorted := slices.Clone(kinds)
		slices.Sort(sorted)
		key = strings.Join(sorted, "\x00")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.scans[key]
	if m == nil {
		if len(l.scans) >= maxScans {
			clear(l.scans)
		}
		m = &marks{eager: l.eager}
		l.scans[key] = m
	}
	return m
}

// forget makes the next claims read everything.
func (l *lanes) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.scans)
}

// How claim.sql reads a range.
const (
	gap int16 = iota
	oldestFirst
	newestFirst
	returned // only jobs that were put back, up to the mark
)

// args are the parameters of claim.sql that describe the ranges to scan.
func (l *lanes) args(order dibs.Order, marks map[int16]mark) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 3*len(l.known) + 1
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
	return []any{how, low, high, runAt, id}
}
