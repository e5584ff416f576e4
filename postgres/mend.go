package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// Rows that SQL by hand has inserted or changed may break rules that no constraint checks,
// since a constraint would cost every statement that writes jobs. Reads tolerate such rows
// (checks.Legible). Jobs that would wait for ever because of that are repaired here, as a
// part of the upkeep: each round looks at mendBatch jobs, so that in time a process goes
// through all of them.
const (
	mendBatch   = 500
	repairPause = time.Minute // shortest time between two repairs by one process, since a repair reads all rows
)

// mendAll looks at all jobs, and returns how many it has repaired.
func (s *Store) mendAll(ctx context.Context) (n int, err error) {
	const tries = 100 // how often it waits for another process that looks at some of the jobs
	last, mended, stuck, size := new(int64), 0, false, 10*mendBatch
	for try := 1; ; {
		busy, err := s.inTurn(ctx, "mend", s.step("mend", *last, size).into(last, &mended, &stuck))
		if fewer, ok := smaller(err, size); ok {
			size = fewer
			continue
		}
		switch {
		case err != nil:
			return n, err
		case busy && try == tries:
			return n, fmt.Errorf("other processes are looking at the jobs: %w", dibs.ErrUnavailable)
		case busy:
			try++
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return n, err
			}
		default:
			if n += mended; *last == 0 {
				return n, nil
			}
		}
	}
}

// mendNext looks at the next jobs, and repairs the whole database once something is wrong.
func (s *Store) mendNext(ctx context.Context) error {
	w := &s.sweeper
	last, mended, stuck, miscounted := new(int64), 0, false, false
	busy, err := s.inTurn(ctx, "mend", s.step("mend", w.mendedTo.Load(), mendBatch).into(last, &mended, &stuck))
	if err != nil || busy {
		return err
	}
	err = s.upkeep.run(ctx, s.step("miscounted").into(&miscounted))
	w.mendedTo.Store(*last)
	if err == nil && (mended > 0 || stuck || miscounted) && w.due(&w.repairedAt, repairPause) {
		_, err = s.Repair(ctx)
	}
	return err
}
