package server_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

// book enqueues n pages, what binds them, what cleans up whatever became of them, and what sells the book.
func book(t testing.TB, db admin.Database, n int) (pages []int64, bind, clean, sell int64) {
	t.Helper()
	jobs := make([]dibs.NewJob, n, n+3)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "books", Kind: "render", Ref: "page"}
	}
	ids := enqueue(t, db, append(jobs,
		dibs.NewJob{Queue: "books", Kind: "bind", Ref: "bind", After: []dibs.Dep{{Ref: "page"}}},
		dibs.NewJob{Queue: "attic", Kind: "clean", After: []dibs.Dep{{Ref: "page", On: dibs.NeedEnded}}},
		dibs.NewJob{Queue: "shop", Kind: "sell", After: []dibs.Dep{{Ref: "bind"}}})...)
	return ids[:n], ids[n], ids[n+1], ids[n+2]
}

// ends claims the next jobs of a queue and ends each as it is told.
func ends(t testing.TB, db admin.Database, queue string, how ...func(dibs.Lease) dibs.Outcome) {
	t.Helper()
	jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: len(how), Lease: time.Hour})
	if err != nil || len(jobs) != len(how) {
		t.Fatal(jobs, err)
	}
	for i, j := range jobs {
		if err := db.Finish(t.Context(), []dibs.Outcome{how[i](j.Lease())}); err != nil {
			t.Fatal(err)
		}
	}
}

func completes(l dibs.Lease) dibs.Outcome { return l.Complete(nil) }
func dies(l dibs.Lease) dibs.Outcome      { return l.Die("no ink") }

// reach waits until jobs are in a state.
func reach(t testing.TB, db admin.Database, state dibs.State, ids ...int64) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := statesOf(t, db, ids)
		if all(got, state, len(ids)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v are %v, want %s", ids, got, state)
		}
	}
}

// visible is the text of a page without its tags, each run of space as one.
func visible(page string) string {
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")
	return strings.Join(strings.Fields(html.UnescapeString(text)), " ")
}

// shows reports an error unless the text of a page has some parts, in this order.
func (b *browser) shows(path string, parts ...string) string {
	b.Helper()
	page := b.sees(path)
	rest := visible(page)
	for _, part := range parts {
		_, after, is := strings.Cut(rest, part)
		if !is {
			b.Errorf("%s shows no %q, or not in this order: %s", path, part, visible(page))
			return page
		}
		rest = after
	}
	return page
}

func TestAJobShowsItsFlow(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		pages, bind, _, sell := book(t, db, 3)
		other := enqueue(t, db, dibs.NewJob{Queue: "books", Kind: "alone"})[0]
		b := newBrowser(t, serve(t, db))
		of := func(id int64) string { return fmt.Sprintf("/jobs/%d", id) }
		link := func(id int64) string { return fmt.Sprintf(`jobs/%d">%[1]d</a>`, id) }
		page := b.shows(of(bind), "it waits for the end of 3 jobs: ", "attempt 1 waits for the end of 3 jobs",
			fmt.Sprintf("Flow %d 0 of 6 jobs ended, 0.0 %%", pages[0]), fmt.Sprintf("render books %d 3 0 0", pages[0]), "bind books", "clean attic", "sell shop",
			"It comes after 0 of 3 jobs ended", "render books", "After it come 0 of 1 job ended", "sell shop",
			fmt.Sprintf("dibs flow %d", bind), "Enqueue it again", "it will come after no other job")
		if strings.Contains(page, "may start") {
			t.Errorf("a blocked job may start: %s", page)
		}
		later := enqueue(t, db, dibs.NewJob{Queue: "books", Kind: "late", Ref: "late", Priority: new(dibs.MaxPriority)}, dibs.NewJob{Queue: "books", Kind: "bind", Delay: time.Hour, After: []dibs.Dep{{Ref: "late"}}})[1]
		b.shows(of(later), "attempt 1 waits for the end of 1 job, and not to start before in ")
		for _, id := range append(pages, sell) {
			if !strings.Contains(page, link(id)) {
				t.Errorf("no link to job %d: %s", id, page)
			}
		}
		if page := b.sees(of(other)); strings.Contains(page, "Flow") || strings.Contains(page, "omes after") {
			t.Errorf("a job without a flow: %s", page)
		}
		b.shows("/", "books 1 after other jobs")
		b.shows("/queues/attic", "attic 1 after other jobs")

		ends(t, db, "books", completes, completes)
		if _, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "books", Worker: "w", N: 1, Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // until somebody has looked at the two ends
			j, err := db.Get(t.Context(), bind)
			if err == nil && j.WaitsFor == 1 {
				break
			}
			if err != nil || time.Now().After(end) {
				t.Fatal(j, err)
			}
		}
		b = newBrowser(t, serve(t, db))
		b.shows(of(bind), fmt.Sprintf("it waits for the end of 1 of 3 jobs: %d", pages[2]), "2 of 6 jobs ended, 33.3 %", "render books", "0 0 1 2 0 0")
	})
}

// What a death has cancelled stands on the page of the dead job, and comes back with it.
func TestAJobPutsBackWhatItsDeathHasCancelled(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		pages, bind, clean, sell := book(t, db, 2)
		ends(t, db, "books", dies, completes)
		reach(t, db, dibs.Cancelled, bind, sell)
		reach(t, db, dibs.Waiting, clean)
		b := newBrowser(t, serve(t, db))
		dead := fmt.Sprintf("/jobs/%d", pages[0])
		lost := b.shows(fmt.Sprintf("/jobs/%d", sell), fmt.Sprintf("it was cancelled because job %d died Requeue job %[1]d: this one comes back with it", pages[0]),
			fmt.Sprintf("Of the flow did not complete: %d , %d , %d", pages[0], bind, sell))
		if strings.Contains(lost, fmt.Sprintf(`jobs/%d/requeue"`, sell)) {
			t.Errorf("a button would requeue the job, which would be cancelled again: %s", lost)
		}
		page := b.shows(dead, "2 jobs were cancelled because this one died Requeue it", "4 of 5 jobs ended", "After it come")
		if n := strings.Count(page, fmt.Sprintf(`jobs/%d/requeue"`, pages[0])); n != 1 {
			t.Errorf("%d buttons requeue the dead job: %s", n, page)
		}
		b.changes(dead+"/requeue", fmt.Sprintf("Job %d waits again; 2 jobs that were cancelled because of it wait, too.", pages[0]), "back", dead)
		reach(t, db, dibs.Blocked, bind, sell)
		if page := b.sees(dead); strings.Contains(page, "because this one") {
			t.Errorf("after the requeue: %s", page)
		}
		b.shows("/changes", "requeue", fmt.Sprintf("job %d, and those that were cancelled because of it 3", pages[0]))
		ends(t, db, "books", completes)
		reach(t, db, dibs.Waiting, bind)

		// A job that has no followers is put back alone.
		alone := die(t, db, "bad", "k", "boom %d", 1)[0]
		b.changes(fmt.Sprintf("/jobs/%d/requeue", alone), fmt.Sprintf("Job %d waits again.", alone), "back", "/")

		// Jobs that nobody needs any more have a column of their own, and a cause that was completed.
		press := enqueue(t, db, dibs.NewJob{Queue: "press", Kind: "print", Ref: "p"}, dibs.NewJob{Queue: "press", Kind: "apologize", After: []dibs.Dep{{Ref: "p", On: dibs.NeedFailed}}})
		ends(t, db, "press", completes)
		reach(t, db, dibs.Cancelled, press[1])
		b.shows(fmt.Sprintf("/jobs/%d", press[1]), fmt.Sprintf("because job %d was completed", press[0]), "Cancelled Not needed", "apologize press")
		b.shows(fmt.Sprintf("/jobs/%d", press[0]), "1 job was not needed, because this one was completed")
	})
}

func TestAFlowIsCancelledInSteps(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const n = 4500
		pages, bind, clean, sell := book(t, db, n)
		ends(t, db, "books", completes)
		if _, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "books", Worker: "w", N: 1, Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		others, _, _, last := book(t, db, 1)
		b := newBrowser(t, serve(t, db))
		page := b.sees(fmt.Sprintf("/jobs/%d", bind), "Cancel what has not ended of the flow")
		form := regexp.MustCompile(`action="[./]*(/flows/\d+/cancel)"`).FindStringSubmatch(page)
		if form == nil {
			t.Fatalf("no form: %s", page)
		}
		path := form[1]
		status, page := b.send(path, "job", fmt.Sprint(bind))
		if text := visible(page); status != http.StatusOK || !strings.Contains(text, "Cancel: 4 502 jobs of flow") || !strings.Contains(page, fmt.Sprintf(`jobs/%d"`, sell)) {
			t.Fatalf("the question: %d %s", status, text)
		}
		if got := statesOf(t, db, []int64{bind, clean, sell}); !all(got, dibs.Blocked, 3) {
			t.Errorf("unconfirmed: %v", got)
		}
		steps := 0
		for strings.Contains(page, `action="../..`+path+`"`) && steps < 100 {
			if status, page = b.send(path, formOf(t, page, "../.."+path)...); status != http.StatusOK {
				t.Fatalf("%d %s", status, page)
			}
			if steps++; steps == 1 {
				reach(t, db, dibs.Cancelled, bind, clean, sell)
				reach(t, db, dibs.Running, pages[1])
			}
		}
		if steps < 3 || !strings.Contains(page, "4\u202f502 jobs are cancelled") || !strings.Contains(page, fmt.Sprintf("Job %d", bind)) {
			t.Errorf("%d steps: %s", steps, page)
		}
		if got := statesOf(t, db, append(pages[2:22:22], pages[n-20:]...)); !all(got, dibs.Cancelled, 40) {
			t.Errorf("pages: %v", got)
		}
		if j, err := db.Get(t.Context(), pages[1]); err != nil || j.State != dibs.Running || !j.CancelRequested {
			t.Errorf("the running page: %+v, %v", j, err)
		}
		if got := statesOf(t, db, append(others, last)); got[dibs.Waiting] != 1 || got[dibs.Blocked] != 1 {
			t.Errorf("another flow: %v", got)
		}
		changes, err := db.Changes(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, c := range changes {
			if sum += c.N; c.Did != "cancel jobs" || c.What != fmt.Sprint("flow ", pages[0]) {
				t.Errorf("noted is %+v", c)
			}
		}
		if sum != n+2 {
			t.Errorf("%d jobs are noted", sum)
		}
	})
}

func TestFormsForFlowsThatCannotBe(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	pages, bind, clean, sell := book(t, db, 2)
	b := newBrowser(t, serve(t, db))
	path := fmt.Sprintf("/flows/%d/cancel", pages[0])
	for _, bad := range []struct {
		status int
		path   string
		form   []string
	}{
		{404, "/flows/x/cancel", nil},
		{404, "/flows/0/cancel", nil},
		{404, path, []string{"job", "x"}},
		{409, "/flows/999/cancel", nil},
		{422, path, []string{"sure", "yes"}},
		{422, path, []string{"sure", "yes", "total", "1", "changed", "0"}},
		{422, path, []string{"sure", "yes", "total", "1", "changed", "0", "next", "0"}},
		{422, path, []string{"sure", "yes", "total", "-1", "changed", "0", "next", "9"}},
	} {
		if status, page := b.send(bad.path, bad.form...); status != bad.status {
			t.Errorf("%s %q: %d in place of %d: %s", bad.path, bad.form, status, bad.status, page)
		}
	}
	if got := statesOf(t, db, []int64{bind, clean, sell}); !all(got, dibs.Blocked, 3) {
		t.Errorf("after refusals: %v", got)
	}
}

// A token for some queues sees of a flow what is in them, and cancels no flow, as others of its jobs may be anywhere.
func TestAFlowIsForThoseWhoMay(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		pages, bind, clean, sell := book(t, db, 2)
		ends(t, db, "books", dies)
		reach(t, db, dibs.Cancelled, bind, sell)
		tokens, secrets, _ := someTokens(t, map[string]string{"boss": "admin", "reader": "read", "binder": "admin:books", "cleaner": "admin:attic", "seller": "admin:shop"})
		_, url := start(t, db, server.Options{Tokens: tokens})
		dead, cancel := fmt.Sprintf("/jobs/%d", pages[0]), fmt.Sprintf("/flows/%d/cancel", pages[0])
		for name, c := range map[string]struct {
			page                     string
			cancels, requeues, whole bool
		}{
			"boss": {dead, true, true, true}, "reader": {dead, false, false, true},
			"binder": {dead, false, true, false}, "cleaner": {fmt.Sprintf("/jobs/%d", clean), false, false, false},
		} {
			b := newBrowser(t, url)
			b.send("/login", "token", secrets[name])
			page := b.sees(c.page, "Flow ")
			if strings.Contains(page, "Cancel what has not ended") != c.cancels || strings.Contains(page, "Requeue it") != c.requeues {
				t.Errorf("%s has other buttons: %s", name, visible(page))
			}
			if strings.Contains(page, "sell") != c.whole || strings.Contains(page, "of queues that your token does not let you look at") == c.whole {
				t.Errorf("%s sees other rows: %s", name, visible(page))
			}
			for _, form := range [][]string{nil, {"sure", "yes", "total", "9", "changed", "0", "next", "999"}} {
				if c.cancels {
					continue // the others would find nothing to cancel
				}
				if status, page := b.send(cancel, form...); status != http.StatusForbidden {
					t.Errorf("%s cancels the flow: %d %s", name, status, visible(page))
				}
			}
			if c.requeues {
				continue // for the same reason
			}
			if status, _ := b.send(dead + "/requeue"); status != http.StatusForbidden && status != http.StatusNotFound {
				t.Errorf("%s requeues the dead job: %d", name, status)
			}
		}
		if got := statesOf(t, db, []int64{bind, sell, pages[1], clean}); got[dibs.Cancelled] != 2 || got[dibs.Waiting] != 1 || got[dibs.Blocked] != 1 {
			t.Errorf("after refusals: %v", got)
		}
		seller := newBrowser(t, url)
		seller.send("/login", "token", secrets["seller"])
		if page := seller.shows(fmt.Sprintf("/jobs/%d", sell), ", which it comes after, did not end as it needs"); strings.Contains(page, "Requeue job") || strings.Contains(page, "did not complete") {
			t.Errorf("a token for one queue learns how a job of another has ended: %s", visible(page))
		}
		cleaner := newBrowser(t, url)
		cleaner.send("/login", "token", secrets["cleaner"])
		if page := cleaner.sees(fmt.Sprintf("/jobs/%d", clean)); strings.Contains(page, "books") || strings.Contains(page, "render") {
			t.Errorf("a token for one queue learns of another: %s", visible(page))
		}
	})
}
