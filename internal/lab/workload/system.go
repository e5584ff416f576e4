package workload

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"time"
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
	Started  func(Start)        // called by each handler; may be nil
	Finished func(group string) // called by one goroutine, after a job's completion was written
}

// Job is a job to enqueue.
type Job struct {
	Mail     Mail
	Priority int    // 0 to 2; smaller ones run first
	Group    string // dibs only

	// Of a job that comes after others: a name for it, and the name of those that it comes after, which stand before it in
	// the same call. Not all systems have such jobs.
	Ref, After string
}

// Mail is the payload, as JSON. With Sent it is 28 bytes longer.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Sent    int64  `json:"sent,omitempty"` // Unix time in nanoseconds
}

// MailKind is the kind of every job.
const MailKind = "mail"

// Start holds Mail.Sent of a job and when its handler started, as Unix times in nanoseconds.
type Start struct{ Sent, At int64 }

// Start returns what a handler that starts now reports.
func (m Mail) Start() Start { return Start{m.Sent, time.Now().UnixNano()} }

// LetterBytes is the size of the payload of all workloads that name no other size.
const LetterBytes = 100

// Sizes are the sizes of payloads in W1 and W3.
var Sizes = []int{LetterBytes, 1000, 10_000}

// Letter makes a payload without Sent whose JSON has the given number of bytes. Its text is random, since the
// server compresses wide payloads, and always the same.
func Letter(size int) Mail {
	m := Mail{To: "someone@example.com", Subject: "Welcome"}
	around, _ := json.Marshal(m) // cannot fail
	random := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // never fails
	m.Text = base64.RawURLEncoding.EncodeToString(random)[:size-len(around)]
	return m
}

var letter = Letter(LetterBytes)

// letters makes n jobs with the usual payload.
func letters(n int) []Job { return copies(letter, n) }

// copies makes n jobs with one payload.
func copies(m Mail, n int) []Job { return slices.Repeat([]Job{{Mail: m}}, n) }

// Product opens a system.
type Product struct {
	Name string
	// Create creates the tables in an empty place; nil: Attach does that.
	Create func(ctx context.Context, place Place) error
	// Attach opens the place. With noListen it does not use LISTEN.
	Attach func(ctx context.Context, place Place, pool int, noListen bool) (System, error)
}

// Dibs is dibs itself.
var Dibs = Product{Name: "dibs", Create: createDibs, Attach: attachDibs}

// Warnings is the log of all systems: it shows warnings and errors.
var Warnings = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
