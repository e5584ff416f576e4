package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// Any bytes that net/http takes for a request are answered: never with a panic, never as a mistake of the server,
// and with JSON, which is a problem if the request was not good.
func FuzzRequest(f *testing.F) {
	db := onSQLite(f)
	s := server.New(db, server.Options{Hosts: []string{"localhost"}})
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	for _, rt := range s.Routes() {
		sample := samples[rt.Method+" "+rt.Pattern]
		media := "application/json"
		if strings.HasSuffix(rt.Pattern, "/stream") {
			media = "application/x-ndjson"
		}
		for _, body := range []string{nowhere.Replace(sample.body), "", "{}", `{"ids":[1,"2"],"queue":"a/b","n":2,"rate":{"n":1,"per":"1m"}}`} {
			f.Add([]byte(rt.Method + " " + nowhere.Replace(sample.path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + media + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body))
		}
	}
	for _, body := range broken {
		if len(body) < 1000 {
			f.Add([]byte("POST /v1/jobs/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(body)), 16) + "\r\n" + body + "\r\n0\r\n\r\n"))
		}
	}
	f.Add([]byte("GET /v1/queues/%2e%2e HTTP/1.1\r\nHost: evil.com\r\nOrigin: null\r\nX-Request-Id: \x7f\r\n\r\n"))
	f.Add([]byte("GET /v1/jobs?queue=%ff&limit=1e9&after=x;y HTTP/1.0\r\nHost: [::1]:7\r\nAccept-Encoding: gzip;q=\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // some calls wait
		defer cancel()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(ctx))
		_, _ = io.Copy(io.Discard, r.Body) // reads the rest, as net/http does
		judge(t, raw, w, ctx.Err())
	})
}

func judge(t *testing.T, raw []byte, w *httptest.ResponseRecorder, over error) {
	t.Helper()
	late := errors.Is(over, context.DeadlineExceeded)
	switch media := w.Header().Get("Content-Type"); {
	case w.Code >= 500 && !late:
		t.Errorf("%q: %d %s", raw, w.Code, w.Body)
	case w.Code == http.StatusNoContent, late && w.Body.Len() == 0:
	case media == "application/x-ndjson":
		for line := range bytes.Lines(w.Body.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("%q: %s", raw, line)
			}
		}
	case w.Code < 300 && (media != "application/json" || !json.Valid(w.Body.Bytes())):
		t.Errorf("%q: %d %s %s", raw, w.Code, media, w.Body)
	case w.Code >= 300:
		var p server.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || media != "application/problem+json" || p.Status != w.Code || p.Type == "" || p.Instance == "" {
			t.Errorf("%q: %d %s %s", raw, w.Code, media, w.Body)
		}
	}
}

// A list of tokens is read or refused, and what it says of a mistake holds nothing of the list but the names of queues.
func FuzzTokens(f *testing.F) {
	for _, list := range []string{"a 12345678901234567890 read", "a sha256:" + strings.Repeat("0f", 32) + " enqueue:q,r%20s work", "# x\n\nb 12345678901234567890= admin # y", "a b c", "read a 12345678901234567890"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if _, err := server.ParseTokens(list); err != nil {
			for _, word := range strings.Fields(list) {
				if len(word) >= 20 && !strings.Contains(word, ":") && strings.Contains(err.Error(), word) {
					t.Errorf("%q: the error quotes %q: %v", list, word, err)
				}
			}
		}
	})
}

// The last line of the list of tokens can be deleted, too: then no token is valid.
func TestTheLastTokenCanBeTakenAway(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	token, line, err := server.NewToken("a", "read")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := server.ParseTokens(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url := start(t, onSQLite(t), server.Options{Tokens: tokens})
	for _, want := range []int{200, 401} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/stats", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("the status is %d, want %d", answer.StatusCode, want)
		}
		if err := tokens.Replace("# nobody"); err != nil {
			t.Fatal(err)
		}
	}
}

// Tokens are in no error, however their line is wrong.
func TestMistakesInTheListOfTokensQuoteNone(t *testing.T) {
	t.Parallel()
	const secret = "S3CRET-12345678901234567890"
	for _, list := range []string{
		secret, secret + " read", "a " + secret, secret + " a read", "a read " + secret, "a " + secret + " " + secret, "a " + secret + " read read", "a " + secret + "! read", "a " + secret + " read:",
		"a " + secret + " read\na other-token-1234567890 read", "a " + secret + " read\nb " + secret + " read", "a sha256:" + secret + " read", secret + ": a b", "a " + strings.Repeat(secret, 30) + " read",
		"a " + secret + " read:%", "a " + secret + " " + secret + ":q", "", "# " + secret, "a " + secret[:19] + " read",
	} {
		if _, err := server.ParseTokens(list); err == nil || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%q: %v", list, err)
		}
	}
	good, err := server.ParseTokens("a " + secret + " read:a%20b,c%2Cd work # a comment\r\n\n# another\n b sha256:" + strings.Repeat("AB", 32) + "\tadmin\n")
	if err != nil || good == nil {
		t.Error(err)
	}
	if err := good.Replace("x"); err == nil {
		t.Error("a broken list is taken")
	}
	for _, bad := range [][]string{{}, {"x"}, {"read:"}, {"read:a b"}, {"read", "read:q"}, {"read\nboss sha256:x admin"}, {"#", "read"}, {"read:\x00"}} {
		if token, line, err := server.NewToken("a", bad...); err == nil {
			t.Errorf("%q: %s, %s", bad, token, line)
		}
	}
}
