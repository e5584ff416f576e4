package storetest

import (
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var settingCases = []oneCase{
	{"changes of settings made at the same time are all made", settingsAtOnce},
	{"an error of the function that changes settings changes nothing", refusedSettings},
	{"the function that changes settings may call the store", settingCalls},
}

// settingsAtOnce has many change parts of the same settings.
func settingsAtOnce(t *test) {
	another := t.Another(t)
	const n = 12
	t.runAtOnce(2*n, func(i int) error {
		db := []admin.Database{t.db, another}[i/2%2]
		if i%2 == 0 {
			return second(db.ChangeQueue(t.ctx, "q", func(q *dibs.Queue) error {
				q.Concurrency++
				q.Backoff.Base += time.Microsecond
				return nil
			}))
		}
		return db.ChangeGroup(t.ctx, "q", "g", func(g *dibs.Group) error {
			g.Limit++
			g.Rate.N, g.Rate.Per, g.Rate.Burst = 10, time.Second, g.Rate.Burst+1
			return nil
		})
	})
	q := t.set("q", dibs.QueueChange{})
	equal(t, "changes of the queue", q.Concurrency, n)
	equal(t, "its backoff", q.Backoff.Base-dibs.DefaultSettings("").Backoff.Base, n*time.Microsecond)
	groups, err := t.db.Groups(t.ctx, "q")
	t.must(err)
	equal(t, "groups", groups, []dibs.Group{{Name: "g", Limit: n, Rate: dibs.Rate{N: 10, Per: time.Second, Burst: n}}})
}

func refusedSettings(t *test) {
	refused := errors.New("refused")
	_, err := t.db.ChangeQueue(t.ctx, "q", func(q *dibs.Queue) error {
		q.Paused = true
		return refused
	})
	equal(t, "error", err, refused)
	equal(t, "error of a group", t.db.ChangeGroup(t.ctx, "q", "g", func(g *dibs.Group) error {
		g.Limit = 3
		return refused
	}), refused)
	_, err = t.db.ChangeQueue(t.ctx, "q", func(q *dibs.Queue) error {
		q.Backoff.Max = 0
		return nil
	})
	invalid(t, err, "backoff.max")
	invalid(t, t.db.ChangeGroup(t.ctx, "q", "g", func(g *dibs.Group) error {
		g.Rate.Burst = 3
		return nil
	}), "rate.burst")
	queues, err := t.db.Queues(t.ctx)
	t.must(err)
	equal(t, "queues", len(queues), 0) // no queue was made either
	_, err = t.db.ChangeQueue(t.ctx, "q", nil)
	invalid(t, err, "f")
	invalid(t, t.db.ChangeGroup(t.ctx, "q", "g", nil), "f")
	_, err = t.db.ChangeQueue(t.ctx, "", func(*dibs.Queue) error { return nil })
	invalid(t, err, "queue")
	invalid(t, t.db.ChangeGroup(t.ctx, "q", "", func(*dibs.Group) error { return nil }), "group")
}

// settingCalls passes a function that, when it is called first, changes the settings by a call of its own.
func settingCalls(t *test) {
	calls := 0
	q, err := t.db.ChangeQueue(t.ctx, "q", func(q *dibs.Queue) error {
		if calls++; calls == 1 {
			t.set("q", dibs.QueueChange{Concurrency: new(3)})
		}
		q.Strict, q.Name = true, "another"
		return nil
	})
	t.must(err)
	want := dibs.DefaultSettings("q")
	want.Concurrency, want.Strict = 3, true
	equal(t, "settings", q, want)
	t.must(t.db.ChangeGroup(t.ctx, "q", "g", func(g *dibs.Group) error {
		if calls++; calls == 3 {
			t.must(t.db.ChangeGroup(t.ctx, "q", "g", dibs.GroupChange{Limit: new(5)}.Apply))
		}
		g.Rate = dibs.Rate{N: 1, Per: time.Second}
		return nil
	}))
	equal(t, "calls", calls, 4)
	groups, err := t.db.Groups(t.ctx, "q")
	t.must(err)
	equal(t, "groups", groups, []dibs.Group{{Name: "g", Limit: 5, Rate: dibs.Rate{N: 1, Per: time.Second}}})
	t.must(t.db.ChangeGroup(t.ctx, "q", "g", func(g *dibs.Group) error {
		*g = dibs.Group{}
		return nil
	}))
	groups, err = t.db.Groups(t.ctx, "q")
	t.must(err)
	equal(t, "groups without settings of their own", len(groups), 0)
}
