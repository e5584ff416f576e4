package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

// alike enqueues n jobs like one.
func alike(t testing.TB, db admin.Database, n int, like dibs.NewJob) (ids []int64) {
	t.Helper()
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = like
	}
	return enqueue(t, db, jobs...)
}

// all reports whether n jobs are in a state, and no others are there.
func all(states map[dibs.State]int, state dibs.State, n int) bool {
	return states[state] == n && len(states) == 1
}

func TestTickedJobsAreChanged(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		waiting := alike(t, db, 4, dibs.NewJob{Queue: "mail", Kind: "welcome"})
		other := alike(t, db, 1, dibs.NewJob{Queue: "web", Kind: "k"})
		dead := die(t, db, "bad", "k", "boom %d", 4)
		b := newBrowser(t, serve(t, db))
		page := b.sees("/queues/mail", `form="many"`, "Cancel…")
		if strings.Contains(page, "Requeue…") || strings.Contains(page, "Delete…") {
			t.Error("a list of open jobs offers what only ended jobs allow")
		}
		id := func(n int64) string { return fmt.Sprint(n) }
		status, ask := b.send("/queues/mail/jobs/cancel", "which", "ticked", "id", id(waiting[0]), "id", id(waiting[2]), "id", id(other[0]), "id", "9999")
		if status != http.StatusOK || !strings.Contains(ask, "Cancel 2 jobs") || strings.Contains(ask, fmt.Sprintf("jobs/%d", other[0])) {
			t.Errorf("the question: %d %s", status, ask)
		}
		if got := statesOf(t, db, waiting); !all(got, dibs.Waiting, 4) {
			t.Errorf("unconfirmed: %v", got)
		}
		b.changesAll("/queues/mail/jobs/cancel", "2 jobs are cancelled", ask)
		if got := statesOf(t, db, []int64{waiting[0], waiting[2]}); !all(got, dibs.Cancelled, 2) {
			t.Errorf("ticked: %v", got)
		}
		if got := statesOf(t, db, []int64{waiting[1], waiting[3], other[0]}); !all(got, dibs.Waiting, 3) {
			t.Errorf("not ticked, or of another queue: %v", got)
		}

		_, ask = b.send("/queues/mail/jobs/prune", "state", "cancelled", "which", "ticked", "id", id(waiting[0]), "id", id(waiting[1]))
		b.changesAll("/queues/mail/jobs/prune", "1 job is deleted.", ask)
		if got := statesOf(t, db, waiting[:2]); got["deleted"] != 1 || got[dibs.Waiting] != 1 {
			t.Errorf("only ended jobs are deleted: %v", got)
		}

		_, ask = b.send("/queues/bad/jobs/requeue", "state", "dead", "which", "ticked", "id", id(dead[0]), "id", id(dead[1]))
		b.changesAll("/queues/bad/jobs/requeue", "2 jobs wait again.", ask)
		_, ask = b.send("/queues/bad/jobs/prune", "state", "dead", "which", "ticked", "id", id(dead[2]))
		b.changesAll("/queues/bad/jobs/prune", "1 job is deleted.", ask)
		if got := statesOf(t, db, dead); got[dibs.Waiting] != 2 || got["deleted"] != 1 || got[dibs.Dead] != 1 {
			t.Errorf("%v", got)
		}
		// A job that was put back and died anew after the question stays dead.
		_, ask = b.send("/queues/bad/jobs/requeue", "state", "dead", "which", "ticked", "id", id(dead[3]))
		if _, err := db.Requeue(t.Context(), dead[3:], time.Time{}); err != nil {
			t.Fatal(err)
		}
		claimed, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "bad", Worker: "w", N: 3, Lease: time.Hour})
		if err != nil || len(claimed) != 3 {
			t.Fatal(len(claimed), err)
		}
		for _, j := range claimed {
			if err := db.Finish(t.Context(), []dibs.Outcome{j.Lease().Die("again")}); err != nil {
				t.Fatal(err)
			}
		}
		b.changesAll("/queues/bad/jobs/requeue", "0 jobs wait again.", ask)
		b.sees("/changes", "cancel jobs", "requeue jobs", "prune jobs")
	})
}

func TestFormsForManyJobsThatCannotBe(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		waiting := alike(t, db, 4, dibs.NewJob{Queue: "mail", Kind: "welcome"})
		other := alike(t, db, 1, dibs.NewJob{Queue: "web", Kind: "k"})
		b := newBrowser(t, serve(t, db))
		for _, bad := range []struct {
			status int
			path   string
			form   []string
		}{
			{422, "/queues/mail/jobs/cancel", []string{"which", "ticked"}},
			{404, "/queues/mail/jobs/cancel", []string{"which", "ticked", "id", "x"}},
			{409, "/queues/mail/jobs/cancel", []string{"which", "ticked", "id", fmt.Sprint(other[0])}},
			{422, "/queues/mail/jobs/prune", []string{"which", "all"}},
			{422, "/queues/mail/jobs/requeue", []string{"which", "all", "state", "waiting"}},
			{422, "/queues/mail/jobs/start", []string{"which", "all", "state", "waiting"}},
			{422, "/queues/mail/jobs/cancel", []string{"which", "all", "sure", "yes"}},
			{422, "/queues/mail/jobs/cancel", []string{"which", "all", "sure", "yes", "last", "9", "until", "now"}},
			{422, "/queues/mail/jobs/cancel", []string{"which", "all", "sure", "yes", "last", "9", "until", "2000-01-01T00:00:00Z", "after", "x"}},
			{404, "/queues/none/jobs/cancel", []string{"which", "all"}},
			{409, "/queues/mail/jobs/requeue", []string{"which", "all", "state", "completed"}},
			{422, "/queues/mail/jobs/cancel", slices.Repeat([]string{"id", fmt.Sprint(waiting[0])}, 51)},
		} {
			if status, page := b.send(bad.path, bad.form...); status != bad.status {
				t.Errorf("%s %q: %d in place of %d: %s", bad.path, bad.form, status, bad.status, page)
			}
		}
		if got := statesOf(t, db, append(waiting, other...)); !all(got, dibs.Waiting, 5) {
			t.Errorf("after refusals: %v", got)
		}
	})
}

func TestAllJobsOfAListAreChangedInSteps(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		ours := alike(t, db, 4500, dibs.NewJob{Queue: "mail", Kind: "ours"})
		others := alike(t, db, 30, dibs.NewJob{Queue: "mail", Kind: "others"})
		later := alike(t, db, 20, dibs.NewJob{Queue: "mail", Kind: "later", Delay: time.Hour})
		b := newBrowser(t, serve(t, db))

		b.sees("/queues/mail?state=waiting&scheduled=yes", "scheduled <span>20</span>", "later", "Make due now…")
		status, ask := b.send("/queues/mail/jobs/start", "state", "waiting", "scheduled", "yes", "which", "all")
		if status != http.StatusOK || !strings.Contains(ask, "Make due now: 20 jobs") {
			t.Errorf("%d %s", status, ask)
		}
		b.changesAll("/queues/mail/jobs/start", "20 jobs are due now.", ask)
		if page, err := db.List(t.Context(), admin.Filter{State: dibs.Waiting, Scheduled: true}); err != nil || len(page.Jobs) != 0 {
			t.Errorf("still scheduled: %v %v", page, err)
		}

		status, page := b.send("/queues/mail/jobs/cancel", "state", "waiting", "kind", "ours", "which", "all")
		if status != http.StatusOK || !strings.Contains(page, "Cancel: all of them") || !strings.Contains(page, "with the kind &#34;ours&#34;") {
			t.Errorf("the question: %d %s", status, page)
		}
		late := alike(t, db, 3, dibs.NewJob{Queue: "mail", Kind: "ours"})
		path, action := "/queues/mail/jobs/cancel", "../../../queues/mail/jobs/cancel"
		steps, most, before := 0, 0, 0
		for strings.Contains(page, `action="`+action+`"`) && steps < 100 {
			if status, page = b.send(path, formOf(t, page, action)...); status != http.StatusOK {
				t.Fatalf("%d %s", status, page)
			}
			steps++
			if m := regexp.MustCompile(`name="changed" value="(\d+)"`).FindStringSubmatch(page); m != nil {
				now := 0
				fmt.Sscan(m[1], &now)
				most, before = max(most, now-before), now
			}
		}
		if most == 0 || most > 2000 || steps < 3 || !strings.Contains(page, "4\u202f500 jobs are cancelled") {
			t.Errorf("%d steps, the largest of %d: %s", steps, most, page)
		}
		if got := statesOf(t, db, append(ours[:20:20], ours[4480:]...)); !all(got, dibs.Cancelled, 40) {
			t.Errorf("%v", got)
		}
		if got := statesOf(t, db, append(append(others, later...), late...)); !all(got, dibs.Waiting, 53) {
			t.Errorf("other kinds, and those that came later: %v", got)
		}
	})
}

// A token for some queues changes no jobs of others, whatever its form says.
func TestManyJobsAreChangedOnlyInQueuesOfTheToken(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		mail, web := alike(t, db, 2, dibs.NewJob{Queue: "mail", Kind: "k"}), alike(t, db, 2, dibs.NewJob{Queue: "web", Kind: "k"})
		tokens, secrets, _ := someTokens(t, map[string]string{"reader": "read", "mailer": "admin:mail"})
		_, url := start(t, db, server.Options{Tokens: tokens})
		limited, reader := newBrowser(t, url), newBrowser(t, url)
		limited.send("/login", "token", secrets["mailer"])
		reader.send("/login", "token", secrets["reader"])
		if page := reader.sees("/queues/mail"); strings.Contains(page, `id="many"`) || strings.Contains(page, `type="checkbox"`) {
			t.Error("who may only look is offered changes")
		}
		for _, which := range [][]string{{"which", "all"}, {"which", "ticked", "id", fmt.Sprint(web[0])}} {
			if status, _ := reader.send("/queues/mail/jobs/cancel", which...); status != http.StatusForbidden {
				t.Errorf("a reader: %d", status)
			}
			if status, _ := limited.send("/queues/web/jobs/cancel", which...); status != http.StatusForbidden {
				t.Errorf("another queue: %d", status)
			}
		}
		sure := []string{"sure", "yes", "last", "9999", "until", "2000-01-01T00:00:00Z", "which", "ticked", "id", fmt.Sprint(web[0]), "id", fmt.Sprint(mail[0])}
		limited.send("/queues/mail/jobs/cancel", sure...)
		if got := statesOf(t, db, []int64{web[0], web[1], mail[1]}); !all(got, dibs.Waiting, 3) {
			t.Errorf("%v", got)
		}
		if got := statesOf(t, db, mail[:1]); !all(got, dibs.Cancelled, 1) {
			t.Errorf("%v", got)
		}
	})
}
