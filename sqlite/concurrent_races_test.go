package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
	"github.com/dibs-queue/dibs/sqlite"
)

// contest is a store in its concurrent mode. SQL that a test runs stands for what other transactions do.
type contest struct {
	*testing.T
	*sqlite.Store
	turns *sqlite.Turns
}

func newContest(t *testing.T) *contest {
	c := &contest{T: t, turns: &sqlite.Turns{}}
	c.Store = openWithTurns(t, filepath.Join(t.TempDir(), "jobs.db"), c.turns)
	return c
}

func (c *contest) sql(text string, args ...any) {
	c.Helper()
	if _, err := c.DB().ExecContext(c.Context(), text, args...); err != nil {
		c.Fatal(err)
	}
}

func (c *contest) set(change dibs.QueueChange) {
	c.Helper()
	if _, err := c.ChangeQueue(c.Context(), "q", change.Apply); err != nil {
		c.Fatal(err)
	}
}

func (c *contest) enqueue(jobs ...dibs.NewJob) (ids []int64) {
	c.Helper()
	for i := range jobs {
		jobs[i].Queue, jobs[i].Kind = "q", "k"
	}
	done, err := c.Enqueue(c.Context(), jobs)
	if err != nil {
		c.Fatal(err)
	}
	for _, d := range done {
		ids = append(ids, d.ID)
	}
	return ids
}

func (c *contest) claim(n int) []int64 {
	c.Helper()
	return c.claimOn(c.Store, n)
}

func (c *contest) claimOn(s interface {
	Claim(context.Context, dibs.ClaimRequest) ([]*dibs.RawJob, error)
}, n int,
) (ids []int64) {
	c.Helper()
	jobs, err := s.Claim(c.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: n})
	if err != nil {
		c.Fatal(err)
	}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// claims expects that a claim of up to n jobs takes these.
func (c *contest) claims(n int, want ...int64) {
	c.Helper()
	if got := c.claim(n); !slices.Equal(got, want) {
		c.Fatalf("claimed %v, want %v", got, want)
	}
}

// anotherClaim is the SQL of another transaction's claim of a job, with its start for the rates of groups.
func anotherClaim(id int64) string {
	return fmt.Sprintf(`
		update dibs_job set token = randomblob(16), lease_until = unixepoch() * 1000000 + 60000000, claimed_at = unixepoch() * 1000000, attempt = 1 where id = %d;
		insert into dibs_start (queue, at, groups) select queue, claimed_at, json_array(group_key) from dibs_job where id = %d`, id, id)
}

// A job that another transaction claims while an admission counts may be counted as waiting for its start and as started,
// but never as neither: then its group's rate would let one more start.
func TestAStartBesideAnAdmissionCounts(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"places", "starts"} {
		t.Run("before "+moment, func(t *testing.T) {
			t.Parallel()
			c := newContest(t)
			c.set(dibs.QueueChange{GroupLimit: new(5), GroupRate: &dibs.Rate{N: 1, Per: time.Hour, Burst: 1}})
			ids := c.enqueue(dibs.NewJob{Group: "g"}, dibs.NewJob{Group: "g"}, dibs.NewJob{Group: "g"}, dibs.NewJob{Group: "g"})
			if got := c.claimOn(c.Store, 1); !slices.Equal(got, ids[:1]) { // with a burst of 1, a second job may start
				t.Fatalf("claimed %v", got)
			}
			c.enqueue(dibs.NewJob{Group: "g"}) // an admission is due
			met := 0
			rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
				if name != moment || met > 0 {
					return nil
				}
				met++
				return exec(anotherClaim(ids[1]))
			})
			got := c.claimOn(rows, 9)
			got = append(got, c.claim(9)...)
			if met == 0 {
				t.Fatal("no admission was made")
			}
			if len(got) > 0 {
				t.Errorf("jobs %v start, though two have started and the rate lets no third one", got)
			}
		})
	}
}

// seen notes SQLite's clock, in microseconds.
const seen = "create table seen as select cast(round(unixepoch('subsec') * 1000) as integer) * 1000 as at"

// A claim that has its turn goes by a time that is not before the starts of the claims that had it earlier: by an older
// time the rate would owe more than it can, and forget what it owes.
func TestAClaimOwesWhatEarlierTurnsHaveSpent(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{Rate: &dibs.Rate{N: 1, Per: time.Hour}})
	c.enqueue(dibs.NewJob{})
	c.AddStatement("seen", seen)
	c.AddStatement("spent", "insert into dibs_rate (queue, group_key, full_ns, not_before) select 'q', '', at * 1000 + 3600000000000, 0 from seen")
	c.turns.Taken = func(s *rowstore.Session, turn rowstore.Turn, _ bool) error {
		if turn != rowstore.TurnClaim {
			return nil
		}
		time.Sleep(5 * time.Millisecond) // SQLite counts milliseconds
		if _, err := s.Exec("seen"); err != nil {
			return err
		}
		_, err := s.Exec("spent")
		return err
	}
	c.claims(9)
	c.owesAnHour("")
}

// A claim that does not get its turn changes nothing of the rate: the claim that has the turn may be writing it.
func TestAClaimWithoutItsTurnLeavesTheRateAlone(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{Rate: &dibs.Rate{N: 1, Per: time.Minute}}) // owes a minute at most
	c.enqueue(dibs.NewJob{})
	c.sql(seen + "; insert into dibs_rate (queue, group_key, full_ns, not_before) select 'q', '', at * 1000 + 3600000000000, 0 from seen")
	c.turns.Refuse = func(turn rowstore.Turn) bool { return turn == rowstore.TurnClaim }
	c.claims(9)
	c.owesAnHour("")
}

// Nor is a start forgotten that an admission counts towards the rate of its group.
func TestAnAdmissionOwesTheStartsThatItCounts(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{GroupRate: &dibs.Rate{N: 1, Per: time.Hour}})
	c.enqueue(dibs.NewJob{Group: "g"})
	met := 0
	rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
		if name != "starts" || met > 0 {
			return nil
		}
		met++
		time.Sleep(5 * time.Millisecond)
		return exec(seen + "; insert into dibs_start (queue, at, groups) select 'q', at, json_array('g') from seen")
	})
	if got := c.claimOn(rows, 9); len(got) > 0 || met == 0 {
		t.Errorf("claimed %v, though a job of another claim has started", got)
	}
	c.owesAnHour("g")
}

// owesAnHour fails unless a rate owes an hour from the time that seen has noted.
func (c *contest) owesAnHour(group string) {
	c.Helper()
	var owes, want int64
	if err := c.DB().QueryRowContext(c.Context(), "select full_ns / 1000, at + 3600000000 from dibs_rate, seen where group_key = ?", group).Scan(&owes, &want); err != nil {
		c.Fatal(err)
	}
	if owes != want {
		c.Errorf("the rate owes %d us too few", want-owes)
	}
}

// What a group's rate has saved up is not forgotten while starts are still to be counted towards it: counted from nothing,
// they would weigh less.
func TestARateIsKeptForStartsThatAreToBeCounted(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{GroupRate: &dibs.Rate{N: 1, Per: time.Second}})
	ids := c.enqueue(dibs.NewJob{Group: "g"})
	c.claims(9, ids[0])
	c.sql(`insert into dibs_rate (queue, group_key, full_ns) values ('q', 'g', 1)
		on conflict (queue, group_key) do update set full_ns = 1`) // it was full when the job started
	if _, err := c.Sweep(c.Context()); err != nil {
		t.Fatal(err)
	}
	var kept int
	if err := c.DB().QueryRowContext(c.Context(), "select count(*) from dibs_rate where group_key = 'g'").Scan(&kept); err != nil || kept != 1 {
		t.Errorf("%d rows of the group's rate are kept, %v", kept, err)
	}
}

// A job that another transaction holds while a better one of its group is waiting keeps its place.
func TestAJobThatIsHeldKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for _, claimed := range []bool{true, false} {
		t.Run(fmt.Sprint("claimed=", claimed), func(t *testing.T) {
			t.Parallel()
			c := newContest(t)
			first := c.enqueue(dibs.NewJob{Group: "g"})[0]
			c.set(dibs.QueueChange{Paused: new(true)})
			c.claims(9)
			c.set(dibs.QueueChange{Paused: new(false)})
			c.sql("insert into dibs_locked (id) values (?)", first)
			better := c.enqueue(dibs.NewJob{Group: "g", Priority: new(0)})[0]
			c.claims(9)
			if claimed {
				c.sql(anotherClaim(first))
			}
			c.sql("delete from dibs_locked")
			c.pass(time.Second)
			if claimed {
				c.claims(9) // the group's only place is taken
				return
			}
			c.claims(9, better)
		})
	}
}

// A claim under a limit counts what runs only in its turn; without it, it takes nothing.
func TestClaimsWithoutTheirTurnTakeNothing(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{Concurrency: new(1)})
	ids := c.enqueue(dibs.NewJob{}, dibs.NewJob{})
	c.turns.Refuse = func(turn rowstore.Turn) bool { return turn == rowstore.TurnClaim }
	c.claims(9)
	c.turns.Refuse = nil
	c.claims(9, ids[0])
	c.claims(9)
}

// A claim goes by the settings that it finds in its turn, not by those from before it: a limit that was set in between holds.
func TestALimitThatIsSetBesideAClaimHolds(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{})
	ids := c.enqueue(dibs.NewJob{}, dibs.NewJob{}, dibs.NewJob{})
	c.AddStatement("limit", "update dibs_queue set concurrency = 1")
	c.turns.Taken = func(s *rowstore.Session, turn rowstore.Turn, shared bool) error {
		if turn != rowstore.TurnClaim || !shared {
			return nil
		}
		_, err := s.Exec("limit")
		return err
	}
	c.claims(9)
	c.turns.Taken = nil
	c.claims(9, ids[0])
	c.claims(9)
}

// held is the lease of a job whose row another transaction holds.
func (c *contest) held() dibs.Lease {
	c.Helper()
	c.enqueue(dibs.NewJob{})
	jobs, err := c.Claim(c.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	if err != nil || len(jobs) != 1 {
		c.Fatal(jobs, err)
	}
	c.sql("insert into dibs_locked (id) values (?)", jobs[0].ID)
	return jobs[0].Lease()
}

// An outcome is written once the other transaction lets go of the job's row. Until then the job is not taken for lost.
func TestAnOutcomeWaitsForAnotherTransaction(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	l, looks := c.held(), 0
	rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
		if name != "held" {
			return nil
		}
		if looks++; looks < 3 {
			return nil
		}
		return exec("delete from dibs_locked")
	})
	other := dibs.Lease{ID: 1 << 40, Token: l.Token}
	err := rows.Finish(t.Context(), []dibs.Outcome{l.Complete(nil), other.Complete(nil)})
	var refused *dibs.FinishError
	if !errors.As(err, &refused) || !slices.Equal(refused.Lost, []int64{other.ID}) || len(refused.Unwritten) > 0 || errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("of two jobs, one of which is lost: %v", err)
	}
	if j, err := c.Get(t.Context(), l.ID); err != nil || j.State != dibs.Completed {
		t.Errorf("the job is %v, %v", j, err)
	}
}

// A job whose row stays locked is unwritten, not lost: its holder may try again.
func TestAnOutcomeThatCannotBeWrittenIsNotLost(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	l := c.held()
	ctx, cancel := context.WithCancel(t.Context())
	rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, _ func(string) error) error {
		if name == "tokens" {
			cancel()
		}
		return nil
	})
	err := rows.Finish(ctx, []dibs.Outcome{l.Complete(nil)})
	var refused *dibs.FinishError
	if !errors.As(err, &refused) || !slices.Equal(refused.Unwritten, []int64{l.ID}) || len(refused.Lost) > 0 || !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("while another transaction holds it: %v", err)
	}
	e, err := c.Extend(t.Context(), []dibs.Lease{l}, time.Hour)
	if err != nil || !slices.Equal(e.Finishing, []int64{l.ID}) || len(e.Lost) > 0 {
		t.Errorf("extended meanwhile: %+v, %v", e, err)
	}
	c.sql("delete from dibs_locked")
	if err := c.Finish(t.Context(), []dibs.Outcome{l.Complete(nil)}); err != nil {
		t.Errorf("after that: %v", err)
	}
}
