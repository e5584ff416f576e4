package server_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

func groupIn(t testing.TB, db admin.Database, queue, name string) dibs.Group {
	t.Helper()
	list, err := db.Groups(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if g.Name == name {
			return g
		}
	}
	return dibs.Group{}
}

func TestSettingsOfGroupsAreShownAndChanged(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		evil := `<script>alert(1)</script>&"'`
		two := 2
		if err := db.ChangeGroup(t.Context(), "invoices", evil, dibs.GroupChange{Limit: &two}.Apply); err != nil {
			t.Fatal(err)
		}
		b := newBrowser(t, serve(t, db))
		b.sees("/queues/invoices", `href="../groups?queue=invoices"`, "Groups: blocked jobs and settings")
		if page := b.sees("/groups?queue=invoices", "&lt;script&gt;", "group=%3cscript%3e"); strings.Contains(page, "<script>alert") {
			t.Errorf("%s", page)
		}
		status, page := b.send("/queues/invoices/groups", "group", "ACME", "limit", "5", "rate", "10/min", "burst", "3")
		if status != http.StatusOK || !strings.Contains(page, "Change 3 settings") {
			t.Errorf("%d %s", status, page)
		}
		if g := groupIn(t, db, "invoices", "ACME"); g != (dibs.Group{}) {
			t.Errorf("unconfirmed: %+v", g)
		}
		b.changes("/queues/invoices/groups", "Changed 3 settings of the group ACME.", "group", "ACME", "limit", "5", "rate", "10/min", "burst", "3", "sure", "yes")
		if g := groupIn(t, db, "invoices", "ACME"); g.Limit != 5 || g.Rate != (dibs.Rate{N: 10, Per: time.Minute, Burst: 3}) {
			t.Errorf("%+v", g)
		}
		b.changes("/queues/invoices/groups", "Changed 1 setting of the group ACME.", "group", "ACME", "limit", "6", "sure", "yes")
		b.sees("/groups?queue=invoices&group=ACME", `value="10/min"`, `value="6"`)
		for _, bad := range [][]string{{"group", ""}, {"group", "a", "limit", "x"}, {"group", "a", "rate", "x"}, {"group", "a", "burst", "x"}, {"group", "a", "limit", "-1", "sure", "yes"}} {
			if status, page := b.send("/queues/invoices/groups", bad...); status != http.StatusUnprocessableEntity {
				t.Errorf("%q: %d %s", bad, status, page)
			}
		}
		for _, path := range []string{"/groups", "/groups?queue=none"} {
			if status, _ := b.open(path); status != http.StatusNotFound {
				t.Errorf("%s: %d", path, status)
			}
		}
	})
}

// A queue without jobs has a button that deletes it, which asks first; one with jobs has none, and stays.
func TestAnEmptyQueueCanBeDeletedOnItsPage(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const button = "Delete the queue…"
		if _, err := db.ChangeQueue(t.Context(), "a/b", dibs.QueueChange{}.Apply); err != nil {
			t.Fatal(err)
		}
		enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"})
		b := newBrowser(t, serve(t, db))
		if page := b.sees("/queues/mail"); strings.Contains(page, button) {
			t.Error("a queue with a job has the button")
		}
		if status, page := b.send("/queues/mail/delete", "sure", "yes"); status != http.StatusConflict || !strings.Contains(page, "has not ended: cancel such jobs") {
			t.Errorf("%d %s", status, page)
		}
		b.sees("/queues/a%2Fb", button)
		if status, page := b.send("/queues/a%2Fb/delete"); status != http.StatusOK || !strings.Contains(page, "Delete the queue a/b") {
			t.Errorf("%d %s", status, page)
		}
		b.sees("/queues/a%2Fb", button)
		b.changes("/queues/a%2Fb/delete", "The queue a/b is deleted.", "sure", "yes")
		if status, _ := b.send("/queues/a%2Fb/delete", "sure", "yes"); status != http.StatusNotFound {
			t.Errorf("deleted again: %d", status)
		}
	})
}

func TestGroupsWithBlockedJobsAreShown(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const evil = `<b>"&'`
		var jobs []dibs.NewJob
		for range 3 {
			jobs = append(jobs, dibs.NewJob{Queue: "q", Kind: "k", Group: evil}, dibs.NewJob{Queue: "q", Kind: "k", Group: "b"})
		}
		for i := range admin.MaxBacklogs {
			name := fmt.Sprintf("c%03d", i)
			jobs = append(jobs, dibs.NewJob{Queue: "q", Kind: "k", Group: name}, dibs.NewJob{Queue: "q", Kind: "k", Group: name})
		}
		enqueue(t, db, jobs...)
		if err := db.ChangeGroup(t.Context(), "q", "b", dibs.GroupChange{Limit: new(2)}.Apply); err != nil {
			t.Fatal(err)
		}
		for left := admin.MaxBacklogs + 3; left > 0; {
			jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: left, Lease: time.Hour})
			if left -= len(jobs); err != nil {
				t.Fatal(err)
			}
		}
		b := newBrowser(t, serve(t, db))
		row := func(name string, blocked, places, limit int) string {
			return fmt.Sprintf(`%s</a><td data-label="Blocked" class="n">%d<td data-label="Places taken" class="n">%d<td data-label="At once" class="n">%d<`, name, blocked, places, limit)
		}
		page := b.sees("/groups?queue=q", row("&lt;b&gt;&#34;&amp;&#39;", 2, 1, 1), row("b", 1, 2, 2), row("c000", 1, 1, 1), `href="?queue=q&amp;after=c497"`)
		if strings.Contains(page, "c498</a>") || strings.Contains(page, "first page") {
			t.Error("the first page shows more groups than fit")
		}
		page = b.sees("/groups?queue=q&after=c497", row("c498", 1, 1, 1), row("c499", 1, 1, 1), `<a href="?queue=q">first page</a>`)
		if strings.Contains(page, "c497</a>") || strings.Contains(page, "next page") {
			t.Error("the second page shows other groups too")
		}
	})
}

// A form that has stood open does not take back what somebody else has changed meanwhile.
func TestSettingsThatNobodyTouchedStayAsTheyAre(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"})
	b := newBrowser(t, serve(t, db))
	var form []string
	for _, m := range regexp.MustCompile(`name="was-([a-z_]+)" value="([^"]*)"`).FindAllStringSubmatch(b.sees("/queues/mail", "was-concurrency"), -1) {
		was := html.UnescapeString(m[2])
		value := was
		if m[1] == "lease" {
			value = "2m"
		}
		form = append(form, m[1], value, "was-"+m[1], was)
	}
	if _, err := db.ChangeQueue(t.Context(), "mail", dibs.QueueChange{Concurrency: new(5)}.Apply); err != nil {
		t.Fatal(err)
	}
	_, page := b.send("/queues/mail/settings", form...)
	if !strings.Contains(page, "Change 1 setting<") {
		t.Errorf("the form would change more than the lease: %s", page)
	}
	const ends = "Attempts that have run for longer end"
	if strings.Contains(page, ends) {
		t.Errorf("a lease ends no attempts: %s", page)
	}
	if _, page = b.send("/queues/mail/settings", "job_timeout", "1m"); !strings.Contains(page, ends) {
		t.Errorf("it does not say that a timeout ends attempts: %s", page)
	}
}

func TestSettingsOfGroupsAreForThoseWhoMay(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"}, dibs.NewJob{Queue: "secret", Kind: "k"})
	tokens, secrets, _ := someTokens(t, map[string]string{"reader": "read", "mailer": "admin:mail"})
	h := httptest.NewServer(closing(t, server.New(db, server.Options{Tokens: tokens})))
	defer h.Close()
	for name, want := range map[string][4]int{"reader": {200, 403, 200, 403}, "mailer": {200, 200, 403, 403}} {
		b := newBrowser(t, h.URL)
		b.send("/login", "token", secrets[name], "back", "/")
		for i, queue := range []string{"mail", "secret"} {
			status, page := b.open("/groups?queue=" + queue)
			if status != want[2*i] || strings.Contains(page, "See what will change") != (want[2*i+1] == 200) {
				t.Errorf("%s looks at %s: %d %s", name, queue, status, page)
			}
			if status, _ := b.send("/queues/"+queue+"/groups", "group", name, "limit", "3", "sure", "yes"); status != want[2*i+1] {
				t.Errorf("%s changes %s: %d", name, queue, status)
			}
		}
	}
	if groupIn(t, db, "mail", "reader") != (dibs.Group{}) || groupIn(t, db, "secret", "mailer") != (dibs.Group{}) || groupIn(t, db, "mail", "mailer").Limit != 3 {
		t.Error("the groups are not as they should be")
	}
}
