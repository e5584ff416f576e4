package database

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/failures"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/ticks"
	"github.com/dibs-queue/dibs/internal/words"
)

// queueLook is what the calls that every database has say of queues, workers and schedules.
type queueLook struct {
	known     bool
	stats     []admin.QueueStats
	why       holdups.Look
	workers   []dibs.WorkerInfo
	schedules []dibs.Schedule
	newest    []*dibs.RawJob // the newest live jobs, to look for damaged ones
	hangs     map[string]holdups.Hang
	died      map[string]int64 // how many jobs of a queue died in the last hour, where not all of them were read
	paced     map[string]bool  // queues with rates of groups, as far as read has asked
}

// newestJobs is how many live jobs are looked at for damage: their payloads may be large.
const newestJobs = 100

func (q *queueLook) read(ctx context.Context, db admin.Database, maxWait time.Duration) (err error) {
	if q.stats, err = db.Stats(ctx); err != nil {
		return err
	}
	if q.why, err = holdups.Read(ctx, db, q.stats); err != nil {
		return err
	}
	queues, err := db.Queues(ctx)
	if err != nil {
		return err
	}
	if q.workers, err = db.Workers(ctx); err != nil {
		return err
	}
	if q.hangs, err = holdups.Hanging(ctx, db, holdups.Seen{Stats: q.stats, Queues: queues, Workers: q.workers}, true); err != nil {
		return err
	}
	if q.schedules, err = db.Schedules(ctx); err != nil {
		return err
	}
	if err = q.readPaced(ctx, db, maxWait); err != nil {
		return err
	}
	page, err := db.List(ctx, admin.Filter{Limit: newestJobs})
	q.newest, q.known = page.Jobs, err == nil
	return err
}

// readPaced reads, for the queues where that may explain a wait, whether their groups have rates.
func (q *queueLook) readPaced(ctx context.Context, db admin.Database, maxWait time.Duration) error {
	q.paced = map[string]bool{}
	for _, s := range q.stats {
		if s.OldestAge < maxWait || s.Claimed == 0 || q.why.Rate(s.Queue).N > 0 || len(q.why.Of(s)) > 0 {
			continue
		}
		groups, err := db.Groups(ctx, s.Queue)
		if err != nil {
			return err
		}
		q.paced[s.Queue] = q.why.GroupRate(s.Queue).N > 0 || slices.ContainsFunc(groups, func(g dibs.Group) bool { return g.Rate.N > 0 })
	}
	return nil
}

// readDied counts the jobs that died in the last hour, of queues of which the facts tell only the last ones.
func (q *queueLook) readDied(ctx context.Context, db admin.Database, facts []admin.Fact) error {
	read := map[string]int64{}
	for _, f := range facts {
		if f.Name == "dead" {
			read[f.About] += f.N
		}
	}
	var names []string
	for _, f := range facts {
		if f.Name == "dead" && read[f.About] >= f.Of && !slices.Contains(names, f.About) {
			names = append(names, f.About)
		}
	}
	if len(names) == 0 {
		return nil
	}
	minutes, err := db.History(ctx, names, time.Hour)
	q.died = map[string]int64{}
	for _, m := range minutes {
		q.died[m.Queue] += m.Died
	}
	return err
}

func (q *queueLook) counts() []string {
	if !q.known {
		return nil
	}
	return []string{words.Plural(len(q.stats), "queue"), words.Plural(len(q.workers), "worker"), words.Plural(len(q.schedules), "schedule")}
}

// live reports whether a worker is there that does the upkeep.
func (q *queueLook) live() bool {
	return slices.ContainsFunc(q.workers, func(w dibs.WorkerInfo) bool { return w.State != dibs.WorkerLost })
}

func name(s string) string { return term.Clip(words.Printable(s), 60) }

// queues finds what holds up due jobs, attempts that fail, workers that were lost, and schedules
// and jobs that cannot be read.
func (d *medic) queues(q *queueLook) {
	for _, s := range q.stats {
		d.held(q, s)
		d.failing(s)
		if s.Miscounted {
			d.note("miscounted", "dibs check --repair", "queue %s: its counts cannot be right, as rows were changed with SQL; workers count anew within a minute", name(s.Queue))
		}
	}
	now := time.Now()
	for _, w := range q.workers {
		if w.State == dibs.WorkerLost {
			process := fmt.Sprintf("process %d", w.PID)
			if w.PID == 0 {
				process = "over HTTP"
			}
			d.note("lost_worker", "dibs workers", "worker %s (%s on %s) was last seen %s: it has crashed, or cannot reach the database; see its log there",
				name(w.Name), process, name(w.Host), words.Since(now, w.Seen))
		}
	}
	for i, text := range ticks.Unreadable(q.schedules) {
		if i == maxAlike {
			break
		}
		d.wrong("schedule_unreadable", "dibs schedule ls", "%s", text)
	}
	alike := 0
	for _, j := range q.newest {
		if alike++; j.Fault != "" && alike <= maxAlike {
			d.note("damaged_job", fmt.Sprintf("dibs show %d", j.ID), "job %d of queue %s cannot be run: %s; a worker ends it as dead", j.ID, name(j.Queue), term.Clip(j.Fault, 120))
		}
	}
}

// maxAlike is how many findings of one kind are listed.
const maxAlike = 10

// held finds what keeps the due jobs of a queue from starting.
func (d *medic) held(q *queueLook, s admin.QueueStats) {
	queue, n := name(s.Queue), holdups.Due(s)
	long, holds := s.OldestAge >= d.maxWait, q.why.Of(s)
	hang, hangs := q.hangs[s.Queue]
	waits := fmt.Sprintf("%s running", words.Verb(s.Running, "job counts as", "jobs count as"))
	switch {
	case n > 0 && s.ScheduledMore: // how many is not known
		waits = fmt.Sprintf("some jobs are due, the oldest for %s", words.Roughly(s.OldestAge))
	case n == 0 && s.Running == 0:
		waits = "no job is due"
	case n > 0:
		waits = fmt.Sprintf("%s due, the oldest for %s", words.Verb(n, "job is", "jobs are"), words.Roughly(s.OldestAge))
	}
	for _, h := range holds {
		text := fmt.Sprintf("queue %s: %s (%s)", queue, h.Plain(), waits)
		switch {
		case h.Reason == "paused" && n > 0:
			d.note("paused", words.Command("dibs resume", s.Queue), "queue %s is paused (%s)", queue, waits)
		case s.Paused && s.Running == 0 && (h.Reason == "no_worker" || h.Reason == "stopping"): // nobody is needed
		case h.Reason == "no_worker" && !long && (n > 0 || s.Running == 0): // workers may just be started anew
			d.note(h.Reason, words.StartWorker(s.Queue), "%s", text)
		case h.Reason == "no_worker":
			d.wrong(h.Reason, words.StartWorker(s.Queue), "%s", text)
		case h.Reason == "stopping":
			d.wrong(h.Reason, "dibs workers", "%s", text)
		case h.Reason == "no_worker_for_kind":
			d.wrong(h.Reason, words.Command("dibs ls", s.Queue, "--kind", words.ShellWord(h.Kinds[0])), "%s", text)
		case h.Reason == "hanging": // see below
		case hangs && (h.Reason == "busy" || h.Reason == "limit"): // the same, without saying who
		case h.Reason == "busy" && long && h.By != "":
			d.wrong(h.Reason, words.Command("dibs ls", h.By, "--state running"), "%s", text)
		case h.Reason == "busy" && long:
			d.wrong(h.Reason, "dibs workers --jobs", "%s", text)
		case h.Reason == "limit" && long:
			d.note(h.Reason, words.Command("dibs queue", s.Queue, "--concurrency N"), "%s", text)
		case h.Reason == "rate" && long && !h.OfSome:
			d.note(h.Reason, words.Command("dibs queue", s.Queue), "%s", text)
		}
	}
	if hangs {
		d.hangs(s.Queue, hang, waits)
	}
	switch {
	case !long || n == 0 || len(holds) > 0:
	case s.Claimed > 0 && q.why.Rate(s.Queue).N > 0: // the moment between two starts
		d.note("rate", words.Command("dibs queue", s.Queue), "queue %s: the queue is held by its rate (%s)", queue, waits)
	case s.Claimed > 0 && q.paced[s.Queue]: // the same of a group, of which nothing is said either
	default:
		next, what := words.Command("dibs ls", s.Queue, "--state waiting"), "nothing is known that holds it up"
		if who, end, is := d.holder("", "turn", "job"); is {
			next, what = end, who
		}
		d.wrong("waits", next, "queue %s: %s, and %s", queue, waits, what)
	}
}

// holder names a transaction that holds the row of a schedule, or else rows of one of the tables.
func (d *medic) holder(schedule string, tables ...string) (who, next string, is bool) {
	h, is := holdups.Holders(d.facts).Of(schedule, tables...)
	if h.Statement != "" {
		h.Who += ": " + h.Statement
	}
	return h.Who, h.Next, is
}

// hangs puts into words which jobs' handlers hang.
func (d *medic) hangs(queue string, h holdups.Hang, waits string) {
	report, text := d.note, h.Text()
	if h.Wrong(d.maxWait) {
		report = d.wrong
	}
	if price := h.Price(); price != "" {
		text += "; " + price
	}
	report("hanging", h.Next(queue), "queue %s: %s (%s)", name(queue), text, waits)
}

// failing finds a queue of which a large share of the attempts fail.
func (d *medic) failing(s admin.QueueStats) {
	const few = 10 // attempts; no share of fewer is shown
	all := s.Succeeded + s.Failed
	if all < few || s.Failed*5 < all {
		return
	}
	report, next := d.note, words.Command("dibs ls", s.Queue)
	if s.Failed*2 >= all {
		report = d.wrong
	}
	if s.Dead > 0 {
		next = words.Command("dibs ls", s.Queue, "--state dead")
	}
	report("failing", next, "queue %s: %s of %s in the last %s failed", name(s.Queue), words.Count(s.Failed), words.Plural(int(all), "attempt"), words.Roughly(s.Window))
}

// jobs puts the facts about jobs and upkeep into words.
func (d *medic) jobs(q *queueLook, facts []admin.Fact) {
	d.dead(q, facts)
	d.awaited(q, facts)
	alike := map[string]int{}
	for _, f := range facts {
		if alike[f.Name]++; alike[f.Name] > maxAlike {
			continue
		}
		show := fmt.Sprintf("dibs show %d", f.ID)
		switch f.Name {
		case "leases":
			d.wrong("leases", show, "job %d of queue %s: its lease has ended %d times: its workers crash, or are cut off (the last was %s)", f.ID, name(f.About), f.N, name(f.Text))
		case "cancel":
			d.note("cancel", show, "job %d of queue %s was asked to stop, and still runs after %s: its handler does not heed that (worker %s)", f.ID, name(f.About), words.Roughly(f.Age), name(f.Text))
		case "kept":
			d.kept(f)
		case "late":
			d.late(q, f)
		case "schedule":
			d.lateSchedule(q, f)
		}
	}
}

// dead finds the queues in which jobs have died lately, and the most common error, without what
// differs from job to job.
func (d *medic) dead(q *queueLook, facts []admin.Fact) {
	const few = 10 // from this many dead jobs on, a queue is wrong
	type cause struct {
		queue, error string
		n, all, most int64 // how many died of it, and of all errors; how many were read at most
	}
	var causes []cause
	for _, f := range facts {
		if f.Name != "dead" {
			continue
		}
		fingerprint := failures.Fingerprint(f.Text)
		i := slices.IndexFunc(causes, func(c cause) bool { return c.queue == f.About && c.error == fingerprint })
		if i < 0 {
			i, causes = len(causes), append(causes, cause{queue: f.About, error: fingerprint, most: f.Of})
		}
		causes[i].n += f.N
	}
	var worst []cause
	for _, c := range causes {
		i := slices.IndexFunc(worst, func(w cause) bool { return w.queue == c.queue })
		if i < 0 {
			i, worst = len(worst), append(worst, cause{queue: c.queue})
		}
		c.all = worst[i].all + c.n
		if worst[i].n >= c.n {
			c.error, c.n = worst[i].error, worst[i].n
		}
		worst[i] = c
	}
	for _, c := range worst {
		report, died := d.note, words.Plural(int(c.all), "job")+" died in the last hour, "+words.Count(c.n)+" of them with"
		if c.all >= few {
			report = d.wrong
		}
		if c.all >= c.most { // the rest was not read
			died = fmt.Sprintf("%s died in the last hour; of the last %s, %s had", words.Plural(int(max(c.all, q.died[c.queue])), "job"), words.Count(c.all), words.Count(c.n))
		}
		report("dead", words.Command("dibs failures", c.queue), "queue %s: %s: %s", name(c.queue), died, term.Clip(words.OneLine(c.error), 200))
	}
}

// late puts into words which upkeep is overdue.
func (d *medic) late(q *queueLook, f admin.Fact) {
	next, who := "dibs workers", "though workers are there: see their logs"
	if !q.live() {
		next, who = "dibs work QUEUE -- PROGRAM", "as no worker is there"
	} else if holder, end, is := d.holder("", "claim", "job"); is && f.About == "claims" {
		next, who = end, "as "+holder
	}
	switch f.About {
	case "claims":
		d.wrong("late_claims", next, "leases of lost workers ended %s ago, and nobody has taken back their jobs (%s), %s", words.Roughly(f.Age), words.Plural(int(f.N), "claim"), who)
	case "wake":
		d.note("late_groups", next, "%s or more groups wait for a sweep, %s", words.Count(f.N), who)
	case "tally":
		d.note("late_counts", next, "%s or more changes of counts wait for a sweep, so statistics are slow, %s", words.Count(f.N), who)
	case "flows":
		d.wrong("late_flows", next, "jobs ended %s ago, and nobody has looked yet at those that come after them, %s", words.Roughly(f.Age), who)
	case "history":
		d.note("late_history", next, "finished jobs should have been deleted %s ago, %s", words.Roughly(f.Age), who)
	case "periods":
		d.note("late_periods", next, "ended periods of unique keys should have been deleted %s ago, %s", words.Roughly(f.Age), who)
	}
}

// lateSchedule puts into words that a tick has no job though its time has come.
func (d *medic) lateSchedule(q *queueLook, f admin.Fact) {
	next, who := words.Command("dibs schedule show", f.About), "though workers are there: see their logs"
	if !q.live() {
		next, who = "dibs work QUEUE -- PROGRAM", "as no worker is there to see to it"
		if i := slices.IndexFunc(q.schedules, func(s dibs.Schedule) bool { return s.Name == f.About }); i >= 0 {
			next = words.StartWorker(q.schedules[i].Queue)
		}
	} else if holder, end, is := d.holder(f.About, "schedule"); is {
		next, who = end, "as "+holder
	}
	d.wrong("late_schedule", next, "schedule %s should have made a job %s ago, %s", name(f.About), words.Roughly(f.Age), who)
}
