package page

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// tab leads to the jobs of a queue in one state.
type tab struct {
	State     dibs.State
	Scheduled bool
	Name      string
	Count     int64
	More      bool // there are more jobs than Count
	Link      string
	Here      bool
}

type queueView struct {
	Queue   queueRow
	Alarms  []alarm
	Chart   *chart
	Tabs    []tab
	Filter  filter
	Jobs    []*dibs.RawJob
	Next    string // link to the next page
	First   string // link to the first page, if this is a later one
	Workers []dibs.WorkerInfo
	Fields  []field
	Admin   bool
	Empty   bool         // the queue has no jobs, so it may be deleted
	Changes []bulkChange // changes that can be made to many jobs of the list
}

// jobsOnPage is how many jobs a page lists.
const jobsOnPage = 50

// queue shows one queue and a page of its jobs.
func (p *Page) queue(r *request) (any, error) {
	name := r.PathValue("queue")
	if err := r.mayRead(name); err != nil {
		return nil, err
	}
	now, err := p.looks.get(r.Context())
	if err != nil {
		return nil, err
	}
	all := rows(now)
	i := slices.IndexFunc(all, func(q queueRow) bool { return q.Queue == name })
	if i < 0 {
		return nil, &refusal{404, "There is no queue of the name " + oneLine(name) + "."}
	}
	f, err := filterOf(name, r.URL.Query())
	if err != nil {
		return nil, err
	}
	jobs, err := p.Jobs(r.Request, f.Filter)
	if err != nil {
		return nil, err
	}
	v := queueView{Queue: all[i], Alarms: alarms(now, all[i]), Tabs: tabs(all[i], f), Filter: f, Jobs: jobs.Jobs, Admin: r.who.Changes(name) && !now.table}
	v.Alarms = append(v.Alarms, lateAlarms(now, r.who, func(queue string) bool { return queue == name })...)
	if !now.table {
		v.Fields = fieldsOf(all[i].Settings)
		s := all[i].QueueStats
		v.Empty = s.Waiting+s.Blocked+s.Running+s.Completed+s.Dead+s.Cancelled == 0
		hour, err := p.hours.get(name, func() (hour []admin.Minute, err error) {
			err = p.Look(r.Request, func() error {
				hour, err = p.DB.History(r.Context(), []string{name}, chartTime)
				return err
			})
			return hour, err
		})
		if err != nil {
			return nil, err
		}
		v.Chart = chartOf(hour)
	}
	if v.Admin && len(v.Jobs) > 0 && f.UniqueKey == "" {
		v.Changes = changesOf(f.State, f.Scheduled)
	}
	if jobs.Next != "" {
		v.Next = f.link(f.State, jobs.Next)
	}
	if f.After != "" {
		v.First = f.link(f.State, "")
	}
	for _, w := range now.workers {
		if slices.Contains(w.Queues, name) {
			v.Workers = append(v.Workers, w)
		}
	}
	return v, nil
}

func tabs(q queueRow, f filter) []tab {
	list := []tab{
		{Name: "all open", Count: q.Waiting + q.Blocked + q.Running},
		{State: dibs.Waiting, Count: q.Waiting},
		{State: dibs.Waiting, Scheduled: true, Name: "scheduled", Count: q.Scheduled, More: q.ScheduledMore},
		{State: dibs.Blocked, Count: q.Blocked},
		{State: dibs.Running, Count: q.Running},
		{State: dibs.Dead, Count: q.Dead},
		{State: dibs.Completed, Count: q.Completed},
		{State: dibs.Cancelled, Count: q.Cancelled},
	}
	if q.Table { // an adopted table cannot show jobs in the other states
		list = slices.DeleteFunc(list, func(t tab) bool {
			return t.State == dibs.Blocked || t.Scheduled || t.State == dibs.Dead && q.NoDead || t.State == dibs.Completed || t.State == dibs.Cancelled
		})
	}
	here := f
	for i := range list {
		t := &list[i]
		t.Here = t.State == here.State && t.Scheduled == here.Scheduled
		if t.Name == "" {
			t.Name = string(t.State)
		}
		f.Scheduled = t.Scheduled
		t.Link = f.link(t.State, "")
	}
	return list
}

type jobView struct {
	Job    *dibs.RawJob
	Steps  []step
	Why    []alarm
	Places []place
	More   string // link to a list of all jobs that hold places
	Admin  bool
	Folded bool // the payload is long, and shown folded
	Again  string
	Flow   flowView
	After  bool   // it comes after other jobs
	Brings bool   // one of Why has a button that requeues it
	waits  *alarm // for which jobs it waits
}

// step is one moment of a job's life.
type step struct {
	At     time.Time
	Name   string
	Text   string
	State  string // state that gives the step its colour
	Worker string
	Times  string // how long an attempt waited and ran
}

// job shows one job.
func (p *Page) job(r *request) (any, error) {
	j, err := p.jobOf(r, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	v := jobView{Job: j, Steps: life(j), Admin: r.who.Changes(j.Queue), Folded: len(j.Payload) > 4000}
	now, err := p.looks.get(r.Context())
	if err != nil {
		return nil, err
	}
	v.Admin = v.Admin && (!now.table || j.State.Final())
	if !now.table {
		attempts := 0 // stays 0 if the queue was made after the look
		if i := slices.IndexFunc(now.queues, func(q dibs.Queue) bool { return q.Name == j.Queue }); i >= 0 {
			attempts = now.queues[i].MaxAttempts
		}
		v.Again = enqueueCommand(j, attempts)
		if err := p.around(r, &v); err != nil {
			return nil, err
		}
	}
	return v, p.explain(r, &v, now)
}

// jobOf loads a job that the viewer may look at.
func (p *Page) jobOf(r *request, text string) (*dibs.RawJob, error) {
	id, err := jobID(text)
	if err != nil {
		return nil, err
	}
	j, err := p.Job(r.Request, id)
	if err != nil {
		return nil, err
	}
	if !r.who.Reads(j.Queue) {
		return nil, &refusal{404, "There is no such job."}
	}
	return j, nil
}

// life lists what has become of a job, and what comes next.
func life(j *dibs.RawJob) []step {
	list := []step{{At: j.CreatedAt, Name: "enqueued", State: "waiting", Text: j.Schedule}}
	for i, e := range j.Errors {
		failed := step{At: e.At, Name: "attempt " + count(e.Attempt) + " failed", Text: e.Error, State: "dead", Worker: e.Worker}
		if !e.ClaimedAt.IsZero() {
			failed.Times = "waited " + roughly(e.ClaimedAt.Sub(e.RunAt)) + ", ran " + roughly(e.At.Sub(e.ClaimedAt))
		}
		if j.State == dibs.Cancelled && i == len(j.Errors)-1 && e.Attempt == j.Attempt {
			failed.Name, failed.State = "attempt "+count(e.Attempt)+" was stopped", "cancelled"
		}
		list = append(list, failed)
	}
	if !j.ClaimedAt.IsZero() && (j.State == dibs.Running || j.State == dibs.Completed) {
		list = append(list, step{At: j.ClaimedAt, Name: "attempt " + count(j.Attempt) + " started", State: "running", Worker: j.Worker, Text: "after a wait of " + roughly(j.ClaimedAt.Sub(j.RunAt))})
	}
	switch {
	case j.State.Final():
		ended := step{At: j.FinishedAt, Name: string(j.State), State: string(j.State)}
		if j.State == dibs.Completed {
			ended.Text = "it ran for " + roughly(j.FinishedAt.Sub(j.ClaimedAt))
		}
		list = append(list, ended)
	case j.State == dibs.Running:
		list = append(list, step{At: j.LeaseUntil, Name: "its lease ends, unless its worker extends it", State: "later"})
	default:
		next := step{At: j.RunAt, Name: "attempt " + count(j.Attempt+1) + " may start", State: "later"}
		if j.HeldUntil.After(next.At) {
			next.At, next.Text = j.HeldUntil, "held by a rate"
		}
		if wait := blockedBy(j); wait != "" {
			next.Name = "attempt " + count(j.Attempt+1) + " waits for " + wait
			if next.At.After(time.Now()) {
				next.Name += ", and not to start before"
			} else {
				next.At = time.Time{}
			}
		}
		list = append(list, next)
	}
	return list
}

// blockedBy says what keeps a blocked job from starting, whatever the time.
func blockedBy(j *dibs.RawJob) string {
	switch {
	case j.State != dibs.Blocked:
		return ""
	case j.WaitsFor > 0:
		return "the end of " + plural(j.WaitsFor, "job")
	case j.Group != "":
		return "its turn in its group"
	}
	return "" // the jobs that it comes after have ended just now
}

type workersView struct {
	Workers []workerRow
}

// workerRow is a worker with the jobs that it runs.
type workerRow struct {
	dibs.WorkerInfo
	Jobs []*dibs.RawJob
	More bool
}

// maxHeld is how many running jobs the page of workers reads.
const maxHeld = 500

// workers shows the register of workers, and which jobs each of them runs.
func (p *Page) workers(r *request) (any, error) {
	now, err := p.looks.get(r.Context())
	if err != nil {
		return nil, err
	}
	if now.table {
		return nil, &refusal{http.StatusNotImplemented, "An adopted table keeps no register of its workers."}
	}
	held := map[string][]*dibs.RawJob{}
	running := int64(0)
	for _, q := range now.stats {
		running += q.Running
	}
	more := running > maxHeld
	if n := int(min(running, maxHeld)); n > 0 && r.who.Reads("") {
		// The limit is the number of running jobs: to find that there are no more, the database would look through
		// all claims whose leases have not ended, even if their jobs have.
		page, err := p.Jobs(r.Request, admin.Filter{State: dibs.Running, Limit: n})
		if err != nil {
			return nil, err
		}
		more = more || len(page.Jobs) < n && page.Next != "" // a page of large jobs ends early
		for _, j := range page.Jobs {
			held[j.Worker] = append(held[j.Worker], j)
		}
	}
	var v workersView
	for _, w := range now.workers {
		w.Queues = slices.DeleteFunc(slices.Clone(w.Queues), func(q string) bool { return !r.who.Reads(q) })
		if len(w.Queues) > 0 {
			v.Workers = append(v.Workers, workerRow{w, held[w.Name], more})
		}
		delete(held, w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(held)) { // workers that do not register, such as 'dibs claim'
		row := workerRow{dibs.WorkerInfo{Name: name}, held[name], more}
		for _, j := range row.Jobs {
			row.Queues = append(row.Queues, j.Queue)
		}
		slices.Sort(row.Queues)
		row.Queues = slices.Compact(row.Queues)
		v.Workers = append(v.Workers, row)
	}
	return v, nil
}

type schedulesView struct {
	Schedules []scheduleRow
}

type scheduleRow struct {
	dibs.Schedule
	Admin bool
	Late  bool   // a tick should have made its job, and has not
	Why   string // why the schedule is late
	Todo  string // what to do about it
}

// schedules shows all schedules.
func (p *Page) schedules(r *request) (any, error) {
	now, err := p.looks.get(r.Context())
	if err != nil {
		return nil, err
	}
	list, err := p.DB.Schedules(r.Context())
	if err != nil {
		return nil, err
	}
	var v schedulesView
	for _, s := range list {
		if !r.who.Reads(s.Queue) {
			continue
		}
		row := scheduleRow{Schedule: s, Admin: r.who.Changes(s.Queue), Late: holdups.Late(s, time.Now())}
		if row.Late {
			row.Why, row.Todo = lateness(now, s, r.who)
		}
		v.Schedules = append(v.Schedules, row)
	}
	return v, nil
}

type changesView struct {
	Changes []admin.Change
}

// shownChanges is how many changes the page lists.
const shownChanges = 500

// changes shows what people have changed by the page and by the API. Only those who may look at all queues see it.
func (p *Page) changes(r *request) (any, error) {
	if err := r.mayRead(""); err != nil {
		return nil, err
	}
	list, err := p.DB.Changes(r.Context(), shownChanges)
	return changesView{list}, err
}

// keys explains the keyboard.
func (p *Page) keys(*request) (any, error) { return nil, nil }
