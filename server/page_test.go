package server_test

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// browser is somebody who looks at pages, with a cookie jar.
type browser struct {
	testing.TB
	http.Client
	root string
}

func newBrowser(t testing.TB, root string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, http.Client{Jar: jar}, root}
}

// open loads a page, and returns its status and text. Redirects are followed.
func (b *browser) open(path string) (int, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.root+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	return b.do(r)
}

// send sends a form.
func (b *browser) send(path string, pairs ...string) (int, string) {
	b.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.root+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

func (b *browser) do(r *http.Request) (int, string) {
	b.Helper()
	a, err := b.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		b.Fatal(err)
	}
	if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		b.Errorf("%s %s has the policy %q", r.Method, r.URL, policy)
	}
	return a.StatusCode, string(text)
}

// sees reports an error unless a page has the status 200 and some texts.
func (b *browser) sees(path string, texts ...string) string {
	b.Helper()
	status, page := b.open(path)
	for _, text := range texts {
		if status != http.StatusOK || !strings.Contains(page, text) {
			b.Errorf("%s: %d without %q:\n%s", path, status, text, page)
		}
	}
	return page
}

// changes sends a form, and reports an error unless the page that follows says that it was done.
func (b *browser) changes(path, done string, pairs ...string) {
	b.Helper()
	if status, page := b.send(path, pairs...); status != http.StatusOK || !strings.Contains(page, `role="status"`) || !strings.Contains(page, html.EscapeString(done)) {
		b.Errorf("%s: %d without %q:\n%s", path, status, done, page)
	}
}

func TestPagesShowAndChangeWhatThereIs(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		ids := enqueue(t, db,
			dibs.NewJob{Queue: "mail", Kind: "welcome", Payload: map[string]int{"to": 7}},
			dibs.NewJob{Queue: "mail", Kind: "letter", Group: "g/1", Delay: time.Hour, UniqueKey: "once"})
		if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: "a/b", Spec: "@daily", Queue: "mail", Kind: "welcome"}); err != nil {
			t.Fatal(err)
		}
		b := newBrowser(t, serve(t, db))
		job := fmt.Sprintf("/jobs/%d", ids[0])
		b.sees("/", `href="./queues/mail"`, "no worker: 1 job waits")
		b.sees("/queues/mail", "welcome", "letter", "g/1", "Attempts")
		if page := b.sees("/queues/mail?kind=letter", "letter"); strings.Contains(page, "<td data-label=\"Kind\">welcome") {
			t.Error("a filter of kinds shows others")
		}
		b.sees(job, "welcome", "&#34;to&#34;: 7", "dibs show ")
		b.sees(fmt.Sprintf("/jobs/%d", ids[1]), "once", "g/1", "later")
		b.sees("/workers", "No worker has registered")
		b.sees("/schedules", "a/b", "@daily")
		b.sees("/find?q="+fmt.Sprint(ids[0]), "Job "+fmt.Sprint(ids[0]))
		b.sees("/find?q=MAI", "<h1>mail")

		b.changes("/queues/mail/pause", "The queue mail is paused", "back", "/queues/mail")
		b.sees("/", "is paused")
		b.changes("/queues/mail/resume", "The queue mail goes on", "back", "/queues/mail")
		if status, page := b.send("/queues/mail/settings", "concurrency", "5", "lease", "30s", "rate", "100/min"); status != http.StatusOK || !strings.Contains(page, "Change 3 settings") {
			t.Errorf("%d %s", status, page)
		}
		if q := settingsOf(t, db, "mail"); q.Concurrency != 0 {
			t.Errorf("unconfirmed settings are %+v", q)
		}
		b.changes("/queues/mail/settings", "Changed 3 settings of the queue mail.", "concurrency", "5", "lease", "30s", "rate", "100/min", "sure", "yes")
		if q := settingsOf(t, db, "mail"); q.Concurrency != 5 || q.Lease != 30*time.Second || q.Rate != (dibs.Rate{N: 100, Per: time.Minute}) {
			t.Errorf("settings are %+v", q)
		}
		for field, text := range map[string]string{"concurrency": "many", "lease": "soon", "rate": "x", "backoff_factor": "-"} {
			if status, page := b.send("/queues/mail/settings", field, text, "sure", "yes"); status != http.StatusUnprocessableEntity || !strings.Contains(page, field) {
				t.Errorf("%s %q: %d %s", field, text, status, page)
			} else if !strings.Contains(page, `href="../../queues/mail">Back to the form`) {
				t.Errorf("%s %q: no way back: %s", field, text, page)
			}
		}
		b.changes(job+"/edit", "is changed", "priority", "3", "run_at", "2h", "back", job)
		if j, err := db.Get(t.Context(), ids[0]); err != nil || j.Priority != 3 || time.Until(j.RunAt) < time.Hour {
			t.Errorf("%+v, %v", j, err)
		}
		b.changes(job+"/cancel", "is cancelled", "back", job)
		b.changes(job+"/requeue", "waits again", "back", job)
		b.changes("/schedules/a%2Fb/pause", "The schedule a/b is paused", "back", "/schedules")
		b.changes("/schedules/a%2Fb/resume", "The schedule a/b goes on", "back", "/schedules")
		b.changes("/schedules/a%2Fb/run-now", "The schedule a/b has enqueued this job")
		b.sees("/changes", fmt.Sprintf("job %d: priority 255 to 3, start ", ids[0]))
		for _, path := range []string{"/queues/none", "/jobs/999999", "/jobs/x", "/jobs/0"} {
			if status, page := b.open(path); status != http.StatusNotFound && status != http.StatusMethodNotAllowed || strings.Contains(page, "goroutine") {
				t.Errorf("%s: %d %s", path, status, page)
			}
		}
	})
}

// The page of a job tells how each attempt went, and a job that was stopped does not look like one that failed.
func TestAJobTellsItsLife(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"})
		b := newBrowser(t, serve(t, db))
		claimed, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w/1", N: 1, Lease: time.Hour})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if err := db.Finish(t.Context(), []dibs.Outcome{claimed[0].Lease().RetryAfter(time.Hour, "no answer")}); err != nil {
			t.Fatal(err)
		}
		b.sees(fmt.Sprintf("/jobs/%d?failed", claimed[0].ID), "attempt 1 failed", "w/1", "waited ", ", ran ", "no answer", "attempt 2 may start")
		again := enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k", Priority: new(0)})
		if claimed, err = db.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w/1", N: 1, Lease: time.Hour}); err != nil || len(claimed) != 1 || claimed[0].ID != again[0] {
			t.Fatal(claimed, err)
		}
		stopped := fmt.Sprintf("/jobs/%d", again[0])
		b.changes(stopped+"/cancel", "is asked to stop", "back", stopped)
		b.sees(stopped, "asked to stop")
		if err := db.Finish(t.Context(), []dibs.Outcome{claimed[0].Lease().Cancel("it was asked to")}); err != nil {
			t.Fatal(err)
		}
		if page := b.sees(stopped+"?ended", "attempt 1 was stopped", "it was asked to"); strings.Contains(page, "asked to stop") || strings.Contains(page, "failed") {
			t.Errorf("a stopped job looks like one that failed: %s", page)
		}
	})
}

func settingsOf(t testing.TB, db admin.Database, name string) dibs.Queue {
	t.Helper()
	queues, err := db.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if q.Name == name {
			return q
		}
	}
	t.Fatalf("there is no queue %q", name)
	return dibs.Queue{}
}

// Pages work below any prefix: all their addresses are relative.
func TestPagesCanBeMountedBelowAPrefix(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "a b/c", Kind: "k"})
	s := closing(t, server.New(db, server.Options{}))
	h := httptest.NewServer(http.StripPrefix("/jobs-of-mine", s))
	defer h.Close()
	b := newBrowser(t, h.URL+"/jobs-of-mine")
	if page := b.sees("/", `href="./queues/a%20b%2Fc"`); strings.Contains(page, `="/`) {
		t.Errorf("an address begins at the root: %s", page)
	}
	b.sees("/queues/a%20b%2Fc", `href="../page.css"`)
	b.changes("/queues/a%20b%2Fc/pause", "The queue a b/c is paused", "back", "/queues/a%20b%2Fc")
	for _, back := range []string{"//evil.example", "https://evil.example/", `/\evil.example`, "javascript:alert(1)", "/../../x", "/a/%2e%2E/x", "/./x", "evil"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.root+"/queues/a%20b%2Fc/resume", strings.NewReader(url.Values{"back": {back}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if to := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || to != "../../" {
			t.Errorf("back to %q leads to %q", back, to)
		}
	}
}

// However many look at pages, the database counts once a second.
func TestManyWhoLookCostOneStatementASecond(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	t.Parallel()
	w := &counting{Database: onSQLite(t)}
	enqueue(t, w, dibs.NewJob{Queue: "mail", Kind: "k"})
	s := closing(t, server.New(w, server.Options{}))
	h := httptest.NewServer(s)
	defer h.Close()
	ctx, stop := context.WithCancel(t.Context())
	var open sync.WaitGroup
	events := make(chan struct{}, 50*100)
	for range 50 {
		open.Go(func() {
			b := newBrowser(t, h.URL)
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/live", nil)
			a, err := b.Do(r)
			if err != nil {
				return
			}
			defer a.Body.Close()
			for lines := bufio.NewScanner(a.Body); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "data:") {
					b.open("/")
					b.open("/queues/mail")
					b.open("/find?q=none")
					b.send("/queues/mail/settings", "lease", "wrong")
					events <- struct{}{}
				}
			}
		})
	}
	begin := time.Now()
	for i := range 3 * 50 {
		if i%50 == 0 {
			enqueue(t, w, dibs.NewJob{Queue: "mail", Kind: "k"})
		}
		await(t, events, "an event")
	}
	stop()
	open.Wait()
	if n, most := w.stats.Load(), int64(time.Since(begin)/time.Second)+3; n > most {
		t.Errorf("the queues were counted %d times in %v", n, time.Since(begin))
	}
}

// counting counts how often the queues are counted.
type counting struct {
	admin.Database
	stats atomic.Int64
}

func (c *counting) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	c.stats.Add(1)
	return c.Database.Stats(ctx)
}
