package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// queueRow is one queue of the overview.
type queueRow struct {
	admin.QueueStats
	Settings dibs.Queue
	In, Out  float64 // jobs a minute over the window: enqueued and completed
	Workers  int     // how many live workers serve the queue
	Table    bool    // the queue is an adopted table, of which less is known
	NoDead   bool    // the adopted table cannot list dead rows
	Times    admin.Times
	Hour     sparks
	After    int64 // how many of its blocked jobs come after others, as far as they were counted lately
}

// AfterMore reports whether more jobs may come after others than were counted.
func (q queueRow) AfterMore() bool { return q.After == admin.FollowersCap }

// Limited reports whether the queue runs as many jobs as it may.
func (q queueRow) Limited() bool {
	return q.Settings.Concurrency > 0 && q.Running >= int64(q.Settings.Concurrency)
}

// Held reports whether the queue's rate holds jobs up: now, or over the window, where it only lets jobs through one by
// one.
func (q queueRow) Held() bool {
	r := q.Settings.Rate
	most := float64(r.N) * q.Window.Seconds() / max(r.Per.Seconds(), 1e-6)
	return q.HeldUntil.After(time.Now()) || most > 0 && q.Waiting > q.Scheduled && float64(q.Claimed) >= .9*most
}

// alarm is something that is wrong, in words.
type alarm struct {
	Queue string
	Cause int
	Text  string
	Bad   bool // something is wrong; otherwise it is only good to know

	// Jobs, linked to, Since, a time of day, and More follow Text. Failures adds a link to the page of the queue's
	// failures.
	Jobs     []int64
	Since    time.Time
	More     string
	Failures bool

	// Post is the path to which a button with the text Button sends a form.
	Post, Button string

	// Next is what to do: a command or SQL. Settings is the text of a link to the queue's settings, instead of Next.
	Next     string
	Settings string
}

type overviewView struct {
	Part   string // only queues whose names contain it are shown
	Queues []queueRow
	Alarms []alarm
	Total  queueRow
	Chart  *chart // nil if the viewer may not look at all queues

	MoreQueues, MoreAlarms int // how many queues and alarms are left out
}

// These limit what the overview lists; the queues with the most open jobs come first.
const (
	maxRows   = 300
	maxAlarms = 30
	maxAlike  = 6 // most alarms with the same cause
)

// overview shows all queues.
func (p *Page) overview(r *request) (any, error) {
	now, err := p.looks.get(r.Context())
	if err != nil {
		return nil, err
	}
	v := overviewView{Part: r.URL.Query().Get("q"), Total: queueRow{Table: now.table, NoDead: now.noDead}}
	if r.who.Reads("") && !now.table && v.Part == "" {
		v.Chart = chartOf(now.hour)
	}
	for _, row := range rows(now) {
		if !r.who.Reads(row.Queue) || !isPart(v.Part, row.Queue) {
			continue
		}
		v.Queues = append(v.Queues, row)
		v.Alarms = append(v.Alarms, alarms(now, row)...)
		v.Total.Waiting += row.Waiting
		v.Total.Scheduled += row.Scheduled
		v.Total.ScheduledMore = v.Total.ScheduledMore || row.ScheduledMore
		v.Total.Blocked += row.Blocked
		v.Total.Running += row.Running
		v.Total.Dead += row.Dead
		v.Total.OldestAge = max(v.Total.OldestAge, row.OldestAge)
		v.Total.In += row.In
		v.Total.Out += row.Out
	}
	v.Alarms = append(v.Alarms, lateAlarms(now, r.who, func(queue string) bool { return isPart(v.Part, queue) })...)
	v.Alarms, v.MoreAlarms = foremost(v.Alarms)
	if v.MoreQueues = max(0, len(v.Queues)-maxRows); v.MoreQueues > 0 {
		slices.SortStableFunc(v.Queues, func(a, b queueRow) int { return cmp.Compare(b.open(), a.open()) })
		v.Queues = v.Queues[:maxRows]
	}
	return v, nil
}

// lateAlarms returns alarms for the late schedules of those queues for which the function of is true.
func lateAlarms(now look, who Viewer, of func(queue string) bool) (list []alarm) {
	for _, s := range now.late {
		if !who.Reads(s.Queue) || !of(s.Queue) {
			continue
		}
		reason, next := lateness(now, s, who)
		text := fmt.Sprintf("schedule %s should have made a job %s ago, %s", s.Name, roughly(time.Since(s.Next)), reason)
		list = append(list, alarm{Queue: s.Queue, Cause: causeSchedule, Text: text, Bad: true, Next: next})
	}
	return list
}

// lateness says why the tick of a late schedule has no job yet, and what to do. Which transaction locks the schedule's
// row is shown only to those who may look at all queues, as any program on the database may do so. Its SQL statement is
// not shown.
func lateness(now look, s dibs.Schedule, who Viewer) (reason, next string) {
	h, is := now.holders.Of(s.Name, "schedule")
	switch {
	case !is:
		return "though this server looks after it: see its log", ""
	case !who.Reads(""):
		return "as another transaction holds its row: 'dibs doctor' says which", ""
	}
	return "as " + h.Who, h.Next
}

// isPart reports whether a queue has a text in its name, in small letters or large.
func isPart(text, queue string) bool {
	return strings.Contains(strings.ToLower(queue), strings.ToLower(text))
}

// foremost picks the alarms to show, a few of each cause. Bad ones come first, and among these the causes that matter
// most.
func foremost(all []alarm) (list []alarm, more int) {
	slices.SortStableFunc(all, func(a, b alarm) int {
		switch {
		case a.Bad == b.Bad:
			return cmp.Compare(a.Cause, b.Cause)
		case a.Bad:
			return -1
		}
		return 1
	})
	shown := map[int]int{}
	for _, a := range all {
		if shown[a.Cause]++; shown[a.Cause] <= maxAlike && len(list) < maxAlarms {
			list = append(list, a)
		}
	}
	return list, len(all) - len(list)
}

// open is how many of the queue's jobs have not ended.
func (q queueRow) open() int64 { return q.Waiting + q.Blocked + q.Running }

// rows returns the queues of a look as rows of the overview.
func rows(now look) []queueRow {
	settings := map[string]dibs.Queue{}
	for _, q := range now.queues {
		settings[q.Name] = q
	}
	live := map[string]int{}
	for _, w := range now.workers {
		if w.State == dibs.WorkerWorking {
			for _, q := range w.Queues {
				live[q]++
			}
		}
	}
	list := make([]queueRow, 0, len(now.stats))
	for _, s := range now.stats {
		row := queueRow{QueueStats: s, Settings: settings[s.Queue], Workers: live[s.Queue], Table: now.table, NoDead: now.noDead, Times: now.times[s.Queue].Times, Hour: now.hours[s.Queue].sparks, After: min(now.after[s.Queue].n, s.Blocked)}
		minutes := max(s.Window.Minutes(), 1)
		row.In, row.Out = float64(s.Enqueued)/minutes, float64(s.Succeeded)/minutes
		list = append(list, row)
	}
	return list
}

// old is how long a due job may wait without an alarm.
const old = 5 * time.Minute

// These are the causes of alarms; those that matter most come first.
const (
	causeDeaths = iota
	causeLost
	causeFails
	causeNobody
	causeHangs
	causeWaits
	causeCounts
	causeSchedule
	causeLimit
	causeRate
	causeGroups
	causePaused
)

// alarms lists what is wrong with a queue.
func alarms(now look, q queueRow) (list []alarm) {
	add := func(cause int, bad bool, text string, args ...any) {
		list = append(list, alarm{Queue: q.Queue, Cause: cause, Text: fmt.Sprintf(text, args...), Bad: bad})
	}
	due := q.Waiting - q.Scheduled
	if a, died := deathAlarm(now, q); died {
		list = append(list, a)
	}
	if attempts := q.Succeeded + q.Failed; attempts >= 10 && q.Failed*5 >= attempts {
		add(causeFails, q.Failed*2 >= attempts, "%s of the attempts of the last %s failed", percentText(q.Failed, attempts), roughly(q.Window))
	}
	switch {
	case q.Paused:
		add(causePaused, false, "is paused")
	case !q.Table && due+q.Blocked > 0 && q.Workers == 0 && q.Claimed == 0 && q.Running == 0:
		add(causeNobody, true, "no worker: %s", q.waiting())
	case q.OldestAge > old:
		add(causeWaits, !q.Limited() && !q.Held(), "its oldest due job has waited %s", roughly(q.OldestAge))
	}
	if h, is := now.hangs[q.Queue]; is {
		list = append(list, hangAlarm(q.Queue, h))
	}
	if q.Limited() && due > 0 {
		add(causeLimit, false, "runs as many jobs as it may: %s", count(q.Running))
	}
	if q.Held() {
		add(causeRate, false, "is held by its rate")
	}
	if q.HeldGroups > 0 {
		add(causeGroups, false, "%s", verb(q.HeldGroups, "group is held by its rate", "groups are held by their rates"))
	}
	if q.Miscounted {
		add(causeCounts, true, "its counts cannot be right: somebody has changed rows with SQL; workers count anew within about a minute")
	}
	lost := slices.DeleteFunc(slices.Clone(now.workers), func(w dibs.WorkerInfo) bool {
		return w.State != dibs.WorkerLost || !slices.Contains(w.Queues, q.Queue)
	})
	if len(lost) > 0 && time.Since(slices.MaxFunc(lost, func(a, b dibs.WorkerInfo) int { return a.Seen.Compare(b.Seen) }).Seen) < 10*time.Minute {
		add(causeLost, true, "%s within the last minutes", verb(int64(len(lost)), "worker was lost", "workers were lost"))
	}
	return list
}

// hangAlarm says which jobs of a queue hang, and what to do: if a job timeout would help, it leads to the settings.
func hangAlarm(queue string, h holdups.Hang) alarm {
	a := alarm{Queue: queue, Cause: causeHangs, Text: h.Text(), Bad: h.Wrong(old)}
	if price := h.Price(); price != "" {
		a.Text, a.Settings = a.Text+"; "+price, "set a job timeout"
		return a
	}
	a.Next = h.Next(queue)
	return a
}

// waiting says how many jobs wait that may start, and for how long the oldest has waited.
func (q queueRow) waiting() string {
	text := verb(q.Waiting-q.Scheduled+q.Blocked, "job waits", "jobs wait")
	if q.ScheduledMore {
		text = "jobs wait" // nobody has counted how many of them are scheduled
	}
	if q.OldestAge > old {
		text += ", the oldest for " + roughly(q.OldestAge)
	}
	return text
}

// verb writes a number with its noun and verb: "1 job waits" or "5 jobs wait".
func verb(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}

func percentText(part, of int64) string { return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(of)) }
