package adopt_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

type badMapping struct {
	name       string
	change     func(m *mapping.Mapping)
	field, why string
}

var badMappings = []badMapping{
	{"missing table", func(m *mapping.Mapping) { m.Table = "ordres" }, "table", "there is no table"},
	{"a format of times that is none", func(m *mapping.Mapping) { m.Times = "epoch" }, "times", "must be one of utc, local, seconds, millis, micros, iso, unix, unix_ms"},
	{"missing column in id", func(m *mapping.Mapping) { m.ID = mapping.Columns{"ident"} }, "id", `no column "ident"; it has id, status`},
	{"missing column in order", func(m *mapping.Mapping) { m.Order = mapping.Columns{"prio desc"} }, "order", `no column "prio"`},
	{"missing column in claim", func(m *mapping.Mapping) { m.Claim.Token = "mark" }, "claim.token", `no column "mark"`},
	{"missing column in set", func(m *mapping.Mapping) { m.Completed.Set["x"] = 1 }, "completed.set", `no column "x"`},
	{"missing column in a condition", func(m *mapping.Mapping) { m.Available = "state = 'new'" }, "available", "state"},
	{"id that is not unique", func(m *mapping.Mapping) { m.ID = mapping.Columns{"amount"} }, "id", "no unique index"},
	{"attempts in a text", func(m *mapping.Mapping) { m.Claim.Attempts = "status" }, "claim.attempts", "whole numbers"},
	{"a row's attempts in a text", func(m *mapping.Mapping) { m.MaxAttemptsColumn, m.Dead = "note", &mapping.Change{Delete: true} }, "max_attempts_column", "whole numbers"},
	{"one column for attempts made and allowed", func(m *mapping.Mapping) { m.MaxAttemptsColumn, m.Dead = "tries", &mapping.Change{Delete: true} }, "max_attempts_column", "claim.attempts too"},
	{"a row's attempts without an end", func(m *mapping.Mapping) { m.MaxAttemptsColumn = "amount" }, "dead", "is missing"},
	{"token in a number", func(m *mapping.Mapping) { m.Claim.Token = "amount" }, "claim.token", "a token needs"},
	{"a time in a boolean", func(m *mapping.Mapping) { m.Claim.StartedAt = "busy" }, "claim.started_at", "no time"},
	{"a worker in a number", func(m *mapping.Mapping) { m.Claim.LockedBy = "amount" }, "claim.locked_by", "needs text"},
	{"null where there can be none", func(m *mapping.Mapping) { m.PutBack.Set["status"] = nil }, "put_back.set", "cannot be null"},
	{"a claim that does not change what makes a row available", func(m *mapping.Mapping) { m.Claim.Set = nil }, "claim", "claimed for ever"},
	{"a claim that leaves its own condition true", func(m *mapping.Mapping) { m.Claim.Set["status"] = "new" }, "claim", "claimed for ever"},
	{"a claim that ends the row", func(m *mapping.Mapping) { m.Claim.Set["ended_at"] = "$now" }, "unfinished", "would be refused"},
	{"running that a claim does not make true", func(m *mapping.Mapping) { m.Running = "status = 'busy'" }, "running", "would be refused"},
	{"put_back that does not", func(m *mapping.Mapping) { m.PutBack.Set = mapping.Set{"note": "x"} }, "put_back", "available again"},
	{"completed that does not end", func(m *mapping.Mapping) { m.Completed.Set = mapping.Set{"status": "done"} }, "completed", "leaves the row unfinished"},
	{"dead that does not end", func(m *mapping.Mapping) { m.Dead = &mapping.Change{Set: mapping.Set{"note": "x"}} }, "dead", "leaves the row unfinished"},
}

func TestBadMappings(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		good := orders(t, db, pg)
		if _, err := adopt.Open(context.Background(), db, good); err != nil {
			t.Fatal(err)
		}
		badMappings := badMappings
		if pg { // SQLite ignores lengths
			badMappings = append(badMappings[:len(badMappings):len(badMappings)],
				badMapping{"token that is too short", func(m *mapping.Mapping) { m.Claim.Token = "note" }, "claim.token", "a token needs"},
				badMapping{"a text that is too long", func(m *mapping.Mapping) { m.Completed.Set["note"] = "far too long" }, "completed.set", "8 characters"})
		}
		for _, bad := range badMappings {
			t.Run(bad.name, func(t *testing.T) { refuses(t, db, changed(good, bad.change), bad.field, bad.why) })
		}
		// In an empty table a row of defaults shows the same.
		exec(t, db, "delete from orders")
		for _, bad := range badMappings {
			t.Run("in an empty table: "+bad.name, func(t *testing.T) { refuses(t, db, changed(good, bad.change), bad.field, bad.why) })
		}
	})
}

// Open refuses a condition that is not one boolean expression, or that may write.
func TestBadConditions(t *testing.T) {
	both := []string{
		"", "status =", "status = 'new", "(status = 'new'", "status = 'new')", "status = 'new') or (1=1",
		"status = 'new'; drop table orders", "status = 'new' -- yes", "status = 'new' /* yes */", "status = $1",
		"status = 'new' order by id", "status = 'new' union select 1", "status, note", "update orders set status = 'x'",
		"exists (delete from orders)", "exists (with x as (delete from orders returning 1) select 1 from x)",
		"status = 'new' limit 1", "random() > 0.5", "count(*) > 1", "status = 'new' \x00token\x00", "st\x01atus = 'new'",
		`"nothing" = 'new'`, "1=1) or exists (select 1 from orders where (1=1",
	}
	postgres := []string{
		"amount", "'new'", "touch(id::int)", "status = 'new' and (select touch(1))", "nextval('s') > 1", "pg_sleep(1) is null",
		"exists (select from orders o for update)", "exists (select from vague where x > 1)", `status = 'a\'`, "status = $tag$new",
		"pg_advisory_lock(1) is null", "status = $tag$new$tag$ or $1", "generate_series(1, 2) = 1", "(status = 'new')::bool]",
	}
	sqlite := []string{"status = ?", "status = :x", "status = @x", "load_extension('x') = 1", "randomblob(4) = 1", "last_insert_rowid() = 1", "status = `new", "changes() = 1"}
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		good := orders(t, db, pg)
		own := sqlite
		if pg {
			own = postgres
			exec(t, db, "create sequence s")
		}
		for _, text := range append(own, both...) {
			for _, field := range []string{"unfinished", "available", "where", "running"} {
				if text == "" && field != "unfinished" && field != "available" {
					continue // these conditions are optional
				}
				m := good
				*map[string]*string{"where": &m.Where, "unfinished": &m.Unfinished, "available": &m.Available, "running": &m.Running}[field] = text
				t.Run(field+": "+text, func(t *testing.T) { refuses(t, db, m, field, whyRefused(text)) })
			}
		}
		var n int
		if err := db.QueryRow("select count(*) from orders").Scan(&n); err != nil || n != 3 {
			t.Errorf("%d rows are left, %v", n, err)
		}
	})
}

// whyRefused is a part of the error about a condition that is a valid expression.
func whyRefused(text string) string {
	for _, call := range []string{"touch(", "nextval(", "pg_sleep(", "pg_advisory_lock(", "random()", "randomblob(", "last_insert_rowid(", "changes()"} {
		if strings.Contains(text, call) {
			return ", which may write or changes from call to call"
		}
	}
	if strings.Contains(text, "for update") {
		return "locks rows"
	}
	return ""
}

// Open accepts conditions that only look dangerous.
func TestGoodConditions(t *testing.T) {
	both := []string{
		"status = 'new' and note is null", "status = 'new' and coalesce(note, ';--') <> 'it''s; /* fine */ $1 ?'", `t."status" in ('new', 'old)')`,
		"status = 'new' and not exists (select 1 from orders o where o.id = t.id and o.note = 'x')",
		"status = 'new' and lower(status) = 'new'", "status = 'new' and (started_at is null or started_at < current_timestamp)",
		"status like 'ne%'", "case when status = 'new' then 1 else 0 end = 1",
	}
	own := map[bool][]string{
		true: {
			"looks(status)", "free(t)", "free(t.*)", "status = E'n\\u0065w'", "status = $x$new$x$", "status::varchar = 'new' and started_at is null",
			"status = 'new' and (body is null or body::jsonb ? 'x')", "status = any (array['new'])", "status ~ '^new$'",
			"status = 'new' and coalesce(started_at, now() - interval '1 hour') < now()",
		},
		false: {"`status` = 'new'", "[status] = 'new'", "status = 'new' and coalesce(started_at, datetime('now', '-1 hour')) < datetime('now')"},
	}
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		for _, text := range append(own[pg], both...) {
			m.Available = text
			if _, err := adopt.Open(context.Background(), db, m); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}

// Names and values never become SQL.
func TestNamesAndValuesAreQuoted(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		ctx := context.Background()
		evil := `x"; drop table keep; --`
		q := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		exec(t, db, "create table keep (id int)")
		exec(t, db, "create table "+q(evil)+" (id integer primary key, "+q("a'"+evil)+" text, "+q("b`]"+evil)+" text, "+q("select")+" int)")
		exec(t, db, "insert into "+q(evil)+" (id) values (1), (2)")
		s, err := adopt.Open(ctx, db, mapping.Mapping{
			Table: evil, Queue: "q", ID: mapping.Columns{"id"}, Order: mapping.Columns{"select desc"},
			Rows:      mapping.Rows{Unfinished: q("b`]"+evil) + " is null", Available: q("a'"+evil) + " is null"},
			Claim:     mapping.Claim{LockedBy: "a'" + evil},
			Completed: mapping.Change{Set: mapping.Set{"b`]" + evil: `'; drop table keep; -- \' $x$ ? $1`}},
		})
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := s.Claim(ctx, dibs.ClaimRequest{Worker: `w'; drop table keep; --`, N: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		if err := s.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
		var got, by string
		if err := db.QueryRow("select "+q("b`]"+evil)+", "+q("a'"+evil)+" from "+q(evil)+" where id = 1").Scan(&got, &by); err != nil {
			t.Fatal(err)
		}
		if got != `'; drop table keep; -- \' $x$ ? $1` || by != `w'; drop table keep; --` {
			t.Errorf("the row has %q and %q", got, by)
		}
		exec(t, db, "select 1 from keep where 1 = 0")
	})
}

// Open refuses a column that a statement cannot use; the first claim would be too late.
func TestColumnsThatStatementsCannotUse(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		m := orders(t, db, pg)
		if !pg {
			return // SQLite sorts and compares values of all types
		}
		m.Order = mapping.Columns{"body"}
		refuses(t, db, m, "mapping", `the statement "claim" made from it`)
	})
}
