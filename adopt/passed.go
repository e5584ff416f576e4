package adopt

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// A table can refuse to have one of its rows changed: by a constraint, a trigger, a column that cannot hold the value.
// Such a row must not stop the others. When a claim is refused, its rows are tried in a transaction that is rolled back,
// all at once, then in halves, and those that are refused alone are passed over from then on. A sweep does the same,
// without the trial. A row that was passed over is tried again later, after pauses that grow.

const (
	firstPass = 10 * time.Second // how long a row is first passed over; each time it is refused again, twice as long
	lastPass  = 10 * time.Minute
	shortPass = time.Second // each time if another row has the same values in a unique index: it may end soon
	maxPassed = 10_000      // keys of passed rows are parameters of each claim
	maxTrials = 20          // trials for one claim, each of which finds at least one row
	// hiddenPause is how long after a trial that found nothing the next is made because rows may be hidden.
	hiddenPause = time.Second
)

// errHidden is the refusal of a row that a trigger or rule silently leaves as it is.
var errHidden = errors.New("the database reports no error, but the row does not change: a trigger or a rule keeps it as it is")

// passed holds the rows that are passed over.
type passed struct {
	mu        sync.Mutex
	rows      map[string]*passedRow // their keys are those of the rows
	since     time.Time             // since when rows are passed over and none is claimed; zero: claims get rows
	nextTrial time.Time             // when rows that may be hidden are looked for again
	refusing  atomic.Bool           // a claim in a caller's transaction was refused
	log       *slog.Logger
}

type passedRow struct {
	until time.Time
	pause time.Duration
	err   error
}

// SetLog has the store report the rows that it passes over to another log than slog.Default(). Call it before the
// store is used.
func (s *Store) SetLog(log *slog.Logger) { s.passed.log = log }

func (p *passed) logger() *slog.Logger {
	if p.log == nil {
		return slog.Default()
	}
	return p.log
}

// keys is a JSON array of the rows to pass over now, with some others; nil: none.
func (p *passed) keys(also ...*row) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, keys := time.Now(), []string(nil)
	for _, r := range also {
		keys = append(keys, r.key)
	}
	for key, r := range p.rows {
		switch {
		case now.Before(r.until):
			keys = append(keys, key)
		case now.Sub(r.until) > lastPass: // nothing has tried the row for long: it has been deleted, or has ended
			delete(p.rows, key)
		}
	}
	return jsonArray(keys)
}

// add passes a row over for a while. change is what the table has refused, such as "claimed".
func (p *passed) add(change, key string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, r := time.Now(), p.rows[key]
	switch {
	case r == nil && len(p.rows) >= maxPassed:
		return
	case r == nil:
		r = &passedRow{pause: firstPass}
		if p.rows == nil {
			p.rows = map[string]*passedRow{}
		}
		p.rows[key] = r
	case now.Before(r.until): // another call has just found that it is refused
		return
	default:
		r.pause = min(2*r.pause, lastPass)
	}
	again := r.err != nil
	if r.err = err; adopted.Collides(err) {
		r.pause = shortPass
	}
	r.until = now.Add(r.pause)
	if p.since.IsZero() {
		p.since = now
	}
	if again && r.pause == shortPass {
		return
	}
	p.logger().Warn("the table refuses to have a row "+change+"; it is passed over, and tried again later",
		slog.String("key", keyName(key)), slog.String("error", err.Error()), slog.Duration("again_in", r.pause))
}

// changed forgets rows that could be changed after all.
func (p *passed) changed(rows []*row) {
	if len(rows) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
	if len(p.rows) == 0 {
		return
	}
	for _, r := range rows {
		delete(p.rows, r.key)
	}
}

// mayHide reports whether it is time to look for rows that a trigger silently keeps as they are, after a claim that
// got less than it asked for. If so, the next time for that is one hiddenPause later.
func (s *Store) mayHide(got, n int) bool {
	if got >= n || len(s.plan.On.Triggers) == 0 {
		return false
	}
	p := &s.passed
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.nextTrial) {
		return false
	}
	p.nextTrial = now.Add(hiddenPause)
	return true
}

func (p *passed) tryAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextTrial = time.Time{}
}

// PassedRow is a row that the table refuses to have changed, and that claims or sweeps of this store pass over.
type PassedRow struct {
	Key   string    // the row's id, as in RawJob.Key
	Error string    // the database's error
	Until time.Time // when the row is tried again, by this machine's clock
}

// PassedOver lists the rows that this store passes over now, in the order of their keys.
func (s *Store) PassedOver() []PassedRow {
	p := &s.passed
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]PassedRow, 0, len(p.rows))
	for _, key := range slices.Sorted(maps.Keys(p.rows)) {
		all = append(all, PassedRow{keyName(key), p.rows[key].err.Error(), p.rows[key].until})
	}
	return all
}

// tookAll forgets the rows that were due when a claim was sent that has taken all rows it could, but not these: they
// have been deleted, or others have claimed them. Rows that a trigger hides may still be there, so it keeps those.
func (p *passed) tookAll(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, r := range p.rows {
		if r.until.Before(sent) && !errors.Is(r.err, errHidden) {
			delete(p.rows, key)
		}
	}
	if len(p.rows) == 0 {
		p.since = time.Time{}
	}
}

// Ready returns nil unless the table has refused to have rows claimed, and no row could be claimed since. Else the
// error names some of them, and why. Worker.Ready asks it.
func (s *Store) Ready() error {
	p := &s.passed
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || len(p.rows) == 0 {
		return nil
	}
	var texts []string
	for key, r := range p.rows {
		if texts = append(texts, fmt.Sprintf("row %s: %v", keyName(key), r.err)); len(texts) == 3 {
			break
		}
	}
	slices.Sort(texts)
	return fmt.Errorf("nothing can be claimed for %v; the table refuses to have %d rows changed, such as %s",
		time.Since(p.since).Round(time.Second), len(p.rows), strings.Join(texts, "; "))
}
