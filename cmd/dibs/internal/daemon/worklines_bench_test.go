//go:build unix

package daemon

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// noop is a worker in Python whose jobs do nothing.
const noop = `import json, sys
for line in sys.stdin:
    job = json.loads(line)
    print(json.dumps({"id": job["id"], "token": job["token"], "ending": "completed"}), flush=True)
`

// BenchmarkWorkLines drains a queue of no-op jobs with Python: with processes that stay, each with
// one job or with several, and with one process for each job, which is Python or a small program.
//
//	go test -run '^$' -bench WorkLines -benchtime 50000x ./cmd/dibs
//
// Processes for each job are so slow that only a hundredth of the jobs are given to them.
func BenchmarkWorkLines(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip(err)
	}
	script := filepath.Join(b.TempDir(), "noop.py")
	if err := os.WriteFile(script, []byte(noop), 0o600); err != nil {
		b.Fatal(err)
	}
	lines := func(flags string) []string { return strings.Fields(flags + " -- python3 " + script) }
	for _, work := range []struct {
		name string
		part int // one in this many of the jobs is run
		args []string
	}{
		{"lines/processes=2", 1, lines("--lines --concurrency 2")},
		{"lines/processes=8", 1, lines("--lines --concurrency 8")},
		{"shared/processes=1", 1, lines("--lines --shared --concurrency 200")},
		{"shared/processes=2", 1, lines("--lines --shared --processes 2 --concurrency 200")},
		{"one-a-job/python", 100, strings.Fields("--concurrency 4 -- python3 -c 0")},
		{"one-a-job/true", 100, strings.Fields("--concurrency 4 -- true")},
	} {
		for db, url := range map[string]func(*testing.B) string{
			"postgres": func(b *testing.B) string { return pgtest.URL(b) },
			"sqlite":   func(b *testing.B) string { return "sqlite:" + filepath.Join(b.TempDir(), "bench.db") },
		} {
			b.Run(db+"/"+work.name, func(b *testing.B) {
				dibs := func(stdin string, args ...string) *exec.Cmd {
					cmd := exec.Command(os.Getenv("DIBS_TEST_SELF"), args...)
					cmd.Env, cmd.Stdin = append(os.Environ(), clitest.AsCommand+"=1", "DIBS_DB="+url(b)), strings.NewReader(stdin)
					return cmd
				}
				drain(b, dibs, max(b.N/work.part, 1), work.args)
			})
		}
	}
}

func drain(b *testing.B, dibs func(stdin string, args ...string) *exec.Cmd, n int, args []string) {
	worker := dibs("", append([]string{"work", "q", "--until-empty"}, args...)...)
	env := worker.Env
	var jobs bytes.Buffer
	for i := range n {
		fmt.Fprintf(&jobs, "%d\n", i)
	}
	for _, cmd := range []*exec.Cmd{dibs("", "migrate"), dibs(jobs.String(), "enqueue", "q", "--jsonl"), worker} {
		cmd.Env = env // all on one database
		b.ResetTimer()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric((worker.ProcessState.UserTime()+worker.ProcessState.SystemTime()).Seconds()/float64(n)*1e6, "us-CPU/job")
	b.ReportMetric(0, "ns/op") // n is not b.N
}
