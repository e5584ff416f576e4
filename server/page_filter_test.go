package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// rows are the jobs that a page lists.
func rows(page string) []string {
	var ids []string
	for _, m := range regexp.MustCompile(`<td data-label="Job">(?:<input [^>]*> )?<a href="[^"]*/jobs/(\d+)">`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// Every filter of a queue's page works by the address alone, and the tabs and pages keep it.
func TestJobsAreFilteredByTheAddress(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		text := func(n int) string { return fmt.Sprintf("text-%d &+%%", n) }
		var ids []int64
		for i := range 4 {
			ids = append(ids, enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: fmt.Sprint("k", i), Group: fmt.Sprint("g", i), Payload: text(i), MaxAttempts: 1})...)
		}
		for i := range 3 {
			jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: fmt.Sprint("w ", i), N: 1, Lease: time.Hour})
			if err != nil || len(jobs) != 1 {
				t.Fatal(jobs, err)
			}
			if err := db.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Retry("broken " + text(i))}); err != nil {
				t.Fatal(err)
			}
		}
		held := enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k", UniqueKey: "daily &", UniqueFor: time.Hour})
		if _, _, err := db.Cancel(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		b := newBrowser(t, serve(t, db))
		id := func(i int) []string { return []string{fmt.Sprint(ids[i])} }
		all := []string{fmt.Sprint(ids[2]), fmt.Sprint(ids[1]), fmt.Sprint(ids[0])}
		tomorrow := time.Now().UTC().Add(24 * time.Hour).Format("2006-01-02 15:04")
		for query, want := range map[string][]string{
			"":                                  id(3),
			"state=dead":                        all,
			"state=dead&worker=w+1":             id(1),
			"state=dead&worker=w":               nil,
			"state=dead&error=text-2+%26%2B%25": id(2),
			"state=dead&error=nothing":          nil,
			"state=dead&payload=text-0":         id(0),
			"payload=text-3":                    id(3),
			"payload=text-0":                    nil,
			"state=dead&kind=k1&group=g1":       id(1),
			"state=dead&since=1h":               all,
			"state=dead&since=1h&error=-1":      id(1),
			"state=dead&before=1h":              nil,
			"state=dead&before=now":             all,
			"state=dead&since=2020-01-31":       all,
			"state=dead&since=" + strings.ReplaceAll(tomorrow, " ", "+"): nil,
			"key=daily+%26":            {fmt.Sprint(held[0])},
			"key=daily":                nil,
			"state=dead&key=daily+%26": {fmt.Sprint(held[0])}, // a key selects the job that holds it, whatever its state
			"since=1h":                 id(3),                 // the filter does not apply to jobs that have not ended
		} {
			page := b.sees("/queues/mail?"+query, "<h1>mail")
			if got := rows(page); !slices.Equal(got, want) {
				t.Errorf("%s: jobs %v, not %v", query, got, want)
			}
			slow := strings.Contains(query, "worker") || strings.Contains(query, "error") || strings.Contains(query, "payload")
			if strings.Contains(page, "No index finds") != slow {
				t.Errorf("%s: the page says that the search is slow: %v", query, !slow)
			}
		}
		page := b.sees("/queues/mail?state=dead&worker=w+1&error=text-1+%26%2B%25&since=1h", `value="w 1"`, `value="text-1 &amp;&#43;%"`, `value="1h"`)
		link := regexp.MustCompile(`href="(\?[^"]*state=completed[^"]*)"`).FindStringSubmatch(page)
		if link == nil || !strings.Contains(html.UnescapeString(link[1]), "error=text-1+%26%2B%25&since=1h&state=completed&worker=w+1") {
			t.Errorf("the link to another state is %q", link)
		}
		for query, field := range map[string]string{"state=dead&since=soon": "since", "state=dead&before=-": "before", "state=none": "state", "error=" + strings.Repeat("x", 1025): "error"} {
			if status, page := b.open("/queues/mail?" + query); status != http.StatusUnprocessableEntity || !strings.Contains(page, field) {
				t.Errorf("%.40s: %d %s", query, status, page)
			}
		}
	})
}

// A search that reads many jobs and finds none among them goes on at the next page, and says so.
func TestALongSearchGoesOnAtTheNextPage(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	want := enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k", Payload: "needle"})
	for range 11 {
		var jobs []dibs.NewJob
		for range 1000 {
			jobs = append(jobs, dibs.NewJob{Queue: "mail", Kind: "k", Payload: "hay"})
		}
		enqueue(t, db, jobs...)
	}
	b := newBrowser(t, serve(t, db))
	page := b.sees("/queues/mail?payload=needle", "None among the jobs read so far")
	link := regexp.MustCompile(`href="(\?[^"]*)" rel="next"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatal("there is no next page")
	}
	page = b.sees("/queues/mail"+html.UnescapeString(link[1]), "first page")
	if got := rows(page); !slices.Equal(got, []string{fmt.Sprint(want[0])}) {
		t.Errorf("the next page has the jobs %v", got)
	}
}

// heavy counts the bytes of payloads that lists load.
type heavy struct {
	admin.Database
	most atomic.Int64
}

func (h *heavy) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	p, err := h.Database.List(ctx, f)
	size := int64(0)
	for _, j := range p.Jobs {
		size += int64(len(j.Payload))
	}
	h.most.Store(max(h.most.Load(), size))
	return p, err
}

// A page of large jobs lists fewer of them, and where the memory for answers is taken it says so.
func TestPagesOfLargeJobsAreShort(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	h := &heavy{Database: onSQLite(t)}
	ids := mebibytes(t, h, "q", 60)
	if jobs, err := h.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 10, Lease: time.Hour}); err != nil || len(jobs) != 10 {
		t.Fatal(len(jobs), err)
	}
	if err := h.Register(t.Context(), dibs.WorkerInfo{ID: dibs.Token{1}, Name: "w", Queues: []string{"q"}, Concurrency: 10, State: dibs.WorkerWorking}); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, serve(t, h))
	seen := 0
	for path := "/queues/q"; path != ""; {
		page := b.sees(path, "<h1>q")
		seen += len(rows(page))
		link := regexp.MustCompile(`href="(\?[^"]*)" rel="next"`).FindStringSubmatch(page)
		if path = ""; link != nil {
			path = "/queues/q" + html.UnescapeString(link[1])
		}
	}
	if seen != 60 {
		t.Errorf("of 60 jobs, %d are listed", seen)
	}
	b.sees("/workers", "<summary>10")
	if most := h.most.Load(); most > 33<<20 {
		t.Errorf("%d bytes of payloads were loaded at once", most)
	}

	s, url := start(t, h, server.Options{Limits: server.Limits{Answers: 8 << 20, AnswerTime: -1}})
	defer s.Close()
	c := dial(t, url)
	defer c.Close()
	if status := ask(t, c, "GET", "/v1/jobs?limit=1000", ""); status != http.StatusOK { // the answer stays in memory, as nobody reads it
		t.Errorf("a list: %d", status)
	}
	crowded := newBrowser(t, url)
	for _, path := range []string{"/queues/q", "/workers", fmt.Sprintf("/jobs/%d", ids[0])} {
		status, page := crowded.open(path)
		for strings.Contains(page, "The database does not answer") { // within ten seconds: the machine is slow
			status, page = crowded.open(path)
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(page, "memory") || !strings.Contains(page, "</main>") {
			t.Errorf("%s while the answers take all memory: %d %s", path, status, page)
		}
	}
}

// Browsers take "." and ".." in a path for the way up; queues and schedules of such names are reached all the same.
func TestNamesOfDotsHaveAddresses(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	b := newBrowser(t, serve(t, db))
	for name, part := range map[string]string{".": "~.", "..": "~..", "~.": "~~.", "~~..": "~~~..", "...": "...", "~": "~", "~a": "~a", "a.b": "a.b"} {
		enqueue(t, db, dibs.NewJob{Queue: name, Kind: "k", Payload: json.RawMessage(`1`)})
		if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: name, Spec: "@yearly", Queue: name, Kind: "k"}); err != nil {
			t.Fatal(err)
		}
		path := "/queues/" + part
		b.changes("/schedules/"+part+"/run-now", "The schedule "+name+" has enqueued")
		b.sees("/", `href="./queues/`+part+`"`)
		b.sees(path, "<h1>"+name+"<")
		b.changes(path+"/pause", "The queue "+name+" is paused", "back", path)
		if !settingsOf(t, db, name).Paused {
			t.Errorf("the queue %q goes on", name)
		}
		b.changes(path+"/settings", "Changed 1 setting of the queue "+name+".", "concurrency", "3", "sure", "yes")
	}
}

// A browser that follows a wrong link shows a page; programs get a problem.
func TestAWrongAddressInABrowserShowsAPage(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	tokens, _, _ := someTokens(t, map[string]string{"boss": "admin"})
	for _, o := range []server.Options{{}, {Tokens: tokens}} {
		h := httptest.NewServer(closing(t, server.New(db, o)))
		defer h.Close()
		for _, c := range []struct {
			method, path, accept string
			status               int
			html                 bool
		}{
			{"GET", "/none", "text/html,*/*;q=0.8", 404, true},
			{"GET", "/queues/", "text/html,*/*;q=0.8", 404, true},
			{"HEAD", "/none/of/these", "text/html", 404, true},
			{"GET", "/queues/x/pause", "text/html", 405, true},
			{"GET", "/none", "", 404, false},
			{"GET", "/none", "*/*", 404, false},
			{"GET", "/v1/none", "text/html", 404, false},
			{"POST", "/none", "text/html", 404, false},
		} {
			r, err := http.NewRequestWithContext(t.Context(), c.method, h.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", c.accept)
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			media := map[bool]string{true: "text/html; charset=utf-8", false: "application/problem+json"}[c.html]
			if got := a.Header.Get("Content-Type"); a.StatusCode != c.status || got != media || c.html && a.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("%s %s for %q: %d %s", c.method, c.path, c.accept, a.StatusCode, got)
			}
		}
	}
}
