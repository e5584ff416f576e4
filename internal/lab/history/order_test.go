package history_test

import (
	"math"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/history"
)

// checkOrders looks for an order of the calls about each job that explains their answers, and fails the test for
// each job without one. It counts a job as undecided if a claim without an answer may have taken it. For the
// histories of dibs torture, package linear asks a general checker of linearizability instead.
func checkOrders(t *testing.T, e history.Evidence) (checked, undecided int) {
	t.Helper()
	history.Operations(e, func(ops []history.Operation, broken func() history.Violation) {
		if len(ops) == 0 {
			undecided++
			return
		}
		checked++
		if !inSomeOrder(ops) {
			v := broken()
			t.Errorf("job %d: not linearizable: %s", v.Job, v.Text)
		}
	})
	return checked, undecided
}

// inSomeOrder tries each call that may come next, and each state in which it may leave the job. A call comes after
// another if it began when the other had its answer.
func inSomeOrder(ops []history.Operation) bool {
	type tried struct {
		done  string
		state any
	}
	seen := map[tried]bool{}
	var search func(done []byte, state any) bool
	search = func(done []byte, state any) bool {
		if n := (tried{string(done), state}); seen[n] {
			return false
		} else {
			seen[n] = true
		}
		answered := int64(math.MaxInt64) // when the first of the calls that are left had its answer
		for i := range ops {
			if done[i] == 0 {
				answered = min(answered, ops[i].To)
			}
		}
		left := false
		for i := range ops {
			if done[i] != 0 {
				continue
			}
			left = true
			if ops[i].From > answered {
				continue
			}
			for _, after := range ops[i].After(state.(history.JobState)) {
				done[i] = 1
				if search(done, after) {
					return true
				}
				done[i] = 0
			}
		}
		return !left
	}
	return search(make([]byte, len(ops)), history.JobState{})
}

// TestACallThatNoOrderExplainsIsFound shows that checkOrders can fail. A worker claims the job at 10 ms for 100 ms, and
// then another claims it.
func TestACallThatNoOrderExplainsIsFound(t *testing.T) {
	t.Parallel()
	for _, second := range []struct {
		at, attempt int
		explained   bool
	}{
		{60, 2, false}, // the first still has the lease
		{170, 2, true},
	} {
		b := newBook()
		b.enqueue(0, 1)
		b.claim("w1", 10, 1, 1)
		b.claim("w2", second.at, second.attempt, 1)
		history.Operations(b.evidence(), func(ops []history.Operation, _ func() history.Violation) {
			if got := inSomeOrder(ops); got != second.explained {
				t.Errorf("%+v: an order was found: %v", second, got)
			}
		})
	}
}
