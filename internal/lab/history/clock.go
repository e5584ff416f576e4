package history

import (
	"math"
	"time"
)

// never is later than any time. Times are microseconds since 1970 on the clients' clock,
// unless a comment says that they are the database's.
const never = math.MaxInt64 / 4

// grain is how many microseconds a time that a database tells a call may lie before the
// call began: on SQLite, times are whole milliseconds, and the calls of one transaction
// share a time for another millisecond.
const grain = 2000

// clock bounds how far the database's clock is ahead of the clients', before rounding to
// its grain. Every claim shows that this is at least ClaimedAt - End and at most
// ClaimedAt - Begin + grain. If claims contradict each other, a clock was moved during
// the run, and the bounds are the widest that any claim gave.
type clock struct{ least, most int64 }

func clockOf(calls []*Call) clock {
	tight, wide := clock{-never, never}, clock{never, -never}
	for _, c := range calls {
		if (c.Verb != Claim && c.Verb != Resume) || c.Fate != Done || len(c.Jobs) == 0 {
			continue
		}
		at := micros(c.Jobs[0].ClaimedAt)
		least, most := at-micros(c.End), at-micros(c.Begin)+grain
		tight = clock{max(tight.least, least), min(tight.most, most)}
		wide = clock{min(wide.least, least), max(wide.most, most)}
	}
	if tight.least > tight.most {
		return wide
	}
	return tight
}

// Ahead estimates how far the database's clock is ahead of the clients'. It is 0 if the claims allow that.
func Ahead(calls []*Call) time.Duration {
	c := clockOf(calls)
	most := c.most - grain
	if c.least <= 0 && 0 <= most {
		return 0
	}
	return duration((c.least + most) / 2)
}

// client converts the database's time t to the clients' clock. A call that ended before
// from acts before t, and a call that begins at to or later acts after t.
func (c clock) client(t time.Time) (from, to int64) {
	return micros(t) - c.most, micros(t) - c.least + grain
}

// timeText formats a time of the clients' clock for messages.
func timeText(us int64) string {
	switch {
	case us >= never/2:
		return "an unknown time"
	default:
		return time.UnixMicro(us).UTC().Format("15:04:05.000000")
	}
}
