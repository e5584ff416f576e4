package daemon

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
)

// shows waits until a page has all of the lines.
func shows(t *testing.T, url, token string, lines ...string) {
	t.Helper()
	missing := func() (int, string, string) {
		code, text := ask(t, http.DefaultClient, "GET", url, token, "")
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				return code, line, text
			}
		}
		return code, "", text
	}
	for end := time.Now().Add(clitest.Patience); ; time.Sleep(100 * time.Millisecond) {
		code, line, text := missing()
		if code == http.StatusOK && line == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s never has the line %q: %d\n%s", url, line, code, text)
		}
	}
}

func TestWorkServesMetrics(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	onEach(t, func(c *cli) {
		c.OK("enqueue", "mail", "--kind", "welcome")
		w := c.Process("mail", "--listen", "127.0.0.1:0", "--", "true")
		at := w.Served()
		shows(t, at+"/metrics", "",
			"dibs_up 1", `dibs_attempts_total{kind="welcome",outcome="completed",queue="mail"} 1`, `dibs_job_run_seconds_count{kind="welcome",queue="mail"} 1`,
			`dibs_queue_jobs{queue="mail",state="completed"} 1`, `dibs_queue_workers{queue="mail"} 1`, "dibs_worker_concurrency 10", "# TYPE go_goroutines gauge")
		r, err := http.NewRequestWithContext(t.Context(), "GET", at+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example.com"
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("under another name: %d", answer.StatusCode)
		}
		w.Signal(syscall.SIGTERM)
		if code := w.Ended(); code != cmdline.ExitOK {
			t.Errorf("dibs work ends with exit code %d", code)
		}
	})
}

func TestWhoMaySeeTheMetricsOfWork(t *testing.T) {
	c := onSQLite(t)
	file := filepath.Join(t.TempDir(), "tokens.txt")
	all := strings.TrimSpace(c.OK("serve", "token", "prometheus", "--scope", "read", "--tokens", file))
	some := strings.TrimSpace(c.OK("serve", "token", "mailer", "--scope", "read:mail", "--tokens", file))
	for name, test := range map[string]struct {
		args []string
		want map[string]int // the status by the name of the token
		page string
	}{
		"loopback": {[]string{"--listen", "127.0.0.1:0"}, map[string]int{"": 200}, "go_goroutines"},
		"outside":  {[]string{"--listen", ":0"}, map[string]int{"": 403, all: 403}, "--tokens"},
		"insecure": {[]string{"--listen", ":0", "--insecure"}, map[string]int{"": 200}, "go_goroutines"},
		"tokens":   {[]string{"--listen", ":0", "--tokens", file}, map[string]int{all: 200, some: 403, "": 401, "wrong": 401}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.Process(append(append([]string{"mail"}, test.args...), "--", "true")...)
			at := w.Served()
			at = "http://127.0.0.1" + at[strings.LastIndex(at, ":"):]
			for token, want := range test.want {
				if code, text := ask(t, http.DefaultClient, "GET", at+"/metrics", token, ""); code != want || !strings.Contains(text, test.page) {
					t.Errorf("with token %q: %d %s", token, code, text)
				}
			}
			if code, text := status(t, at+"/healthz"); code != http.StatusOK {
				t.Errorf("/healthz: %d %s", code, text)
			}
			w.Signal(syscall.SIGKILL)
		})
	}
}

func TestServeServesMetrics(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "mail", "--kind", "welcome")
		file := filepath.Join(t.TempDir(), "tokens.txt")
		token := strings.TrimSpace(c.OK("serve", "token", "prometheus", "--scope", "read", "--tokens", file))
		s := c.ServeProcess(nil, "--listen", "127.0.0.1:0", "--tokens", file)
		if code, text := ask(t, http.DefaultClient, "GET", s.URL+"/metrics", "", ""); code != http.StatusUnauthorized {
			t.Errorf("without a token: %d %s", code, text)
		}
		shows(t, s.URL+"/metrics", token, "dibs_up 1", `dibs_queue_jobs{queue="mail",state="waiting"} 1`, "# TYPE process_cpu_seconds_total counter")
	})
}

// An adopted table has no statistics that a scrape could afford.
func TestWorkOnATableServesItsOwnMetrics(t *testing.T) {
	needs.Race(t)
	onAdoptable(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		w := c.Process(x.WithTable("work", "--listen", "127.0.0.1:0", "--", "true")[1:]...)
		at := w.Served()
		shows(t, at+"/metrics", "", "dibs_worker_running_handlers 0", "dibs_worker_concurrency 10")
		if code, text := ask(t, http.DefaultClient, "GET", at+"/metrics", "", ""); code != http.StatusOK || strings.Contains(text, "dibs_up") {
			t.Errorf("%d %s", code, text)
		}
	})
}

// The tokens that protect the metrics are kept from the programs of jobs.
func TestProgramsOfJobsDoNotGetTheTokens(t *testing.T) {
	c := onSQLite(t)
	c.OK("enqueue", "q")
	work := c.Command("work", "q", "--until-empty", "--", "env")
	work.Env = append(work.Env, tokensEnv+"=boss 12345678901234567890 admin")
	if r := c.Finished(work); r.Code != cmdline.ExitOK {
		t.Fatalf("%+v", r)
	}
	if env := c.OK("show", "1", "--json"); strings.Contains(env, "12345678901234567890") || !strings.Contains(env, "DIBS_JOB_ID=1") {
		t.Error(env)
	}
}
