package jobs

import (
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// afterFlag is the value of a flag: ids of jobs with commas between them. The flag can be given several times.
type afterFlag struct {
	deps *[]dibs.Dep // shared by the flags, in the order in which they are given
	on   dibs.Need
}

func (f afterFlag) Set(s string) error {
	for text := range strings.SplitSeq(s, ",") {
		id, err := cmdline.ParseID(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%.40q is no job's number; write for example 17 or 17,18", text)
		}
		*f.deps = append(*f.deps, dibs.Dep{ID: id, On: f.on})
	}
	return nil
}

func (f afterFlag) String() string { return "" }

func (f afterFlag) Type() string { return "ids" }

// refs follows the refs of a file's jobs over the calls in which they are enqueued: a job can come after
// those of an earlier call, which then have ids.
type refs struct {
	used bool // some job has a ref, or names one

	// For the first reading.
	known map[string]bool  // refs of the jobs so far
	named map[string]named // refs that a job has named before any job had them

	// For the second reading.
	ids   map[string][]int64 // jobs that are enqueued
	chunk map[string]int     // how many jobs of the chunk have a ref
}

// named is where a ref is named.
type named struct {
	line  int
	field string
}

func newRefs() *refs {
	return &refs{known: map[string]bool{}, named: map[string]named{}, ids: map[string][]int64{}, chunk: map[string]int{}}
}

// usesRefs reports whether a job has a ref, or names one.
func usesRefs(job *dibs.NewJob) bool {
	if job.Ref != "" {
		return true
	}
	for _, d := range job.After {
		if d.Ref != "" {
			return true
		}
	}
	return false
}

// check takes the next job of the file. If it has a ref that an earlier job has named already, it returns
// the line of that job, and an error about it.
func (r *refs) check(line int, job *dibs.NewJob) (int, error) {
	if !usesRefs(job) {
		return 0, nil
	}
	r.used = true
	for n, d := range job.After {
		if _, is := r.named[d.Ref]; !is && d.Ref != "" && !r.known[d.Ref] {
			r.named[d.Ref] = named{line, fmt.Sprintf("after[%d]", n)}
		}
	}
	if job.Ref == "" {
		return 0, nil
	}
	if at, is := r.named[job.Ref]; is {
		return at.line, &dibs.InvalidError{Field: at.field, Reason: fmt.Sprintf("the jobs with ref %q must stand earlier in the file; one stands in line %d", job.Ref, line)}
	}
	r.known[job.Ref] = true
	return 0, nil
}

// jobsBefore counts the jobs that a job comes after.
func (r *refs) jobsBefore(job *dibs.NewJob) (n int) {
	for _, d := range job.After {
		if d.Ref == "" {
			n++
		} else {
			n += len(r.ids[d.Ref]) + r.chunk[d.Ref]
		}
	}
	return n
}

// resolve names jobs of earlier calls by their ids, and adds a job to the chunk. Entries keep their places, for errors name
// them by these; what has no place is appended.
func (r *refs) resolve(job *dibs.NewJob) {
	var after, more []dibs.Dep
	for _, d := range job.After {
		ids := r.ids[d.Ref]
		if d.Ref == "" || len(ids) == 0 {
			after = append(after, d)
			continue
		}
		if r.chunk[d.Ref] > 0 {
			after = append(after, d)
		} else {
			after, ids = append(after, dibs.Dep{ID: ids[0], On: d.On}), ids[1:]
		}
		for _, id := range ids {
			more = append(more, dibs.Dep{ID: id, On: d.On})
		}
	}
	if job.After = append(after, more...); job.Ref != "" {
		r.chunk[job.Ref]++
	}
}

// enqueued notes the ids of a chunk.
func (r *refs) enqueued(jobs []dibs.NewJob, got []dibs.Enqueued) {
	clear(r.chunk)
	for i := range jobs {
		if ref := jobs[i].Ref; ref != "" {
			r.ids[ref] = append(r.ids[ref], got[i].ID)
		}
	}
}
