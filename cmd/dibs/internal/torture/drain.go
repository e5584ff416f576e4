package torture

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs/internal/lab"
)

// drainers is how many workers run the remaining jobs. More of them would hinder each other,
// on a small machine for minutes.
const drainers = 8

// drain ends the producers and most workers. Then it waits until the others have ended all
// jobs, or make no progress any more.
func (r *run) drain(ctx context.Context) error {
	surplus := map[*lab.Seat]bool{}
	for _, s := range r.seats {
		surplus[s.Seat] = s.part.Producer || s.part.Seat >= drainers
	}
	if err := r.crew.Stop(endTime, func(s *lab.Seat) bool { return surplus[s] }); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return runAll(ctx,
		func(ctx context.Context) error { return r.monitor(ctx, "draining") },
		func(ctx context.Context) error {
			defer stop()
			for timer := (stallTimer{since: time.Now()}); ctx.Err() == nil; {
				counts, err := r.tally(ctx)
				switch {
				case unexpected(err) != nil:
					return err
				case err != nil:
					counts = timer.last // the database is unreachable
				case counts.live == 0 && (r.Adopted == nil || r.Adopted.nothingHeld(ctx)):
					return nil
				}
				if timer.stalled(counts, time.Now()) {
					return nil // the judge accuses the jobs that are left
				}
				if r.Adopted == nil {
					if err := r.completeSteady(ctx); unexpected(err) != nil {
						return err
					}
				}
				wait(ctx, 100*time.Millisecond)
			}
			return nil
		})
}

// tally counts the live jobs, and those in a final state.
type tally struct{ live, ended int64 }

func (r *run) tally(ctx context.Context) (t tally, err error) {
	stats, err := r.DB.Stats(ctx)
	for _, s := range stats {
		t.live += s.Waiting + s.Blocked + s.Running
		t.ended += s.Completed + s.Dead + s.Cancelled
	}
	return t, err
}

// stallTimer notices when the workers make no progress any more, however slow they are.
type stallTimer struct {
	last  tally
	since time.Time // the last change of the tally
}

// stalled reports whether the tally has not changed for too long.
func (p *stallTimer) stalled(counts tally, at time.Time) bool {
	if counts != p.last {
		p.last, p.since = counts, at
	}
	return at.Sub(p.since) >= stallTime
}
