//go:build unix

package queues

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// TestWorkRunsSchedules has dibs work look after a schedule, and its programs learn the tick.
func TestWorkRunsSchedules(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.OK("schedule", "add", "beat", "--every", "1s")
		out := filepath.Join(c.T.TempDir(), "out")
		w := c.Work("beat", "-c", "1", "--", "sh", "-c", `echo "$DIBS_SCHEDULE $DIBS_TICK" >>`+out)
		var lines []string
		for deadline := time.Now().Add(clitest.Patience); len(lines) < 2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				c.T.Fatalf("only %d jobs have run", len(lines))
			}
			text, _ := os.ReadFile(out) // it does not exist before the first job
			lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		}
		w.Stop()
		c.End(w)
		var ticks []time.Time
		for _, line := range lines[:2] {
			tick, err := time.Parse("beat "+time.RFC3339Nano, line)
			if err != nil {
				c.T.Fatal(err)
			}
			ticks = append(ticks, tick)
		}
		if d := ticks[1].Sub(ticks[0]); d <= 0 || d%time.Second != 0 {
			c.T.Errorf("the first two jobs were for ticks %v apart", d)
		}
	})
}
