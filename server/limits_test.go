package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

// trickle sends bytes one by one until the connection ends, and returns all that was answered.
func trickle(t *testing.T, url, begin string, one byte) string {
	t.Helper()
	c := dial(t, url)
	defer c.Close()
	if _, err := io.WriteString(c, begin); err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			if _, err := c.Write([]byte{one}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // the pace of the client, not a wait for anything
		}
	})
	answer, err := io.ReadAll(c)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Error("the connection still lives")
	}
	c.Close()
	sending.Wait()
	return string(answer)
}

func TestSlowClientsLoseTheirConnections(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	t.Parallel()
	secret, line, err := server.NewToken("worker", "work", "enqueue")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := server.ParseTokens(line)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(onSQLite(t), server.Options{Tokens: tokens, Limits: server.Limits{BodyTime: time.Second, StreamTime: time.Second}})
	web := s.HTTPServer()
	if web.ReadHeaderTimeout <= 0 || web.ReadHeaderTimeout > 30*time.Second || web.IdleTimeout <= 0 || web.WriteTimeout <= 0 || web.MaxHeaderBytes <= 0 {
		t.Errorf("a limit is missing: %+v", web)
	}
	web.ReadHeaderTimeout = time.Second
	url := "http://" + run(t, s, web)
	head := "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	authorized := head + "Authorization: Bearer " + secret + "\r\n"
	for name, begin := range map[string]string{
		"the header":                      head + "X-A: ",
		"a request line":                  "POST /",
		"a body":                          authorized + "Content-Length: 100000\r\n\r\n{\"payload\":\"",
		"a chunked body":                  authorized + "Transfer-Encoding: chunked\r\n\r\n186a0\r\n{\"payload\":\"",
		"the size of a chunk":             authorized + "Transfer-Encoding: chunked\r\n\r\n",
		"a packed one":                    authorized + "Content-Encoding: gzip\r\nContent-Length: 100000\r\n\r\n",
		"a body without a token":          head + "Content-Length: 100000\r\n\r\n",
		"a body to nowhere":               "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n",
		"a line of a stream":              strings.Replace(authorized, "application/json", "application/x-ndjson", 1) + "Content-Length: 100000\r\n\r\n{\"payload\":\"",
		"a stream that is not of streams": strings.Replace(authorized, "/v1/jobs ", "/v1/jobs/stream ", 1) + "Content-Length: 100000\r\n\r\n{\"payload\":\"",
		"a stream":                        strings.NewReplacer("application/json", "application/x-ndjson", "/v1/jobs ", "/v1/jobs/stream ").Replace(authorized) + "Transfer-Encoding: chunked\r\n\r\n186a0\r\n{\"payload\":\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := trickle(t, url, begin, '1')
			if answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 4") && name != "a stream" {
				t.Errorf("answered: %s", answer)
			}
			if strings.HasSuffix(name, "body") && !strings.Contains(answer, "408 Request Timeout") {
				t.Errorf("answered: %s", answer)
			}
		})
	}
}

// A client that does not read its answer is not waited for.
func TestSlowReadersLoseTheirConnections(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	t.Parallel()
	db := onSQLite(t)
	limit := 40 << 20
	if _, err := db.ChangeQueue(t.Context(), "large", dibs.QueueChange{PayloadLimit: &limit}.Apply); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Enqueue(t.Context(), []dibs.NewJob{{Queue: "large", Kind: "k", Payload: strings.Repeat("x", limit-100)}}); err != nil {
		t.Fatal(err)
	}
	s, url := start(t, db, server.Options{Limits: server.Limits{AnswerTime: time.Second}})
	c := dial(t, url)
	defer c.Close()
	if _, err := io.WriteString(c, "GET /v1/jobs/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 1)
	if _, err := c.Read(one); err != nil { // the answer has begun
		t.Fatal(err)
	}
	eventually(t, "the request is given up", func() bool { requests, _, _ := s.InUse(); return requests == 0 })
	if n, err := io.Copy(io.Discard, c); err == nil && n > 39<<20 {
		t.Errorf("all %d bytes of the answer have come", n)
	}
}

// eventually waits for something that nothing tells of.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * patience); !is(); {
		if time.Now().After(end) {
			t.Fatalf("it never comes that %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Calls that wait, and streams that flow, outlive the time that slow clients get. How long that is depends on the
// machine: one that is too slow for a short time gets more.
func TestWaitingAndFlowingCallsLive(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	db := onSQLite(t)
	for name, lives := range map[string]func(t *testing.T, db admin.Database, url string, limit time.Duration) error{"claim": claimLives, "wait": waitLives, "stream": streamLives} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			for limit := time.Second; limit < time.Minute/2; limit *= 5 {
				_, url := start(t, db, server.Options{Limits: server.Limits{BodyTime: limit, AnswerTime: limit, StreamTime: limit, Idle: limit}})
				if err = lives(t, db, url, limit); err == nil {
					return
				}
				t.Logf("with %v: %v", limit, err)
			}
			t.Error(err)
		})
	}
}

func claimLives(t *testing.T, _ admin.Database, url string, limit time.Duration) error {
	status, _, body := call(t, "POST", url+"/v1/claim", fmt.Sprintf(`{"queue":"none","worker":"w","wait":%g}`, 2.2*limit.Seconds()))
	if status != 200 || string(body) != "{\"jobs\":[]}\n" {
		return fmt.Errorf("%d %s", status, body)
	}
	return nil
}

func waitLives(t *testing.T, db admin.Database, url string, limit time.Duration) error {
	id := enqueue(t, db, dibs.NewJob{Queue: "idle", Kind: "k"})[0]
	status, _, body := call(t, "GET", fmt.Sprintf("%s/v1/jobs/%d/wait?timeout=%g", url, id, 2.2*limit.Seconds()), "")
	if status != 200 || !bytes.Contains(body, []byte(`"state":"waiting"`)) {
		return fmt.Errorf("%d %s", status, body)
	}
	return nil
}

func streamLives(t *testing.T, _ admin.Database, url string, limit time.Duration) error {
	in, out := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/jobs/stream", in)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	go func() {
		for range 15 {
			if _, err := io.WriteString(out, `{"queue":"stream"}`+"\n"); err != nil {
				return
			}
			time.Sleep(limit / 6) // the pace of the client, not a wait for anything
		}
		out.Close()
	}()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if n := bytes.Count(body, []byte(`"id":`)); err != nil || n != 15 {
		return fmt.Errorf("%d lines were answered, and then %v: %s", n, err, body)
	}
	return nil
}

// blocked is a database whose Stats wait, and whose Workers panic.
type blocked struct {
	admin.Database
	gate chan struct{}
}

func (b *blocked) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	select {
	case <-b.gate:
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}

func (b *blocked) Workers(context.Context) ([]dibs.WorkerInfo, error) {
	panic("S3CRET of the database")
}

func TestRequestsAndWaitingOnesAreLimited(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := &blocked{onSQLite(t), make(chan struct{})}
	s, url := start(t, db, server.Options{Limits: server.Limits{Requests: 3, Waiting: 2}})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"q","worker":"w","wait":60}`); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	eventually(t, "two wait", func() bool { requests, waiting, _ := s.InUse(); return waiting == 2 && requests == 0 })
	if status, header, body := call(t, "POST", url+"/v1/claim", `{"queue":"q","worker":"w","wait":60}`); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("the third that waits: %d %s", status, body)
	}
	if status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"q","worker":"w"}`); status != 200 {
		t.Errorf("one that does not wait: %d %s", status, body)
	}
	for range 3 {
		all.Go(func() {
			if status, _, body := call(t, "GET", url+"/v1/stats", ""); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	eventually(t, "three are served", func() bool { requests, _, _ := s.InUse(); return requests == 3 })
	if status, header, body := call(t, "GET", url+"/v1/stats", ""); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("the fourth: %d %s", status, body)
	}
	close(db.gate)
	if _, err := db.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}, {Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

func TestConnectionsAreLimited(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{Limits: server.Limits{Connections: 5}})
	ask := func(c net.Conn) (status int, last bool) {
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return 0, false
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, false
		}
		defer r.Body.Close()
		return r.StatusCode, r.Close && r.Header.Get("Retry-After") != ""
	}
	var open []net.Conn
	for range 5 {
		c := dial(t, url)
		defer c.Close()
		if status, _ := ask(c); status != 200 {
			t.Fatalf("status %d", status)
		}
		open = append(open, c)
	}
	sixth := dial(t, url)
	defer sixth.Close()
	if status, last := ask(sixth); status != 503 || !last {
		t.Errorf("the sixth: %d, %v", status, last)
	}
	var more []net.Conn
	for range 100 { // most of them are closed at once
		more = append(more, dial(t, url))
	}
	if status, _ := ask(open[0]); status != 200 {
		t.Errorf("the first: %d", status)
	}
	open[1].Close()
	for _, c := range more {
		c.Close()
	}
	eventually(t, "there is a place again", func() bool {
		c := dial(t, url)
		defer c.Close()
		status, _ := ask(c)
		return status == 200
	})
}

func TestAPanicIsAProblemAndNobodySeesWhatItSays(t *testing.T) {
	t.Parallel()
	_, url := start(t, &blocked{onSQLite(t), nil}, server.Options{})
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/workers", nil)
		if err != nil {
			t.Fatal(err)
		}
		if status, p := problem(t, r); status != 500 || strings.Contains(fmt.Sprint(p), "S3CRET") || p.Instance == "" {
			t.Errorf("%d %+v", status, p)
		}
	}
}

func TestNegativeLimitsAreNone(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{Limits: server.Limits{Body: -1, Bodies: -1, Answers: -1, Streams: -1, BodyTime: -1, StreamTime: -1, Requests: -1, Waiting: -1, Connections: -1, Header: -1, Idle: -1, AnswerTime: -1}})
	if status, _, body := call(t, "POST", url+"/v1/jobs", `{"queue":"q","payload":"`+strings.Repeat("x", 1<<20-100)+`"}`); status != 201 {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"none","worker":"w","wait":0.1}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
