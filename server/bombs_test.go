package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// packed is a text packed with gzip.
func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// postPacked is a request with a body that is packed already.
func postPacked(t testing.TB, method, url, media string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	r.Header.Set("Content-Encoding", "gzip")
	return r
}

// allocated counts how often f allocates memory, in all goroutines, and how many bytes. No other test may run.
func allocated(f func()) (times, size uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// A few packed kilobytes hold millions of items. They are counted where they lie, and refused before each of them
// takes memory.
func TestTooLongListsAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	_, url := start(t, onSQLite(t), server.Options{})
	const items = 1 << 19
	list := "[" + strings.Repeat("0,", items-1) + "0]"
	names := "[" + strings.Repeat(`"",`, items-1) + `""]`
	fields := &strings.Builder{}
	for i := range items / 4 {
		fmt.Fprintf(fields, `"%x":0,`, i)
	}
	batch := fmt.Sprintf("are %d, the limit of one call is %d; split them", items, dibs.MaxBatch)
	for _, try := range []struct {
		method, path, body string
		status             int
		field, reason      string
	}{
		{"POST", "/v1/jobs/batch", `{"jobs":` + list + `}`, 422, "jobs", batch},
		{"POST", "/v1/jobs/batch", `{"jobs":` + list + `,"jobs":[]}`, 422, "jobs", batch},
		{"POST", "/v1/finish", `{"outcomes":` + list + `}`, 422, "outcomes", batch},
		{"POST", "/v1/extend", `{"lease":60,"leases":` + list + `}`, 422, "leases", batch},
		{"POST", "/v1/jobs/cancel", `{"ids":` + list + `}`, 422, "ids", batch},
		{"POST", "/v1/jobs/requeue", `{"ids":` + list + `}`, 422, "ids", batch},
		{"POST", "/v1/jobs/edit", `{"priority":1,"ids":` + list + `}`, 422, "ids", batch},
		{"POST", "/v1/claim", `{"worker":"w","kinds":` + names + `}`, 422, "kinds", fmt.Sprintf("must be at most 1000, got %d", items)},
		{"POST", "/v1/claim", `{"worker":` + list + `}`, 400, "worker", fmt.Sprintf("has %d items, the limit is %d", items, dibs.MaxBatch)},
		{"POST", "/v1/jobs", `{"queue":` + list + `}`, 400, "queue", fmt.Sprintf("has %d items, the limit is %d", items, dibs.MaxBatch)},
		{"POST", "/v1/jobs/batch", `{"jobs":` + list + `]}`, 400, "body", "cannot be read: invalid character ']' after object key:value pair"},
		{"PATCH", "/v1/queues/q?create=true", `{"rate":{` + fields.String() + `"n":1}}`, 400, "rate.3e8", "is one field too many; an object may have 1000"},
	} {
		body := packed(t, try.body)
		var status int
		var p server.Problem
		times, size := allocated(func() {
			status, p = problem(t, postPacked(t, try.method, url+try.path, "application/json", body))
		})
		name := try.method + " " + try.path + " " + try.body[:12]
		if status != try.status || p.Field != try.field || !strings.HasPrefix(p.Reason, try.reason) {
			t.Errorf("%s: %d %+v", name, status, p)
		}
		if times > items/100 || size > uint64(20*len(try.body)) {
			t.Errorf("%s: %d allocations, %d bytes for a body of %d", name, times, size, len(try.body))
		}
	}
}

// The search for nulls reads each level of an object again, so it must not go as deep as a client's object does.
func TestDeepObjectsAreNotReadOnceForEachLevel(t *testing.T) {
	_, url := start(t, onSQLite(t), server.Options{})
	text := `{"rate":` + strings.Repeat(`{"n":`, 500) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 501)
	body := packed(t, text)
	times, size := allocated(func() {
		if status, p := problem(t, postPacked(t, "PATCH", url+"/v1/queues/q?create=true", "application/json", body)); status != 400 || p.Field != "rate.n" {
			t.Errorf("%d %+v", status, p)
		}
	})
	if size > uint64(20*len(text)) {
		t.Errorf("%d allocations, %d bytes for a body of %d", times, size, len(text))
	}
}

// Blank lines are passed over where they are read, not one by one in the goroutine that enqueues.
func TestBlankLinesOfAStreamCostNothing(t *testing.T) {
	_, url := start(t, onSQLite(t), server.Options{})
	const blank = 1 << 20
	body := packed(t, strings.Repeat("\n", blank/2)+strings.Repeat(" \r\n", blank/2)+`{"queue":"q"}`)
	var answers []byte
	times, size := allocated(func() {
		answers = streamed(t, postPacked(t, "POST", url+"/v1/jobs/stream", "application/x-ndjson", body))
	})
	if want := fmt.Sprintf(`{"line":%d,"id":1}`+"\n", blank+1); string(answers) != want {
		t.Errorf("got %s want %s", answers, want)
	}
	if times > blank/100 || size > 16<<20 {
		t.Errorf("%d allocations, %d bytes", times, size)
	}
}

// streamed sends a stream, and returns its answers.
func streamed(t testing.TB, r *http.Request) []byte {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	answers, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", answer.StatusCode, err)
	}
	return answers
}

// Text that a stream throws away takes no memory from the bodies of others, so it does not end the stream either.
func TestWhatAStreamPassesOverTakesNoMemory(t *testing.T) {
	needs.NoRaceDetector(t)
	t.Parallel()
	const most = 8 << 20
	s, url := start(t, onSQLite(t), server.Options{Limits: server.Limits{Bodies: most}})
	text := strings.Repeat("x", 3*most) + "\n" + strings.Repeat(" ", 3*most) + "\n" + strings.Repeat("\n", 3*most) + `{"queue":"q"}`
	answers := strings.Split(string(streamed(t, postPacked(t, "POST", url+"/v1/jobs/stream", "application/x-ndjson", packed(t, text)))), "\n")
	last := fmt.Sprintf(`{"line":%d,"id":1}`, 3+3*most)
	if len(answers) != 4 || !strings.Contains(answers[0], `"status":413`) || !strings.Contains(answers[1], `"status":413`) || answers[2] != last {
		t.Errorf("got %q", answers)
	}
	eventually(t, "no memory is held", func() bool { _, _, bodies := s.InUse(); return bodies == 0 })
}

// endlessly is a body of one byte that goes on for ever. At the third read the client is gone.
type endlessly struct {
	one   byte
	gone  func()
	reads int
}

func (e *endlessly) Read(p []byte) (int, error) {
	if e.reads++; e.reads == 3 {
		e.gone()
	}
	for i := range p {
		p[i] = e.one
	}
	return len(p), nil
}

func TestNobodyReadsAStreamOnWhoseClientIsGone(t *testing.T) {
	t.Parallel()
	for _, one := range []byte{'\n', 'x', ' '} {
		ctx, gone := context.WithCancel(t.Context())
		body := &endlessly{one: one, gone: gone}
		if err := server.ReadLine(ctx, body); !errors.Is(err, io.EOF) || body.reads > 4 {
			t.Errorf("%q: %v after %d reads", one, err, body.reads)
		}
	}
}

func TestABodyThatCannotBeUnpackedIsNamed(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{})
	good := packed(t, `{"queue":"`+strings.Repeat("q", 100)+`"}`)
	damaged := func(at int) []byte {
		b := bytes.Clone(good)
		b[(at+len(b))%len(b)] ^= 0xff
		return b
	}
	for name, body := range map[string][]byte{"no gzip": []byte(`{"queue":"plain"}`), "checksum": damaged(-6), "deflate": damaged(10), "cut off": good[:len(good)-9]} {
		reason := "is not packed with gzip, or damaged"
		if name == "cut off" {
			reason = "is cut off"
		}
		if status, p := problem(t, postPacked(t, "POST", url+"/v1/jobs", "application/json", body)); status != 400 || p.Field != "body" || p.Reason != reason {
			t.Errorf("%s: %d %+v", name, status, p)
		}
		answer := streamed(t, postPacked(t, "POST", url+"/v1/jobs/stream", "application/x-ndjson", body))
		if !strings.Contains(string(answer), `"field":"body","reason":"`+reason+`"`) {
			t.Errorf("a stream, %s: %s", name, answer)
		}
	}
}
