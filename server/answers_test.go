package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// mebibytes enqueues jobs with payloads of a MiB each.
func mebibytes(t testing.TB, db admin.Database, queue string, n int) (ids []int64) {
	t.Helper()
	payload := json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	for range n {
		ids = append(ids, enqueue(t, db, dibs.NewJob{Queue: queue, Kind: "k", Payload: payload})...)
	}
	return ids
}

// ask sends a request that is answered by bytes which nobody reads, and returns the status.
func ask(t testing.TB, c net.Conn, method, path, body string) (status int) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body); err != nil {
		t.Error(err)
		return 0
	}
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	_, _ = fmt.Sscanf(line, "HTTP/1.1 %d", &status)
	return status
}

// Clients that ask for all jobs at once and do not read them cost the server no more than the limit.
func TestAnswersThatNobodyReadsShareTheirMemory(t *testing.T) {
	needs.Long(t)
	needs.NoRaceDetector(t)
	db := onSQLite(t)
	mebibytes(t, db, "q", 40)
	s, url := start(t, db, server.Options{Limits: server.Limits{Answers: 64 << 20, AnswerTime: -1}})
	peak(t, 600<<20)
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses := map[int]int{}
	for range 60 {
		all.Go(func() {
			c := dial(t, url)
			t.Cleanup(func() { c.Close() })
			status := ask(t, c, "GET", "/v1/jobs?limit=1000", "")
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	t.Log(statuses)
	if statuses[200] == 0 || statuses[503] == 0 || statuses[200]+statuses[503] != 60 {
		t.Errorf("the statuses are %v", statuses)
	}
	if _, held := s.StreamsAndAnswers(); held > 64<<20 {
		t.Errorf("%d bytes are held", held)
	}
	// A small answer is never refused.
	enqueue(t, db, dibs.NewJob{Queue: "small", Kind: "k"})
	for range 3 {
		if status, _, body := call(t, "GET", url+"/v1/jobs?queue=small", ""); status != 200 {
			t.Errorf("a small answer: %d %s", status, body)
		}
	}
	if status, _, body := call(t, "POST", url+"/v1/finish", `{"outcomes":[]}`); status != 200 {
		t.Errorf("a finish: %d %s", status, body)
	}
}

// heldJobs is a list that is too long for the buffers of a connection.
const heldJobs = "/v1/jobs?queue=held"

// full is a server whose memory for answers is taken.
func full(t *testing.T, db admin.Database, limit int64) (s *server.Server, url string, free func()) {
	t.Helper()
	mebibytes(t, db, "held", 12) // what is in the system's buffers is not held by the server
	s, url = start(t, db, server.Options{Limits: server.Limits{Answers: limit, AnswerTime: -1}})
	var held []net.Conn
	for range 50 {
		c := dial(t, url)
		t.Cleanup(func() { c.Close() })
		held = append(held, c)
		if status := ask(t, c, "GET", heldJobs, ""); status == 503 {
			return s, url, func() {
				for _, c := range held {
					c.Close()
				}
				eventually(t, "all is given back", func() bool { _, n := s.StreamsAndAnswers(); return n == 0 })
			}
		}
	}
	t.Fatal("the memory for answers is never full")
	panic("unreachable")
}

// A claim that finds no memory for its jobs takes none, and one that learns so only after it has taken them gives
// them back uncounted.
func TestAClaimWithoutMemoryForItsAnswerTakesNoJobs(t *testing.T) {
	needs.NoRaceDetector(t)
	t.Parallel()
	w := &watched{Database: onSQLite(t)}
	_, url, free := full(t, w, 8<<20)
	ids := mebibytes(t, w, "work", 3)
	for range 3 {
		status, header, body := call(t, "POST", url+"/v1/claim", `{"queue":"work","worker":"w","n":3}`)
		if status != 503 || header.Get("Retry-After") == "" || !bytes.Contains(body, []byte("#too-many-clients")) {
			t.Errorf("%d %.300s", status, body)
		}
	}
	for _, id := range ids {
		if j, err := w.Get(t.Context(), id); err != nil || j.State != dibs.Waiting || j.Attempt != j.Excused || len(j.Errors) > 0 {
			t.Errorf("%s, attempt %d, excused %d, %v", j.State, j.Attempt, j.Excused, err)
		}
	}
	free()
	status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"work","worker":"w","n":3}`)
	if jobs := jobsOf(t, status, body); len(jobs) != 3 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// Jobs that were claimed just when other answers took the memory are given back uncounted.
func TestJobsThatFindNoMemoryAreGivenBack(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	w := &watched{Database: onSQLite(t)}
	s, url, free := full(t, w, 1)
	free()
	id := mebibytes(t, w, "work", 1)[0]
	w.claim = func(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
		jobs, err := w.Database.Claim(ctx, r)
		c := dial(t, url)
		t.Cleanup(func() { c.Close() })
		if status := ask(t, c, "GET", heldJobs, ""); status != 200 {
			t.Errorf("another answer: %d", status)
		}
		return jobs, err
	}
	if r := await(t, claimAs(t, s, `{"queue":"work","worker":"w","lease":"1h"}`), "an answer"); r.Code != 503 || r.Header().Get("Retry-After") == "" {
		t.Errorf("%d %.300s", r.Code, r.Body)
	}
	releasedUncounted(t, w, id)
}

// A call that waits takes no memory for an answer, also if it has looked at a large job before; and a claim that ends
// after its client is gone takes none either.
func TestWhoeverWaitsOrIsGoneHoldsNoMemory(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	taken, goOn := make(chan struct{}), make(chan struct{})
	w := &watched{Database: onSQLite(t)}
	w.claim = func(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
		jobs, err := w.Database.Claim(ctx, r)
		close(taken)
		<-goOn
		return jobs, err
	}
	s, url := start(t, w, server.Options{})
	waited := mebibytes(t, w, "q", 1)[0]
	id := mebibytes(t, w, "work", 1)[0]
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if status, _, body := call(t, "GET", fmt.Sprint(url, "/v1/jobs/", waited, "/wait?timeout=60"), ""); status != 200 || len(body) < 1<<20 {
			t.Errorf("%d, %d bytes", status, len(body))
		}
	})
	until(t, "it waits", func() bool { _, n, _ := s.InUse(); return n == 1 })
	if _, held := s.StreamsAndAnswers(); held != 0 {
		t.Errorf("a call that waits holds %d bytes", held)
	}
	ctx, leave := context.WithCancel(t.Context())
	answer := claimIn(ctx, s, `{"queue":"work","worker":"w","lease":"1h"}`)
	await(t, taken, "the claim")
	leave()
	await(t, answer, "the end of the call")
	close(goOn)
	releasedUncounted(t, w, id)
	if _, err := w.Database.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	j, err := w.Get(t.Context(), waited)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
		t.Fatal(err)
	}
	waiting.Wait() // nothing is held when the server ends, see start
}

// A client that waits goes on waiting while there is no memory for its jobs.
func TestAWaitingClaimOutlastsFullMemory(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	t.Parallel()
	for !outlastsFullMemory(t) {
		t.Log("the claim's minute was over before the job came: once more")
	}
}

func outlastsFullMemory(t *testing.T) (lasted bool) {
	w := &watched{Database: onSQLite(t)}
	s, url, free := full(t, w, 1)
	free()
	answer := claimAs(t, s, `{"queue":"work","worker":"w","wait":60}`)
	began := time.Now()
	over := func() bool { return time.Since(began) > 50*time.Second }
	until(t, "it waits", func() bool { return s.Waiting() == 1 && s.Busy() == 0 || over() })
	var held []net.Conn
	until(t, "the memory is taken again", func() bool {
		c := dial(t, url)
		t.Cleanup(func() { c.Close() })
		held = append(held, c)
		return ask(t, c, "GET", heldJobs, "") == 503 || over()
	})
	claims := w.claims.Load()
	id := enqueue(t, w, dibs.NewJob{Queue: "work", Kind: "k"})[0]
	looks := w.looks.Load()
	until(t, "the server has looked", func() bool { return w.looks.Load() >= looks+2 || over() })
	if over() {
		return false
	}
	if j, err := w.Get(t.Context(), id); err != nil || j.Attempt != 0 || w.claims.Load() != claims {
		t.Errorf("attempt %d, %d claims, %v", j.Attempt, w.claims.Load()-claims, err)
	}
	for _, c := range held {
		c.Close()
	}
	if r := await(t, answer, "the job"); len(jobsOf(t, r.Code, r.Body.Bytes())) != 1 {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	return true
}

// A job that is larger than the limit can be seen and claimed, while nothing else takes memory.
func TestAJobLargerThanTheLimitOfAnswersIsServed(t *testing.T) {
	needs.NoRaceDetector(t)
	t.Parallel()
	db := onSQLite(t)
	id := mebibytes(t, db, "q", 1)[0]
	_, url := start(t, db, server.Options{Limits: server.Limits{Answers: 1000}})
	eventually(t, "no answer takes memory", func() bool { // the one before is given back after it has been read
		status, _, _ := call(t, "GET", fmt.Sprint(url, "/v1/jobs/", id), "")
		return status == 200
	})
	eventually(t, "the job is claimed", func() bool {
		status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"q","worker":"w"}`)
		return status == 200 && len(jobsOf(t, status, body)) == 1
	})
}

// loading is a database that notes how many jobs are loaded at once.
type loading struct {
	admin.Database
	mu        sync.Mutex
	now, most int
	largest   int
}

func (l *loading) begin(n int) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += n
	l.most, l.largest = max(l.most, l.now), max(l.largest, n)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.now -= n
	}
}

func (l *loading) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	defer l.begin(f.Limit)()
	return l.Database.List(ctx, f)
}

func (l *loading) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	defer l.begin(r.N)()
	return l.Database.Claim(ctx, r)
}

// Nobody knows how large jobs are before they have come, so only some are loaded at once, also after small ones.
func TestOnlySomeJobsAreLoadedAtOnce(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	l := &loading{Database: onSQLite(t)}
	small := make([]dibs.NewJob, 5000)
	for i := range small {
		small[i] = dibs.NewJob{Queue: "q", Kind: "k"}
	}
	enqueue(t, l, small...)
	_, url := start(t, l, server.Options{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if status, _, body := call(t, "GET", url+"/v1/jobs?limit=1000", ""); status != 200 || bytes.Count(body, []byte(`"id":`)) != 1000 {
				t.Errorf("%d, %d jobs", status, bytes.Count(body, []byte(`"id":`)))
			}
			for n := 0; n < 100; {
				status, _, body := call(t, "POST", url+"/v1/claim", fmt.Sprintf(`{"queue":"q","worker":"w","n":%d}`, 100-n))
				if status == 503 { // the machine is so busy that the call took too long
					continue
				}
				n += len(jobsOf(t, status, body))
			}
		})
	}
	all.Wait()
	t.Logf("%d jobs at once, %d in one call", l.most, l.largest)
	if l.most > 256 || l.largest > 96 {
		t.Errorf("%d jobs were loaded at once, %d in one call", l.most, l.largest)
	}
}

// stuck is a database whose answers to those who only look are long in coming.
type stuck struct {
	*watched
	lookers atomic.Int64
	free    chan struct{}
}

func (s *stuck) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	s.lookers.Add(1)
	<-s.free
	return s.Database.List(ctx, f)
}

func (s *stuck) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	s.lookers.Add(1)
	<-s.free
	return s.Database.Get(ctx, id)
}

// However many people look at jobs, they take few connections to the database, and claims wait for none of them.
func TestLookersLeaveTheDatabaseToWorkers(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := &stuck{watched: &watched{Database: onSQLite(t)}, free: make(chan struct{})}
	id := enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k"})[0]
	s, url := start(t, db, server.Options{})
	var lookers sync.WaitGroup
	for i := range 40 {
		path := []string{"/v1/jobs?limit=1000", fmt.Sprint("/v1/jobs/", id)}[i%2]
		lookers.Go(func() {
			if status, _, body := call(t, "GET", url+path, ""); status != 200 {
				t.Errorf("%s: %d %s", path, status, body)
			}
		})
	}
	eventually(t, "all are there", func() bool { requests, _, _ := s.InUse(); return requests == 40 && db.lookers.Load() > 0 })
	for range 20 {
		enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k"})
		status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"q","worker":"w","n":100}`)
		if len(jobsOf(t, status, body)) == 0 {
			t.Error("a claim got nothing")
		}
	}
	if n := db.lookers.Load(); n > 3 {
		t.Errorf("%d of the lookers' calls are under way at once", n)
	}
	close(db.free)
	lookers.Wait()
}

// What is no job, such as the payloads of schedules, is counted too.
func TestListsShareTheMemoryForAnswers(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := onSQLite(t)
	_, url, _ := full(t, db, 4<<20)
	for i := range 3 {
		payload := json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
		if _, err := db.SetSchedule(t.Context(), dibs.Schedule{Name: fmt.Sprint("s", i), Spec: "@every 1h", Kind: "k", Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	if status, header, body := call(t, "GET", url+"/v1/schedules/s1", ""); status != 503 || header.Get("Content-Encoding") != "" {
		t.Errorf("%d %.200s", status, body)
	}
	for _, path := range []string{"/v1/schedules", "/v1/stats"} { // the list has no payloads
		if status, _, body := call(t, "GET", url+path, ""); status != 200 {
			t.Errorf("%d %.200s", status, body)
		}
	}
}
