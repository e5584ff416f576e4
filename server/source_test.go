package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// raw sends bytes on a connection of its own, and returns all that is answered until the connection ends, or
// until the answers to that many requests have come.
func raw(t testing.TB, address, request string, answers int) (statuses []int, bodies []string) {
	t.Helper()
	c := dial(t, address)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for len(statuses) < answers {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		statuses, bodies = append(statuses, r.StatusCode), append(bodies, string(body))
	}
	return statuses, bodies
}

// dial connects to the address of a URL. Nothing lasts longer than a test waits for an event.
func dial(t testing.TB, url string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOnlyTheServersOwnHostsAreServed(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{Hosts: []string{"queue.example.com"}})
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost": 200, "localhost.": 200, "localhost:1": 200, "127.0.0.1:7070": 200, "[::1]": 200, "[::1]:80": 200, "192.168.1.7": 200, "[fe80::1%25eth0]:7": 200,
		"queue.example.com": 200, "QUEUE.example.COM.:443": 200,
		"evil.com": 421, "evil.com:7070": 421, "localhost.evil.com": 421, "queue.example.com.evil.com": 421, "xqueue.example.com": 421, "127.0.0.1.nip.io": 421, "localhost..": 421, "127.0.0.1.": 200,
		"": 421, ".": 421, "user@localhost": 400, "localhost/": 400, "[::1": 421, "2130706433": 421, "0x7f.1": 421, "[::1%25evil]": 421,
	} {
		for method, path := range map[string]string{"GET": "/v1/stats", "POST": "/v1/claim"} {
			request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", method, path, host)
			statuses, bodies := raw(t, url, request, 2)
			got := 0
			if len(statuses) == 1 {
				got = statuses[0]
			}
			served := got == want || want == 200 && method == "POST" && got == 415 // the request was accepted up to its body, which is missing
			if !served {
				t.Errorf("%s, Host %q: %v %s, want %d", method, host, statuses, bodies, want)
			}
		}
	}
	for request, want := range map[string]int{
		"GET /v1/stats HTTP/1.0\r\n\r\n":                                                  421, // without a Host
		"GET /healthz HTTP/1.0\r\n\r\n":                                                   200,
		"GET /readyz HTTP/1.1\r\nHost: probe\r\n\r\n":                                     200,
		"GET /v1/stats HTTP/1.1\r\n\r\n":                                                  400,
		"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n\r\n":             400,
		"GET http://evil.com/v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n":                421,
		"GET http://localhost/v1/stats HTTP/1.1\r\nHost: evil.com\r\n\r\n":                200, // the path's host counts, as RFC 9112 has it
		"GET /v1/stats HTTP/1.1\r\nHost: evil.com\r\nX-Forwarded-Host: localhost\r\n\r\n": 421,
	} {
		if statuses, bodies := raw(t, url, request, 1); len(statuses) != 1 || statuses[0] != want {
			t.Errorf("%q: %v %s, want %d", request, statuses, bodies, want)
		}
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{Hosts: []string{"localhost"}})
	address := strings.TrimPrefix(url, "http://")
	for headers, want := range map[string]int{
		"":                           200,
		"Origin: http://" + address:  200,
		"Origin: https://" + address: 200, // a proxy may end TLS
		"Origin: http://evil.com":    403,
		"Origin: null":               403,
		"Origin: http://127.0.0.1":   403, // another port is another origin
		"Origin: http://" + address + ".evil.com":                 403,
		"Origin: file://":                                         403,
		"Sec-Fetch-Site: same-origin":                             200,
		"Sec-Fetch-Site: none":                                    200, // the user has typed the address
		"Sec-Fetch-Site: cross-site":                              403,
		"Sec-Fetch-Site: same-site":                               403,
		"Sec-Fetch-Site: x":                                       403,
		"Sec-Fetch-Site: cross-site\r\nOrigin: http://" + address: 403,
	} {
		if headers != "" {
			headers += "\r\n"
		}
		body := `{"queue":"q","payload":1}`
		for _, request := range []string{
			"GET /v1/stats HTTP/1.1\r\nHost: " + address + "\r\n" + headers + "\r\n",
			fmt.Sprintf("POST /v1/jobs/batch HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n{\"jobs\":[%s]}", address, len(body)+11, headers, body),
		} {
			if statuses, bodies := raw(t, url, request, 1); len(statuses) != 1 || statuses[0] != want {
				t.Errorf("%q: %v %s, want %d", request, statuses, bodies, want)
			}
		}
		preflight := "OPTIONS /v1/jobs HTTP/1.1\r\nHost: " + address + "\r\nAccess-Control-Request-Method: POST\r\n" + headers + "\r\n"
		if statuses, bodies := raw(t, url, preflight, 1); len(statuses) != 1 || statuses[0] < 400 {
			t.Errorf("%q: %v %s", preflight, statuses, bodies)
		}
	}
}

// A body that a form, or a page of another origin, can send without asking first is not accepted as JSON.
func TestBodiesOfFormsAreRefused(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{})
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/json;;", "application/x-ndjson"} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/jobs", strings.NewReader(`{"queue":"q"}`))
		if err != nil {
			t.Fatal(err)
		}
		if request.Header.Set("Content-Type", media); media == "" {
			request.Header.Del("Content-Type")
		}
		if status, p := problem(t, request); status != http.StatusUnsupportedMediaType || !strings.HasSuffix(p.Type, "wrong-media-type") {
			t.Errorf("%q: %d %+v", media, status, p)
		}
	}
}

// problem sends a request, and reads the answer as a problem unless it is good.
func problem(t testing.TB, r *http.Request) (int, server.Problem) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var p server.Problem
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode >= 300 {
		if err := json.Unmarshal(body, &p); err != nil || p.Status != answer.StatusCode || answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s is no problem: %v", r.Method, r.URL, answer.StatusCode, body, err)
		}
	}
	return answer.StatusCode, p
}

func TestWithoutTokensNoProxyIsServed(t *testing.T) {
	t.Parallel()
	_, url := start(t, onSQLite(t), server.Options{NoProxy: true})
	for _, name := range []string{
		"Forwarded", "X-Forwarded-For", "x-forwarded-host", "X-Real-IP", "Via", "X-Forwarded", "X-Forwarded-Proto", "X-Forwarded-Port", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP",
	} {
		request := "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n" + name + ": x\r\n\r\n"
		if statuses, _ := raw(t, url, request, 1); len(statuses) != 1 || statuses[0] != http.StatusForbidden {
			t.Errorf("%s: %v", name, statuses)
		}
	}
}

// A request has one name: in the answer, in its problem and in the log. No log holds a token, or what could be
// taken for a line of its own.
func TestRequestsHaveNamesAndTheLogHasNoSecrets(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	var log buffer
	secret, line, err := server.NewToken("boss", "admin")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := server.ParseTokens(line)
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Tokens: tokens}
	o.Log.Info("options", "tokens", tokens, "options", o)
	_, url := start(t, onSQLite(t), o)
	wrong := "S3CRET" + strings.Repeat("x", 30)
	for _, given := range []string{"", "mine-1.2_3", "two words", strings.Repeat("x", 65), "a\tb", "<b>"} {
		for _, token := range []string{secret, wrong} {
			headers := "Authorization: Bearer " + token + "\r\n"
			if given != "" {
				headers += "X-Request-Id: " + given + "\r\n"
			}
			r := "GET /v1/jobs/5?q=S3CRET HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n"
			c := dial(t, url)
			if _, err := io.WriteString(c, r); err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(c)
			c.Close()
			if err != nil {
				t.Fatal(err)
			}
			named := regexp.MustCompile(`X-Request-Id: (\S+)\r\n`).FindSubmatch(text)
			if named == nil || !bytes.Contains(text, append([]byte(`"instance":"urn:dibs:request:`), named[1]...)) || !strings.Contains(log.String(), "id="+string(named[1])) {
				t.Fatalf("%q: %s\n%s", given, text, log.String())
			}
			if sane := given == "mine-1.2_3"; sane != (string(named[1]) == given) {
				t.Errorf("a request named %q has the name %s", given, named[1])
			}
			if strings.Contains(string(text), "S3CRET") || strings.Contains(string(text), secret) {
				t.Errorf("the answer holds a token: %s", text)
			}
		}
	}
	text := log.String()
	if strings.Contains(text, "S3CRET") || strings.Contains(text, secret) || strings.Contains(text, secret[10:]) || strings.Contains(text, strings.Fields(line)[1]) {
		t.Errorf("the log holds a token: %s", text)
	}
	if !strings.Contains(text, "token=boss") || !strings.Contains(text, `route="GET /v1/jobs/{id}"`) || strings.Contains(text, "/v1/jobs/5") {
		t.Errorf("the log lacks who, or has the path: %s", text)
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
