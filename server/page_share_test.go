package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
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

// lookedAt is a database whose reads for lookers wait at a gate, whatever becomes of those who ask.
type lookedAt struct {
	admin.Database
	gate      chan struct{}
	now, most atomic.Int64
}

func (l *lookedAt) wait() {
	n := l.now.Add(1)
	for most := l.most.Load(); n > most && !l.most.CompareAndSwap(most, n); most = l.most.Load() {
	}
	<-l.gate
	l.now.Add(-1)
}

func (l *lookedAt) Groups(ctx context.Context, queue string) ([]dibs.Group, error) {
	l.wait()
	return l.Database.Groups(ctx, queue)
}

func (l *lookedAt) Backlogs(ctx context.Context, queue, after string) ([]admin.Backlog, error) {
	l.wait()
	return l.Database.Backlogs(ctx, queue, after)
}

func (l *lookedAt) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	l.wait()
	return l.Database.List(ctx, f)
}

func (l *lookedAt) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	l.wait()
	return l.Database.Get(ctx, id)
}

// However many look at groups and queues, few of their reads are under way at once, so that workers find connections.
func TestLookersReadAFewAtATime(t *testing.T) {
	needs.Race(t)
	for _, path := range []string{"/v1/queues/q/groups", "/groups?queue=q&after=", "/queues/q?x="} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			db := &lookedAt{Database: onSQLite(t), gate: make(chan struct{})}
			enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k"}, dibs.NewJob{Queue: "other", Kind: "k"})
			s, url := start(t, db, server.Options{})
			open := sync.OnceFunc(func() { close(db.gate) })
			t.Cleanup(open)
			var all sync.WaitGroup
			const lookers = 12
			for i := range lookers {
				all.Go(func() {
					at := url + path
					if strings.HasSuffix(path, "=") {
						at += fmt.Sprint(i)
					}
					r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
					if a, err := http.DefaultClient.Do(r); err != nil {
						t.Error(err)
					} else {
						a.Body.Close()
					}
				})
			}
			eventually(t, "all look", func() bool { requests, _, _ := s.InUse(); return requests == lookers && db.now.Load() > 2 })
			time.Sleep(50 * time.Millisecond)
			open()
			all.Wait()
			if most := db.most.Load(); most != 3 {
				t.Errorf("%d at once", most)
			}
		})
	}
}

// recounted is a database whose statistics wait at a gate, once they have been read.
type recounted struct {
	admin.Database
	gate  chan struct{}
	calls atomic.Int64
}

func (c *recounted) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	all, err := c.Database.Stats(ctx)
	c.calls.Add(1)
	<-c.gate
	return all, err
}

// Calls for the statistics at the same time share one answer. None gets an answer that was read before the call, so
// the answer shows what the same client has enqueued.
func TestStatsAreReadOnceForAllWhoAskMeanwhile(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := &recounted{Database: onSQLite(t), gate: make(chan struct{})}
	s, url := start(t, db, server.Options{})
	var all sync.WaitGroup
	ask := func(want string) {
		all.Go(func() {
			if status, _, body := call(t, "GET", url+"/v1/stats", ""); status != 200 || !strings.Contains(string(body), want) {
				t.Errorf("%d %s, without %s", status, body, want)
			}
		})
	}
	ask("[]")
	eventually(t, "the first reads", func() bool { return db.calls.Load() == 1 })
	enqueue(t, db, dibs.NewJob{Queue: "new", Kind: "k"})
	const others = 20
	for range others {
		ask(`"new"`)
	}
	eventually(t, "all ask", func() bool { requests, _, _ := s.InUse(); return requests == others+1 })
	time.Sleep(50 * time.Millisecond)
	if n := db.calls.Load(); n != 1 {
		t.Errorf("%d reads at once", n)
	}
	close(db.gate)
	all.Wait()
	if n := db.calls.Load(); n > others/2 {
		t.Errorf("%d reads for %d", n, others+1)
	}
}

// Requests by browsers that use one token count for that token, like its other requests.
func TestBrowsersOfOneTokenLeavePlacesForOthers(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := &lookedAt{Database: onSQLite(t), gate: make(chan struct{})}
	g := &guarded{t: t, db: db, list: &strings.Builder{}}
	greedy, other := g.token("greedy", "read"), g.token("other", "read")
	g.server, g.url = start(t, db, server.Options{Tokens: g.tokens, Limits: server.Limits{Requests: 4, Waiting: 4}})
	ids := enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k"}, dibs.NewJob{Queue: "q", Kind: "k"})
	browsers := map[string]*browser{}
	for _, token := range []string{greedy, other} {
		browsers[token] = newBrowser(t, g.url)
		browsers[token].send("/login", "token", token, "back", "/keys")
	}
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			if status, page := browsers[greedy].open(fmt.Sprint("/jobs/", id)); status != 200 {
				t.Errorf("%d %s", status, page)
			}
		})
	}
	eventually(t, "both are served", func() bool { return db.now.Load() == 2 })
	get := func(token, path string) (int, string) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, nil)
		a, err := browsers[token].Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Body.Close() })
		text := ""
		if a.StatusCode != 200 { // with the status 200 the body may be a stream without end
			b, _ := io.ReadAll(a.Body)
			text = string(b)
		}
		return a.StatusCode, text
	}
	if status, text := get(greedy, "/keys"); status != 503 || !strings.Contains(text, "with this token") {
		t.Errorf("a third page: %d %s", status, text)
	}
	if status, p := by(t, greedy, "GET", g.url+"/v1/jobs", ""); status != 503 || !strings.Contains(p.Detail, "with this token") {
		t.Errorf("a call: %d %+v", status, p)
	}
	if status, text := get(other, "/keys"); status != 200 {
		t.Errorf("another's page: %d %s", status, text)
	}
	close(db.gate)
	all.Wait()
	eventually(t, "nothing is served", func() bool { return g.server.Shares() == 0 })
	for i, want := range []int{200, 200, 503} {
		if status, text := get(greedy, "/live"); status != want {
			t.Errorf("stream %d: %d %s", i+1, status, text)
		}
	}
	if status, text := get(other, "/live"); status != 200 {
		t.Errorf("another's stream: %d %s", status, text)
	}
	eventually(t, "three streams are all there is", func() bool {
		requests, waiting, _ := g.server.InUse()
		return t.Failed() || requests == 0 && waiting == 3 && g.server.Shares() == 3
	})
}
