package server_test

import (
	"context"
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

// meanwhile is a database in which somebody else acts between what a request looks at and what it does.
type meanwhile struct {
	admin.Database
	act func() // what somebody else does next; nil: nothing
}

func (m *meanwhile) now() {
	if act := m.act; act != nil {
		m.act = nil
		act()
	}
}

func (m *meanwhile) Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error) {
	list, err := m.Database.Schedules(ctx, names...)
	m.now()
	return list, err
}

func (m *meanwhile) SetSchedule(ctx context.Context, s dibs.Schedule, queues ...string) (dibs.Schedule, error) {
	m.now()
	return m.Database.SetSchedule(ctx, s, queues...)
}

func (m *meanwhile) ChangeSchedule(ctx context.Context, name string, f func(*dibs.Schedule) error) (dibs.Schedule, error) {
	return m.Database.ChangeSchedule(ctx, name, func(s *dibs.Schedule) error {
		err := f(s)
		m.now()
		return err
	})
}

func (m *meanwhile) DeleteSchedule(ctx context.Context, name string, queues ...string) error {
	m.now()
	return m.Database.DeleteSchedule(ctx, name, queues...)
}

func (m *meanwhile) RunSchedule(ctx context.Context, name string, queues ...string) (dibs.Enqueued, error) {
	m.now()
	return m.Database.RunSchedule(ctx, name, queues...)
}

func (m *meanwhile) Queues(ctx context.Context, names ...string) ([]dibs.Queue, error) {
	list, err := m.Database.Queues(ctx, names...)
	m.now()
	return list, err
}

func (m *meanwhile) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	return m.Database.ChangeQueue(ctx, name, func(q *dibs.Queue) error {
		err := f(q)
		m.now()
		return err
	})
}

func (m *meanwhile) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	return m.Database.ChangeGroup(ctx, queue, group, func(g *dibs.Group) error {
		err := f(g)
		m.now()
		return err
	})
}

// A caller who may use one queue does not reach a schedule of another queue, even if it takes
// the name of one of the caller's schedules at the worst moment.
func TestAScheduleThatTakesAnothersPlaceIsNotReached(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		m := &meanwhile{Database: db}
		tokens, secrets, _ := someTokens(t, map[string]string{"limited": "admin:mine"})
		h := httptest.NewServer(closing(t, server.New(m, server.Options{Tokens: tokens})))
		defer h.Close()
		b := newBrowser(t, h.URL)
		b.send("/login", "token", secrets["limited"], "back", "/")
		api := func(method, path, body string) func() int {
			return func() int { return send(t, secrets["limited"], method, h.URL+"/v1/schedules/s"+path, body) }
		}
		form := func(word string) func() int {
			return func() int {
				status, _ := b.send("/schedules/s/" + word)
				return status
			}
		}
		set := func(queue, spec string, paused bool) {
			t.Helper()
			if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: "s", Spec: spec, Queue: queue, Kind: "k", Paused: paused}); err != nil {
				t.Fatal(err)
			}
		}
		for _, call := range []struct {
			name string
			make func() int
			want int
		}{
			{"PUT", api("PUT", "", `{"spec":"@every 1h","queue":"mine"}`), 403},
			{"PATCH", api("PATCH", "", `{"spec":"@every 1h"}`), 404},
			{"PATCH of the queue", api("PATCH", "", `{"queue":"mine"}`), 404},
			{"DELETE", api("DELETE", "", ""), 404},
			{"run", api("POST", "/run", ""), 404},
			{"pause on the page", form("pause"), 403},
			{"resume on the page", form("resume"), 403},
			{"run on the page", form("run-now"), 404},
		} {
			set("mine", "@every 2h", false)
			m.act = func() { set("theirs", "@every 3h", call.name == "resume on the page") }
			if status := call.make(); status != call.want || m.act != nil {
				t.Errorf("%s: %d, want %d", call.name, status, call.want)
			}
			list, err := db.Schedules(t.Context())
			if err != nil || len(list) != 1 || list[0].Queue != "theirs" || list[0].Spec != "@every 3h" || list[0].Paused != (call.name == "resume on the page") {
				t.Errorf("%s has changed it: %+v, %v", call.name, list, err)
			}
		}
		if page, err := db.List(t.Context(), admin.Filter{}); err != nil || len(page.Jobs) > 0 {
			t.Errorf("there are jobs: %+v, %v", page.Jobs, err)
		}
	})
}

// Changes of different parts of a setting are all kept, in whatever order the requests come.
func TestPartsOfSettingsThatAreChangedAtOnceAreKept(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		m := &meanwhile{Database: db}
		root := serve(t, m)
		b := newBrowser(t, root)
		patch := func(path, body string) func() int {
			return func() int { return send(t, "", "PATCH", root+"/v1/queues/mail"+path, body) }
		}
		form := func(path string, pairs ...string) func() int {
			return func() int {
				status, _ := b.send("/queues/mail/"+path, append(pairs, "sure", "yes")...)
				return status
			}
		}
		backoff := dibs.Backoff{Base: time.Second, Factor: 2, Max: time.Hour, Jitter: 0.25}
		rate := dibs.Rate{N: 10, Per: time.Minute, Burst: 3}
		for name, change := range map[string]func() int{
			"PATCH of the queue":      patch("", `{"backoff":{"base":5},"rate":{"n":20}}`),
			"PATCH of a group":        patch("/groups/g", `{"rate":{"n":20}}`),
			"form of the queue":       form("settings", "backoff_base", "5s", "rate", "20/min"),
			"form of a group":         form("groups", "group", "g", "rate", "20/min"),
			"form of another setting": form("settings", "concurrency", "7"),
		} {
			set := func(backoff dibs.Backoff, rate dibs.Rate) {
				if _, err := db.ChangeQueue(t.Context(), "mail", dibs.QueueChange{Backoff: &backoff, Rate: &rate}.Apply); err != nil {
					t.Fatal(err)
				}
				if err := db.ChangeGroup(t.Context(), "mail", "g", dibs.GroupChange{Rate: &rate}.Apply); err != nil {
					t.Fatal(err)
				}
			}
			set(backoff, rate)
			m.act = func() {
				set(dibs.Backoff{Base: time.Second, Factor: 2, Max: 2 * time.Hour, Jitter: 0.25}, dibs.Rate{N: 10, Per: time.Minute, Burst: 8})
			}
			if status := change(); status != 200 || m.act != nil {
				t.Errorf("%s: %d", name, status)
			}
			q, g := settingsOf(t, db, "mail"), groupIn(t, db, "mail", "g")
			if q.Backoff.Max != 2*time.Hour || q.Rate.Burst != 8 || g.Rate.Burst != 8 {
				t.Errorf("%s took back what another changed: %+v, %+v", name, q, g)
			}
			if (name == "PATCH of the queue" || name == "form of the queue") && (q.Backoff.Base != 5*time.Second || q.Rate.N != 20) {
				t.Errorf("%s is lost: %+v", name, q)
			}
			if (name == "PATCH of a group" || name == "form of a group") && g.Rate.N != 20 {
				t.Errorf("%s is lost: %+v", name, g)
			}
		}
	})
}

// A confirmed change starts from the value that the page showed: a value that another has set since is not overwritten.
func TestAConfirmedSettingThatAnotherHasChangedIsRefused(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		m := &meanwhile{Database: db}
		b := newBrowser(t, serve(t, m))
		for path, set := range map[string]func(n int) error{
			"/queues/mail/settings": func(n int) error {
				_, err := db.ChangeQueue(t.Context(), "mail", dibs.QueueChange{Concurrency: &n}.Apply)
				return err
			},
			"/queues/mail/groups": func(n int) error { return db.ChangeGroup(t.Context(), "mail", "g", dibs.GroupChange{Limit: &n}.Apply) },
		} {
			name, now := "concurrency", func() int { return settingsOf(t, db, "mail").Concurrency }
			if path == "/queues/mail/groups" {
				name, now = "limit", func() int { return groupIn(t, db, "mail", "g").Limit }
			}
			to := func(n int) {
				t.Helper()
				if err := set(n); err != nil {
					t.Fatal(err)
				}
			}
			to(0)
			_, page := b.send(path, "group", "g", name, "5")
			var form []string
			for _, f := range regexp.MustCompile(`type="hidden" name="([a-z_-]+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
				form = append(form, f[1], f[2])
			}
			for _, late := range []bool{false, true} { // the other change comes before the confirmation, or while that is made
				to(0)
				if m.act = func() { to(2) }; !late {
					m.now()
				}
				status, page := b.send(path, form...)
				if status != 409 || !strings.Contains(page, "it was 0 and is 2 now") || now() != 2 {
					t.Errorf("%s: %d, now %d: %s", path, status, now(), page)
				}
			}
			to(5) // the other change sets the value that was wanted
			if status, page := b.send(path, form...); status != 200 || !strings.Contains(page, "Nothing to change") {
				t.Errorf("%s: %d: %s", path, status, page)
			}
			to(0)
			if b.changes(path, "Changed 1 setting", form...); now() != 5 {
				t.Errorf("%s has set %d", path, now())
			}
		}
	})
}

// A change that would be ignored is refused, with the name of its field.
func TestASettingThatWouldBeIgnoredIsRefused(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		if _, err := db.ChangeQueue(t.Context(), "mail", dibs.QueueChange{Strict: new(true)}.Apply); err != nil {
			t.Fatal(err)
		}
		root := serve(t, db)
		for _, path := range []string{"", "/groups/g"} {
			for body, field := range map[string]string{
				`{"rate":{"n":0,"per":-5,"burst":-9}}`: "rate.n",
				`{"rate":{"n":0,"per":60}}`:            "rate.n",
				`{"rate":{"burst":5}}`:                 "rate.burst",
				`{"rate":{"per":60}}`:                  "rate.n",
			} {
				r, err := http.NewRequestWithContext(t.Context(), "PATCH", root+"/v1/queues/mail"+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				if status, p := problem(t, r); status != 422 || p.Field != field {
					t.Errorf("%s %s: %d %+v", path, body, status, p)
				}
			}
			if status := send(t, "", "PATCH", root+"/v1/queues/mail"+path, `{"rate":{"n":0}}`); status != 200 {
				t.Errorf("no rate: %d", status)
			}
		}
		b := newBrowser(t, root)
		for _, form := range [][]string{{"settings", "strict", "maybe"}, {"settings", "burst", "5"}, {"groups", "burst", "5", "group", "g"}} {
			for _, sure := range [][]string{nil, {"sure", "yes"}} {
				if status, page := b.send("/queues/mail/"+form[0], append(form[1:], sure...)...); status != 422 || !strings.Contains(page, form[1]) {
					t.Errorf("%v: %d %s", form, status, page)
				}
			}
		}
		if q := settingsOf(t, db, "mail"); !q.Strict || q.Rate != (dibs.Rate{}) {
			t.Errorf("settings are %+v", q)
		}
	})
}
