package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// crowdSize is how many clients there are at once, and crowdQueues how many queues they wait for. What one may
// cost does not depend on how many there are.
var crowdSize = map[bool]int{false: 1000, true: 10_000}[needs.AtNight()]

const crowdQueues = 4

// crowdAt makes this program the clients of the server at that address. They are a process of their own, as a
// process may not have so many connections twice.
const crowdAt = "DIBS_TEST_CROWD"

func init() {
	if address := os.Getenv(crowdAt); address != "" {
		if err := crowd(address); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// crowd does each line of its stdin: it opens the connections, sends a call that waits on each, reads all answers.
func crowd(address string) error {
	var all []net.Conn
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		for i := range crowdSize {
			switch in.Text() {
			case "open":
				c, err := net.Dial("tcp", address)
				if err != nil {
					return err
				}
				all = append(all, c)
				if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					return err
				}
				if err := readAnswer(c, "200", `{"status":"ok"}`); err != nil {
					return err
				}
			case "wait":
				body := fmt.Sprintf(`{"queue":"crowd%d","worker":"w%d","wait":60}`, i%crowdQueues, i)
				if _, err := fmt.Fprintf(all[i], "POST /v1/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
					return err
				}
			case "read":
				if err := readAnswer(all[i], "200", `{"jobs":[`); err != nil {
					return err
				}
			}
		}
		fmt.Println("done", in.Text())
	}
	return in.Err()
}

// readAnswer reads one answer. One reading takes it all, as it is small.
func readAnswer(c net.Conn, words ...string) error {
	text := make([]byte, 4096)
	n, err := c.Read(text)
	for _, w := range words {
		if err == nil && !strings.Contains(string(text[:n]), w) {
			err = fmt.Errorf("answered: %s", text[:n])
		}
	}
	return err
}

// counted is a database that counts the calls of what waits.
type counted struct {
	admin.Database
	calls atomic.Int64
}

func (c *counted) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	c.calls.Add(1)
	return c.Database.Claim(ctx, r)
}

func (c *counted) Due(ctx context.Context, queues, kinds []string) ([]string, error) {
	c.calls.Add(1)
	return c.Database.Due(ctx, queues, kinds)
}

func (c *counted) Sweep(ctx context.Context) (dibs.Swept, error) {
	c.calls.Add(1)
	return c.Database.Sweep(ctx)
}

// used is the memory of this process, without garbage, and its goroutines.
func used() (bytes uint64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse, runtime.NumGoroutine()
}

// Many connections that rest, and then as many calls that wait for jobs of a few queues: what they
// cost in memory, goroutines and calls of the database. Then some get jobs, and the server closes.
func TestACrowdOfClients(t *testing.T) {
	needs.NoRaceDetector(t)
	needs.Long(t)
	for name, open := range map[string]func(*testing.T) admin.Database{"sqlite": func(t *testing.T) admin.Database { return onSQLite(t) }, "postgres": onPostgres} {
		t.Run(name, func(t *testing.T) { crowded(t, &counted{Database: open(t)}) })
	}
}

func crowded(t *testing.T, db *counted) {
	s, url := start(t, db, server.Options{})
	tell := clients(t, url)
	memory, goroutines := used()
	each := func(what string, mostBytes, mostGoroutines int) {
		now, n := used()
		bytes, routines := (int(now)-int(memory))/crowdSize, float64(n-goroutines)/float64(crowdSize)
		t.Logf("%s: %d bytes and %.1f goroutines each", what, bytes, routines)
		if bytes > mostBytes || routines > float64(mostGoroutines) {
			t.Errorf("%s takes %d bytes and %.1f goroutines, at most %d and %d are allowed", what, bytes, routines, mostBytes, mostGoroutines)
		}
	}
	tell("open")
	each("a connection that rests", 32<<10, 2)
	began := time.Now()
	tell("wait")
	eventually(t, "all wait", func() bool {
		_, waiting, _ := s.InUse()
		return int(waiting) == crowdSize || time.Since(began) > crowdTime
	})
	skipIfLate(t, began)
	each("a call that waits", 96<<10, 4)

	eventually(t, "none is new", func() bool { // each call has claimed once
		before := db.calls.Load()
		time.Sleep(time.Second)
		return db.calls.Load() < before+50
	})
	before, begin := db.calls.Load(), time.Now()
	time.Sleep(3 * time.Second)
	rate := float64(db.calls.Load()-before) / time.Since(begin).Seconds()
	t.Logf("%.1f calls a second for all that wait", rate)
	if rate > 20 {
		t.Errorf("the calls that wait cost %.1f calls of the database a second", rate)
	}
	const jobs = 100
	var batch []dibs.NewJob
	for i := range jobs {
		batch = append(batch, dibs.NewJob{Queue: fmt.Sprint("crowd", i%crowdQueues), Kind: "k"})
	}
	skipIfLate(t, began)
	if _, err := db.Enqueue(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the jobs are taken", func() bool { _, waiting, _ := s.InUse(); return int(waiting) <= crowdSize-jobs })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	tell("read")
	if _, waiting, _ := s.InUse(); waiting != 0 {
		t.Errorf("%d still wait", waiting)
	}
}

// crowdTime is how long the test may take while all clients wait. A wait is over after a minute.
const crowdTime = 45 * time.Second

func skipIfLate(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > crowdTime {
		t.Skipf("the machine is too slow: %v are too long for %d clients that wait for a minute each", took, crowdSize)
	}
}

// clients starts the crowd, and returns how to tell it what to do next. It ends with the test.
func clients(t *testing.T, url string) (tell func(what string)) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crowdAt+"="+strings.TrimPrefix(url, "http://"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if t.Failed() {
			_ = cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil && !t.Skipped() && !t.Failed() {
			t.Error(err)
		}
	})
	said := bufio.NewScanner(out)
	return func(what string) {
		t.Helper()
		if _, err := io.WriteString(in, what+"\n"); err != nil {
			t.Fatal(err)
		}
		if !said.Scan() || said.Text() != "done "+what {
			if strings.Contains(said.Text(), "too many open files") {
				needs.Missing(t, "%s", said.Text())
			}
			t.Fatalf("%s: %s", what, said.Text())
		}
	}
}
