package workload

import (
	"context"
	"log/slog"
	"os"
	"strings"
)

// System is a job queue under test.
type System interface {
	// Enqueue returns when the jobs are durable: one, by the call for single jobs, or
	// many, by the fastest one.
	Enqueue(ctx context.Context, jobs []Job) error
	// Work runs handlers until stop is called, which waits for those that run.
	Work(ctx context.Context, w Work) (stop func() error, err error)
	Close()
}

// Work is what a worker is to do.
type Work struct {
	Handlers int
	Started  func(Mail)         // called by each handler; may be nil
	Finished func(group string) // called when a job's completion has been written, by one goroutine
}

// Job is a job to enqueue.
type Job struct {
	Mail     Mail
	Priority int    // 0 to 2, small first
	Group    string // dibs only
}

// Mail is the payload: 100 bytes of JSON, unless it says when it was sent.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Sent    int64  `json:"sent,omitempty"` // Unix nanoseconds
}

// MailKind is the kind of every job.
const MailKind = "mail"

// Letter is the payload of all jobs that do not say when they were sent.
var Letter = Mail{To: "someone@example.com", Subject: "Welcome", Text: strings.Repeat("x", 42)}

// LetterBytes is the size of Letter as JSON.
const LetterBytes = 100

// letters makes n jobs.
func letters(n int) []Job {
	jobs := make([]Job, n)
	for i := range jobs {
		jobs[i].Mail = Letter
	}
	return jobs
}

// Product is how to reach a system.
type Product struct {
	Name string
	// Attach opens the place and makes the tables it lacks. With poll, no LISTEN is used.
	Attach func(ctx context.Context, at Place, pool int, poll bool) (System, error)
}

// Dibs is dibs itself.
var Dibs = Product{Name: "dibs", Attach: attachDibs}

// Warnings is for all systems: what they say in a benchmark is worth seeing.
var Warnings = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
