package adopt_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

const orderEnv = "DIBS_TEST_ADOPT_WORKER" // set in worker processes

// TestMain also serves as the worker process.
func TestMain(m *testing.M) {
	if text := os.Getenv(orderEnv); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// order is what a worker process is told.
type order struct {
	Table, DSN, Name, Broken string
	PG                       bool
}

func (o order) env() string {
	raw, _ := json.Marshal(o) // texts
	return orderEnv + "=" + string(raw)
}

// The kinds of event that a worker process notes, in a line each, as they happen.
const (
	noteClaimed  = "claimed"  // detail: when the lease ends, in microseconds
	noteReturned = "returned" // the handler has
	noteFinished = "finished" // the outcome was written; detail: which
	noteRefused  = "refused"  // it was not, as the lease was lost
	noteTrouble  = "trouble"  // a call failed; detail: why
)

type event struct {
	worker   string
	what, id string
	at       int64 // microseconds since 1970
	detail   string
}

func nameOf(j *dibs.RawJob) string {
	if j.Key != "" {
		return j.Key
	}
	return strconv.FormatInt(j.ID, 10)
}

// work is main of a worker process. It ends when its stdin does.
func work(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		stop()
	}()
	driver := "sqlite"
	if o.PG {
		driver = "pgx"
	}
	db, err := sql.Open(driver, o.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	other, err := patient(driver, o.DSN)
	if err != nil {
		return err
	}
	defer other.Close()
	m, err := shortened(o.Table, o.PG)
	if err != nil {
		return err
	}
	store, err := adopt.Open(ctx, db, spoil(o.Broken, m))
	if err != nil {
		return err
	}
	w := worker(o, m, other, breaking(o.Broken, db, store))
	w.Queue = store.Queue()
	return w.Run(ctx)
}

// patient opens the database for programs that wait for SQLite's one writer.
func patient(driver, dsn string) (*sql.DB, error) {
	if driver == "sqlite" {
		dsn += "&_pragma=busy_timeout(60000)"
	}
	return sql.Open(driver, dsn)
}

func worker(o order, m mapping.Mapping, other *sql.DB, store dibs.Store) *dibs.Worker {
	var mu sync.Mutex
	tell := func(what, id, detail string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s\t%s\t%d\t%s\n", what, id, time.Now().UnixMicro(), strings.ReplaceAll(detail, "\n", " "))
	}
	var byHand string
	for _, t := range slices.Concat(fiveTables, strangeTables, []owned{mailing}) {
		if t.name == o.Table {
			byHand = t.withDefaults(m, o.PG).byHand
		}
	}
	w := &dibs.Worker{Store: store, Name: o.Name, Concurrency: 20, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	w.HandleRaw("", func(ctx context.Context, j *dibs.RawJob) error {
		defer func() { tell(noteReturned, nameOf(j), "") }()
		does := func(what string) bool { return strings.Contains(string(j.Payload), what) }
		switch {
		case does(doSlow):
			select {
			case <-time.After(m.Lease * 3 / 2):
			case <-ctx.Done():
				return ctx.Err()
			}
		case does(doSteal):
			_, err := other.ExecContext(ctx, byHand, nameOf(j))
			return err
		case does(doPoison), rand.IntN(200) == 0:
			return errors.New("not this time")
		}
		return nil
	})
	w.Hooks.Claimed = func(jobs []*dibs.RawJob, _ time.Duration) {
		for _, j := range jobs {
			tell(noteClaimed, nameOf(j), strconv.FormatInt(j.LeaseUntil.UnixMicro(), 10))
		}
	}
	w.Hooks.Finished = func(a dibs.Attempt) {
		switch {
		case a.NotWritten == nil:
			tell(noteFinished, nameOf(a.Job), string(a.Outcome.Ending))
		case errors.Is(a.NotWritten, dibs.ErrLeaseLost):
			tell(noteRefused, nameOf(a.Job), "")
		}
	}
	w.Hooks.Error = func(call string, err error) {
		locked := (*dibs.FinishError)(nil) // rows that a claim has locked for a moment to see that they are taken
		slow := errors.Is(err, context.DeadlineExceeded)
		if !slow && !errors.As(err, &locked) {
			tell(noteTrouble, call, err.Error())
		}
	}
	return w
}

// gather reads what the processes and the database's triggers have noted.
func (f *fleet) gather(t *testing.T) *evidence {
	t.Helper()
	found := &evidence{killed: f.gone, ends: map[string][]string{}}
	names, err := filepath.Glob(filepath.Join(f.dir, "*.events"))
	if err != nil || len(names) != f.n {
		t.Fatalf("%d files of events, want %d: %v", len(names), f.n, err)
	}
	for _, name := range names {
		found.events = append(found.events, f.events(t, name)...)
	}
	rows, err := f.db.Query("select id, how from ended")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, how string
		if err := rows.Scan(&id, &how); err != nil {
			t.Fatal(err)
		}
		found.ends[id] = append(found.ends[id], how)
	}
	ids, err := f.db.Query(fmt.Sprintf("select %s from %s where %s", f.key("", f.pg), f.table, f.meant("1 = 1")))
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	for ids.Next() {
		var id string
		if err := ids.Scan(&id); err != nil {
			t.Fatal(err)
		}
		found.rows = append(found.rows, id)
	}
	return found
}

func (f *fleet) events(t *testing.T, name string) (all []event) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	worker := strings.TrimSuffix(filepath.Base(name), ".events")
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		part := strings.SplitN(lines.Text(), "\t", 4)
		if len(part) < 4 {
			continue // cut off by the kill, or just being written
		}
		at, err := strconv.ParseInt(part[2], 10, 64)
		if err != nil {
			t.Fatalf("%s: %q", name, lines.Text())
		}
		all = append(all, event{worker, part[0], part[1], at, part[3]})
	}
	return all
}
