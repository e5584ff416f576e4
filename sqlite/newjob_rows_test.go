package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// Of two files one gets its jobs by Enqueue, the other by the view, and all else is done to
// both. All their tables have the same rows then, byte for byte. For that, their clocks go on
// by a microsecond a call.
func TestNewJobMakesTheRowsOfEnqueue(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	dir := t.TempDir()
	files := 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		byGo := steadyStore(t, filepath.Join(dir, fmt.Sprint(files, "go.db")))
		byView := newViewStore(t, steadyStore(t, filepath.Join(dir, fmt.Sprint(files, "view.db"))))
		both := []admin.Database{byGo, byView}
		limits := dibs.QueueChange{Strict: new(rapid.Bool().Draw(t, "strict")), GroupLimit: new(rapid.IntRange(1, 3).Draw(t, "group limit")), MaxAttempts: new(7)}
		limit := rapid.IntRange(0, 3).Draw(t, "limit of the group g")
		for _, db := range both {
			if _, err := db.ChangeQueue(t.Context(), "a", limits.Apply); err != nil {
				t.Fatal(err)
			}
			if err := db.ChangeGroup(t.Context(), "a", "g", dibs.GroupChange{Limit: &limit}.Apply); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if a, b := allRows(t, byGo.DB()), allRows(t, byView.DB()); a != b {
					t.Fatalf("by Enqueue:\n%s\nby the view:\n%s", a, b)
				}
			},
			"enqueue":  func(t *rapid.T) { enqueueSame(t, both) },
			"enqueue2": func(t *rapid.T) { enqueueSame(t, both) },
			"enqueue3": func(t *rapid.T) { enqueueSame(t, both) },
			"claim":    func(t *rapid.T) { claimSame(t, both) },
			"time": func(t *rapid.T) {
				passed := rapid.Int64Range(1, int64(2*time.Hour/time.Microsecond)).Draw(t, "passed")
				for _, db := range []*sql.DB{byGo.DB(), byView.DB()} {
					if _, err := db.ExecContext(t.Context(), "update dibs_clock set now = now + ?", passed); err != nil {
						t.Fatal(err)
					}
				}
			},
			"cancel": func(t *rapid.T) {
				id := rapid.Int64Range(1, 20).Draw(t, "id")
				for _, db := range both {
					if _, _, err := db.Cancel(t.Context(), []int64{id}); err != nil {
						t.Fatal(err)
					}
				}
			},
		})
	})
}

// begun is the first time of a steady store, far ahead of the system's clock.
const begun = 4_000_000_000_000_000

// steadyStore opens a file whose clock does not follow the system's.
func steadyStore(t *rapid.T, path string) *sqlite.Store {
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	const ahead = 20_000 * 365 * 24 * 3600 * 1_000_000 // so large that the system's clock never moves the file's: see clock.sql
	if _, err := s.DB().ExecContext(t.Context(), fmt.Sprintf(`
		update dibs_clock set now = %d, seen = %d;
		create trigger steady after update on dibs_clock begin update dibs_clock set seen = %[2]d; end`, begun, ahead)); err != nil {
		t.Fatal(err)
	}
	return s
}

func enqueueSame(t *rapid.T, both []admin.Database) {
	var answers []string
	j := drawJob(t)
	after := drawAfter(t, both[0])
	if j.IfHeld == "" || j.IfHeld == dibs.HeldKeep {
		j.After = after
	}
	for _, db := range both {
		done, err := db.Enqueue(t.Context(), []dibs.NewJob{j})
		answers = append(answers, fmt.Sprint(done, err))
		if len(j.After) > 0 { // Enqueue marks the others at once
			if _, err := db.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if answers[0] != answers[1] {
		t.Fatalf("%+v gave %s, by the view %s", j, answers[0], answers[1])
	}
}

// drawAfter draws live jobs, some of them twice, that a new one comes after: what becomes of ends is told later by the view.
func drawAfter(t *rapid.T, db admin.Database) (all []dibs.Dep) {
	page, err := db.List(t.Context(), admin.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	need := rapid.SampledFrom([]dibs.Need{"", dibs.NeedCompleted, dibs.NeedFailed}).Draw(t, "need")
	for range rapid.IntRange(-3, 3).Draw(t, "after") {
		if len(page.Jobs) > 0 {
			other := page.Jobs[rapid.IntRange(0, len(page.Jobs)-1).Draw(t, "other")]
			all = append(all, dibs.Dep{ID: other.ID, On: rapid.SampledFrom([]dibs.Need{need, dibs.NeedEnded}).Draw(t, "on")})
		}
	}
	return all
}

// drawJob draws a valid job with few possible names and keys, so that jobs have equal ones.
func drawJob(t *rapid.T) dibs.NewJob {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	lasting := func(what string) time.Duration {
		return time.Duration(rapid.Int64Range(1, int64(3*time.Hour/time.Microsecond)).Draw(t, what)) * time.Microsecond
	}
	j := dibs.NewJob{
		Queue: pick("queue", "", "a", "a", "a", "größer 日本"), Kind: pick("kind", "k", "l"), Group: pick("group", "", "g", "g", "h"),
		Payload:  json.RawMessage(pick("payload", "null", " {\"a\" : 1 }\n", `"é"`, "1e400", "[]")),
		Metadata: json.RawMessage(pick("metadata", "", `{"a": 1}`)), MaxAttempts: rapid.IntRange(0, 3).Draw(t, "max attempts"),
	}
	if rapid.Bool().Draw(t, "has priority") {
		j.Priority = new(rapid.IntRange(0, 3).Draw(t, "priority"))
	}
	switch rapid.IntRange(0, 3).Draw(t, "start") {
	case 1:
		j.Delay = lasting("delay")
	case 2:
		j.RunAt = time.UnixMicro(begun).Add(2*lasting("run at") - 3*time.Hour)
	}
	if rapid.Bool().Draw(t, "is unique") {
		drawUnique(t, &j, pick, lasting)
	}
	return j
}

func drawUnique(t *rapid.T, j *dibs.NewJob, pick func(string, ...string) string, lasting func(string) time.Duration) {
	j.UniqueKey = pick("unique key", "u", "v")
	j.UniqueUntil = dibs.UniqueUntil(pick("until", "", "finished", "claimed"))
	switch rapid.IntRange(0, 3).Draw(t, "period") {
	case 1:
		j.UniqueFor = lasting("for") + time.Millisecond
	case 2:
		j.UniqueWindow = pick("window", "hour", "day", "week", "month", "day in UTC")
	}
	j.IfHeld = dibs.IfHeld(pick("if held", "", "keep", "replace", "push"))
	starts := j.Delay != 0 || !j.RunAt.IsZero()
	if j.IfHeld == dibs.HeldPush && !starts {
		j.IfHeld = dibs.HeldReplace
	}
	if j.IfHeld == dibs.HeldPush || j.IfHeld == dibs.HeldReplace && starts && rapid.Bool().Draw(t, "has limit") {
		j.DelayLimit = lasting("limit")
	}
}

// claimSame claims jobs, and ends some.
func claimSame(t *rapid.T, both []admin.Database) {
	n := rapid.IntRange(1, 3).Draw(t, "n")
	queue := rapid.SampledFrom([]string{"a", "default"}).Draw(t, "queue")
	ending := rapid.IntRange(0, 3).Draw(t, "ending")
	for _, db := range both {
		err := db.InTx(t.Context(), func(tx dibs.Tx) error {
			jobs, err := tx.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: n, Lease: time.Hour})
			for _, j := range jobs {
				o := []dibs.Outcome{j.Lease().Complete(nil)}
				if ending == 1 {
					o[0] = j.Lease().RetryAfter(time.Minute, "e")
				}
				if ending < 2 && err == nil {
					err = tx.Finish(t.Context(), o)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// allRows lists all rows that differ by nothing but who enqueued, and by random tokens.
func allRows(t *rapid.T, db *sql.DB) string {
	var out strings.Builder
	for _, table := range []string{
		"dibs_job", "dibs_finished", "dibs_queue",
		"dibs_tally where waiting <> 0 or blocked <> 0 or enqueued <> 0 or running <> 0 or cancelled <> 0 or completed <> 0", "dibs_unique_window", "dibs_edge", "dibs_ended_list", "dibs_group_limit", "dibs_clock", "sqlite_sequence",
	} {
		rows, err := db.QueryContext(context.Background(), "select * from "+table+" order by 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(to...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&out, table)
			for i, c := range columns {
				if c != "token" && values[i] != nil {
					fmt.Fprintf(&out, " %s=%q", c, fmt.Sprint(values[i]))
				}
			}
			fmt.Fprintln(&out)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
