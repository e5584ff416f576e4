package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// watched counts the calls to a database, and lets tests step between.
type watched struct {
	admin.Database
	claims, looks, searches, sweeps atomic.Int64
	claim                           func(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) // called instead of the database's Claim, unless nil
}

func (w *watched) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	w.claims.Add(1)
	if w.claim != nil {
		return w.claim(ctx, r)
	}
	return w.Database.Claim(ctx, r)
}

func (w *watched) Due(ctx context.Context, queues, kinds []string) ([]string, error) {
	if kinds == nil {
		w.looks.Add(1)
	} else {
		w.searches.Add(1)
	}
	return w.Database.Due(ctx, queues, kinds)
}

func (w *watched) Sweep(ctx context.Context) (dibs.Swept, error) {
	w.sweeps.Add(1)
	return w.Database.Sweep(ctx)
}

// jobsOf is the jobs of the answer to a claim.
func jobsOf(t testing.TB, status int, body []byte) []*dibs.RawJob {
	t.Helper()
	var a struct{ Jobs []*dibs.RawJob }
	if err := json.Unmarshal(body, &a); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return a.Jobs
}

// claimAs claims by a request, and returns the channel of the answer.
func claimAs(t *testing.T, s http.Handler, body string) <-chan *httptest.ResponseRecorder {
	return claimIn(t.Context(), s, body)
}

// claimIn claims by a request, and by another as often as a minute's wait has ended without a job: on a slow machine the
// other clients of a test may not all be there by then.
func claimIn(ctx context.Context, s http.Handler, body string) <-chan *httptest.ResponseRecorder {
	answer := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		for {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/claim", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			began := time.Now()
			if s.ServeHTTP(w, r); ctx.Err() != nil || time.Since(began) < time.Minute || w.Body.String() != noJobs {
				answer <- w
				return
			}
		}
	}()
	return answer
}

const noJobs = `{"jobs":[]}` + "\n" // the answer of a claim

func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

// until waits until something is so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v until %s", patience, what)
		}
	}
}

func enqueue(t testing.TB, db admin.Database, jobs ...dibs.NewJob) []int64 {
	t.Helper()
	got, err := db.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(got))
	for i, e := range got {
		ids[i] = e.ID
	}
	return ids
}

func closing(t *testing.T, s *server.Server) *server.Server {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAHundredWaitingClientsCostNoStatementEach(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	clients := 100
	if needs.AtNight() {
		clients = 1000
	}
	onDatabases(t, func(t *testing.T, db admin.Database) {
		w := &watched{Database: db}
		s := closing(t, server.New(w, server.Options{}))
		var answers []<-chan *httptest.ResponseRecorder
		for i := range clients {
			answers = append(answers, claimAs(t, s, fmt.Sprintf(`{"worker":"w%d","wait":60,"lease":3600}`, i)))
		}
		until(t, "all wait", func() bool { return s.Waiting() == clients && s.Busy() == 0 })
		looks := w.looks.Load()
		until(t, "the server has looked three times", func() bool { return w.looks.Load() >= looks+3 })
		if n := w.claims.Load(); n > 20 {
			t.Errorf("%d claims for %d clients of which all wait", n, clients)
		}
		jobs := make([]dibs.NewJob, clients)
		for i := range jobs {
			jobs[i].Kind = "k"
		}
		enqueue(t, db, jobs...)
		seen := map[int64]bool{}
		for _, a := range answers {
			r := await(t, a, "an answer")
			for _, j := range jobsOf(t, r.Code, r.Body.Bytes()) {
				seen[j.ID] = true
			}
		}
		if len(seen) != clients {
			t.Errorf("%d clients got %d jobs", clients, len(seen))
		}
	})
}

func TestClientsAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		w := &watched{Database: db}
		s := closing(t, server.New(w, server.Options{}))
		var answers []<-chan *httptest.ResponseRecorder
		for i := range 5 {
			kinds := ""
			if i == 0 {
				kinds = `"kinds":["other"],`
			}
			answers = append(answers, claimAs(t, s, fmt.Sprintf(`{"worker":"w%d",%s"wait":60}`, i, kinds)))
			until(t, "it waits", func() bool { return w.claims.Load() > 0 && s.Waiting() == i+1 && s.Busy() == 0 })
		}
		for i := 1; i < 5; i++ {
			id := enqueue(t, db, dibs.NewJob{Kind: "k"})[0]
			r := await(t, answers[i], "the answer to the one that waits longest")
			if jobs := jobsOf(t, r.Code, r.Body.Bytes()); len(jobs) != 1 || jobs[0].ID != id || jobs[0].Worker != fmt.Sprintf("w%d", i) {
				t.Errorf("client %d got %s", i, r.Body)
			}
			until(t, "no claim is under way", func() bool { return s.Busy() == 0 })
		}
		enqueue(t, db, dibs.NewJob{Kind: "other"})
		if r := await(t, answers[0], "the answer to the one with kinds"); len(jobsOf(t, r.Code, r.Body.Bytes())) != 1 {
			t.Errorf("got %s", r.Body)
		}
	})
}

func TestAWaitEndsWithoutJobs(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		url := serve(t, db)
		status, _, body := call(t, "POST", url+"/v1/claim", `{"worker":"w","wait":"10ms"}`)
		if len(jobsOf(t, status, body)) != 0 || !bytes.Contains(body, []byte("[]")) {
			t.Errorf("got %s", body)
		}
	})
}

// A job that another process enqueues, or that becomes due, comes without a wakeup of this store.
func TestAJobThatBecomesDueIsFound(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := closing(t, server.New(db, server.Options{}))
		enqueue(t, db, dibs.NewJob{Kind: "k", Delay: 300 * time.Millisecond})
		r := await(t, claimAs(t, s, `{"worker":"w","wait":60}`), "the job")
		if len(jobsOf(t, r.Code, r.Body.Bytes())) != 1 {
			t.Errorf("got %s", r.Body)
		}
	})
}

// releasedUncounted waits until a job is given back, as if it had not been claimed.
func releasedUncounted(t *testing.T, db admin.Database, id int64) {
	t.Helper()
	var j *dibs.RawJob
	until(t, "the job waits again", func() (waits bool) {
		var err error
		if j, err = db.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return j.State == dibs.Waiting
	})
	if j.Attempt != 1 || j.Excused != 1 || len(j.Errors) != 0 {
		t.Errorf("attempt %d, excused %d, errors %v", j.Attempt, j.Excused, j.Errors)
	}
}

func TestJobsOfAClientThatGoesDuringItsClaimAreReleased(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		taken, goOn := make(chan struct{}), make(chan struct{})
		w := &watched{Database: db}
		w.claim = func(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
			jobs, err := db.Claim(ctx, r)
			if len(jobs) > 0 {
				close(taken)
				<-goOn
			}
			return jobs, err
		}
		s := closing(t, server.New(w, server.Options{}))
		ctx, leave := context.WithCancel(t.Context())
		id := enqueue(t, db, dibs.NewJob{Kind: "k", MaxAttempts: 1})[0]
		answer := claimIn(ctx, s, `{"worker":"w","lease":"1h"}`)
		await(t, taken, "the claim")
		leave()
		await(t, answer, "the end of the call")
		close(goOn)
		releasedUncounted(t, db, id)
	})
}

func TestJobsOfAClientThatCannotBeWrittenToAreReleased(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := closing(t, server.New(db, server.Options{}))
		id := enqueue(t, db, dibs.NewJob{Kind: "k", MaxAttempts: 1})[0]
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/claim", strings.NewReader(`{"worker":"w","lease":"1h"}`))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(deaf{httptest.NewRecorder()}, r)
		releasedUncounted(t, db, id)
	})
}

// deaf is a client that has closed its connection.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// The other clients are served whatever becomes of the first.
func TestAClientThatGoesDoesNotHoldUpTheNext(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := closing(t, server.New(db, server.Options{}))
		ctx, leave := context.WithCancel(t.Context())
		first := claimIn(ctx, s, `{"worker":"w1","wait":60}`)
		until(t, "the first waits", func() bool { return s.Waiting() == 1 && s.Busy() == 0 })
		second := claimAs(t, s, `{"worker":"w2","wait":60}`)
		until(t, "the second waits", func() bool { return s.Waiting() == 2 && s.Busy() == 0 })
		leave()
		await(t, first, "the end of the first call")
		enqueue(t, db, dibs.NewJob{Kind: "k"})
		r := await(t, second, "the second answer")
		if len(jobsOf(t, r.Code, r.Body.Bytes())) != 1 {
			t.Errorf("got %s", r.Body)
		}
	})
}

func TestCloseAnswersWaitingClientsAtOnce(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := server.New(db, server.Options{})
		id := enqueue(t, db, dibs.NewJob{Kind: "k", Queue: "other"})[0]
		claimed := claimAs(t, s, `{"worker":"w","wait":60}`)
		until(t, "it waits", func() bool { return s.Waiting() == 1 && s.Busy() == 0 })
		url := httptest.NewServer(s)
		defer url.Close()
		waited := make(chan int, 1)
		go func() {
			status, _, _ := call(t, "GET", fmt.Sprintf("%s/v1/jobs/%d/wait", url.URL, id), "")
			waited <- status
		}()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if r := await(t, claimed, "the waiting claim"); len(jobsOf(t, r.Code, r.Body.Bytes())) != 0 {
			t.Errorf("got %s", r.Body)
		}
		if status := await(t, waited, "the wait for a job"); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		if r := await(t, claimAs(t, s, `{"worker":"w"}`), "a refusal"); r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") == "" {
			t.Errorf("after Close: %d %s", r.Code, r.Body)
		}
		if status, _, _ := call(t, "GET", url.URL+"/readyz", ""); status != http.StatusServiceUnavailable {
			t.Errorf("ready after Close: %d", status)
		}
	})
}

// While the database is unreachable, a client that waits goes on waiting, and a new client gets an error.
func TestWaitsOutlastADatabaseThatIsAway(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		var away atomic.Bool
		w := &watched{Database: db}
		w.claim = func(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
			if away.Load() {
				return nil, dibs.ErrUnavailable
			}
			return db.Claim(ctx, r)
		}
		s := closing(t, server.New(w, server.Options{}))
		waiting := claimAs(t, s, `{"worker":"w1","wait":60}`)
		until(t, "it waits", func() bool { return w.claims.Load() >= 1 && s.Waiting() == 1 && s.Busy() == 0 })
		claims := w.claims.Load()
		away.Store(true)
		if r := await(t, claimAs(t, s, `{"worker":"w2","wait":1}`), "an error"); r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") == "" {
			t.Errorf("got %d %s", r.Code, r.Body)
		}
		enqueue(t, db, dibs.NewJob{Kind: "k"})
		until(t, "a claim for the one that waits has failed", func() bool { return w.claims.Load() >= claims+2 })
		away.Store(false)
		if r := await(t, waiting, "the job"); len(jobsOf(t, r.Code, r.Body.Bytes())) != 1 {
			t.Errorf("got %s", r.Body)
		}
	})
}

// Jobs claimed here may run for long while nobody claims: somebody has to look after leases and
// schedules.
func TestTheServerSweepsWhileNobodyWaits(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		w := &watched{Database: db}
		s := closing(t, server.New(w, server.Options{}))
		id := enqueue(t, db, dibs.NewJob{Kind: "k"})[0]
		await(t, claimAs(t, s, `{"worker":"w","lease":"100ms"}`), "the job")
		until(t, "the lease has ended", func() bool {
			j, err := db.Get(t.Context(), id)
			return err == nil && j.State == dibs.Waiting
		})
		// A slow claim's own looks may have ended the lease; the server sweeps all the same.
		until(t, "the server has swept", func() bool { return w.sweeps.Load() > 0 })
	})
}

// A schedule that was made over HTTP ticks, though nobody has claimed yet.
func TestTheServerTicksFromItsStart(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: "tidy", Spec: "every 1s", Queue: "chores", Kind: "tidy"}); err != nil {
			t.Fatal(err)
		}
		closing(t, server.New(db, server.Options{}))
		until(t, "the schedule has made a job", func() bool {
			page, err := db.List(t.Context(), admin.Filter{Queue: "chores"})
			return err == nil && len(page.Jobs) > 0
		})
	})
}

// Large jobs make small answers: after the first load, of 32 jobs, an answer takes more up to 4 MiB.
func TestAnAnswerHoldsFewLargeJobs(t *testing.T) {
	needs.Long(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := closing(t, server.New(db, server.Options{}))
		for kib, want := range map[int]int{256: 32, 64: 64} {
			queue := fmt.Sprint("of", kib)
			jobs := make([]dibs.NewJob, 100)
			for i := range jobs {
				jobs[i] = dibs.NewJob{Queue: queue, Kind: "k", Payload: json.RawMessage(`"` + strings.Repeat("x", kib<<10) + `"`)}
			}
			enqueue(t, db, jobs...)
			r := await(t, claimAs(t, s, `{"queue":"`+queue+`","worker":"w","n":100}`), "jobs")
			if got := jobsOf(t, r.Code, r.Body.Bytes()); len(got) != want {
				t.Errorf("%d jobs of %d KiB each, want %d", len(got), kib, want)
			}
			list := httptest.NewRecorder()
			s.ServeHTTP(list, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/jobs?limit=1000&queue="+queue, nil))
			var page admin.Page
			if err := json.Unmarshal(list.Body.Bytes(), &page); err != nil || len(page.Jobs) != want || page.Next == "" {
				t.Errorf("a page of %d jobs of %d KiB each, want %d, %q, %v", len(page.Jobs), kib, want, page.Next, err)
			}
		}
	})
}
