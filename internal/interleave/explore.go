package interleave

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// coverage says how much of a scenario was run.
type coverage struct {
	runs     int
	turns    int // all with fewer forced turns were run
	complete bool
	waits    []string // that were seen
}

func (c coverage) String() string {
	what := fmt.Sprintf("all with fewer than %d forced turns", c.turns)
	if c.complete {
		what = "all there are"
	}
	return fmt.Sprintf("%d interleavings, %s; waits: %q", c.runs, what, c.waits)
}

// explore runs every interleaving once, until most were run or one fails. A forced
// turn is one away from an actor that could have gone on; interleavings come in the
// order of how many they have, so the first that fails is among the simplest.
//
// Nothing is left out as equal to something else: every run yields the schedules that
// branch off from it after its prefix, and every schedule branches off from exactly
// one other. Among those with the same number of forced turns the order is random by
// seed, so that a part of them is spread over all.
func explore(seed uint64, most int, run func(prefix []int) (schedule, error)) (coverage, schedule, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	pending := [][][]int{{{}}} // prefixes by forced turns
	done := coverage{}
	for ; done.turns < len(pending); done.turns++ {
		for len(pending[done.turns]) > 0 {
			if done.runs == most {
				return done, schedule{}, nil
			}
			level := pending[done.turns]
			at := random.IntN(len(level))
			prefix := level[at]
			level[at] = level[len(level)-1]
			pending[done.turns] = level[:len(level)-1]
			ran, err := run(prefix)
			done.runs++
			if err != nil {
				return done, ran, err
			}
			for i := len(prefix); i < len(ran.choices); i++ {
				c := ran.choices[i]
				turns := done.turns
				if i > 0 && slices.Contains(c.could, ran.choices[i-1].actor) {
					turns++
				}
				for len(pending) <= turns {
					pending = append(pending, nil)
				}
				for _, other := range c.could {
					if other != c.actor {
						pending[turns] = append(pending[turns], append(ran.prefix(i), other))
					}
				}
			}
		}
	}
	done.complete = true
	return done, schedule{}, nil
}
