package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// hostile is a client that means ill, or only does much, with a token for one queue or none.
type hostile struct {
	testing.TB
	ctx    context.Context
	db     admin.Database
	web    *http.Client
	url    string
	token  string
	ids    []int64 // jobs of its queue
	many   int     // connections and waiting calls that it opens
	loops  int     // loops of calls that it makes at once
	calls  *sync.WaitGroup
	opened []net.Conn
}

// hostilePatterns are what one client may do to take from the others. Each begins, and goes on until the context ends.
var hostilePatterns = map[string]func(h *hostile){
	"forms that stop halfway": func(h *hostile) {
		h.token = ""
		h.halfway("POST /login", "application/x-www-form-urlencoded", "token=")
	},
	"requests without a token": func(h *hostile) { h.token = ""; h.repeat("GET", "/v1/stats", "") },
	"wrong tokens":             func(h *hostile) { h.token = strings.Repeat("x", 40); h.repeat("GET", "/v1/stats", "") },
	"headers that stop halfway": func(h *hostile) {
		h.open("GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nX-A: ")
	},
	"bodies that stop halfway":  func(h *hostile) { h.halfway("POST /v1/jobs", "application/json", `{"kind":"`) },
	"streams that stop halfway": func(h *hostile) { h.halfway("POST /v1/jobs/stream", "application/x-ndjson", `{"kind":"`) },
	"streams that flow": func(h *hostile) {
		h.repeat("POST", "/v1/jobs/stream", strings.Repeat(`{"queue":"m","kind":"k"}`+"\n", 1000))
	},
	"large bodies": func(h *hostile) {
		h.repeat("POST", "/v1/jobs", `{"queue":"m","kind":"k","payload":"`+strings.Repeat("x", 8<<20)+`"}`)
	},
	"packed bodies": func(h *hostile) {
		body := packed(h, `{"queue":"m","kind":"k","payload":"`+strings.Repeat("x", 64<<20)+`"}`)
		h.loop(func() { _, _ = h.send(postPacked(h, "POST", h.url+"/v1/jobs", "application/json", body)) })
	},
	"deep bodies": func(h *hostile) {
		h.repeat("POST", "/v1/jobs", `{"queue":"m","kind":"k","payload":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+`}`)
	},
	"bodies of nothing but fields": func(h *hostile) {
		h.repeat("POST", "/v1/jobs", `{`+strings.Repeat(`"a":1,`, 1<<19)+`"b":1}`)
	},
	"answers that are not read": func(h *hostile) {
		h.open(h.head("GET /v1/jobs?queue=m&limit=100") + "\r\n")
	},
	"lists of large jobs":     func(h *hostile) { h.repeat("GET", "/v1/jobs?queue=m&limit=100", "") },
	"searches of payloads":    func(h *hostile) { h.repeat("GET", "/v1/jobs?queue=m&payload=nowhere", "") },
	"statistics":              func(h *hostile) { h.repeat("GET", "/v1/stats", "") },
	"a look at each schedule": func(h *hostile) { h.repeat("GET", "/v1/schedules", "") },
	"claims that wait for many kinds": func(h *hostile) {
		for i := range h.many {
			h.wait("POST", "/v1/claim", claimOfKinds(i, 240))
		}
		h.loop(func() {
			_, _ = h.call("POST", "/v1/jobs", `{"queue":"m","kind":"nobody's"}`)
		})
	},
	"claims that wait with large bodies": func(h *hostile) {
		for i := range h.many {
			h.wait("POST", "/v1/claim", claimOfKinds(i, 1)+strings.Repeat(" ", 1<<20))
		}
	},
	"claims by ever new workers": func(h *hostile) {
		n := make(chan int, 1)
		n <- 0
		h.loop(func() {
			i := <-n
			n <- i + 1
			_, _ = h.call("POST", "/v1/claim", fmt.Sprintf(`{"queue":"m","kinds":["none"],"worker":"w%d"}`, i))
		})
	},
	"extensions of leases that are not there": func(h *hostile) {
		one := `{"id":%d,"token":"` + strings.Repeat("ab", 16) + `"}`
		var all []string
		for i := range dibs.MaxBatch {
			all = append(all, fmt.Sprintf(one, i+1))
		}
		h.repeat("POST", "/v1/extend", `{"lease":60,"leases":[`+strings.Join(all, ",")+`]}`)
	},
	"waits for jobs that do not end": func(h *hostile) {
		for i := range h.many {
			h.wait("GET", fmt.Sprintf("/v1/jobs/%d/wait?timeout=60", h.ids[i%len(h.ids)]), "")
		}
	},
	"paths that lead nowhere": func(h *hostile) { h.repeat("GET", "/v1/"+strings.Repeat("x/", 4000), "") },
}

func claimOfKinds(client, n int) string {
	kinds := make([]string, n)
	for i := range kinds {
		kinds[i] = fmt.Sprintf("\"kind %d of client %d\"", i, client)
	}
	return fmt.Sprintf(`{"queue":"m","worker":"w%d","wait":60,"kinds":[%s]}`, client, strings.Join(kinds, ","))
}

func (h *hostile) head(request string) string {
	return request + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + h.token + "\r\n"
}

// open opens connections, says something on each, and nothing more.
func (h *hostile) open(says string) {
	for range h.many {
		c, err := (&net.Dialer{}).DialContext(h.ctx, "tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			h.Fatal(err)
		}
		h.opened = append(h.opened, c)
		if _, err := io.WriteString(c, says); err != nil {
			h.Fatal(err)
		}
	}
}

// halfway sends requests whose bodies begin only.
func (h *hostile) halfway(request, media, begin string) {
	h.open(fmt.Sprintf("%sContent-Type: %s\r\nContent-Length: 1000\r\n\r\n%s", h.head(request), media, begin))
}

// loop calls f in some goroutines, again and again.
func (h *hostile) loop(f func()) {
	for range h.loops {
		h.calls.Go(func() {
			for h.ctx.Err() == nil {
				f()
			}
		})
	}
}

func (h *hostile) repeat(method, path, body string) {
	h.loop(func() { _, _ = h.call(method, path, body) })
}

// wait makes one call that waits.
func (h *hostile) wait(method, path, body string) {
	h.calls.Go(func() { _, _ = h.call(method, path, body) })
}

func (h *hostile) call(method, path, body string) (int, error) {
	r, err := http.NewRequestWithContext(h.ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if r.Header.Set("Content-Type", "application/json"); strings.HasSuffix(path, "/stream") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	return h.send(r)
}

func (h *hostile) send(r *http.Request) (int, error) {
	if h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	a, err := h.web.Do(r.WithContext(h.ctx))
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, a.Body)
	return a.StatusCode, errors.Join(err, a.Body.Close())
}

// An innocent client works while another one does what it likes. By day all calls of the innocent one are served. At
// night, where nothing else runs, half of its rounds take at most twice their time alone, and half a second more, since the
// hostile client's eight loops compute on the same cores: on two, bodies of 8 MiB take 0.3 s of it.
func TestOneClientTakesLittleFromTheOthers(t *testing.T) {
	needs.Long(t)
	needs.NoRaceDetector(t)
	for name, begin := range hostilePatterns {
		t.Run(name, func(t *testing.T) {
			if !needs.AtNight() {
				t.Parallel()
			}
			beside(t, begin)
		})
	}
}

// beside has an innocent client do rounds alone, and then beside a hostile one.
func beside(t *testing.T, begin func(*hostile)) {
	many, loops, rounds := 40, 2, 10
	if needs.AtNight() {
		many, loops, rounds = 400, 8, 100
	}
	g := &guarded{t: t, db: onSQLite(t), list: &strings.Builder{}}
	ann, mallory := g.token("ann", "enqueue:a", "work:a", "read:a"), g.token("mallory", "enqueue:m", "work:m", "read:m")
	_, g.url = start(t, g.db, server.Options{Tokens: g.tokens})
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	h := &hostile{TB: t, ctx: ctx, db: g.db, url: g.url, token: mallory, many: many, loops: loops, calls: &calls, web: &http.Client{Transport: &http.Transport{}}}
	payload := strings.Repeat("x", 100<<10)
	for i := range 40 {
		h.ids = append(h.ids, enqueue(t, g.db, dibs.NewJob{Queue: "m", Kind: "k", Payload: payload, Delay: time.Hour})...)
		if _, err := g.db.SetSchedule(ctx, dibs.Schedule{Name: fmt.Sprint("s", i), Spec: "every 1h", Kind: "k", Queue: "m", Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	alone := innocent(t, g.url, ann, rounds)
	defer func() {
		cancel()
		for _, c := range h.opened {
			_ = c.Close()
		}
		calls.Wait()
		h.web.CloseIdleConnections()
	}()
	begin(h)
	beside := innocent(t, g.url, ann, rounds)
	t.Logf("a round takes %v alone, %v beside", alone, beside)
	if own := 500 * time.Millisecond; needs.AtNight() && beside > 2*alone+own {
		t.Errorf("a round takes %v, and %v alone", beside, alone)
	}
}

// innocent does rounds of all that a client does, and returns how long half of them took at most.
func innocent(t *testing.T, url, token string, rounds int) time.Duration {
	t.Helper()
	took := make([]time.Duration, rounds)
	send := func(method, path, body string) []byte {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		if err := errors.Join(err, a.Body.Close()); err != nil || a.StatusCode >= 300 {
			t.Fatalf("%s %s: %s %s %v", method, path, a.Status, bytes.TrimSpace(text), err)
		}
		return text
	}
	for i := range took {
		began := time.Now()
		send("POST", "/v1/jobs", `{"queue":"a","kind":"k","payload":"small"}`)
		jobs := jobsOf(t, http.StatusOK, send("POST", "/v1/claim", `{"queue":"a","worker":"ann","lease":600,"wait":60}`))
		if len(jobs) != 1 {
			t.Fatalf("claimed %d jobs, want the one enqueued", len(jobs))
		}
		j := jobs[0]
		send("GET", fmt.Sprintf("/v1/jobs/%d", j.ID), "")
		send("POST", "/v1/finish", fmt.Sprintf(`{"outcomes":[{"id":%d,"token":%q,"ending":"completed"}]}`, j.ID, j.Token))
		send("GET", "/v1/queues/a", "")
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[rounds/2]
}
