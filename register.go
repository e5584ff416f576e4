package dibs

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"runtime/debug"
	"time"
)

// The state of a worker in the register of workers.
const (
	WorkerWorking  = "working"
	WorkerStopping = "stopping" // it claims nothing more; its last handlers are running
	WorkerStopped  = "stopped"  // only for Register, which then removes the entry
	WorkerLost     = "lost"     // not seen for WorkerLostAfter: it has crashed, or its machine or network has
)

const (
	// WorkerLostAfter is how long a worker was not seen, by the database's clock, when it counts
	// as lost. Workers report every 10 s.
	WorkerLostAfter = 25 * time.Second
	// WorkerKeptFor is how long a worker was not seen when its entry is removed, by any worker
	// that reports.
	WorkerKeptFor = time.Hour

	registerEvery = 10600 * time.Millisecond // give or take pollJitter, so at least 10 s
	// leaveTimeout is how long Run waits at its end for the removal of its entry. If that fails,
	// the worker is listed as lost later.
	leaveTimeout = 2 * time.Second
)

// WorkerInfo is one entry of the register of workers: one call of [Worker.Run], or a program that claims
// over HTTP. Other claims without a Worker, as 'dibs claim' makes, and workers on an adopted table have none.
type WorkerInfo struct {
	// ID is drawn for each Run. So workers of the same name, or in processes that got the same
	// PID one after the other, have entries of their own. A process that was stopped
	// for a while (SIGSTOP, a suspended machine) is lost meanwhile, and then the same as before.
	ID      Token  `json:"id"`
	Name    string `json:"name"` // as in RawJob.Worker
	Host    string `json:"host"`
	PID     int    `json:"pid"`     // 0: a program that claims over HTTP
	Version string `json:"version"` // of the module dibs in its program, such as v1.2.3 or (devel); http over HTTP

	Queues      []string `json:"queues"`
	Kinds       []string `json:"kinds"` // those that it has handlers for; nil: all kinds
	Concurrency int      `json:"concurrency"`
	State       string   `json:"state"` // WorkerWorking, WorkerStopping or WorkerLost

	// By the database's clock. Calls of Register ignore them.
	Since time.Time `json:"since"` // when it registered: after its first claim, or again after WorkerKeptFor
	Seen  time.Time `json:"seen"`  // when it last did
}

// registers is the last report, which may be under way, and when the next is sent.
type registers struct {
	call[struct{}]
	entry   WorkerInfo
	at      time.Time
	hasLeft bool // the removal of the entry has been sent
}

// register keeps the worker's entry in the register, and removes it when nothing else is left
// to do. Work never waits for it.
func (r *run) register(now time.Time) (next time.Time) {
	switch {
	case r.registers.busy || r.shutdown.closed || r.registers.hasLeft || !r.claims.worked:
		return time.Time{}
	case r.shutdown.stage != working && r.registers.at.IsZero():
		return time.Time{}
	case r.shutdown.stage != working && r.settled():
		r.registers.hasLeft = true
		r.sendRegister(WorkerStopped, leaveTimeout)
		return time.Time{}
	case now.Before(r.registers.at):
		return r.registers.at
	}
	r.registers.at = now.Add(jitter(registerEvery, pollJitter))
	state := WorkerWorking
	if r.shutdown.stage != working {
		state = WorkerStopping
	}
	r.sendRegister(state, callTimeout)
	return time.Time{}
}

func (r *run) sendRegister(state string, timeout time.Duration) {
	entry := r.registers.entry
	entry.State = state
	r.registers.send(r.calls, r, timeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.Store.Register(ctx, entry) })
}

// registered reports the first failure in a row; the next report of the worker may succeed.
func (r *run) registered(a answer[struct{}]) {
	r.registers.answered(r, a.err)
	if a.err != nil && r.registers.failures == 1 {
		r.log(slog.LevelWarn, "worker is not in the register of workers; it works all the same", slog.String("call", "register"), slog.String("error", a.err.Error()))
		r.tellError("register", a.err)
	}
}

// entryOf is the entry of a worker that has its defaults filled in.
func entryOf(w *Worker, feeds []*feed, kinds []string) WorkerInfo {
	queues := make([]string, len(feeds))
	for i, q := range feeds {
		queues[i] = q.Name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	e := WorkerInfo{Name: w.Name, Host: host, PID: os.Getpid(), Version: moduleVersion(), Queues: queues, Kinds: kinds, Concurrency: w.Concurrency}
	rand.Read(e.ID[:])
	return e
}

// moduleVersion is the version of this module in the program.
func moduleVersion() string {
	const path, unknown = "github.com/dibs-queue/dibs", "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" {
			return m.Version
		}
	}
	return unknown
}
