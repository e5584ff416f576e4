//go:build unix

package dibs_test

import (
	"slices"
	"syscall"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// A real process is killed between two steps. Another one goes on with what the first step has left.
func TestAProcessKilledBetweenStepsChargesOnce(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		ids := enqueue(t, db, slices.Repeat([]dibs.NewJob{{Kind: "charging"}}, 3)...)
		events := make(chan event, 1000)
		charged, receipts := map[int64]int{}, map[int64]int{}
		until := func(what string) {
			t.Helper()
			for n := 0; n < len(ids); {
				e := <-events
				switch e.What {
				case "charged":
					charged[e.Job]++
				case "receipt":
					receipts[e.Job]++
					if e.Detail != "1" {
						t.Errorf("job %d has the receipt of attempt %s", e.Job, e.Detail)
					}
				}
				if e.What == what {
					n++
				}
			}
		}
		first := spawn(t, url, "first", events)
		until("receipt")
		first.signal(t, syscall.SIGKILL)
		spawn(t, url, "second", events)
		until("finished")
		for _, id := range ids {
			if charged[id] != 1 || receipts[id] != 2 {
				t.Errorf("job %d was charged %d times, and the receipt was there %d times, want once and twice", id, charged[id], receipts[id])
			}
			if j := get(t, db, id); j.State != dibs.Completed || j.Attempt != 2 {
				t.Errorf("job %d is %s after attempt %d", id, j.State, j.Attempt)
			}
		}
	})
}
