package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
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

// stream is one call that enqueues line by line.
type stream struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Reader
}

func openStream(t *testing.T, url string) *stream {
	t.Helper()
	return openStreamAs(t, http.DefaultClient, url, "")
}

func openStreamAs(t *testing.T, client *http.Client, url, token string) *stream {
	t.Helper()
	r, in := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/jobs/stream", r)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	return &stream{t, in, bufio.NewReader(response.Body)}
}

func (s *stream) send(lines string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, lines); err != nil {
		s.t.Fatal(err)
	}
}

type answered struct {
	Line     int
	ID       int64
	Existing bool
	Problem  *server.Problem
}

// next is the answer to the next line.
func (s *stream) next() (a answered) {
	s.t.Helper()
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		s.t.Fatalf("%q: %v", line, err)
	}
	return a
}

func (s *stream) ends() {
	s.t.Helper()
	if rest, err := io.ReadAll(s.out); err != nil || len(rest) > 0 {
		s.t.Errorf("%q, %v after the end", rest, err)
	}
}

func TestAStreamAnswersEachLineWhileItGoesOn(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s := openStream(t, serve(t, db))
		for line := 1; line <= 3; line++ {
			s.send(fmt.Sprintf("{\"payload\":%d}\n", line))
			a := s.next()
			j, err := db.Get(t.Context(), a.ID)
			if err != nil || a.Line != line || string(j.Payload) != fmt.Sprint(line) || j.Kind != "default" {
				t.Errorf("line %d: %+v %v %v", line, a, j, err)
			}
		}
		s.send("{}") // without the end of the line
		s.in.Close()
		if a := s.next(); a.Line != 4 || a.ID == 0 {
			t.Errorf("the last line: %+v", a)
		}
		s.ends()
	})
}

// One wrong line keeps no other out, whatever is wrong with it, and whoever finds it.
func TestAStreamPassesOverWrongLines(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		small := 10
		if _, err := db.ChangeQueue(t.Context(), "small", dibs.QueueChange{PayloadLimit: &small}.Apply); err != nil {
			t.Fatal(err)
		}
		s := openStream(t, serve(t, db))
		lines := []struct {
			text   string
			status int
		}{
			{`{"unique_key":"a"}`, 0},
			{`{"priority":-1}`, 422},
			{"", -1},
			{`7`, 400},
			{`{"payload":`, 400},
			{"{\"payload\":\"\xff\"}", 400},
			{`{"queue":"small","payload":"longer than ten"}`, 422},
			{`{"queue":"small","payload":1}`, 0},
			{`{"payload":"` + strings.Repeat("x", 2<<20+64<<10) + `"}`, 413},
			{`{"unique_key":"a"}`, 0},
			{`{"queue":"small","payload":"longer than ten"}`, 422},
			{"  \t\r", -1},
			{`{"colour":"red"}`, 400},
			{`{}`, 0},
		}
		go func() {
			for _, l := range lines {
				_, _ = io.WriteString(s.in, l.text+"\n")
			}
			_ = s.in.Close()
		}()
		for i, l := range lines {
			if l.status < 0 {
				continue
			}
			a := s.next()
			status := 0
			if a.Problem != nil {
				status = a.Problem.Status
			}
			if a.Line != i+1 || status != l.status || (a.ID > 0) != (status == 0) {
				t.Errorf("line %d: %+v %+v, want status %d", i+1, a, a.Problem, l.status)
			}
			if i == 9 && !a.Existing {
				t.Errorf("line 10 has a new job: %+v", a)
			}
		}
		s.ends()
	})
}

// slow is a database that counts the jobs that were enqueued, and may be away.
type slow struct {
	admin.Database
	calls atomic.Int64
	jobs  atomic.Int64
	most  atomic.Int64
	away  atomic.Bool
}

func (d *slow) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	if d.away.Load() {
		return nil, dibs.ErrUnavailable
	}
	d.calls.Add(1)
	got, err := d.Database.Enqueue(ctx, jobs)
	d.jobs.Add(int64(len(got)))
	d.most.Store(max(d.most.Load(), int64(len(got))))
	return got, err
}

// A client that sends without end and reads nothing is held up: the server reads on only when its
// answers are read.
func TestAStreamReadsNoFasterThanItsAnswersAreRead(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		d := &slow{Database: db}
		handler := server.New(d, server.Options{})
		h := httptest.NewUnstartedServer(handler)
		h.Config.ConnState = func(c net.Conn, state http.ConnState) {
			if state == http.StateNew { // with the usual buffer, the system would hold many answers
				_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
			}
		}
		h.Start()
		defer h.Close()
		address := h.Listener.Addr().String()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		line := `{"payload":"` + strings.Repeat("x", 100) + `","metadata":{"a":1}}` + "\n"
		const lines = 100_000
		fmt.Fprintf(conn, "POST /v1/jobs/stream HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n", address, lines*len(line))
		var sent atomic.Int64
		over := make(chan error, 1)
		go func() {
			chunk := strings.Repeat(line, 100)
			for range lines / 100 {
				if _, err := io.WriteString(conn, chunk); err != nil {
					over <- err
					return
				}
				sent.Add(100)
			}
			over <- nil
		}()
		// It is held up when neither the client nor the database has got on for a second.
		until(t, "the client is held up", func() bool {
			before, jobs := sent.Load(), d.jobs.Load()
			time.Sleep(time.Second)
			return before > 0 && before == sent.Load() && jobs == d.jobs.Load()
		})
		if sent.Load() == lines {
			t.Fatal("all lines were taken, though no answer was read")
		}
		if most := d.most.Load(); most > 1000 {
			t.Errorf("%d jobs at once", most)
		}
		if err := handler.Close(); err != nil { // does not wait for such a client either
			t.Error(err)
		}
		conn.Close()
		<-over
	})
}

func TestAStreamEndsWhenTheDatabaseIsAway(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		d := &slow{Database: db}
		s := openStream(t, serve(t, d))
		s.send("{}\n")
		if a := s.next(); a.ID == 0 {
			t.Errorf("%+v", a)
		}
		d.away.Store(true)
		s.send("{}\n")
		if a := s.next(); a.Line != 2 || a.Problem == nil || a.Problem.Status != http.StatusServiceUnavailable {
			t.Errorf("%+v", a)
		}
		s.ends()
	})
}

// HTTP/2 has streams of its own.
func TestAStreamOverHTTP2(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		d := &slow{Database: db}
		handler := closing(t, server.New(d, server.Options{}))
		h := httptest.NewUnstartedServer(handler)
		h.EnableHTTP2 = true
		h.StartTLS()
		t.Cleanup(h.Close)
		s := openStreamAs(t, h.Client(), h.URL, "")
		for line := 1; line <= 3; line++ {
			s.send("{}\n")
			if a := s.next(); a.Line != line || a.ID == 0 {
				t.Errorf("line %d: %+v", line, a)
			}
		}
		d.away.Store(true) // the server ends the stream, though the client does not
		s.send("{}\n")
		if a := s.next(); a.Line != 4 || a.Problem == nil || a.Problem.Status != http.StatusServiceUnavailable {
			t.Errorf("%+v", a)
		}
		s.ends()
	})
}

func TestAStreamEndsWhenTheServerCloses(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		handler := server.New(db, server.Options{})
		h := httptest.NewServer(handler)
		defer h.Close()
		s := openStream(t, h.URL)
		s.send("{}\n")
		if a := s.next(); a.ID == 0 {
			t.Errorf("%+v", a)
		}
		if err := handler.Close(); err != nil {
			t.Fatal(err)
		}
		if a := s.next(); a.Line != 2 || a.Problem == nil || a.Problem.Status != http.StatusServiceUnavailable {
			t.Errorf("%+v", a)
		}
		s.ends()
	})
}
