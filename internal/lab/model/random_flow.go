package model

import (
	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
)

var (
	refs     = rapid.SampledFrom([]string{"r", "s"})
	askedFor = rapid.SampledFrom([]dibs.Need{"", dibs.NeedCompleted, dibs.NeedEnded, dibs.NeedFailed})
)

// randomAfter has a job come after others, of its call or of earlier ones, and others after it.
func (r *Run) randomAfter(t *rapid.T, j *dibs.NewJob) {
	if rapid.IntRange(0, 2).Draw(t, "with ref") > 0 {
		j.Ref = refs.Draw(t, "ref")
	}
	if j.IfHeld == dibs.HeldReplace || j.IfHeld == dibs.HeldPush || rapid.IntRange(0, 2).Draw(t, "follows") == 0 {
		return
	}
	need := askedFor.Draw(t, "need") // one for all: a ref and an id may name the same job
	all := r.m.find(func(*job) bool { return true })
	for range rapid.IntRange(1, 2).Draw(t, "after") {
		d := dibs.Dep{On: need}
		switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
		case what < 5 || len(all) == 0:
			if d.Ref = refs.Draw(t, "other"); d.Ref == j.Ref {
				continue
			}
		case what == 9 && j.UniqueKey == "":
			d.ID = r.someJob(t)
		default:
			d.ID = rapid.SampledFrom(all).Draw(t, "job").ID
		}
		j.After = append(j.After, d)
	}
}

// randomAdd are jobs that an attempt adds.
func randomAdd(t *rapid.T) []dibs.NewJob {
	jobs := make([]dibs.NewJob, rapid.IntRange(1, 2).Draw(t, "added"))
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: queues.Draw(t, "queue"), Kind: kinds.Draw(t, "kind"), Ref: "x"}
		if jobs[i].Queue == "a" && rapid.Bool().Draw(t, "grouped") {
			jobs[i].Group = groups.Draw(t, "group")
		}
	}
	if last := &jobs[len(jobs)-1]; len(jobs) > 1 && rapid.Bool().Draw(t, "chained") {
		last.Ref, last.After = "", []dibs.Dep{{Ref: "x"}}
	}
	return jobs
}
