package torture

import (
	"context"
	"time"
)

// drainers is how many workers are enough to do the rest: more would only be in each
// other's way, on a small machine for minutes.
const drainers = 8

// drain ends the producers and most workers, and waits until the others have done all
// there is: for as long as they get on with it, however slow the machine.
func (r *run) drain(ctx context.Context) error {
	if err := r.end(func(p Part) bool { return p.Producer || p.Seat >= drainers }); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return together(ctx,
		func(ctx context.Context) error { return r.look(ctx, "draining") },
		func(ctx context.Context) error {
			defer stop()
			for p := (patience{since: time.Now()}); ctx.Err() == nil; {
				now, err := r.tally(ctx)
				switch {
				case expected(err) != nil:
					return err
				case err != nil:
					now = p.last // the database is away
				case now.live == 0:
					return nil
				}
				if p.over(now, time.Now()) {
					return nil // the judge finds what is left
				}
				if err := r.clear(ctx); expected(err) != nil {
					return err
				}
				wait(ctx, 100*time.Millisecond)
			}
			return nil
		})
}

// tally counts the jobs that are in no final state, and those that are in one.
type tally struct{ live, ended int64 }

func (r *run) tally(ctx context.Context) (t tally, err error) {
	stats, err := r.DB.Stats(ctx)
	for _, s := range stats {
		t.live += s.Waiting + s.Blocked + s.Running
		t.ended += s.Completed + s.Dead + s.Cancelled
	}
	return t, err
}

// patience is with workers that get on, however slowly.
type patience struct {
	last  tally
	since time.Time // when the tally last changed
}

// over reports whether nothing has changed for too long.
func (p *patience) over(now tally, at time.Time) bool {
	if now != p.last {
		p.last, p.since = now, at
	}
	return at.Sub(p.since) >= stallTime
}
