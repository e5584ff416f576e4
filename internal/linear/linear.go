// Package linear is a second opinion on the promises that package history judges: a general
// checker of linearizability, which knows nothing of the others.
package linear

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dibs-queue/dibs/internal/history"
)

// perJob bounds how long one job's history is searched.
const perJob = time.Second

// Check looks, for each job, for one order of the calls about it in which a single job, used
// by one client after another, would have given the same answers. That is what promises 2 and
// 3 come to. Undecided are the jobs for which the search took too long, and those of which
// somebody without an answer had an attempt.
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
