package daemon

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

func status(t *testing.T, url string) (code int, text string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(body))
}

// becomes waits until the worker is ready, or not. It has to be live all the time.
func (c *cli) becomes(at string, ready int, words string) {
	c.T.Helper()
	for end := time.Now().Add(clitest.Patience); ; time.Sleep(50 * time.Millisecond) {
		if code, text := status(c.T, at+"/healthz"); code != http.StatusOK {
			c.T.Fatalf("/healthz: %d %s", code, text)
		}
		code, text := status(c.T, at+"/readyz")
		if code == ready && strings.Contains(text, words) {
			return
		}
		if time.Now().After(end) {
			c.T.Fatalf("/readyz stays %d %s, want %d %s", code, text, ready, words)
		}
	}
}

// betweenSignals is more than SecondSignal waits for a signal that belongs to the first.
const betweenSignals = 700 * time.Millisecond

func TestWorkIsLiveButNotReadyWhileTheDatabaseIsAwayOrItStops(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	c := newCLI(t, server.URL())
	c.OK("migrate")
	p := c.Pipe()
	w := c.Process("-q", "q:2", "-q", "r", "--listen", "127.0.0.1:0", "--shutdown", "1h", "--", "sh", "-c", `exec 3>"$0"; echo x >&3; exec sleep 300`, p.Path)
	at := w.Served()
	c.becomes(at, http.StatusOK, "ok")
	server.Stop(pgtest.Fast)
	c.becomes(at, http.StatusServiceUnavailable, "has not answered for")
	server.Start()
	c.becomes(at, http.StatusOK, "ok")
	c.OK("enqueue", "r")
	p.Begun()
	w.Signal(syscall.SIGTERM)
	w.Signal(syscall.SIGTERM) // timeout(1) sends two: they count as one
	c.becomes(at, http.StatusServiceUnavailable, "shutting down")
	time.Sleep(betweenSignals)
	c.becomes(at, http.StatusServiceUnavailable, "shutting down")
	w.Signal(syscall.SIGTERM)
	p.Gone()
}

// Neither a program that ignores signals nor a database that is unreachable keeps a worker from
// ending at the second signal.
func TestWorkEndsAtTheSecondSignalThoughTheDatabaseIsAway(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	c := newCLI(t, server.URL())
	c.OK("migrate")
	p := c.Pipe()
	c.OK("enqueue", "q")
	w := c.Process("q", "--lease", "1h", "--shutdown", "1h", "--", "sh", "-c", stubborn, p.Path)
	p.Begun()
	server.Kill()
	w.Signal(syscall.SIGTERM)
	w.Says("worker stopping")
	time.Sleep(betweenSignals)
	w.Signal(syscall.SIGTERM)
	p.Gone()
	w.Says("outcomes could not be written; their jobs run again when their leases end: 1 (")
	if code := w.Ended(); code != cmdline.ExitInterrupted {
		t.Errorf("dibs work ends with exit code %d", code)
	}
	server.Start()
	c.Has(c.Job(1), object{"state": "running"})
}

// A worker that is about to run is live and not ready; one that has ended is neither.
func TestAWorkerThatDoesNotRunYetIsLive(t *testing.T) {
	t.Parallel()
	h := &healthServer{}
	h.worker.Store(&dibs.Worker{})
	ask := func(page http.Handler) (int, string) {
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		return answer.Code, answer.Body.String()
	}
	live, ready := h.page(nil, h.live), h.page(nil, (*dibs.Worker).Ready)
	if code, text := ask(live); code != http.StatusOK {
		t.Errorf("before it runs, /healthz: %d %s", code, text)
	}
	if code, text := ask(ready); code != http.StatusServiceUnavailable || !strings.Contains(text, "not running") {
		t.Errorf("before it runs, /readyz: %d %s", code, text)
	}
	h.ended.Store(true)
	if code, text := ask(live); code != http.StatusServiceUnavailable || !strings.Contains(text, "not running") {
		t.Errorf("after it has ended, /healthz: %d %s", code, text)
	}
}
