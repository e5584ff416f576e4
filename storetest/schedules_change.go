package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

func replacedSchedule(t *test) {
	s := t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1h"})
	again := t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1h", Payload: 2, Queue: "other"})
	equal(t, "next tick", again.Next, s.Next)
	equal(t, "since", again.Since, s.Since)
	equal(t, "queue", t.schedule("s").Queue, "other")
	moved := t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 2h"})
	equal(t, "next tick of another interval", moved.Next, moved.Since.Add(2*time.Hour))
	if !moved.Since.After(s.Since) {
		t.Fatalf("the new interval is counted from %v, the old one from %v", moved.Since, s.Since)
	}
	renamed := t.changeSchedule("s", func(s *dibs.Schedule) { s.Name, s.Payload = "r", 3 })
	equal(t, "name", renamed.Name, "s")
	equal(t, "schedules", len(t.schedules()), 1)
}

func pausedSchedule(t *test) {
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q"})
	t.jobsOf("q", 1)
	paused := t.changeSchedule("s", func(s *dibs.Schedule) { s.Paused = true })
	if !paused.Next.IsZero() {
		t.Fatalf("the next tick of a paused schedule is %v", paused.Next)
	}
	before := len(t.jobsOf("q", 1))
	t.waitUntilTime(paused.LastTick.Add(3 * time.Second))
	t.sweep()
	equal(t, "jobs after the pause", len(t.listAll("q")), before)
	resumed := t.changeSchedule("s", func(s *dibs.Schedule) { s.Paused = false })
	jobs := t.jobsOf("q", before+1)
	equal(t, "first tick after the pause", jobs[before].Tick, resumed.Next)
	if rest := resumed.Next.Sub(resumed.Since) % time.Second; rest != 0 {
		t.Fatalf("the ticks are %v off since the pause", rest)
	}
}

// startSoon sets a schedule with a start and an end, whose first tick is its start.
func (t *test) startSoon(spec string, lasts time.Duration) (s dibs.Schedule) {
	t.Helper()
	for s.Start.IsZero() || s.Next.After(s.Start) { // on a slow machine the start may have passed
		start := time.Now().UTC().Truncate(time.Second).Add(2 * time.Second)
		s = t.setSchedule(dibs.Schedule{Name: "s", Spec: spec, Queue: "q", Start: start, End: start.Add(lasts)})
	}
	equal(t, "first tick", s.Next, s.Start)
	return s
}

func startAndEnd(t *test) {
	start := t.startSoon("every 1s", 2*time.Second).Start
	t.waitUntil("the last tick has passed", func() bool {
		t.sweep()
		return t.schedule("s").Next.IsZero()
	})
	jobs := t.jobsOf("q", 3)
	equal(t, "jobs", len(jobs), 3)
	equal(t, "first tick", jobs[0].Tick, start)
	expectTicks(t, jobs, "s", time.Second)
}

// missedTicks lets more time pass without a sweep than a tick may be late.
func missedTicks(t *test) {
	for _, s := range []dibs.Schedule{{Missed: dibs.MissedOnce}, {Missed: dibs.MissedSkip}, {Missed: dibs.MissedAll, MissedLimit: dibs.MaxMissed}} {
		s.Name, s.Queue, s.Spec = string(s.Missed), string(s.Missed), "every 1s"
		t.setSchedule(s)
	}
	t.setSchedule(dibs.Schedule{Name: "few", Spec: "every 1s", Queue: "few", Missed: dibs.MissedAll, MissedLimit: 2})
	first := t.schedule("all").Next
	t.waitUntilTime(first.Add(12 * time.Second))
	first = first.Add(-t.passed)
	t.sweep()
	last := t.schedule("all").LastTick
	n := map[string]int{}
	for _, name := range []string{"once", "skip", "all", "few"} {
		jobs := inOrder(t.listAll(name))
		n[name] = len(jobs)
		expectTicks(t, jobs, name, time.Second)
		equal(t, "tick of the last job of "+name, jobs[len(jobs)-1].Tick, t.schedule(name).LastTick)
	}
	equal(t, "first of all ticks", inOrder(t.listAll("all"))[0].Tick, first)
	equal(t, "jobs for all ticks", n["all"], int(last.Sub(first)/time.Second)+1)
	equal(t, "jobs for the latest two", n["few"], 2)
	equal(t, "jobs once", n["once"], 1)
	if n["skip"] < 10 || n["skip"] > 11 { // ticks that are at most 10 s late are not missed
		t.Fatalf("%d jobs for ticks that were not missed", n["skip"])
	}
}

func overlap(t *test) {
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q", SkipOverlap: true})
	first := t.jobsOf("q", 1)[0]
	j := t.claimOne(dibs.ClaimRequest{Queue: "q"})
	t.waitUntilTime(first.Tick.Add(3 * time.Second))
	equal(t, "jobs while the first one runs", len(t.jobsOf("q", 1)), 1)
	t.finish(j.Lease().Complete(nil))
	e, err := t.db.RunSchedule(t.ctx, "s") // a run by hand does not count as a tick
	t.must(err)
	t.finish(t.claimOne(dibs.ClaimRequest{Queue: "q"}).Lease().Complete(nil))
	next := t.jobsOf("q", 3)[2]
	if after := next.Tick.Add(t.passed).Sub(first.Tick); next.ID <= e.ID || after < 3*time.Second {
		t.Fatalf("the next job is for the tick %v after the first one's", after)
	}
	equal(t, "last job", t.schedule("s").LastJob, next.ID)
}

func jitter(t *test) {
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q", Jitter: time.Hour})
	for _, j := range t.jobsOf("q", 2) {
		if late := j.RunAt.Sub(j.Tick); late < 0 || late > time.Hour+10*time.Minute { // a late tick's job starts at once
			t.Fatalf("the job starts %v after its tick", late)
		}
	}
}

func runByHand(t *test) {
	s := t.setSchedule(dibs.Schedule{Name: "s", Spec: "@yearly", Queue: "q", Payload: 5, Paused: true})
	e, err := t.db.RunSchedule(t.ctx, "s")
	t.must(err)
	j := t.claimOne(dibs.ClaimRequest{Queue: "q"})
	equal(t, "job", j.ID, e.ID)
	equal(t, "its schedule", j.Schedule, "s")
	equal(t, "its payload", string(j.Payload), "5")
	if !j.Tick.IsZero() {
		t.Fatalf("it is for the tick %v", j.Tick)
	}
	after := t.schedule("s")
	equal(t, "last job of a tick", after.LastJob, int64(0))
	if !after.Paused || !after.Next.Equal(s.Next) || !after.LastTick.IsZero() {
		t.Fatalf("the schedule has changed: %+v", after)
	}
}

func deletedSchedule(t *test) {
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q"})
	jobs := t.jobsOf("q", 1)
	t.must(t.db.DeleteSchedule(t.ctx, "s"))
	equal(t, "schedules", len(t.schedules()), 0)
	n := len(t.jobsOf("q", 1))
	t.waitUntilTime(jobs[0].Tick.Add(3 * time.Second))
	t.sweep()
	equal(t, "jobs", len(t.listAll("q")), n)
}

func smallerPayloadLimit(t *test) {
	t.setSchedule(dibs.Schedule{Name: "large", Spec: "every 1s", Queue: "q", Payload: strings.Repeat("x", 1000)})
	t.setSchedule(dibs.Schedule{Name: "small", Spec: "every 1s", Queue: "r"})
	t.set("q", dibs.QueueChange{PayloadLimit: new(10)})
	t.jobsOf("q", 2)
	t.jobsOf("r", 2)
	_, err := t.db.SetSchedule(t.ctx, dibs.Schedule{Name: "new", Kind: "k", Spec: "every 1s", Queue: "q", Payload: strings.Repeat("x", 1000)})
	invalid(t, err, "schedule.payload")
	t.changeSchedule("large", func(s *dibs.Schedule) { s.Paused = true }) // its payload is not new
	_, err = t.db.ChangeSchedule(t.ctx, "small", func(s *dibs.Schedule) error {
		s.Payload = strings.Repeat("y", dibs.MaxPayload)
		return nil
	})
	invalid(t, err, "schedule.payload")
}

// endMoved changes the end of a schedule whose tick has come while nobody looked.
func endMoved(t *test) {
	t.inRealTime() // a schedule's start and end are as they were set
	s := t.startSoon("every 1h", 1000*time.Hour)
	t.waitUntilTime(s.Next.Add(100 * time.Millisecond))
	moved := t.changeSchedule("s", func(s *dibs.Schedule) { s.End = s.Next.Add(100 * time.Hour) })
	equal(t, "next tick", moved.Next, s.Next)
	equal(t, "since", moved.Since, s.Since)
	equal(t, "tick of the job", t.jobsOf("q", 1)[0].Tick, s.Next)
	ended := t.changeSchedule("s", func(s *dibs.Schedule) { s.End = s.Start })
	if !ended.Next.IsZero() {
		t.Fatalf("after its end comes %v", ended.Next)
	}
	again := t.changeSchedule("s", func(s *dibs.Schedule) { s.End = time.Time{} })
	equal(t, "next tick without an end", again.Next, s.Next.Add(time.Hour))
}

// largeTicks misses more than one transaction may make.
func largeTicks(t *test) {
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q", Payload: strings.Repeat("x", dibs.MaxPayload-2)})
	first := t.schedule("s").Next
	t.waitUntilTime(first.Add(12 * time.Second))
	first = first.Add(-t.passed)
	jobs := t.jobsOf("q", 12)
	equal(t, "first tick", jobs[0].Tick, first)
	expectTicks(t, jobs, "s", time.Second)
}

func ownersList(t *test) {
	list := func(names ...string) (list []dibs.Schedule) {
		for _, n := range names {
			list = append(list, dibs.Schedule{Name: n, Spec: "every 1h", Kind: "k"})
		}
		return list
	}
	names := func() (all []string) {
		for _, s := range t.schedules() {
			all = append(all, s.Name+" of "+s.Owner)
		}
		return all
	}
	t.setSchedule(dibs.Schedule{Name: "hand", Spec: "every 1h"})
	t.must(t.db.SetSchedules(t.ctx, "shop", list("a", "b")))
	t.must(t.db.SetSchedules(t.ctx, "mail", list("c")))
	equal(t, "schedules", names(), []string{"a of shop", "b of shop", "c of mail", "hand of "})
	before := t.schedule("b")
	t.changeSchedule("b", func(s *dibs.Schedule) { s.Paused = true })
	next := list("b", "d")
	next[0].Payload = 7
	t.must(t.db.SetSchedules(t.ctx, "shop", next))
	equal(t, "schedules", names(), []string{"b of shop", "c of mail", "d of shop", "hand of "})
	b := t.schedule("b")
	if !b.Paused || string(b.Payload.(json.RawMessage)) != "7" || !b.Since.Equal(before.Since) {
		t.Fatalf("b is %+v", b)
	}
	d := t.schedule("d")
	t.must(t.db.SetSchedules(t.ctx, "shop", next))
	equal(t, "next tick of what stays", t.schedule("d").Next, d.Next)
	t.must(t.db.SetSchedules(t.ctx, "shop", nil))
	equal(t, "schedules", names(), []string{"c of mail", "hand of "})
}

func badLists(t *test) {
	t.setSchedule(dibs.Schedule{Name: "hand", Spec: "every 1h"})
	t.must(t.db.SetSchedules(t.ctx, "shop", []dibs.Schedule{{Name: "a", Spec: "every 1h", Kind: "k"}}))
	good := dibs.Schedule{Name: "g", Spec: "every 1h", Kind: "k"}
	for field, bad := range map[string]dibs.Schedule{
		"schedules[1].spec": {Name: "x", Spec: "no", Kind: "k"},
		"schedules[1].kind": {Name: "x", Spec: "every 1h"},
	} {
		invalid(t, t.db.SetSchedules(t.ctx, "shop", []dibs.Schedule{good, bad}), field)
	}
	for _, name := range []string{"g", "hand", "a"} { // a name that is listed twice, one without an owner, and one of another owner
		bad := good
		bad.Name = name
		invalid(t, t.db.SetSchedules(t.ctx, "mail", []dibs.Schedule{good, bad}), "schedules[1].name")
	}
	invalid(t, t.db.SetSchedules(t.ctx, "", nil), "owner")
	equal(t, "schedules", len(t.schedules()), 2)
}

// changesAtOnce has many change one schedule, while its ticks do too.
func changesAtOnce(t *test) {
	another := t.Another(t)
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q", Payload: 0})
	const n = 24
	t.runAtOnce(n, func(i int) error {
		_, err := []admin.Database{t.db, another}[i%2].ChangeSchedule(t.ctx, "s", func(s *dibs.Schedule) error {
			var count int
			err := json.Unmarshal(s.Payload.(json.RawMessage), &count)
			s.Payload = count + 1
			return err
		})
		return err
	})
	equal(t, "changes", string(t.schedule("s").Payload.(json.RawMessage)), fmt.Sprint(n))
	expectTicks(t, t.jobsOf("q", 2), "s", time.Second)
	lists := map[string]string{"a": "x", "b": "y"}
	t.runAtOnce(8, func(i int) error {
		owner := []string{"a", "b"}[i%2]
		return []admin.Database{t.db, another}[i/2%2].SetSchedules(t.ctx, owner, []dibs.Schedule{{Name: lists[owner], Spec: "every 1h", Kind: "k", Payload: i}})
	})
	equal(t, "schedules", len(t.schedules()), 3)
}

// changeCalls has the function that changes a schedule call the store, and panic.
func changeCalls(t *test) {
	t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1h", Queue: "q"})
	t.changeSchedule("s", func(s *dibs.Schedule) { s.MaxAttempts = int(t.enqueue(dibs.NewJob{Kind: "k"})[0]) })
	equal(t, "attempts", t.schedule("s").MaxAttempts, 1)
	func() {
		defer func() { equal(t, "recovered", recover(), any("oops")) }()
		t.changeSchedule("s", func(*dibs.Schedule) { panic("oops") })
	}()
	t.changeSchedule("s", func(s *dibs.Schedule) { s.MaxAttempts = 7 })
	equal(t, "attempts", t.schedule("s").MaxAttempts, 7)
}

// schedulesOfQueues makes calls that name other queues than the schedule's, and then its own queue.
func schedulesOfQueues(t *test) {
	old := t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1h", Queue: "q"})
	unknown := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, dibs.ErrUnknownSchedule) {
			t.Fatalf("%s for other queues gave %v", call, err)
		}
	}
	next := dibs.Schedule{Name: "s", Spec: "every 2h", Queue: "r", Kind: "k"}
	for _, queues := range [][]string{{}, {"r"}, {"r", "Q"}} {
		unknown("SetSchedule", second(t.db.SetSchedule(t.ctx, next, queues...)))
		unknown("RunSchedule", second(t.db.RunSchedule(t.ctx, "s", queues...)))
		unknown("DeleteSchedule", t.db.DeleteSchedule(t.ctx, "s", queues...))
	}
	equal(t, "schedule", t.schedule("s"), old)
	equal(t, "jobs", len(t.listAll("q"))+len(t.listAll("r")), 0)
	t.must(second(t.db.RunSchedule(t.ctx, "s", "r", "q")))
	equal(t, "jobs", len(t.listAll("q")), 1)
	t.must(second(t.db.SetSchedule(t.ctx, next, "q")))
	equal(t, "queue", t.schedule("s").Queue, "r")
	t.must(t.db.DeleteSchedule(t.ctx, "s", "r"))
	unknown("RunSchedule", second(t.db.RunSchedule(t.ctx, "s", "r")))
	t.must(second(t.db.SetSchedule(t.ctx, next, "r"))) // the name is free
}

func refusedChange(t *test) {
	old := t.setSchedule(dibs.Schedule{Name: "s", Spec: "every 1h", Queue: "q"})
	refused := errors.New("refused")
	_, err := t.db.ChangeSchedule(t.ctx, "s", func(s *dibs.Schedule) error {
		s.Paused = true
		return refused
	})
	if any(err) != any(refused) { // it is returned as it is
		t.Fatalf("the change gave %v", err)
	}
	equal(t, "schedule", t.schedule("s"), old)
}
