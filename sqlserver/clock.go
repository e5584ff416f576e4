package sqlserver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs/internal/rowstore"
)

// clock is what a store knows of the server's clock outside of transactions. Each transaction that reads the time tells
// it.
type clock struct {
	ahead atomic.Int64 // the server's clock is ahead of the system's by so many nanoseconds
	seen  atomic.Int64 // when it was last read, by the system's clock, in nanoseconds
}

const (
	slowReading = time.Second // a time that took longer to read is not noted, as it may be wrong by half of that
	oldReading  = time.Minute // for programs that only read: how long a reading is good
)

// now is the server's time as it was when last read, and what the system's clock has gone on since.
func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// note takes what the server's clock said to one who began to read it at began.
func (c *clock) note(began time.Time, now int64) {
	took := time.Since(began)
	if took > slowReading && c.seen.Load() != 0 {
		return
	}
	c.ahead.Store(int64(time.UnixMicro(now).Sub(began.Add(took / 2))))
	c.seen.Store(began.UnixNano())
}

// keepClock reads the server's clock if no transaction has done so for long. An error is ignored: the last reading is
// used, and the read that follows meets the error too.
func (s *Store) keepClock(ctx context.Context) {
	began := time.Now()
	if seen := s.clock.seen.Load(); time.Duration(began.UnixNano()-seen).Abs() > oldReading {
		_ = s.readClock(ctx, began)
	}
}

func (s *Store) readClock(ctx context.Context, began time.Time) error {
	var now int64
	err := rowstore.One(ctx, conn{s.pool, true}, s.sql.Statements.Get("clock_now"), &now)
	if err == nil {
		s.clock.note(began, now)
	}
	return err
}
