package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/reads"
)

// planFreely lets the planner choose any plan for a statement that reads all rows.
var planFreely = qualify.Text(`select set_config(name, 'on', true) from unnest(array['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'enable_bitmapscan', 'enable_material']) name`)

// unlimited has a statement that reads all rows end when it has read them, as pg_dump does: it locks nothing, and what it compares
// has to be of one snapshot, so smaller steps would hold that for as long.
var unlimited = qualify.Text(`select set_config('statement_timeout', '0', true)`)

// Check implements dibs.Database. The upkeep's connections serve it even if the caller's transaction holds the last other one.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	return s.readsOn(func(s *Store) conn { return freeConn{s.upkeep} }).Check(ctx)
}

// freeConn reads all rows, however long that takes.
type freeConn struct{ conn }

func (c freeConn) run(ctx context.Context, steps ...step) error {
	return c.conn.run(ctx, append([]step{{sql: unlimited}, {sql: planFreely}}, steps...)...)
}

// Repair mends what Check finds after rows were deleted or inserted by hand, and returns
// those findings, one line each: jobs that nobody would ever claim or expire, counts that
// differ from the rows, groups that have free places but wait, and payloads without a job. Workers may run meanwhile. The command
// dibs check --repair calls it.
func (s *Store) Repair(ctx context.Context) ([]string, error) {
	if err := s.ready(ctx, "repair"); err != nil {
		return nil, err
	}
	mended, err := s.mendAll(ctx)
	if err != nil {
		return nil, wrap("repair", err)
	}
	t, end, err := s.begin(ctx)
	if err != nil {
		return nil, wrap("repair", err)
	}
	defer end()
	wrong, err := s.repair(ctx, t)
	if err == nil {
		err = t.Commit(ctx)
	}
	if err != nil {
		return nil, wrap("repair", s.explain(ctx, err))
	}
	for queue := range wrong.groups {
		s.Wake(queue)
	}
	return append(checks.Mended(mended), wrong.findings...), nil
}

// repair finds and mends in one transaction, under a lock that keeps other repairs out:
// two at once would both add what a count lacks.
func (s *Store) repair(ctx context.Context, t pgx.Tx) (wrong repairable, err error) {
	c := s.connOn(t)
	turn := step{sql: s.sql.get("lock_repair"), args: []any{lockKey(s.o.schema(), "repair")}}
	if err := (freeConn{c}).run(ctx, waitBriefly, turn, s.repairable(&wrong)); err != nil {
		return wrong, err
	}
	var steps []step
	for queue, n := range wrong.counts {
		steps = append(steps, step{
			sql:  s.sql.get("tally"),
			args: []any{queue, n["waiting"], n["blocked"], n["running"], n["completed"], n["dead"], n["cancelled"]},
		})
	}
	for queue := range wrong.groups {
		steps = append(steps, step{sql: s.sql.get("wake_groups"), args: []any{queue}})
	}
	if wrong.payloads {
		steps = append(steps, step{sql: s.sql.get("payloads")})
	}
	if len(steps) == 0 {
		return wrong, nil
	}
	return wrong, c.run(ctx, steps...)
}

// repairable holds what repairable.sql has found.
type repairable struct {
	findings []string
	counts   map[string]map[string]int64 // what must be added to each count, by queue and state
	groups   map[string]bool             // queues with groups that must be woken
	payloads bool                        // there are payloads without a job
}

func (s *Store) repairable(wrong *repairable) step {
	return step{sql: s.sql.get("repairable"), row: func(scan func(...any) error) error {
		var d reads.Damage
		if err := scan(d.Columns()...); err != nil {
			return err
		}
		wrong.findings = append(wrong.findings, d.Finding)
		switch {
		case d.State == "group":
			wrong.groups[d.Queue] = true
			return nil
		case d.State == "payload":
			wrong.payloads = true
			return nil
		case wrong.counts[d.Queue] == nil:
			wrong.counts[d.Queue] = map[string]int64{}
		}
		wrong.counts[d.Queue][d.State] = d.Lacks
		return nil
	}, begin: func() { *wrong = repairable{counts: map[string]map[string]int64{}, groups: map[string]bool{}} }}
}
