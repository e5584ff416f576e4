package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/mail"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
)

// The kinds of jobs, each with the type of its payload.
var (
	welcome = dibs.NewKind[Welcome]("welcome", dibs.KindOptions{Queue: "emails", MaxAttempts: 10, Timeout: time.Minute})
	digest  = dibs.NewKind[Digest]("digest", dibs.KindOptions{Queue: "emails"})
)

// Welcome is the payload of a welcome.
type Welcome struct {
	To string `json:"to"`
}

// Digest is the payload of the daily email that says how many users there are.
type Digest struct {
	To string `json:"to"`
}

// service has its users and its jobs in one database.
type service struct {
	jobs store
	db   *sql.DB
	send func(ctx context.Context, to, text string) error
}

// store is what the service needs of dibs: those on SQLite and PostgreSQL have it.
type store interface {
	dibs.Database
	SQLTx(tx dibs.SQLTx) dibs.Tx
}

// start makes the service's table, sets its queue's rate and its schedules: those that it had
// before, but no longer has, go.
func (s *service) start(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, "create table if not exists users (email text primary key)"); err != nil {
		return err
	}
	tenASecond := dibs.Rate{N: 10, Per: time.Second} // what the mail server takes from all processes together
	if _, err := s.jobs.ChangeQueue(ctx, "emails", dibs.QueueChange{Rate: &tenASecond}.Apply); err != nil {
		return err
	}
	return s.jobs.SetSchedules(ctx, "service", []dibs.Schedule{
		digest.Schedule("digest", "0 8 * * mon-fri", Digest{To: "boss@example.com"}),
	})
}

// worker handles the jobs.
func (s *service) worker() *dibs.Worker {
	w := &dibs.Worker{
		Store:        s.jobs,
		Queue:        "emails",
		Concurrency:  20,
		ShutdownWait: 20 * time.Second, // all ends 5 s after that: give the process 30
	}
	welcome.Handle(w, func(ctx context.Context, job *dibs.Job[Welcome]) error {
		if err := s.send(ctx, job.Payload.To, "Welcome!"); err != nil {
			return err // run again later
		}
		return job.SetResult("sent")
	})
	digest.Handle(w, func(ctx context.Context, job *dibs.Job[Digest]) error {
		var users int
		if err := s.db.QueryRowContext(ctx, "select count(*) from users").Scan(&users); err != nil {
			return err
		}
		return s.send(ctx, job.Payload.To, fmt.Sprint(users, " users"))
	})
	return w
}

// routes are the pages of the service.
func (s *service) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /users", s.postUser)
	mux.HandleFunc("GET /jobs/{id}", s.getJob)
	return mux
}

func (s *service) postUser(w http.ResponseWriter, r *http.Request) {
	address, err := mail.ParseAddress(r.FormValue("email"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch job, err := s.signUp(r.Context(), address.Address); {
	case errors.Is(err, errKnown):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		slog.Error("a sign-up failed", "error", err)
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Location", fmt.Sprintf("/jobs/%d", job))
		w.WriteHeader(http.StatusAccepted)
	}
}

var errKnown = errors.New("this user exists already")

// signUp stores a user and enqueues the welcome, or does neither.
func (s *service) signUp(ctx context.Context, email string) (job int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing after the commit
	done, err := tx.ExecContext(ctx, "insert into users (email) values ($1) on conflict do nothing", email)
	if err != nil {
		return 0, err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return 0, errors.Join(err, errKnown)
	}
	jobs := s.jobs.SQLTx(tx)
	enqueued, err := welcome.Enqueue(ctx, jobs, Welcome{To: email})
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	jobs.Wake() // so that no worker has to find it by polling
	return enqueued.ID, nil
}

// getJob shows how a user's welcome is getting on. The queue may share its database with other
// programs, whose jobs are not to be seen here.
func (s *service) getJob(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	job, err := s.jobs.Get(r.Context(), id)
	switch {
	case errors.Is(err, dibs.ErrNotFound), errors.Is(err, dibs.ErrInvalid):
		http.NotFound(w, r)
	case err != nil:
		slog.Error("a job cannot be read", "error", err)
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	case job.Queue != "emails" || job.Kind != welcome.Name():
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"state": job.State, "result": job.Result}) // the client may be gone
	}
}
