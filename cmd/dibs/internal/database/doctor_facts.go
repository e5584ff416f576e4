package database

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/jackc/pgx/v5"
)

// word puts a fact about the database into words; ok is false for facts that are worded elsewhere.
func (d *medic) word(f admin.Fact, all []admin.Fact) (found ailment, ok bool) {
	for _, words := range []func(admin.Fact, []admin.Fact) (string, string, string){d.ofMariaDB, d.ofSessions, d.ofTables, d.ofSchema, d.ofServer, d.ofFile} {
		if severity, text, next := words(f, all); severity != "" {
			return ailment{severity, f.Name, text, next}, true
		}
	}
	switch f.Name {
	case "file":
		d.Looked = append(d.Looked, fmt.Sprintf("%s of SQLite %s", size(f.N), f.Text))
	case "mariadb":
		version, _, _ := strings.Cut(f.Text, "-")
		d.Looked = append(d.Looked, "MariaDB "+name(version))
	case "hidden_sessions":
		d.Skipped = append(d.Skipped, fmt.Sprintf("%s of other roles: the role may not see them; as a superuser: grant pg_read_all_stats to the role", words.Plural(int(f.N), "session")))
	}
	return found, false
}

// wrongIf returns the severity of a finding that is either wrong or only worth knowing.
func wrongIf(wrong bool) string {
	if wrong {
		return severityWrong
	}
	return severityNote
}

// terminate is the statement that ends a session.
func terminate(pid int64) string { return fmt.Sprintf("select pg_terminate_backend(%d);", pid) }

// literal writes a text in SQL.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + name(s) + ")"
}

// ofSessions words sessions with long transactions, and those that hold up others.
func (d *medic) ofSessions(f admin.Fact, _ []admin.Fact) (severity, text, next string) {
	detail := term.Clip(words.OneLine(strings.ReplaceAll(f.Text, "\n", " ")), 160)
	switch f.Name {
	case "idle_transaction":
		idle := time.Duration(f.N) * time.Second
		return wrongIf(idle >= 5*time.Minute), fmt.Sprintf("process %d of the server%s has had a transaction open for %s and does nothing in it for %s: vacuum removes no dead rows meanwhile; %s",
			f.ID, inBrackets(f.About), words.Roughly(f.Age), words.Roughly(idle), detail), terminate(f.ID)
	case "long_transaction":
		return wrongIf(f.Age >= time.Hour), fmt.Sprintf("process %d of the server%s has had a transaction open for %s: vacuum removes no dead rows meanwhile; %s",
			f.ID, inBrackets(f.About), words.Roughly(f.Age), detail), fmt.Sprintf("select pg_cancel_backend(%d);", f.ID)
	case "standby_wait":
		return severityWrong, fmt.Sprintf("%s for a synchronous standby, the longest for %s: nothing is committed meanwhile", words.Verb(f.N, "commit waits", "commits wait"), words.Roughly(f.Age)),
			"select application_name, state, sync_state from pg_stat_replication;"
	case "lock":
		if f.ID == 0 {
			return severityWrong, fmt.Sprintf("a prepared transaction holds up %s at the table %s, for %s", words.Plural(int(f.N), "session"), name(f.About), words.Roughly(f.Age)),
				"select gid, prepared, owner from pg_prepared_xacts;"
		}
		return severityWrong, fmt.Sprintf("process %d of the server holds up %s at the table %s, for %s (process %d waits); %s", f.ID, words.Plural(int(f.N), "session"), name(f.About), words.Roughly(f.Age), f.Of, detail), terminate(f.ID)
	case "turn":
		return severityWrong, fmt.Sprintf("process %d of the server has held for %s the lock by which others take turns at %s, so nobody else does it; %s", f.ID, words.Roughly(f.Age), name(f.About), detail), terminate(f.ID)
	case "slot":
		use := "holds back"
		if f.Text == "inactive" {
			use = "is not read by anybody, and keeps"
		}
		return wrongIf(f.N > 1_000_000 || f.Of > 10<<30), fmt.Sprintf("the replication slot %s %s %s of the server's log, and dead rows of the last %s", name(f.About), use, size(f.Of), words.Plural(int(f.N), "transaction")),
			"select pg_drop_replication_slot(" + literal(f.About) + "); -- if nobody needs it"
	case "prepared":
		return wrongIf(f.Age >= 5*time.Minute), fmt.Sprintf("the prepared transaction %s of user %s is open for %s: it keeps its locks, and vacuum removes no dead rows meanwhile", name(f.About), name(f.Text), words.Roughly(f.Age)),
			"rollback prepared " + literal(f.About) + "; -- or commit prepared"
	case "standby":
		return severityNote, fmt.Sprintf("queries on the standby %s keep vacuum from removing dead rows of the last %s transactions", name(f.About), words.Count(f.N)),
			"on the standby: select pid, xact_start, query from pg_stat_activity order by xact_start;"
	}
	return "", "", ""
}

// size formats bytes.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d kB", n>>10)
}

// table is the name of a table in SQL.
func (d *medic) table(table string) string {
	schema := cmp.Or(d.a.Schema, "dibs")
	if d.a.Adopted != nil {
		plan, _ := d.a.Adopted.Inside()
		schema, table = plan.On.Schema, pgx.Identifier{table}.Sanitize()
	}
	return strings.TrimSuffix(strings.TrimPrefix(pgx.Identifier{schema}.Sanitize(), `"`), `"`) + "." + table
}

// holdsBack names the oldest thing that keeps vacuum from removing rows.
func holdsBack(all []admin.Fact) string {
	var oldest admin.Fact
	for _, f := range all {
		switch f.Name {
		case "idle_transaction", "long_transaction", "prepared":
			if f.Age > oldest.Age {
				oldest = f
			}
		}
	}
	switch {
	case oldest.Name == "prepared":
		return ": the prepared transaction " + name(oldest.About) + " keeps them"
	case oldest.Name != "":
		return fmt.Sprintf(": process %d keeps them", oldest.ID)
	}
	return ""
}

// ofTables words tables that vacuum does not keep small.
func (d *medic) ofTables(f admin.Fact, all []admin.Fact) (severity, text, next string) {
	table := d.table(f.About)
	switch f.Name {
	case "dead_rows":
		vacuumed := "it was never vacuumed"
		if f.Age > 0 {
			vacuumed = "the last vacuum was " + words.Roughly(f.Age) + " ago"
		}
		return wrongIf(f.N > 2_000_000), fmt.Sprintf("the table %s has %s dead rows beside %s live ones, and %s%s", table, words.Count(f.N), words.Count(f.Of), vacuumed, holdsBack(all)),
			"vacuum (verbose) " + table + ";"
	case "autovacuum_off":
		return severityWrong, "autovacuum leaves the table " + table + " alone, so its dead rows stay and claims become slow",
			"alter table " + table + " reset (autovacuum_enabled);"
	case "table_settings":
		return severityNote, fmt.Sprintf("the table %s lacks settings that its schema gave it: %s", table, f.Text),
			"alter table " + table + " set (" + f.Text + ");"
	case "bloat":
		return severityNote, fmt.Sprintf("the table %s takes %s for %s: most of it is empty", table, size(f.N), words.Plural(int(f.Of), "row")),
			"vacuum full " + table + "; -- stops all work on it meanwhile"
	}
	return "", "", ""
}

// ofSchema words what differs from the schema that the migrations have made.
func (d *medic) ofSchema(f admin.Fact, _ []admin.Fact) (severity, text, next string) {
	switch f.Name {
	case "missing":
		return severityWrong, fmt.Sprintf("the %s %s of the schema is missing", f.Text, f.About), "dibs migrate --print | grep -A9 " + f.About
	case "invalid":
		next := "reindex index concurrently " + d.table(f.About) + ";"
		if f.Text == "constraint" {
			next = "dibs check"
		}
		return severityWrong, fmt.Sprintf("the %s %s of the schema is not in force", f.Text, name(f.About)), next
	case "added_index":
		return severityNote, fmt.Sprintf("somebody has added the index %s to the table %s: each claim and finish may have to write it", name(f.About), d.table(f.Text)),
			"drop index concurrently " + d.table(pgx.Identifier{f.About}.Sanitize()) + "; -- if nobody needs it"
	case "unlogged":
		return severityWrong, "the table " + d.table(f.About) + " is unlogged: a crash of the server empties it", "alter table " + d.table(f.About) + " set logged;"
	case "policies":
		return severityNote, "the table " + d.table(f.About) + " has row security: policies may hide jobs from workers", "alter table " + d.table(f.About) + " disable row level security;"
	case "newer_schema":
		return severityNote, fmt.Sprintf("the schema has version %d, and this program knows version %d: others are newer", f.N, f.Of), "dibs version"
	}
	return "", "", ""
}
