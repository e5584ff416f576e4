package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/failures"
	"github.com/dibs-queue/dibs/internal/words"
)

const (
	failuresFresh = 10 * time.Second // how old groups of failures may be: to make them costs a second at worst
	keptGroups    = 300
	shownGroups   = 30 // on one page
	// manyQueues is of how many queues somebody sees failures who may not look at all: those with the most dead jobs.
	manyQueues  = 20
	failureSpan = time.Hour // a bar of the chart
	failureBars = 24
)

// failed is how the last dead jobs of a queue, or of several, have ended.
type failed struct {
	Groups []*failures.Group // the group of the newest first
	More   int               // groups that are left out
	Read   int               // how many dead jobs were read
	Full   bool              // there may be more dead jobs than were read
}

type failuresView struct {
	failed
	Queue  string // empty: all that the viewer may look at
	Rows   []failureRow
	Queues int    // that are left out
	Next   string // link to the next groups
	First  string // link to the first groups, where these are others
}

type failureRow struct {
	*failures.Group
	Admin bool
	Chart sparks
	Key   string
}

// keyOf stands for a fingerprint in forms: browsers change line ends in texts, and cannot send all characters.
func keyOf(fingerprint string) string {
	sum := sha256.Sum256([]byte(fingerprint))
	return hex.EncodeToString(sum[:])
}

// More is how many of the group's jobs are not listed by their ids.
func (f failureRow) More() int { return f.Count - len(f.IDs) }

// failures shows the last dead jobs, grouped by what they died of.
func (p *Page) failures(r *request) (any, error) {
	v := failuresView{Queue: r.URL.Query().Get("queue")}
	now, err := p.looks.get(r.Context())
	if err != nil {
		return nil, err
	}
	if v.Queue != "" {
		if err := r.mayRead(v.Queue); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(now.stats, func(s dibs.QueueStats) bool { return s.Queue == v.Queue }) {
			return nil, &refusal{404, "There is no queue of the name " + oneLine(v.Queue) + "."}
		}
	}
	names := []string{v.Queue}
	if v.Queue == "" && !r.who.Reads("") {
		names, v.Queues = failedQueues(now, r.who.Reads)
	}
	for _, name := range names {
		one, err := p.failed.get(name, func() (failed, error) { return p.readFailures(r.Context(), name) })
		if err != nil {
			return nil, err
		}
		v.Groups = append(v.Groups, one.Groups...)
		v.More += one.More
		v.Read += one.Read
		v.Full = v.Full || one.Full
	}
	slices.SortStableFunc(v.Groups, func(a, b *failures.Group) int { return b.Last.Compare(a.Last) })
	v.page(r)
	return v, nil
}

// failedQueues are the queues with dead jobs that a viewer may look at, and how many are left out.
func failedQueues(now look, reads func(string) bool) (names []string, more int) {
	list := slices.Clone(now.stats)
	list = slices.DeleteFunc(list, func(s dibs.QueueStats) bool { return s.Dead == 0 || !reads(s.Queue) })
	slices.SortStableFunc(list, func(a, b dibs.QueueStats) int { return cmp.Compare(b.Dead, a.Dead) })
	for _, s := range list[:min(len(list), manyQueues)] {
		names = append(names, s.Queue)
	}
	return names, len(list) - len(names)
}

// page picks the groups that the request asks for.
func (v *failuresView) page(r *request) {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	from = min(max(from, 0), len(v.Groups))
	if err != nil {
		from = 0
	}
	to := min(from+shownGroups, len(v.Groups))
	for _, g := range v.Groups[from:to] {
		v.Rows = append(v.Rows, failureRow{g, r.who.Changes(g.Queue), sparksOfDeaths(g.Counts), keyOf(g.Fingerprint)})
	}
	link := func(from int) string {
		q := url.Values{}
		if v.Queue != "" {
			q.Set("queue", v.Queue)
		}
		if from > 0 {
			q.Set("from", strconv.Itoa(from))
		}
		return "?" + q.Encode()
	}
	if to < len(v.Groups) {
		v.Next = link(to)
	}
	if from > 0 {
		v.First = link(0)
	}
}

// readFailures reads how the last dead jobs of a queue, or of all, have ended.
func (p *Page) readFailures(ctx context.Context, queue string) (failed, error) {
	list, err := p.DB.Failures(ctx, queue, dibs.MaxFailures)
	if err != nil {
		return failed{}, err
	}
	begin := time.Now().Truncate(failureSpan).Add(-(failureBars - 1) * failureSpan)
	f := failed{Read: len(list), Full: len(list) == dibs.MaxFailures}
	f.Groups = failures.Of(list, failures.Spans{From: begin, Width: failureSpan, N: failureBars})
	if f.More = max(0, len(f.Groups)-keptGroups); f.More > 0 {
		f.Groups = slices.Clone(f.Groups[:keptGroups])
	}
	return f, nil
}

// deaths is how jobs of a queue have died within the last day.
type deaths struct {
	Count int
	Text  string // what most of them died of
	Most  int    // how many
	First time.Time
	Last  time.Time
	Full  bool // there may be more than were read
}

const (
	deathsTime  = 24 * time.Hour
	deathsFresh = 10 * time.Second // how old what is known of deaths may be
)

// readDeaths reads what jobs died of: 1,000 of all queues, once in a while, where there are dead jobs.
func (now *look) readDeaths(ctx context.Context, db dibs.Admin, last look) error {
	if now.at.Sub(last.deathsAt) < deathsFresh || !slices.ContainsFunc(now.stats, func(s dibs.QueueStats) bool { return s.Dead > 0 }) {
		now.deaths, now.deathsAt = last.deaths, last.deathsAt
		return nil
	}
	const most = 1000
	list, err := db.Failures(ctx, "", most)
	if err != nil {
		return err
	}
	now.deaths, now.deathsAt = map[string]deaths{}, now.at
	full := len(list) == most && now.at.Sub(list[most-1].At) < deathsTime
	list = slices.DeleteFunc(list, func(f dibs.Failure) bool { return now.at.Sub(f.At) >= deathsTime })
	of := map[[2]string]int{} // how many of a queue died of one error, of whatever kind
	for _, g := range failures.Of(list, failures.Spans{}) {
		d, known := now.deaths[g.Queue]
		d.Full, d.Count = full, d.Count+g.Count
		if !known || g.First.Before(d.First) {
			d.First = g.First
		}
		if !known || g.Last.After(d.Last) {
			d.Last = g.Last
		}
		same := [2]string{g.Queue, g.Fingerprint}
		if of[same] += g.Count; of[same] > d.Most {
			d.Text, d.Most = g.Fingerprint, of[same]
		}
		now.deaths[g.Queue] = d
	}
	return nil
}

// deathAlarm says how many jobs of a queue have died, since when and of what.
func deathAlarm(now look, q queueRow) (alarm, bool) {
	d, some := now.deaths[q.Queue]
	if !some || q.Dead == 0 {
		return alarm{}, false
	}
	a := alarm{Queue: q.Queue, Cause: causeDeaths, Bad: now.at.Sub(d.Last) < time.Hour, Since: d.First, Failures: true}
	a.Text = count(d.Count) + " dead since"
	if d.Full {
		a.Text = count(d.Count) + " or more dead since"
	}
	if d.Most < d.Count {
		a.More = ", " + count(d.Most) + " of them"
	}
	a.More += ": " + words.Clip(oneLine(cmp.Or(d.Text, "no error text")), 140)
	return a, true
}
