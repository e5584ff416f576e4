package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

// send sends a request of the API with a token, and returns the status.
func send(t testing.TB, token, method, url, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// Each change that somebody makes, by the pages or by the API, is noted once, with who made it. Calls of workers
// and enqueuers are not noted, nor are refused changes.
func TestChangesAreNoted(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		tokens, secrets, _ := someTokens(t, map[string]string{"boss": "admin", "robot": "admin", "reader": "read", "mailer": "admin:mail"})
		var log bytes.Buffer
		s := closing(t, server.New(db, server.Options{Tokens: tokens, Log: slog.New(slog.NewTextHandler(&log, nil))}))
		h := httptest.NewServer(s)
		defer h.Close()
		ids := enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"}, dibs.NewJob{Queue: "mail", Kind: "k"}, dibs.NewJob{Queue: "mail", Kind: "k"})
		var want []string
		api := func(method, path, body, note string) {
			t.Helper()
			if status := send(t, secrets["robot"], method, h.URL+path, body); status >= 300 {
				t.Errorf("%s %s: %d", method, path, status)
			}
			if note != "" {
				want = append(want, "robot "+note)
			}
		}
		api("POST", "/v1/jobs", `{"queue": "mail", "kind": "k"}`, "")
		api("POST", "/v1/claim", `{"queue": "mail", "worker": "w"}`, "")
		api("POST", "/v1/jobs/edit", fmt.Sprintf(`{"ids": [%d], "priority": 3}`, ids[1]), fmt.Sprintf("edit 1 job %d: priority 3", ids[1]))
		api("POST", "/v1/jobs/cancel", fmt.Sprintf(`{"ids": [%d, %d]}`, ids[1], ids[2]), fmt.Sprintf("cancel 2 jobs %d, %d", ids[1], ids[2]))
		api("POST", "/v1/jobs/requeue", fmt.Sprintf(`{"ids": [%d]}`, ids[2]), fmt.Sprintf("requeue 1 job %d", ids[2]))
		api("POST", "/v1/jobs/requeue", fmt.Sprintf(`{"ids": [%d]}`, ids[2]), "") // the job waits already
		api("POST", "/v1/jobs/prune", `{"queue": "mail", "state": "cancelled", "older_than": 0}`, "prune 1 cancelled jobs of queue mail")
		api("PATCH", "/v1/queues/mail", `{"concurrency": 4}`, "change 1 queue mail: concurrency 4")
		api("PATCH", "/v1/queues/mail/groups/g", `{"limit": 2}`, "change 1 group g of queue mail: limit 2")
		api("PUT", "/v1/schedules/s", `{"spec": "@yearly", "queue": "mail", "kind": "k", "payload": "secret"}`, `set 1 schedule s: kind "k", payload, queue "mail", spec "@yearly"`)
		api("PATCH", "/v1/schedules/s", `{"paused": true}`, "change 1 schedule s: paused true")
		api("POST", "/v1/schedules/s/run", ``, "run now 1 schedule s")
		api("DELETE", "/v1/schedules/s", ``, "delete 1 schedule s")
		api("PATCH", "/v1/queues/old?create=true", `{"strict": true}`, "change 1 queue old: strict true")
		api("PATCH", "/v1/queues/older?create=true", `{"strict": true}`, "change 1 queue older: strict true")
		api("DELETE", "/v1/queues/old?ended=true", ``, "delete 1 queue old and its ended jobs")
		for _, token := range []string{"reader", "mailer"} {
			if status := send(t, secrets[token], "PATCH", h.URL+"/v1/queues/other", `{"concurrency": 4}`); status != http.StatusForbidden {
				t.Errorf("a change by %s: %d", token, status)
			}
		}
		b := newBrowser(t, h.URL)
		b.send("/login", "token", secrets["boss"], "back", "/")
		b.changes("/queues/mail/pause", "is paused", "back", "/queues/mail")
		b.changes("/queues/mail/settings", "Changed 2 settings", "concurrency", "5", "lease", "30s", "sure", "yes")
		b.changes("/queues/older/delete", "The queue older is deleted", "sure", "yes")
		want = append(want, "boss pause 1 queue mail", "boss change 2 queue mail: concurrency 4 to 5, lease 10s to 30s", "boss delete 1 queue older")
		list, err := db.Changes(t.Context(), 100)
		if err != nil || len(list) != len(want) {
			t.Fatalf("%d of %d changes are noted (%v): %+v", len(list), len(want), err, list)
		}
		for i, c := range list {
			if text := fmt.Sprintf("%s %s %d %s", c.Who, c.Did, c.N, c.What); text != want[len(want)-1-i] {
				t.Errorf("noted is %q, not %q", text, want[len(want)-1-i])
			}
		}
		page := b.sees("/changes", "robot", "boss", "cancelled jobs of queue mail", "lease 10s to 30s", "<time ")
		if n := strings.Count(log.String(), "msg=changed "); n != len(want) || !strings.Contains(log.String(), "who=robot did=cancel") {
			t.Errorf("the log has %d changes:\n%s", n, log.String())
		}
		for name, secret := range secrets {
			if strings.Contains(page+log.String()+fmt.Sprint(list), secret) {
				t.Errorf("the token of %s is noted", name)
			}
		}
		m := newBrowser(t, h.URL)
		m.send("/login", "token", secrets["mailer"], "back", "/")
		if status, page := m.open("/changes"); status != http.StatusForbidden || strings.Contains(page, "robot") {
			t.Errorf("who may look at one queue sees all changes: %d", status)
		}
	})
}

// unnoting is a database in which no change can be noted.
type unnoting struct{ admin.Database }

func (unnoting) NoteChange(context.Context, admin.Change) error {
	return errors.New("the table is gone")
}

// A change that cannot be noted has been made all the same: the answer says so, and the log what went wrong.
func TestAChangeThatCannotBeNotedIsMade(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "mail", Kind: "k"})
	var log bytes.Buffer
	s := closing(t, server.New(unnoting{db}, server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}))
	h := httptest.NewServer(s)
	defer h.Close()
	newBrowser(t, h.URL).changes("/queues/mail/pause", "is paused", "back", "/")
	if status := send(t, "", "PATCH", h.URL+"/v1/queues/mail", `{"concurrency": 7}`); status != http.StatusOK {
		t.Errorf("the change is answered by %d", status)
	}
	if q := settingsOf(t, db, "mail"); !q.Paused || q.Concurrency != 7 {
		t.Errorf("the queue is %+v", q)
	}
	text := log.String()
	if strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "the table is gone") || !strings.Contains(text, `who="somebody without a token" did=pause`) {
		t.Errorf("the log: %s", text)
	}
}

// Names in notes are text from anybody.
func TestHostileNotesAreShownAsText(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	evil := "</td><script>alert(1)</script>\u202e\x1b[31m\n{{.}}"
	if err := db.NoteChange(t.Context(), admin.Change{Who: evil, Did: evil, What: evil + strings.Repeat("w", 900), N: -1}); err != nil {
		t.Fatal(err)
	}
	page := newBrowser(t, serve(t, db)).sees("/changes", "&lt;script&gt;alert(1)", `\u202e`)
	for _, bad := range []string{"<script>alert", "\u202e", "\x1b", strings.Repeat("w", 500)} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}
