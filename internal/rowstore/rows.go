package rowstore

import (
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/ticks"
)

func fromMicro(us int64) time.Time { return checks.Time(time.UnixMicro(us)) }

func micro(d time.Duration) int64 { return int64(d / time.Microsecond) }

// scanClaimed reads a row of claim.sql or resume.sql.
func scanClaimed(rows *sql.Rows) (*dibs.RawJob, error) {
	j := &dibs.RawJob{State: dibs.Running}
	err := rows.Scan(&j.ID, reads.Text(&j.Kind), (*[]byte)(&j.Payload), (*[]byte)(&j.Metadata), &j.Priority, reads.Time(&j.RunAt),
		&j.Attempt, &j.Excused, &j.MaxAttempts, reads.Text(&j.Group), reads.Text(&j.UniqueKey),
		reads.Text(&j.UniqueUntil), &j.CancelRequested, reads.Time(&j.CreatedAt), reads.History(&j.Errors), &j.Flow)
	checks.Claimed(j)
	ticks.Read(j)
	return j, err
}

// span is the time between two times in microseconds: 28 years at most, and 0 if to is not after
// from.
func span(from, to int64) int64 {
	if from >= to {
		return 0
	}
	return int64(min(uint64(to)-uint64(from), 9e14)) // the difference of any two int64 fits into a uint64
}

// plus adds spans, or sums of spans. A sum is 28,000 years at most, here as in the statements, so
// that two sums always fit into 64 bits.
func plus(a, b int64) int64 { return min(a+b, 9e17) }
