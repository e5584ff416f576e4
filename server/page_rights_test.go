package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
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

// tokens are a few lines, and the secrets by name.
func someTokens(t *testing.T, scopes map[string]string) (*server.Tokens, map[string]string, func(without string)) {
	t.Helper()
	secrets, lines := map[string]string{}, map[string]string{}
	for name, scope := range scopes {
		token, line, err := server.NewToken(name, strings.Fields(scope)...)
		if err != nil {
			t.Fatal(err)
		}
		secrets[name], lines[name] = token, line
	}
	text := func(without string) string {
		var b strings.Builder
		for name, line := range lines {
			if name != without {
				b.WriteString(line + "\n")
			}
		}
		return b.String()
	}
	tokens, err := server.ParseTokens(text(""))
	if err != nil {
		t.Fatal(err)
	}
	return tokens, secrets, func(without string) {
		if err := tokens.Replace(text(without)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPagesAreForThoseWhoMay(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	ids := enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"}, dibs.NewJob{Queue: "secret", Kind: "hush"})
	tokens, secrets, remove := someTokens(t, map[string]string{"boss": "admin", "reader": "read", "mailer": "admin:mail", "pusher": "enqueue work"})
	var log bytes.Buffer
	s := closing(t, server.New(db, server.Options{Tokens: tokens, Log: slog.New(slog.NewTextHandler(&log, nil))}))
	h := httptest.NewServer(s)
	defer h.Close()
	as := func(name string) *browser {
		b := newBrowser(t, h.URL)
		b.send("/login", "token", secrets[name], "back", "/")
		return b
	}
	stranger := newBrowser(t, h.URL)
	for _, path := range []string{"/", "/queues/mail", fmt.Sprintf("/jobs/%d", ids[0]), "/workers", "/schedules"} {
		if page := stranger.sees(path, `name="token"`); strings.Contains(page, "mail") && !strings.Contains(path, "mail") {
			t.Errorf("%s shows a stranger %s", path, page)
		}
	}
	for _, wrong := range []string{"", "dibs_WRONGWRONGWRONGWRONG", secrets["pusher"]} {
		if status, page := stranger.send("/login", "token", wrong); status != http.StatusForbidden || !strings.Contains(page, `name="token"`) {
			t.Errorf("a login with %q: %d", wrong, status)
		}
	}
	as("reader").sees("/", "mail", "secret")
	if page := as("mailer").sees("/", "mail"); strings.Contains(page, "secret") {
		t.Errorf("who may look at mail sees %s", page)
	}
	may := map[string]map[string]int{
		"/queues/mail/pause":                     {"boss": 200, "reader": 403, "mailer": 200},
		"/queues/secret/pause":                   {"boss": 200, "reader": 403, "mailer": 403},
		fmt.Sprintf("/jobs/%d/cancel", ids[1]):   {"reader": 403, "mailer": 404, "boss": 200},
		"/queues/mail/settings":                  {"reader": 403, "mailer": 200, "boss": 200},
		"/queues/secret/settings":                {"reader": 403, "mailer": 403, "boss": 200},
		fmt.Sprintf("/jobs/%d/requeue", ids[1]):  {"reader": 403, "mailer": 404},
		fmt.Sprintf("/jobs/%d/edit", ids[0]):     {"reader": 403, "mailer": 422},
		"/schedules/none/run-now":                {"reader": 404, "boss": 404},
		fmt.Sprintf("/jobs/%d/cancel?x", 999999): {"boss": 404},
	}
	for path, who := range may {
		for name, want := range who {
			if name == "boss" && strings.Contains(path, "cancel") {
				continue // left out: once the job is cancelled, the others get other answers
			}
			if status, page := as(name).send(path, "concurrency", "3", "back", "/"); status != want {
				t.Errorf("%s by %s: %d, not %d: %s", path, name, status, want, page)
			}
		}
	}
	if status, _ := as("mailer").open("/queues/secret"); status != http.StatusForbidden {
		t.Errorf("a queue that the token is not for: %d", status)
	}
	b := as("boss")
	b.sees("/", "boss · log out")
	remove("boss")
	b.sees("/", `name="token"`)
	reader := as("reader")
	reader.send("/logout")
	reader.sees("/", `name="token"`)
	for name, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has the token of %s", name)
		}
	}
	if !strings.Contains(log.String(), "who=mailer did=pause") {
		t.Errorf("the log does not say who paused the queue: %s", log.String())
	}
}

// A page of another site can neither change anything nor read a page, though a link from there opens it.
// A form that is sent after the session has ended leads through the login back to its page, and changes nothing.
func TestAFormAfterTheSessionLeadsBackToItsPage(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"})
	tokens, secrets, _ := someTokens(t, map[string]string{"boss": "admin"})
	h := httptest.NewServer(closing(t, server.New(db, server.Options{Tokens: tokens})))
	defer h.Close()
	for form, want := range map[string]string{"/queues/mail?state=dead": "<h1>mail", "": "<h1>Queues", "//evil.test/": "<h1>Queues"} {
		b := newBrowser(t, h.URL)
		status, page := b.send("/queues/mail/pause", "back", form)
		back := regexp.MustCompile(`name="back" value="([^"]*)"`).FindStringSubmatch(page)
		if status != http.StatusOK || back == nil {
			t.Fatalf("a form without a session: %d %s", status, page)
		}
		if status, page = b.send("/login", "token", secrets["boss"], "back", html.UnescapeString(back[1])); status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("from %q, the login leads to %d %s", form, status, page)
		}
	}
	if list, err := db.Queues(t.Context()); err != nil || list[0].Paused {
		t.Errorf("the queue was paused by nobody: %v", err)
	}
}

func TestOtherSitesCannotUseThePages(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"})
	url := serve(t, db)
	send := func(method, path string, header ...string) (int, http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode, a.Header
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	} {
		if status, _ := send("POST", "/queues/mail/pause", header...); status != http.StatusForbidden {
			t.Errorf("a change with %q: %d", header, status)
		}
	}
	if settingsOf(t, db, "mail").Paused {
		t.Error("the queue is paused")
	}
	for _, dest := range []string{"iframe", "image", "script", "style", "empty", "object"} {
		if status, _ := send("GET", "/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", dest); status != http.StatusForbidden {
			t.Errorf("as %s: %d", dest, status)
		}
	}
	status, header := send("GET", "/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if status != http.StatusOK || header.Get("Cross-Origin-Opener-Policy") != "same-origin" || !strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("a link: %d %v", status, header)
	}
	if status, _ := send("GET", "/v1/stats", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); status != http.StatusForbidden {
		t.Errorf("a link to the API: %d", status)
	}
}

// Whatever stands in a job, a page shows it as text.
func TestHostileTextIsShownAsText(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		evil := `"'><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}` + "</pre></title>"
		unseen := "\u202e\u2066\u200f\u001b[31m\u0007"
		payload, err := json.Marshal(evil + unseen)
		if err != nil {
			t.Fatal(err)
		}
		id := enqueue(t, db, dibs.NewJob{Queue: evil, Kind: evil, Group: evil, UniqueKey: evil, Payload: json.RawMessage(payload), Metadata: json.RawMessage(`{"m":` + string(payload) + `}`), MaxAttempts: 1})[0]
		if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: evil, Spec: "@daily", Queue: evil, Kind: evil}); err != nil {
			t.Fatal(err)
		}
		if err := db.Register(t.Context(), dibs.WorkerInfo{ID: dibs.Token{1}, Name: evil, Host: evil, PID: 1, Version: evil, Queues: []string{evil}, Kinds: []string{evil}, Concurrency: 1, State: dibs.WorkerWorking}); err != nil {
			t.Fatal(err)
		}
		jobs, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: evil, Worker: evil, N: 1, Lease: time.Hour})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		outcome := jobs[0].Lease().Retry(evil + unseen)
		if err := db.Finish(t.Context(), []dibs.Outcome{outcome}); err != nil {
			t.Fatal(err)
		}
		follower := enqueue(t, db, dibs.NewJob{Queue: evil, Kind: evil, After: []dibs.Dep{{ID: id}}})[0]
		b := newBrowser(t, serve(t, db))
		path := "/queues/" + strings.NewReplacer("/", "%2F", "<", "%3C", ">", "%3E", " ", "%20", `"`, "%22", "{", "%7B", "}", "%7D").Replace(evil)
		for _, p := range []string{"/", path, path + "?state=dead", path + "?kind=%3Cscript%3E&group=%22%3E%3Cscript%3E", fmt.Sprintf("/jobs/%d", id), fmt.Sprintf("/jobs/%d", follower), "/workers", "/schedules", "/find?q=%3Cscript%3Ealert(1)%3C/script%3E"} {
			_, page := b.open(p)
			for _, bad := range []string{"<script>alert", "<img src=x", "\u202e", "\u2066", "\u200f", "\u001b", "\u0007", "<no value>", "%!"} {
				if strings.Contains(page, bad) {
					t.Errorf("%s has %q:\n%s", p, bad, page)
				}
			}
		}
		b.sees(fmt.Sprintf("/jobs/%d", id), "&lt;script&gt;alert(1)")
		b.sees(fmt.Sprintf("/jobs/%d", follower), "Flow ", `"row" href="../queues/%22%27%3E%3Cscript`)
		if status, page := b.send(path + "/pause"); status != http.StatusOK || strings.Contains(page, "<script>alert") {
			t.Errorf("%d %s", status, page)
		}
	})
}
