package history

import (
	"cmp"
	"fmt"
	"slices"
)

// promises are the texts of docs/guarantees.md. Ticks judges promise 10.
var promises = [...]string{
	1: "A job exists if and only if the transaction that enqueued it committed.",
	2: "At most one live owner: between a claim and its end (finish, or lease expiry on the database's clock) no other claim of that job succeeds.",
	3: "A stale token changes nothing and its holder is told.",
	4: "No limbo: with a live worker and a reachable database, every due job starts, and every abandoned one starts again, within lease + 2 s; nothing is lost, ever; each job ends in exactly one final state.",
	5: "Attempts never exceed max_attempts; released and snoozed ones are not counted against it.",
	6: "Group and queue limits are never exceeded, and jobs of a group with limit 1 run in order, also through crashes, retries and a change of the limit.",
	7: "Claims never wait for claims; order (priority, run_at, id) holds among what was visible and not locked when the claim began.",
	8: "Effects written in the finishing transaction happen exactly once.",
	9: "A unique key never has two live jobs.",

	11: "A job that comes after others starts once, after all of them have ended as it needs, or it is cancelled.",
	12: "A step that is done is not done again, and no stale worker writes one.",
	13: "The jobs that an attempt adds exist if and only if that attempt completed the job.",

	turnsVerdict: FairTurns,
}

// MaxBroken is how many violations of one promise are kept.
const MaxBroken = 1000

// Judge says for each promise whether the evidence shows that it was broken. It accuses
// only if every order of events that the records allow breaks the promise: what a call
// without an answer may have done is an excuse. Of promise 7 it judges the order of
// claims, not how long they take.
func Judge(e Evidence) []Verdict {
	j := newJudge(&e)
	j.enqueues()
	j.tokens()
	j.claims()
	j.gatherFlows()
	var l life
	for n := range j.ids {
		j.rebuild(n, &l)
		j.existence(&l)
		j.asEnqueued(&l)
		j.tooEarly(&l)
		j.owners(&l)
		j.fence(&l)
		j.steps(&l)
		j.endOfJob(&l)
		j.follower(&l)
		j.attemptNumbers(&l)
		j.effects(&l)
		j.noteUnits(&l)
		j.collect(&l)
		j.noteTurns(&l)
	}
	j.wholeUnits()
	j.limits()
	j.starts()
	j.overdue()
	j.order()
	j.turns()
	j.unique()
	j.leftovers()
	verdicts := slices.DeleteFunc(j.verdicts, func(v Verdict) bool { return v.Promise == "" })
	slices.SortStableFunc(verdicts, func(a, b Verdict) int { return cmp.Compare(a.Number, b.Number) })
	return verdicts
}

func newJudge(e *Evidence) *judge {
	j := &judge{index: newIndex(e), verdicts: make([]Verdict, len(promises)), units: make(map[unitKey]*unit), absent: make(map[[2]string][]*absence)}
	for n := range j.verdicts {
		j.verdicts[n] = Verdict{Number: n, Promise: promises[n]}
	}
	j.verdicts[turnsVerdict].Number = 7
	return j
}

type judge struct {
	*index
	verdicts []Verdict // ordered by their numbers
	units    map[unitKey]*unit
	absent   map[[2]string][]*absence // by queue and unique key
	gathered
	seen  map[string]sighting // the job of each key
	flows map[int64]*flowJob
}

// checked counts cases that were examined for promise n.
func (j *judge) checked(n, cases int) { j.verdicts[n].Checked += cases }

// accuse notes a violation of promise n, shown by the calls.
func (j *judge) accuse(n int, job int64, calls []int32, format string, args ...any) {
	v := &j.verdicts[n]
	if len(v.Broken) >= MaxBroken {
		return
	}
	v.Broken = append(v.Broken, Violation{Job: job, Text: fmt.Sprintf(format, args...), Calls: j.withTxEnds(calls)})
}

// withTxEnds returns the calls and the ends of their transactions, in the order of Begin.
func (j *judge) withTxEnds(places []int32) []*Call {
	places = slices.Clone(places)
	slices.Sort(places)
	var calls []*Call
	for _, n := range slices.Compact(places) {
		if n >= 0 {
			calls = append(calls, j.Calls[n])
		}
	}
	var ends []*Call
	for _, c := range calls {
		if end := j.txs[c.Tx]; c.Tx != "" && end != nil && !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	calls = append(calls, ends...)
	sortCalls(calls)
	return slices.Compact(calls)
}

// holderOf names an attempt's worker in messages.
func (j *judge) holderOf(a *attempt) string {
	c := j.Calls[a.call]
	name := c.Worker
	if name == "" {
		name = c.Client
	}
	return fmt.Sprintf("%s (attempt %d)", name, a.Attempt)
}
