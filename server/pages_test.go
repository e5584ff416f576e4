package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/server"
)

// Where there are as many queues as the server allows, a request makes no other, on any way; it may use those that there are.
func TestRequestsMakeNoQueuesBeyondTheLimit(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		h := httptest.NewServer(closing(t, server.New(db, server.Options{Limits: server.Limits{Queues: 3}})))
		defer h.Close()
		post := func(method, path, body string, want int, text string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if strings.HasSuffix(path, "/stream") {
				r.Header.Set("Content-Type", "application/x-ndjson")
			}
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			answer, _ := io.ReadAll(a.Body)
			if a.StatusCode != want || !strings.Contains(string(answer), text) {
				t.Errorf("%s %s %s: %d %s", method, path, body, a.StatusCode, answer)
			}
		}
		const refused = "--max-queues"
		post("POST", "/v1/jobs", `{"queue":"a"}`, 201, "")
		post("POST", "/v1/jobs/batch", `{"jobs":[{"queue":"b"},{"queue":"c"},{"queue":"d"}]}`, 422, refused)
		post("POST", "/v1/jobs/batch", `{"jobs":[{"queue":"b"},{"queue":"c"},{"queue":"a"}]}`, 200, "")
		post("POST", "/v1/jobs", `{"queue":"d"}`, 422, refused)
		post("POST", "/v1/jobs/stream", `{"queue":"d"}`+"\n", 200, refused)
		post("PATCH", "/v1/queues/d?create=true", `{"strict":true}`, 422, refused)
		post("POST", "/v1/jobs", `{"queue":"b"}`, 201, "")
		post("PATCH", "/v1/queues/c?create=true", `{"strict":true}`, 200, "")
		queues, err := db.Queues(t.Context())
		if err != nil || len(queues) != 3 {
			t.Errorf("%d queues, %v", len(queues), err)
		}
	})
}

// Lists of many queues come in pages, and statistics of one queue alone.
func TestQueuesAndStatisticsComeInPages(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		want := []string{"a", "b/c", "d", "e", "ä"}
		for _, name := range want {
			if _, err := db.ChangeQueue(t.Context(), name, dibs.QueueChange{}.Apply); err != nil {
				t.Fatal(err)
			}
		}
		address := serve(t, db)
		list := func(query string) (names []string, next string, status int) {
			a, err := http.Get(address + query)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			var body struct {
				Queues []struct{ Name string }
				Stats  []struct{ Queue string }
				Next   string
			}
			if err := json.NewDecoder(a.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			for _, q := range body.Queues {
				names = append(names, q.Name)
			}
			for _, q := range body.Stats {
				names = append(names, q.Queue)
			}
			return names, body.Next, a.StatusCode
		}
		for _, path := range []string{"/v1/queues", "/v1/stats"} {
			var all []string
			pages, next := 1, ""
			for {
				var part []string
				part, next, _ = list(path + "?limit=2&after=" + url.QueryEscape(next))
				if all = append(all, part...); next == "" {
					break
				}
				pages++
			}
			if !slices.Equal(all, want) || pages != 3 {
				t.Errorf("%s has %q in %d pages", path, all, pages)
			}
			if all, next, _ := list(path); !slices.Equal(all, want) || next != "" {
				t.Errorf("%s has %q without pages, and %q is next", path, all, next)
			}
			for _, bad := range []string{"?limit=0", "?limit=1001", "?limit=x"} {
				if _, _, status := list(path + bad); status != http.StatusUnprocessableEntity {
					t.Errorf("%s gives %d", path+bad, status)
				}
			}
		}
		if one, next, _ := list("/v1/stats?queue=b%2Fc"); !slices.Equal(one, []string{"b/c"}) || next != "" {
			t.Errorf("statistics of one queue: %q, and %q is next", one, next)
		}
		if none, _, status := list("/v1/stats?queue=none"); len(none) > 0 || status != http.StatusOK {
			t.Errorf("statistics of no queue: %q, %d", none, status)
		}
	})
}
