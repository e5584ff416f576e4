package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/failures"
)

// bulkChange is what can be done with many jobs at once.
type bulkChange struct {
	Verb       string // the path's last part, and the word of the log
	Do, Button string
	One, Many  string // what has become of a job, and of several
	Danger     bool
	Says       string // what becomes of the jobs
	run        func(dibs.Admin, context.Context, []int64, time.Time) (changed []int64, err error)
}

var (
	requeueFailures = bulkChange{
		Verb: "requeue", Do: "Put back to waiting", Button: "Put back", One: "waits again", Many: "wait again", run: dibs.Admin.RequeueDead,
		Says: "They are due at once, with all their attempts allowed again, and keep their history.",
	}
	pruneFailures = bulkChange{
		Verb: "prune", Do: "Delete", Button: "Delete", One: "is deleted", Many: "are deleted", Danger: true, run: dibs.Admin.DeleteDead,
		Says: "They are deleted for good, with their payloads and errors.",
	}
)

// How much one request changes at most, so that none takes long. The page then asks for the next.
const (
	bulkBatch = 500
	bulkJobs  = 2000
	bulkTime  = 2 * time.Second
	bulkNamed = 20 // jobs that the question names
)

// question asks whether many jobs are to be changed, or says how far that has come.
type question struct {
	bulkChange
	Queue   string
	Total   int // how many jobs were to be changed when that was confirmed
	Changed int
	Left    int
	Looked  int // how many jobs of a list have been looked at
	Sure    bool
	IDs     []int64 // some of them
	Note    string  // It says which jobs are not touched.
	Path    string  // where the form leads, from the root
	Back    string
	Hidden  [][2]string // what the form sends
	About   string      // It says in words which jobs these are.

	// Of failures, in place of About.
	Kind, Fingerprint string
	From, Until       time.Time // when the first and the last of the jobs died
}

// bulkView is the question for a group of failures.
type bulkView struct {
	question
	Key         string // It names the group.
	First, Last int64  // ids of the jobs that died first and last: several may have died at one time
	Full        bool   // the queue may have more dead jobs than were read
}

// changeFailures requeues or deletes the jobs of a group of failures, among the last MaxFailures dead jobs of the
// queue. The first request only says which jobs these would be. The ones that confirm it change those that had died
// by then and still are dead, so many at a time, until none is left.
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
		changed, left, err := p.runBulk(r.Context(), &v)
		v.Changed, v.Left = v.Changed+changed, left
		if changed > 0 {
			p.audit(r, c.Verb+" failures", changed, "queue "+v.Queue+", kind "+v.Kind+": "+v.Fingerprint)
		}
		if err != nil {
			return "", "", err
		}
		if left > 0 && changed > 0 {
			return p.ask(r, v.fields())
		}
		return "/" + v.Back, v.result(), nil
	}
}

// confirmed reads which jobs a form is for.
func (v *bulkView) confirmed(r *request) (err error) {
	for name, n := range map[string]*int{"total": &v.Total, "changed": &v.Changed} {
		if *n, err = strconv.Atoi(r.PostFormValue(name)); err != nil || *n < 0 {
			return &dibs.InvalidError{Field: name, Reason: "must be a whole number"}
		}
	}
	for name, id := range map[string]*int64{"first": &v.First, "last": &v.Last} {
		if *id, err = strconv.ParseInt(r.PostFormValue(name), 10, 64); err != nil {
			return &dibs.InvalidError{Field: name, Reason: "must be the id of a job"}
		}
	}
	for name, at := range map[string]*time.Time{"from": &v.From, "until": &v.Until} {
		if *at, err = time.Parse(time.RFC3339Nano, r.PostFormValue(name)); err != nil {
			return &dibs.InvalidError{Field: name, Reason: "must be a time"}
		}
	}
	return nil
}

// among reports whether a dead job is one of those that were confirmed.
func (v *bulkView) among(f dibs.Failure) bool {
	return cmp.Or(f.At.Compare(v.From), cmp.Compare(f.ID, v.First)) >= 0 && cmp.Or(f.At.Compare(v.Until), cmp.Compare(f.ID, v.Last)) <= 0
}

// result says what has become of the jobs in the end.
func (v bulkView) result() string {
	text := v.did()
	if v.Changed < v.Total {
		text += fmt.Sprintf(", of %s: the others were changed meanwhile, or are locked, or are not among the last %s dead jobs of the queue any more", count(v.Total), count(dibs.MaxFailures))
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

// fields is the question with what its form sends.
func (v bulkView) fields() question {
	q := v.question
	q.Hidden = [][2]string{
		{"sure", "yes"},
		{"queue", v.Queue},
		{"kind", v.Kind},
		{"group", v.Key},
		{"from", stamp(v.From)},
		{"until", stamp(v.Until)},
		{"first", fmt.Sprint(v.First)},
		{"last", fmt.Sprint(v.Last)},
		{"total", fmt.Sprint(v.Total)},
		{"changed", fmt.Sprint(v.Changed)},
	}
	q.Note = "Jobs that die from now on are not touched."
	if v.Full {
		q.Note += " Only the last " + count(dibs.MaxFailures) + " dead jobs of the queue were looked at: older ones of the same group stay dead until you do this again."
	}
	return q
}

// ask answers with a question.
func (p *Page) ask(r *request, q question) (to, done string, err error) {
	p.write(r, http.StatusOK, "bulk", q)
	return answered, "", nil
}

// askBulk shows which jobs of a group would be changed.
func (p *Page) askBulk(r *request, v bulkView) (to, done string, err error) {
	if _, err := p.queueNow(r, v.Queue); err != nil {
		return "", "", err
	}
	list, full, err := v.members(r.Context(), p.DB)
	if err != nil {
		return "", "", err
	}
	if len(list) == 0 {
		return "", "", &refusal{409, "No dead job of this group is left."}
	}
	v.Total, v.Full = len(list), full
	first, last := list[len(list)-1], list[0]
	v.From, v.First, v.Until, v.Last = first.At, first.ID, last.At, last.ID
	for _, f := range list[:min(len(list), bulkNamed)] {
		v.IDs = append(v.IDs, f.ID)
	}
	return p.ask(r, v.fields())
}

// members are the dead jobs of the group, the last died first; once they are confirmed, those that had died by then.
func (v *bulkView) members(ctx context.Context, db dibs.Admin) (list []dibs.Failure, full bool, err error) {
	all, err := db.Failures(ctx, v.Queue, dibs.MaxFailures)
	if err != nil {
		return nil, false, err
	}
	for _, f := range all {
		if v.Sure && !v.among(f) || f.Queue != v.Queue || f.Kind != v.Kind {
			continue
		}
		if fingerprint := failures.Fingerprint(f.Error); keyOf(fingerprint) == v.Key {
			v.Fingerprint, list = fingerprint, append(list, f)
		}
	}
	return list, len(all) == dibs.MaxFailures, nil
}

// runBulk changes some of the jobs, a batch at least. What others have put back since they were confirmed, the
// database leaves alone.
func (p *Page) runBulk(ctx context.Context, v *bulkView) (changed, left int, err error) {
	begin := time.Now()
	list, _, err := v.members(ctx, p.DB)
	if err != nil {
		return 0, 0, err
	}
	list = list[:min(len(list), max(0, v.Total-v.Changed))]
	for left = len(list); left > 0 && changed < bulkJobs && (changed == 0 || time.Since(begin) < bulkTime); {
		var ids []int64
		for _, f := range list[len(list)-left:][:min(left, bulkBatch)] {
			ids = append(ids, f.ID)
		}
		done, err := v.run(p.DB, ctx, ids, v.Until)
		changed, left = changed+len(done), left-len(ids)
		if err != nil {
			return changed, left, err
		}
	}
	return changed, left, nil
}
