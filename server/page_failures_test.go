package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// die enqueues n jobs of a kind and has them die of an error, in which %d stands for their numbers.
func die(t testing.TB, db admin.Database, queue, kind, text string, n int) (ids []int64) {
	t.Helper()
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: queue, Kind: kind}
	}
	enqueue(t, db, jobs...)
	claimed, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Kinds: []string{kind}, Worker: "w", N: n, Lease: time.Hour})
	if err != nil || len(claimed) != n {
		t.Fatalf("claimed %d of %d: %v", len(claimed), n, err)
	}
	var outcomes []dibs.Outcome
	for i, j := range claimed {
		outcomes = append(outcomes, j.Lease().Die(strings.ReplaceAll(text, "%d", fmt.Sprint(i))))
		ids = append(ids, j.ID)
	}
	if err := db.Finish(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	return ids
}

// changesAll confirms a change of many jobs, and goes on for as long as jobs are left: one request takes 2 s at most.
// The page that follows the last must say that it was done.
func (b *browser) changesAll(path, done, page string) {
	b.Helper()
	status, action := http.StatusOK, strings.Repeat("/..", strings.Count(path, "/")-1)[1:]+path
	for status == http.StatusOK && strings.Contains(page, `action="`+action+`"`) && strings.Contains(page, `name="sure"`) {
		status, page = b.send(path, formOf(b, page, action)...)
		if strings.Contains(page, html.EscapeString(done)) {
			return
		}
	}
	b.Errorf("%s: %d without %q:\n%s", path, status, done, page)
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// formOf are the hidden fields of the form that has an action, as send takes them.
func formOf(t testing.TB, page, action string) (pairs []string) {
	t.Helper()
	_, form, found := strings.Cut(page, `action="`+action+`"`)
	if !found {
		t.Fatalf("no form for %s:\n%s", action, page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	for _, m := range hiddenField.FindAllStringSubmatch(form, -1) {
		pairs = append(pairs, m[1], html.UnescapeString(m[2]))
	}
	return pairs
}

// group are the fields of the form of a group.
func group(queue, kind, fingerprint string) []string {
	sum := sha256.Sum256([]byte(fingerprint))
	return []string{"queue", queue, "kind", kind, "group", hex.EncodeToString(sum[:])}
}

// confirmed are the fields of the form that confirms a change of all of a group, with another value of one field.
func confirmed(queue, kind, fingerprint string, other ...string) []string {
	const late = "2900-01-01T00:00:00Z"
	fields := append(group(queue, kind, fingerprint), "sure", "yes", "total", "2", "changed", "0", "looked", "0", "all", "2", "last", "1", "until", late, "next", "2", "at", late)
	if len(other) == 2 {
		fields[slices.Index(fields, other[0])+1] = other[1]
	}
	return fields
}

func statesOf(t testing.TB, db admin.Database, ids []int64) map[dibs.State]int {
	t.Helper()
	states := map[dibs.State]int{}
	for _, id := range ids {
		j, err := db.Get(t.Context(), id)
		switch {
		case err == nil:
			states[j.State]++
		case errors.Is(err, dibs.ErrNotFound):
			states["deleted"]++
		default:
			t.Fatal(err)
		}
	}
	return states
}

func TestFailuresAreGroupedAndPutBackOrDeleted(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		refused := die(t, db, "mail", "welcome", "dial tcp 10.0.0.%d:25: connection refused", 7)
		other := die(t, db, "mail", "letter", "dial tcp 10.0.0.%d:25: connection refused", 3)
		lookup := die(t, db, "mail", "welcome", "451 lookup failed\nfor customer %d", 2)
		elsewhere := die(t, db, "web", "welcome", "dial tcp 10.0.0.%d:25: connection refused", 1)
		b := newBrowser(t, serve(t, db))
		text := b.sees("/failures", "dial tcp …: connection refused", "451 lookup failed", "dial tcp 10.0.0.6:25: connection refused</small>", "letter", `class="sparks"`, fmt.Sprintf(`href="./jobs/%d"`, refused[6]))
		if n := strings.Count(text, "<tr>"); n != 5 {
			t.Errorf("there are %d rows, with the head:\n%s", n, text)
		}
		mail := b.sees("/failures?queue=mail", "Failures of")
		if strings.Contains(mail, "queues/web") {
			t.Error("the failures of mail list another queue")
		}
		if status, _ := b.open("/failures?queue=none"); status != http.StatusNotFound {
			t.Errorf("failures of no queue: %d", status)
		}
		b.sees("/", "12 dead since", "10 of them: dial tcp …: connection refused", "1 dead since", `href="./failures?queue=mail"`)
		b.sees("/queues/mail?state=dead", "Dead jobs grouped by error")

		status, ask := b.send("/failures/requeue", group("mail", "welcome", "dial tcp …: connection refused")...)
		if status != http.StatusOK || !strings.Contains(ask, "7 dead jobs") || !strings.Contains(ask, "Requeue 7 jobs") || !strings.Contains(ask, fmt.Sprintf("jobs/%d", refused[0])) {
			t.Errorf("the question: %d %s", status, ask)
		}
		if got := statesOf(t, db, refused); got[dibs.Dead] != 7 {
			t.Errorf("unconfirmed: %v", got)
		}
		late := die(t, db, "mail", "welcome", "dial tcp 10.0.0.%d:25: connection refused", 1)
		b.changesAll("/failures/requeue", "7 jobs wait again.", ask)
		if got := statesOf(t, db, refused); got[dibs.Waiting] != 7 {
			t.Errorf("put back: %v", got)
		}
		if got := statesOf(t, db, append(append(append(other, lookup...), elsewhere...), late...)); got[dibs.Dead] != 7 {
			t.Errorf("jobs of other groups, or that died later: %v", got)
		}
		_, ask = b.send("/failures/prune", group("mail", "welcome", "451 lookup failed\nfor customer …")...)
		b.changesAll("/failures/prune", "2 jobs are deleted.", ask)
		if got := statesOf(t, db, lookup); got["deleted"] != 2 {
			t.Errorf("deleted: %v", got)
		}
		if status, page := b.send("/failures/prune", group("mail", "welcome", "451 lookup failed\nfor customer …")...); status != http.StatusConflict {
			t.Errorf("a group without jobs: %d %s", status, page)
		}
		for _, bad := range [][]string{
			{},
			{"queue", "mail", "sure", "yes"},
			{"queue", "mail", "sure", "yes", "total", "-1", "changed", "0"},
			confirmed("mail", "k", "boom", "at", "now"),
			confirmed("mail", "k", "boom", "until", "now"),
			confirmed("mail", "k", "boom", "next", "x"),
			confirmed("mail", "k", "boom", "looked", "-1"),
		} {
			if status, page := b.send("/failures/prune", bad...); status != http.StatusUnprocessableEntity {
				t.Errorf("%q: %d %s", bad, status, page)
			}
		}
	})
}

// A large group is changed request by request. Without a script, a button asks for the next.
func TestManyFailuresArePutBackInSteps(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		ids := die(t, db, "mail", "k", "boom %d", 4500)
		rest := die(t, db, "mail", "k", "bang %d", 500)
		b := newBrowser(t, serve(t, db))
		_, page := b.send("/failures/requeue", group("mail", "k", "boom …")...)
		most, steps := 0, 0
		for before := 0; strings.Contains(page, `action="../failures/requeue"`) && steps < 100; steps++ {
			var status int
			if status, page = b.send("/failures/requeue", formOf(t, page, "../failures/requeue")...); status != http.StatusOK {
				t.Fatalf("%d %s", status, page)
			}
			now := 0
			if m := regexp.MustCompile(`max="4500" value="(\d+)"`).FindStringSubmatch(page); m != nil {
				fmt.Sscan(m[1], &now)
				most, before = max(most, now-before), now
			}
		}
		if most == 0 || most > 2000 || steps < 3 || !strings.Contains(page, "4\u202f500 jobs wait again.") {
			t.Errorf("%d steps, the largest of %d: %s", steps, most, page)
		}
		if got := statesOf(t, db, ids[:50]); got[dibs.Waiting] != 50 {
			t.Errorf("%v", got)
		}
		if got := statesOf(t, db, rest[:50]); got[dibs.Dead] != 50 {
			t.Errorf("the others: %v", got)
		}
	})
}

// A queue with more dead jobs than are read at once hides no other queue, and a button changes all of its group, also
// those that died at the same time, but none that died after it was confirmed.
func TestAllFailuresOfAGroupAreChanged(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	db := onSQLite(t)
	const more = 200
	other := die(t, db, "web", "k", "older %d", 2)
	die(t, db, "mail", "k", "boom %d", more)
	rare := die(t, db, "mail", "k", "rare", 1)
	die(t, db, "mail", "k", "boom %d", admin.MaxFailures) // the jobs die at the same time
	b := newBrowser(t, serve(t, db))
	b.sees("/failures", "older …", "The last 10\u202f000 of 10\u202f201 dead jobs of", "10\u202f000+")
	if status, page := b.send("/failures/requeue", group("mail", "k", "rare")...); status != http.StatusOK || !strings.Contains(page, "rare") {
		t.Errorf("an error that only older jobs have: %d %s", status, page)
	}
	status, page := b.send("/failures/prune", group("mail", "k", "boom …")...)
	if !strings.Contains(page, "10\u202f000 dead jobs or more") {
		t.Errorf("the question: %d %s", status, page)
	}
	late := die(t, db, "mail", "k", "boom %d", 1)
	for steps := 0; strings.Contains(page, `action="../failures/prune"`) && status == http.StatusOK && steps < 100; steps++ {
		if steps > 0 && !strings.Contains(page, `max="10201"`) {
			t.Errorf("the progress: %s", page)
		}
		status, page = b.send("/failures/prune", formOf(t, page, "../failures/prune")...)
	}
	if !strings.Contains(page, "10\u202f200 jobs are deleted.") {
		t.Errorf("%d %s", status, page)
	}
	if got := statesOf(t, db, append(append(other, rare...), late...)); got[dibs.Dead] != 4 {
		t.Errorf("left are %v", got)
	}
}

// A job that somebody else has put back meanwhile, and that has completed, does not run once more.
func TestJobsThatAreNoLongerDeadAreLeftAlone(t *testing.T) {
	t.Parallel()
	db := &elsewhere{Database: onSQLite(t)}
	ids := die(t, db, "mail", "k", "boom %d", 600)
	db.read = func() {
		done, err := db.Requeue(t.Context(), ids[:1], time.Time{})
		if err != nil || len(done) != 1 {
			t.Fatal(done, err)
		}
		claimed, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w", N: 1, Lease: time.Hour})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if err := db.Finish(t.Context(), []dibs.Outcome{claimed[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
	}
	b := newBrowser(t, serve(t, db))
	_, page := b.send("/failures/prune", group("mail", "k", "boom …")...)
	b.changesAll("/failures/prune", "599 jobs are deleted, of 600", page)
	if got := statesOf(t, db, ids[:1]); got[dibs.Completed] != 1 {
		t.Errorf("%v", got)
	}
}

// elsewhere is a database in which others do something once failures have been read, before they are deleted.
type elsewhere struct {
	admin.Database
	once sync.Once
	read func()
}

func (e *elsewhere) DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	e.once.Do(e.read)
	return e.Database.DeleteEnded(ctx, ids, until)
}

func TestFailuresAreForThoseWhoMay(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	mine := die(t, db, "mail", "k", "mine %d", 2)
	die(t, db, "secret", "hush", "theirs %d", 2)
	tokens, secrets, _ := someTokens(t, map[string]string{"boss": "admin", "reader": "read", "mailer": "admin:mail", "looker": "read:mail"})
	var log bytes.Buffer
	s := closing(t, server.New(db, server.Options{Tokens: tokens, Log: slog.New(slog.NewTextHandler(&log, nil))}))
	h := httptest.NewServer(s)
	defer h.Close()
	as := func(name string) *browser {
		b := newBrowser(t, h.URL)
		b.send("/login", "token", secrets[name], "back", "/")
		return b
	}
	newBrowser(t, h.URL).sees("/failures", `name="token"`)
	for name, buttons := range map[string]int{"boss": 4, "reader": 0, "mailer": 2, "looker": 0} {
		page := as(name).sees("/failures", "mine …")
		if n := strings.Count(page, `method="post" action="./failures/`); n != buttons {
			t.Errorf("%s sees %d buttons, not %d", name, n, buttons)
		}
		all := name == "boss" || name == "reader"
		if strings.Contains(page, "theirs") != all || strings.Contains(page, "secret") != all {
			t.Errorf("%s sees %s", name, page)
		}
		if overview := as(name).sees("/", "2 dead since"); strings.Contains(overview, "theirs") != all {
			t.Errorf("%s sees %s", name, overview)
		}
		if status, page := as(name).open("/failures?queue=secret"); (status == http.StatusOK) != all || strings.Contains(page, "theirs") != all {
			t.Errorf("%s opens secret: %d", name, status)
		}
	}
	for _, verb := range []string{"requeue", "prune"} {
		for name, want := range map[string]int{"reader": 403, "looker": 403, "mailer": 403} {
			queue, kind, fingerprint := "mail", "k", "mine …"
			if name == "mailer" {
				queue, kind, fingerprint = "secret", "hush", "theirs …"
			}
			for _, form := range [][]string{confirmed(queue, kind, fingerprint), group(queue, kind, fingerprint)} {
				if status, page := as(name).send("/failures/"+verb, form...); status != want || strings.Contains(page, "theirs") {
					t.Errorf("%s by %s: %d %s", verb, name, status, page)
				}
			}
		}
	}
	if got := statesOf(t, db, mine); got[dibs.Dead] != 2 {
		t.Errorf("%v", got)
	}
	as("mailer").changes("/failures/requeue", "2 jobs wait again.", confirmed("mail", "k", "mine …")...)
	for _, part := range []string{"who=mailer", `"requeue failures"`, `"queue mail, kind k: mine …"`} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log is without %s: %s", part, log.String())
		}
	}
}

func TestOtherSitesCannotChangeFailures(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	ids := die(t, db, "mail", "k", "boom", 1)
	base := serve(t, db)
	form := url.Values{}
	for pair := range slices.Chunk(confirmed("mail", "k", "boom"), 2) {
		form.Set(pair[0], pair[1])
	}
	for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		for _, verb := range []string{"requeue", "prune"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/failures/"+verb, strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(header[0], header[1])
			a, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %q: %d", verb, header, a.StatusCode)
			}
		}
	}
	if got := statesOf(t, db, ids); got[dibs.Dead] != 1 {
		t.Errorf("%v", got)
	}
}

func TestHostileErrorsAreShownAsText(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		evil := `"'><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}</pre></title>`
		die(t, db, evil, evil, evil+"\u202e\u2066\u200f\u001b[31m\u0007", 1)
		b := newBrowser(t, serve(t, db))
		clean := func(what, page string) {
			t.Helper()
			for _, bad := range []string{"<script>alert", "<img src=x", "\u202e", "\u2066", "\u200f", "\u001b", "\u0007", "<no value>", "%!"} {
				if strings.Contains(page, bad) {
					t.Errorf("%s has %q:\n%s", what, bad, page)
				}
			}
		}
		clean("the overview", b.sees("/", "1 dead since", "&lt;script&gt;"))
		page := b.sees("/failures", "&lt;script&gt;alert(1)")
		clean("the page", page)
		for _, verb := range []string{"requeue", "prune"} {
			status, ask := b.send("/failures/"+verb, formOf(t, page, "./failures/"+verb)...)
			if status != http.StatusOK || !strings.Contains(ask, "1 dead job") {
				t.Errorf("the question for %s: %d %s", verb, status, ask)
			}
			clean("the question", ask)
			if verb == "prune" {
				continue
			}
			status, done := b.send("/failures/"+verb, formOf(t, ask, "../failures/"+verb)...)
			if status != http.StatusOK || !strings.Contains(done, "1 job waits again.") {
				t.Errorf("%d %s", status, done)
			}
			clean("the answer", done)
			die2, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: evil, Worker: "w", N: 1, Lease: time.Hour})
			if err != nil || len(die2) != 1 {
				t.Fatal(die2, err)
			}
			if err := db.Finish(t.Context(), []dibs.Outcome{die2[0].Lease().Die(evil)}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the page, which knows counts of a second ago, has the failure", func() bool {
				_, page = b.open("/failures")
				return strings.Contains(page, "&lt;script&gt;alert(1)")
			})
		}
	})
}
