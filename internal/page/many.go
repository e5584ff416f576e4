package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/words"
)

// changesOf lists the changes of many jobs that a list of jobs in this state offers. scheduled means the list of those
// whose time has not come.
func changesOf(state dibs.State, scheduled bool) []bulkChange {
	switch {
	case state.Final():
		return []bulkChange{requeueEnded, deleteEnded}
	case scheduled:
		return []bulkChange{cancelJobs, startJobs}
	}
	return []bulkChange{cancelJobs}
}

var (
	cancelJobs = bulkChange{
		Verb: "cancel", Do: "Cancel", Button: "Cancel", Danger: true,
		One: "is cancelled, or its worker asked to stop", Many: "are cancelled, or their workers asked to stop",
		Says: "Jobs that have not started never will; the workers of those that run are asked to stop.",
		run: func(db admin.Database, ctx context.Context, ids []int64, _ time.Time) ([]int64, error) {
			ended, asked, err := db.Cancel(ctx, ids)
			return append(ended, asked...), err
		},
	}
	startJobs = bulkChange{
		Verb: "start", Do: "Make due now", Button: "Make due", One: "is due now", Many: "are due now",
		Says: "They do not wait for their time any more, or for their next attempt.",
		run: func(db admin.Database, ctx context.Context, ids []int64, _ time.Time) ([]int64, error) {
			past := time.Unix(0, 0)
			return db.Edit(ctx, ids, admin.Edit{RunAt: &past})
		},
	}
)

// listVerbs are the verbs of the changes that lists offer.
var listVerbs = []string{cancelJobs.Verb, startJobs.Verb, requeueEnded.Verb, deleteEnded.Verb}

// listView is a question about jobs of a list: about the ticked ones, or all of them.
type listView struct {
	question
	filter filter
	ticked []int64
	until  time.Time // ended jobs are not changed if they ended after this
	last   int64     // other jobs are not changed if their ids are larger, since they came later
}

// changeListed changes jobs of a list. The first request only says which jobs these would be.
func (p *Page) changeListed(word string) action {
	return func(r *request) (to, done string, err error) {
		queue := r.PathValue("queue")
		if err := r.mayChange(queue); err != nil {
			return "", "", err
		}
		if _, err := p.queueNow(r, queue); err != nil {
			return "", "", err
		}
		v, err := listedBy(r, queue, word)
		if err != nil {
			return "", "", err
		}
		if len(v.ticked) > 0 {
			return p.changeTicked(r, v)
		}
		if !v.Sure {
			return p.askListed(r, v)
		}
		changed, err := p.runListed(r, v)
		v.Changed += changed
		p.audit(r, v.Verb+" jobs", changed, "queue "+v.Queue+": "+v.About)
		switch {
		case err != nil:
			return "", "", err
		case v.filter.After != "":
			return p.ask(r, v.fields())
		}
		return "/" + v.Back, v.did() + ".", nil
	}
}

// listedBy reads from a form which jobs it is about.
func listedBy(r *request, queue, word string) (v *listView, err error) {
	v = &listView{question: question{Queue: queue, Sure: r.PostFormValue("sure") != "", Path: "queues/" + segment(queue) + "/jobs/" + word}}
	if v.filter, err = filterOf(queue, r.PostForm); err != nil {
		return nil, err
	}
	offered := changesOf(v.filter.State, v.filter.Scheduled)
	i := slices.IndexFunc(offered, func(c bulkChange) bool { return c.Verb == word })
	if i < 0 {
		return nil, &dibs.InvalidError{Field: "state", Reason: "has no jobs that can be changed so"}
	}
	v.bulkChange = offered[i]
	if v.filter.Since != "" { // written as a fixed time, so that all requests mean the same one
		v.filter.Since = stamp(v.filter.FinishedSince)
	}
	if v.filter.Before != "" {
		v.filter.Before = stamp(v.filter.FinishedBefore)
	}
	v.Back = "queues/" + segment(queue) + v.filter.link(v.filter.State, "")
	v.About = v.filter.words()
	if r.PostFormValue("which") != "all" {
		if len(r.PostForm["id"]) == 0 {
			return nil, &refusal{422, "No job is ticked: tick those that you mean, or choose all jobs of the list."}
		}
		for _, text := range r.PostForm["id"] {
			id, err := jobID(text)
			if err != nil {
				return nil, err
			}
			v.ticked = append(v.ticked, id)
		}
		if len(v.ticked) > jobsOnPage {
			return nil, &dibs.InvalidError{Field: "id", Reason: fmt.Sprintf("must be at most %d, got %d: a list has no more on a page", jobsOnPage, len(v.ticked))}
		}
	}
	if !v.Sure {
		v.filter.After = ""
		return v, nil
	}
	return v, v.confirmed(r)
}

// confirmed reads from a form what it has beside the filter.
func (v *listView) confirmed(r *request) (err error) {
	for name, n := range map[string]*int{"total": &v.Total, "changed": &v.Changed, "looked": &v.Looked} {
		if *n, err = strconv.Atoi(cmp.Or(r.PostFormValue(name), "0")); err != nil || *n < 0 {
			return &dibs.InvalidError{Field: name, Reason: "must be a whole number"}
		}
	}
	if v.last, err = strconv.ParseInt(r.PostFormValue("last"), 10, 64); err != nil {
		return &dibs.InvalidError{Field: "last", Reason: "must be the id of a job"}
	}
	if v.until, err = time.Parse(time.RFC3339Nano, r.PostFormValue("until")); err != nil {
		return &dibs.InvalidError{Field: "until", Reason: "must be a time"}
	}
	return nil
}

// changeTicked asks about the jobs that somebody has ticked, or changes them.
func (p *Page) changeTicked(r *request, v *listView) (to, done string, err error) {
	var ids []int64
	for _, id := range v.ticked {
		j, err := p.Job(r.Request, id)
		if err != nil && !errors.Is(err, dibs.ErrNotFound) {
			return "", "", err
		}
		if err == nil && j.Queue == v.Queue && slices.ContainsFunc(changesOf(j.State, v.filter.Scheduled), func(c bulkChange) bool { return c.Verb == v.Verb }) {
			ids = append(ids, id)
			if !v.Sure && j.FinishedAt.After(v.until) {
				v.until = j.FinishedAt
			}
		}
	}
	if len(ids) == 0 {
		return "", "", &refusal{409, "None of these jobs is left in such a state."}
	}
	if v.Total = len(ids); !v.Sure {
		v.ticked, v.IDs = ids, ids[:min(len(ids), bulkNamed)]
		return p.ask(r, v.fields())
	}
	changed, err := v.run(p.DB, r.Context(), ids, v.until)
	v.Changed = len(changed)
	p.audit(r, v.Verb+" jobs", v.Changed, "queue "+v.Queue+": "+words.Jobs(changed, len(changed)))
	return "/" + v.Back, v.did() + ".", err
}

// askListed shows which jobs of the list would be changed.
func (p *Page) askListed(r *request, v *listView) (to, done string, err error) {
	list, err := p.someListed(r, v)
	if err != nil {
		return "", "", err
	}
	switch {
	case v.filter.After == "":
		v.Total = len(list)
	case !v.filter.Some():
		if v.Total, err = p.countOf(r, v.filter); err != nil {
			return "", "", err
		}
	}
	if len(list) == 0 {
		if v.filter.After != "" {
			return "", "", &refusal{409, "No such job was found among those that could be read in " + roughly(bulkTime) + ": ask for fewer."}
		}
		return "", "", &refusal{409, "No job of this list is left."}
	}
	v.until, v.last, v.filter.After = list[0].FinishedAt, list[0].ID, ""
	for _, j := range list[:min(len(list), bulkNamed)] {
		v.IDs = append(v.IDs, j.ID)
	}
	return p.ask(r, v.fields())
}

// countOf is the number of jobs in the state of a filter, which selects by nothing else.
func (p *Page) countOf(r *request, f filter) (int, error) {
	now, err := p.looks.get(r.Context())
	if err != nil {
		return 0, err
	}
	for _, q := range rows(now) {
		if q.Queue != f.Queue {
			continue
		}
		for _, t := range tabs(q, f) {
			if t.Here && !t.More {
				return int(t.Count), nil
			}
		}
	}
	return 0, nil
}

// someListed reads pages of the list until one has jobs. After a while it gives up and returns none.
func (p *Page) someListed(r *request, v *listView) ([]*dibs.RawJob, error) {
	for begin := time.Now(); ; {
		v.filter.Limit = bulkBatch
		page, err := p.Jobs(r.Request, v.filter.Filter)
		if err != nil {
			return nil, err
		}
		v.filter.After = page.Next
		if len(page.Jobs) > 0 || page.Next == "" || time.Since(begin) > bulkTime {
			return page.Jobs, nil
		}
	}
}

// runListed changes some jobs of the list. The place to go on from is in the filter.
func (p *Page) runListed(r *request, v *listView) (changed int, err error) {
	for begin := time.Now(); ; {
		list, err := p.someListed(r, v)
		if err != nil {
			return changed, err
		}
		v.Looked += len(list)
		var ids []int64
		for _, j := range list {
			if v.confirms(j) {
				ids = append(ids, j.ID)
			}
		}
		if len(ids) > 0 {
			done, err := v.run(p.DB, r.Context(), ids, v.until)
			changed += len(done)
			if err != nil {
				return changed, err
			}
		}
		if v.filter.After == "" || changed+bulkBatch > bulkJobs || time.Since(begin) > bulkTime {
			return changed, nil
		}
	}
}

// confirms reports whether a job was in the list when the change was confirmed.
func (v *listView) confirms(j *dibs.RawJob) bool {
	if j.State.Final() {
		return !j.FinishedAt.After(v.until)
	}
	return j.ID <= v.last
}

// fields is the question with what its form sends.
func (v *listView) fields() question {
	q, f := v.question, v.filter
	q.Left = max(0, q.Total-q.Changed)
	for _, pair := range f.Pairs() {
		q.Hidden = append(q.Hidden, [2]string{pair[0], pair[1]})
	}
	q.Hidden = append(q.Hidden, [][2]string{
		{"sure", "yes"}, {"until", stamp(v.until)}, {"last", fmt.Sprint(v.last)}, {"total", fmt.Sprint(v.Total)}, {"changed", fmt.Sprint(v.Changed)}, {"looked", fmt.Sprint(v.Looked)},
	}...)
	if len(v.ticked) == 0 {
		q.Hidden = append(q.Hidden, [2]string{"which", "all"}, [2]string{"after", f.After})
		q.Note = "Jobs that are enqueued from now on are not touched."
		if f.State.Final() {
			q.Note = "Jobs that end from now on are not touched."
		}
		return q
	}
	q.About = "that you have ticked"
	for _, id := range v.ticked {
		q.Hidden = append(q.Hidden, [2]string{"id", fmt.Sprint(id)})
	}
	return q
}
