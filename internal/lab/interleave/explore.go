package interleave

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// coverage records how much of a scenario was run.
type coverage struct {
	runs        int
	forcedTurns int // all interleavings with fewer forced turns were run
	complete    bool
	waits       []string // lock waits that occurred, in the form of Options.Waits
}

func (c coverage) String() string {
	what := fmt.Sprintf("all with fewer than %d forced turns", c.forcedTurns)
	if c.complete {
		what = "all that exist"
	}
	return fmt.Sprintf("%d interleavings, %s; waits: %q", c.runs, what, c.waits)
}

// explore runs every interleaving once, and stops after maxRuns or at the first failure.
// A turn is forced if the actor of the last step could have gone on. Interleavings are
// run in the order of their number of forced turns, so the first failure is a simple one.
//
// No interleaving is skipped as equal to another: every run yields the schedules that
// branch off from it after its prefix, and every schedule branches off from exactly one
// other. Interleavings with equally many forced turns come in an order random by seed,
// so that an incomplete run is a fair sample of them.
func explore(seed uint64, maxRuns int, run func(prefix []int) (schedule, error)) (coverage, schedule, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	pending := [][][]int{{{}}} // prefixes yet to run, by their number of forced turns
	covered := coverage{}
	for ; covered.forcedTurns < len(pending); covered.forcedTurns++ {
		for len(pending[covered.forcedTurns]) > 0 {
			if covered.runs == maxRuns {
				return covered, schedule{}, nil
			}
			level := pending[covered.forcedTurns]
			chosen := random.IntN(len(level))
			prefix := level[chosen]
			level[chosen] = level[len(level)-1]
			pending[covered.forcedTurns] = level[:len(level)-1]
			played, err := run(prefix)
			covered.runs++
			if err != nil {
				return covered, played, err
			}
			for i := len(prefix); i < len(played.choices); i++ {
				c := played.choices[i]
				turns := covered.forcedTurns
				if i > 0 && slices.Contains(c.enabled, played.choices[i-1].actor) {
					turns++
				}
				for len(pending) <= turns {
					pending = append(pending, nil)
				}
				for _, other := range c.enabled {
					if other != c.actor {
						pending[turns] = append(pending[turns], append(played.prefix(i), other))
					}
				}
			}
		}
	}
	covered.complete = true
	return covered, schedule{}, nil
}
