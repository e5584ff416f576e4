package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
)

// BenchmarkHTTP enqueues, and claims and finishes, jobs by the library and over HTTP, with
// different numbers of jobs in a call and of clients at once. The figure is jobs/s.
func BenchmarkHTTP(b *testing.B) {
	for _, name := range []string{"sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			url := open.URL("sqlite:" + filepath.Join(b.TempDir(), "jobs.db"))
			if name == "postgres" {
				url = open.URL(pgtest.URL(b))
				if err := open.Migrate(b.Context(), url, open.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			db := database(b, url)
			web := serve(b, db)
			http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 16
			for _, n := range []int{1, 100} {
				for _, clients := range []int{1, 16} {
					for way, verbs := range map[string]interface {
						enqueue(b *testing.B, n int)
						work(b *testing.B, n int)
					}{"go": library{db}, "http": overHTTP{web}} {
						b.Run(fmt.Sprintf("enqueue/%d-a-call/%d-clients/%s", n, clients, way), func(b *testing.B) { many(b, n, clients, verbs.enqueue) })
						b.Run(fmt.Sprintf("claim-finish/%d-a-call/%d-clients/%s", n, clients, way), func(b *testing.B) {
							many(b, 1000, 1, library{db}.enqueue)
							b.ResetTimer()
							many(b, n, clients, verbs.work)
						})
					}
				}
			}
		})
	}
}

// many has clients make calls until b.N jobs are done.
func many(b *testing.B, n, clients int, call func(*testing.B, int)) {
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	for range clients {
		go func() {
			defer func() { done <- struct{}{} }()
			for left.Add(-int64(n)) > -int64(n) {
				call(b, n)
			}
		}()
	}
	for range clients {
		<-done
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

type library struct{ db admin.Database }

func (l library) enqueue(b *testing.B, n int) {
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Kind: "k", Payload: json.RawMessage(`{"to":"ann@example.com"}`)}
	}
	if _, err := l.db.Enqueue(b.Context(), jobs); err != nil {
		b.Error(err)
	}
}

func (l library) work(b *testing.B, n int) {
	jobs, err := l.db.Claim(b.Context(), dibs.ClaimRequest{Worker: "w", N: n})
	if err != nil {
		b.Error(err)
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
	}
	if err := l.db.Finish(b.Context(), outcomes); err != nil {
		b.Error(err)
	}
}

type overHTTP struct{ url string }

func (h overHTTP) post(b *testing.B, path string, body []byte, answer any) {
	r, err := http.Post(h.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, answer)
	}
	if err != nil || r.StatusCode > 201 {
		b.Error(r.Status, err)
	}
}

func (h overHTTP) enqueue(b *testing.B, n int) {
	const job = `{"kind":"k","payload":{"to":"ann@example.com"}}`
	var answer any
	if n == 1 {
		h.post(b, "/v1/jobs", []byte(job), &answer)
		return
	}
	h.post(b, "/v1/jobs/batch", []byte(`{"jobs":[`+string(bytes.Repeat([]byte(job+","), n-1))+job+`]}`), &answer)
}

func (h overHTTP) work(b *testing.B, n int) {
	var claimed struct{ Jobs []dibs.Lease }
	h.post(b, "/v1/claim", fmt.Appendf(nil, `{"worker":"w","n":%d}`, n), &claimed)
	if len(claimed.Jobs) == 0 {
		return
	}
	var body bytes.Buffer
	body.WriteString(`{"outcomes":[`)
	for i, l := range claimed.Jobs {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"id":%d,"token":"%s","ending":"completed"}`, l.ID, l.Token)
	}
	body.WriteString(`]}`)
	var answer any
	h.post(b, "/v1/finish", body.Bytes(), &answer)
}
