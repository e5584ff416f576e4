package adopt_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/needs"
)

// owned is a table as another program owns it: testdata/NAME.yaml is its mapping,
// testdata/NAME.DATABASE.sql creates it.
type owned struct {
	name   string
	ended  string                        // condition of a trigger for changes that end a row
	byHand string                        // statement by which another program ends the row with the id in the parameter
	insert string                        // statement up to "values"
	values func(i int, do string) string // values of one row for insert
	group  string                        // expression for the row's group

	table  string                           // quoted name of the table; empty: the name of the case
	key    func(prefix, kind string) string // expression for the row's id in events; nil: the mapping's one column as text
	remark string                           // column for remarks; empty: remark
	unsure map[string]any                   // values for fields that the proposal marks as not sure
	legacy legacy                           // the own worker of a table of a product; empty: there is none
	pgOnly bool                             // only PostgreSQL has such tables
}

var fiveTables = []owned{
	{
		name:   "retrieval",
		ended:  "new.success is not null",
		byHand: "update retrieval set success = true, remark = 'by hand' where retrieval_id = cast($1 as bigint) and success is null",
		insert: "insert into retrieval (priority, document) values ",
		values: func(i int, do string) string { return fmt.Sprintf(`(%d, '{"do": "%s"}')`, i%3, do) },
	},
	{
		name:   "import",
		ended:  "new.finished_on is not null",
		byHand: "update import set finished_on = current_timestamp, remark = 'by hand' where id = cast($1 as integer) and finished_on is null",
		insert: "insert into import (customer, action) values ",
		values: func(i int, do string) string { return fmt.Sprintf(`('customer %d', '%s')`, i, do) },
	},
	{
		name:   "jobs",
		ended:  `new."StatusID" > 2`,
		byHand: `update "Jobs" set "StatusID" = 3, "Remark" = 'by hand' where "JobID" = cast($1 as bigint) and "StatusID" < 3`,
		insert: `insert into "Jobs" ("ConcurrencyGroup", "Parameters") values `,
		values: func(i int, do string) string {
			if i%5 == 0 {
				return fmt.Sprintf(`('g%d', '{"do": "%s"}')`, i/50, do)
			}
			return fmt.Sprintf(`(null, '{"do": "%s"}')`, do)
		},
		group:  `"ConcurrencyGroup"`,
		remark: `"Remark"`,
	},
	{
		name:   "service_request",
		ended:  "new.status <> 'PENDING'",
		byHand: "update service_request set status = 'COMPLETE', remark = 'by hand' where cast(request_id as text) = $1 and status = 'PENDING'",
		insert: "insert into service_request (request_id, request) values ",
		values: func(i int, do string) string {
			return fmt.Sprintf(`('00000000-0000-4000-8000-%012d', '{"do": "%s"}')`, i, do)
		},
	},
	{
		name:   "inbox",
		ended:  "new.processed",
		byHand: "update inbox set processed = true, remark = 'by hand' where id = cast($1 as bigint) and not processed",
		insert: "insert into inbox (message) values ",
		values: func(_ int, do string) string { return "('" + do + "')" },
	},
}

// fleet runs worker processes on one owned table, and kills some.
type fleet struct {
	owned
	rows, extra, processes, kills int
	broken                        string        // fault made on purpose; see spoil and breaking
	limit                         time.Duration // how long a run may take

	m      mapping.Mapping
	db     *sql.DB
	store  *adopt.Store
	rec    *history.Recorder
	kind   string // the kind of database: sqlite, postgres or mariadb
	dsn    string
	dir    string
	crew   lab.Crew
	killed int // processes that held rows when they were killed
}

// slack is the tolerance for busy machines and for columns that hold whole seconds.
const slack = 3 * time.Second

func TestFiveTables(t *testing.T) {
	needs.Long(t)
	for _, o := range fiveTables {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			onEvery(t, func(t *testing.T, driver, dsn string) {
				f := &fleet{owned: o, rows: 2000, extra: 500, processes: 6, kills: 5, limit: 20 * time.Minute}
				if os.Getenv("DIBS_SOAK") != "" {
					f.rows = 20_000
				}
				if driver == "mysql" && !needs.AtNight() {
					f.rows, f.extra, f.processes, f.kills = 300, 100, 3, 2
				}
				if testing.Short() {
					f.rows, f.extra, f.processes, f.kills = 2000, 100, 4, 2
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

// make creates and fills the table, and creates triggers that record each end of a row.
func (f *fleet) make(t *testing.T, driver, dsn string) {
	t.Helper()
	db, err := patient(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f.db, f.dsn, f.kind, f.dir = db, dsn, kindOf(driver), t.TempDir()
	if f.m, err = shortened(f.name, f.kind); err != nil {
		t.Fatal(err)
	}
	f.owned = f.withDefaults(f.m, f.kind)
	folder := "testdata"
	if f.legacy.take != "" {
		folder = "testdata/products"
	}
	ddl, err := os.ReadFile(filepath.Join(folder, f.name+"."+f.kind+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	statement(t, db, withoutProductRows(f.legacy, string(ddl)))
	statement(t, db, f.judge())
	f.fill(t, 0, f.rows)
	if f.kind == "postgres" {
		statement(t, db, "vacuum analyze")
	}
}

// judge is the statement that creates triggers to record each change that ends a row.
func (f *fleet) judge() string {
	table, remark := f.table, f.remark
	note := func(row, how string) string {
		return fmt.Sprintf("insert into ended (id, how) values (%s, coalesce(%s, ''))", f.key(row+".", f.kind), how)
	}
	if f.kind == "mariadb" {
		return "create table ended (id varchar(500) not null, how text not null);\n" +
			"create trigger note after update on " + table + " for each row begin if " + f.ended + " then " + note("new", "new."+remark) + "; end if; end;\n" +
			"create trigger note_deleted after delete on " + table + " for each row " + note("old", "'deleted'")
	}
	if f.kind == "sqlite" {
		return "create table ended (id text not null, how text not null);\n" +
			"create trigger note after update on " + table + " when " + f.ended + " begin " + note("new", "new."+remark) + "; end;\n" +
			"create trigger note_deleted after delete on " + table + " begin " + note("old", "'deleted'") + "; end"
	}
	fn := func(name, body, what string) string {
		return "create function " + name + "() returns trigger language plpgsql as $$ begin " + body + "; return null; end $$;\n" +
			"create trigger " + name + " after " + what + " execute function " + name + "();\n"
	}
	return "create table ended (id text not null, how text not null);\n" +
		fn("note", note("new", "new."+remark), "update on "+table+" for each row when ("+f.ended+")") +
		fn("note_deleted", note("old", "'deleted'"), "delete on "+table+" for each row")
}

// Some rows ask their handler to do one of these.
const (
	doSlow   = "slow"   // run longer than the lease
	doSteal  = "steal"  // another program ends the row meanwhile
	doPoison = "poison" // fail whenever it is tried
)

func (f *fleet) fill(t *testing.T, from, to int) {
	t.Helper()
	slow, steal := 300, 100
	if f.rows < slow*2 { // the rows must suffice to kill a process while it runs some, and to have a finish refused
		slow, steal = 50, 20
	}
	for from < to {
		var rows []string
		for ; from < to && len(rows) < 1000; from++ {
			do := ""
			switch {
			case from%slow == 7:
				do = doSlow
			case from%steal == 3:
				do = doSteal
			case from%5000 == 11 && f.m.MaxAttempts > 0 && f.m.Dead != nil:
				do = doPoison
			}
			rows = append(rows, f.values(from, do))
		}
		statement(t, f.db, f.insert+strings.Join(rows, ", "))
	}
}

// run lets the processes do all rows, kills some of them, and returns what they and the
// database have recorded.
func (f *fleet) run(t *testing.T) *evidence {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), f.limit)
	defer cancel()
	var err error
	if f.rec, err = history.OpenIn(f.dir, "others"); err != nil {
		t.Fatal(err)
	}
	f.store = open(t, f.db, f.m)
	before := f.ranks(t)
	f.crew = lab.Crew{Dir: f.dir, Rec: f.rec}
	for i := range f.processes {
		f.crew.Add(fmt.Sprint("worker", i+1), func(client string, _ int) (*osexec.Cmd, error) {
			return lab.Self(order{Table: f.name, DSN: f.dsn, Dir: f.dir, Kind: f.kind, Name: client, Broken: f.broken})
		})
	}
	t.Cleanup(f.crew.KillAll) // a failed test may leave processes
	if err := f.crew.Start(); err != nil {
		t.Fatal(err)
	}
	others := f.others(ctx, t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	more := 1_000_000 // number of the next row beyond those that were planned
	for ctx.Err() == nil {
		select {
		case <-ctx.Done(): // the judges report the rows that have not ended
		case <-tick.C:
		}
		if err := f.crew.Crashed(); err != nil {
			t.Fatal(err)
		}
		if f.killed < f.kills && f.count(t, "ended") >= (f.killed+1)*f.rows/(f.kills+2) && f.kill(t) {
			f.killed++
		}
		if f.count(t, f.table+" t where "+f.meant(f.m.Unfinished)) > 0 {
			continue
		}
		if f.killed < f.kills { // a process is killed while it holds rows, so there must be some
			f.fill(t, more, more+f.rows/4)
			more += f.rows / 4
		} else if others.done() {
			break
		}
	}
	if err := f.crew.Stop(30 * time.Second); err != nil {
		t.Error(err)
	}
	if err := f.rec.Close(); err != nil {
		t.Fatal(err)
	}
	found := f.gather(t)
	for name, p := range before {
		found.rank[f.id(t, name)] = p
	}
	for name := range others.touched {
		found.touched[f.id(t, name)] = true
	}
	found.taken = others.taken
	return found
}

// kill kills a process that holds rows, of which another takes the place, and reports whether it still
// held some when it died: it may have finished them since it was chosen.
func (f *fleet) kill(t *testing.T) bool {
	t.Helper()
	held := f.held(t)
	seats := slices.Concat(f.crew.Seats[f.killed%f.processes:], f.crew.Seats[:f.killed%f.processes])
	i := slices.IndexFunc(seats, func(s *lab.Seat) bool { return held[s.Process().Name] > 0 })
	if i < 0 {
		return false
	}
	name := seats[i].Process().Name
	if _, err := seats[i].Replace(); err != nil {
		t.Fatal(err)
	}
	return f.held(t)[name] > 0
}

// held counts the rows that each process has claimed and not begun to finish.
func (f *fleet) held(t *testing.T) map[string]int {
	t.Helper()
	calls, err := history.Read(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]int{}
	for _, c := range calls {
		held[c.Client] += len(c.Jobs) - len(c.Outcomes)
	}
	return held
}

// meant is a condition for the rows of the mapping's queue.
func (f *fleet) meant(and string) string {
	if f.m.Where == "" {
		return and
	}
	return "(" + f.m.Where + ") and (" + and + ")"
}

func (f *fleet) count(t *testing.T, from string) (n int) {
	t.Helper()
	if err := f.db.QueryRow("select count(*) from " + from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// place is a row's position in the claim order, overall and within its group.
type place struct {
	rank  int
	group string
}

func (f *fleet) ranks(t *testing.T) map[string]place {
	t.Helper()
	group := "''"
	if f.group != "" {
		group = "coalesce(" + f.group + ", '')"
	}
	order := append(append([]string{}, f.m.Order...), f.m.ID...)
	rows, err := f.db.Query(fmt.Sprintf(`select %s as name, %s from %s where %s order by "%s"`, f.key("", f.kind), group, f.table, f.meant("1 = 1"), strings.Join(order, `", "`)))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ranks := map[string]place{}
	for rows.Next() {
		var id string
		p := place{rank: len(ranks)}
		if err := rows.Scan(&id, &p.group); err != nil {
			t.Fatal(err)
		}
		ranks[id] = p
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ranks
}

// shortened is the mapping with a short lease, and with enough attempts for rows that several
// killed processes have held.
func shortened(name, kind string) (mapping.Mapping, error) {
	path := filepath.Join("testdata", name+"."+kind+".yaml")
	for _, other := range []string{filepath.Join("testdata", name+".yaml"), "../examples/mappings/" + name + ".yaml", "../examples/mappings/" + strings.ReplaceAll(name, "_", "-") + ".yaml"} {
		if _, err := os.Stat(path); err != nil { // all databases have the same mapping
			path = other
		}
	}
	m, err := mapping.Read(path)
	if kind == "mariadb" { // names stand in backticks, and columns hold times
		m.Unfinished, m.Available, m.Running = backticks(m.Unfinished), backticks(m.Available), backticks(m.Running)
		if m.Times == mapping.TimesMillis || m.Times == mapping.TimesUnixMS {
			m.Times = mapping.TimesUTC
		}
	}
	m.Lease = 2 * time.Second
	m.Backoff = dibs.Backoff{Base: 10 * time.Millisecond, Factor: 2, Max: 50 * time.Millisecond}
	m.MaxAttempts = min(m.MaxAttempts, 1) * 10
	return m, err
}

func backticks(condition string) string { return strings.ReplaceAll(condition, `"`, "`") }

func kindOf(driver string) string {
	return map[string]string{"sqlite": "sqlite", "pgx": "postgres", "mysql": "mariadb"}[driver]
}
