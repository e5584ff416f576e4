package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
)

// system is a job queue under test.
type system interface {
	// enqueue returns when the jobs are durable: one, by the call for single jobs, or
	// many, by the fastest one.
	enqueue(ctx context.Context, jobs []job) error
	// work runs handlers until stop is called, which waits for those that run.
	work(ctx context.Context, w work) (stop func() error, err error)
	close()
}

// work is what a worker is to do.
type work struct {
	handlers int
	started  func(mail)         // called by each handler; may be nil
	finished func(group string) // called when a job's completion has been written, by one goroutine
}

type job struct {
	mail     mail
	priority int    // 0 to 2, small first
	group    string // dibs only
}

// mail is the payload: 100 bytes of JSON, unless it says when it was sent.
type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Sent    int64  `json:"sent,omitempty"` // Unix nanoseconds
}

const mailKind = "mail"

// Kind is what River asks for.
func (mail) Kind() string { return mailKind }

var letter = mail{To: "someone@example.com", Subject: "Welcome", Text: strings.Repeat("x", 42)}

// letters makes n jobs.
func letters(n int) []job {
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i].mail = letter
	}
	return jobs
}

// product is how to reach a system.
type product struct {
	name   string
	sqlite bool
	poll   bool // without LISTEN
	// attach opens the database and makes the tables it lacks.
	attach func(ctx context.Context, url string, pool int, poll bool) (system, error)
}

var (
	onPostgres = product{name: "dibs", attach: attachDibs}
	onSQLite   = product{name: "dibs", sqlite: true, attach: attachSQLite}
	asRiver    = product{name: "River", attach: attachRiver}
)

// polling is p without LISTEN.
func polling(p product) product {
	p.poll = true
	return p
}

// warnings is for both systems: what they say in a benchmark is worth seeing.
var warnings = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
