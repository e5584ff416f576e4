package postgres

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Marks are places in a queue's lanes, one in each, below which no claim has to look.
// Without them a claim reads each lane from its start, past all that is running, and
// past what was finished but is still visible to some long transaction: the longer that
// lasts, the slower. Claims use marks only while they read much without: each counts the
// index entries that it reads, which no other load on the machine can change.
//
// A mark passes a row only if everybody can see that it is claimed, and a time only if
// whatever was enqueued until then is visible. So it stops at the first job that waits,
// and at the newest time of which all transactions that ran then have ended, by the
// server's own list of them (pg_current_snapshot). One that has run for longer is
// passed over: claims are told of it, and find nothing as soon as it has ended, until
// somebody has looked at what it left behind; a claim in a caller's transaction, which
// may be that one, goes without marks meanwhile. A job that is put back at its old place is in an index
// of its own (returned), which claims read besides. Thus the order is as exact with
// marks as without.
//
// All is known from the server when it is used. What it forgot itself, as a failover to
// a server that lacks the last transactions, is found by a claim without marks, which
// comes now and then in any case, to see whether marks are still needed.
type marks struct {
	eager bool // every claim is taken to read much: for tests

	mu      sync.Mutex
	at      map[int16]mark            // by lane; nil: none, claims read everything
	late    map[uint64]map[int16]mark // transactions passed over, with the marks as they were then
	sights  []sight                   // those of whose transactions some are running, oldest first
	settled time.Time                 // whatever was enqueued before is visible; the database's clock
	clock   time.Time                 // the database's, at the last sight

	wanted   bool          // claims without marks read much
	ended    bool          // a transaction of late has ended
	looking  bool          // somebody is just moving the marks
	sighting chan struct{} // until they have seen which transactions run
	claimed  int           // jobs since they were moved
	much     bool          // a claim has read much since
	next     time.Time     // no look before
	probe    time.Time     // from then on the next claim goes without marks
}

// mark is a place in a lane.
type mark struct {
	runAt time.Time
	id    int64
}

func (m mark) before(n mark) bool {
	return m.runAt.Before(n.runAt) || m.runAt.Equal(n.runAt) && m.id < n.id
}

// sight is which transactions ran at a time of the database's clock.
type sight struct {
	at      time.Time
	seen    time.Time // by this machine's clock
	running []uint64
}

const (
	// A claim reads much if it reads more entries of the ready index than fewEntries, and
	// entriesPerJob for each job that it gets.
	fewEntries    = 1000
	entriesPerJob = 10
	lookAfter     = 1000                   // jobs claimed
	lookShare     = 4                      // times as long as it took is the pause after a look
	passAfter     = 250 * time.Millisecond // a transaction that runs for longer is passed over
	mostLate      = 1000                   // transactions passed over at a time; where there are more, marks stay where they are
	mostSights    = 100
	probeEvery    = 5 * time.Second       // at least,
	probeEntry    = 50 * time.Microsecond // and this for each entry that a claim without marks reads: about 50 times as long as that takes
)

// use says where a claim begins, and which transactions must not have ended for that.
func (m *marks) use() (at map[int16]mark, late []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil || time.Now().After(m.probe) {
		m.probe = time.Now().Add(probeEvery)
		return nil, nil
	}
	return m.at, slices.Collect(maps.Keys(m.late))
}

// used notes what a claim has read of the ready index, and how many jobs it got. Time does
// not count: other load on the machine would decide then.
func (m *marks) used(marked bool, entries, got int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	much := m.eager || entries > fewEntries+entriesPerJob*got
	m.claimed += got
	m.much = m.much || much
	switch {
	case marked:
	case much:
		m.wanted = true
		m.probe = time.Now().Add(max(probeEvery, time.Duration(entries)*probeEntry))
	default:
		m.forget()
	}
}

// found says that a transaction of those given by use has ended.
func (m *marks) found() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
}

// forget is called with mu held.
func (m *marks) forget() {
	m.at, m.late, m.sights, m.settled, m.wanted, m.ended = nil, nil, nil, time.Time{}, false, false
}

// mustLook says whether it is time to move the marks; the caller then does so and calls
// looked.
func (m *marks) mustLook() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	due := m.eager || m.wanted && time.Now().After(m.next) && (m.at == nil || m.much || m.claimed >= lookAfter)
	if m.looking || !due && !m.ended {
		return false
	}
	m.looking, m.sighting = true, make(chan struct{})
	return true
}

// seen is closed when whoever is just looking has taken in which transactions run, and
// has brought the marks down if that is needed; nil when nobody looks.
func (m *marks) seen() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sighting
}

// endSight is called with mu held.
func (m *marks) endSight() {
	if m.sighting != nil {
		close(m.sighting)
		m.sighting = nil
	}
}

// looked ends what mustLook began.
func (m *marks) looked(began time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looking, m.ended, m.claimed, m.much = false, false, 0, false
	m.next = time.Now().Add(lookShare * time.Since(began))
	m.endSight()
	if err != nil {
		m.forget()
	}
}

// sighted takes in which transactions run. It returns from where the lanes must be
// looked at, if marks can be set, and the transactions whose locks do not count.
func (m *marks) sighted(at time.Time, s snapshot, lanes []int16) (from map[int16]mark, late []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.endSight()
	if at.Before(m.clock) { // the clock was put back: what comes now may lie below the marks
		m.forget()
		m.wanted = true
	}
	m.clock = at
	from = map[int16]mark{}
	for _, p := range lanes {
		from[p] = m.at[p]
	}
	for x, low := range m.late {
		if s.running(x) {
			continue
		}
		delete(m.late, x)
		lower(from, low)
	}
	if m.at != nil {
		m.at = from // meanwhile claims read more than they may have to
	}
	for _, low := range m.late { // they may have locked what those that ended have left
		lower(low, from)
	}
	now := time.Now()
	for _, old := range m.sights {
		if now.Sub(old.seen) > passAfter {
			m.passOver(old, s, from)
		}
	}
	for i := range m.sights {
		old := &m.sights[i]
		if old.running = m.holding(old.running, s); len(old.running) == 0 {
			m.settled = old.at
		}
	}
	m.sights = slices.DeleteFunc(m.sights, func(old sight) bool { return !old.at.After(m.settled) })
	if len(m.sights) < mostSights { // the oldest are the first to be settled
		m.sights = append(m.sights, sight{at: at, seen: now, running: m.holding(s.xips, s)})
	}
	if m.settled.IsZero() {
		from = nil
	}
	return from, slices.Collect(maps.Keys(m.late))
}

// lower brings places down to those of other, where they are above.
func lower(places, other map[int16]mark) {
	for p, place := range places {
		if other[p].before(place) {
			places[p] = other[p]
		}
	}
}

// holding are those of some transactions that run and are not passed over.
func (m *marks) holding(xids []uint64, s snapshot) []uint64 {
	var left []uint64
	for _, x := range xids {
		if _, late := m.late[x]; !late && s.running(x) {
			left = append(left, x)
		}
	}
	return left
}

// passOver lets marks pass the times of transactions that run for long.
func (m *marks) passOver(old sight, s snapshot, low map[int16]mark) {
	if m.late == nil {
		m.late = map[uint64]map[int16]mark{}
	}
	low = maps.Clone(low)
	for _, x := range m.holding(old.running, s) {
		if len(m.late) < mostLate {
			m.late[x] = low
		}
	}
}

// move sets the marks: in each lane of from to the first job that waits, if there is
// one, but not past what is settled.
func (m *marks) move(from, waiting map[int16]mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from == nil {
		return
	}
	m.at = map[int16]mark{}
	for p, place := range from {
		to := mark{runAt: m.settled}
		if first, ok := waiting[p]; ok && first.before(to) {
			to = first
		}
		if to.before(place) {
			to = place
		}
		m.at[p] = to
	}
}

// look moves the marks, if it is time for that and nobody else is just doing so.
func (s *Store) look(ctx context.Context, q queueRow, kinds []string, m *marks) (err error) {
	if !m.mustLook() {
		return nil
	}
	began := time.Now()
	defer func() { m.looked(began, err) }()
	var now time.Time
	var text string
	// The time is from before the list of transactions: hence two statements.
	err = s.upkeep.run(ctx,
		step{sql: "select pg_catalog.clock_timestamp()", row: func(scan func(...any) error) error { return scan(&now) }},
		step{sql: "select pg_catalog.pg_current_snapshot()::pg_catalog.text", row: func(scan func(...any) error) error { return scan(&text) }},
	)
	if err != nil {
		return err
	}
	running, err := parseSnapshot(text)
	if err != nil {
		return err
	}
	from, late := m.sighted(now, running, s.queues.lanesOf(q.Name).list())
	waiting := map[int16]mark{}
	if len(from) > 0 {
		if waiting, err = s.firstWaiting(ctx, q.Name, kinds, from, late); err != nil {
			return err
		}
	}
	m.move(from, waiting)
	return nil
}

// firstWaiting finds the first job in each lane, from a place on, that is not claimed.
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
	waiting := map[int16]mark{}
	err := s.upkeep.run(ctx, step{
		sql:   s.sql.get("marks"),
		args:  []any{queue, kinds(list), priorities, runAt, id, xmax},
		begin: func() { clear(waiting) },
		row: func(scan func(...any) error) error {
			var p int16
			var first mark
			err := scan(&p, &first.runAt, &first.id)
			waiting[p] = first
			return err
		},
	})
	return waiting, err
}

// arrayText writes an array of the server's.
func arrayText(list []uint64) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = strconv.FormatUint(x, 10)
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// snapshot is what pg_current_snapshot tells.
type snapshot struct {
	xmax uint64   // the first transaction that had not begun
	xips []uint64 // ascending
}

func (s snapshot) running(x uint64) bool {
	_, open := slices.BinarySearch(s.xips, x)
	return open || x >= s.xmax
}

// parseSnapshot reads xmin:xmax:xip,xip…
func parseSnapshot(text string) (s snapshot, err error) {
	_, text, _ = strings.Cut(text, ":")
	xmax, xips, _ := strings.Cut(text, ":")
	if s.xmax, err = strconv.ParseUint(xmax, 10, 64); err != nil || xips == "" {
		return s, err
	}
	for x := range strings.SplitSeq(xips, ",") {
		n, err := strconv.ParseUint(x, 10, 64)
		if err != nil {
			return s, err
		}
		s.xips = append(s.xips, n)
	}
	return s, nil
}
