package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
)

// Edge says that a job comes after another.
type Edge struct {
	Place int   // the other's place in the call, if it has no ID yet
	ID    int64 // the other, if it exists already; 0: it is in the same call
	Need  dibs.Need
	At    int // its place in the job's After
}

// NoJob is the error for an edge to a job that does not exist; place is that of the edge's job in its call.
func NoJob(place int, e Edge) error {
	return inBatch(invalid(fmt.Sprintf("after[%d]", e.At), "there is no job %d", e.ID), "jobs", place)
}

// ParentIDs are the jobs that new ones come after by id, each once.
func ParentIDs(rows []Row) []int64 {
	return parents(rows, func(_ int, e Edge) int64 { return e.ID })
}

// Holders are the jobs that hold unique keys of a call and that its new jobs come after, each once.
func Holders(rows []Row, done []dibs.Enqueued) []int64 {
	return parents(rows, func(i int, e Edge) int64 {
		if e.ID != 0 || done[i].Existing || !done[e.Place].Existing {
			return 0
		}
		return done[e.Place].ID
	})
}

// parents lists what of gives for all edges of a call, but 0.
func parents(rows []Row, of func(i int, e Edge) int64) (ids []int64) {
	for i := range rows {
		for _, e := range rows[i].Edges {
			if id := of(i, e); id != 0 {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// NoneMissing refuses a call with a job that comes after one by id that is missing.
func NoneMissing(rows []Row, missing func(id int64) bool) error {
	for i := range rows {
		for _, e := range rows[i].Edges {
			if e.ID != 0 && missing(e.ID) {
				return NoJob(i, e)
			}
		}
	}
	return nil
}

// Needs are the jobs that the job at place i of a call comes after, and what it needs of their ends. Of jobs that held a
// key and are gone it needs nothing. An id and a ref may name one job: if they ask for opposite ends, the first one counts.
func Needs(rows []Row, done []dibs.Enqueued, i int, gone func(id int64) bool) map[int64]dibs.Need {
	needs := make(map[int64]dibs.Need, len(rows[i].Edges))
	for _, e := range rows[i].Edges {
		parent := e.ID
		if e.ID == 0 {
			if parent = done[e.Place].ID; done[e.Place].Existing && gone(parent) {
				continue
			}
		}
		if other := needs[parent]; other == "" || other == dibs.NeedEnded {
			needs[parent] = e.Need
		}
	}
	return needs
}

// edges resolves the refs of a call: afterwards each row's Edges has every job that it comes after once.
func edges(jobs []dibs.NewJob, rows []Row) error {
	if !hasFlows(jobs) {
		return nil
	}
	last := make(map[string]int) // where a ref stands last in the call
	for i := range jobs {
		if err := optionalName("ref", jobs[i].Ref); err != nil {
			return inBatch(err, "jobs", i)
		}
		if jobs[i].Ref != "" {
			last[jobs[i].Ref] = i
		}
	}
	places, all := make(map[string][]int), 0
	for i := range jobs {
		before, err := edgesOf(&jobs[i], i, places, last)
		if err != nil {
			return inBatch(err, "jobs", i)
		}
		rows[i].Edges = before
		if all += len(before); all > dibs.MaxAfter {
			return inBatch(invalid("after", "the jobs of one call come after more than %d others in all", dibs.MaxAfter), "jobs", i)
		}
		if ref := jobs[i].Ref; ref != "" {
			places[ref] = append(places[ref], i)
		}
	}
	return nil
}

func hasFlows(jobs []dibs.NewJob) bool {
	for i := range jobs {
		if jobs[i].Ref != "" || len(jobs[i].After) > 0 {
			return true
		}
	}
	return false
}

// edgesOf are the edges of the job at place i. places has those of all refs before it.
func edgesOf(j *dibs.NewJob, i int, places map[string][]int, last map[string]int) ([]Edge, error) {
	if len(j.After) > 0 && (j.IfHeld == dibs.HeldReplace || j.IfHeld == dibs.HeldPush) {
		return nil, invalid("after", "must be empty with if_held %q: the job that holds the key keeps what it waits for", string(j.IfHeld))
	}
	var all []Edge
	at := make(map[Edge]int) // where in all an edge to the same job is
	add := func(field string, e Edge, n int, need dibs.Need) error {
		if k, ok := at[e]; ok {
			both, err := bothNeeds(field, all[k].Need, need)
			all[k].Need = both
			return err
		}
		at[e] = len(all)
		e.Need, e.At = need, n
		all = append(all, e)
		return nil
	}
	for n, d := range j.After {
		field := fmt.Sprintf("after[%d]", n)
		need := cmp.Or(d.On, dibs.NeedCompleted)
		if err := dep(field, d, need); err != nil {
			return nil, err
		}
		if d.ID != 0 {
			if err := add(field, Edge{ID: d.ID}, n, need); err != nil {
				return nil, err
			}
			continue
		}
		if len(places[d.Ref]) == 0 {
			if at, ok := last[d.Ref]; ok && at >= i {
				return nil, invalid(field, "the jobs with ref %q must stand earlier in the call; one stands at jobs[%d]", clip(d.Ref), at)
			}
			if err := noNumber(field, d.Ref); err != nil {
				return nil, err
			}
		}
		for _, p := range places[d.Ref] {
			if err := add(field, Edge{Place: p}, n, need); err != nil {
				return nil, err
			}
		}
		if len(all) > dibs.MaxAfter {
			return nil, invalid(field, "the jobs of one call come after more than %d others in all", dibs.MaxAfter)
		}
	}
	return all, nil
}

// dep checks one entry of After.
func dep(field string, d dibs.Dep, need dibs.Need) error {
	switch need {
	case dibs.NeedCompleted, dibs.NeedEnded, dibs.NeedFailed:
	default:
		return invalid(field, "on must be completed, ended or failed, got %q", clip(string(need)))
	}
	switch {
	case d.ID != 0 && d.Ref != "":
		return invalid(field, "must have an id or a ref, not both")
	case d.ID < 0:
		return invalid(field, "an id must be at least 1, got %d", d.ID)
	case d.ID == 0 && d.Ref == "":
		return invalid(field, "must have an id or a ref")
	case d.ID == 0:
		return Name(field+".ref", d.Ref)
	}
	return nil
}

// noNumber refuses a ref that no earlier job of a call has, if it is a number: it is meant as an id.
func noNumber(field, ref string) error {
	if strings.Trim(ref, "0123456789") != "" {
		return nil
	}
	return invalid(field, "no earlier job of the call has the ref %q; an id is written without quotes", clip(ref))
}

// bothNeeds is what meets two needs of one job.
func bothNeeds(field string, a, b dibs.Need) (dibs.Need, error) {
	switch {
	case a == b || b == dibs.NeedEnded:
		return a, nil
	case a == dibs.NeedEnded:
		return b, nil
	}
	return a, invalid(field, "a job cannot come after one other that is both completed and failed")
}

// Before checks which page to read of the jobs that a job comes after.
func Before(id, after int64, n int) error {
	switch {
	case id < 1:
		return invalid("id", "must be a job's id, got %d", id)
	case after < 0:
		return invalid("after", "must be the next of an earlier page, or 0, got %d", after)
	case n < 1 || n > maxBefore:
		return invalid("n", "must be 1 to %d, got %d", maxBefore, n)
	}
	return nil
}

// maxBefore is how many of the jobs that a job comes after can be read at once.
const maxBefore = 1000
