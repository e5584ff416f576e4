package adopt_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// evidence is what was noted outside of the table while it was worked on.
type evidence struct {
	events  []event
	killed  map[string]bool     // processes
	rows    []string            // ids that are in the table at the end
	ends    map[string][]string // what the database's triggers noted of each row: a remark for each change after which it had ended
	rank    map[string]place    // of the rows that were there at the start
	touched map[string]bool     // rows that another program has changed meanwhile
	byHand  map[string]bool     // rows that another program has ended
	limit   int                 // rows that may run at once; 0: any number

	recovered, refused int // rows of killed processes that were done by another; finishes that were refused
}

// judge reports what must not be:
//
//   - a row that has not ended exactly once, or whose finish was accepted twice, or
//     never although nobody was killed;
//   - a row with two owners at once; the lease of a killed one lasts until its end;
//   - more rows with an owner at once than the mapping's limit;
//   - first attempts out of the mapping's order;
//   - an accepted finish of a row that another program has ended, or a change of it;
//   - a call that failed.
func (e *evidence) judge(report func(format string, args ...any)) {
	slices.SortStableFunc(e.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	e.judgeEnds(report)
	e.judgeOwners(report)
	e.judgeOrder(report)
	e.judgeLimit(report)
	for _, v := range e.events {
		if v.what == noteTrouble {
			report("%s: %s: %s", v.worker, v.id, v.detail)
		}
	}
}

// final reports whether an event ended a row for good.
func (v event) final() bool {
	return v.what == noteFinished && (v.detail == "completed" || v.detail == "dead")
}

func (e *evidence) judgeEnds(report func(string, ...any)) {
	accepted := map[string]int{}
	cut := map[string]bool{} // rows that a killed process had claimed
	for _, v := range e.events {
		switch {
		case v.final():
			accepted[v.id]++
		case v.what == noteRefused:
			e.refused++
		case v.what == noteClaimed && e.killed[v.worker]:
			cut[v.id] = true
		}
	}
	for _, id := range e.rows {
		if len(e.ends[id]) == 0 {
			report("row %s has not ended", id)
		}
	}
	for id, how := range e.ends {
		stolen := e.byHand[id] || slices.Contains(how, "by hand")
		switch n := accepted[id]; {
		case len(how) != 1:
			report("row %s ended %d times: %q", id, len(how), how)
		case n > 1:
			report("%d finishes of row %s were accepted", n, id)
		case stolen && n > 0:
			report("a finish of row %s was accepted, which another program had ended", id)
		case stolen && how[0] != "by hand":
			report("row %s, which another program has ended, was changed: %q", id, how)
		case !stolen && n == 0 && !cut[id]:
			report("row %s ended, but nobody's finish was accepted", id)
		}
	}
}

func (e *evidence) judgeOwners(report func(string, ...any)) {
	type owner struct {
		event
		let bool // it has returned or finished
	}
	last := map[string]*owner{}
	for _, v := range e.events {
		was := last[v.id]
		switch v.what {
		case noteClaimed:
			if was != nil && !was.let {
				until, err := strconv.ParseInt(was.detail, 10, 64)
				switch {
				case err != nil:
					report("no time: %q", was.detail)
				case !e.killed[was.worker]:
					report("row %s was claimed by %s while %s was at it", v.id, v.worker, was.worker)
				case v.at < until:
					report("row %s was claimed by %s although the lease of %s, which was killed, had %d ms to go", v.id, v.worker, was.worker, (until-v.at)/1000)
				default:
					e.recovered++
				}
			}
			last[v.id] = &owner{event: v}
		case noteReturned, noteFinished, noteRefused:
			if was != nil && was.worker == v.worker {
				was.let = true
			}
		}
	}
}

// judgeOrder looks at first attempts. Within a process they come in the mapping's
// order, and so do those of a group everywhere. What a killed process had claimed
// but not yet noted comes late, and so does what it had just locked.
func (e *evidence) judgeOrder(report func(string, ...any)) {
	late, allowed := 0, 40*len(e.killed) // twice a worker's handlers: what it claims at most
	seen, at := map[string]bool{}, map[string]place{}
	for _, v := range e.events {
		if v.what != noteClaimed || seen[v.id] {
			continue
		}
		seen[v.id] = true
		p, there := e.rank[v.id]
		if !there || e.touched[v.id] {
			continue
		}
		lane := "in " + v.worker
		if p.group != "" {
			lane = "of group " + p.group
		}
		if before, ok := at[lane]; ok && before.rank > p.rank {
			if late++; late > allowed {
				report("%s row %s came after a row that is behind it", strings.TrimSpace(lane), v.id)
			}
			continue
		}
		at[lane] = p
	}
}

// judgeLimit counts the rows that have an owner at each moment: from when the owner has noted its claim until
// its handler has returned, or of a killed one until its lease has ended.
func (e *evidence) judgeLimit(report func(string, ...any)) {
	if e.limit == 0 {
		return
	}
	until := map[string]int64{} // by worker and row; 0: for as long as the worker lives
	for _, v := range e.events {
		key := v.worker + " " + v.id
		if slices.Contains(e.ends[v.id], "by hand") { // which may have freed its place earlier
			continue
		}
		switch v.what {
		case noteClaimed:
			until[key] = 0
			if e.killed[v.worker] {
				until[key], _ = strconv.ParseInt(v.detail, 10, 64) // judgeOwners reports what is no time
			}
			maps.DeleteFunc(until, func(_ string, end int64) bool { return end > 0 && end < v.at })
			if len(until) > e.limit {
				report("with row %s, claimed by %s, %d rows ran at once", v.id, v.worker, len(until))
			}
		case noteReturned, noteFinished, noteRefused:
			delete(until, key)
		}
	}
}
