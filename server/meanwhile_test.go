package server_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/server"
)

// meanwhile is a database in which somebody else acts between what a request looks at and what it does.
type meanwhile struct {
	dibs.Database
	act func() // nil: not now
}

func (m *meanwhile) now() {
	if act := m.act; act != nil {
		m.act = nil
		act()
	}
}

func (m *meanwhile) Schedules(ctx context.Context) ([]dibs.Schedule, error) {
	list, err := m.Database.Schedules(ctx)
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

// Whoever may use one queue does not reach a schedule of another queue that takes the name of
// one of the own at the worst moment.
func TestAScheduleThatTakesAnothersPlaceIsNotReached(t *testing.T) {
	onDatabases(t, func(t *testing.T, db dibs.Database) {
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
		if page, err := db.List(t.Context(), dibs.Filter{}); err != nil || len(page.Jobs) > 0 {
			t.Errorf("there are jobs: %+v, %v", page.Jobs, err)
		}
	})
}
