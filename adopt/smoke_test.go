package adopt_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/pgtest"
)

func onEach(t *testing.T, f func(t *testing.T, db *sql.DB, pg bool)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "t.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		f(t, db, false)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("pgx", pgtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		f(t, db, true)
	})
}

func exec(t *testing.T, db *sql.DB, q string, args ...any) {
	t.Helper()
	if _, err := db.Exec(q, args...); err != nil {
		t.Fatal(err)
	}
}

func TestSmoke(t *testing.T) {
	for _, side := range []bool{false, true} {
		for _, grouped := range []bool{false, true} {
			for _, tok := range []string{"token", "values"} {
				t.Run(fmt.Sprintf("side=%v,grouped=%v,%s", side, grouped, tok), func(t *testing.T) {
					onEach(t, func(t *testing.T, db *sql.DB, pg bool) { smoke(t, db, pg, side, grouped, tok) })
				})
			}
		}
	}
}

func smoke(t *testing.T, db *sql.DB, pg, side, grouped bool, tok string) {
	ctx := context.Background()
	exec(t, db, `create table work (id integer primary key, body text, pri integer not null, mark text, server text, started timestamp, ended timestamp, tries integer not null default 0, err text, grp text, nb timestamp)`)
	for i := range 40 {
		exec(t, db, fmt.Sprintf(`insert into work (id, body, pri, grp) values (%d, 'b%d', %d, 'g%d')`, i+1, i, i%3, i%5))
	}
	m := adopt.Mapping{
		Table: "work", ID: adopt.Columns{"id"}, Order: adopt.Columns{"pri"},
		Rows:        adopt.Rows{Unfinished: "ended is null", Available: "started is null", NotBefore: "nb"},
		Payload:     adopt.Payload{Columns: adopt.Columns{"body"}},
		Claim:       adopt.Claim{StartedAt: "started", LockedBy: "server", Attempts: "tries"},
		Lease:       2 * time.Second,
		MaxAttempts: 3,
		Completed:   adopt.Change{Set: adopt.Set{"ended": "$now"}},
		Dead:        &adopt.Change{Set: adopt.Set{"ended": "$now", "err": "$error"}},
		SideTable:   side,
	}
	if tok == "token" {
		m.Claim.Token = "mark"
	}
	if side {
		m.Claim = adopt.Claim{}
		m.Available = ""
	}
	if grouped {
		m.Group = adopt.Group{Column: "grp"}
	}
	s, err := adopt.Open(ctx, db, m)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "work", Worker: "w", N: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := 10
	if grouped {
		want = 5
	}
	if len(jobs) != want {
		t.Fatalf("claimed %d", len(jobs))
	}
	if jobs[0].ID != 1 || string(jobs[0].Payload) != `"b0"` || jobs[0].Attempt != 1 {
		t.Errorf("first: %+v", jobs[0])
	}
	x, err := s.Extend(ctx, []dibs.Lease{jobs[0].Lease(), jobs[1].Lease(), {ID: 39, Token: dibs.Token{1}}}, 2*time.Second)
	if err != nil || len(x.Lost) != 1 {
		t.Fatalf("%+v %v", x, err)
	}
	err = s.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil), jobs[1].Lease().RetryAfter(0, "bad"), jobs[2].Lease().Die("worse"), jobs[3].Lease().Release()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err == nil {
		t.Error("finished twice")
	}
	// another process
	s2, err := adopt.Open(ctx, db, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := s2.Finish(ctx, []dibs.Outcome{jobs[4].Lease().Complete(nil)}); err != nil {
		t.Error(err)
	}
	st, err := s.Stats(ctx)
	t.Logf("%+v %v", st, err)
	page, err := s.List(ctx, dibs.Filter{Limit: 3})
	if err != nil || len(page.Jobs) != 3 {
		t.Errorf("%v %v", page, err)
	}
	if _, err = s2.Resume(ctx, dibs.ResumeRequest{Queue: "work", Worker: "w"}); err != nil {
		if !(tok == "x") {
			t.Error(err)
		}
	}
	seen := map[int64]int{}
	for len(seen) < 38 && t.Context().Err() == nil {
		jobs, err := s2.Claim(ctx, dibs.ClaimRequest{Queue: "work", Worker: "w2", N: 3})
		if err != nil {
			t.Fatal(err)
		}
		var out []dibs.Outcome
		for _, j := range jobs {
			seen[j.ID]++
			out = append(out, j.Lease().Complete(nil))
		}
		if err := s2.Finish(ctx, out); err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			st, _ := s.Stats(ctx)
			if st[0].Waiting+st[0].Running == 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	t.Log(len(seen))
	var n int
	if err := db.QueryRow("select count(*) from work where ended is null").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d left, %v", n, err)
	}
}
