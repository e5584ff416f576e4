package page

import (
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// A job may wait for more jobs than the page counts.
func TestWhatAJobWaitsForIsNeverMoreThanAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waits   int
		counted int64
		says    string
	}{
		{1, 1, "it waits for the end of 1 job"},
		{2, 3, "it waits for the end of 2 of 3 jobs"},
		{9, flowJobs, "it waits for the end of 9 of at least " + plural(flowJobs, "job")},
		{flowJobs, flowJobs, "it waits for the end of " + plural(flowJobs, "job")},
		{80_000, flowJobs, "it waits for the end of " + plural(80_000, "job")},
	} {
		j := &dibs.RawJob{WaitsFor: c.waits}
		if a := waitsFor(j, nil, admin.FlowRow{Completed: c.counted}); a.Text != c.says {
			t.Errorf("waits for %d, %d counted: %q, want %q", c.waits, c.counted, a.Text, c.says)
		}
	}
}
