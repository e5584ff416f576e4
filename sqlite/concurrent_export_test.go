package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/dibs-queue/dibs/internal/rowstore"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

//go:embed testdata/concurrent/sql/*.sql
var concurrentFiles embed.FS

// Turns has the functions with which a test of the concurrent mode watches and decides who gets turns and keys.
type Turns struct {
	mu         sync.Mutex
	Refuse     func(turn rowstore.Turn) bool                                    // nil: each turn is got
	Taken      func(s *rowstore.Session, turn rowstore.Turn, shared bool) error // called when a turn was got
	RefuseKeys func() bool                                                      // nil: all keys are got
	Locked     func(keys []rowstore.UniqueKey)
}

// Concurrent makes a store work as on a database in which others write meanwhile: with turns, wake rows, noted starts
// and locked rows. SQLite still runs one write transaction at a time, so tests of this mode only show what transactions
// leave to each other.
func (s *Store) Concurrent(ctx context.Context, turns *Turns) error {
	added, err := fs.Sub(concurrentFiles, "testdata/concurrent")
	if err != nil {
		return err
	}
	for _, name := range sqlfiles.Names(added) {
		s.sql.Statements[name] = s.sql.named(sqlfiles.Statement(added, name))
	}
	if err := s.addTables(ctx); err != nil {
		return err
	}
	for name, pieces := range concurrentPieces {
		for _, p := range pieces {
			text, old := s.sql.Statements.Get(name), s.sql.named(p.old)
			if strings.Count(text, old) != 1 {
				return fmt.Errorf("%s.sql has not one %q", name, old)
			}
			s.sql.Statements[name] = strings.Replace(text, old, s.sql.named(p.new), 1)
		}
	}
	s.sql.Concurrent = turns.concurrent()
	return nil
}

// PassesOver reports whether a statement passes over jobs that other transactions hold.
func (s *Store) PassesOver(name string) bool {
	return strings.Contains(s.sql.Statements.Get(name), s.sql.named("dibs_locked"))
}

// ChangesJobs reports whether a statement changes or deletes jobs.
func (s *Store) ChangesJobs(name string) bool {
	text := s.sql.Statements.Get(name)
	for _, begin := range []string{"update dibs_job", "delete from dibs_job", "update dibs_finished", "delete from dibs_finished"} {
		if strings.HasPrefix(text, s.sql.named(begin)) {
			return true
		}
	}
	return false
}

// addTables makes the tables of this mode, unless another store on the file has.
func (s *Store) addTables(ctx context.Context) error {
	appended, look := false, s.sql.named("select count(*) from pragma_table_info('dibs_tally') where name = 'id'")
	if err := rowstore.One(ctx, s.readers, look, &appended); err != nil || appended { // write nothing if the tables exist: it would wait for a caller's open transaction
		return err
	}
	tx, err := s.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	err = rowstore.One(ctx, tx, look, &appended)
	for _, name := range []string{"tables", "tally_table"} {
		if err == nil && !appended {
			_, err = tx.ExecContext(ctx, s.sql.Statements.Get(name))
		}
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (t *Turns) concurrent() *rowstore.Concurrent {
	return &rowstore.Concurrent{
		OneWriter: true,
		Turn: func(s *rowstore.Session, turn rowstore.Turn, _ string, shared bool) (bool, error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			switch {
			case t.Refuse != nil && t.Refuse(turn):
				return false, nil
			case t.Taken != nil:
				return true, t.Taken(s, turn, shared)
			}
			return true, nil
		},
		LockKeys: func(_ *rowstore.Session, keys []rowstore.UniqueKey, _ bool) (bool, error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.Locked != nil {
				t.Locked(keys)
			}
			return t.RefuseKeys == nil || !t.RefuseKeys(), nil
		},
	}
}

type piece struct{ old, new string }

// settled keeps claims from jobs of groups that wait for an admission, and from locked ones.
const settled = `and (group_key is null or not exists (
      select 1
      from dibs_wake w
      where w.queue = ?1 and w.group_key = dibs_job.group_key and w.not_before <= ?3
    )) and id not in (select id from dibs_locked)
  `

// notDue says that the places of a group are to be given anew too if a job that is not due holds one in a queue that is no
// longer strict: its row may have been locked when that was set.
const notDue = `not ?4 and exists (
    select 1
    from dibs_job l
    where l.queue = ?1 and l.group_key = i.value and l.group_key is not null and l.gate in (0, 3)
      and l.token is null and l.run_at > ?3
  ) or `

// concurrentPieces are the parts that statements have only in this mode.
var concurrentPieces = map[string][]piece{
	"claim":              {{"order by run_at, id", settled + "order by run_at, id"}},
	"claim_rated":        {{"order by run_at, id", settled + "order by run_at, id"}},
	"claim_newest":       {{"order by run_at desc, id desc", settled + "order by run_at desc, id desc"}},
	"claim_rated_newest": {{"order by run_at desc, id desc", settled + "order by run_at desc, id desc"}},
	"held":               {{"where j.token is not null", "where j.token is not null and j.id not in (select id from dibs_locked)"}},
	"follow":             {{"and followed = 0", "and followed = 0 and id not in (select id from dibs_locked)"}},
	"count_running":      {{"and token is not null", "and token is not null and id not in (select id from dibs_locked)"}},
	"live":               {{"on j.id = i.value", "on j.id = i.value and j.id not in (select id from dibs_locked)"}},
	"ended":              {{"on f.id = i.value", "on f.id = i.value and f.id not in (select id from dibs_locked)"}},
	"resume":             {{"and lease_until > ?3", "and lease_until > ?3 and id not in (select id from dibs_locked)"}},
	"due":                {{"and run_at <= ?2", "and run_at <= ?2 and id not in (select id from dibs_locked)"}},
	"prune":              {{"and finished_at <= ?3", "and finished_at <= ?3 and id not in (select id from dibs_locked)"}},
	"prune_steps":        {{"and finished_at <= ?3", "and finished_at <= ?3 and id not in (select id from dibs_locked)"}},
	"mend_groups":        {{"where case", "where not exists (\n    select 1\n    from dibs_wake w\n    where w.queue = g.queue and w.group_key = g.group_key\n  )\n  and case"}},
	"mend_leases":        {{"> ?3 + 90000000000", "> ?3 + 90000000000 and id not in (select id from dibs_locked)"}},
	"places":             {{"coalesce((", notDue + "coalesce(("}},
	"displace":           {{"and token is null", "and token is null and id not in (select id from dibs_locked)"}},
	"admit":              {{"= i.value ->> 0 and b.gate = 1", "= i.value ->> 0 and b.gate = 1 and b.id not in (select id from dibs_locked)"}, {"= j.group_key and b.gate = 1", "= j.group_key and b.gate = 1 and b.id not in (select id from dibs_locked)"}},
	"repairable":         {{"where held > places and unclaimed > 0", "where held > places and unclaimed > 0 and not exists (\n    select 1\n    from dibs_wake w\n    where w.queue = groups.queue and w.group_key = groups.group_key\n  )"}, {"where r.queue = groups.queue and r.group_key = groups.group_key and r.held_until is not null\n  )", "where r.queue = groups.queue and r.group_key = groups.group_key and r.held_until is not null\n  )\n  and not exists (\n    select 1\n    from dibs_wake w\n    where w.queue = groups.queue and w.group_key = groups.group_key\n  )"}},
	"check":              {{"where c.check_at > j.lease_until", "where c.check_at > max(j.lease_until, 1000000 + (\n  select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)\n  from dibs_clock\n))"}},
	"extend":             {{"and lease_until > ?2", "and lease_until > ?2 and dibs_job.id not in (select id from dibs_locked)"}},
	"drop_rates":         {{"and held_until is null", "and held_until is null and not exists (\n      select 1\n      from dibs_start s\n      where s.queue = dibs_rate.queue\n    )"}},
	"due_queues":         {{"or exists (\n    select 1\n    from dibs_rate r", "or exists (\n    select 1\n    from dibs_wake w\n    where w.queue = asked.queue and w.not_before <= ?2\n  )\n  or exists (\n    select 1\n    from dibs_rate r"}},
}
