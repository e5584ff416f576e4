package sqlserver

import (
	"context"
	"database/sql/driver"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/reads"
)

// microsecond is when all calls of these tests are made.
const microsecond = int64(1_800_000_000_000_000)

var tokenOfJob = []byte("token of 16 byte")

// answersOf are those of a server with a queue q, which has a limit, and a job 7 in it that runs or waits.
func answersOf() map[string][][]driver.Value {
	q := dibs.DefaultSettings("q")
	q.Concurrency, q.GroupLimit = 3, 2
	var queue []driver.Value
	for _, v := range reads.Stored(q) {
		switch v := v.(type) {
		case string:
			queue = append(queue, []byte(v))
		case bool:
			queue = append(queue, map[bool]int64{true: 1}[v])
		case int:
			queue = append(queue, int64(v))
		default:
			queue = append(queue, v)
		}
	}
	rows := func(rows ...[]driver.Value) [][]driver.Value { return rows }
	row := func(values ...driver.Value) []driver.Value { return values }
	job := row(int64(7), []byte("k"), "1", nil, int64(100), microsecond-1, int64(1), int64(0), int64(3), nil, nil, nil, int64(0), microsecond-1, nil, int64(0))
	return map[string][][]driver.Value{
		"clock":      rows(row(microsecond, int64(0))),
		"queue":      rows(append(slices.Clone(queue), int64(0), int64(1))),
		"queues":     rows(append(slices.Clone(queue), int64(0))),
		"turn":       rows(row(int64(1))),
		"asked":      rows(row(int64(0))),
		"running":    rows(row(int64(0))),
		"lock_keys":  rows(row(int64(1), int64(1))),
		"enqueue":    rows(row(int64(7))),
		"lanes":      rows(row(int64(100))),
		"claim":      rows(job),
		"resume":     rows(job),
		"held":       rows(row(int64(7), tokenOfJob, []byte("q"), []byte("g"), int64(1), int64(0), int64(3), microsecond-9, microsecond-5, microsecond+9e6, []byte("w"), int64(0), nil, int64(0), int64(0), int64(0))),
		"live":       rows(row(int64(7), []byte("q"), int64(0), int64(0), int64(100), microsecond-9, int64(0), nil, microsecond-9, int64(0), int64(0), int64(0))),
		"ended":      rows(row(int64(7), []byte("q"), "dead", nil, []byte("key"), int64(1), microsecond-9, int64(0), int64(0))),
		"ended_keys": rows(row([]byte("q"), []byte("key"))),
		"extend":     rows(row(int64(7), int64(0), int64(0), int64(1))),
		"due_claims": rows(row(tokenOfJob, "[7]")),
		"group_own":  rows(row(int64(0), int64(0), int64(0), int64(0))),
		"present":    rows(row(int64(1))),
		"miscounted": rows(row(int64(0))),
		"mended_to":  rows(row(int64(0))),
		"queue_uses": rows(row(nil, nil, nil, nil)),
		"verify":     rows(row(int64(2), int64(1), "this")),
		"schedules":  rows(row(microsecond, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, int64(0))),
		"step_room":  rows(row(int64(0), int64(0), nil)),

		"select @@trancount": rows(row(int64(1))),
	}
}

// verb is a call of a store.
type verb struct {
	name string
	call func(context.Context, *Store) error
}

func verbs() []verb { return slices.Concat(verbsOfJobs(), verbsOfSettings()) }

var lease = dibs.Lease{ID: 7, Token: dibs.Token(tokenOfJob)}

func verbsOfJobs() []verb {
	return []verb{
		{"enqueue", func(ctx context.Context, s *Store) error {
			_, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g", Payload: "é"}, {Queue: "q", Kind: "k"}})
			return err
		}},
		{"enqueue with a unique key", func(ctx context.Context, s *Store) error {
			_, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "key"}})
			return err
		}},
		{"claim", func(ctx context.Context, s *Store) error {
			_, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
			return err
		}},
		{"resume", func(ctx context.Context, s *Store) error {
			_, err := s.Resume(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
			return err
		}},
		{"extend", func(ctx context.Context, s *Store) error {
			_, err := s.Extend(ctx, []dibs.Lease{lease}, time.Minute)
			return err
		}},
		{"complete", func(ctx context.Context, s *Store) error {
			return s.Finish(ctx, []dibs.Outcome{lease.Complete(nil)})
		}},
		{"retry", func(ctx context.Context, s *Store) error {
			return s.Finish(ctx, []dibs.Outcome{lease.Retry("broken")})
		}},
		{"cancel", func(ctx context.Context, s *Store) error { _, _, err := s.Cancel(ctx, []int64{7}); return err }},
		{"requeue", func(ctx context.Context, s *Store) error {
			_, err := s.Requeue(ctx, []int64{7}, time.Time{})
			return err
		}},
		{"edit", func(ctx context.Context, s *Store) error {
			_, err := s.Edit(ctx, []int64{7}, admin.Edit{Priority: new(3)})
			return err
		}},
		{"prune", func(ctx context.Context, s *Store) error {
			_, err := s.Prune(ctx, "q", dibs.Dead, time.Hour)
			return err
		}},
	}
}

func verbsOfSettings() []verb {
	return []verb{
		{"change queue", func(ctx context.Context, s *Store) error {
			_, err := s.ChangeQueue(ctx, "q", func(q *dibs.Queue) error { q.Paused = true; return nil })
			return err
		}},
		{"change group", func(ctx context.Context, s *Store) error {
			return s.ChangeGroup(ctx, "q", "g", func(g *dibs.Group) error { g.Limit = 5; return nil })
		}},
		{"delete queue", func(ctx context.Context, s *Store) error { return s.DeleteQueue(ctx, "q", false) }},
		{"set schedule", func(ctx context.Context, s *Store) error {
			_, err := s.SetSchedule(ctx, dibs.Schedule{Name: "s", Queue: "q", Kind: "k", Spec: "every 1h"})
			return err
		}},
		{"register", func(ctx context.Context, s *Store) error {
			return s.Register(ctx, dibs.WorkerInfo{ID: dibs.Token(tokenOfJob), Name: "w", Host: "h", PID: 1, Version: "v", Queues: []string{"q"}, Concurrency: 1, State: dibs.WorkerWorking})
		}},
		{"put step", func(ctx context.Context, s *Store) error { return s.PutStep(ctx, lease, "step", []byte("1")) }},
		{"in a caller's transaction", func(ctx context.Context, s *Store) error {
			tx, err := s.DB().BeginTx(ctx, readCommitted)
			if err != nil {
				return err
			}
			defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
			if _, err := s.SQLTx(tx).Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
				return err
			}
			return tx.Commit()
		}},
		{"sweep", func(ctx context.Context, s *Store) error { _, err := s.Sweep(ctx); return err }},
	}
}

// These numbers are drawn anew in each run.
var drawn = regexp.MustCompile(`\\"at\\":\d+|int64 18\d{14}|\\"run_at\\":18\d{14}`)

// TestRequestsAreThoseWrittenDown compares what each call sends with a file: a reader sees there which statements go in one
// transaction, in which order, and in which types.
func TestRequestsAreThoseWrittenDown(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, v := range verbs() {
		s, r := recorded(t, answersOf())
		if err := v.call(t.Context(), s); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		all.WriteString(v.name + ":\n")
		for _, e := range r.take() {
			all.WriteString("  " + drawn.ReplaceAllString(e.shown(), "int64 T") + "\n")
		}
	}
	golden.Match(t, "requests.txt", all.String())
}

// lockJobs are statements that lock jobs of ids, and changeJobs those that change them afterwards: these wait for nobody, as the
// transaction has locked what they change.
var (
	lockJobs   = []string{"claim", "claim_fair", "resume", "extend", "held", "live", "ended", "enqueue", "reopen"}
	changeJobs = []string{"cancel", "edit", "finish", "free_key", "give_back", "hold_key", "mark_flow", "push", "remove", "remove_finished", "reopen", "replace"}
)

// TestTransactionsFollowTheRules checks all calls.
func TestTransactionsFollowTheRules(t *testing.T) {
	t.Parallel()
	for _, v := range verbs() {
		s, r := recorded(t, answersOf())
		if err := v.call(t.Context(), s); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		open, jobs, keys := map[int]bool{}, map[int]bool{}, map[int]bool{}
		for _, e := range r.take() {
			switch {
			case e.what == "begin":
				if e.text != "Read Committed" {
					t.Errorf("%s: a transaction begins with the isolation %s", v.name, e.text)
				}
				open[e.conn], jobs[e.conn], keys[e.conn] = true, false, false
				continue
			case e.what == "commit" || e.what == "rollback":
				open[e.conn] = false
				continue
			case e.what == "save transaction dibs_call" || e.what == "rollback transaction dibs_call":
				continue
			}
			if !strings.HasPrefix(e.text, alone) || strings.HasPrefix(e.text, alone+patient) != (v.name != "in a caller's transaction") {
				t.Errorf("%s: %s is sent as %q", v.name, e.what, e.text)
			}
			if e.raw == 0 {
				t.Errorf("%s: %s has no parameter: what it sets stays on in the session", v.name, e.what)
			}
			if regexp.MustCompile(`(?i)\b(commit|rollback|begin tran)`).MatchString(e.text) {
				t.Errorf("%s: %s ends or begins a transaction beside other statements", v.name, e.what)
			}
			keys[e.conn] = keys[e.conn] || e.what == "lock_keys"
			if e.what == "holder" && !keys[e.conn] {
				t.Errorf("%s: the key is looked at without its lock", v.name)
			}
			if e.what == "lock_keys" && jobs[e.conn] {
				t.Errorf("%s: keys are locked after jobs", v.name)
			}
			jobs[e.conn] = jobs[e.conn] || slices.Contains(lockJobs, e.what)
			if slices.Contains(changeJobs, e.what) && !jobs[e.conn] {
				t.Errorf("%s: %s changes jobs that the transaction has not locked", v.name, e.what)
			}
		}
		for c, is := range open {
			if is {
				t.Errorf("%s: the transaction of connection %d does not end", v.name, c)
			}
		}
	}
}
