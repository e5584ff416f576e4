package page

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// counted is a database that counts how often it is asked for times and failures.
type counted struct {
	admin.Database
	stats           []admin.QueueStats
	times, hours    map[string]int
	asked, failures int
	counts          int
	takes           time.Duration // how long counting the queues takes
}

func (c *counted) Queues(context.Context, ...string) ([]dibs.Queue, error) { return nil, nil }
func (c *counted) Workers(context.Context) ([]dibs.WorkerInfo, error)      { return nil, nil }
func (c *counted) History(_ context.Context, queues []string, _ time.Duration) (list []admin.Minute, err error) {
	for _, q := range queues {
		c.hours[q]++
		for i := range int64(61) {
			list = append(list, admin.Minute{Queue: q, Enqueued: i, Succeeded: i / 2, Died: i / 60})
		}
	}
	return list, nil
}

func (c *counted) Stats(context.Context) ([]admin.QueueStats, error) {
	c.counts++
	time.Sleep(c.takes)
	return c.stats, nil
}

func (c *counted) Times(_ context.Context, queue string) (admin.Times, error) {
	c.times[queue]++
	c.asked++
	return admin.Times{Jobs: 1, Wait: admin.Percentiles{P50: time.Second}}, nil
}

func (c *counted) Failures(context.Context, admin.FailureFilter) ([]admin.Failure, error) {
	c.failures++
	return []admin.Failure{{ID: 1, Queue: "q000", Kind: "k", At: time.Now(), Error: "boom 1"}}, nil
}

// However many queues complete jobs, a look reads the times of only a few, each queue in turn.
func (c *counted) Schedules(context.Context, ...string) ([]dibs.Schedule, error) { return nil, nil }

func TestTimesAreReadOfFewQueuesAtOnce(t *testing.T) {
	db := &counted{times: map[string]int{}, hours: map[string]int{}}
	for i := range 300 {
		db.stats = append(db.stats, admin.QueueStats{Queue: fmt.Sprintf("q%03d", i), Completed: 5, Succeeded: 5, Dead: 1})
	}
	db.stats = append(db.stats, admin.QueueStats{Queue: "new", Waiting: 1})
	l := looks{db: db}
	var now look
	for i := range 2 * 300 / timesAtOnce {
		before := db.asked
		var err error
		if now, err = l.ask(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if n := db.asked - before; n > timesAtOnce {
			t.Fatalf("look %d reads the times of %d queues", i, n)
		}
		read := 0
		for _, n := range db.hours {
			read += n
		}
		if want := min((i+1)*hoursAtOnce, len(db.stats)); read != want {
			t.Fatalf("%d looks within a moment read the hours of %d queues, want %d", i+1, read, want)
		}
		for queue, known := range now.times { // make the times look a minute old
			known.at = known.at.Add(-time.Minute)
			now.times[queue] = known
		}
	}
	for _, s := range db.stats[:300] {
		if db.times[s.Queue] != 2 || now.times[s.Queue].Wait.P50 != time.Second {
			t.Errorf("the times of %s were read %d times, and are %v", s.Queue, db.times[s.Queue], now.times[s.Queue])
		}
	}
	want := sparks{Width: 61, Dead: "M60 20v-1h.8v1z", Label: "In the last hour: " + plural(1830, "job") + " in, 900 completed, 0 attempts failed, 1 dead; at most 60 in one minute."}
	got := now.hours["q299"].sparks
	if !strings.HasPrefix(got.Bars, "M1 20v-1h.8v1z") || !strings.HasSuffix(got.Bars, "M60 20v-20h.8v20z") || !strings.HasPrefix(got.Line, "0,20 1,20 ") || !strings.HasSuffix(got.Line, "60,10") {
		t.Errorf("bars %q, line %q", got.Bars, got.Line)
	}
	if got.Bars, got.Line = "", ""; got != want {
		t.Errorf("the last hour of a queue is %+v, want %+v", got, want)
	}
	if db.times["new"] != 0 {
		t.Error("the times of a queue without completed jobs were read")
	}
	if db.failures != 1 {
		t.Errorf("%d looks within a moment read failures %d times", 2*300/timesAtOnce, db.failures)
	}
	if d := now.deaths["q000"]; d.Count != 1 || d.Most != 1 || d.Text != "boom …" {
		t.Errorf("deaths: %+v", d)
	}
}

// A database that takes long to count is asked less often.
func TestSlowLooksAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counted{times: map[string]int{}, hours: map[string]int{}}
		l := looks{db: db}
		for _, step := range []struct {
			takes, pass time.Duration
			asked       int
		}{
			{0, 0, 1},
			{0, 900 * time.Millisecond, 1},
			{3 * time.Second, 200 * time.Millisecond, 2},
			{0, 26 * time.Second, 2},
			{0, 2 * time.Second, 3},
			{0, 2 * time.Second, 4},
		} {
			time.Sleep(step.pass)
			db.takes = step.takes
			if _, err := l.get(t.Context()); err != nil || db.counts != step.asked {
				t.Fatalf("after %+v the database was asked %d times: %v", step, db.counts, err)
			}
		}
	})
}

// A value is made once while it is fresh; an error is not kept as long.
func TestErrorsAreKeptForASecondOnly(t *testing.T) {
	c := cache[int]{fresh: time.Hour, most: 2}
	made := 0
	get := func(key string, err error) {
		_, _ = c.get(key, func() (int, error) { made++; return made, err })
	}
	get("a", nil)
	get("a", nil)
	if made != 1 {
		t.Fatalf("a fresh value was made %d times", made)
	}
	get("b", context.Canceled)
	get("b", nil)
	if made != 2 {
		t.Fatalf("an error was made anew at once")
	}
	c.list["b"].at = c.list["b"].at.Add(-fresh)
	get("b", nil)
	if made != 3 {
		t.Fatal("an error was kept for longer than a second")
	}
}
