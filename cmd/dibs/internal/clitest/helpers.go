package clitest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/jackc/pgx/v5"
)

func (c *CLI) HasInOrder(text string, words ...string) {
	c.T.Helper()
	rest := text
	for _, w := range words {
		_, after, found := strings.Cut(rest, w)
		if !found {
			c.T.Errorf("the output lacks %q:\n%s", w, text)
			return
		}
		rest = after
	}
}

// Register enters a worker into the register, as one that works.
func (c *CLI) Register(name string, concurrency int, kinds []string, queues ...string) dibs.WorkerInfo {
	c.T.Helper()
	w := dibs.WorkerInfo{ID: dibs.Token{byte(len(name)), name[0]}, Name: name, Host: "h", PID: 1, Version: "v1", Queues: queues, Kinds: kinds, Concurrency: concurrency, State: dibs.WorkerWorking}
	c.Put(w)
	return w
}

// Put enters a worker into the register, or changes it there. However slow the test is, the worker does not count as lost:
// the register has it as seen in an hour.
func (c *CLI) Put(w dibs.WorkerInfo) {
	c.T.Helper()
	db, err := open.Database(c.T.Context(), open.URL(c.DB), open.Options{})
	if err != nil {
		c.T.Fatal(err)
	}
	defer db.Close()
	if err := db.Register(c.T.Context(), w); err != nil {
		c.T.Fatal(err)
	}
	hour := "interval '1 hour'"
	if !c.OnPostgres() {
		hour = "3600000000"
	}
	c.BySQL("update %sworker set seen_at = seen_at + " + hour + " where name = '" + strings.NewReplacer("'", "''", "%", "%%").Replace(w.Name) + "'")
}

// WhyOf reads the reasons of a queue.
func (c *CLI) WhyOf(queue string) string {
	c.T.Helper()
	var reasons []string
	list, _ := c.Stats(queue)["why"].([]any)
	for _, each := range list {
		o := each.(map[string]any)
		reason := fmt.Sprint(o["reason"])
		if o["kinds"] != nil {
			reason += fmt.Sprint(o["kinds"])
		}
		reasons = append(reasons, reason)
	}
	return strings.Join(reasons, " ")
}

// FailJobs has jobs of a queue and kind die, each with an error.
func (c *CLI) FailJobs(queue, kind string, errors ...string) {
	c.T.Helper()
	for _, text := range errors {
		c.OK("enqueue", queue, "1", "--kind", kind, "--max-attempts", "1")
		j := c.Row(c.OK("claim", queue, "--worker", "w", "--json"))
		c.OK("finish", fmt.Sprint(j["id"]), j["token"].(string), "--dead", "--error", text)
	}
}

// Shell runs a line that the command has printed, as a shell would.
func (c *CLI) Shell(line string) string {
	c.T.Helper()
	cmd := exec.Command("sh", "-c", strings.Replace(line, "dibs ", `"$DIBS_TEST_SELF" `, 1))
	cmd.Env = append(os.Environ(), AsCommand+"=1", "DIBS_DB="+c.DB)
	r := c.Finished(cmd)
	if r.Code != cmdline.ExitOK || r.Err != "" {
		c.T.Errorf("%s: exit code %d: %s", line, r.Code, r.Err)
	}
	return r.Out
}

// BySQL runs a statement without dibs; %s is replaced with the prefix of the tables' names.
func (c *CLI) BySQL(text string) {
	c.T.Helper()
	if err := c.TryBySQL(text); err != nil {
		c.T.Fatal(err)
	}
}

func (c *CLI) TryBySQL(text string) error {
	c.T.Helper()
	a := cmdline.NewApp(strings.NewReader(""), nil, nil)
	a.DBFlag = open.URL(c.DB)
	db, err := a.SQLDB(c.T.Context())
	if err != nil {
		c.T.Fatal(err)
	}
	defer db.Close()
	prefix := "dibs_"
	if c.OnPostgres() {
		prefix = "dibs."
	}
	_, err = db.ExecContext(c.T.Context(), fmt.Sprintf(text, prefix))
	return err
}

// DeafAddress returns an address where no server listens.
func DeafAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Until repeats the query until its answer is true.
func Until(t *testing.T, conn *pgx.Conn, what, sql string, args ...any) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		var so bool
		if err := conn.QueryRow(t.Context(), sql, args...).Scan(&so); err != nil {
			t.Fatal(err)
		}
		if so {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func Dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the database is dropped in any case
	return conn
}

// Timeless removes times, and the blanks around them, from a screen.
func Timeless(text string) string {
	return Spaces.ReplaceAllString(someTime.ReplaceAllString(text, "  TIME"), "  ")
}

var (
	someTime = regexp.MustCompile(` +(for )?\d+(\.\d+)?(µs|ms|s)`)
	Spaces   = regexp.MustCompile(` {2,}`)
)
