package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// endless is a body that the client never ends.
type endless struct{ sent atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.sent.Add(int64(len(p)))
	return len(p), nil
}

// peak watches the heap until the test ends: it must never grow by more than most bytes.
func peak(t *testing.T, most uint64) {
	var before runtime.MemStats
	percent := debug.SetGCPercent(100) // as in a program, whatever GOGC is here
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, over := make(chan struct{}), make(chan uint64)
	go func() {
		var high uint64
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			high = max(high, now.HeapInuse)
			select {
			case <-ticker.C:
			case <-stop:
				over <- high
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		high := <-over
		t.Logf("the heap had %d MiB before and %d MiB at most", before.HeapInuse>>20, high>>20)
		if high > before.HeapInuse+most {
			t.Errorf("the heap has grown by %d MiB", (high-before.HeapInuse)>>20)
		}
	})
}

// A gigabyte, announced or not, packed or not, costs the server no more than the limit.
func TestBodiesOfAGigabyte(t *testing.T) {
	needs.Long(t)
	needs.NoRaceDetector(t)
	db := onSQLite(t)
	_, url := start(t, db, server.Options{})
	peak(t, 400<<20)
	const giga = 1 << 30
	var bomb bytes.Buffer
	z, err := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(z, &endless{}, giga); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]struct {
		body   func() io.Reader // a new one for each request: a client may read on after the answer
		length int64
		packed bool
	}{
		"announced":           {func() io.Reader { return &endless{} }, giga, false},
		"chunked":             {func() io.Reader { return io.LimitReader(&endless{}, giga) }, -1, false},
		"packed":              {func() io.Reader { return bytes.NewReader(bomb.Bytes()) }, int64(bomb.Len()), true},
		"announced as packed": {func() io.Reader { return &endless{} }, giga, true},
	} {
		for _, path := range []string{"/v1/jobs", "/v1/jobs/batch", "/v1/claim", "/v1/finish", "/v1/jobs/cancel"} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", url+path, try.body())
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = try.length
			r.Header.Set("Content-Type", "application/json")
			if try.packed {
				r.Header.Set("Content-Encoding", "gzip")
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				continue // the server has closed the connection while the client still sent
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Error(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s to %s: %d", name, path, answer.StatusCode)
			}
		}
	}
	if status, _, body := call(t, "POST", url+"/v1/jobs", `{"queue":"after"}`); status != 201 {
		t.Errorf("afterwards: %d %s", status, body)
	}
}

// Bodies that come at once share the memory for them. Those that find none are refused, small ones never.
func TestManyLargeBodiesShareTheirMemory(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := onSQLite(t)
	s, url := start(t, db, server.Options{Limits: server.Limits{Bodies: 8 << 20, BodyTime: 2 * patience}})
	const clients, size = 64, 1 << 20
	var refused, stored atomic.Int64
	var all sync.WaitGroup
	hold := make(chan struct{}) // the last byte of each body comes when it is closed
	for range clients {
		all.Go(func() {
			in, out := io.Pipe()
			go func() {
				_, _ = io.WriteString(out, `{"queue":"large","payload":"`+strings.Repeat("x", size-1000)) // the server may refuse it
				<-hold
				_, _ = io.WriteString(out, `"}`)
				out.Close()
			}()
			r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/jobs", in)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				refused.Add(1) // its connection was closed while it sent
				return
			}
			defer answer.Body.Close()
			switch {
			case answer.StatusCode == 201:
				stored.Add(1)
			case answer.StatusCode == 503 && answer.Header.Get("Retry-After") != "":
				refused.Add(1)
			default:
				t.Errorf("status %d", answer.StatusCode)
			}
		})
	}
	eventually(t, "most are refused", func() bool { return refused.Load() >= clients-16 })
	if _, _, bodies := s.InUse(); bodies > 8<<20 {
		t.Errorf("%d bytes are held", bodies)
	}
	if status, _, body := call(t, "POST", url+"/v1/jobs", `{"queue":"small"}`); status != 201 {
		t.Errorf("a small one: %d %s", status, body)
	}
	close(hold)
	all.Wait()
	if stored.Load() == 0 {
		t.Error("none was stored")
	}
	t.Logf("%d stored, %d refused", stored.Load(), refused.Load())
}

func TestAnswersAndBodiesMayBePacked(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{})
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	if _, err := io.WriteString(z, `{"queue":"packed","payload":"`+strings.Repeat("hello ", 1000)+`"}`); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	send := func(encoding string, body []byte) (int, server.Problem) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/jobs", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Encoding", encoding)
		return problem(t, r)
	}
	if status, p := send("gzip", body.Bytes()); status != 201 {
		t.Errorf("%d %+v", status, p)
	}
	for encoding, broken := range map[string][]byte{"br": body.Bytes(), "gzip, gzip": body.Bytes(), "gzip": body.Bytes()[:body.Len()-5], "GZIP": []byte(`{}`)} {
		if status, p := send(encoding, broken); status < 400 || status >= 500 {
			t.Errorf("%s: %d %+v", encoding, status, p)
		}
	}
	if status, p := send("gzip", []byte(`{"queue":"plain"}`)); status != 400 {
		t.Errorf("what is not packed: %d %+v", status, p)
	}
	for accepted, want := range map[string]string{"gzip": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "": "", "br": "", "identity, x-gzip": ""} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/jobs/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", accepted)
		answer, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if got := answer.Header.Get("Content-Encoding"); err != nil || got != want || int64(len(text)) != answer.ContentLength || (want != "") != (len(text) < 1000) || answer.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("accepting %q: %q, %d bytes of %d, %v", accepted, got, len(text), answer.ContentLength, err)
		}
	}
}
