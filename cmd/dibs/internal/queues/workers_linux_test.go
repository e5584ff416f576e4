package queues

import (
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// A killed process is listed as lost. One that was stopped for as long is lost meanwhile, and
// comes back; one that ends is listed no more.
func TestKilledAndStoppedWorkersAreListedAsLost(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		states := func() map[any]any {
			states := map[any]any{}
			for _, w := range c.Rows(c.OK("workers", "--json")) {
				states[w["name"]] = w["state"]
			}
			return states
		}
		until := func(what string, reached func(map[any]any) bool) {
			c.T.Helper()
			deadline := time.Now().Add(clitest.Patience)
			for got := states(); !reached(got); got = states() {
				if time.Now().After(deadline) {
					c.T.Fatalf("%s: the workers are %v", what, got)
				}
				time.Sleep(500 * time.Millisecond)
			}
		}
		worker := func(name string) *clitest.Process {
			return c.Process("q", "--name", name, "--", "sleep", "600")
		}
		killed, frozen, ended := worker("killed"), worker("frozen"), worker("ended")
		until("all start", func(got map[any]any) bool { return len(got) == 3 })
		began := time.Now()
		killed.Signal(syscall.SIGKILL)
		frozen.Freeze()
		until("two are lost", func(got map[any]any) bool {
			return got["killed"] == dibs.WorkerLost && got["frozen"] == dibs.WorkerLost
		})
		if took := time.Since(began); took < dibs.WorkerLostAfter-15*time.Second {
			c.T.Errorf("they were lost after %v", took)
		}
		if got := states()["ended"]; got != dibs.WorkerWorking {
			c.T.Errorf("the one that works is %v", got)
		}
		ended.Signal(syscall.SIGTERM)
		until("one has ended", func(got map[any]any) bool { return got["ended"] == nil })
		frozen.Signal(syscall.SIGCONT)
		until("one is back", func(got map[any]any) bool { return got["frozen"] == dibs.WorkerWorking })
		if got := states()["killed"]; got != dibs.WorkerLost {
			c.T.Errorf("the killed one is %v", got)
		}
	})
}
