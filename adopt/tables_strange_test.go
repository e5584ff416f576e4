package adopt_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/needs"
)

// strangeTables have features that the five other tables lack. What a row asks its handler to do stands in
// whatever column can hold it.
var strangeTables = []owned{
	{
		name:   "task_result",
		ended:  "new.status not in ('PENDING', 'STARTED', 'RETRY')",
		byHand: "update task_result set status = 'SUCCESS', remark = 'by hand' where id = cast($1 as integer) and status in ('PENDING', 'STARTED', 'RETRY')",
		insert: "insert into task_result (task_id, task_kwargs) values ",
		values: func(i int, do string) string { return fmt.Sprintf(`('task-%d', '{"do": "%s"}')`, i, do) },
	},
	{
		name:   "message_status",
		ended:  "new.status in (4, 6, 7)",
		byHand: "update message_status set status = 4, remark = 'by hand' where id = cast($1 as bigint) and status in (2, 3, 5)",
		insert: "insert into message_status (queue_id, message_id, topic) values ",
		values: func(i int, do string) string { return fmt.Sprintf("(%d, 1, '%s')", i, do) },
	},
	{
		name:   "email",
		ended:  "new.sent_at is not null",
		byHand: "update email set sent_at = current_timestamp, remark = 'by hand' where id = cast($1 as integer) and sent_at is null",
		insert: "insert into email (recipient, subject) values ",
		values: func(i int, do string) string { return fmt.Sprintf("('%d@example.org', '%s')", i, do) },
	},
	{
		name:   "booking",
		ended:  "new.state not in ('open', 'busy')",
		byHand: "update booking set state = 'booked', remark = 'by hand' where KEY = $1 and state in ('open', 'busy')",
		insert: "insert into booking (tenant, seq, what) values ",
		values: func(i int, do string) string { return fmt.Sprintf("('t\"%d', %d, '%s')", i%7, i, do) },
		unsure: map[string]any{"completed": map[string]any{"set": map[string]any{"state": "booked"}}},
		key: func(prefix, kind string) string {
			array := "json_array"
			if kind == "postgres" {
				array = "jsonb_build_array"
			}
			return "cast(" + array + "(" + prefix + "tenant, " + prefix + "seq) as " + textOf(kind) + ")"
		},
	},
	{
		name:   "event",
		ended:  "new.handled_at is not null",
		byHand: "update event set handled_at = now(), remark = 'by hand' where KEY = $1 and handled_at is null",
		insert: "insert into event (created_at, data) values ",
		values: func(i int, do string) string { // the rows go to all partitions, with different microseconds
			return fmt.Sprintf(`(timestamptz '2025-12-01 00:00:00+00' + interval '1 day' * %d + interval '1 microsecond' * %d, '{"do": "%s"}')`, i%90, i, do)
		},
		key: func(prefix, _ string) string {
			return "jsonb_build_array(" + prefix + "id, " + prefix + "created_at at time zone 'utc')::text"
		},
		pgOnly: true,
	},
	{
		name:   "ORDERS",
		table:  `"My Schema"."ORDERS"`,
		ended:  `new."STATE" not in ('NEW', 'WORK')`,
		byHand: `update "My Schema"."ORDERS" set "STATE" = 'DONE', "REMARK" = 'by hand' where "Id" = cast($1 as bigint) and "STATE" in ('NEW', 'WORK')`,
		insert: `insert into "My Schema"."ORDERS" ("What's in it") values `,
		values: func(_ int, do string) string { return "('" + do + "')" },
		remark: `"REMARK"`,
		pgOnly: true,
	},
	{
		name:   "Order",
		ended:  "new.status not in ('PENDING', 'PROCESSING')",
		byHand: `update "Order" set status = 'COMPLETED', remark = 'by hand' where id = $1 and status in ('PENDING', 'PROCESSING')`,
		insert: `insert into "Order" (id, payload) values `,
		values: func(i int, do string) string { return fmt.Sprintf(`('c%06d', '{"do": "%s"}')`, i, do) },
	},
	{
		name:   "letter",
		ended:  "new.posted <> 0",
		byHand: "update open_letter set done = 1, remark = 'by hand' where id = cast($1 as bigint) and done = 0",
		insert: `insert into open_letter ("lines") values `,
		values: func(_ int, do string) string { return "('" + do + "')" },
	},
}

// withDefaults fills in the fields that are the same for most tables.
func (o owned) withDefaults(m mapping.Mapping, kind string) owned {
	if o.table == "" {
		o.table = `"` + m.Table + `"`
	}
	if o.key == nil {
		o.key = func(prefix, kind string) string {
			return "cast(" + prefix + `"` + m.ID[0] + `" as ` + textOf(kind) + ")"
		}
	}
	if o.remark == "" {
		o.remark = "remark"
	}
	o.byHand = strings.ReplaceAll(o.byHand, "KEY", o.key("", kind))
	if kind == "mariadb" {
		o.byHand = strings.NewReplacer(" as bigint)", " as signed)", " as integer)", " as signed)", " as text)", " as char)").Replace(o.byHand)
		o.byHand, _ = unnumbered(o.byHand, "")
	}
	return o
}

// textOf is the type of texts in casts.
func textOf(kind string) string {
	if kind == "mariadb" {
		return "char"
	}
	return "text"
}

func TestStrangeTables(t *testing.T) {
	needs.Long(t)
	for i, o := range strangeTables {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			onEvery(t, func(t *testing.T, driver, dsn string) {
				if o.pgOnly && driver != "pgx" {
					return
				}
				if !o.pgOnly && driver != "mysql" && (i%2 == 0) == (driver == "pgx") {
					needs.Night(t, "each of these tables is worked on one database, the five of TestFiveTables on both")
				}
				f := &fleet{owned: o, rows: 300, extra: 100, processes: 3, kills: 2, limit: 3 * time.Minute}
				if os.Getenv("DIBS_SOAK") != "" {
					f.rows, f.extra, f.kills = 20_000, 2000, 6
				}
				f.make(t, driver, dsn)
				found := f.run(t)
				found.judge(func(format string, args ...any) { t.Errorf(format, args...) })
				if found.recovered == 0 || found.refused == 0 {
					t.Errorf("%d rows of killed processes were recovered and %d finishes refused: nothing was tested", found.recovered, found.refused)
				}
			})
		})
	}
}

// A proposal for a strange table works as it is, once the fields marked as not sure are filled in.
func TestStrangeTablesCanBeWorkedByTheirProposals(t *testing.T) {
	for _, o := range strangeTables {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			onEvery(t, func(t *testing.T, driver, dsn string) {
				if o.pgOnly && driver != "pgx" {
					return
				}
				f := &fleet{owned: o, rows: 60}
				f.make(t, driver, dsn)
				n := 0
				for id := range f.ranks(t) {
					if n++; n%3 == 0 {
						statement(t, f.db, f.byHand, id)
					}
				}
				_, text := proposed(t, f.db, f.m.Table)
				m := f.filledIn(t, text)
				for _, found := range findings(t, f.db, m) {
					if found.Severity == advice.SeverityError {
						t.Errorf("%+v in\n%s", found, text)
					}
				}
				f.workAll(t, m)
				if all, twice := f.count(t, "ended"), f.count(t, "(select id from ended group by id having count(*) > 1) x"); all < f.rows || twice > 0 {
					t.Errorf("of %d rows %d have ended, %d of them twice, by\n%s", f.rows, all, twice, text)
				}
			})
		})
	}
}

// filledIn is a proposal with values for the fields that it marks as not sure.
func (f *fleet) filledIn(t *testing.T, text string) mapping.Mapping {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	for field, value := range f.unsure {
		if !strings.Contains(text, "NOT SURE: "+field+": ") {
			t.Errorf("%s is not marked in\n%s", field, text)
		}
		all[field] = value
	}
	again, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mapping.Parse(again)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// workAll runs workers until every row of the mapping has ended.
func (f *fleet) workAll(t *testing.T, m mapping.Mapping) {
	t.Helper()
	s := open(t, f.db, m)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	w := &dibs.Worker{Store: s, Queue: s.Queue(), Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	w.Hooks.Finished = func(dibs.Attempt) {
		if f.count(t, f.table+" t where "+m.Unfinished) == 0 {
			stop()
		}
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}
