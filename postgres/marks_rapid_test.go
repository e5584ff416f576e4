package postgres

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// world is a model of a queue on the server, with the marks of one process. A row or a lock
// becomes visible when the transaction that made it commits.
type world struct {
	*rapid.T
	marks marks
	began time.Time
	next  uint64 // the next transaction's number
	open  []uint64
	rows  []*row
}

type row struct {
	lane     int16
	place    mark
	maker    uint64 // the transaction that inserted it
	locker   uint64 // the transaction that is claiming it; 0: none
	claimed  bool
	returned bool // it was put back, so it is in the index of such jobs
}

func (w *world) now() time.Time { return time.Now() }

func (w *world) begin() uint64 {
	w.next++
	w.open = append(w.open, w.next)
	return w.next
}

// end ends a transaction: on commit a claim takes its rows.
func (w *world) end(x uint64, commit bool) {
	w.open = slices.DeleteFunc(w.open, func(o uint64) bool { return o == x })
	w.rows = slices.DeleteFunc(w.rows, func(r *row) bool { return r.maker == x && !commit })
	for _, r := range w.rows {
		if r.locker == x {
			r.locker, r.claimed = 0, commit
		}
	}
}

func (w *world) snapshot() snapshot { return snapshot{xmax: w.next + 1, xips: slices.Clone(w.open)} }

func (w *world) waits(r *row) bool { return !r.claimed && !slices.Contains(w.open, r.maker) }

// claimable are the rows that a claim could take now.
func (w *world) claimable() (list []*row) {
	for _, r := range w.rows {
		if w.waits(r) && r.locker == 0 {
			list = append(list, r)
		}
	}
	return list
}

func (w *world) pick(name string, n int) int { return rapid.IntRange(0, n-1).Draw(w.T, name) }

// firstWaiting returns what marks.sql would.
func (w *world) firstWaiting(from map[int16]mark, late []uint64) map[int16]mark {
	waiting := map[int16]mark{}
	for _, r := range w.rows {
		start, ok := from[r.lane]
		if !ok || r.place.before(start) || !w.waits(r) || r.locker != 0 && slices.Contains(late, r.locker) {
			continue
		}
		if best, ok := waiting[r.lane]; !ok || r.place.before(best) {
			waiting[r.lane] = r.place
		}
	}
	return waiting
}

// look moves the marks, and lets other processes act between its steps.
func (w *world) look() {
	if !w.marks.beginMove() {
		return
	}
	at := w.now()
	w.otherProcess()
	s := w.snapshot()
	w.otherProcess()
	from, late := w.marks.takeSight(at, s, []int16{0, 1})
	w.otherProcess()
	waiting := w.firstWaiting(from, late)
	w.otherProcess()
	w.marks.setPlaces(from, waiting)
	w.marks.endMove(at, nil)
}

// claim expects that no claimable row lies below the marks.
func (w *world) claim() {
	for {
		w.look()
		at, late := w.marks.startPlaces()
		s := w.snapshot()
		if slices.ContainsFunc(late, func(x uint64) bool { return !s.running(x) }) {
			w.marks.reportEnded()
			continue
		}
		w.check()
		w.marks.recordReads(at != nil, 0, 0)
		return
	}
}

// check expects that a claim, unless it is refused, would miss no job.
func (w *world) check() {
	at, late := w.marks.startPlaces()
	s := w.snapshot()
	if slices.ContainsFunc(late, func(x uint64) bool { return !s.running(x) }) {
		return
	}
	for _, r := range w.claimable() {
		if !r.returned && r.place.before(at[r.lane]) {
			w.Fatalf("a job at %v of lane %d waits below the mark %v", r.place.runAt.Sub(w.began), r.lane, at[r.lane].runAt.Sub(w.began))
		}
	}
}

// otherProcess lets another process do something, or nothing.
func (w *world) otherProcess() {
	time.Sleep(time.Duration(w.pick("pause", 2)) * time.Millisecond)
	switch w.pick("other", 9) {
	case 0:
		w.begin()
	case 1: // a transaction enqueues a job
		if len(w.open) > 0 {
			x := w.open[w.pick("enqueuer", len(w.open))]
			w.rows = append(w.rows, &row{lane: int16(w.pick("lane", 2)), place: mark{w.now(), int64(len(w.rows))}, maker: x})
		}
	case 2: // a transaction claims, but does not commit yet
		if free := w.claimable(); len(free) > 0 && len(w.open) > 0 {
			free[w.pick("job", len(free))].locker = w.open[w.pick("claimer", len(w.open))]
		}
	case 3, 4:
		if len(w.open) > 0 {
			w.end(w.open[w.pick("which", len(w.open))], w.pick("commit", 3) > 0)
		}
	case 6: // the process itself claims at the same time
		w.check()
	case 7: // a claim of the process itself that went without marks has read little
		w.marks.eager = false
		w.marks.recordReads(false, 0, 0)
		w.marks.eager = true
	case 5: // a claimed job is put back
		for _, r := range w.rows {
			if r.claimed && w.pick("back", 4) == 0 {
				r.claimed, r.returned = false, true
			}
		}
	}
}

// Whatever transactions begin and end between the steps of a look, no claim misses a job.
func TestMarksPassNothingThatWaits(t *testing.T) {
	seed := time.Now().UnixNano() % int64(time.Hour) // rapid's own seed is the time, which stands still under synctest
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Duration(seed))
		moved := 0
		schedule := func(rt *rapid.T) {
			w := &world{T: rt, marks: marks{eager: true}, began: time.Now()}
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				switch w.pick("step", 5) {
				case 0:
					time.Sleep(passOverAfter + time.Millisecond)
				case 1, 2:
					w.claim()
				default:
					w.otherProcess()
				}
			}
			if len(w.marks.places) > 0 {
				moved++
			}
			w.claim()
		}
		for range 30 { // a fault that needs several events in turn shows in one of a few hundred schedules
			rapid.Check(struct{ testing.TB }{t}, schedule) // hides t's deadline, which is by the real clock
		}
		if moved == 0 {
			t.Error("no marks were ever set")
		}
	})
}
