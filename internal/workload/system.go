package workload

import (
	"context"
	"log/slog"
	"os"
	"strings"
)

// System is a job queue under test.
type System interface {
	// Enqueue returns when the jobs are durable. It uses the system's call for single jobs,
	// or for many jobs its fastest call.
	Enqueue(ctx context.Context, jobs []Job) error
	// Work runs handlers until stop is called, which waits for the running ones.
	Work(ctx context.Context, w Work) (stop func() error, err error)
	Close()
}

// Work configures a worker.
type Work struct {
	Handlers int
	Started  func(Mail)         // called by each handler; may be nil
	Finished func(group string) // called by one goroutine, after a job's completion was written
}

// Job is a job to enqueue.
type Job struct {
	Mail     Mail
	Priority int    // 0 to 2; smaller ones run first
	Group    string // dibs only
}

// Mail is the payload: 100 bytes of JSON, or more with Sent.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Sent    int64  `json:"sent,omitempty"` // Unix time in nanoseconds
}

// MailKind is the kind of every job.
const MailKind = "mail"

// Letter is the payload of all jobs without Sent.
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

// Product opens a system.
type Product struct {
	Name string
	// Attach opens the place and creates missing tables. With noListen it does not use LISTEN.
	Attach func(ctx context.Context, place Place, pool int, noListen bool) (System, error)
}

// Dibs is dibs itself.
var Dibs = Product{Name: "dibs", Attach: attachDibs}

// Warnings is the log of all systems: it shows warnings and errors.
var Warnings = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
