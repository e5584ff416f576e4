package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// by sends a request with a token.
func by(t testing.TB, token, method, url, body string) (int, server.Problem) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if r.Header.Set("Content-Type", "application/json"); strings.HasSuffix(url, "/stream") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	return problem(t, r)
}

// Streams that are open keep nobody from being served. They have a limit of their own.
func TestOpenStreamsTakeNoRequestsFromWorkers(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s, url := start(t, onSQLite(t), server.Options{Limits: server.Limits{Requests: 2, Streams: 3}})
	var open []*stream
	for range 3 {
		open = append(open, openStream(t, url))
	}
	for _, path := range []string{"/v1/finish", "/v1/extend"} {
		if status, _, body := call(t, "POST", url+path, `{"outcomes":[]}`); status == 503 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, p := by(t, "x", "POST", url+"/v1/jobs/stream", "{}\n"); status != 503 || !strings.Contains(p.Detail, "streams") {
		t.Errorf("one stream more: %d %+v", status, p)
	}
	open[0].in.Close()
	open[0].ends()
	eventually(t, "its place is free", func() bool { streams, _ := s.StreamsAndAnswers(); return streams == 2 })
	again := openStream(t, url)
	again.send("{}\n")
	if a := again.next(); a.ID == 0 {
		t.Errorf("%+v", a)
	}
}

// One token of several cannot take all places, whatever they are: others are still served.
func TestOneTokenLeavesPlacesForOthers(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := &blocked{onSQLite(t), make(chan struct{})}
	g := &guarded{t: t, db: db, list: &strings.Builder{}}
	greedy, other := g.token("greedy", "admin"), g.token("other", "admin")
	g.server, g.url = start(t, db, server.Options{Tokens: g.tokens, Limits: server.Limits{Requests: 4, Waiting: 4, Streams: 4}})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if status, p := by(t, greedy, "POST", g.url+"/v1/claim", `{"queue":"q","worker":"w","wait":60}`); status != 200 {
				t.Errorf("%d %+v", status, p)
			}
		})
		openStreamAs(t, http.DefaultClient, g.url, greedy)
	}
	eventually(t, "two wait", func() bool { requests, waiting, _ := g.server.InUse(); return requests == 0 && waiting == 2 })
	for range 2 {
		all.Go(func() {
			if status, p := by(t, greedy, "GET", g.url+"/v1/stats", ""); status != 200 {
				t.Errorf("%d %+v", status, p)
			}
		})
	}
	eventually(t, "two are served", func() bool { requests, _, _ := g.server.InUse(); return requests == 2 })
	if status, p := by(t, greedy, "GET", g.url+"/v1/queues", ""); status != 503 || !strings.Contains(p.Detail, "this token") {
		t.Errorf("a third request: %d %+v", status, p)
	}
	if status, p := by(t, other, "GET", g.url+"/v1/jobs", ""); status != 200 {
		t.Errorf("another's request: %d %+v", status, p)
	}
	close(db.gate)
	eventually(t, "nothing is served", func() bool { requests, _, _ := g.server.InUse(); return requests == 0 })
	for path, body := range map[string]string{"/v1/claim": `{"queue":"q","worker":"w","wait":0.001}`, "/v1/jobs/stream": "{}\n"} {
		if status, p := by(t, greedy, "POST", g.url+path, body); status != 503 || !strings.Contains(p.Detail, "this token") {
			t.Errorf("%s: %d %+v", path, status, p)
		}
		if status, p := by(t, other, "POST", g.url+path, body); status != 200 {
			t.Errorf("another's %s: %d %+v", path, status, p)
		}
	}
	enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k"}, dibs.NewJob{Queue: "q", Kind: "k"})
	all.Wait()
}

// A token alone may take all.
func TestTheOnlyTokenMayTakeAllPlaces(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := onSQLite(t)
	g := &guarded{t: t, db: db, list: &strings.Builder{}}
	only := g.token("only", "admin")
	g.server, g.url = start(t, db, server.Options{Tokens: g.tokens, Limits: server.Limits{Streams: 2}})
	for range 2 {
		openStreamAs(t, http.DefaultClient, g.url, only)
	}
}

// keepOnly takes all tokens away but that of one name.
func (g *guarded) keepOnly(name string) {
	g.t.Helper()
	kept := ""
	for line := range strings.Lines(g.list.String()) {
		if strings.HasPrefix(line, name+" ") {
			kept += line
		}
	}
	if err := g.tokens.Replace(kept); err != nil {
		g.t.Fatal(err)
	}
}

// A stream does not outlive its token.
func TestAStreamEndsWhenItsTokenIsTakenAway(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		g := startGuarded(t, db)
		token := g.token("leaver", "enqueue:a,b")
		s := openStreamAs(t, http.DefaultClient, g.url, token)
		s.send(`{"queue":"a"}` + "\n")
		if a := s.next(); a.ID == 0 {
			t.Fatalf("%+v", a)
		}
		all := g.list.String()
		narrow := strings.Replace(all, "enqueue:a,b", "enqueue:b", 1)
		if err := g.tokens.Replace(narrow); err != nil {
			t.Fatal(err)
		}
		s.send(`{"queue":"a"}` + "\n")
		if a := s.next(); a.Problem == nil || a.Problem.Status != 403 {
			t.Errorf("a queue that was taken away: %+v", a)
		}
		s.send(`{"queue":"b"}` + "\n")
		if a := s.next(); a.ID == 0 {
			t.Errorf("a queue that is left: %+v", a.Problem)
		}
		g.keepOnly("unused")
		s.send(`{"queue":"b"}` + "\n" + `{"queue":"b"}` + "\n")
		if a := s.next(); a.Line != 4 || a.Problem == nil || a.Problem.Status != 401 {
			t.Errorf("without a token: %+v", a)
		}
		s.ends()
		if page, err := db.List(t.Context(), admin.Filter{}); err != nil || len(page.Jobs) != 2 {
			t.Errorf("%d jobs, %v", len(page.Jobs), err)
		}
	})
}

func TestAStreamEndsWhenItsTokenLosesTheScope(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := onSQLite(t)
	g := startGuarded(t, db)
	s := openStreamAs(t, http.DefaultClient, g.url, g.token("leaver", "enqueue"))
	if err := g.tokens.Replace(strings.Replace(g.list.String(), " enqueue", " read", 1)); err != nil {
		t.Fatal(err)
	}
	s.send("{}\n")
	if a := s.next(); a.Line != 1 || a.Problem == nil || a.Problem.Status != 403 {
		t.Errorf("%+v", a)
	}
	s.ends()
}

// A claim that waits gets no jobs once its token has been taken away. What was claimed for it is given back.
func TestAWaitingClaimDoesNotOutliveItsToken(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		g := startGuarded(t, db)
		token := g.token("leaver", "work:q", "read:q")
		seen := enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "late", Payload: "S3CRET"})[0]
		held, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "mine", N: 1, Lease: time.Hour})
		if err != nil || len(held) != 1 {
			t.Fatal(held, err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if status, p := by(t, token, "POST", g.url+"/v1/claim", `{"queue":"q","worker":"w","wait":60}`); status != 401 {
				t.Errorf("the claim: %d %+v", status, p)
			}
		})
		all.Go(func() {
			if status, p := by(t, token, "GET", g.url+"/v1/jobs/"+fmt.Sprint(seen)+"/wait?timeout=60", ""); status != 401 {
				t.Errorf("the wait for a job: %d %+v", status, p)
			}
		})
		until(t, "both wait", func() bool { _, waiting, _ := g.server.InUse(); return waiting == 2 && g.server.Busy() == 0 })
		g.keepOnly("unused")
		id := enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k", MaxAttempts: 1})[0]
		if err := db.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		releasedUncounted(t, db, id)
	})
}

// offered counts how often each job, by its kind, was given to the store.
type offered struct {
	admin.Database
	mu    sync.Mutex
	kinds map[string]int
}

func (o *offered) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	o.mu.Lock()
	for _, j := range jobs {
		o.kinds[j.Kind]++
	}
	o.mu.Unlock()
	return o.Database.Enqueue(ctx, jobs)
}

// Lines that only the store refuses do not cost a call of the database each: whatever batches the lines come
// in, the store is given each line twice at most.
func TestAStreamOfLinesThatTheStoreRefuses(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		limit := 10
		if _, err := db.ChangeQueue(t.Context(), "small", dibs.QueueChange{PayloadLimit: &limit}.Apply); err != nil {
			t.Fatal(err)
		}
		d := &offered{Database: db, kinds: map[string]int{}}
		var lines strings.Builder
		const n = 2000
		for i := range n {
			if i%10 == 3 {
				fmt.Fprintf(&lines, `{"queue":"small","kind":"k%d","payload":1}`+"\n", i)
			} else {
				fmt.Fprintf(&lines, `{"queue":"small","kind":"k%d","payload":"longer than ten"}`+"\n", i)
			}
		}
		s := openStream(t, serve(t, d))
		go func() {
			_, _ = s.in.Write([]byte(lines.String()))
			_ = s.in.Close()
		}()
		last := int64(0)
		for i := range n {
			a := s.next()
			if fits := i%10 == 3; a.Line != i+1 || (a.ID > last) != fits || (a.Problem == nil) != fits || !fits && (a.Problem.Field != "payload" || a.Problem.Status != 422) {
				t.Fatalf("line %d: %+v %+v", i+1, a, a.Problem)
			}
			last = max(last, a.ID)
		}
		s.ends()
		for kind, times := range d.kinds {
			if times > 2 {
				t.Fatalf("the store was given line %s %d times", kind, times)
			}
		}
		if len(d.kinds) != n {
			t.Errorf("the store was given %d of %d lines", len(d.kinds), n)
		}
	})
}

// Half a character is refused as invalid UTF-8 is, where a name could become another by it. JSON is stored as it is.
func TestHalfCharactersAreRefusedInNames(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		url := serve(t, db)
		lease := strings.Repeat("a", 32)
		for _, test := range []struct{ method, path, body, field string }{
			{"POST", "/v1/jobs", `{"queue":"a\ud800"}`, "queue"},
			{"POST", "/v1/jobs", `{"QUEUE":"\uDC00\uD800"}`, "QUEUE"},
			{"POST", "/v1/jobs", `{"queue":"a","kind":"\ud83d\ud83d\ude00"}`, "kind"},
			{"POST", "/v1/jobs", `{"group":"\\\uDbff\\udc00"}`, "group"},
			{"POST", "/v1/jobs", `{"payload":"\udfff", "unique_key": "\udfff"}`, "unique_key"},
			{"POST", "/v1/jobs/batch", `{"jobs":[{},{"queue":"\ud800"}]}`, "jobs[1].queue"},
			{"POST", "/v1/claim", `{"queue":"\ud800","worker":"w"}`, "queue"},
			{"POST", "/v1/claim", `{"worker":"w\ud800x"}`, "worker"},
			{"POST", "/v1/claim", `{"worker":"w","kinds":["a","\ud800"]}`, "kinds"},
			{"POST", "/v1/jobs/prune", `{"queue":"\ud800","older_than":0}`, "queue"},
			{"PUT", "/v1/schedules/x", `{"spec":"@daily","queue":"\ud800"}`, "queue"},
			{"POST", "/v1/finish", `{"outcomes":[{"id":1,"token":"` + lease + `","ending":"\ud800"}]}`, "outcomes[0].ending"},
		} {
			status, _, body := call(t, test.method, url+test.path, test.body)
			if status != 400 || !strings.Contains(string(body), `"field":"`+test.field+`"`) {
				t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, status, body)
			}
		}
		if page, err := db.List(t.Context(), admin.Filter{}); err != nil || len(page.Jobs) != 0 {
			t.Errorf("stored: %+v, %v", page.Jobs, err)
		}
		for _, body := range []string{`{"queue":"\ud83d\ude00","kind":"\\ud800"}`, `{"kind":"\u00e4\/\ufffd"}`} {
			if status, _, answer := call(t, "POST", url+"/v1/jobs", body); status != 201 {
				t.Errorf("%s: %d %s", body, status, answer)
			}
		}
		if j, err := db.Get(t.Context(), 1); err != nil || j.Queue != "😀" || j.Kind != `\ud800` {
			t.Errorf("%+v, %v", j, err)
		}
	})
}

// The server treats half a character in a payload or an error as the Go API does.
func TestHalfCharactersInPayloadsAndErrors(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		url := serve(t, db)
		for _, field := range []string{"payload", "metadata"} {
			const half = `{"a":"\ud800"}`
			job := dibs.NewJob{Queue: "go", Kind: "k", Payload: json.RawMessage(half)}
			if field == "metadata" {
				job = dibs.NewJob{Queue: "go", Kind: "k", Metadata: json.RawMessage(half)}
			}
			_, err := db.Enqueue(t.Context(), []dibs.NewJob{job})
			status, _, body := call(t, "POST", url+"/v1/jobs", `{"queue":"http","`+field+`":`+half+`}`)
			if (err == nil) != (status == 201) || status >= 500 {
				t.Errorf("%s: the Go API says %v, the server %d %s", field, err, status, body)
			}
		}
		status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"http","worker":"w"}`)
		j := jobsOf(t, status, body)[0]
		if status, _, body := call(t, "POST", url+"/v1/finish", `{"outcomes":[{"id":`+fmt.Sprint(j.ID)+`,"token":"`+j.Token.String()+`","ending":"dead","error":"cut: \ud83d"}]}`); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		if j, err := db.Get(t.Context(), j.ID); err != nil || j.State != dibs.Dead || j.Errors[0].Error != "cut: \ufffd" {
			t.Errorf("%+v, %v", j, err)
		}
	})
}
