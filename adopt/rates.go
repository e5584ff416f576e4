package adopt

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// ratesWindow is the period of the statistics. They come from the times that a table has: from
// when on a row may be claimed (not_before, else the first column of the order), when its claim
// began (started_at), and when it ended (the column that "completed" sets to the time).
const ratesWindow = 5 * time.Minute

// Known says which statistics a store has, by the times that its mapping names.
type Known struct {
	Oldest bool // how long ago the oldest waiting row became available
	Wait   bool // how long a row waits until its claim
	Run    bool // how long a row runs until its end
	Rate   bool // completed rows a second
}

// Known returns which statistics the store has. Wait, Run and Rate need an index that begins with the time at
// which rows end, or a table of at most 20,000 rows; else QueueStats.Window is 0.
func (s *Store) Known() Known {
	due, ended := s.plan.DueAt(), s.plan.EndedAt()
	began := s.plan.Started != nil && ended != nil
	return Known{Oldest: due != nil, Wait: began && due != nil, Run: began, Rate: ended != nil}
}

// rates adds the statistics of the last minutes to the counts.
func (s *Store) rates(ctx context.Context, to *admin.QueueStats) error {
	if s.do.Rates == nil {
		return nil
	}
	type found struct {
		read, done, waits, runs int64
		wait, run               sql.NullFloat64
		first, now              sql.NullInt64
	}
	all, err := run(ctx, s.db, s.do.Rates, nil, func(rows *sql.Rows) (f found, err error) {
		return f, rows.Scan(&f.read, &f.done, &f.waits, &f.wait, &f.runs, &f.run, &f.first, &f.now)
	})
	if err != nil {
		return err
	}
	f := all[0]
	to.Window = ratesWindow
	if f.read > adopted.RatesRows {
		if !s.plan.IndexedEnd() { // the rows that ended last may not have been read
			to.Window = 0
			return nil
		}
		to.Window = max(time.Duration(f.now.Int64-f.first.Int64)*time.Microsecond, time.Second)
	}
	micros := func(v sql.NullFloat64) time.Duration { return max(0, time.Duration(v.Float64)*time.Microsecond) }
	to.Claimed, to.AvgWait = f.waits, micros(f.wait)
	to.Succeeded, to.AvgRun = f.done, micros(f.run)
	to.Throughput = float64(f.done) / to.Window.Seconds()
	return nil
}
