package storetest

import (
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// rowsOfWrongTimes writes times and counts that cannot be right into all running jobs of a queue but one, and then ends
// all of them, in each way.
func rowsOfWrongTimes(t *test) {
	bad, damages := 20, []string{} // the sum of this many such times is no 64-bit integer
	for _, at := range []int64{-1 << 63, 1<<63 - 1, 1 << 62, -1 << 62, 0} {
		damages = append(damages, fmt.Sprint("claimed_at = ", at)) // others refuse counts that cannot be right
	}
	if t.Database == PostgreSQL.Database {
		bad, damages = 200, []string{
			"claimed_at = 'infinity'", "claimed_at = '-infinity'", "claimed_at = '20000-01-01'", "claimed_at = '4000-01-01 BC'", "claimed_at = null",
			"attempt = -2147483648", "attempt = -2147483648, excused = 1", "attempt = -2000000", "attempt = 2147483647", "excused = -2147483648", "excused = 2147483647",
		}
	}
	for n, damage := range damages {
		for name, end := range map[string]func(dibs.Lease) dibs.Outcome{
			"completed": func(l dibs.Lease) dibs.Outcome { return l.Complete(nil) },
			"dead":      func(l dibs.Lease) dibs.Outcome { return l.Die("e") },
			"retry":     func(l dibs.Lease) dibs.Outcome { return l.Retry("e") },
			"snooze":    func(l dibs.Lease) dibs.Outcome { return l.Snooze(time.Hour) },
			"release":   dibs.Lease.Release,
			"expired":   nil,
		} {
			queue := fmt.Sprintf("%s-%d", name, n)
			t.enqueue(copies(bad+1, dibs.NewJob{Queue: queue, Kind: "k"})...)
			where := " where queue = '" + queue + "'"
			t.runSQL("update %sjob set run_at = " + t.one("'0001-01-02Z'", "-62135596800000000") + where)
			jobs := t.claim(dibs.ClaimRequest{Queue: queue, N: bad + 1})
			equal(t, "claimed", len(jobs), bad+1)
			t.runSQL(fmt.Sprintf("update %%sjob set %s%s and id between %d and %d", damage, where, jobs[0].ID, jobs[bad-1].ID))
			if end == nil {
				t.runSQL("update %sjob set lease_until = "+t.at(-1)+where, "update %sclaim set check_at = "+t.at(-1)+where)
				equal(t, "expired", t.sweep().Expired, bad+1)
			} else if err := t.db.Finish(t.ctx, outcomes(jobs, end)); err != nil {
				t.Errorf("%s after %s: %v", name, damage, err)
			}
			for _, j := range []*dibs.RawJob{jobs[0], jobs[bad]} {
				if got := t.get(j.ID); got.State == dibs.Running || got.Fault != "" {
					t.Errorf("%s after %s: %+v", name, damage, got)
				}
			}
			stats, err := t.db.Stats(t.ctx)
			t.must(err)
			for _, q := range stats {
				if q.AvgRun < 0 || q.AvgWait < 0 {
					t.Errorf("%s after %s: jobs of %s waited %v and ran %v", name, damage, q.Queue, q.AvgWait, q.AvgRun)
				}
			}
			t.runSQL("delete from %sjob" + where)
		}
	}
	t.repair(t.db)
}
