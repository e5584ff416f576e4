package dibs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/storetest"
)

// SQL Server has the statements of MariaDB, but for the inbox, clusters, the rows of turns, and what shows locks and what is wrong.
var (
	onlySQLServer  = []string{"turn"}
	notInSQLServer = strings.Fields("bar_slots diagnose_jobs diagnose_server diagnose_sessions drop_inbox inbox inbox_waiting lock_gap locks_rows put_slots put_turn see_uncommitted share_turn take_slot take_turn touch try_gap write_turn")
	// otherInSQLServer are statements with other parameters: its enqueue takes any number of jobs.
	otherInSQLServer = []string{"enqueue", "verify"}
)

// transactSQL reads the statements of SQL Server by their names.
func transactSQL(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("sqlserver/sql/*.sql")
	if err != nil || len(names) < 160 {
		t.Fatalf("sqlserver has %d statements: %v", len(names), err)
	}
	all := make(map[string]string, len(names))
	for _, name := range names {
		all[strings.TrimSuffix(filepath.Base(name), ".sql")] = read(t, filepath.ToSlash(name))
	}
	return all
}

// code is a statement without its comments.
func code(text string) string { return regexp.MustCompile(`(?m)^--.*\n`).ReplaceAllString(text, "") }

// TestTidySQLServerHasTheStatementsOfMariaDB also compares what their headers say of parameters and columns.
func TestTidySQLServerHasTheStatementsOfMariaDB(t *testing.T) {
	t.Parallel()
	has := transactSQL(t)
	shared, err := filepath.Glob("mysql/sql/*.sql")
	if err != nil || len(shared) == 0 {
		t.Fatalf("mysql has no statements: %v", err)
	}
	for _, path := range shared {
		name := strings.TrimSuffix(filepath.Base(path), ".sql")
		_, ok := has[name]
		if ok == slices.Contains(notInSQLServer, name) {
			t.Errorf("%s.sql is in sqlserver/sql, or in the list of those that it has not", name)
			continue
		}
		if !ok {
			continue
		}
		got, want := interfaceOf(t, "sqlserver/sql/"+name+".sql"), interfaceOf(t, filepath.ToSlash(path))
		if (got == want) == slices.Contains(otherInSQLServer, name) {
			t.Errorf("sqlserver/sql/%s.sql has the parameters and columns of MariaDB's, or is in the list of others:\n%s\n%s", name, got, want)
		}
	}
	for name := range has {
		if !slices.Contains(shared, filepath.Join("mysql", "sql", name+".sql")) && !slices.Contains(onlySQLServer, name) {
			t.Errorf("sqlserver/sql/%s.sql has no counterpart, and is not in the list of those that only it has", name)
		}
	}
}

var (
	declaredSQL  = regexp.MustCompile(`(?m)^  @(\w+) (?:tinyint|smallint|int|bigint|float|varchar\(16\)|nvarchar\(255\)|nvarchar\(max\)|binary\(16\)|varbinary\(255\)|varbinary\(512\)) = (\?[0-9]+)[,;]$`)
	parameterSQL = regexp.MustCompile(`\?[0-9]*`)
)

// Each parameter is the first value of a variable with a type, and nothing else. So a null has a type, names are bytes and seek in
// indexes, and no plan depends on the values of the first call.
func TestTidySQLServerTypesEachParameter(t *testing.T) {
	t.Parallel()
	for name, text := range transactSQL(t) {
		text = code(text)
		typed := map[string]bool{}
		for _, m := range declaredSQL.FindAllStringSubmatch(text, -1) {
			if typed[m[2]] {
				t.Errorf("%s.sql gives %s to two variables", name, m[2])
			}
			typed[m[2]] = true
			if uses := strings.Count(strings.ReplaceAll(text, "@"+m[1]+" ", "@"+m[1]+"\x00"), "@"+m[1]); uses < 2 {
				t.Errorf("%s.sql does not use @%s", name, m[1])
			}
		}
		for _, p := range parameterSQL.FindAllString(text, -1) {
			if !typed[p] {
				t.Errorf("%s.sql uses %s without a variable of a known type", name, p)
			}
		}
		if n := len(parameterSQL.FindAllString(text, -1)); n != len(typed) {
			t.Errorf("%s.sql uses its %d parameters %d times", name, len(typed), n)
		}
	}
}

// hints after a table that a statement locks: whether it passes over locked rows, or has locked the rows before.
var (
	passesOver  = "with (rowlock, updlock, readpast, readcommittedlock, forceseek)"
	lockedSoFar = "with (rowlock, updlock, forceseek)"
	hintsSQL    = regexp.MustCompile(`with \(([^()]*(?:\([^()]*\))?[^()]*)\)`)
	lockWord    = regexp.MustCompile(`rowlock|updlock|xlock|readpast|readcommittedlock|holdlock|serializable|tablock|nolock|repeatableread|snapshot`)
)

// These pass over the rows that others have locked: design note 0030 says which must.
var passingOver = strings.Fields(`
	admit claim claim_fair displace drop_audit drop_claim drop_rates drop_windows drop_worker due due_claims ended extend fair follow
	forget_turns held live lock_keys mend_leases prune resume tally_rows`)

func TestTidySQLServerNamesEachLock(t *testing.T) {
	t.Parallel()
	for name, text := range transactSQL(t) {
		text = code(text)
		for _, m := range hintsSQL.FindAllStringSubmatch(text, -1) {
			if lockWord.MatchString(m[1]) && m[0] != passesOver && m[0] != lockedSoFar {
				t.Errorf("%s.sql locks by %s: a lock that passes over others is %q, one of rows that are locked already %q", name, m[0], passesOver, lockedSoFar)
			}
		}
		if strings.Contains(text, passesOver) != slices.Contains(passingOver, name) {
			t.Errorf("%s.sql passes over locked rows, or is not in the list of those that do", name)
		}
	}
}

var indexSQL = regexp.MustCompile(`index \((\w+)\)`)

// A change of some rows of a list reads the list first, then each row by a seek, whatever the statistics say: so it locks these rows
// alone. A hint names an index that there is.
func TestTidySQLServerSeeksWhatItLocks(t *testing.T) {
	t.Parallel()
	schema := read(t, "sqlserver/migrations/0001_jobs.sql")
	for name, text := range transactSQL(t) {
		text = code(text)
		for _, m := range indexSQL.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(schema, "index "+m[1]+" on ") {
				t.Errorf("%s.sql names the index %s, which there is not", name, m[1])
			}
		}
		for part := range strings.SplitSeq(text, ";") {
			locks := strings.Contains(part, "updlock")
			ordered := strings.Contains(part, "option (force order, loop join, maxdop 1)") || strings.Contains(part, "option (maxdop 1)")
			if one := strings.Count(part, "join ") == 0; locks && !ordered && !one && name != "mend_claims" {
				t.Errorf("%s.sql locks rows in a statement that does not name the order of its tables:%s", name, part)
			}
		}
	}
}

// The traps of statements that others have met; design note 0038 names their sources.
var forbiddenSQL = map[string]string{
	`\bmerge\b`:                           "merge is not atomic without range locks, and has a history of faults",
	`\bnolock\b`:                          "a dirty read may see what is rolled back",
	`\bcontinue\b|\btry\b|\bcatch\b`:      "a batch ends at its first error",
	`\bgreatest\(|\bleast\(`:              "2019 does not have it",
	`\bjson_arrayagg\b|\bjson_objectagg`:  "2019 and 2022 do not have it",
	`\bgetdate\(|\bgetutcdate\(`:          "it is exact to 3.33 ms only",
	`\bcommit\b|\brollback\b|\bsave tran`: "transactions are begun and ended by requests of their own",
	`\bset xact_abort\b`:                  "conn begins each batch with it",
	`scope_identity|@@identity`:           "ids of jobs are drawn in a row from the sequence",
	`\bwaitfor\b`:                         "nothing waits",
	`\bselect \* |\btop [0-9]`:            "columns are named, and the number of rows stands in brackets",
}

func TestTidySQLServerAvoidsWhatOthersHaveMet(t *testing.T) {
	t.Parallel()
	for name, text := range transactSQL(t) {
		text = code(text)
		for pattern, why := range forbiddenSQL {
			if found := regexp.MustCompile(pattern).FindString(text); found != "" {
				t.Errorf("%s.sql has %q: %s", name, found, why)
			}
		}
	}
	schema := code(read(t, "sqlserver/migrations/0001_jobs.sql"))
	for _, index := range regexp.MustCompile(`(?m)^create (?:unique )?index .*$`).FindAllString(schema, -1) {
		if strings.Contains(index, " where ") {
			t.Errorf("%s is filtered: parameters do not match it, and sessions with quoted_identifier off could not write the table", index)
		}
	}
	for _, table := range strings.Fields("job finished claim wake start tally key unique_window edge step ended_list rate") {
		if !strings.Contains(schema, "alter table dibs_"+table+" set (lock_escalation = disable);") {
			t.Errorf("5,000 locks of a statement become one of the table dibs_%s, over which nobody passes", table)
		}
	}
}

// One field of the suite says how far the store is proven. The table, the pages, dibs version and the log of Open say the same.
func TestTidyPagesSayHowFarSQLServerIsProven(t *testing.T) {
	t.Parallel()
	label := storetest.SQLServer.Proven
	for _, page := range []string{"README.md", "docs/sqlserver.md", "docs/operations.md"} {
		if text := strings.Join(strings.Fields(read(t, page)), " "); !strings.Contains(text, label) {
			t.Errorf("%s does not say %q", page, label)
		}
	}
	if table := storetest.Table(storetest.PostgreSQL, storetest.SQLServer); !strings.Contains(table, "| proven | at each commit | "+label+" |\n") {
		t.Errorf("the table of databases is\n%s", table)
	}
}

func TestTidyTheGoOfThePageOnSQLServerIsCompiled(t *testing.T) {
	t.Parallel()
	examples := read(t, "sqlserver/example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "docs/sqlserver.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/sqlserver.md has no Go")
	}
	for _, b := range blocks {
		if !strings.Contains(examples, b[1]) {
			t.Errorf("sqlserver/example_test.go does not have\n%s", b[1])
		}
	}
}
