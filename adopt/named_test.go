package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// sideMapping is a mapping with only the required fields.
func sideMapping(id ...string) mapping.Mapping {
	return mapping.Mapping{
		Table: "work", ID: id, Rows: mapping.Rows{Unfinished: "done = 0"}, SideTable: true, Lease: 2 * time.Second,
		Completed: mapping.Change{Set: mapping.Set{"done": 1}},
	}
}

// A process can finish a row that another has claimed, by the row's own id.
func TestRowsAreFinishedByTheirIDsInAnotherProcess(t *testing.T) {
	for name, test := range map[string]struct {
		create string
		id     []string
		insert []any
	}{
		"text": {"id text primary key", []string{"id"}, []any{
			"plain", "17", " ", "<a> & b", `"quoted\"`, "tab\tline\nback\\slash\b\f\r", "\x01\x1f\x7f", "Ünïcode\u2028日本", "[1]",
		}},
		"uuid":    {"id uuid primary key", []string{"id"}, []any{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"}},
		"numbers": {"id bigint primary key", []string{"id"}, []any{1, 17, 0, -5, 9007199254740993}},
		"several": {"id text not null, part bigint not null default 3, primary key (id, part)", []string{"id", "part"}, []any{"a", "x,y", `"`}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
				exec(t, db, "create table work (done int not null default 0, "+test.create+")")
				for _, v := range test.insert {
					exec(t, db, "insert into work (id) values ($1)", v)
				}
				m := sideMapping(test.id...)
				m.Lease = time.Hour
				jobs := claim(t, open(t, db, m), 100)
				if len(jobs) != len(test.insert) {
					t.Fatalf("claimed %d of %d", len(jobs), len(test.insert))
				}
				for _, j := range jobs {
					other := open(t, db, m)
					if j.Key != "" {
						id, err := other.ID(j.Key)
						if err != nil || id != j.ID {
							t.Errorf("key %q is %d and %d, %v", j.Key, j.ID, id, err)
						}
					}
					if err := other.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
						t.Errorf("key %q: %v", j.Key, err)
					}
				}
				var left int
				if err := db.QueryRow("select count(*) from work where done = 0").Scan(&left); err != nil || left > 0 {
					t.Errorf("%d rows are left, %v", left, err)
				}
			})
		})
	}
}

func TestAnIDThatCannotBeIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (id bigint not null, at uuid not null, done int not null default 0, primary key (id, at))")
		s := open(t, db, sideMapping("id", "at"))
		for _, name := range []string{"", "17", "[17]", `["a", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]`, `[1.5, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]`} {
			if _, err := s.ID(name); !errors.Is(err, dibs.ErrInvalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// A leased row that another program finishes loses its lease.
func TestALeaseOfARowThatSomebodyElseFinishedIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (id bigint primary key, done int not null default 0)")
		exec(t, db, "insert into work (id) values (1), (2), (3)")
		s := open(t, db, sideMapping("id"))
		jobs := claim(t, s, 3)
		exec(t, db, "update work set done = 1")
		if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
			t.Errorf("finished what somebody else has finished: %v", err)
		}
		if again, err := s.Resume(t.Context(), dibs.ClaimRequest{Worker: "w"}); err != nil || len(again) > 0 {
			t.Errorf("resumed %d rows that have ended, %v", len(again), err)
		}
		for ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute); ; {
			defer stop()
			if _, err := s.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
			var left int
			if err := db.QueryRow("select count(*) from dibs_adopted").Scan(&left); err != nil {
				t.Fatal(err)
			}
			if left == 0 {
				return
			}
		}
	})
}

// Jobs show the leases and states in the table, or in the side table.
func TestListTellsWhatIsKnown(t *testing.T) {
	for name, side := range map[string]bool{"in the row": false, "side table": true} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
				exec(t, db, "create table work (id bigint primary key, done int not null default 0, grp text, since bigint, kind text)")
				exec(t, db, "insert into work (id, grp, kind) values (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y'), (4, 'a', 'y'), (5, 'a', 'y')")
				m := sideMapping("id")
				m.Group.Column, m.Kind, m.SideTable = "grp", "kind", side
				if !side {
					m.Claim.StartedAt, m.Available, m.Times = "since", "since is null", mapping.TimesUnixMS
				}
				s := open(t, db, m)
				before := time.Now().Add(-2 * time.Second)
				jobs := claim(t, s, 3)
				if side {
					if err := s.Finish(t.Context(), []dibs.Outcome{jobs[2].Lease().Die("broken")}); err != nil {
						t.Fatal(err)
					}
				}
				exec(t, db, "update work set done = 1 where id = 5")
				list := func(f admin.Filter) (ids []int64) {
					page, err := s.List(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					for _, j := range page.Jobs {
						ids = append(ids, j.ID)
						if j.State == dibs.Running && (j.ClaimedAt.Before(before) || j.LeaseUntil.Before(j.ClaimedAt)) {
							t.Errorf("row %d runs since %v until %v", j.ID, j.ClaimedAt, j.LeaseUntil)
						}
						if j.State == dibs.Dead && (len(j.Errors) != 1 || j.Errors[0].Error != "broken" || j.Attempt != 1) {
							t.Errorf("dead: %+v", j)
						}
					}
					return ids
				}
				open, dead := []int64{1, 2, 3, 4}, 0
				if side {
					open, dead = []int64{1, 2, 4}, 1
				}
				same(t, "all", list(admin.Filter{}), open...)
				same(t, "running", list(admin.Filter{State: dibs.Running}), open[:len(open)-1]...)
				same(t, "waiting", list(admin.Filter{State: dibs.Waiting}), 4)
				same(t, "group", list(admin.Filter{Group: "a"}), 1, 4)
				same(t, "kind", list(admin.Filter{Kind: "x"}), 1, 2)
				if side {
					same(t, "dead", list(admin.Filter{State: dibs.Dead}), 3)
				} else if _, err := s.List(t.Context(), admin.Filter{State: dibs.Dead}); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("dead rows: %v", err)
				}
				if _, err := s.List(t.Context(), admin.Filter{State: dibs.Completed}); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("completed rows: %v", err)
				}
				st, err := s.Stats(t.Context())
				if err != nil || st[0].Waiting != 1 || st[0].Scheduled != 0 || int(st[0].Running) != len(open)-1 || int(st[0].Dead) != dead {
					t.Errorf("%+v %v", st, err)
				}
				for id, want := range map[int64]dibs.State{1: dibs.Running, 4: dibs.Waiting, 5: dibs.Completed} {
					if j, err := s.Get(t.Context(), id); err != nil || j.State != want {
						t.Errorf("row %d is %+v, %v", id, j, err)
					}
				}
			})
		})
	}
}

func same(t *testing.T, what string, got []int64, want ...int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}

// If extending changes the token, only the store that made the claim can extend it.
func TestWhereTokensChangeOnlyTheClaimerExtends(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (id bigint primary key, done int not null default 0, since bigint)")
		exec(t, db, "insert into work (id) values (1)")
		m := sideMapping("id")
		m.SideTable, m.Claim.StartedAt, m.Times, m.Available, m.Lease = false, "since", mapping.TimesUnixMS, "since is null", time.Minute
		s, other := open(t, db, m), open(t, db, m)
		lease := claim(t, s, 1)[0].Lease()
		if _, err := other.Extend(t.Context(), []dibs.Lease{lease}, time.Minute); !errors.Is(err, errors.ErrUnsupported) || other.TokensLast() {
			t.Errorf("extended elsewhere: %v", err)
		}
		if x, err := s.Extend(t.Context(), []dibs.Lease{lease}, time.Minute); err != nil || len(x.Lost) > 0 {
			t.Errorf("%+v %v", x, err)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{lease.Complete(nil)}); err != nil {
			t.Error(err)
		}
	})
}

// A store extends its leases while it finishes some of them: those are lost, which is no error.
func TestLeasesAreExtendedWhileSomeEndWhereTokensChange(t *testing.T) {
	needs.Race(t)
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (id bigint primary key, done int not null default 0, since bigint)")
		m := sideMapping("id")
		m.SideTable, m.Claim.StartedAt, m.Times, m.Available, m.Lease = false, "since", mapping.TimesUnixMS, "since is null", time.Hour
		const rows = 300
		for i := range rows {
			exec(t, db, fmt.Sprint("insert into work (id) values (", i+1, ")"))
		}
		s := open(t, db, m)
		jobs := claim(t, s, rows)
		leases := make([]dibs.Lease, rows)
		for i, j := range jobs {
			leases[i] = j.Lease()
		}
		var finishing sync.WaitGroup
		var finished atomic.Bool
		finishing.Go(func() {
			defer finished.Store(true)
			for _, l := range leases {
				if err := s.Finish(t.Context(), []dibs.Outcome{l.Complete(nil)}); err != nil {
					t.Error(err)
				}
			}
		})
		defer finishing.Wait()
		for !finished.Load() {
			if _, err := s.Extend(t.Context(), leases, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if x, err := s.Extend(t.Context(), leases, time.Hour); err != nil || len(x.Lost) != rows {
			t.Errorf("after all had ended: %+v %v", x, err)
		}
	})
}

// A lease that has ended is lost, whoever made the claim.
func TestWhatHasEndedIsLostAlsoWhereTokensChange(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (id bigint primary key, done int not null default 0, since bigint)")
		exec(t, db, "insert into work (id) values (1)")
		m := sideMapping("id")
		m.SideTable, m.Claim.StartedAt, m.Times, m.Available, m.Lease = false, "since", mapping.TimesUnixMS, "since is null", 100*time.Millisecond
		s := open(t, db, m)
		lease := claim(t, s, 1)[0].Lease()
		other := open(t, db, m)
		for {
			x, err := other.Extend(t.Context(), []dibs.Lease{lease}, m.Lease)
			if err == nil && len(x.Lost) == 1 {
				return
			}
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Fatalf("%+v %v", x, err)
			}
		}
	})
}

// A time as id identifies a row to the microsecond, in sessions of any time zone.
func TestRowsAreNamedByTimesExactly(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	zoned := func(zone string) *sql.DB {
		db, err := sql.Open("pgx", url+"&timezone="+zone)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	here, there := zoned("Asia/Kolkata"), zoned("America/New_York")
	for _, kind := range []string{"timestamptz", "timestamptz(3)", "timestamp"} {
		for _, side := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, side table %v", kind, side), func(t *testing.T) {
				exec(t, here, "drop table if exists work, dibs_adopted")
				exec(t, here, "create table work (part int not null, at "+kind+" not null, done int not null default 0, by text, primary key (part, at))")
				for i, at := range []string{
					"2026-01-31 23:59:59.999999+00", "2026-01-31 23:59:59.99999+00", "2026-01-31 23:59:59+00", "2026-11-01 05:30:00.000001+00",
					"2026-11-01 06:30:00.000001+00", "1969-12-31 23:59:59.1+00", "infinity", "-infinity", "0044-03-15 12:00:00.5+00 BC",
				} {
					exec(t, here, "insert into work values ($1, $2::text::"+kind+")", i, at)
				}
				m := sideMapping("part", "at")
				m.Lease = time.Minute // this test waits for no lease to end
				if !side {
					m.SideTable, m.Available, m.Claim.LockedBy = false, "by is null", "by"
				}
				jobs := claim(t, open(t, here, m), 100)
				if len(jobs) != 9 {
					t.Fatalf("claimed %d of 9", len(jobs))
				}
				if want := `[0, "2026-01-31T23:59:59.999999"]`; kind == "timestamptz" && jobs[0].Key != want {
					t.Errorf("the first is called %s, not %s", jobs[0].Key, want)
				}
				other := open(t, there, m)
				for _, j := range jobs {
					if id, err := other.ID(j.Key); err != nil || id != j.ID {
						t.Errorf("key %q is %d and %d, %v", j.Key, j.ID, id, err)
					}
					if err := other.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
						t.Errorf("key %q: %v", j.Key, err)
					}
				}
				var left int
				if err := here.QueryRow("select count(*) from work where done = 0").Scan(&left); err != nil || left > 0 {
					t.Errorf("%d rows are left, %v", left, err)
				}
				if kind != "timestamptz" {
					return
				}
				byHand, err := other.ID(`[1, "2026-02-01 00:59:59.99999+01"]`)
				if err != nil || byHand != jobs[1].ID {
					t.Errorf("a time as people write it: %d, not %d, %v", byHand, jobs[1].ID, err)
				}
			})
		}
	}
}

// Values that JSON writes as arrays or objects do not come back as they were, so they identify no row and name no group.
func TestIDsAndGroupsOfSeveralValuesAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		if !pg {
			return // SQLite has no such types
		}
		for _, statement := range []string{"create extension hstore", "create type pair as (a int, b int)", "create domain several as int[]"} {
			exec(t, db, statement)
		}
		for _, typ := range []string{"int[]", "text[]", "hstore", "pair", "several", "jsonb"} {
			exec(t, db, fmt.Sprintf("drop table if exists work; create table work (id bigint primary key, x %s not null unique, done int not null default 0)", typ))
			for field, m := range map[string]mapping.Mapping{"id": sideMapping("x"), "group.column": sideMapping("id")} {
				if field != "id" {
					m.Group.Column = "x"
				}
				var bad *dibs.InvalidError
				if _, err := adopt.Open(t.Context(), db, m); !errors.As(err, &bad) || bad.Field != field || !strings.Contains(bad.Reason, "x is of type") {
					t.Errorf("%s of type %s: %v", field, typ, err)
				}
			}
		}
		exec(t, db, "drop table work; create table work (id int4range primary key, done int not null default 0)")
		exec(t, db, "insert into work (id) values ('[1,5)')")
		s := open(t, db, sideMapping("id"))
		if err := s.Finish(t.Context(), []dibs.Outcome{claim(t, s, 1)[0].Lease().Complete(nil)}); err != nil {
			t.Errorf("a range, which JSON writes as one string: %v", err)
		}
	})
}
