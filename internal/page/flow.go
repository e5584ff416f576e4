package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

const (
	// flowJobs is how many jobs of each state and part of a flow a page counts, so that its cost does not grow with
	// the flow. All jobs of one call are counted.
	flowJobs = dibs.MaxBatch + 1
	flowRows = 20 // how many rows of each part of a flow a page shows
)

// flowView is a job among those that it comes after, and those that come after it.
type flowView struct {
	Flow   int64
	Parts  []flowPart
	Partly bool    // not all jobs were counted
	Cancel bool    // the viewer may cancel what has not ended of the flow
	Lost   []int64 // some jobs of the flow that are dead or were cancelled, if the viewer may look at all of it
}

// flowPart counts some jobs by queue and kind.
type flowPart struct {
	Title  string
	Rows   []flowRow
	Sum    flowRow // counts the jobs that the viewer may look at
	Kinds  int     // how many queues and kinds have no row of their own
	Rest   flowRow // counts their jobs
	Hidden int64   // how many more jobs are in queues that the viewer may not look at
}

// flowRow counts jobs of a queue and kind. Open, Done, Died and Gone tell that more jobs than these may not have ended,
// be completed, be dead and be cancelled.
type flowRow struct {
	admin.FlowRow
	Open, Done, Died, Gone bool
}

// Most is how many jobs of one state are counted.
func (flowView) Most() int { return flowJobs }

// More tells that the row may count fewer jobs than there are.
func (r flowRow) More() bool { return r.Open || r.EndedMore() }

// EndedMore tells that more jobs than the row counts may have ended.
func (r flowRow) EndedMore() bool { return r.Done || r.Died || r.Gone }

// Percent is how many of the jobs have ended.
func (r flowRow) Percent() string { return percent(r.Ended(), r.Jobs()) }

// around reads what a job comes after, what comes after it, and what its end has done to those. It says so in v.
func (p *Page) around(r *request, v *jobView) error {
	j := v.Job
	var f admin.Flow
	err := p.Look(r.Request, func() (err error) {
		f, err = p.DB.Flow(r.Context(), j.ID, flowJobs)
		return err
	})
	if errors.Is(err, dibs.ErrNotFound) { // the job was deleted just now
		return nil
	} else if err != nil {
		return err
	}
	v.Flow.Flow, v.Flow.Partly, v.After = f.Flow, f.More, len(f.Before) > 0
	before := admin.SumOf(f.Before)
	all := v.Flow.add(r, fmt.Sprint("Flow ", f.Flow), f.All, false)
	v.Flow.add(r, "It comes after", f.Before, true)
	v.Flow.add(r, "After it come", f.After, true)
	v.Flow.Cancel = all.Jobs() > all.Ended() && r.who.Changes("")
	if parts := v.Flow.Parts; len(parts) > 0 && parts[0].Hidden == 0 {
		v.Flow.Lost = f.Lost
	}
	if j.WaitsFor > 0 {
		v.waits = waitsFor(j, f.Open, before)
	}
	if err := p.because(r, v); err != nil || f.Caused == 0 || !f.State.Final() {
		return err
	}
	became := " cancelled because this one "
	if f.State == dibs.Completed {
		became = " not needed, because this one "
	}
	a := alarm{Queue: j.Queue, Text: verb(f.Caused, "job was", "jobs were") + became + endedHow(f.State), Bad: f.State == dibs.Dead}
	if f.Caused == flowJobs {
		a.Text = "at least " + a.Text
	}
	if v.Admin && f.State != dibs.Completed {
		v.Brings = true
		a.Post, a.Button = fmt.Sprintf("jobs/%d/requeue", j.ID), "Requeue it: they come back"
	}
	v.Why = append(v.Why, a)
	return nil
}

// add adds a part of a flow with the rows that the viewer may see, and returns the sum of all rows. The limit is one for
// all jobs around a job; in a flow there is one for those that have not ended, and one for each final state.
func (v *flowView) add(r *request, title string, rows []admin.FlowRow, around bool) flowRow {
	all := flowRow{FlowRow: admin.SumOf(rows)}
	cut := around && all.Jobs() >= flowJobs
	all.Open = cut || all.Jobs()-all.Ended() >= flowJobs
	all.Done = cut || all.Completed >= flowJobs
	all.Died = cut || all.Dead >= flowJobs
	all.Gone = cut || all.Cancelled+all.Unneeded >= flowJobs
	v.Partly = v.Partly || all.More()
	part := flowPart{Title: title}
	var seen, rest []admin.FlowRow
	for _, row := range rows {
		switch one := all; {
		case !r.who.Reads(row.Queue):
			part.Hidden += row.Jobs()
			continue
		case len(part.Rows) < flowRows:
			one.FlowRow = row
			part.Rows = append(part.Rows, one)
		default:
			rest = append(rest, row)
		}
		seen = append(seen, row)
	}
	part.Sum, part.Rest, part.Kinds = all, all, len(rest)
	part.Sum.FlowRow, part.Rest.FlowRow = admin.SumOf(seen), admin.SumOf(rest)
	if len(rows) > 0 {
		v.Parts = append(v.Parts, part)
	}
	return all
}

// waitsFor says for how many jobs a job waits, and which these are.
func waitsFor(j *dibs.RawJob, open []int64, before admin.FlowRow) *alarm {
	a := alarm{Queue: j.Queue, Text: "it waits for the end of " + plural(j.WaitsFor, "job"), Jobs: open}
	switch all := before.Jobs(); {
	case all <= int64(j.WaitsFor): // no more were counted
	case all >= flowJobs:
		a.Text = "it waits for the end of " + count(j.WaitsFor) + " of at least " + plural(all, "job")
	default:
		a.Text = "it waits for the end of " + count(j.WaitsFor) + " of " + plural(all, "job")
	}
	if len(open) > 0 {
		a.Text += ": "
	}
	if j.WaitsFor > len(open) {
		a.More = " …"
	}
	if before.Dead > 0 {
		a.More += "; " + count(before.Dead) + " dead"
	}
	return &a
}

// because says because of what a job was cancelled: the end of another, which may have been deleted since.
func (p *Page) because(r *request, v *jobView) error {
	id := v.Job.Cause
	if id == 0 {
		return nil
	}
	a := alarm{Queue: v.Job.Queue, Text: "it was cancelled because job ", Jobs: []int64{id}, More: ", which it comes after, did not end as it needs"}
	cause, err := p.Job(r.Request, id)
	switch {
	case errors.Is(err, dibs.ErrNotFound):
	case err != nil:
		return err
	case !r.who.Reads(cause.Queue):
	case cause.State.Final():
		a.More = " " + endedHow(cause.State)
		if cause.State != dibs.Completed && v.Job.State.Final() && v.Admin && r.who.Changes(cause.Queue) {
			v.Brings = true
			a.Post, a.Button = fmt.Sprintf("jobs/%d/requeue", id), fmt.Sprintf("Requeue job %d: this one comes back with it", id)
		}
	default:
		a.More = " had not ended as it needs, and is " + string(cause.State) + " again"
	}
	v.Why = append(v.Why, a)
	return nil
}

func endedHow(s dibs.State) string {
	switch s {
	case dibs.Dead:
		return "died"
	case dibs.Completed:
		return "was completed"
	}
	return "was cancelled"
}

// caused counts the jobs that a requeue of a job puts back, because its end has cancelled them.
func (p *Page) caused(r *request, id int64) int {
	f, err := p.DB.Flow(r.Context(), id, flowJobs)
	if err != nil { // an adopted table has none
		return 0
	}
	return int(f.Caused)
}

// cancelFlow cancels the jobs of a flow that have not ended. The first request only says which jobs these would be.
// Followers are cancelled first, so none of them starts meanwhile.
func (p *Page) cancelFlow(r *request) (to, done string, err error) {
	flow, err := jobID(r.PathValue("flow"))
	if err != nil {
		return "", "", err
	}
	if !r.who.Changes("") {
		return "", "", &refusal{http.StatusForbidden, "A flow may have jobs in any queue: to cancel it, a token needs the scope admin for all queues."}
	}
	q := question{bulkChange: cancelJobs, Sure: r.PostFormValue("sure") != "", Path: fmt.Sprintf("flows/%d/cancel", flow), About: fmt.Sprint("of flow ", flow)}
	job, err := jobID(cmp.Or(r.PostFormValue("job"), r.PathValue("flow")))
	if err != nil {
		return "", "", err
	}
	q.Back = fmt.Sprint("jobs/", job)
	next := int64(0)
	if q.Sure {
		if next, err = q.goesOn(r); err != nil {
			return "", "", err
		}
	}
	ids, err := p.DB.FlowJobs(r.Context(), flow, "", next)
	if err != nil {
		return "", "", err
	}
	if !q.Sure {
		if len(ids) == 0 {
			return "", "", &refusal{http.StatusConflict, fmt.Sprintf("No job of flow %d is left that has not ended.", flow)}
		}
		if len(ids) < dibs.MaxBatch {
			q.Total = len(ids)
		}
		q.IDs, q.Note, next = ids[:min(len(ids), bulkNamed)], "Jobs that are added from now on are not touched.", ids[0]+1
		return p.ask(r, q.ofFlow(job, next))
	}
	changed, next, err := p.runFlow(r, ids)
	q.Changed += changed
	p.audit(r, "cancel jobs", changed, fmt.Sprint("flow ", flow))
	switch {
	case err != nil:
		return "", "", err
	case next != 0:
		return p.ask(r, q.ofFlow(job, next))
	}
	if _, err := p.Job(r.Request, job); err != nil { // its queue may keep no cancelled jobs
		q.Back = ""
	}
	return "/" + q.Back, q.did() + ".", nil
}

// goesOn reads from a form how far the change of a flow has come, and the id below which it goes on.
func (q *question) goesOn(r *request) (next int64, err error) {
	for name, n := range map[string]*int{"total": &q.Total, "changed": &q.Changed} {
		if *n, err = strconv.Atoi(r.PostFormValue(name)); err != nil || *n < 0 {
			return 0, &dibs.InvalidError{Field: name, Reason: "must be a whole number"}
		}
	}
	if next, err = strconv.ParseInt(r.PostFormValue("next"), 10, 64); err != nil || next < 1 {
		return 0, &dibs.InvalidError{Field: "next", Reason: "must be the id of a job"}
	}
	return next, nil
}

// ofFlow is the question with the hidden fields of its form.
func (q question) ofFlow(job, next int64) question {
	q.Left, q.Looked = max(0, q.Total-q.Changed), q.Changed
	q.Hidden = [][2]string{
		{"sure", "yes"}, {"job", fmt.Sprint(job)}, {"next", fmt.Sprint(next)}, {"total", fmt.Sprint(q.Total)}, {"changed", fmt.Sprint(q.Changed)},
	}
	return q
}

// runFlow cancels some of the jobs of a flow, and returns the id below which the next request goes on; 0: none is left.
func (p *Page) runFlow(r *request, ids []int64) (changed int, next int64, err error) {
	full := len(ids) == dibs.MaxBatch
	for begin := time.Now(); len(ids) > 0; {
		part := ids[:min(len(ids), bulkBatch)]
		done, err := cancelJobs.run(p.DB, r.Context(), part, time.Time{})
		changed += len(done)
		if err != nil {
			return changed, 0, err
		}
		next, ids = part[len(part)-1], ids[len(part):]
		if changed+bulkBatch > bulkJobs || time.Since(begin) > bulkTime {
			break
		}
	}
	if len(ids) == 0 && !full {
		next = 0
	}
	return changed, next, nil
}
