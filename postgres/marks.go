package postgres

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/internal/qualify"
)

// marks holds a mark for each lane of a queue: a place below which claims need not look.
// Without marks a claim reads each lane from its start, past all running jobs and past
// finished ones that a long transaction can still see: the longer that lasts, the slower.
// Claims use marks only while they read much without them. Each claim counts the pages of the
// index that it reads: its time depends on the machine's load, and the entries of finished jobs,
// once the server has flagged them, are passed over uncounted, page by page.
//
// A mark may pass a row once every transaction can see that it is claimed, and a time once
// every job that was enqueued until then is visible. So it stops at the first waiting job,
// and at the latest time whose running transactions have all ended by now, by the server's
// list of them (pg_current_snapshot). A transaction that runs for longer is passed over:
// claims name it to the server, and claim nothing once it has ended, until the marks have
// moved down to what it left. A claim in a caller's transaction, which may be the one passed
// over, goes without marks meanwhile. A job that is put back at its old place is in an index
// of its own (returned), which claims read too. So the order is as exact with marks as
// without.
//
// Marks rely on the server's state at the time. A failover may lose its last transactions;
// a claim without marks, which comes every few seconds to see whether marks are still
// needed, finds the jobs that this puts below them.
type marks struct {
	eager bool // treat every claim as one that reads much: for tests

	mu         sync.Mutex
	places     map[int16]mark            // the mark of each lane; nil: no marks, so claims read everything
	passedOver map[uint64]map[int16]mark // transactions that the marks have passed over, with the marks of that time
	sightings  []sighting                // sightings some of whose transactions still run, oldest first
	settledAt  time.Time                 // all jobs that were enqueued before it are visible; by the database's clock
	clockAt    time.Time                 // the database's clock at the last sighting

	needed          bool          // claims without marks read much
	passedOverEnded bool          // a transaction passed over has ended
	moving          bool          // a claim is moving the marks now
	sightDone       chan struct{} // closed once the claim that moves the marks knows which transactions run
	claimedSince    int           // jobs claimed since the marks were moved
	muchRead        bool          // a claim since then has read much
	nextMove        time.Time     // the marks are not moved before this time
	probeAt         time.Time     // the first claim after this time goes without marks
}

// mark is a place in a lane.
type mark struct {
	runAt time.Time
	id    int64
}

func (m mark) before(n mark) bool {
	return m.runAt.Before(n.runAt) || m.runAt.Equal(n.runAt) && m.id < n.id
}

// sighting is the list of transactions that ran at one time.
type sighting struct {
	clock   time.Time
	takenAt time.Time // by this machine's clock
	running []uint64
}

const (
	// A claim reads much if it reads more pages of the ready index than fewPages and one for
	// every jobsPerPage jobs that it gets. A page has room for 130 entries or so.
	fewPages      = 30
	jobsPerPage   = 10
	moveAfter     = 1000                   // the marks are moved after this many claimed jobs
	moveShare     = 4                      // the pause after a move lasts this many times as long as the move
	passOverAfter = 250 * time.Millisecond // transactions that run for longer are passed over
	maxPassedOver = 1000                   // the marks pass over at most this many transactions; if more run for long, the marks do not move
	maxSightings  = 100
	probeEvery    = 5 * time.Second        // shortest time between two claims without marks
	readPage      = 100 * time.Microsecond // about how long reading a page takes, with the rows that its entries name
	probePage     = 500 * readPage         // a claim without marks comes this much later for each page that the last one read
)

// startPlaces returns where a claim begins in each lane. The claim takes nothing unless all transactions in late still
// run.
func (m *marks) startPlaces() (at map[int16]mark, late []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.places == nil || time.Now().After(m.probeAt) {
		m.probeAt = time.Now().Add(probeEvery)
		return nil, nil
	}
	return m.places, slices.Collect(maps.Keys(m.passedOver))
}

// holds returns the places below which no job waits. ok is false if only a claim can tell
// that, as some transactions were passed over and may have ended, or as it is time for a
// claim without marks.
func (m *marks) holds() (at map[int16]mark, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.places, m.places == nil || len(m.passedOver) == 0 && time.Now().Before(m.probeAt)
}

// recordReads records how many pages of the ready index a claim has read, and how many jobs it got.
func (m *marks) recordReads(marked bool, pages, got int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	much := m.eager || pages > fewPages+got/jobsPerPage
	m.claimedSince += got
	m.muchRead = m.muchRead || much
	switch {
	case marked:
	case much:
		m.needed = true
		m.probeAt = time.Now().Add(max(probeEvery, time.Duration(pages)*probePage))
	default:
		m.forget()
	}
}

// reportEnded records that one of the transactions that startPlaces named has ended.
func (m *marks) reportEnded() {
	m.mu.Lock()
	m.passedOverEnded = true
	m.mu.Unlock()
}

// forget is called with mu held.
func (m *marks) forget() {
	m.places, m.passedOver, m.sightings, m.settledAt, m.needed, m.passedOverEnded = nil, nil, nil, time.Time{}, false, false
}

// beginMove reports whether it is time to move the marks; if so, the caller moves them and
// calls endMove.
func (m *marks) beginMove() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	due := m.eager || m.needed && time.Now().After(m.nextMove) && (m.places == nil || m.muchRead || m.claimedSince >= moveAfter)
	if m.moving || !due && !m.passedOverEnded {
		return false
	}
	m.moving, m.sightDone = true, make(chan struct{})
	return true
}

// awaitSight returns a channel that is closed once the claim that is moving the marks knows
// which transactions run, and has lowered the marks where necessary. It is nil if no claim is
// moving them.
func (m *marks) awaitSight() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sightDone
}

// endSight is called with mu held.
func (m *marks) endSight() {
	if m.sightDone != nil {
		close(m.sightDone)
		m.sightDone = nil
	}
}

// endMove ends the move that beginMove began.
func (m *marks) endMove(began time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moving, m.passedOverEnded, m.claimedSince, m.muchRead = false, false, 0, false
	m.nextMove = time.Now().Add(moveShare * time.Since(began))
	m.endSight()
	if err != nil {
		m.forget()
	}
}

// takeSight records which transactions run. It returns where to search each lane for a
// waiting job (nil if no marks can be set), and the transactions whose locks are ignored in
// the search.
func (m *marks) takeSight(at time.Time, s snapshot, lanes []int16) (from map[int16]mark, late []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.endSight()
	if at.Before(m.clockAt) { // somebody has set the clock back: new jobs may lie below the marks
		m.forget()
		m.needed = true
	}
	m.clockAt = at
	from = map[int16]mark{}
	for _, p := range lanes {
		from[p] = m.places[p]
	}
	for x, low := range m.passedOver {
		if s.running(x) {
			continue
		}
		delete(m.passedOver, x)
		lower(from, low)
	}
	if m.places != nil {
		m.places = from // until setPlaces, claims may read more than needed
	}
	for _, low := range m.passedOver { // transactions that are still passed over may hold locks on jobs of those that have ended
		lower(low, from)
	}
	now := time.Now()
	for _, old := range m.sightings {
		if now.Sub(old.takenAt) > passOverAfter {
			m.passOver(old, s, from)
		}
	}
	for i := range m.sightings {
		old := &m.sightings[i]
		if old.running = m.stillRunning(old.running, s); len(old.running) == 0 {
			m.settledAt = old.clock
		}
	}
	m.sightings = slices.DeleteFunc(m.sightings, func(old sighting) bool { return !old.clock.After(m.settledAt) })
	if len(m.sightings) < maxSightings { // when there are too many, the newest is left out: the oldest settle first
		m.sightings = append(m.sightings, sighting{clock: at, takenAt: now, running: m.stillRunning(s.xips, s)})
	}
	if m.settledAt.IsZero() {
		from = nil
	}
	return from, slices.Collect(maps.Keys(m.passedOver))
}

// lower brings each place down to the one in other, if that is lower.
func lower(places, other map[int16]mark) {
	for p, place := range places {
		if other[p].before(place) {
			places[p] = other[p]
		}
	}
}

// stillRunning are those of xids that still run and are not passed over.
func (m *marks) stillRunning(xids []uint64, s snapshot) []uint64 {
	var left []uint64
	for _, x := range xids {
		if _, late := m.passedOver[x]; !late && s.running(x) {
			left = append(left, x)
		}
	}
	return left
}

// passOver lets marks pass the times of transactions that run for long.
func (m *marks) passOver(old sighting, s snapshot, low map[int16]mark) {
	if m.passedOver == nil {
		m.passedOver = map[uint64]map[int16]mark{}
	}
	low = maps.Clone(low)
	for _, x := range m.stillRunning(old.running, s) {
		if len(m.passedOver) < maxPassedOver {
			m.passedOver[x] = low
		}
	}
}

// setPlaces moves the mark of each lane in from up to the lane's first waiting job, if there
// is one, but not past settledAt, and never back.
func (m *marks) setPlaces(from, waiting map[int16]mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from == nil || m.settledAt.IsZero() { // another goroutine has called forget since takeSight
		return
	}
	m.places = map[int16]mark{}
	for p, place := range from {
		to := mark{runAt: m.settledAt}
		if first, ok := waiting[p]; ok && first.before(to) {
			to = first
		}
		if to.before(place) {
			to = place
		}
		m.places[p] = to
	}
}

// moveMarks moves the marks, if it is time and no other claim is doing so.
func (s *Store) moveMarks(ctx context.Context, q queueRow, kinds []string, m *marks) (err error) {
	if !m.beginMove() {
		return nil
	}
	began := time.Now()
	defer func() { m.endMove(began, err) }()
	var now time.Time
	var running snapshot
	var own uint64
	// The clock must be read before the number is drawn, and that before the list of running transactions.
	err = s.upkeep.run(ctx,
		step{sql: "select pg_catalog.clock_timestamp()"}.into(&now),
		step{sql: ownNumber}.into(&own),
		step{sql: currentSnapshot}.into(&running.xmax, &running.xips),
	)
	if err != nil {
		return err
	}
	running.add(own)
	from, late := m.takeSight(now, running, s.queues.lanesOf(q.Name).list())
	waiting := map[int16]mark{}
	if len(from) > 0 {
		if waiting, err = s.firstWaiting(ctx, q.Name, kinds, from, late); err != nil {
			return err
		}
	}
	m.setPlaces(from, waiting)
	return nil
}

// firstWaiting finds the first unclaimed job of each lane, starting at a place.
func (s *Store) firstWaiting(ctx context.Context, queue string, list []string, from map[int16]mark, late []uint64) (map[int16]mark, error) {
	var priorities []int16
	var runAt []time.Time
	var id []int64
	for p, place := range from {
		priorities, runAt, id = append(priorities, p), append(runAt, place.runAt), append(id, place.id)
	}
	xmax := make([]string, len(late))
	for i, x := range late {
		xmax[i] = strconv.FormatUint(uint64(uint32(x)), 10)
	}
	type first struct {
		priority int16
		at       mark
	}
	var found []first
	look := s.step("marks", queue, kinds(list), priorities, runAt, id, xmax)
	err := s.upkeep.run(ctx, collect(look, &found, func(f *first) []any { return []any{&f.priority, &f.at.runAt, &f.at.id} }))
	waiting := map[int16]mark{}
	for _, f := range found {
		waiting[f.priority] = f.at
	}
	return waiting, err
}

var currentSnapshot = qualify.Text("select pg_snapshot_xmax(s.now)::text::bigint, array(select x::text::bigint from pg_snapshot_xip(s.now) x order by 1) from (select pg_current_snapshot() as now) s")

// ownNumber gives the transaction a number: all that have written anything before have smaller ones.
var ownNumber = qualify.Text("select pg_current_xact_id()::text::bigint")

// snapshot is pg_current_snapshot().
type snapshot struct {
	xmax uint64   // the first transaction after the newest one that had ended
	xips []uint64 // the open transactions, ascending
}

// add adds the transactions before own that are newer than all that have ended: they are open, and the server's list
// leaves them out.
func (s *snapshot) add(own uint64) {
	for ; s.xmax < own; s.xmax++ {
		s.xips = append(s.xips, s.xmax)
	}
}

func (s snapshot) running(x uint64) bool {
	_, open := slices.BinarySearch(s.xips, x)
	return open || x >= s.xmax
}
