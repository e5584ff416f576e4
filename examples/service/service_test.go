package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/dibstest"
	"github.com/dibs-queue/dibs/sqlite"
)

// served is the service over HTTP, on a database of the test's own; emails are kept.
type served struct {
	*testing.T
	*service
	queue *sqlite.Store
	url   string

	mu   sync.Mutex // emails are sent side by side: it guards what follows
	sent []string
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{T: t, queue: dibstest.Store(t)}
	s.service = &service{jobs: s.queue, db: s.queue.DB(), send: func(_ context.Context, to, text string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, to+": "+text)
		return nil
	}}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.routes())
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// signs signs a user up, and returns where the job is to be seen.
func (s *served) signs(email string, want int) (location string) {
	s.Helper()
	answer, err := http.PostForm(s.url+"/users", url.Values{"email": {email}})
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		s.Fatalf("signing %q up gave %s, want %d", email, answer.Status, want)
	}
	return answer.Header.Get("Location")
}

// get is the answer at a path.
func (s *served) get(path string, want int) string {
	s.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		s.Fatalf("%s gave %s %s, %v, want %d", path, answer.Status, text, err, want)
	}
	return strings.TrimSpace(string(text))
}

func TestARequestBecomesAJobThatIsWorked(t *testing.T) {
	s := serve(t)
	job := s.signs("ann@example.com", http.StatusAccepted)
	dibstest.RequireEnqueued(t, s.queue, dibstest.Want{Queue: "emails", Kind: "welcome", Payload: Welcome{To: "ann@example.com"}})
	if got := s.get(job, http.StatusOK); got != `{"result":null,"state":"waiting"}` {
		t.Errorf("before, the job is %s", got)
	}

	dibstest.Drain(t, s.worker())

	if !slices.Equal(s.sent, []string{"ann@example.com: Welcome!"}) {
		t.Errorf("sent %q", s.sent)
	}
	if got := s.get(job, http.StatusOK); got != `{"result":"sent","state":"completed"}` {
		t.Errorf("afterwards, the job is %s", got)
	}
}

func TestAUserSignsUpOnce(t *testing.T) {
	s := serve(t)
	s.signs("ann@example.com", http.StatusAccepted)
	s.signs("ann@example.com", http.StatusConflict)
	s.signs("no address", http.StatusBadRequest)
	dibstest.RequireEnqueued(t, s.queue, dibstest.Want{Kind: "welcome"})
}

// Without its job there is no user: who signs up again gets both.
func TestNoUserIsStoredWithoutTheWelcome(t *testing.T) {
	s := serve(t)
	fails := true
	s.queue.Use(func(next dibs.EnqueueFunc) dibs.EnqueueFunc {
		return func(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
			done, err := next(ctx, jobs)
			if fails {
				err = errors.New("the connection is lost")
			}
			return done, err
		}
	})
	s.signs("ann@example.com", http.StatusServiceUnavailable)
	dibstest.NotEnqueued(t, s.queue, dibstest.Want{Kind: "welcome"})
	fails = false
	s.signs("ann@example.com", http.StatusAccepted)
}

func TestAnEmailThatFailsIsSentLater(t *testing.T) {
	s := serve(t)
	job := s.signs("ann@example.com", http.StatusAccepted)
	send := s.send
	s.send = func(context.Context, string, string) error { return errors.New("mail server busy") }
	dibstest.Drain(t, s.worker())
	if got := s.get(job, http.StatusOK); !strings.Contains(got, `"waiting"`) {
		t.Errorf("the job is %s", got)
	}
	s.send = send
	dibstest.Advance(t, s.queue, time.Hour)
	dibstest.Drain(t, s.worker())
	sent := slices.DeleteFunc(s.sent, func(sent string) bool { return strings.HasPrefix(sent, "boss@example.com: ") }) // the digest may have come in that hour
	if len(sent) != 1 {
		t.Errorf("sent %q", s.sent)
	}
}

func TestTheDigestCounts(t *testing.T) {
	s := serve(t)
	s.signs("ann@example.com", http.StatusAccepted)
	dibstest.Drain(t, s.worker())
	s.sent = nil
	dibstest.Advance(t, s.queue, 4*24*time.Hour) // over a weekend
	dibstest.Drain(t, s.worker())
	if !slices.Contains(s.sent, "boss@example.com: 1 users") {
		t.Errorf("sent %q", s.sent)
	}
}

func TestNoMoreThanTenEmailsStartInASecond(t *testing.T) {
	s := serve(t)
	for i := range 13 {
		s.signs(fmt.Sprintf("user%d@example.com", i), http.StatusAccepted)
	}
	var starts []time.Time // on the database's clock, as the rate
	for _, a := range dibstest.Drain(t, s.worker()) {
		starts = append(starts, a.Job.ClaimedAt)
	}
	slices.SortFunc(starts, time.Time.Compare)
	if len(starts) != 13 {
		t.Fatalf("%d emails started, want 13", len(starts))
	}
	for i := range starts[10:] {
		if took := starts[i+10].Sub(starts[i]); took < time.Second {
			t.Errorf("11 emails started within %v", took)
		}
	}
}

// Other programs may have queues in the same database, and this one has jobs for its own use.
func TestJobsThatNoUserHasCausedAreNotShown(t *testing.T) {
	s := serve(t)
	others, err := s.queue.Enqueue(t.Context(), []dibs.NewJob{
		{Queue: "payroll", Kind: "welcome"},
		{Queue: "emails", Kind: "payslip"},
		digest.New(Digest{To: "boss@example.com"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range others {
		s.get(fmt.Sprint("/jobs/", job.ID), http.StatusNotFound)
	}
}

func TestAJobThatThereIsNotIsNotFound(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/jobs/7", "/jobs/0", "/jobs/-1", "/jobs/x"} {
		s.get(path, http.StatusNotFound)
	}
}
