package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the http.Server's own time is a minute
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
