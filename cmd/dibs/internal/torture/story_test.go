package torture

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// A waiting claim begins before the job is enqueued, and is answered before the finish that
// made room for it.
func TestTheStoryIsInTheOrderOfWhatHappened(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	for _, ahead := range []int{0, 5000, -5000} { // how far the database's clock is ahead, in ms
		claim := func(client string, begin, claimed, end int) *history.Call {
			return &history.Call{
				Client: client, Verb: history.Claim, Begin: at(begin), End: at(end), Fate: history.Done,
				Jobs: []history.Job{{ID: 7, ClaimedAt: at(claimed + ahead), LeaseUntil: at(claimed + ahead + 1000)}},
			}
		}
		calls := []*history.Call{
			claim("a", 0, 20, 40), // these times determine the difference of the clocks
			{Client: "p", Verb: history.Enqueue, Begin: at(10), End: at(30), Fate: history.Done, New: []history.New{{ID: 7, Queue: "q"}}},
			claim("b", 50, 70, 90),
			{Client: "a", Verb: history.Finish, Begin: at(60), End: at(100), Fate: history.Done, Outcomes: []dibs.Outcome{{ID: 7, Ending: dibs.EndRetry}}},
		}
		s := newStory(calls, 7)
		var sorts []Sort
		for _, e := range s.Events {
			sorts = append(sorts, e.Sort)
		}
		if want := []Sort{Enqueued, Claimed, Accepted, Claimed}; !slices.Equal(sorts, want) {
			t.Fatalf("clock ahead by %d ms: %v, not %v", ahead, sorts, want)
		}
		if first, second := s.leaseEnd(s.Events[1]), s.Events[3].At; !first.Equal(second) || !second.Equal(at(70)) {
			t.Errorf("clock ahead by %d ms: the first lease ends at %v, the second begins at %v", ahead, first, second)
		}
	}
}
