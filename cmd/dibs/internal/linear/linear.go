// Package linear checks histories with a general checker of linearizability, as a second
// opinion beside package history. It does not know dibs' promises.
package linear

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dibs-queue/dibs/internal/lab/history"
)

// perJob bounds how long the checker searches one job's history.
const perJob = time.Second

// Check looks for an order of the calls about each job that explains their answers, as if
// clients had made the calls one after another; promises 2 and 3 amount to that. It
// counts a job as undecided if the search takes too long, or if a claim without an answer may
// have taken the job.
func Check(e history.Evidence) (checked, undecided int, broken []history.Violation) {
	type job struct {
		ops    []history.Operation
		broken func() history.Violation
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	next := make(chan job)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for j := range next {
				result := search(j.ops)
				mu.Lock()
				switch {
				case result == porcupine.Unknown:
					undecided++
				case result == porcupine.Illegal && len(broken) < history.MaxBroken:
					broken = append(broken, j.broken())
					fallthrough
				default:
					checked++
				}
				mu.Unlock()
			}
		})
	}
	history.Operations(e, func(ops []history.Operation, broken func() history.Violation) { next <- job{ops, broken} })
	close(next)
	wait.Wait()
	slices.SortFunc(broken, func(a, b history.Violation) int { return int(a.Job - b.Job) })
	return checked, undecided, broken
}

func search(ops []history.Operation) porcupine.CheckResult {
	if len(ops) == 0 {
		return porcupine.Unknown
	}
	all := make([]porcupine.Operation, len(ops))
	for i := range ops {
		all[i] = porcupine.Operation{Input: &ops[i], Call: ops[i].From, Return: ops[i].To}
	}
	return porcupine.CheckOperationsTimeout(model, all, perJob)
}

var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{history.JobState{}} },
	Step: func(state, input, _ any) []any { return input.(*history.Operation).After(state.(history.JobState)) },
}).ToModel()
