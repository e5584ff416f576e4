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

// bulkChange is what can be done with a group of failures.
type bulkChange struct {
	Verb       string // the path's last part, and the word of the log
	Do, Button string
	Did        string
	Danger     bool
	run        func(dibs.Admin, context.Context, []int64, time.Time) ([]int64, error)
}

var (
	requeueFailures = bulkChange{
		Verb: "requeue", Do: "Put back to waiting", Button: "Put back", Did: "waits again", run: dibs.Admin.RequeueDead,
	}
	pruneFailures = bulkChange{
		Verb: "prune", Do: "Delete", Button: "Delete", Did: "is deleted", Danger: true, run: dibs.Admin.DeleteDead,
	}
)

// How much one request changes at most, so that none takes long. The page then asks for the next.
const (
	bulkBatch = 500
	bulkJobs  = 2000
	bulkTime  = 2 * time.Second
)

// bulkView asks whether a group is to be changed, or says how far that has come.
type bulkView struct {
	bulkChange
	Queue, Kind, Key string    // which group it is
	Fingerprint      string    // once one of its jobs has been found
	From, Until      time.Time // when the first and the last of the jobs died
	First, Last      int64     // their ids: several jobs may have died at one time
	Total            int       // how many jobs were to be changed when that was confirmed
	Changed          int
	Left             int
	Sure             bool
	Full             bool // the queue may have more dead jobs than were read
	Example          string
	IDs              []int64
	Back             string
}

// changeFailures requeues or deletes the jobs of a group of failures, among the last MaxFailures dead jobs of the
// queue. The first request only says which jobs these would be. The ones that confirm it change those that had died
// by then and still are dead, so many at a time, until none is left.
func (p *Page) changeFailures(c bulkChange) action {
	return func(r *request) (to, done string, err error) {
		v := bulkView{
			bulkChange: c, Queue: r.PostFormValue("queue"), Kind: r.PostFormValue("kind"), Key: r.PostFormValue("group"),
			Sure: r.PostFormValue("sure") != "", Back: "/failures?queue=" + url.QueryEscape(r.PostFormValue("queue")),
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
			p.write(r, http.StatusOK, "bulk", v)
			return answered, "", nil
		}
		return v.Back, v.result(), nil
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
	text := verb(int64(v.Changed), "job "+v.Did, "jobs "+map[string]string{"requeue": "wait again", "prune": "are deleted"}[v.Verb])
	if v.Changed < v.Total {
		text += fmt.Sprintf(", of %s: the others were changed meanwhile, or are locked, or are not among the last %s dead jobs of the queue any more", count(v.Total), count(dibs.MaxFailures))
	}
	return text + "."
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
	v.From, v.First, v.Until, v.Last, v.Example = first.At, first.ID, last.At, last.ID, last.Error
	for _, f := range list[:min(len(list), 20)] {
		v.IDs = append(v.IDs, f.ID)
	}
	p.write(r, http.StatusOK, "bulk", v)
	return answered, "", nil
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
