package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/failures"
)

// bulkChange is one kind of change that can be made to many jobs at once.
type bulkChange struct {
	Verb       string // last part of the path, and the verb in the log
	Do, Button string
	One, Many  string // what has become of one job, and of several jobs
	Danger     bool
	Says       string // sentence about what will become of the jobs
	run        func(admin.Database, context.Context, []int64, time.Time) (changed []int64, err error)
}

var (
	requeueEnded = bulkChange{
		Verb: "requeue", Do: "Requeue", Button: "Requeue", One: "waits again", Many: "wait again", run: admin.Database.Requeue,
		Says: "They are due at once, with all their attempts allowed again, and keep their history.",
	}
	deleteEnded = bulkChange{
		Verb: "prune", Do: "Delete", Button: "Delete", One: "is deleted", Many: "are deleted", Danger: true, run: admin.Database.DeleteEnded,
		Says: "They are deleted for good, with their payloads and errors.",
	}
)

// These limit how much one request changes, so that none takes long. The page then sends the next request.
const (
	bulkBatch = 500
	bulkJobs  = 2000
	bulkTime  = 2 * time.Second
	bulkNamed = 20 // how many jobs the question names
)

// question is a page that asks whether to change many jobs, or says how far the change has come.
type question struct {
	bulkChange
	Queue   string
	Total   int // how many jobs were to be changed at the time of the confirmation; 0: not known
	Least   int // how many jobs are to be changed at least, if Total is not known
	Changed int
	Left    int
	Looked  int // how many jobs the search has looked at
	All     int // how many jobs the search has to look at; 0: not known
	Sure    bool
	IDs     []int64 // ids of some of the jobs
	Note    string  // sentence about jobs that are not touched
	Path    string  // path to which the form is sent, from the root
	Back    string
	Hidden  [][2]string // names and values of hidden fields in the form
	About   string      // which jobs these are, in words

	// The fields below are set in questions about failures, in place of About.
	Kind, Fingerprint string
	From, Until       time.Time // when the first and the last of the jobs died; From is known only together with Total
}

// bulkView is the question for a group of failures.
type bulkView struct {
	question
	Key  string        // names the group in forms
	Last int64         // id of the job that died last: several jobs may have died at the same time
	next admin.Failure // the job looked at last: the search goes on after it
	done bool          // all dead jobs of the queue have been looked at
}

// changeFailures requeues or deletes the jobs of a group of failures. The first request only says which jobs these
// would be. The requests that confirm it go through all dead jobs of the queue, some at a time, until all have
// been looked at. They change the jobs of the group that had died by the time of the question and are still dead.
func (p *Page) changeFailures(c bulkChange) action {
	return func(r *request) (to, done string, err error) {
		v := bulkView{
			question: question{
				bulkChange: c, Queue: r.PostFormValue("queue"), Kind: r.PostFormValue("kind"), Sure: r.PostFormValue("sure") != "",
				Path: "failures/" + c.Verb, Back: "failures?queue=" + url.QueryEscape(r.PostFormValue("queue")),
			},
			Key: r.PostFormValue("group"),
		}
		if v.Queue == "" {
			return "", "", &dibs.InvalidError{Field: "queue", Reason: "must be given"}
		}
		if err := r.mayChange(v.Queue); err != nil {
			return "", "", err
		}
		if !v.Sure {
			return p.askBulk(r, v)
		}
		if err := v.confirmed(r); err != nil {
			return "", "", err
		}
		changed, err := p.runBulk(r.Context(), &v)
		v.Changed += changed
		if changed > 0 {
			p.audit(r, c.Verb+" failures", changed, "queue "+v.Queue+", kind "+v.Kind+": "+v.Fingerprint)
		}
		if err != nil {
			return "", "", err
		}
		if !v.done {
			return p.ask(r, v.fields())
		}
		return "/" + v.Back, v.result(), nil
	}
}

// confirmed reads from a form which jobs were confirmed.
func (v *bulkView) confirmed(r *request) (err error) {
	for name, n := range map[string]*int{"total": &v.Total, "changed": &v.Changed, "looked": &v.Looked, "all": &v.All} {
		if *n, err = strconv.Atoi(r.PostFormValue(name)); err != nil || *n < 0 {
			return &dibs.InvalidError{Field: name, Reason: "must be a whole number"}
		}
	}
	for name, id := range map[string]*int64{"next": &v.next.ID, "last": &v.Last} {
		if *id, err = strconv.ParseInt(r.PostFormValue(name), 10, 64); err != nil {
			return &dibs.InvalidError{Field: name, Reason: "must be the id of a job"}
		}
	}
	for name, at := range map[string]*time.Time{"at": &v.next.At, "until": &v.Until} {
		if *at, err = time.Parse(time.RFC3339Nano, r.PostFormValue(name)); err != nil {
			return &dibs.InvalidError{Field: name, Reason: "must be a time"}
		}
	}
	return nil
}

// result says at the end what has become of the jobs.
func (v bulkView) result() string {
	text := v.did()
	if v.Changed < v.Total {
		text += fmt.Sprintf(", of %s: the others were changed meanwhile, or are locked", count(v.Total))
	}
	return text + "."
}

// Jobs says how many jobs would be changed.
func (q question) Jobs() string {
	if q.Total == 0 {
		return "all of them"
	}
	return plural(q.Total, "job")
}

// More reports whether the question is about more jobs than it names.
func (q question) More() bool { return q.Total == 0 && len(q.IDs) == bulkNamed || q.Total > len(q.IDs) }

// did says how many jobs were changed, and how.
func (q question) did() string { return verb(int64(q.Changed), "job "+q.One, "jobs "+q.Many) }

// fields returns the question with the hidden fields of its form.
func (v bulkView) fields() question {
	q := v.question
	q.Hidden = [][2]string{
		{"sure", "yes"},
		{"queue", v.Queue},
		{"kind", v.Kind},
		{"group", v.Key},
		{"until", stamp(v.Until)},
		{"last", fmt.Sprint(v.Last)},
		{"at", stamp(v.next.At)},
		{"next", fmt.Sprint(v.next.ID)},
		{"total", fmt.Sprint(v.Total)},
		{"changed", fmt.Sprint(v.Changed)},
		{"looked", fmt.Sprint(v.Looked)},
		{"all", fmt.Sprint(v.All)},
	}
	q.Left = max(0, v.Total-v.Changed)
	return q
}

// ask answers with a question.
func (p *Page) ask(r *request, q question) (to, done string, err error) {
	p.write(r, http.StatusOK, "bulk", q)
	return answered, "", nil
}

// askBulk shows which jobs of a group would be changed. It looks for them among the queue's last MaxFailures dead
// jobs. If none of these belongs to the group, it looks among older ones, for a short while,
// at least among as many again.
func (p *Page) askBulk(r *request, v bulkView) (to, done string, err error) {
	if _, err := p.queueNow(r, v.Queue); err != nil {
		return "", "", err
	}
	now, err := p.looks.get(r.Context())
	if err != nil {
		return "", "", err
	}
	for _, q := range now.stats {
		if q.Queue == v.Queue {
			v.All = int(q.Dead)
		}
	}
	var of []admin.Failure
	before := 0 // how many jobs died after the last one of the group
	for begin := time.Now(); len(of) == 0 && !v.done; {
		list, err := v.read(r.Context(), p.DB, admin.MaxFailures)
		if err != nil {
			return "", "", err
		}
		for _, f := range list {
			switch v.Looked++; {
			case v.has(f):
				of = append(of, f)
			case len(of) == 0:
				before++
			}
		}
		if len(of) == 0 && !v.done && v.Looked >= 2*admin.MaxFailures && time.Since(begin) > bulkTime {
			return "", "", &refusal{409, "No job of this group is among the last " + count(v.Looked) + " dead jobs of the queue."}
		}
	}
	if len(of) == 0 {
		return "", "", &refusal{409, "No dead job of this group is left."}
	}
	if v.Least = len(of); v.done {
		v.Total, v.From = len(of), of[len(of)-1].At
	}
	v.All = max(v.All, v.Looked)
	v.Note = "Jobs that die from now on are not touched."
	if v.Total == 0 {
		v.Note += " How many these are in all is not known yet: " + count(v.Looked) + " of the " + count(v.All) + " dead jobs of the queue have been looked at."
	}
	v.Looked, v.Until, v.Last = before, of[0].At, of[0].ID
	v.next = admin.Failure{At: v.Until, ID: v.Last + 1} // The walk begins with the job that died last.
	for _, f := range of[:min(len(of), bulkNamed)] {
		v.IDs = append(v.IDs, f.ID)
	}
	return p.ask(r, v.fields())
}

// read reads the next dead jobs of the queue. The call after it goes on from there.
func (v *bulkView) read(ctx context.Context, db admin.Database, most int) ([]admin.Failure, error) {
	f := admin.FailureFilter{Queues: []string{v.Queue}, Limit: most}
	if v.next.ID != 0 {
		f.Before = &v.next
	}
	list, err := db.Failures(ctx, f)
	if err != nil {
		return nil, err
	}
	if v.done = len(list) < most; len(list) > 0 {
		v.next = list[len(list)-1]
	}
	return list, nil
}

// has reports whether a dead job belongs to the group.
func (v *bulkView) has(f admin.Failure) bool {
	if f.Kind != v.Kind {
		return false
	}
	fingerprint := failures.Fingerprint(f.Error)
	if keyOf(fingerprint) != v.Key {
		return false
	}
	v.Fingerprint = fingerprint
	return true
}

// runBulk changes some of the jobs: at least one batch, if any are left. Jobs that others have put back since they
// were read stay as they are.
func (p *Page) runBulk(ctx context.Context, v *bulkView) (changed int, err error) {
	for begin := time.Now(); ; {
		list, err := v.read(ctx, p.DB, bulkBatch)
		if err != nil {
			return changed, err
		}
		var ids []int64
		for _, f := range list {
			if v.Looked++; v.has(f) {
				ids = append(ids, f.ID)
			}
		}
		if len(ids) > 0 {
			done, err := v.run(p.DB, ctx, ids, v.Until)
			changed += len(done)
			if err != nil {
				return changed, err
			}
		}
		if v.done || changed+bulkBatch > bulkJobs || time.Since(begin) > bulkTime {
			return changed, nil
		}
	}
}
