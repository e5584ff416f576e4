package adopt_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// logged collects what a store logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func listen(s *adopt.Store) *logged {
	l := &logged{}
	s.SetLog(slog.New(slog.NewTextHandler(l, nil)))
	return l
}

// refusing is a table that refuses to have some rows claimed: those with a word in the column bad.
const refusing = `create table task (id integer primary key, bad text, grp text, mark text, who text, at timestamp, tries smallint not null default 0, most smallint not null default 3, done integer,
	state text not null default 'new', check (tries between 0 and most))`

// trigger makes a trigger that does something to rows of which a claim, or with back the end of a lease, is made.
func trigger(pg bool, name, when, pgDoes, liteDoes string) []string {
	if !pg {
		return []string{fmt.Sprintf(`create trigger %s before update on task when %s begin select %s; end`, name, strings.NewReplacer("new.", "new.", "is distinct from", "is not").Replace(when), liteDoes)}
	}
	return []string{
		fmt.Sprintf(`create function %s() returns trigger language plpgsql as 'begin if %s then %s end if; return new; end'`, name, strings.ReplaceAll(when, "'", "''"), strings.ReplaceAll(pgDoes, "'", "''")),
		fmt.Sprintf(`create trigger %s before update on task for each row execute function %[1]s()`, name),
	}
}

// refusals are ways in which a table refuses to have rows claimed.
var refusals = []struct {
	name   string
	rows   string // makes the rows 1 to 5, which are refused, before rows that are not
	says   string // what the log says of them
	pg     []string
	lite   []string
	counts bool // the mapping counts attempts
}{
	{name: "a constraint", counts: true, rows: `insert into task (id, tries) values (1, 3), (2, 3), (3, 3), (4, 3), (5, 3)`, says: "check"},
	{
		name: "a number that is too large", counts: true, says: "out of range", lite: []string{"skip"},
		rows: `insert into task (id, tries, most) values (1, 32767, 32767), (2, 32767, 32767), (3, 32767, 32767), (4, 32767, 32767), (5, 32767, 32767)`,
	},
	{
		name: "a trigger that raises", rows: `insert into task (id, bad) values (1, 'x'), (2, 'x'), (3, 'x'), (4, 'x'), (5, 'x')`, says: "not today",
		pg:   trigger(true, "no", "new.bad = 'x' and new.done is null", "raise exception 'not today';", ""),
		lite: trigger(false, "no", "new.bad = 'x' and new.done is null", "", "raise(abort, 'not today')"),
	},
	{
		name: "a trigger with a code of its own, or one that ends the transaction", rows: `insert into task (id, bad) values (1, 'x'), (2, 'x'), (3, 'x'), (4, 'x'), (5, 'x')`, says: "not today",
		pg:   trigger(true, "no", "new.bad = 'x' and new.done is null", "raise exception 'not today' using errcode = 'ZZ123';", ""),
		lite: trigger(false, "no", "new.bad = 'x' and new.done is null", "", "raise(rollback, 'not today')"),
	},
	{
		name: "a trigger that is silent", rows: `insert into task (id, bad) values (1, 'x'), (2, 'x'), (3, 'x'), (4, 'x'), (5, 'x')`, says: "the row does not change",
		pg:   trigger(true, "no", "new.bad = 'x' and new.done is null", "return null;", ""),
		lite: trigger(false, "no", "new.bad = 'x' and new.done is null", "", "raise(ignore)"),
	},
}

// refusedShapes are mappings whose claims change the table.
func refusedShapes() map[string]mapping.Mapping {
	row := task()
	row.Claim.LockedBy = "who"
	groups := row
	groups.Group.Column = "grp"
	limit := row
	limit.Concurrency = 3
	side := sided()
	side.Table, side.Unfinished, side.Available = "task", "done is null", "state = 'new'"
	side.Claim.Set, side.PutBack.Set = mapping.Set{"state": "busy"}, mapping.Set{"state": "new"}
	side.Completed.Set, side.Lease = mapping.Set{"done": 1}, time.Minute
	return map[string]mapping.Mapping{"token": row, "groups": groups, "concurrency": limit, "side table": side}
}

// Rows that the table refuses to have claimed do not stop those behind them. The log names them.
func TestRowsThatCannotBeClaimedStopNobody(t *testing.T) {
	for _, r := range refusals {
		for name, m := range refusedShapes() {
			if r.counts {
				m.Claim.Attempts = "tries"
			}
			t.Run(r.name+", "+name, func(t *testing.T) {
				onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
					does := r.pg
					if !pg {
						does = r.lite
					}
					if len(does) == 1 && does[0] == "skip" {
						return // numbers of SQLite have no such limit
					}
					exec(t, db, refusing)
					exec(t, db, r.rows)
					for id := 6; id <= 20; id++ {
						exec(t, db, fmt.Sprintf("insert into task (id, grp) values (%d, 'g%[1]d')", id))
					}
					for _, statement := range does {
						exec(t, db, statement)
					}
					s := opened(t, db, m)
					log := listen(s)
					var done []int64
					for calls := 0; len(done) < 15; calls++ {
						if calls > 60 {
							t.Fatalf("only %v were claimed; %v", done, s.Ready())
						}
						jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 3})
						if err != nil {
							t.Fatal(err)
						}
						if len(jobs) == 0 {
							time.Sleep(20 * time.Millisecond) // as a worker does; hidden rows are looked for once a second
						}
						for _, j := range jobs {
							done = append(done, j.ID)
							if err := s.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
								t.Fatal(err)
							}
						}
					}
					for i, id := range done {
						if id != int64(i+6) {
							t.Fatalf("claimed %v, want 6 to 20 in order", done)
						}
					}
					for deadline := time.Now().Add(time.Minute); len(s.PassedOver()) < 5 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
						take(t, s, 3) // A claim from groups goes past hidden rows by itself as long as there are others, so only now are they found.
					}
					text := log.String()
					for id := 1; id <= 5; id++ {
						if n := strings.Count(text, fmt.Sprintf("key=%d ", id)); n != 1 {
							t.Errorf("the log names row %d %d times:\n%s", id, n, text)
						}
					}
					if !strings.Contains(strings.ToLower(text), r.says) {
						t.Errorf("the log does not say %q:\n%s", r.says, text)
					}
				})
			})
		}
	}
}

// A store whose table refuses all rows is not ready, and is again once they can be claimed.
func TestAStoreIsNotReadyWhileNothingCanBeClaimed(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, refusing)
		exec(t, db, `insert into task (id, bad) values (1, 'x'), (2, 'x')`)
		does := trigger(pg, "no", "new.bad = 'x'", "raise exception 'not today';", "raise(abort, 'not today')")
		for _, statement := range does {
			exec(t, db, statement)
		}
		s := opened(t, db, task())
		if err := s.Ready(); err != nil {
			t.Errorf("before any claim: %v", err)
		}
		take(t, s, 5)
		if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "not today") || !strings.Contains(err.Error(), "row 1") {
			t.Errorf("Ready says %v", err)
		}
		drop := "drop trigger no on task"
		if !pg {
			drop = "drop trigger no"
		}
		exec(t, db, drop)
		take(t, s, 5) // rows that are passed over are not tried before their time
		s.PassedAreDue()
		take(t, s, 5, 1, 2)
		if err := s.Ready(); err != nil {
			t.Errorf("after a claim: %v", err)
		}
		for _, statement := range append(does[len(does)-1:], `insert into task (id, bad) values (3, 'x')`) { // the trigger again
			exec(t, db, statement)
		}
		take(t, s, 5)
		if err := s.Ready(); err == nil {
			t.Error("it is ready though row 3 is refused")
		}
		exec(t, db, `delete from task where id = 3`)
		s.PassedAreDue()
		take(t, s, 5)
		if err := s.Ready(); err != nil || len(s.PassedOver()) > 0 {
			t.Errorf("after the row was deleted: %v, %v", err, s.PassedOver())
		}
	})
}

// A row that would be the second of its kind in a unique index is claimed once the first has ended.
func TestAClaimThatCollidesWaitsForTheOther(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, refusing)
		exec(t, db, `create unique index one_at_a_time on task (grp) where mark is not null and done is null`)
		exec(t, db, `insert into task (id, grp) values (1, 'a'), (2, 'a'), (3, 'b'), (4, 'a')`)
		s := opened(t, db, task())
		jobs := take(t, s, 4, 1, 3)
		take(t, s, 4)
		if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
		s.PassedAreDue()
		take(t, s, 4, 2)
	})
}

// The first claim in a caller's transaction that is refused ends the transaction; those of later ones pass over the row.
func TestARefusedRowIsPassedOverInTransactionsToo(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, workTable) // begin writes there
		exec(t, db, refusing)
		exec(t, db, `insert into task (id, tries) values (1, 3), (2, 0), (3, 3), (4, 0)`)
		m := task()
		m.Claim.Attempts, m.Queue = "tries", "work" // as takeIn asks
		s := opened(t, db, m)
		listen(s)
		tx := begin(t, db, pg)
		if jobs, err := s.SQLTx(tx).Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: 3}); err == nil || errors.Is(err, dibs.ErrUnavailable) {
			t.Errorf("claimed %v, %v", jobs, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		tx = begin(t, db, pg)
		takeIn(t, s.SQLTx(tx), 3, 2, 4)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		take(t, s, 3)
	})
}

// Rows that the table refuses to have put back keep their dead workers, and no other row does.
func TestRowsThatCannotBePutBackStopNobody(t *testing.T) {
	shapes := refusedShapes()
	timed := shapes["token"]
	timed.Claim.Timeout = "at"
	for name, m := range map[string]mapping.Mapping{"token": timed, "side table": shapes["side table"]} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				exec(t, db, refusing)
				exec(t, db, `insert into task (id, bad) values (1, null), (2, 'x'), (3, null), (4, 'x'), (5, null)`)
				for _, statement := range trigger(pg, "no", "new.bad = 'x' and new.mark is null and new.state = 'new'", "raise exception 'stay';", "raise(abort, 'stay')") {
					exec(t, db, statement)
				}
				m.Lease = 100 * time.Millisecond
				s := opened(t, db, m)
				log := listen(s)
				take(t, s, 5, 1, 2, 3, 4, 5)
				back := 0
				for deadline := time.Now().Add(time.Minute); back < 3 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
					swept, err := s.Sweep(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					back += swept.Expired
				}
				var waiting int
				if err := db.QueryRow(`select count(*) from task where bad is null and mark is null and state = 'new'`).Scan(&waiting); err != nil || waiting != 3 {
					t.Errorf("%d rows are back, %v", waiting, err)
				}
				for _, want := range []string{"key=2 ", "key=4 ", "put back", "stay"} {
					if !strings.Contains(log.String(), want) {
						t.Errorf("the log does not say %q:\n%s", want, log)
					}
				}
			})
		})
	}
}

// Of a row that is deleted because its last lease has ended, the log keeps the id.
func TestADeadRowThatIsDeletedIsLogged(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, refusing)
		exec(t, db, `insert into task (id) values (1)`)
		m := task()
		m.Claim = mapping.Claim{Token: "mark", Timeout: "at", Attempts: "tries"}
		m.MaxAttempts, m.Dead, m.Lease = 1, &mapping.Change{Delete: true}, 100*time.Millisecond
		s := opened(t, db, m)
		log := listen(s)
		take(t, s, 1, 1)
		for rows := 1; rows > 0; time.Sleep(20 * time.Millisecond) {
			if _, err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := db.QueryRow("select count(*) from task").Scan(&rows); err != nil {
				t.Fatal(err)
			}
		}
		if text := log.String(); !strings.Contains(text, "deleted") || !strings.Contains(text, "key=1") {
			t.Errorf("the log says %s", text)
		}
	})
}
