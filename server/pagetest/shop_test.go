package pagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// shop is a database of a shop, with something of everything that pages show.
type shop struct {
	testing.TB
	admin.Database
	waiting, running, blocked, dead, completed, later int64 // jobs
	// bind is a job that waits for others, split a dead one, and gone was cancelled because of it.
	bind, split, gone int64
}

// furnish fills a database.
func furnish(t testing.TB, db admin.Database) *shop {
	t.Helper()
	s := &shop{TB: t, Database: db}
	s.settings()
	s.mail()
	s.others()
	s.books()
	s.register()
	return s
}

// settings makes queues with limits and rates, groups and schedules.
func (s *shop) settings() {
	yes, two, six := true, 2, 6
	rate := dibs.Rate{N: 3, Per: time.Minute}
	for name, c := range map[string]dibs.QueueChange{
		"mail":     {},
		"invoices": {GroupLimit: &two},
		"images":   {Concurrency: &six},
		"webhooks": {Rate: &rate},
		"reports":  {Paused: &yes},
		"search":   {},
	} {
		_, err := s.ChangeQueue(s.Context(), name, c.Apply)
		s.check(err)
	}
	s.check(s.ChangeGroup(s.Context(), "invoices", "ACME Ltd", dibs.GroupChange{Limit: &two, Rate: &rate}.Apply))
	for _, one := range []dibs.Schedule{
		{Name: "nightly report", Spec: "0 3 * * *", Zone: "Europe/Berlin", Queue: "reports", Kind: "report"},
		{Name: "reindex", Spec: "every 15m", Queue: "search", Kind: "reindex"},
		{Name: "month's end", Spec: "0 6 1 * *", Queue: "invoices", Kind: "close-month", Paused: true},
		{Name: "newsletter/weekly", Spec: "@weekly", Queue: "mail", Kind: "newsletter", Payload: map[string]any{"list": "all"}},
	} {
		_, err := s.SetSchedule(s.Context(), one)
		s.check(err)
	}
}

// mail has jobs in every state.
func (s *shop) mail() {
	var jobs []dibs.NewJob
	for i := range 130 {
		kind := []string{"welcome", "receipt", "password-reset"}[i%3]
		jobs = append(jobs, dibs.NewJob{Queue: "mail", Kind: kind, Payload: map[string]any{"to": fmt.Sprintf("customer-%d@example.com", 4000+i), "locale": "de", "order": 77000 + i}})
	}
	s.enqueue(jobs...)
	s.later = s.enqueue(dibs.NewJob{Queue: "mail", Kind: "reminder", Delay: 26 * time.Hour, UniqueKey: "reminder:4711", Metadata: json.RawMessage(`{"trace":"4bf92f3577b34da6"}`)})
	jobs = jobs[:0]
	for _, j := range s.claim("mail", "web-1:mail", 60) {
		jobs = append(jobs, dibs.NewJob{})
		lease := dibs.Lease{ID: j.ID, Token: j.Token}
		switch len(jobs) % 12 {
		case 3:
			s.finish(lease.Die("smtp: dial tcp 10.0.4.7:25: connect: connection refused"))
			s.dead = j.ID
		case 5:
			s.finish(lease.Retry("smtp: 451 4.3.0 temporary lookup failure"))
		default:
			s.finish(lease.Complete(json.RawMessage(`{"message_id":"<20260101.4711@mail.example.com>"}`)))
			s.completed = j.ID
		}
	}
	s.waiting = s.claim("mail", "web-2:mail", 4)[0].ID
	ended, asked, err := s.Cancel(s.Context(), []int64{s.waiting})
	s.check(err)
	if len(ended) != 0 || len(asked) != 1 {
		s.Fatalf("cancelled %v, asked %v", ended, asked)
	}
	s.waiting = s.enqueue(dibs.NewJob{Queue: "mail", Kind: "welcome", Payload: map[string]any{"to": "ann@example.com", "name": "Änne Müller-Lüdenscheidt"}})
	gone := s.enqueue(dibs.NewJob{Queue: "mail", Kind: "welcome"})
	_, _, err = s.Cancel(s.Context(), []int64{gone})
	s.check(err)
}

// others are queues with groups, progress and what is held up.
func (s *shop) others() {
	for i := range 14 {
		s.blocked = s.enqueue(dibs.NewJob{Queue: "invoices", Kind: "create", Group: []string{"ACME Ltd", "Globex", "Initech"}[i%3], Payload: map[string]int{"order": 77000 + i}})
		s.enqueue(dibs.NewJob{Queue: "images", Kind: "thumbnail", Payload: map[string]any{"path": fmt.Sprintf("uploads/2026/%04d.jpg", i), "sizes": []int{64, 256, 1024}}})
		s.enqueue(dibs.NewJob{Queue: "webhooks", Kind: "deliver", Payload: map[string]string{"url": "https://example.com/hook"}})
		s.enqueue(dibs.NewJob{Queue: "import", Kind: "csv"})
		s.enqueue(dibs.NewJob{Queue: "reports", Kind: "report"})
	}
	s.claim("invoices", "web-1:invoices", 4)
	s.claim("webhooks", "web-2:webhooks", 10)
	for i, j := range s.claim("images", "gpu-1:images", 6) {
		s.running = j.ID
		p := &dibs.Progress{Done: int64(i+1) * 140, Total: 1000, Text: fmt.Sprintf("%d of 1000 tiles", (i+1)*140)}
		_, err := s.Extend(s.Context(), []dibs.Lease{{ID: j.ID, Token: j.Token, Progress: p}}, time.Hour)
		s.check(err)
	}
	_, err := s.RunSchedule(s.Context(), "reindex")
	s.check(err)
}

// books has a flow that runs, and one whose first job has died.
func (s *shop) books() {
	split := dibs.NewJob{Queue: "books", Kind: "split", Ref: "split", Payload: map[string]string{"book": "atlas"}}
	jobs := []dibs.NewJob{split}
	for i := range 12 {
		jobs = append(jobs, dibs.NewJob{Queue: "books", Kind: "chapter", Payload: i + 1, After: []dibs.Dep{{Ref: "split"}}})
	}
	s.gone = s.enqueue(jobs...)
	job := s.claim("books", "web-1:books", 1)[0]
	s.split = job.ID
	s.finish(job.Lease().Die("open atlas.pdf: no such file"))

	jobs = nil
	for i := range 240 {
		jobs = append(jobs, dibs.NewJob{Queue: "books", Kind: "render", Ref: "page", Payload: map[string]any{"book": "novel", "page": i + 1}})
	}
	s.bind = s.enqueue(append(jobs,
		dibs.NewJob{Queue: "mail", Kind: "sorry", After: []dibs.Dep{{Ref: "page", On: dibs.NeedFailed}}},
		dibs.NewJob{Queue: "books", Kind: "clean", After: []dibs.Dep{{Ref: "page", On: dibs.NeedEnded}}},
		dibs.NewJob{Queue: "books", Kind: "bind", Ref: "bind", After: []dibs.Dep{{Ref: "page", On: dibs.NeedEnded}}},
		dibs.NewJob{Queue: "invoices", Kind: "create", After: []dibs.Dep{{Ref: "bind"}}})...) - 1
	for i, job := range s.claim("books", "web-1:books", 180) {
		switch {
		case i < 2:
			s.finish(job.Lease().Die("no ink"))
		case i < 172:
			s.finish(job.Lease().Complete(nil))
		}
	}
}

// register has workers work queues.
func (s *shop) register() {
	for _, c := range []admin.Change{
		{Who: "ann", Did: "pause", What: "queue reports", N: 1},
		{Who: "night-shift", Did: "requeue", What: "jobs 3117, 3118, 3121", N: 3},
		{Who: "ann", Did: "change", What: "queue webhooks: rate 0 to 100/min, burst 0 to 20", N: 2},
		{Did: "run now", What: "schedule newsletter/weekly", N: 1},
	} {
		s.check(s.NoteChange(s.Context(), c))
	}
	for i, w := range []dibs.WorkerInfo{
		{Name: "web-1:mail", Host: "web-1", Queues: []string{"mail", "invoices"}, Concurrency: 20},
		{Name: "web-2:mail", Host: "web-2", Queues: []string{"mail", "webhooks"}, Kinds: []string{"welcome", "receipt", "deliver"}, Concurrency: 20},
		{Name: "gpu-1:images", Host: "gpu-1", Queues: []string{"images"}, Kinds: []string{"thumbnail"}, Concurrency: 8},
		{Name: "search-1", Host: "search-1", Queues: []string{"search"}, Concurrency: 2, State: dibs.WorkerStopping},
	} {
		w.ID, w.PID, w.Version = dibs.Token{byte(i + 1)}, 4000+i, "v1.4.0"
		if w.State == "" {
			w.State = dibs.WorkerWorking
		}
		s.check(s.Register(s.Context(), w))
	}
}

func (s *shop) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// enqueue enqueues jobs and returns the id of the last one.
func (s *shop) enqueue(jobs ...dibs.NewJob) int64 {
	s.Helper()
	made, err := s.Enqueue(s.Context(), jobs)
	s.check(err)
	return made[len(made)-1].ID
}

func (s *shop) claim(queue, worker string, n int) []*dibs.RawJob {
	s.Helper()
	jobs, err := s.Claim(s.Context(), dibs.ClaimRequest{Queue: queue, Worker: worker, N: n, Lease: time.Hour})
	s.check(err)
	if len(jobs) == 0 {
		s.Fatalf("nothing to claim from %s", queue)
	}
	return jobs
}

func (s *shop) finish(o dibs.Outcome) {
	s.Helper()
	s.check(s.Finish(context.WithoutCancel(s.Context()), []dibs.Outcome{o}))
}

// pages are all pages by their paths.
func (s *shop) pages() []string {
	list := []string{
		"/", "/failures", "/failures?queue=mail", "/groups?queue=invoices", "/groups?queue=mail", "/workers", "/schedules", "/changes", "/keys", "/login",
		"/queues/mail", "/queues/mail?state=dead", "/queues/mail?state=completed", "/queues/mail?state=running&kind=receipt", "/queues/mail?state=dead&error=refused&since=2h", "/queues/mail?payload=none", "/queues/invoices", "/queues/images", "/queues/webhooks",
		"/queues/reports", "/queues/import", "/queues/search", "/queues/books",
	}
	for _, id := range []int64{s.waiting, s.running, s.blocked, s.dead, s.completed, s.later, s.bind, s.split, s.gone} {
		list = append(list, fmt.Sprintf("/jobs/%d", id))
	}
	return list
}
