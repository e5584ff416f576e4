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

// unlimited lifts statement_timeout for a statement that reads all rows, as pg_dump does. The statement locks nothing;
// it compares rows of one snapshot, so smaller steps would keep that snapshot open for just as long.
var unlimited = qualify.Text(`select set_config('statement_timeout', '0', true)`)

// Check implements admin.Database. The upkeep's connections serve it even if the caller's transaction holds the last other one.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	return s.readsOn(func(s *Store) conn { return freely(s.upkeep) }).Check(ctx)
}

// freely runs statements that read all rows, however long they take.
func freely(c conn) conn { return &preceded{conn: c, by: []step{{sql: unlimited}, {sql: planFreely}}} }

// Repair mends what Check finds after rows were deleted or inserted by hand, and returns
// those findings, one line each: jobs that nobody would ever claim or expire, counts that
// differ from the rows, groups that have free places but wait, payloads and steps without a job. Workers may run meanwhile. The command
// dibs check --repair calls it.
func (s *Store) Repair(ctx context.Context) ([]string, error) {
	if err := s.ready(ctx, "repair"); err != nil {
		return nil, err
	}
	mended, err := s.mendAll(ctx)
	if err == nil {
		_, err = s.settleRounds(ctx, freely(s.upkeep), untilDone)
	}
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
	found := checks.Mended(mended)
	for _, d := range wrong {
		if found = append(found, d.Finding); d.State == "group" {
			s.Wake(d.Queue)
		}
	}
	return found, nil
}

// repair finds damage and corrects it in one transaction, under a lock that keeps other
// repairs out: two repairs at once would both add what a count lacks.
func (s *Store) repair(ctx context.Context, t pgx.Tx) (wrong []reads.Damage, err error) {
	c := s.connOn(t)
	turn := s.step("lock_repair", lockKey(s.o.schema(), "repair"))
	if err := freely(c).run(ctx, waitBriefly, turn, collect(s.step("repairable"), &wrong, (*reads.Damage).Columns)); err != nil {
		return nil, err
	}
	var steps []step
	woken, stray := map[string]bool{}, false
	for _, d := range wrong {
		switch {
		case d.State == "payload": // Check makes at most one finding about payloads
			steps = append(steps, s.step("payloads"))
		case d.State == "step" || d.State == "edge":
			stray = true
		case d.State != "group":
			lacks := map[string]int64{d.State: d.Lacks}
			steps = append(steps, s.step("tally", d.Queue, lacks["waiting"], lacks["blocked"], lacks["running"], lacks["completed"], lacks["dead"], lacks["cancelled"]))
		case !woken[d.Queue]:
			woken[d.Queue] = true
			steps = append(steps, s.step("wake_groups", d.Queue))
		}
	}
	if stray {
		steps = append(steps, s.step("stray_steps"))
	}
	if len(steps) == 0 {
		return wrong, nil
	}
	return wrong, c.run(ctx, steps...)
}
