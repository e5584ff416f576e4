//go:build unix

package daemon

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// told sends the lines of a log.
type told chan string

func (l told) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

func (l told) await(t *testing.T, words string) {
	t.Helper()
	end := time.After(clitest.Patience)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, words) {
				return
			}
		case <-end:
			t.Fatalf("the log does not say %q", words)
		}
	}
}

// start runs a command until stop is called, which returns its exit code.
func (c *cli) start(args ...string) (log told, stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	c.T.Cleanup(cancel)
	log, code := make(told, 1000), make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"--db", c.DB}, args...), strings.NewReader(""), io.Discard, log)
	}()
	return log, func() int {
		c.T.Helper()
		cancel()
		select {
		case n := <-code:
			return n
		case <-time.After(clitest.Patience):
			c.T.Fatal("the command does not end")
			return 0
		}
	}
}

// A worker that starts before its server waits for it, and says so.
func TestAWorkerWaitsForAServerThatDoesNotListenYet(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	c := newCLI(t, pgtest.URL(t))
	c.OK("migrate")
	c.OK("enqueue", "q", "1")
	look := clitest.Dial(t, c.DB)
	u, err := url.Parse(c.DB)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	u.Host = clitest.DeafAddress(t)
	early := newCLI(t, u.String())
	log, stop := early.start("work", "q", "--", "true")
	log.await(t, "no PostgreSQL server answers at "+u.Host+"; trying again")
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(to, client); _ = to.Close() }()
			go func() { _, _ = io.Copy(client, to); _ = client.Close() }()
		}
	}()
	clitest.Until(t, look, "the worker has run its job", "select exists (select from dibs.finished where state = 'completed')")
	if code := stop(); code != cmdline.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// A signal ends a process that waits for its server, as it ends one that works. A worker for what there is, as in scripts, does not wait.
func TestASignalEndsTheWaitForAServer(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	c := newCLI(t, "postgres://nobody@"+clitest.DeafAddress(t)+"/x")
	for _, args := range [][]string{{"work", "q", "--", "true"}, {"serve", "--listen", "127.0.0.1:0"}} {
		log, stop := c.start(args...)
		log.await(t, "check host and port")
		if code := stop(); code != cmdline.ExitOK {
			t.Errorf("%s: exit code %d", args[0], code)
		}
	}
	c.Fails(cmdline.ExitUnavailable, "", []string{"work", "q", "--until-empty", "--", "true"}, "no PostgreSQL server answers")
}
