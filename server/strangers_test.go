package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
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

// Clients without a token that send their forms slowly, on as many connections as they like, take no place from those
// that have one, nor do they make the server unready.
func TestStrangersTakeNoPlacesFromTokens(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	g := &guarded{t: t, db: onSQLite(t), list: &strings.Builder{}}
	token := g.token("ann", "admin")
	g.server, g.url = start(t, g.db, server.Options{Tokens: g.tokens, Limits: server.Limits{Requests: 8}})
	ann := newBrowser(t, g.url)
	ann.send("/login", "token", token, "back", "/keys")
	for range 20 {
		slowForm(t, g.url)
	}
	eventually(t, "no more of them are served", func() bool {
		status, _, _ := call(t, "GET", g.url+"/login", "")
		return status == 503
	})
	if status, p := by(t, token, "GET", g.url+"/v1/stats", ""); status != 200 {
		t.Errorf("a request with a token: %d %+v", status, p)
	}
	for _, path := range []string{"/", "/page.css", "/page.js"} {
		a, err := ann.Get(g.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if a.Body.Close(); a.StatusCode != 200 {
			t.Errorf("%s for a viewer who is logged in: %s", path, a.Status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _, body := call(t, "GET", g.url+path, ""); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// slowForm begins to log in, and does not go on until the test ends.
func slowForm(t *testing.T, url string) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	const begun = "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken="
	if _, err := io.WriteString(c, begun); err != nil {
		t.Fatal(err)
	}
}

// A form that comes too slowly is refused, also over HTTP/2, where a deadline of the connection does not end it.
func TestFormsThatComeTooSlowlyAreRefused(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	g := &guarded{t: t, db: onSQLite(t), list: &strings.Builder{}}
	token := g.token("ann", "admin")
	web := server.New(g.db, server.Options{Tokens: g.tokens, Limits: server.Limits{BodyTime: 500 * time.Millisecond}})
	listens := web.HTTPServer()
	listens.Protocols = new(http.Protocols)
	listens.Protocols.SetHTTP1(true)
	listens.Protocols.SetUnencryptedHTTP2(true)
	url := "http://" + run(t, web, listens)
	http2 := &http.Transport{Protocols: new(http.Protocols)}
	http2.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(http2.CloseIdleConnections)
	var all sync.WaitGroup
	for name, transport := range map[string]http.RoundTripper{"HTTP/1.1": http.DefaultTransport, "HTTP/2": http2} {
		ann := newBrowser(t, url)
		ann.send("/login", "token", token, "back", "/keys")
		ann.Transport = transport
		for _, path := range []string{"/login", "/queues/q/settings"} {
			all.Go(func() {
				form, rest := io.Pipe()
				defer rest.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the http.Server itself would wait for a minute
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, form)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Sec-Fetch-Site", "same-origin")
				go func() { _, _ = io.WriteString(rest, "token=") }()
				a, err := ann.Do(r)
				if err != nil {
					t.Errorf("%s over %s: %v", path, name, err)
					return
				}
				defer a.Body.Close()
				if a.StatusCode != http.StatusBadRequest {
					t.Errorf("%s over %s: %s", path, name, a.Status)
				}
			})
		}
	}
	all.Wait()
}

// The body of a claim that waits takes no memory from the bodies of others.
func TestAWaitingClaimGivesBackTheMemoryOfItsBody(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	const counted = 100 << 10 // bytes of a body that Limits.Bodies counts
	padding := strings.Repeat(" ", 64<<10+counted)
	s, url := start(t, onSQLite(t), server.Options{Limits: server.Limits{Bodies: counted * 3 / 2}})
	var claims sync.WaitGroup
	claims.Go(func() {
		if status, _, body := call(t, "POST", url+"/v1/claim", `{"queue":"q","worker":"w","wait":60}`+padding); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	})
	eventually(t, "it waits", func() bool { _, waiting, _ := s.InUse(); return waiting == 1 })
	if status, _, body := call(t, "POST", url+"/v1/jobs", `{"queue":"q"}`+padding); status != 201 && status != 200 {
		t.Errorf("another's body: %d %s", status, body)
	}
	claims.Wait()
}

// searched is a database in which searches for a text take until its gate is closed.
type searched struct {
	admin.Database
	gate  chan struct{}
	begun atomic.Int64
}

func (s *searched) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	if f.Payload != "" {
		s.begun.Add(1)
		<-s.gate
	}
	return s.Database.List(ctx, f)
}

// The slow searches of some tokens leave places for what others look at, and for their own quick looks.
func TestSlowSearchesOfOneTokenHoldUpNobody(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := &searched{Database: onSQLite(t), gate: make(chan struct{})}
	id := enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k"})[0]
	g := &guarded{t: t, db: db, list: &strings.Builder{}}
	tokens := []string{g.token("ann", "read"), g.token("bob", "read"), g.token("eve", "read")}
	g.server, g.url = start(t, db, server.Options{Tokens: g.tokens})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if status, p := by(t, tokens[i%2], "GET", g.url+"/v1/jobs?payload=x", ""); status != 200 {
				t.Errorf("a search: %d %+v", status, p)
			}
		})
	}
	eventually(t, "two search, and all others are there", func() bool {
		requests, _, _ := g.server.InUse()
		return requests == 20 && db.begun.Load() == 2
	})
	for i, token := range tokens {
		for _, path := range []string{fmt.Sprint("/v1/jobs/", id), "/v1/jobs", "/v1/queues/q/groups"} {
			if status, p := by(t, token, "GET", g.url+path, ""); status != 200 {
				t.Errorf("token %d, %s: %d %+v", i, path, status, p)
			}
		}
	}
	close(db.gate)
	all.Wait()
}
