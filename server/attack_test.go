package server_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// broken are bodies that no route takes. Each is a client's mistake, and says so.
var broken = map[string]string{
	"empty":            "",
	"nothing":          " \n\t",
	"null":             "null",
	"a list":           "[]",
	"a string":         `"x"`,
	"cut off":          `{"queue":`,
	"two":              `{}{}`,
	"trailing":         `{} x`,
	"a comma":          `{"queue":"q",}`,
	"single quotes":    `{'queue':'q'}`,
	"a mark":           "\xef\xbb\xbf{}",
	"UTF-16":           "\xff\xfe{\x00}\x00",
	"invalid UTF-8":    "{\"queue\":\"\xff\xfe\"}",
	"half a surrogate": `{"queue":"\ud800"}x`,
	"a NUL":            "{\"queue\":\"a\x00b\"}",
	"deep":             strings.Repeat(`{"payload":`, 200_000) + "1" + strings.Repeat("}", 200_000),
	"deep lists":       `{"payload":` + strings.Repeat("[", 1_000_000),
	"twice":            `{"queue":"a","queue":"b","ids":[1],"ids":[2]}`,
	"another case":     `{"queue":"a","QUEUE":"b","ids":[],"IDS":[]}`,
	"unknown":          `{"nobody_knows":1}`,
	"huge":             `{"priority":1e999,"n":1e999,"ids":[1e999],"older_than":1e999,"concurrency":1e999,"lease":1e999,"limit":1e999,"paused":1e999}`,
	"long numbers":     `{"priority":` + strings.Repeat("9", 100_000) + `}`,
	"NaN":              `{"priority":NaN}`,
	"HTML":             "<html>",
	"prototype":        `{"__proto__":{"admin":true}}`,
}

func TestMalformedBodiesAreTheClientsMistake(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		s, url := start(t, db, server.Options{})
		for _, rt := range s.Routes() {
			sample := samples[rt.Method+" "+rt.Pattern]
			if sample.body == "" || strings.HasSuffix(rt.Pattern, "/stream") {
				continue
			}
			for name, body := range broken {
				r, err := http.NewRequestWithContext(t.Context(), rt.Method, url+nowhere.Replace(sample.path), strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				if status, p := problem(t, r); status < 400 || status >= 500 || p.Detail == "" && p.Field == "" {
					t.Errorf("%s %s, %s: %d %+v", rt.Method, rt.Pattern, name, status, p)
				} else if len(p.Detail) > 2000 {
					t.Errorf("%s %s, %s: a text of %d bytes", rt.Method, rt.Pattern, name, len(p.Detail))
				}
			}
		}
		var lines bytes.Buffer
		for _, body := range broken {
			lines.WriteString(strings.ReplaceAll(body, "\n", " ") + "\n")
		}
		lines.WriteString(`{"queue":"good"}` + "\n")
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/jobs/stream", &lines)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-ndjson")
		if status, _ := problem(t, r); status != 200 {
			t.Errorf("a stream: %d", status)
		}
		if page, err := db.List(t.Context(), admin.Filter{}); err != nil || len(page.Jobs) != 1 || page.Jobs[0].Queue != "good" {
			t.Errorf("stored: %+v, %v", page.Jobs, err)
		}
	})
}

// Any printable name is a name, also with what means something in a path.
func TestNamesInPathsAreWhatTheyAre(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		_, server := start(t, db, server.Options{})
		// The names / and . and .. alone mean other things in a path, and cannot be named there.
		names := []string{"a/b", "//", "/.", "../stats", "a/../b", "%2F", "%", "a b", "a+b", "a?b=c", "a#b", "a;b", "a:b", "ä/ö", "日本/語", "groups", "q/groups/g", "*", "{queue}", `\`, `"`, "<b>", strings.Repeat("/", 255)}
		for i, name := range names {
			at := server + "/v1/queues/" + url.PathEscape(name)
			if status, _, body := call(t, "PATCH", at+"?create=true", fmt.Sprintf(`{"concurrency":%d}`, i+1)); status != 200 {
				t.Errorf("%q: %d %s", name, status, body)
				continue
			}
			if status, _, body := call(t, "PATCH", at+"/groups/"+url.PathEscape(name), `{"limit":2}`); status != 200 {
				t.Errorf("the group %q: %d %s", name, status, body)
			}
			groups, err := db.Groups(t.Context(), name)
			if err != nil || len(groups) != 1 || groups[0].Name != name {
				t.Errorf("%q has the groups %v, %v", name, groups, err)
			}
		}
		queues, err := db.Queues(t.Context())
		if err != nil || len(queues) != len(names) {
			t.Errorf("there are %d queues, %v", len(queues), err)
		}
		for _, q := range queues {
			if q.Concurrency < 1 || names[q.Concurrency-1] != q.Name {
				t.Errorf("%q has become %q", names[q.Concurrency-1], q.Name)
			}
		}
	})
}

// Paths that only look like one of a route are none. None is redirected, as a client or a proxy might follow it
// to somewhere else.
func TestPathsAreNotGuessed(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	_, address := start(t, db, server.Options{})
	for _, path := range []string{
		"//v1/stats", "/v1//stats", "/v1/./stats", "/v1/../v1/stats", "/v1/stats/", "/v1/stats/..", "/v1/jobs/../stats", "/%2e%2e/v1/stats", "/v1/%2e/stats", "/v1%2fstats", "/v1/stats%00", "/v1/stats%20",
		"/V1/stats", "/v1/Stats", "/v1/stats;x=1", "/v1/jobs/1/", "/v1/jobs/1%2fwait", "/v1/jobs/%31%2e%2e", "/v1/queues/", "/v1/queues//groups", "/v1", "/v2/stats", "/debug/pprof/", "/debug/vars", "/metrics", "/.git/config", "/v1/queues/" + strings.Repeat("x", 4000) + "/x",
		"/v1/jobs/..%2f..%2fstats", "/v1/jobs/0", "/v1/jobs/-1", "/v1/jobs/1e3", "/v1/jobs/9223372036854775808", "/v1/jobs/0x1", "/v1/jobs/+1", "/v1/jobs/%201",
	} {
		statuses, bodies := raw(t, address, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 2)
		if len(statuses) != 1 || statuses[0] < 400 || statuses[0] >= 500 {
			t.Errorf("%q: %v %s", path, statuses, bodies)
		}
	}
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		statuses, bodies := raw(t, address, "POST /v1/schedules/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"+name+": DELETE\r\nConnection: close\r\n\r\n", 2)
		if len(statuses) != 1 || statuses[0] != http.StatusMethodNotAllowed {
			t.Errorf("%s: %v %s", name, statuses, bodies)
		}
	}
	for _, request := range []string{"TRACE /v1/stats", "CONNECT /v1/stats", "CONNECT localhost:7070", "OPTIONS *", "PRI *", "DELETE /v1/stats", strings.Repeat("X", 5000) + " /v1/stats", "get /v1/stats"} {
		statuses, bodies := raw(t, address, request+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 2)
		if len(statuses) != 1 || statuses[0] < 400 || statuses[0] >= 500 {
			if request == "OPTIONS *" && len(statuses) == 1 && statuses[0] == 200 {
				continue // net/http answers such a request by itself, with an empty body
			}
			t.Errorf("%.20q: %v %s", request, statuses, bodies)
		}
	}
}

// Where a proxy and the server disagree on where a request ends, a part of its body becomes a request of
// somebody else. So the second request below must never be answered.
func TestNoRequestHidesInAnother(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	_, address := start(t, db, server.Options{})
	hidden := "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n{\"queue\":\"hidden\"}"
	head := "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
	for name, request := range map[string]string{
		"both, the length short":   head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"both, the other order":    head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":              head + "Content-Length: 2\r\nContent-Length: 200\r\n\r\n{}" + hidden,
		"two lengths in one":       head + "Content-Length: 2, 200\r\n\r\n{}" + hidden,
		"a signed length":          head + "Content-Length: +2\r\n\r\n{}" + hidden,
		"a negative length":        head + "Content-Length: -1\r\n\r\n" + hidden,
		"a length in hexadecimals": head + "Content-Length: 0x2\r\n\r\n{}" + hidden,
		"another coding":           head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"two codings":              head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden,
		"chunked twice":            head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a blank before the colon": head + "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"a folded header":          head + "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"a bare line feed":         head + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a vertical tab":           head + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"an extension":             head + "Transfer-Encoding: chunked\r\n\r\n0;x=\n\r\n\r\n" + hidden,
		"HTTP/1.0 and chunks":      strings.Replace(head, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a length of GET":          "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" + hidden,
	} {
		if statuses, bodies := raw(t, address, request, 3); len(statuses) > 1 {
			t.Errorf("%s: %v %s", name, statuses, bodies)
		}
	}
	if page, err := db.List(t.Context(), admin.Filter{Queue: "hidden"}); err != nil || len(page.Jobs) > 0 {
		t.Errorf("a hidden request was served: %d jobs, %v", len(page.Jobs), err)
	}
}

func TestHeadersAreLimited(t *testing.T) {
	t.Parallel()
	_, address := start(t, onSQLite(t), server.Options{})
	for name, headers := range map[string]string{
		"a long one": "X: " + strings.Repeat("x", 1<<20) + "\r\n",
		"many":       strings.Repeat("X: y\r\n", 100_000),
		"many names": func() string {
			var b strings.Builder
			for i := range 100_000 {
				fmt.Fprintf(&b, "X-%d: y\r\n", i)
			}
			return b.String()
		}(),
	} {
		c := dial(t, address)
		_, err := c.Write([]byte("GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n"))
		one := make([]byte, 12)
		if n, _ := c.Read(one); err == nil && string(one[:n]) != "HTTP/1.1 431" { // the connection may have been closed before all was sent
			t.Errorf("%s: %s", name, one[:n])
		}
		c.Close()
	}
}

// Streams that are begun and broken off at once cost the server no more than those that it serves.
func TestRapidResetsOverHTTP2(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := onSQLite(t)
	s := server.New(db, server.Options{})
	web := s.HTTPServer()
	web.TLSConfig = httptestConfig()
	url := "https://" + run(t, s, web)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true} // the certificate is the test's own
	defer transport.CloseIdleConnections()
	for range 20 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/stats", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.ProtoMajor != 2 || answer.StatusCode != 200 {
			t.Fatalf("%s %d", answer.Proto, answer.StatusCode)
		}
		reset(t, transport, url, 200)
	}
	eventually(t, "all are given up", func() bool { requests, waiting, _ := s.InUse(); return requests == 0 && waiting == 0 })
}

func httptestConfig() *tls.Config {
	h := httptest.NewUnstartedServer(nil)
	h.EnableHTTP2 = true
	h.StartTLS()
	defer h.Close()
	return h.TLS.Clone()
}
