package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// guests is a roster, and the register that it writes.
type guests struct {
	*testing.T
	*server.Roster
	now    time.Time
	fails  error
	calls  int
	listed map[dibs.Token]dibs.WorkerInfo
}

func newGuests(t *testing.T) *guests {
	g := &guests{T: t, now: time.Now(), listed: map[dibs.Token]dibs.WorkerInfo{}}
	g.Roster = server.NewRoster(func(list []dibs.WorkerInfo) error {
		g.calls++
		for _, w := range list {
			switch {
			case g.fails != nil:
			case w.State == dibs.WorkerStopped:
				delete(g.listed, w.ID)
			default:
				g.listed[w.ID] = w
			}
		}
		return g.fails
	})
	return g
}

// after lets time pass, and returns how the clients are listed then.
func (g *guests) after(d time.Duration) string {
	g.Helper()
	g.now = g.now.Add(d)
	if err := g.Tell(g.now); !errors.Is(err, g.fails) {
		g.Fatal(err)
	}
	var lines []string
	for _, w := range g.listed {
		lines = append(lines, fmt.Sprintf("%s@%s %s %v %v %d", w.Name, w.Host, w.State, w.Queues, w.Kinds, w.Concurrency))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func (g *guests) expect(what, got, want string) {
	g.Helper()
	if got != want {
		g.Errorf("%s: it lists %q, want %q", what, got, want)
	}
}

// claim begins a claim from an address, and returns what ends it.
func (g *guests) claim(from string, c dibs.ClaimRequest) func(...*dibs.RawJob) {
	end := g.Claims(&http.Request{RemoteAddr: from + ":7"}, c)
	return func(jobs ...*dibs.RawJob) { end(jobs, g.now) }
}

func held(id int64, lease time.Duration) *dibs.RawJob {
	j := &dibs.RawJob{ID: id, Token: dibs.Token{byte(id)}}
	j.ClaimedAt = time.Unix(1000, 0) // the database's clock may be another
	j.LeaseUntil = j.ClaimedAt.Add(lease)
	return j
}

func TestAClientIsListedWhileItWaitsOrHoldsALease(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	g.expect("before any claim", g.after(0), "")
	end := g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2, Kinds: []string{"k"}})
	const w = "w@h working [q] [k] 2"
	g.expect("a client that waits", g.after(0), w)
	g.expect("one that waits for long", g.after(time.Hour), w)
	job := held(1, time.Minute)
	end(job)
	g.expect("one that holds a lease", g.after(59*time.Second), w)
	lease := dibs.Lease{ID: job.ID, Token: job.Token}
	g.Extended(lease, time.Minute, g.now)
	g.expect("one whose lease was extended", g.after(59*time.Second), w)
	g.Ended(job.ID, job.Token)
	g.expect("one that has finished its job long after its claim", g.after(0), "")
	g.Extended(lease, time.Minute, g.now)
	g.expect("after a call on a lease that is held no longer", g.after(0), "")

	g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2})()
	g.expect("one that has claimed in vain", g.after(dibs.WorkerLostAfter-time.Second), "w@h working [q] [] 2")
	g.expect("one that has not claimed for half a minute", g.after(time.Second), "")
	g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2})(held(2, time.Minute))
	g.expect("one that holds a lease again", g.after(time.Minute), "w@h working [q] [] 2")
	g.expect("one whose lease has ended", g.after(tellAll), "")
}

const tellAll = 11 * time.Second // after this time all clients are registered again

func TestClientsAreListedWithAllThatTheyAskFor(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	first := g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Kinds: []string{"b", "a"}})
	g.claim("h", dibs.ClaimRequest{Queue: "r", Worker: "w", N: 3, Kinds: []string{"c", "a"}})(held(1, time.Hour), held(2, time.Hour))
	g.claim("i", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "v", N: 1})
	g.expect("three clients", g.after(0), "v@h working [q] [] 1; w@h working [q r] [a b c] 4; w@i working [q] [] 1")
	first(held(3, time.Hour))
	g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2, Kinds: []string{"c", "a"}})
	g.expect("one that holds three and asks for two", g.after(0), "v@h working [q] [] 1; w@h working [q r] [a b c] 5; w@i working [q] [] 1")
	g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Kinds: []string{"a"}})
	g.expect("one that also takes all kinds", g.after(0), "v@h working [q] [] 1; w@h working [q r] [] 7; w@i working [q] [] 1")
}

func TestAFewCallsTellOfAllClients(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	for i := range server.MaxClients + 10 {
		g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: fmt.Sprint("w", i), N: 1})
	}
	g.after(0)
	if g.calls != 10 || len(g.listed) != server.MaxClients {
		t.Errorf("%d calls for %d clients, want 10 for %d", g.calls, len(g.listed), server.MaxClients)
	}
	for range 5 {
		g.after(2 * time.Second)
	}
	if g.calls != 20 {
		t.Errorf("%d calls after ten seconds, want 20", g.calls)
	}
}

// What one client asks for makes no large call, and a call that fails keeps no others from the register.
func TestAClientThatAsksForMuchTakesLittle(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	kinds := make([]string, 1000)
	for i := range kinds {
		kinds[i] = fmt.Sprint("kind", i)
	}
	for i := range 100 {
		g.claim("h", dibs.ClaimRequest{Queue: fmt.Sprint("q", i), Worker: "w", N: 1, Kinds: kinds[10*i : 10*i+10]})
	}
	g.after(0)
	for _, w := range g.listed {
		if len(w.Queues) > 50 || w.Kinds != nil {
			t.Errorf("it is listed with %d queues and %d kinds", len(w.Queues), len(w.Kinds))
		}
	}
	g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "v", N: 1, Kinds: kinds})
	if text := g.after(0); !strings.Contains(text, "v@h working [q] [] 1") {
		t.Errorf("one that asks for a thousand kinds is not listed as one for all: %s", text)
	}
}

func TestWhatTheRegisterHasNotHeardIsToldAgain(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	g.fails = errors.New("no answer")
	end := g.claim("h", dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	g.after(0)
	g.fails = nil
	g.expect("a client of which a call failed to tell", g.after(time.Second), "w@h working [q] [] 1")
	end()
	g.fails = errors.New("no answer")
	g.after(time.Minute)
	g.fails = nil
	g.expect("one that has left, of which a call failed to tell", g.after(time.Second), "")
}

func TestClientsAreInTheRegisterOfWorkers(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := onSQLite(t)
	s := closing(t, server.New(db, server.Options{}))
	claimAs(t, s, `{"queue":"q","worker":"w","n":2,"kinds":["k"],"wait":60}`)
	workers := func() []dibs.WorkerInfo {
		list, err := db.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	until(t, "the client is listed", func() bool { return len(workers()) == 1 })
	if w := workers()[0]; w.Name != "w" || w.Host != "192.0.2.1" || w.PID != 0 || w.Version != "http" || w.Concurrency != 2 || !slices.Equal(w.Queues, []string{"q"}) || !slices.Equal(w.Kinds, []string{"k"}) {
		t.Errorf("it is listed as %+v", w)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if list := workers(); len(list) != 0 {
		t.Errorf("after the server has closed %+v are listed", list)
	}
}

// A client that gives its jobs back, or finishes them, holds them no longer.
func TestCallsOverHTTPEndWhatTheRosterKeeps(t *testing.T) {
	t.Parallel()
	db := onSQLite(t)
	enqueue(t, db, dibs.NewJob{Queue: "q", Kind: "k"}, dibs.NewJob{Queue: "q", Kind: "k"})
	s := closing(t, server.New(db, server.Options{}))
	send := func(path, body string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}
	var claimed struct {
		Jobs []struct {
			ID    int64
			Token string
		}
	}
	if err := json.Unmarshal([]byte(send("/v1/claim", `{"queue":"q","worker":"w","n":2,"lease":60}`)), &claimed); err != nil || len(claimed.Jobs) != 2 {
		t.Fatal(claimed, err)
	}
	if n := s.Held(); n != 2 {
		t.Fatalf("it keeps %d leases in mind, want 2", n)
	}
	expect := func(got, want string) {
		if !strings.Contains(got, want) {
			t.Fatalf("it answers %s, want %s", got, want)
		}
	}
	a, b := claimed.Jobs[0], claimed.Jobs[1]
	expect(send("/v1/extend", fmt.Sprintf(`{"leases":[{"id":%d,"token":%q},{"id":%d,"token":%q}],"lease":60}`, a.ID, a.Token, b.ID, strings.Repeat("ab", 16))), `"detail":"1 of 2 leases were not extended"`)
	expect(send("/v1/finish", fmt.Sprintf(`{"outcomes":[{"id":%d,"token":%q,"ending":"completed"}]}`, a.ID, a.Token)), `{"outcomes":[{"id":1}]}`)
	if n := s.Held(); n != 1 {
		t.Errorf("after one is finished it keeps %d leases in mind, want 1", n)
	}
}
