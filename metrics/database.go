package metrics

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

const (
	readTimeout = 2 * time.Second  // how long a scrape waits for the database
	statsFor    = time.Second      // how long the statistics that one scrape has read serve others
	listsFor    = 10 * time.Second // the same for the lists of workers and schedules, and for followers
	maxFollowed = 20               // of how many queues the followers are counted
)

// databaseCollector collects the metrics that the database provides.
type databaseCollector struct {
	db admin.Database
	p  *process

	mu      sync.Mutex
	at      time.Time // when the statistics were read, or the reading failed
	stats   []admin.QueueStats
	err     error
	listsAt time.Time
	lists   lists
	queues  names
}

// lists holds what changes seldom, or costs more to read.
type lists struct {
	workers   []dibs.WorkerInfo
	schedules []dibs.Schedule
	followers map[string]int // blocked jobs that come after others, by queue, of the queues with most blocked jobs
	// err is why the lists could not be read: a role may have only the right to read statistics.
	err error
}

func newDatabase(db admin.Database, p *process) *databaseCollector {
	return &databaseCollector{db: db, p: p, queues: newNames(maxQueues)}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	up           = desc("dibs_up", "Whether the database has answered this scrape.")
	queuesDesc   = desc("dibs_queues", "Queues in the database.")
	jobs         = desc("dibs_queue_jobs", "Jobs by state; waiting ones are those that are due, and those whose start has not come.", "queue", "state")
	scheduled    = desc("dibs_queue_scheduled_jobs", "Of the waiting jobs, those whose start has not come, counted as far as 10000.", "queue")
	oldestAge    = desc("dibs_queue_oldest_age_seconds", "How long the oldest due, unclaimed job has been due.", "queue")
	paused       = desc("dibs_queue_paused", "Whether the queue is paused.", "queue")
	rateHeld     = desc("dibs_queue_rate_held", "Whether the queue's rate holds up its next job.", "queue")
	heldGroups   = desc("dibs_queue_rate_held_groups", "Groups whose rates hold jobs up, counted as far as 1000.", "queue")
	miscounted   = desc("dibs_queue_miscounted", "Whether the counts cannot be right, as somebody has changed rows with SQL.", "queue")
	followers    = desc("dibs_queue_followers", "Of the blocked jobs, those that come after others, counted as far as 10000; left out for queues beyond the 20 with most blocked jobs.", "queue")
	queueWorkers = desc("dibs_queue_workers", "Registered workers that claim from the queue.", "queue")
	recentWindow = desc("dibs_queue_recent_window_seconds", "The time that dibs_queue_recent_jobs and the two means cover.", "queue")
	recentJobs   = desc("dibs_queue_recent_jobs", "Jobs enqueued and attempts claimed, succeeded and failed in about the last 5 minutes, by whichever process.", "queue", "event")
	recentWait   = desc("dibs_queue_recent_wait_seconds", "Mean time from the planned start to the claim, over the recent claims.", "queue")
	recentRun    = desc("dibs_queue_recent_run_seconds", "Mean time from the claim to the finish, over the recent attempts.", "queue")
	workers      = desc("dibs_workers", "Workers in the register, by state; lost ones stay for an hour.", "state")
	schedules    = desc("dibs_schedules", "Schedules, by state.", "state")
	lateness     = desc("dibs_schedule_lateness_seconds", "How late the most overdue tick of a schedule is, by this machine's clock.")
)

// Describe implements prometheus.Collector.
func (d *databaseCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{up, queuesDesc, jobs, scheduled, oldestAge, paused, rateHeld, heldGroups, miscounted, followers, queueWorkers, recentWindow, recentJobs, recentWait, recentRun, workers, schedules, lateness} {
		ch <- each
	}
}

// Collect implements prometheus.Collector.
func (d *databaseCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read()
	gauge(up, truth(d.err == nil))
	if d.err != nil {
		return
	}
	gauge(queuesDesc, float64(len(d.stats)))
	for label, q := range d.byLabel() {
		q.collect(label, gauge)
		if d.lists.err == nil {
			gauge(queueWorkers, q.workers, label)
			if !q.after.unknown {
				gauge(followers, q.after.jobs, label)
			}
		}
	}
	if d.lists.err == nil {
		d.lists.collect(gauge)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// read reads the statistics, unless a scrape less than statsFor ago has.
func (d *databaseCollector) read() {
	if time.Since(d.at) < statsFor {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	begin := time.Now()
	d.stats, d.err = d.db.Stats(ctx)
	d.p.called("stats", begin, d.err)
	if d.err == nil && time.Since(d.listsAt) >= listsFor {
		d.lists, d.listsAt = readLists(ctx, d.db, d.stats), time.Now()
	}
	d.at = time.Now()
}

func readLists(ctx context.Context, db admin.Database, stats []admin.QueueStats) (l lists) {
	if l.workers, l.err = db.Workers(ctx); l.err == nil {
		l.schedules, l.err = db.Schedules(ctx)
	}
	l.followers = map[string]int{}
	most := slices.SortedStableFunc(slices.Values(stats), func(a, b admin.QueueStats) int { return cmp.Compare(b.Blocked, a.Blocked) })
	for _, s := range most[:min(len(most), maxFollowed)] {
		if s.Blocked == 0 {
			break
		}
		if n, err := db.Followers(ctx, s.Queue); err == nil { // a name that SQL by hand has left may be refused
			l.followers[s.Queue] = n
		}
	}
	return l
}

func (l *lists) collect(gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	states := map[string]float64{dibs.WorkerWorking: 0, dibs.WorkerStopping: 0, dibs.WorkerLost: 0}
	for _, w := range l.workers {
		states[w.State]++
	}
	for state, n := range states {
		gauge(workers, n, state)
	}
	ticks := map[string]float64{"active": 0, "paused": 0, "ended": 0}
	var late time.Duration
	for _, s := range l.schedules {
		switch {
		case s.Paused:
			ticks["paused"]++
		case s.Next.IsZero():
			ticks["ended"]++
		default:
			ticks["active"]++
			late = max(late, time.Since(s.Next))
		}
	}
	for state, n := range ticks {
		gauge(schedules, n, state)
	}
	gauge(lateness, late.Seconds())
}

// byLabel returns the figures of each queue with a label of its own, and the sums of all others.
func (d *databaseCollector) byLabel() map[string]*queue {
	d.admit()
	labels := map[string]string{}
	all := map[string]*queue{}
	for i := range d.stats {
		s := &d.stats[i]
		label := d.queues.label(s.Queue)
		labels[s.Queue] = label
		if all[label] == nil {
			all[label] = &queue{}
		}
		all[label].add(s)
		n, counted := d.lists.followers[s.Queue]
		f := &all[label].after
		f.jobs, f.unknown = f.jobs+float64(min(int64(n), s.Blocked)), f.unknown || s.Blocked > 0 && !counted
	}
	for _, w := range d.lists.workers {
		for _, name := range w.Queues {
			if label, known := labels[name]; known && w.State == dibs.WorkerWorking {
				all[label].workers++
			}
		}
	}
	return all
}

// admit gives labels to queues. A queue that has a label keeps it until the queue is deleted. Other labels go to
// the queues with most jobs that have not ended.
func (d *databaseCollector) admit() {
	there := make(map[string]bool, len(d.stats))
	for i := range d.stats {
		there[d.stats[i].Queue] = true
	}
	for name := range d.queues.own {
		if !there[name] {
			delete(d.queues.own, name)
		}
	}
	if len(d.stats) <= maxQueues {
		return // there are labels for all queues, and byLabel gives them
	}
	load := func(s admin.QueueStats) int64 { return s.Waiting + s.Blocked + s.Running + s.Dead }
	busiest := slices.SortedStableFunc(slices.Values(d.stats), func(a, b admin.QueueStats) int { return cmp.Compare(load(b), load(a)) })
	for i := range busiest {
		d.queues.label(busiest[i].Queue)
	}
}

// queue has the sums over the queues that share a label.
type queue struct {
	waiting, scheduled, blocked, running, completed, dead, cancelled float64
	enqueued, claimed, succeeded, failed                             float64
	waited, ran                                                      float64 // seconds in all
	oldest, window                                                   time.Duration
	paused, miscounted                                               bool
	workers                                                          float64
	held                                                             held
	after                                                            after
}

// held is what rates hold up.
type held struct {
	queue  bool
	groups float64
}

// after are the followers.
type after struct {
	jobs    float64
	unknown bool // those of one of the queues were not counted
}

func (q *queue) add(s *admin.QueueStats) {
	for to, n := range map[*float64]int64{
		&q.waiting: s.Waiting, &q.scheduled: s.Scheduled, &q.blocked: s.Blocked, &q.running: s.Running, &q.completed: s.Completed, &q.dead: s.Dead, &q.cancelled: s.Cancelled,
		&q.enqueued: s.Enqueued, &q.claimed: s.Claimed, &q.succeeded: s.Succeeded, &q.failed: s.Failed, &q.held.groups: s.HeldGroups,
	} {
		*to += float64(n)
	}
	q.oldest, q.window = max(q.oldest, s.OldestAge), max(q.window, s.Window)
	q.waited += s.AvgWait.Seconds() * float64(s.Claimed)
	q.ran += s.AvgRun.Seconds() * float64(s.Succeeded+s.Failed)
	q.paused, q.held.queue, q.miscounted = q.paused || s.Paused, q.held.queue || !s.HeldUntil.IsZero(), q.miscounted || s.Miscounted
}

func (q *queue) collect(label string, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	for state, n := range map[dibs.State]float64{
		dibs.Waiting: q.waiting, dibs.Blocked: q.blocked, dibs.Running: q.running,
		dibs.Completed: q.completed, dibs.Dead: q.dead, dibs.Cancelled: q.cancelled,
	} {
		gauge(jobs, n, label, string(state))
	}
	gauge(scheduled, q.scheduled, label)
	gauge(oldestAge, q.oldest.Seconds(), label)
	gauge(paused, truth(q.paused), label)
	gauge(rateHeld, truth(q.held.queue), label)
	gauge(heldGroups, q.held.groups, label)
	gauge(miscounted, truth(q.miscounted), label)
	gauge(recentWindow, q.window.Seconds(), label)
	for event, n := range map[string]float64{"enqueued": q.enqueued, "claimed": q.claimed, "succeeded": q.succeeded, "failed": q.failed} {
		gauge(recentJobs, n, label, event)
	}
	if q.claimed > 0 {
		gauge(recentWait, q.waited/q.claimed, label)
	}
	if n := q.succeeded + q.failed; n > 0 {
		gauge(recentRun, q.ran/n, label)
	}
}
