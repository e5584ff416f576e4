package mysql_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// oneFact checks that there is one fact of that name, about that.
func oneFact(t *testing.T, s *mysql.Store, name, about string, test func(f admin.Fact) bool) {
	t.Helper()
	facts := slices.DeleteFunc(found(t, s, name), func(f admin.Fact) bool { return f.About != about })
	if len(facts) != 1 || !test(facts[0]) {
		t.Errorf("Diagnose reports %q of %q as %+v", name, about, facts)
	}
}

func TestDiagnoseFindsJobsAndUpkeep(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	enqueue := func(jobs ...dibs.NewJob) []dibs.Enqueued {
		t.Helper()
		done, err := s.Enqueue(ctx, jobs)
		must(err)
		return done
	}
	claim := func(queue string, lease time.Duration) []*dibs.RawJob {
		t.Helper()
		jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: queue, Worker: "w", N: 10, Lease: lease})
		must(err)
		return jobs
	}
	enqueue(dibs.NewJob{Queue: "dead", Kind: "k"}, dibs.NewJob{Queue: "dead", Kind: "k"}, dibs.NewJob{Queue: "lost", Kind: "k"})
	var died []dibs.Outcome
	for _, j := range claim("dead", 0) {
		died = append(died, j.Lease().Die("boom"))
	}
	must(s.Finish(ctx, died))
	oneFact(t, s, "dead", "dead", func(f admin.Fact) bool {
		return f.N == 2 && f.Of == 1000 && f.ID == died[1].ID && f.Text == "boom" && f.Age < time.Minute
	})

	for range 3 { // the leases of a job end again and again
		claim("lost", time.Minute)
		must(pass(ctx, s.DB(), 2*time.Minute))
		oneFact(t, s, "late", "claims", func(f admin.Fact) bool { return f.N == 1 && f.Age >= 30*time.Second })
		_, err := s.Sweep(ctx)
		must(err)
	}
	oneFact(t, s, "leases", "lost", func(f admin.Fact) bool { return f.N == 3 && f.Text == "w" })

	enqueue(dibs.NewJob{Queue: "cancelled", Kind: "k"})
	cancelled := claim("cancelled", 24*time.Hour)
	_, _, err := s.Cancel(ctx, []int64{cancelled[0].ID})
	must(err)
	_, err = s.SetSchedule(ctx, dibs.Schedule{Name: "nightly", Spec: "@every 1h", Queue: "q", Kind: "k"})
	must(err)
	parent := enqueue(dibs.NewJob{Queue: "before", Kind: "first"})[0].ID
	child := enqueue(dibs.NewJob{Queue: "after", Kind: "second", After: []dibs.Dep{{ID: parent}}})[0].ID
	oneFact(t, s, "awaited", "before", func(f admin.Fact) bool { return f.ID == child && f.N == 1 && f.Of == 0 && f.Text == "first" })
	other := enqueue(dibs.NewJob{Queue: "other", Kind: "k"})[0].ID
	enqueue(dibs.NewJob{Queue: "after", Kind: "second", After: []dibs.Dep{{ID: parent}, {ID: other}}})
	claimed := claim("other", 0)
	must(s.Finish(ctx, []dibs.Outcome{claimed[0].Lease().Complete(nil)}))
	_, err = s.Sweep(ctx)
	must(err)

	must(pass(ctx, s.DB(), 30*24*time.Hour))
	oneFact(t, s, "schedule", "nightly", func(f admin.Fact) bool { return f.Age > 29*24*time.Hour })
	oneFact(t, s, "cancel", "cancelled", func(f admin.Fact) bool { return f.ID == cancelled[0].ID && f.Text == "w" })
	oneFact(t, s, "kept", "other", func(f admin.Fact) bool { return f.ID == other && f.N == 1 && f.Age > 24*time.Hour })
	oneFact(t, s, "late", "history", func(f admin.Fact) bool { return f.N == 2 })
	if facts := found(t, s, "late"); slices.ContainsFunc(facts, func(f admin.Fact) bool { return f.About == "flows" || f.About == "periods" }) {
		t.Errorf("Diagnose reports %+v", facts)
	}
	findsLateEnds(t, s, other)
}

// findsLateEnds checks that rows which nobody has looked at are reported: of ended jobs that others come after, and of periods.
func findsLateEnds(t *testing.T, s *mysql.Store, ended int64) {
	t.Helper()
	run := func(text string, args ...any) {
		t.Helper()
		if _, err := s.DB().ExecContext(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	run("insert into dibs_ended_list (ids) values (?)", `[`+strings.Repeat("0, ", 5)+`"x"]`)
	found(t, s, "late") // ids that SQL by hand has broken name no job
	run("update dibs_ended_list set ids = json_array(?)", ended)
	oneFact(t, s, "late", "flows", func(f admin.Fact) bool { return f.N == 1 })
	run("insert into dibs_unique_window (queue, unique_key, until, job) values ('q', 'u', 1, 1)")
	oneFact(t, s, "late", "periods", func(f admin.Fact) bool { return f.Age > 24*time.Hour })
}

func TestDiagnoseFindsWhatStandsInTheInbox(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	execute(t, s.DB(), "insert into dibs_inbox (payload) values ('1'), ('2')")
	if facts := found(t, s, "inbox"); len(facts) > 0 {
		t.Errorf("rows that have just come are reported: %+v", facts)
	}
	execute(t, s.DB(), "update dibs_inbox set inserted_at = inserted_at - interval 2 minute")
	oneFact(t, s, "inbox", "", func(f admin.Fact) bool { return f.N == 2 && f.Of == 10_000 && f.Age > time.Minute })
}
