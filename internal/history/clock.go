package history

import (
	"math"
	"time"
)

// All times are microseconds since 1970 on the clients' clock, or where it says so on
// the database's.
const never = math.MaxInt64 / 4

// grain is by how much what a database's clock tells a call may be older than the
// call's begin, in microseconds: SQLite counts whole milliseconds, and there the calls
// of one transaction share a time for another one.
const grain = 2000

// clock bounds by how much the database's clock is ahead of the clients', before it
// is rounded to its grain. Every claim says that it is at least ClaimedAt - End and at
// most ClaimedAt - Begin, and a grain. If these contradict each other, a clock was
// moved during the run, and the bounds are the widest that any claim gave.
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

// client bounds when the database's clock came to t, by the clients': it tells no call
// that ended before from that it has, and every call that begins at to or later.
func (c clock) client(t time.Time) (from, to int64) {
	return micros(t) - c.most, micros(t) - c.least + grain
}

// show is a time of the clients' clock for people.
func show(us int64) string {
	switch {
	case us >= never/2:
		return "an unknown time"
	default:
		return time.UnixMicro(us).UTC().Format("15:04:05.000000")
	}
}
