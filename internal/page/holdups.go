package page

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// place is a job that holds a place for which other jobs wait.
type place struct {
	Job   *dibs.RawJob
	Retry bool // it waits for its retry, and keeps its place in its group
}

// maxPlaces is how many jobs that hold places a page lists, of each state.
const maxPlaces = 10

// known implements holdups.Reader from a look: only the kinds of due jobs are read from the database.
type known struct {
	look
	admin.Database
}

func (k known) Queues(context.Context, ...string) ([]dibs.Queue, error) { return k.queues, nil }
func (k known) Workers(context.Context) ([]dibs.WorkerInfo, error)      { return k.workers, nil }

// explain says why a job does not start, and which jobs hold the places that it waits for.
func (p *Page) explain(r *request, v *jobView, now look) error {
	j := v.Job
	i := slices.IndexFunc(now.stats, func(s admin.QueueStats) bool { return s.Queue == j.Queue })
	if i < 0 || j.State != dibs.Blocked && (j.State != dibs.Waiting || j.RunAt.After(time.Now())) {
		return nil
	}
	if now.table { // less is known of an adopted table
		v.Why = alarms(now, rows(now)[i])
		return nil
	}
	w, err := holdups.Read(r.Context(), known{now, p.DB}, now.stats[i:i+1])
	if err != nil {
		return err
	}
	w.Stats = now.stats
	var inGroup, inQueue bool
	for _, h := range w.OfJob(j) {
		if h.Reason == "after" && v.waits != nil {
			v.Why = append(v.Why, *v.waits)
			continue
		}
		bad := slices.Contains([]string{"no_worker", "no_worker_for_kind", "stopping"}, h.Reason)
		v.Why = append(v.Why, alarm{Queue: j.Queue, Text: h.Plain(), Bad: bad})
		inGroup = inGroup || h.Reason == "group"
		inQueue = inQueue || h.Reason == "limit"
	}
	queue := "queues/" + segment(j.Queue)
	switch {
	case inGroup:
		v.More = queue + "?group=" + url.QueryEscape(j.Group)
		strict := slices.ContainsFunc(now.queues, func(q dibs.Queue) bool { return q.Name == j.Queue && q.Strict })
		return p.placesInGroup(r, v, strict)
	case inQueue:
		v.More = queue + "?state=running"
		return p.places(r, v, admin.Filter{Queue: j.Queue, State: dibs.Running}, nil)
	}
	return nil
}

// placesInGroup lists the jobs that hold places of a job's group: running ones and those whose turn it is. In strict
// order, jobs that wait for their retries hold places, too.
func (p *Page) placesInGroup(r *request, v *jobView, strict bool) error {
	f := admin.Filter{Queue: v.Job.Queue, Group: v.Job.Group, State: dibs.Running}
	if err := p.places(r, v, f, nil); err != nil {
		return err
	}
	if len(v.Places) >= v.Job.GroupLimit {
		return nil
	}
	f.State = dibs.Waiting // this state includes jobs whose start has not come, and which have no place yet
	return p.places(r, v, f, func(j *dibs.RawJob) bool { return strict && j.Attempt > 0 || !j.RunAt.After(time.Now()) })
}

func (p *Page) places(r *request, v *jobView, f admin.Filter, holds func(*dibs.RawJob) bool) error {
	f.Limit = maxPlaces
	page, err := p.Jobs(r.Request, f)
	for _, j := range page.Jobs {
		if holds == nil || holds(j) {
			v.Places = append(v.Places, place{j, j.State == dibs.Waiting && j.RunAt.After(time.Now())})
		}
	}
	return err
}
