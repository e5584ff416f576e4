package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/words"
)

const (
	// fewChanged is how many of the changed jobs are looked at, for what their change means for others.
	fewChanged = 10
	// judgedIn is how long 'dibs requeue' waits until the ends of the jobs that its jobs come after were looked at.
	judgedIn = 2 * time.Second
)

// around reports whether something holds for the jobs around one of the first few jobs. Up to most others are counted.
func around(ctx context.Context, db cmdline.JobTable, ids []int64, most int, holds func(*admin.Flow) bool) bool {
	flows, has := db.(flowReader)
	for i := 0; has && i < min(len(ids), fewChanged); i++ {
		if f, err := flows.Flow(ctx, ids[i], most); err == nil && holds(&f) {
			return true
		}
	}
	return false
}

func followed(f *admin.Flow) bool { return len(f.After) > 0 }

func caused(f *admin.Flow) bool { return f.Caused > 0 }

func followersLive(f *admin.Flow) bool {
	after := admin.SumOf(f.After)
	return after.Jobs() > after.Ended()
}

// letGo says how many jobs that come after the first few requeued ones do not wait for these again, as their ends have let
// them start.
func letGo(ctx context.Context, db cmdline.JobTable, ids []int64) string {
	var n int64
	around(ctx, db, ids, admin.FollowersCap, func(f *admin.Flow) bool {
		after := admin.SumOf(f.After)
		n += after.Waiting + after.Running + after.Completed + after.Dead
		return false
	})
	if n == 0 {
		return ""
	}
	return words.Verb(n, "job that comes", "jobs that come") + " after " + itOrThem(ids) + " could start before, and will not wait again: " +
		fmt.Sprintf("'dibs flow %d' counts what comes after", ids[0])
}

func itOrThem(ids []int64) string {
	if len(ids) == 1 {
		return "it"
	}
	return "them"
}

// waitingAgain says of the first few requeued jobs whether they wait for others, or were cancelled again.
func waitingAgain(ctx context.Context, db admin.Database, ids []int64) (lines []string) {
	short, stop := context.WithTimeout(ctx, judgedIn)
	defer stop()
	for _, id := range ids[:min(len(ids), fewChanged)] {
		j, err := db.Get(ctx, id)
		if err != nil {
			continue
		}
		if j.WaitsFor > 0 {
			f, err := db.Flow(ctx, id, 1)
			if err == nil && len(f.Open) < min(j.WaitsFor, admin.MaxOpen) { // one of the others has ended, perhaps not as needed
				if ended, err := db.Wait(short, id); err == nil {
					j = ended
				}
			}
			switch {
			case j.State.Final():
			case len(f.Open) > 0:
				lines = append(lines, fmt.Sprintf("job %d is blocked: %s", id, holdups.Follows(j, f).Text))
			default:
				lines = append(lines, fmt.Sprintf("job %d is blocked until it is known how the jobs that it comes after have ended; 'dibs show %d' says what became of it", id, id))
			}
		}
		if j.State != dibs.Cancelled || j.Cause == 0 {
			continue
		}
		text, back := causeOf(ctx, db, j)
		line := fmt.Sprintf("job %d was cancelled again, because %s", id, text)
		if back {
			line += fmt.Sprintf(": 'dibs requeue %d' puts that back, and what was cancelled because of it", j.Cause)
		}
		lines = append(lines, line)
	}
	return lines
}
