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

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/failures"
	"github.com/dibs-queue/dibs/internal/words"
)

const (
	failuresFresh = 10 * time.Second // how old groups of failures may be: to compute them takes up to a second
	keptGroups    = 300
	shownGroups   = 30        // how many groups one page shows
	shownQueues   = 10        // how many queues are named whose dead jobs were not all read
	failureSpan   = time.Hour // time that one bar of a chart covers
	failureBars   = 24
)

// failed groups the last dead jobs of one or more queues by how they died.
type failed struct {
	Groups []*failures.Group // the group with the newest death comes first
	More   int               // how many groups are left out
	Partly []partlyRead      // queues of which only some dead jobs were read
}

// partlyRead is a queue of which only some dead jobs were read.
type partlyRead struct {
	Queue string
	failures.Extent
}

type failuresView struct {
	failed
	Queue  string // empty: all queues that the viewer may look at
	Rows   []failureRow
	Others int    // how many more queues there are of which only some dead jobs were read
	Next   string // link to the next groups
	First  string // link to the first groups, if the page shows later ones
}

type failureRow struct {
	*failures.Group
	Admin bool
	Chart sparks
	Key   string
}

// keyOf names a fingerprint in forms, as a hash: browsers change line ends in texts, and cannot send all characters.
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
		if !slices.ContainsFunc(now.stats, func(s admin.QueueStats) bool { return s.Queue == v.Queue }) {
			return nil, &refusal{404, "There is no queue of the name " + oneLine(v.Queue) + "."}
		}
	}
	var stats []admin.QueueStats
	key := ""
	for _, s := range now.stats {
		if s.Dead > 0 && (s.Queue == v.Queue || v.Queue == "" && r.who.Reads(s.Queue)) {
			stats, key = append(stats, s), key+s.Queue+"\n"
		}
	}
	v.failed, err = p.failed.get(key, func() (failed, error) { return p.readFailures(r.Context(), stats) })
	if err != nil {
		return nil, err
	}
	v.Others = max(0, len(v.Partly)-shownQueues)
	v.Partly = v.Partly[:len(v.Partly)-v.Others]
	v.page(r)
	return v, nil
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

// readFailures reads how the last dead jobs of some queues have ended.
func (p *Page) readFailures(ctx context.Context, stats []admin.QueueStats) (f failed, err error) {
	sample, err := failures.Newest(ctx, p.DB, stats, admin.MaxFailures, failures.MostRead)
	if err != nil {
		return f, err
	}
	for _, name := range sample.Partly() {
		f.Partly = append(f.Partly, partlyRead{name, sample.Queues[name]})
	}
	begin := time.Now().Truncate(failureSpan).Add(-(failureBars - 1) * failureSpan)
	f.Groups = sample.Groups(failures.Spans{From: begin, Width: failureSpan, N: failureBars})
	if f.More = max(0, len(f.Groups)-keptGroups); f.More > 0 {
		f.Groups = slices.Clone(f.Groups[:keptGroups])
	}
	return f, nil
}

// deaths says how the jobs of a queue that died within the last day have died.
type deaths struct {
	Count int
	Text  string // the most frequent error of these deaths
	Most  int    // how many died of this error
	First time.Time
	Last  time.Time
	Full  bool // more jobs may have died than were read: Most counts among the last Count deaths
}

const (
	deathsTime  = 24 * time.Hour
	deathsFresh = 10 * time.Second // how old the figures about deaths may be
)

// readDeaths reads now and then what the last dead jobs died of, if there are any: up to 1,000 of each queue, and
// fewer of each if there are many queues.
func (now *look) readDeaths(ctx context.Context, db admin.Database, last look) error {
	if now.at.Sub(last.deathsAt) < deathsFresh || !slices.ContainsFunc(now.stats, func(s admin.QueueStats) bool { return s.Dead > 0 }) {
		now.deaths, now.deathsAt = last.deaths, last.deathsAt
		return nil
	}
	sample, err := failures.Newest(ctx, db, now.stats, 1000, 2*1000)
	if err != nil {
		return err
	}
	now.deaths, now.deathsAt = map[string]deaths{}, now.at
	lately := slices.DeleteFunc(sample.List, func(f admin.Failure) bool { return now.at.Sub(f.At) >= deathsTime })
	of := map[[2]string]int{} // how many jobs of a queue died of one error, whatever their kind
	for _, g := range failures.Of(lately, failures.Spans{}) {
		d, known := now.deaths[g.Queue]
		d.Count += g.Count
		r := sample.Queues[g.Queue]
		d.Full = d.Count == r.Read && int64(r.Read) < r.Dead
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
	d, known := now.deaths[q.Queue]
	if !known || q.Dead == 0 {
		return alarm{}, false
	}
	a := alarm{Queue: q.Queue, Cause: causeDeaths, Bad: now.at.Sub(d.Last) < time.Hour, Since: d.First, Failures: true}
	some, them := int64(d.Count) < q.Dead, ", "+count(d.Most)+" of them"
	switch { // q.Dead counts all dead jobs, d only those of the last day that were read
	case d.Full && some:
		a.Text = count(q.Dead) + " dead, the last " + count(d.Count) + " since"
	case some:
		a.Text = count(q.Dead) + " dead, " + count(d.Count) + " of them since"
	default:
		a.Text = count(d.Count) + " dead since"
	}
	if some {
		them = "; " + count(d.Most) + " of these"
	}
	if d.Most < d.Count {
		a.More = them
	}
	a.More += ": " + words.Clip(oneLine(cmp.Or(d.Text, "no error text")), 140)
	return a, true
}
