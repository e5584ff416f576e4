package adopt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// legacy is how the product's own worker takes a row and ends it, with the row's id as the parameter. It ends only a row that still is as
// it has taken it.
type legacy struct{ take, end string }

// productTables are tables of products as they are on MariaDB: testdata/products/NAME.mariadb.sql makes them, without the rows that stand
// there; their mappings are those of examples/mappings.
var productTables = []owned{
	{
		name:   "laravel",
		ended:  "new.queue = 'failed'",
		byHand: "delete from jobs where id = cast($1 as bigint) and queue = 'default'",
		insert: "insert into jobs (queue, payload, attempts, available_at, created_at) values ",
		values: func(_ int, do string) string {
			return fmt.Sprintf(`('default', '{"do": "%s"}', 0, unix_timestamp(), unix_timestamp())`, do)
		},
		remark: "payload",
		legacy: legacy{
			"update jobs set reserved_at = unix_timestamp(), attempts = attempts + 101 where id = ? and queue = 'default' and reserved_at is null",
			"delete from jobs where id = ? and attempts > 100 and reserved_at is not null",
		},
	},
	{
		name:   "delayed_job",
		ended:  "new.failed_at is not null",
		byHand: "delete from delayed_jobs where id = cast($1 as bigint) and failed_at is null",
		insert: "insert into delayed_jobs (handler, run_at, created_at, updated_at) values ",
		values: func(_ int, do string) string {
			return fmt.Sprintf(`('--- {do: "%s"}', utc_timestamp(6), utc_timestamp(6), utc_timestamp(6))`, do)
		},
		remark: "last_error",
		legacy: legacy{
			"update delayed_jobs set locked_at = utc_timestamp(6), locked_by = 'host:web1 pid:4711' where id = ? and locked_at is null and failed_at is null",
			"delete from delayed_jobs where id = ? and locked_by = 'host:web1 pid:4711'",
		},
	},
	{
		name:   "magento",
		ended:  "new.status in ('success', 'error')",
		byHand: "update cron_schedule set status = 'success', messages = 'by hand' where schedule_id = cast($1 as bigint) and status in ('pending', 'running')",
		insert: "insert into cron_schedule (job_code, messages, scheduled_at) values ",
		values: func(i int, do string) string {
			code := i
			if i%5 == 0 {
				code = i / 50 * 50
			}
			return fmt.Sprintf(`('job%d', '%s', now())`, code, do)
		},
		group:  "job_code",
		remark: "messages",
		legacy: legacy{
			"update cron_schedule set status = 'running', executed_at = now(), messages = 'legacy' where schedule_id = ? and status = 'pending'",
			"update cron_schedule set status = 'success', finished_at = now() where schedule_id = ? and status = 'running' and messages = 'legacy'",
		},
	},
	{
		name:   "action_scheduler",
		ended:  "new.status in ('complete', 'failed', 'canceled')",
		byHand: "update wp_actionscheduler_actions set status = 'complete', schedule = 'by hand' where action_id = cast($1 as bigint) and status in ('pending', 'in-progress')",
		insert: "insert into wp_actionscheduler_actions (hook, status, scheduled_date_gmt, args) values ",
		values: func(i int, do string) string {
			return fmt.Sprintf(`('hook%d', 'pending', utc_timestamp(), '{"do": "%s"}')`, i%3, do)
		},
		remark: "schedule",
		legacy: legacy{
			"update wp_actionscheduler_actions set claim_id = 77 where action_id = ? and status = 'pending' and claim_id = 0",
			"update wp_actionscheduler_actions set status = 'complete' where action_id = ? and claim_id = 77 and status = 'pending'",
		},
	},
}

// Three processes, of which two are killed, work on the tables of products, while another program inserts rows and the product's own
// worker takes some.
func TestProductsAreWorkedBesideTheirOwnWorkers(t *testing.T) {
	needs.Long(t)
	for _, o := range productTables {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			f := &fleet{owned: o, rows: 300, extra: 200, processes: 3, kills: 2, limit: 5 * time.Minute}
			f.make(t, "mysql", mytest.Address(t))
			found := f.run(t)
			found.judge(func(format string, args ...any) { t.Errorf(format, args...) })
			if found.recovered == 0 || found.taken == 0 {
				t.Errorf("%d rows of killed processes were recovered, the product's worker took %d rows: nothing was tested", found.recovered, found.taken)
			}
		})
	}
}

// withoutProductRows leaves out the rows of a product's file.
func withoutProductRows(l legacy, text string) string {
	if l.take != "" {
		text, _, _ = strings.Cut(text, "insert into")
	}
	return text
}

// takeOne has the product's own worker take a row and end it, if nobody has taken it.
func (f *fleet) takeOne(t *testing.T, o *others, name string) {
	began := time.Now()
	if f.legacy.take == "" || statement(t, f.db, f.legacy.take, name) == 0 {
		return
	}
	<-time.After(20 * time.Millisecond) // it works
	ended := false
	err := f.rec.Ended(f.id(t, name), func() (bool, error) {
		var err error
		ended, err = oneRow(f.db.ExecContext(t.Context(), f.legacy.end, name))
		return ended, err
	})
	switch {
	case ended:
		o.taken++
	case time.Since(began) < f.m.Lease:
		t.Errorf("row %s, which the product's worker has taken, was taken from it after %v: %v", name, time.Since(began), err)
	}
}
