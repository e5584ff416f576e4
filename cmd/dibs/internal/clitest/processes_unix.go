//go:build unix

package clitest

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

const pause = 50 * time.Millisecond // between two looks: each opens the database

// Working is 'dibs work' in this process.
type Working struct {
	Stop  context.CancelFunc
	Ended chan Result
}

func (c *CLI) Work(args ...string) *Working {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Working{Stop: cancel, Ended: make(chan Result, 1)}
	go func() {
		var out, err strings.Builder
		code := Run(ctx, append([]string{"--db", c.DB, "work"}, args...), strings.NewReader(""), &out, &err)
		w.Ended <- Result{code, out.String(), err.String()}
	}()
	c.T.Cleanup(cancel)
	return w
}

// End waits for the end, which must be without an error.
func (c *CLI) End(w *Working) string {
	c.T.Helper()
	select {
	case r := <-w.Ended:
		if r.Code != cmdline.ExitOK || r.Out != "" {
			c.T.Errorf("dibs work: exit code %d\n%s%s", r.Code, r.Out, r.Err)
		}
		return r.Err
	case <-time.After(Patience):
		c.T.Fatal("dibs work does not end")
		return ""
	}
}

// pipe is a named pipe that programs keep open while they run.
type pipe struct {
	c    *CLI
	Path string
	file *os.File
}

func (c *CLI) Pipe() *pipe {
	c.T.Helper()
	path := filepath.Join(c.T.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		c.T.Fatal(err)
	}
	return &pipe{c: c, Path: path}
}

// Begun waits until a program has written a line into the pipe.
func (p *pipe) Begun() {
	p.c.T.Helper()
	read := make(chan error, 1)
	go func() {
		err := io.EOF
		for errors.Is(err, io.EOF) { // on a slow machine a lease may end before its program writes, which then begins again
			if p.file, err = os.Open(p.Path); err == nil { // returns when a writer has opened it
				_, err = p.file.Read(make([]byte, 1))
			}
		}
		read <- err
	}()
	p.wait(read, "no program begins")
}

// Gone waits until every process that had the pipe open has ended.
func (p *pipe) Gone() {
	p.c.T.Helper()
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, p.file)
		read <- err
	}()
	p.wait(read, "processes of the program go on")
}

func (p *pipe) wait(read chan error, otherwise string) {
	p.c.T.Helper()
	select {
	case err := <-read:
		if err != nil {
			p.c.T.Fatal(err)
		}
	case <-time.After(Patience):
		p.c.T.Fatal(otherwise)
	}
}

// Await waits until one of a queue's counts has a value.
func (c *CLI) Await(queue, field string, want int) {
	c.T.Helper()
	deadline := time.Now().Add(Patience)
	for {
		got := c.Stats(queue)[field]
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			c.T.Fatalf("%s of queue %s stays %v, want %d", field, queue, got, want)
		}
		time.Sleep(pause)
	}
}

// GonePid waits until the process whose id the pipe delivers has ended.
func (p *pipe) GonePid() {
	p.c.T.Helper()
	var pid int
	read := make(chan error, 1)
	go func() {
		text, err := os.ReadFile(p.Path)
		if err == nil {
			err = json.Unmarshal(text, &pid)
		}
		read <- err
	}()
	p.wait(read, "no program begins")
	for deadline := time.Now().Add(Patience); syscall.Kill(pid, 0) == nil; {
		if time.Now().After(deadline) {
			p.c.T.Fatal("the program does not end")
		}
	}
}

// Process is 'dibs work' in a process of its own.
type Process struct {
	c   *CLI
	Cmd *exec.Cmd
	Log chan string // lines of its stderr
}

func (c *CLI) Process(args ...string) *Process {
	c.T.Helper()
	return c.ProcessBy(func(*testing.T, *exec.Cmd) {}, args...)
}

// ProcessBy is Process, with a function that changes how the process is started.
func (c *CLI) ProcessBy(change func(*testing.T, *exec.Cmd), args ...string) *Process {
	c.T.Helper()
	p := &Process{c: c, Cmd: c.Command(append([]string{"work"}, args...)...), Log: make(chan string, 100)}
	change(c.T, p.Cmd)
	stderr, err := p.Cmd.StderrPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	if err := p.Cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.Log <- lines.Text()
		}
		_ = lines.Err() // Wait closes the pipe
		close(p.Log)
	}()
	c.T.Cleanup(func() {
		if p.Cmd.ProcessState == nil {
			p.Signal(syscall.SIGKILL)
			_ = p.Cmd.Wait()
		}
	})
	return p
}

func (p *Process) Signal(s syscall.Signal) {
	p.c.T.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.c.T.Error(err)
	}
}

// stop stops the process and waits until all of its threads have stopped.
func (p *Process) stop() {
	p.c.T.Helper()
	p.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		p.c.T.Fatalf("dibs work has not stopped: %v, %v", status, err)
	}
}

// Says waits for a line of the log that contains words.
func (p *Process) Says(words string) {
	p.c.T.Helper()
	timeout := time.After(Patience)
	for {
		select {
		case line, open := <-p.Log:
			if strings.Contains(line, words) {
				return
			}
			if !open {
				p.c.T.Fatalf("dibs work has ended without saying %q", words)
			}
		case <-timeout:
			p.c.T.Fatalf("dibs work does not say %q", words)
		}
	}
}

// Ended waits for the end and returns the exit code.
func (p *Process) Ended() int {
	p.c.T.Helper()
	timeout := time.After(Patience)
	for {
		select {
		case _, open := <-p.Log:
			if !open {
				_ = p.Cmd.Wait() // the exit code says it
				return p.Cmd.ProcessState.ExitCode()
			}
		case <-timeout:
			p.c.T.Fatal("dibs work does not end")
		}
	}
}

// serving is a process of dibs serve.
type serving struct {
	t   *testing.T
	Cmd *exec.Cmd
	URL string
	Log *guardedBuffer
	Got Object // what it printed
}

// ServeProcess starts dibs serve, and reads where it listens.
func (c *CLI) ServeProcess(env []string, args ...string) *serving {
	c.T.Helper()
	return c.ServeProcessBy(func(*testing.T, *exec.Cmd) {}, env, args...)
}

// ServeProcessBy is ServeProcess, with a function that changes how the process is started.
func (c *CLI) ServeProcessBy(change func(*testing.T, *exec.Cmd), env []string, args ...string) *serving {
	c.T.Helper()
	cmd := c.Command(append([]string{"serve", "--json", "-v"}, args...)...)
	change(c.T, cmd)
	cmd.Env = append(cmd.Env, env...)
	s := &serving{t: c.T, Cmd: cmd, Log: &guardedBuffer{}}
	cmd.Stderr = s.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.T.Fatalf("dibs serve %q: %v %s", args, err, s.Log.String())
	}
	s.Got = c.Row(line)
	s.URL, _ = s.Got["url"].(string)
	return s
}

// End waits for the process, and returns its exit code.
func (s *serving) End() int {
	s.t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.Cmd.Wait() // its exit code says how
	}()
	select {
	case <-over:
	case <-time.After(Patience):
		s.t.Errorf("dibs serve does not end: %s", s.Log.String())
		_ = s.Cmd.Process.Kill()
		<-over
	}
	return s.Cmd.ProcessState.ExitCode()
}

func (s *serving) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.Cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Said waits for words in the log.
func (s *serving) Said(words string) {
	s.t.Helper()
	for end := time.Now().Add(Patience); !strings.Contains(s.Log.String(), words); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("it never says %q: %s", words, s.Log.String())
		}
	}
}

// guardedBuffer is a bytes.Buffer for several goroutines.
type guardedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *guardedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *guardedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Freeze stops the process, but not while it holds SQLite's write lock, for which all others
// would wait.
func (p *Process) Freeze() {
	p.c.T.Helper()
	p.stop()
	path, isFile := strings.CutPrefix(p.c.DB, "sqlite:")
	if !isFile {
		return
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		p.c.T.Fatal(err)
	}
	defer db.Close()
	free := func() bool {
		_, err := db.Exec("begin immediate; rollback")
		return err == nil
	}
	deadline := time.Now().Add(Patience)
	for !free() {
		if time.Now().After(deadline) {
			p.c.T.Fatal("dibs work always holds the write lock")
		}
		p.Signal(syscall.SIGCONT)
		for !free() && time.Now().Before(deadline) { // waits for the release of the lock
		}
		p.stop()
	}
}

// Served reads the address of the health pages from the log.
func (p *Process) Served() string {
	p.c.T.Helper()
	address := regexp.MustCompile(`serving /healthz.*address=(\S+)`)
	timeout := time.After(Patience)
	for {
		select {
		case line, open := <-p.Log:
			if found := address.FindStringSubmatch(line); found != nil {
				go func() { // the log is read on, so that the process never waits
					for range p.Log {
					}
				}()
				return "http://" + found[1]
			}
			if !open {
				p.c.T.Fatal("dibs work has ended")
			}
		case <-timeout:
			p.c.T.Fatal("dibs work does not say where it listens")
		}
	}
}
