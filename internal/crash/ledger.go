package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/dibs-queue/dibs"
)

// Ledger gathers the notes of all clients and judges the database by them. Its zero
// value is for an empty database.
type Ledger struct {
	mu    sync.Mutex
	calls map[string]Note // the last note of each call
	jobs  map[int64]known // live ones, as the last Judge saw them
}

// Add takes a note.
func (l *Ledger) Add(n Note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[string]Note)
	}
	l.calls[fmt.Sprintf("%s/%d", n.Client, n.Call)] = n
}

// Write writes a note as one line, which Read understands.
func Write(w io.Writer, n Note) {
	line, err := json.Marshal(n)
	if err != nil {
		panic(err) // a note always encodes
	}
	_, _ = w.Write(append(line, '\n')) // nobody reading it is the crash
}

// Read adds the notes of a process until it ends, and returns how many there were,
// and a line that is none. A last line without an end does not count.
func (l *Ledger) Read(r io.Reader) (notes int, odd string, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return notes, odd, nil
		}
		if err != nil {
			return notes, odd, err
		}
		var n Note
		if json.Unmarshal(line, &n) != nil {
			odd = string(line)
			continue
		}
		l.Add(n)
		notes++
	}
}

// known is what the notes say of a live job.
type known struct {
	attempt, excused, max int
	token                 dibs.Token // of that attempt, while it runs
	worker                string     // who holds it; only told by the database
	end                   *Ending    // of that attempt, acknowledged
	maybe                 *Ending    // of that attempt, not answered
}

// Judge compares the database with the notes, and returns what does not agree. All
// clients have ended. It deletes what is final and has been looked at, so that it
// stays fast however often it is called.
func (l *Ledger) Judge(ctx context.Context, db dibs.Database) ([]string, error) {
	found, err := db.Check(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := all(ctx, db)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	j := judgement{calls: l.calls, known: l.jobs, jobs: jobs, found: found}
	j.fold()
	j.judgeCalls()
	j.judgeJobs()
	pruned, err := db.Prune(ctx, "", "", 0)
	if err != nil {
		return nil, err
	}
	l.calls, l.jobs = nil, make(map[int64]known)
	for id, d := range jobs {
		if d.State.Final() {
			pruned--
			continue
		}
		l.jobs[id] = known{attempt: d.Attempt, excused: d.Excused, max: d.MaxAttempts, token: d.Token, worker: d.Worker}
	}
	if pruned != 0 {
		j.say("prune deleted %+d jobs other than those listed as final", pruned)
	}
	return j.found, nil
}

// all reads every job that there is.
func all(ctx context.Context, db dibs.Database) (map[int64]*dibs.RawJob, error) {
	jobs := make(map[int64]*dibs.RawJob)
	for _, state := range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		f := dibs.Filter{State: state, Limit: 1000}
		for {
			page, err := db.List(ctx, f)
			if err != nil {
				return nil, err
			}
			for _, j := range page.Jobs {
				jobs[j.ID] = j
			}
			if f.After = page.Next; f.After == "" {
				break
			}
		}
	}
	return jobs, nil
}

// Drain completes all that is left, also what nobody holds any more, and returns
// how many jobs that were. It fails when the database is not consistent afterwards.
func Drain(ctx context.Context, db dibs.Database) (int, error) {
	left, err := orphan(ctx, db)
	if err != nil {
		return left, err
	}
	for {
		if _, err := db.Sweep(ctx); err != nil {
			return left, err
		}
		given, err := db.Claim(ctx, dibs.ClaimRequest{Worker: "drain", N: 1000})
		if err != nil {
			return left, err
		}
		if len(given) == 0 {
			page, err := db.List(ctx, dibs.Filter{Limit: 1})
			if err != nil || len(page.Jobs) == 0 {
				return left, errors.Join(err, consistent(ctx, db))
			}
			continue
		}
		outcomes := make([]dibs.Outcome, len(given))
		for i, g := range given {
			outcomes[i] = g.Lease().Complete(nil)
		}
		if err := db.Finish(ctx, outcomes); err != nil {
			return left, err
		}
	}
}

// orphan has all leases end at once, and returns how many live jobs there are.
func orphan(ctx context.Context, db dibs.Database) (live int, err error) {
	jobs, err := all(ctx, db)
	var leases []dibs.Lease
	for _, j := range jobs {
		if j.State == dibs.Running {
			leases = append(leases, j.Lease())
		}
		if !j.State.Final() {
			live++
		}
	}
	for batch := range slices.Chunk(leases, dibs.MaxBatch) {
		e, err := db.Extend(ctx, batch, dibs.MinLease)
		if err != nil || len(e.Lost) > 0 {
			return live, fmt.Errorf("leases of jobs %v were lost, error %w", e.Lost, err)
		}
	}
	return live, err
}

func consistent(ctx context.Context, db dibs.Database) error {
	found, err := db.Check(ctx)
	if len(found) > 0 {
		err = fmt.Errorf("the database is not consistent: %q", found)
	}
	return err
}

// client is the name of the worker that made a note.
func (n Note) client() string {
	name, _, _ := strings.Cut(n.Client, "/")
	return name
}
