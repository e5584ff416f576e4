package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/spf13/cobra"
)

// tortureLineProcesses is how many processes a worker of the torture shares its jobs of some queues
// among.
const tortureLineProcesses = 2

// tortureLines has a worker of the torture handle some of its jobs by processes that stay. The
// function that it returns ends them.
func (a *app) tortureLines(part *torture.Part) (end func()) {
	self, err := os.Executable()
	if err != nil || part.Producer || part.Demo || part.Adopted != "" {
		return func() {}
	}
	p := runner.NewProgram(runner.Options{
		Argv: []string{self, "torture", "lines", strconv.FormatUint(part.Seed, 10)}, Env: os.Environ(),
		Grace: time.Second, StopAll: context.Background().Done(),
	})
	pool := runner.NewLines(p, runner.LineOptions{Concurrency: tortureLineProcesses, Processes: tortureLineProcesses, Shared: true, Stderr: io.Discard}) // the processes write nonsense
	part.Lines = pool.Handle
	return func() {
		pool.Close()
		p.Close()
	}
}

// newTortureLinesCmd is the program that reads jobs as lines. It answers at random, wrongly at
// times, and ends at any moment.
func newTortureLinesCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "lines SEED",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Ignore(os.Interrupt) // the parent ends it
			seed, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return err
			}
			rng := rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
			for in := bufio.NewReader(a.Stdin); ; {
				line, err := in.ReadBytes('\n')
				if err != nil {
					return nil // dibs has closed the pipe
				}
				var job struct {
					ID    json.RawMessage
					Token string
					Stop  string
				}
				if err := json.Unmarshal(line, &job); err != nil {
					return err
				}
				if job.Stop == "" {
					answerAtRandom(os.Stdout, rng, string(job.ID), job.Token)
				}
			}
		},
	}
}

// answerAtRandom answers a job, or does what a bad program does.
func answerAtRandom(out io.Writer, rng *rand.Rand, id, token string) {
	switch n := rng.IntN(1000); {
	case n == 0:
		os.Exit(1)
	case n == 1:
		fmt.Fprintln(out, `{"id":`)
	case n < 10: // it names another job, which another process may have
		fmt.Fprintf(out, "{\"id\":%d,\"token\":%q,\"ending\":\"dead\"}\n", 1+rng.IntN(10_000), token)
	case n < 20: // it names an attempt that was never given
		fmt.Fprintf(out, "{\"id\":%s,\"token\":\"%032x\",\"ending\":\"completed\"}\n", id, 1+rng.Uint64N(1<<32))
	case n < 40:
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
	ending := `"completed","result":` + id
	switch n := rng.IntN(100); {
	case n < 4:
		ending = `"retry","error":"failed on purpose"`
	case n < 6:
		ending = fmt.Sprintf(`"snooze","delay":0.%03d`, rng.IntN(300))
	case n < 8:
		ending = `"release"`
	case n < 9:
		ending = `"dead","error":"died on purpose"`
	case n < 10:
		ending = `"done"` // there is no such ending
	}
	line := fmt.Sprintf("{\"id\":%s,\"token\":%q,\"ending\":%s}\n", id, token, ending)
	fmt.Fprint(out, line)
	switch rng.IntN(500) {
	case 0:
		os.Exit(0)
	case 1:
		fmt.Fprint(out, line) // once more
	}
}
