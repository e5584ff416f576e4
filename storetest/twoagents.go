package storetest

import (
	"fmt"

	"github.com/dibs-queue/dibs"
)

// Requirement 3, word for word: agent A holds an open transaction in which it has
// taken 6 of the jobs 1-12; agent B asks at once for 6 more. B must get all jobs that it may
// have, and must not wait. If B waited for A, the test would time out, since A's transaction
// stays open until B has finished.
//
// On a database with one writer at a time, A commits its claim before B claims. A then holds
// its jobs by their leases.
var twoAgentCases = []oneCase{
	{"without groups A takes 1-6 and B gets 7-12 at once", twoAgentsFree},
	{"with groups B gets all that its groups allow at once", twoAgentsGroups},
	{"when A rolls back B gets A's jobs in their order", twoAgentsRollback},
	{"four agents with open transactions share out all jobs", fourAgents},
}

// claimAsAgent claims for one of the agents. Its transaction stays open if the database allows
// that. The function end completes the jobs or gives them back.
func (t *test) claimAsAgent(worker string, n int) (numbers []int64, end func(commit bool)) {
	t.Helper()
	r := dibs.ClaimRequest{N: n, Worker: worker}
	if !t.OpenTx {
		jobs := t.claim(r)
		return numbersOf(jobs), func(commit bool) {
			t.Helper()
			ending := dibs.Lease.Release
			if commit {
				ending = completed
			}
			t.finish(outcomes(jobs, ending)...)
		}
	}
	tx := t.beginTx()
	jobs := t.claimOn(tx, r)
	return numbersOf(jobs), func(commit bool) {
		t.Helper()
		if commit {
			if len(jobs) > 0 {
				t.must(tx.Finish(t.ctx, outcomes(jobs, completed)))
			}
			t.must(tx.Commit())
		} else {
			t.must(tx.Rollback())
		}
	}
}

// numbersOf returns the numbers 1-12 of jobs, which are their payloads.
func numbersOf(jobs []*dibs.RawJob) []int64 {
	numbers := make([]int64, len(jobs))
	for i, j := range jobs {
		if _, err := fmt.Sscan(string(j.Payload), &numbers[i]); err != nil {
			panic(err) // twoAgentCases wrote the payloads
		}
	}
	return numbers
}

func (t *test) twelve(group func(n int) string) {
	t.Helper()
	var batch []dibs.NewJob
	for n := 1; n <= 12; n++ {
		batch = append(batch, dibs.NewJob{Kind: "k", Payload: n, Group: group(n)})
	}
	t.enqueue(batch...)
}

func noGroup(int) string { return "" }

// twoGroups puts 1, 5, 9 into group "1" and 3, 7, 11 into group "3".
func twoGroups(n int) string {
	switch n % 4 {
	case 1:
		return "1"
	case 3:
		return "3"
	}
	return ""
}

func twoAgentsFree(t *test) {
	t.twelve(noGroup)
	a, endA := t.claimAsAgent("A", 6)
	sameIDs(t, "A", a, []int64{1, 2, 3, 4, 5, 6})
	b, endB := t.claimAsAgent("B", 6)
	sameIDs(t, "B", b, []int64{7, 8, 9, 10, 11, 12})
	endB(true)
	endA(true)
	equal(t, "completed", t.stats(dibs.DefaultQueue).Completed, int64(12))
}

func twoAgentsGroups(t *test) {
	t.twelve(twoGroups)
	a, endA := t.claimAsAgent("A", 6)
	sameIDs(t, "A", a, []int64{1, 2, 3, 4, 6, 8})
	b, endB := t.claimAsAgent("B", 6)
	sameIDs(t, "B", b, []int64{10, 12})
	none, endNone := t.claimAsAgent("C", 6)
	sameIDs(t, "C, while 1 and 3 run", none, nil)
	endNone(true)
	endB(true)
	endA(true)
	b, endB = t.claimAsAgent("B", 6)
	sameIDs(t, "B, after 1 and 3", b, []int64{5, 7})
	endB(true)
	a, endA = t.claimAsAgent("A", 6)
	sameIDs(t, "A, after 5 and 7", a, []int64{9, 11})
	endA(true)
	equal(t, "completed", t.stats(dibs.DefaultQueue).Completed, int64(12))
}

func twoAgentsRollback(t *test) {
	t.twelve(twoGroups)
	a, endA := t.claimAsAgent("A", 6)
	sameIDs(t, "A", a, []int64{1, 2, 3, 4, 6, 8})
	b, endB := t.claimAsAgent("B", 1)
	sameIDs(t, "B", b, []int64{10})
	endA(false)
	endB(false)
	var got []int64
	t.waitUntil("all free jobs are claimed", func() bool {
		for _, j := range t.claim(dibs.ClaimRequest{N: 12}) {
			got = append(got, numbersOf([]*dibs.RawJob{j})...)
		}
		return len(got) == 8
	})
	sameIDs(t, "B", got, []int64{1, 2, 3, 4, 6, 8, 10, 12})
}

func fourAgents(t *test) {
	t.twelve(noGroup)
	for i := range 4 {
		got, end := t.claimAsAgent(fmt.Sprintf("agent %d", i), 3)
		first := int64(3*i + 1)
		sameIDs(t, "agent", got, []int64{first, first + 1, first + 2})
		defer end(i%2 == 0)
	}
}
