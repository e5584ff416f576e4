package adopt_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/needs"
)

// times lists the types of time columns with the formats that a mapping knows.
var times = []struct {
	postgres bool
	column   string
	format   mapping.TimeFormat
}{
	{true, "timestamptz", ""}, // the first ones are tried for both columns
	{true, "timestamp(0)", mapping.TimesUTC},
	{false, "text", ""},
	{false, "integer", mapping.TimesUnixMS},
	{true, "timestamptz(0)", ""},
	{true, "timestamp(3)", mapping.TimesUTC},
	{true, "timestamptz(1)", ""},
	{true, "timestamp", ""},
	{true, "timestamp", mapping.TimesLocal},
	{true, "timestamp", mapping.TimesUTC},
	{true, "bigint", mapping.TimesUnix},
	{true, "bigint", mapping.TimesUnixMS},
	{false, "datetime", mapping.TimesSeconds},
	{false, "text", mapping.TimesMillis},
	{false, "text", mapping.TimesISO},
	{false, "datetime(6)", mapping.TimesMicros},
	{false, "integer", ""},
}

// A row that is to run again without a delay waits for no other second.
func TestARowWithoutADelayIsAvailableAtOnce(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	for _, c := range times {
		t.Run(fmt.Sprintf("%s %s", c.column, c.format), func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				if pg != c.postgres {
					return
				}
				exec(t, db, fmt.Sprintf(`create table task (id integer primary key, who text, at %s, due %[1]s, done integer)`, c.column))
				exec(t, db, `insert into task (id) values (1)`)
				m := task()
				m.Times, m.Available, m.NotBefore = c.format, "who is null", "due"
				m.Claim = mapping.Claim{LockedBy: "who", Timeout: "at"}
				s := opened(t, db, m)
				for range 3 {
					jobs := claim(t, s, 1)
					if len(jobs) != 1 {
						t.Fatalf("claimed %d rows, want the one that was put back", len(jobs))
					}
					if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().RetryAfter(0, "again")}); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// A lease never ends before the time that its claim returned. If times are whole seconds it may
// end up to a second later.
func TestALeaseNeverEndsEarly(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	for _, field := range []string{"timeout", "started_at"} {
		for i, c := range times {
			if field == "started_at" && i > 3 {
				break
			}
			t.Run(fmt.Sprintf("%s %s %s", field, c.column, c.format), func(t *testing.T) {
				onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
					if pg == c.postgres {
						leaseEnds(t, db, field, c.column, c.format)
					}
				})
			})
		}
	}
}

func leaseEnds(t *testing.T, db *sql.DB, field, column string, format mapping.TimeFormat) {
	exec(t, db, fmt.Sprintf(`create table task (id integer primary key, who text, at %s, due %[1]s, done integer)`, column))
	exec(t, db, `insert into task (id) values (1)`)
	m := task()
	m.Lease, m.Times, m.Available, m.NotBefore = 300*time.Millisecond, format, "who is null", "due"
	m.Claim = mapping.Claim{LockedBy: "who", StartedAt: "at"}
	if field == "timeout" {
		m.Claim = mapping.Claim{LockedBy: "who", Timeout: "at"}
	}
	s := opened(t, db, m)
	first := take(t, s, 1, 1)[0]
	if got := first.LeaseUntil.Sub(first.ClaimedAt); got != m.Lease {
		t.Errorf("the lease is %v long", got)
	}
	held, err := s.Get(t.Context(), 1)
	if err != nil || held.LeaseUntil.Before(first.LeaseUntil) {
		t.Errorf("the row says that it ends at %v, the claim said %v; %v", held.LeaseUntil, first.LeaseUntil, err)
	}
	if _, err := s.Extend(t.Context(), []dibs.Lease{first.Lease()}, m.Lease); err != nil {
		t.Fatal(err)
	}
	longer, err := s.Get(t.Context(), 1)
	if err != nil || longer.LeaseUntil.Before(held.LeaseUntil) {
		t.Errorf("extended it ends at %v, before at %v; %v", longer.LeaseUntil, held.LeaseUntil, err)
	}
	second := recovered(t, s, 1)
	if second.ClaimedAt.Before(first.LeaseUntil) {
		t.Errorf("claimed again at %v, though the lease lasted until %v", second.ClaimedAt, first.LeaseUntil)
	}
	if second.ClaimedAt.Before(longer.LeaseUntil) {
		t.Errorf("claimed again at %v, though the row said %v", second.ClaimedAt, longer.LeaseUntil)
	}
	later := second.Lease().RetryAfter(300*time.Millisecond, "again")
	if err := s.Finish(t.Context(), []dibs.Outcome{later}); err != nil {
		t.Fatal(err)
	}
	take(t, s, 1) // the delay of row 2 is not over
	third := recovered(t, s, 1)
	if wait := third.ClaimedAt.Sub(second.ClaimedAt); wait < 300*time.Millisecond {
		t.Errorf("after a delay of 300 ms it came back after %v", wait)
	}
}

// Open refuses a started_at column of whole seconds as the only fence: two claims within one second look alike.
func TestWholeSecondsAloneAreNoFence(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table task (id integer primary key, who text, at bigint, done integer)`)
		m := task()
		m.Available, m.Claim, m.Times = "at is null", mapping.Claim{StartedAt: "at"}, mapping.TimesUnix
		var bad *dibs.InvalidError
		if _, err := adopt.Open(t.Context(), db, m); !errors.As(err, &bad) || bad.Field != "claim.started_at" {
			t.Errorf("opened: %v", err)
		}
		m.Claim.LockedBy = "who"
		opened(t, db, m)
	})
}

// A started_at column with milliseconds suffices as a fence, in any format, and Check says what
// that means. A coarser one does not.
func TestMillisecondsAreAFence(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		for i, c := range []struct {
			postgres bool
			column   string
			format   mapping.TimeFormat
			fence    bool
			says     string
		}{
			{true, "timestamp(3)", "", true, "milliseconds"},
			{true, "timestamptz(3)", "", true, "milliseconds"},
			{true, "timestamptz(6)", "", true, "microseconds"},
			{true, "timestamp(5)", mapping.TimesLocal, true, "steps of 10µs"},
			{true, "bigint", mapping.TimesUnixMS, true, "milliseconds"},
			{true, "timestamp(2)", "", false, "steps of 10ms"},
			{true, "timestamp(0)", "", false, "whole seconds"},
			{false, "datetime", mapping.TimesMillis, true, "milliseconds"},
			{false, "datetime(6)", mapping.TimesMicros, true, "milliseconds"},
			{false, "text", mapping.TimesISO, true, "milliseconds"},
			{false, "datetime", mapping.TimesUnixMS, true, "milliseconds"},
			{false, "datetime", "", false, "whole seconds"},
		} {
			if c.postgres != pg {
				continue
			}
			m := task()
			m.Table, m.Queue = fmt.Sprintf("task%d", i), "task"
			exec(t, db, "create table "+m.Table+" (id integer primary key, who text, at "+c.column+", done integer)")
			exec(t, db, "insert into "+m.Table+" (id) values (1)")
			m.Available, m.Claim, m.Times = "at is null", mapping.Claim{StartedAt: "at"}, c.format
			s, err := adopt.Open(t.Context(), db, m)
			if !c.fence {
				if err == nil || !strings.Contains(err.Error(), "at holds "+c.says) {
					t.Errorf("%s %s: %v, want that it holds %s", c.column, c.format, err, c.says)
				}
				m.Claim.LockedBy = "who"
				s = opened(t, db, m)
			} else if err != nil {
				t.Errorf("%s %s: %v", c.column, c.format, err)
				continue
			}
			if text := listing(findings(t, db, m)); !strings.Contains(text, "holds "+c.says) || !strings.Contains(text, "two claims of a row") {
				t.Errorf("%s %s: Check does not say %q:\n%s", c.column, c.format, c.says, text)
			}
			held := take(t, s, 1, 1)
			if _, err := s.Extend(t.Context(), []dibs.Lease{held[0].Lease()}, m.Lease); err != nil {
				t.Errorf("%s %s: %v", c.column, c.format, err)
			}
			if err := s.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil)}); err != nil {
				t.Errorf("%s %s: %v", c.column, c.format, err)
			}
		}
	})
}
