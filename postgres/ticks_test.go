package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// Another process has taken the tick, and has not committed yet.
func TestATickThatIsUnderWayIsNobodyElses(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	_, err := b.SetSchedule(b.ctx, dibs.Schedule{Name: "s", Spec: "every 1h", Kind: "k", Queue: "q"})
	b.must(err)
	setUp := b.begin()
	_, err = setUp.Exec(b.ctx, "update dibs.schedule set since = statement_timestamp() - interval '1 h', next_at = statement_timestamp()")
	b.must(err)
	b.must(setUp.Commit(b.ctx))
	other := b.begin()
	_, err = other.Exec(b.ctx, "select from dibs.schedule for update")
	b.must(err)
	swept := make(chan error, 1)
	go func() {
		_, err := b.Sweep(b.ctx)
		swept <- err
	}()
	for ended := false; !ended; {
		select {
		case err := <-swept:
			b.must(err)
			ended = true
		case <-time.After(20 * time.Millisecond):
		}
		var waiting bool
		b.must(b.pool.QueryRow(b.ctx, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')").Scan(&waiting))
		if waiting {
			t.Fatal("the sweep waits for the other process")
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		page, err := b.List(b.ctx, admin.Filter{Queue: "q"})
		b.must(err)
		if len(page.Jobs) != want {
			t.Errorf("%s there are %d jobs, want %d", when, len(page.Jobs), want)
		}
	}
	expect("while another process has the tick", 0)
	b.must(other.Rollback(b.ctx))
	for range 2 {
		_, err = b.Sweep(b.ctx)
		b.must(err)
		expect("after it has given up", 1)
	}
	b.consistent()
}

// A schedule that this program cannot read does not hold up the others.
func TestAnUnreadableScheduleIsLeftToOthers(t *testing.T) {
	b := newBench(t, postgres.Options{})
	for _, name := range []string{"newer", "ours"} {
		_, err := b.SetSchedule(b.ctx, dibs.Schedule{Name: name, Spec: "every 1h", Kind: "k", Queue: name})
		b.must(err)
	}
	tx := b.begin()
	_, err := tx.Exec(b.ctx, `
		update dibs.schedule
		set since = statement_timestamp() - interval '1 h', next_at = statement_timestamp(),
			settings = case name when 'newer' then replace(settings, 'every 1h', '@fullmoon') else settings end`)
	b.must(err)
	b.must(tx.Commit(b.ctx))
	if _, err := b.Sweep(b.ctx); err == nil {
		t.Error("the sweep does not say that it cannot read a schedule")
	}
	for queue, want := range map[string]int{"newer": 0, "ours": 1} {
		page, err := b.List(b.ctx, admin.Filter{Queue: queue})
		b.must(err)
		if len(page.Jobs) != want {
			t.Errorf("queue %s has %d jobs, want %d", queue, len(page.Jobs), want)
		}
	}
}

// A change that began before the schedule was deleted does not take the place of a new one
// with its name.
func TestAScheduleThatWasDeletedDoesNotComeBack(t *testing.T) {
	b := newBench(t, postgres.Options{})
	_, err := b.SetSchedule(b.ctx, dibs.Schedule{Name: "a", Spec: "every 1h", Kind: "old"})
	b.must(err)
	calls := 0
	_, err = b.ChangeSchedule(b.ctx, "a", func(s *dibs.Schedule) error {
		if calls++; calls == 1 {
			b.must(b.DeleteSchedule(b.ctx, "a"))
			b.must(b.SetSchedules(b.ctx, "other", []dibs.Schedule{{Name: "a", Spec: "every 2h", Kind: "new"}}))
		}
		s.Paused = true
		return nil
	})
	b.must(err)
	list, err := b.Schedules(b.ctx)
	b.must(err)
	if calls != 2 || len(list) != 1 || list[0].Kind != "new" || list[0].Owner != "other" || !list[0].Paused {
		t.Errorf("after %d calls the schedules are %+v", calls, list)
	}
}

// A change of a schedule does not wait for ever for a transaction that holds its row, and says what it waited for.
func TestAChangeOfAScheduleThatIsHeldGivesUp(t *testing.T) {
	needs.Long(t)
	b := newBench(t, postgres.Options{})
	set := dibs.Schedule{Name: "s", Spec: "every 1h", Kind: "k", Queue: "q"}
	_, err := b.SetSchedule(b.ctx, set)
	b.must(err)
	other := b.begin()
	_, err = other.Exec(b.ctx, "select from dibs.schedule for update")
	b.must(err)
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	failed := make(chan error, 2)
	go func() {
		_, err := b.ChangeSchedule(ctx, "s", func(s *dibs.Schedule) error { s.Paused = true; return nil })
		failed <- err
	}()
	go func() { failed <- b.DeleteSchedule(ctx, "s") }()
	for range 2 {
		if err := <-failed; !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "another transaction holds the row of the schedule s") {
			t.Errorf("it gives %v", err)
		}
	}
	b.must(other.Rollback(b.ctx))
	b.must(b.DeleteSchedule(b.ctx, "s"))
}
