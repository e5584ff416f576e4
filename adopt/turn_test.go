package adopt_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/needs"
)

// gauge counts the running rows of each group, as the workers report them.
type gauge struct {
	mu         sync.Mutex
	running    map[string]int
	maxInGroup int // the most rows of one group that ran at once
	all        int // number of running rows
	maxAll     int // the most rows that ran at once
	done       int
}

func (g *gauge) add(jobs []*dibs.RawJob, change int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all += change * len(jobs)
	g.maxAll = max(g.maxAll, g.all)
	for _, j := range jobs {
		if j.Group != "" {
			g.running[j.Group] += change
			g.maxInGroup = max(g.maxInGroup, g.running[j.Group])
		}
	}
}

// grouped creates a table with groups, and returns mappings that store claims in different ways.
func grouped(t *testing.T, db *sql.DB, rows string) map[string]mapping.Mapping {
	t.Helper()
	exec(t, db, `create table work (id integer primary key, status text not null default 'new', grp text, mark text)`)
	exec(t, db, rows)
	side := sided()
	side.Lease, side.Group = time.Minute, mapping.Group{Column: "grp", Limit: 2}
	row := side
	row.SideTable, row.Claim.Token = false, "mark"
	alone := side
	alone.Available, alone.Claim, alone.PutBack = "", mapping.Claim{}, mapping.Change{}
	limited := side
	limited.Concurrency = 3
	return map[string]mapping.Mapping{"in the row": row, "both": side, "side table": alone, "a limit of all": limited}
}

// Concurrent claims, in transactions that commit or roll back, never run more rows of a group
// than its limit.
func TestGroupLimitsHoldWhileClaimsRunSideBySide(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	for _, way := range []string{"in the row", "both", "side table", "a limit of all"} {
		t.Run(way, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				const rows, workers = 240, 6
				var values string
				groups := 7
				if way == "a limit of all" { // this lets the run reach both limits
					groups = 2
				}
				for i := range rows {
					values += fmt.Sprintf(", (%d, 'g%d')", i+1, i%groups)
				}
				m := grouped(t, db, "insert into work (id, grp) values "+values[2:])[way]
				g := &gauge{running: map[string]int{}}
				first := opened(t, db, m)
				jobs := claim(t, first, rows) // the limits allow these at once
				g.add(jobs, 1)
				g.add(jobs, -1)
				for _, j := range jobs {
					g.done++
					if err := first.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var all sync.WaitGroup
				for range workers {
					s := opened(t, db, m)
					all.Go(func() { g.work(ctx, t, s, db, pg, rows) })
				}
				all.Wait()
				if g.maxInGroup != 2 || g.done != rows {
					t.Errorf("%d rows of a group ran at once, limit 2; %d of %d rows were done", g.maxInGroup, g.done, rows)
				}
				if m.Concurrency > 0 && g.maxAll != m.Concurrency {
					t.Errorf("%d rows ran at once, limit %d", g.maxAll, m.Concurrency)
				}
			})
		})
	}
}

// work claims and finishes until all rows are done.
func (g *gauge) work(ctx context.Context, t *testing.T, s *adopt.Store, db *sql.DB, pg bool, rows int) {
	for ctx.Err() == nil {
		g.mu.Lock()
		done := g.done == rows
		g.mu.Unlock()
		if done {
			return
		}
		claim, finish, end := s.Claim, s.Finish, func() error { return nil }
		keep := true
		if pg && rand.IntN(2) == 0 {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Error(err)
				return
			}
			inTx := s.SQLTx(tx)
			claim, finish, end = inTx.Claim, inTx.Finish, tx.Commit
			if keep = rand.IntN(3) > 0; !keep {
				end = tx.Rollback
			}
		}
		jobs, err := claim(ctx, dibs.ClaimRequest{Worker: "w", N: 1 + rand.IntN(5)})
		if err != nil {
			t.Error(err)
		}
		g.add(jobs, 1)
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // the work
		g.add(jobs, -1)
		var outcomes []dibs.Outcome
		for _, j := range jobs {
			outcomes = append(outcomes, j.Lease().Complete(nil))
		}
		if err := finish(ctx, outcomes); err != nil {
			t.Error(err)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if keep {
			g.mu.Lock()
			g.done += len(jobs)
			g.mu.Unlock()
		}
	}
}

// While a transaction with claimed rows is open, other claims get at once the rows that the limits
// allow, in order, even if they have to skip more locked rows than they ask for.
func TestAnOpenTransactionLeavesOthersWhatTheLimitsAllow(t *testing.T) {
	for _, way := range []string{"in the row", "both", "side table"} {
		t.Run(way, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				if !pg {
					return // SQLite has one writer at a time
				}
				m := grouped(t, db, `insert into work (id, grp) values (1, null), (2, 'a'), (3, null), (4, null), (5, 'a'), (6, 'b'), (7, null), (8, 'c'), (9, 'c'), (10, 'c'), (11, 'a')`)[way]
				s := opened(t, db, m)
				tx := begin(t, db, pg)
				takeIn(t, s.SQLTx(tx), 4, 1, 2, 3, 4)
				jobs := take(t, s, 2, 6, 7) // only rows of group a: the other claim has the turn of b
				take(t, s, 5, 8, 9)
				take(t, s, 5)
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				take(t, s, 10, 1, 2, 3, 4, 5)
				if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
					t.Error(err)
				}
				take(t, s, 10)
			})
		})
	}
}

// Each of several concurrent claims gets rows without a group in order. Rows of a group are claimed
// in order over all claims. No claim locks a row that it does not take.
func TestClaimsSideBySideKeepTheOrder(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	for _, way := range []string{"in the row", "both", "side table"} {
		t.Run(way, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				const rows = 1500
				var values string
				for i := range rows {
					group := "null"
					if i%10 == 0 {
						group = fmt.Sprintf("'g%d'", i/30)
					}
					values += fmt.Sprintf(", (%d, %s)", i+1, group)
				}
				m := grouped(t, db, "insert into work (id, grp) values "+values[2:])[way]
				s := opened(t, db, m)
				var mu sync.Mutex
				found := map[int64]bool{}
				var all sync.WaitGroup
				for range 6 {
					all.Go(func() {
						last := int64(0)
						for quiet := 0; quiet < 3 && t.Context().Err() == nil; {
							jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 7})
							if err != nil {
								t.Error(err)
								return
							}
							quiet++
							mu.Lock()
							for _, j := range jobs {
								quiet = 0
								if found[j.ID] {
									t.Errorf("row %d was claimed twice", j.ID)
								}
								found[j.ID] = true
								if j.Group == "" && j.ID < last {
									t.Errorf("row %d came after %d", j.ID, last)
								}
								if j.Group == "" {
									last = j.ID
								}
							}
							mu.Unlock()
						}
					})
				}
				all.Wait()
				for id := range int64(rows) {
					first := id%30 < 20 // each group has three rows and a limit of two
					if want := id%10 != 0 || first; want != found[id+1] {
						t.Errorf("row %d: claimed %v, want %v", id+1, found[id+1], want)
					}
				}
			})
		})
	}
}

// A claim takes rows from a limited number of groups. Rows without a group do not count.
func TestAClaimHasTurnsOfFiveHundredGroups(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		var values string
		for i := range 600 {
			values += fmt.Sprintf(", (%d, 'g%d'), (%d, null)", 2*i+1, i, 2*i+2)
		}
		s := opened(t, db, grouped(t, db, "insert into work (id, grp) values "+values[2:])["both"])
		want := 1200
		if pg {
			want = 1100
		}
		for _, n := range []int{want, 1200 - want} {
			jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 5000})
			if err != nil || len(jobs) != n {
				t.Errorf("%d rows, want %d; %v", len(jobs), n, err)
			}
		}
	})
}
