package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Each tick of a schedule enqueues exactly one job, whoever looks after it. Specs, zones and
// missed ticks are computed by internal/ticks, which has tests of its own.
var scheduleCases = []oneCase{
	{"each tick makes one job, however many processes look", eachTickOnce},
	{"a worker looks after schedules", workerTicks},
	{"a schedule is kept as it was set", scheduleKept},
	{"a list of all schedules has no payloads", listWithoutPayloads},
	{"a schedule that breaks a rule is refused", badSchedules},
	{"a replaced schedule keeps its next tick, unless its times have changed", replacedSchedule},
	{"a paused schedule has no ticks", pausedSchedule},
	{"ticks come from the start to the end", startAndEnd},
	{"missed ticks make the jobs that the schedule says", missedTicks},
	{"a tick makes no job while the last one has not ended, if the schedule says so", overlap},
	{"a job of a schedule starts later by its jitter", jitter},
	{"a schedule can be run by hand", runByHand},
	{"a deleted schedule leaves its jobs", deletedSchedule},
	{"a schedule goes on when its queue refuses large payloads", smallerPayloadLimit},
	{"a tick that has come is not lost by a change of the end", endMoved},
	{"ticks of large payloads are made in several transactions", largeTicks},
	{"the schedules of an owner become those of a list", ownersList},
	{"a list that breaks a rule changes nothing", badLists},
	{"changes made at the same time are both made", changesAtOnce},
	{"a call that names queues leaves the schedules of others alone", schedulesOfQueues},
	{"an error of the function that changes one changes nothing", refusedChange},
	{"the function that changes one may call the store, and panic", changeCalls},
}

// setSchedule sets a schedule of which no tick is missed, however slow the machine is, unless
// it says otherwise.
func (t *test) setSchedule(s dibs.Schedule) dibs.Schedule {
	t.Helper()
	if s.Kind == "" {
		s.Kind = "k"
	}
	if s.Missed == "" {
		s.Missed, s.MissedLimit = dibs.MissedAll, dibs.MaxMissed
	}
	got, err := t.db.SetSchedule(t.ctx, s)
	t.must(err)
	return got
}

func (t *test) schedule(name string) dibs.Schedule {
	t.Helper()
	found, err := t.db.Schedules(t.ctx, name)
	t.must(err)
	if len(found) != 1 {
		t.Fatalf("%d schedules %q", len(found), name)
	}
	return found[0]
}

// schedules are all schedules, whole.
func (t *test) schedules() []dibs.Schedule {
	t.Helper()
	list, err := t.db.Schedules(t.ctx)
	t.must(err)
	if len(list) == 0 {
		return nil
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	list, err = t.db.Schedules(t.ctx, names...)
	t.must(err)
	return list
}

func (t *test) changeSchedule(name string, f func(*dibs.Schedule)) dibs.Schedule {
	t.Helper()
	s, err := t.db.ChangeSchedule(t.ctx, name, func(s *dibs.Schedule) error {
		f(s)
		return nil
	})
	t.must(err)
	return s
}

// jobsOf waits until a queue has had n jobs, while it sweeps, and returns all of them in the
// order of their ids.
func (t *test) jobsOf(queue string, n int) []*dibs.RawJob {
	t.Helper()
	var jobs []*dibs.RawJob
	t.waitUntil(fmt.Sprintf("queue %s has %d jobs", queue, n), func() bool {
		t.sweep()
		jobs = t.listAll(queue)
		return len(jobs) >= n
	})
	return inOrder(jobs)
}

func inOrder(jobs []*dibs.RawJob) []*dibs.RawJob {
	slices.SortFunc(jobs, func(a, b *dibs.RawJob) int { return int(a.ID - b.ID) })
	return jobs
}

// expectTicks expects a job for each tick from the first job's on, at an interval.
func expectTicks(t testing.TB, jobs []*dibs.RawJob, name string, every time.Duration) {
	t.Helper()
	for i, j := range jobs {
		if want := jobs[0].Tick.Add(time.Duration(i) * every); j.Schedule != name || !j.Tick.Equal(want) {
			t.Fatalf("the %d-th job is for tick %v of %q, want %v of %q", i, j.Tick, j.Schedule, want, name)
		}
	}
}

func eachTickOnce(t *test) {
	another := t.Another(t)
	s := t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q", Payload: 7, Metadata: json.RawMessage(`{"a": 1}`), Priority: new(3), MaxAttempts: 4, Group: "g"})
	equal(t, "first tick", s.Next, s.Since.Add(time.Second))
	t.waitUntil("four ticks have come", func() bool {
		t.runAtOnce(8, func(i int) error {
			_, err := []admin.Database{t.db, another}[i%2].Sweep(t.ctx)
			return err
		})
		return len(t.list(admin.Filter{Queue: "q"})) >= 4
	})
	jobs := t.jobsOf("q", 4)
	equal(t, "first job's tick", jobs[0].Tick, s.Next)
	expectTicks(t, jobs, "s", time.Second)
	j := jobs[0]
	if string(j.Payload) != "7" || j.Priority != 3 || j.MaxAttempts != 4 || j.Group != "g" || j.Kind != "k" || !j.RunAt.Equal(j.Tick) && j.RunAt.Before(j.Tick) {
		t.Fatalf("the job is %+v", j)
	}
	var metadata map[string]any
	t.must(json.Unmarshal(j.Metadata, &metadata))
	equal(t, "its own metadata", metadata["a"], any(1.0))
	claimed := t.claimOne(dibs.ClaimRequest{Queue: "q"})
	equal(t, "claimed job's schedule", claimed.Schedule, "s")
	equal(t, "claimed job's tick", claimed.Tick, j.Tick)
	last := t.schedule("s")
	jobs = t.jobsOf("q", 1)
	if n := len(jobs); !last.LastTick.Equal(jobs[n-1].Tick) && !last.LastTick.Equal(jobs[max(n-2, 0)].Tick) {
		t.Fatalf("the last tick is %v, the last job's %v", last.LastTick, jobs[n-1].Tick)
	}
	equal(t, "interval to the next tick", last.Next.Sub(last.LastTick), time.Second)
}

func workerTicks(t *test) {
	_, stop := t.db.Wakeups("q")
	defer stop()
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "* * * * * *", Queue: "q"})
	t.waitUntil("three ticks have come by themselves", func() bool { return len(t.list(admin.Filter{Queue: "q"})) >= 3 })
	expectTicks(t, t.jobsOf("q", 3), "s", time.Second)
}

func listWithoutPayloads(t *test) {
	for _, name := range []string{"b", "a", "c"} {
		t.setSchedule(dibs.Schedule{Name: name, Spec: "@daily", Payload: "p" + name, Metadata: json.RawMessage(`{"m":1}`)})
	}
	list, err := t.db.Schedules(t.ctx)
	t.must(err)
	for i, want := range []string{"a", "b", "c"} {
		if s := list[i]; len(list) != 3 || s.Name != want || len(s.Payload.(json.RawMessage)) > 0 || s.Metadata != nil || s.Spec != "@daily" || s.Next.IsZero() {
			t.Errorf("%d: %+v", i, s)
		}
	}
	_, err = t.db.SetSchedule(t.ctx, list[0])
	invalid(t, err, "schedule.payload")
	invalid(t, t.db.SetSchedules(t.ctx, "owner", list[1:]), "schedules[0].payload")
	some, err := t.db.Schedules(t.ctx, "c", "nosuch", "a")
	t.must(err)
	if len(some) != 2 || some[0].Name != "a" || some[1].Name != "c" {
		t.Fatalf("%+v", some)
	}
	for _, s := range some {
		if payload, _ := s.Payload.(json.RawMessage); string(payload) != `"p`+s.Name+`"` || string(s.Metadata) != `{"m":1}` {
			t.Errorf("%s has the payload %s and the metadata %s", s.Name, payload, s.Metadata)
		}
	}
}

func scheduleKept(t *test) {
	start := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	set := dibs.Schedule{
		Name: "b", Spec: " 30 4 * * mon-fri ", Zone: "Europe/Berlin", Queue: "q", Kind: "kind", Payload: json.RawMessage(`{"x":  "<&>"}`),
		Metadata: json.RawMessage(`{ "m":1}`), Priority: new(0), MaxAttempts: 9, Group: "g", Jitter: time.Minute, Missed: dibs.MissedAll,
		SkipOverlap: true, Start: start, End: start.AddDate(1, 0, 0),
		Owner: "not taken", LastJob: 5, LastTick: start, Next: start,
	}
	got := t.setSchedule(set)
	equal(t, "kept", t.schedule("b"), got)
	if got.Owner != "" || got.LastJob != 0 || !got.LastTick.IsZero() || got.Since.IsZero() || got.Next.Before(start) || got.MissedLimit != dibs.DefaultMissedLimit {
		t.Fatalf("the store's fields are %+v", got)
	}
	want := set
	want.Spec, want.MissedLimit = "30 4 * * mon-fri", dibs.DefaultMissedLimit
	want.Owner, want.LastJob, want.LastTick, want.Next, want.Since = "", 0, time.Time{}, got.Next, got.Since
	equal(t, "the rest", got, want)

	_, err := t.db.SetSchedule(t.ctx, dibs.Schedule{Name: "a", Spec: "@daily", Kind: "k"})
	t.must(err)
	plain := t.schedule("a")
	if plain.Queue != dibs.DefaultQueue || plain.Zone != "UTC" || plain.Missed != dibs.MissedOnce || string(plain.Payload.(json.RawMessage)) != "null" || *plain.Priority != dibs.DefaultPriority {
		t.Fatalf("the defaults are %+v", plain)
	}
	equal(t, "names, in order", []string{t.schedules()[0].Name, t.schedules()[1].Name}, []string{"a", "b"})
	next, err := t.db.NextTicks(t.ctx, plain, 3)
	t.must(err)
	equal(t, "next ticks", next, []time.Time{plain.Next, plain.Next.AddDate(0, 0, 1), plain.Next.AddDate(0, 0, 2)})
}

// badFields are changes that make a schedule wrong, by the field that the error names.
var badFields = map[string][]func(*dibs.Schedule){
	"schedule.name": {func(s *dibs.Schedule) { s.Name = "" }, func(s *dibs.Schedule) { s.Name = "a\nb" }},
	"schedule.spec": {
		func(s *dibs.Schedule) { s.Spec = "" },
		func(s *dibs.Schedule) { s.Spec = "every" },
		func(s *dibs.Schedule) { s.Spec = "every 999ms" },
		func(s *dibs.Schedule) { s.Spec = "every 100000h" },
		func(s *dibs.Schedule) { s.Spec = "* * * *" },
		func(s *dibs.Schedule) { s.Spec = "61 * * * *" },
		func(s *dibs.Schedule) { s.Spec = "0 0 30 2 *" },
		func(s *dibs.Schedule) { s.Spec = "TZ=UTC * * * * *" },
		func(s *dibs.Schedule) { s.Spec = "@reboot" },
	},
	"schedule.zone":  {func(s *dibs.Schedule) { s.Zone = "Berlin" }, func(s *dibs.Schedule) { s.Zone = "Local" }, func(s *dibs.Schedule) { s.Zone = "../UTC" }},
	"schedule.kind":  {func(s *dibs.Schedule) { s.Kind = "" }},
	"schedule.queue": {func(s *dibs.Schedule) { s.Queue = "a\x00b" }},
	"schedule.payload": {
		func(s *dibs.Schedule) { s.Payload = json.RawMessage("{") },
		func(s *dibs.Schedule) { s.Payload = make([]int, dibs.MaxPayload) },
	},
	"schedule.metadata": {
		func(s *dibs.Schedule) { s.Metadata = json.RawMessage("[]") },
		func(s *dibs.Schedule) { s.Metadata = json.RawMessage(`{"dibs.schedule":"x"}`) },
		func(s *dibs.Schedule) { s.Metadata = json.RawMessage(`{"a":1, "Dibs\u002eTick":null}`) },
	},
	"schedule.priority":     {func(s *dibs.Schedule) { s.Priority = new(-1) }},
	"schedule.max_attempts": {func(s *dibs.Schedule) { s.MaxAttempts = -1 }},
	"schedule.group":        {func(s *dibs.Schedule) { s.Group = "\x1b" }},
	"schedule.jitter":       {func(s *dibs.Schedule) { s.Jitter = -1 }, func(s *dibs.Schedule) { s.Jitter = 25 * time.Hour }},
	"schedule.missed":       {func(s *dibs.Schedule) { s.Missed = "twice" }},
	"schedule.missed_limit": {
		func(s *dibs.Schedule) { s.MissedLimit = 1 },
		func(s *dibs.Schedule) { s.Missed, s.MissedLimit = dibs.MissedAll, dibs.MaxMissed+1 },
		func(s *dibs.Schedule) { s.Missed, s.MissedLimit = dibs.MissedAll, -1 },
	},
	"schedule.start": {
		func(s *dibs.Schedule) { s.Start = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(s *dibs.Schedule) { s.Start = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC) },
	},
	"schedule.end": {func(s *dibs.Schedule) { s.Start, s.End = time.Now(), time.Now().Add(-time.Hour) }},
}

func badSchedules(t *test) {
	good := dibs.Schedule{Name: "s", Spec: "every 1s", Kind: "k"}
	for field, f := range badFields {
		for _, change := range f {
			s := good
			change(&s)
			_, err := t.db.SetSchedule(t.ctx, s)
			invalid(t, err, field)
		}
	}
	equal(t, "schedules", len(t.schedules()), 0)
	t.setSchedule(good)
	_, err := t.db.ChangeSchedule(t.ctx, "s", func(s *dibs.Schedule) error {
		s.Zone = "nowhere"
		return nil
	})
	invalid(t, err, "schedule.zone")
	equal(t, "zone", t.schedule("s").Zone, "UTC")
	_, err = t.db.ChangeSchedule(t.ctx, "s", nil)
	invalid(t, err, "f")
	for _, n := range []int{0, -1, dibs.MaxNextTicks + 1} {
		_, err = t.db.NextTicks(t.ctx, good, n)
		invalid(t, err, "n")
	}
	_, err = t.db.NextTicks(t.ctx, dibs.Schedule{Spec: "?"}, 1)
	invalid(t, err, "schedule.spec")
	for name, err := range map[string]error{
		"ChangeSchedule": second(t.db.ChangeSchedule(t.ctx, "x", func(*dibs.Schedule) error { return nil })),
		"DeleteSchedule": t.db.DeleteSchedule(t.ctx, "x"),
		"RunSchedule":    second(t.db.RunSchedule(t.ctx, "x")),
	} {
		if !errors.Is(err, dibs.ErrUnknownSchedule) {
			t.Fatalf("%s of a schedule that does not exist gave %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
