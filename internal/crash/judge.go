package crash

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs"
)

// judgement is one comparison of notes and database.
type judgement struct {
	calls   map[string]Note
	known   map[int64]known
	jobs    map[int64]*dibs.RawJob // what is there
	batches map[string][]int64     // new jobs that are there
	asked   map[string]int         // for how many jobs each worker asked without an answer
	found   []string
}

func (j *judgement) say(format string, args ...any) {
	j.found = append(j.found, fmt.Sprintf(format, args...))
}

// fold brings what is known of each job up to the last note.
func (j *judgement) fold() {
	j.batches, j.asked = make(map[string][]int64), make(map[string]int)
	if j.known == nil {
		j.known = make(map[int64]known)
	}
	for id, d := range j.jobs {
		if _, old := j.known[id]; old {
			continue
		}
		var p payload
		if err := json.Unmarshal(d.Payload, &p); err != nil {
			j.say("job %d has payload %s, which nobody gave it", id, d.Payload)
			continue
		}
		j.batches[p.Batch] = append(j.batches[p.Batch], id)
		j.known[id] = known{max: d.MaxAttempts}
	}
	for _, n := range j.calls {
		for _, g := range n.Given {
			if g.Attempt > j.known[g.ID].attempt {
				j.known[g.ID] = known{attempt: g.Attempt, excused: g.Excused, max: g.MaxAttempts, token: g.Token}
			}
		}
		if n.Answer == None {
			j.asked[n.client()] += n.Asked
		}
	}
	for _, n := range j.calls {
		for _, e := range n.Ends {
			k := j.known[e.ID]
			if e.Attempt != k.attempt {
				continue
			}
			switch n.Answer {
			case Done:
				k.end = &e
			case None:
				k.maybe = &e
			}
			j.known[e.ID] = k
		}
	}
}

// judgeCalls expects that each call happened as a whole or not at all, as it was
// answered, and that every new job is of a call.
func (j *judgement) judgeCalls() {
	for _, n := range j.calls {
		j.judgeCall(n)
		delete(j.batches, n.Batch)
	}
	for batch, ids := range j.batches {
		j.say("jobs %v of batch %q come from nowhere", ids, batch)
	}
}

// judgeCall counts the parts of a call that happened. What was rolled back and
// happened all the same shows by its batch, and if there is none by the job itself:
// the client may have ended the attempt by a later call.
func (j *judgement) judgeCall(n Note) {
	happened, parts := 0, 0
	if n.Batch != "" {
		parts++
		if j.present(n) {
			happened++
		}
	}
	if n.Answer == Nothing {
		if happened > 0 {
			j.say("%s was told that call %d did nothing: its batch is there", n.Client, n.Call)
		}
		return
	}
	for _, e := range n.Ends {
		parts++
		if j.happened(e) {
			happened++
		}
	}
	switch {
	case n.Answer == Done && happened < parts:
		j.say("%s was told that call %d is done: %d of its %d parts are there", n.Client, n.Call, happened, parts)
	case n.Answer == None && happened > 0 && happened < parts:
		j.say("%s got no answer to call %d: %d of its %d parts are there", n.Client, n.Call, happened, parts)
	}
}

// happened reports whether an outcome took effect: its attempt is over.
func (j *judgement) happened(e Ending) bool {
	d := j.jobs[e.ID]
	return d != nil && (d.Attempt > e.Attempt || d.Attempt == e.Attempt && (d.State != dibs.Running || d.Token != e.Token))
}

// present reports whether a batch is there; if so, it has to be whole, and to have
// the ids that the answer named.
func (j *judgement) present(n Note) bool {
	ids := j.batches[n.Batch]
	if len(ids) == 0 {
		return false
	}
	var p payload
	_ = json.Unmarshal(j.jobs[ids[0]].Payload, &p) // it could be read before
	slices.Sort(ids)
	switch {
	case len(ids) != p.Of:
		j.say("batch %q has %d of its %d jobs", n.Batch, len(ids), p.Of)
	case n.Answer == Done && !slices.Equal(ids, n.IDs):
		j.say("batch %q has jobs %v, %s was told %v", n.Batch, ids, n.Client, n.IDs)
	}
	return true
}

// judgeJobs expects of every job what is known of it, or what calls that were not
// answered can have made of that.
func (j *judgement) judgeJobs() {
	for id, k := range j.known {
		d := j.jobs[id]
		if d == nil {
			j.say("job %d, known with attempt %d, is not there", id, k.attempt)
			continue
		}
		if text := j.judgeJob(k, d); text != "" {
			j.say("job %d is %s in attempt %d: %s", id, d.State, d.Attempt, text)
		}
	}
}

func (j *judgement) judgeJob(k known, d *dibs.RawJob) string {
	running := d.State == dibs.Running && d.Token == k.token
	switch {
	case d.Attempt == k.attempt+1 && d.State == dibs.Running:
		return j.judgeClaim(k, d)
	case d.Attempt != k.attempt:
		return fmt.Sprintf("attempt %d was given", k.attempt)
	case k.end != nil:
		return disagrees(k, d, *k.end)
	case running:
		return ""
	case k.maybe != nil:
		return disagrees(k, d, *k.maybe)
	case !k.token.IsZero():
		return "nobody ended its attempt under " + k.token.String()
	case d.State != dibs.Waiting && d.State != dibs.Blocked:
		return "nobody was given it"
	}
	return ""
}

// judgeClaim expects that an attempt nobody was told of is one that somebody asked
// for, when the job was to be had: for a claim, or for the resume of its worker.
func (j *judgement) judgeClaim(k known, d *dibs.RawJob) string {
	ended := k.token.IsZero()
	for _, e := range []*Ending{k.end, k.maybe} {
		if e != nil && (e.Ending == dibs.EndRetry || e.Ending == dibs.EndSnooze || e.Ending == dibs.EndRelease) {
			ended = true
		}
	}
	if j.asked[d.Worker]--; j.asked[d.Worker] < 0 {
		return fmt.Sprintf("worker %q had not asked for it", d.Worker)
	}
	if !ended && k.worker != d.Worker {
		return "its attempt before was not over"
	}
	return ""
}

// disagrees says how a job differs from what an outcome makes of it.
func disagrees(k known, d *dibs.RawJob, e Ending) string {
	want, excused, text := fate(k, e)
	waits := d.State == dibs.Waiting || d.State == dibs.Blocked
	switch {
	case d.State != want && (want != dibs.Waiting || !waits):
		return fmt.Sprintf("outcome %s makes it %s", e.Ending, want)
	case d.Excused != excused:
		return fmt.Sprintf("outcome %s makes %d of its attempts excused, it has %d", e.Ending, excused, d.Excused)
	case string(d.Result) != string(e.Result):
		return fmt.Sprintf("its result is %s instead of %s", d.Result, e.Result)
	case text != "" && (len(d.Errors) == 0 || d.Errors[len(d.Errors)-1].Error != text):
		return fmt.Sprintf("its history does not end with %q", text)
	}
	return ""
}

func fate(k known, e Ending) (state dibs.State, excused int, text string) {
	switch e.Ending {
	case dibs.EndCompleted:
		return dibs.Completed, k.excused, ""
	case dibs.EndDead:
		return dibs.Dead, k.excused, e.Error
	case dibs.EndCancelled:
		return dibs.Cancelled, k.excused, e.Error
	case dibs.EndRetry:
		if k.attempt-k.excused >= k.max {
			return dibs.Dead, k.excused, e.Error
		}
		return dibs.Waiting, k.excused, e.Error
	default:
		return dibs.Waiting, k.excused + 1, ""
	}
}
