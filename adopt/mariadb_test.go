package adopt_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/adopttest"
)

// mariaTask is a table as task wants it, with some rows.
func mariaTask(t *testing.T, db *sql.DB, columns, rest string) {
	t.Helper()
	exec(t, db, "create table task (id bigint auto_increment primary key, mark char(36), done int, "+columns+" note text) "+rest)
}

func onMaria(t *testing.T) *sql.DB {
	t.Helper()
	t.Parallel()
	db, _ := adopttest.OnMariaDB(t)
	return db
}

func TestMariaDBTablesWithoutTransactionsAreRefused(t *testing.T) {
	db := onMaria(t)
	mariaTask(t, db, "", "engine = MyISAM")
	refuses(t, db, task(), "table", "MyISAM, which has no transactions, so that two workers could claim one row: alter table")
	exec(t, db, "alter table task engine = InnoDB")
	open(t, db, task())
	exec(t, db, "alter table task modify id bigint, drop primary key, add index (id)")
	refuses(t, db, task(), "id", "no unique index on id")
	exec(t, db, "create view v as select * from task")
	refuses(t, db, changed(task(), func(m *mapping.Mapping) { m.Table = "v" }), "table", "not an ordinary table")
}

func TestMariaDBSessionsThatCutValuesOffAreRefused(t *testing.T) {
	t.Parallel()
	first, address := adopttest.OnMariaDB(t)
	mariaTask(t, first, "", "")
	for parameters, why := range map[string]string{
		"?sql_mode=%27%27":                                      "sql_mode is not strict",
		"?sql_mode=%27ANSI_QUOTES%27":                           "sql_mode is not strict",
		"?sql_mode=%27STRICT_ALL_TABLES,HIGH_NOT_PRECEDENCE%27": "means something else",
		"?charset=latin1":                                       "character set latin1",
		"?sql_mode=%27STRICT_ALL_TABLES%27":                     "",
		"?tx_isolation=%27SERIALIZABLE%27&interpolateParams=true&parseTime=true": "",
		"?sql_mode=%27ANSI,STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES%27":          "",
	} {
		db, err := sql.Open("mysql", address+parameters)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if why != "" {
			refuses(t, db, task(), "database", why)
			continue
		}
		exec(t, first, `insert into task (note) values ('a\\b')`)
		s := open(t, db, changed(task(), func(m *mapping.Mapping) { m.PutBack.Set = mapping.Set{"note": `it's \ "$$1"`} }))
		got := claim(t, s, 10)
		if len(got) != 1 {
			t.Fatalf("with %s %d rows were claimed", parameters, len(got))
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{got[0].Lease().RetryAfter(0, "again")}); err != nil {
			t.Fatal(err)
		}
		var note string
		if err := first.QueryRow("select note from task where done is null").Scan(&note); err != nil || note != `it's \ "$$1"` {
			t.Errorf("with %s put_back wrote %q, %v", parameters, note, err)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{claim(t, s, 10)[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
	}
}

// What is the same for a collation is not for dibs: ids, workers, groups and the values that fence a claim.
func TestMariaDBTextsAreComparedExactly(t *testing.T) {
	db := onMaria(t)
	exec(t, db, `create table task (id varchar(20) collate utf8mb4_bin primary key, who varchar(20), at datetime(6), grp varchar(20), done int) character set utf8mb4 collate utf8mb4_general_ci`)
	exec(t, db, `insert into task (id, grp) values ('a', 'g'), ('A', 'G'), ('é"\\', null)`)
	m := task()
	m.Available, m.Claim = "who is null", mapping.Claim{LockedBy: "who", StartedAt: "at"}
	m.Group = mapping.Group{Column: "grp", Limit: 1}
	s := open(t, db, m)
	jobs := claim(t, s, 10)
	if len(jobs) != 3 {
		t.Fatalf("%d rows were claimed", len(jobs))
	}
	for _, name := range []string{"W", "w ", "ẅ"} {
		if taken, err := s.Resume(t.Context(), dibs.ClaimRequest{Worker: name}); err != nil || len(taken) > 0 {
			t.Errorf("worker %q gets %d rows of worker w, %v", name, len(taken), err)
		}
	}
	if taken, err := s.Resume(t.Context(), dibs.ClaimRequest{Worker: "w"}); err != nil || len(taken) != 3 {
		t.Fatalf("worker w gets %d of its rows, %v", len(taken), err)
	} else {
		jobs = taken
	}
	i := slices.IndexFunc(jobs, func(j *dibs.RawJob) bool { return j.Key == "A" })
	exec(t, db, "update task set who = 'W' where id = 'A'")
	if err := s.Finish(t.Context(), []dibs.Outcome{jobs[i].Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Errorf("another worker's row was finished: %v", err)
	}
	for _, j := range slices.Delete(jobs, i, i+1) {
		if err := s.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
			t.Errorf("%q: %v", j.Key, err)
		}
		if id, err := s.ID(j.Key); err != nil || id != j.ID {
			t.Errorf("%q is %d by its name, %v", j.Key, id, err)
		}
	}
}

func TestMariaDBConditionsThatWriteAreRefused(t *testing.T) {
	db := onMaria(t)
	mariaTask(t, db, "", "")
	exec(t, db, "create table log (n int)")
	exec(t, db, "create sequence seq")
	exec(t, db, "create function touch(n int) returns int modifies sql data begin insert into log values (n); return 1; end")
	exec(t, db, "create function looks(n int) returns int reads sql data return (select count(*) from log) < n")
	for cond, why := range map[string]string{
		"touch(id) = 1":                        "calls touch(), which may write",
		"`touch`(id) = 1":                      "calls touch(), which may write",
		"get_lock('x', 100) = 1":               "calls get_lock()",
		"sleep(10) = 0":                        "calls sleep()",
		"rand() < 2":                           "calls rand()",
		"next value for seq > 0":               "must only read",
		"id in (select n from log for update)": "must only read",
		`note <> "x"`:                          "has a double quote",
		`note <> 'a\'`:                         "has a backslash",
		"done is null) or (1 = 1":              "without an opening one",
		"@x is null":                           "must not contain parameters",
		"note = 'a' -- b":                      "must not contain comments",
		"note = 'a' # b":                       "must not contain parameters",
		"no_such_column = 1":                   "MariaDB refuses it",
	} {
		refuses(t, db, changed(task(), func(m *mapping.Mapping) { m.Where = cond }), "where", why)
	}
	for _, cond := range []string{"looks(5)", "date(now()) > '2001-01-01' and coalesce(note, '') not in ('x')", "not exists (select 1 from log where n = t.id)"} {
		open(t, db, changed(task(), func(m *mapping.Mapping) { m.Where = cond }))
	}
}

func TestMariaDBValuesOfAllTypesReachTheHandler(t *testing.T) {
	db := onMaria(t)
	exec(t, db, `create table task (
		id bigint unsigned primary key, mark binary(16), done bit(1), flag tinyint(1), flags bit(8), kind enum('a', 'b''c') not null default 'b''c', price decimal(8, 2) zerofill,
		num int(5) unsigned zerofill, f double, j json, txt varchar(20) character set latin1, raw varbinary(8), d date, dt datetime(3), ts timestamp(6) null, y year, s set('x', 'y'),
		virt int as (num + 1) virtual)`)
	exec(t, db, `insert into task (id, flag, flags, price, num, f, j, txt, raw, d, dt, ts, y, s) values
		(18446744073709551615, 1, b'101', 12.5, 42, 1.5e10, '{"a": [1, null]}', 'é"\\', x'00ff', '2026-01-02', '2026-01-02 03:04:05.678', null, 2026, 'x,y')`)
	m := task()
	m.Unfinished, m.Completed.Set = "done is null", mapping.Set{"done": true}
	s := open(t, db, m)
	j := claim(t, s, 1)[0]
	want := `{"id":18446744073709551615,"mark":null,"done":null,"flag":true,"flags":5,"kind":"b'c","price":12.50,"num":42,"f":15000000000,"j":{"a": [1, null]},` +
		`"txt":"é\"\\","raw":"00FF","d":"2026-01-02","dt":"2026-01-02 03:04:05.678","ts":null,"y":2026,"s":"x,y","virt":43}`
	if got := string(j.Payload); got != want {
		t.Errorf("payload\n%s, want\n%s", got, want)
	}
	if j.Key != "18446744073709551615" {
		t.Errorf("the row's name is %s", j.Key)
	}
	if err := s.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(json.RawMessage(`1`))}); err != nil {
		t.Error(err)
	}
	refuses(t, db, changed(m, func(m *mapping.Mapping) { m.Claim.Set = mapping.Set{"virt": 1} }), "claim.set", "generated")
}

// A row that another transaction has locked keeps nobody waiting.
func TestMariaDBLockedRowsArePassedOver(t *testing.T) {
	for _, side := range []bool{false, true} {
		t.Run(fmt.Sprint("side table ", side), func(t *testing.T) {
			db := onMaria(t)
			mariaTask(t, db, "", "")
			exec(t, db, "insert into task () values (), (), ()")
			m := task()
			if side {
				m.SideTable, m.Available, m.Claim = true, "", mapping.Claim{}
			}
			s := open(t, db, m)
			jobs := claim(t, s, 1)
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.Exec("update task set note = 'x' where id in (1, 2)"); err != nil {
				t.Fatal(err)
			}
			if more := claim(t, s, 10); len(more) != 1 || more[0].ID != 3 {
				t.Errorf("%d rows were claimed beside two locked ones", len(more))
			}
			x, err := s.Extend(t.Context(), []dibs.Lease{jobs[0].Lease()}, time.Minute)
			if err != nil || len(x.Lost) > 0 || !side && len(x.Finishing) != 1 {
				t.Errorf("extended: %+v, %v", x, err)
			}
			refused := (*dibs.FinishError)(nil)
			if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); !errors.As(err, &refused) || len(refused.Unwritten) != 1 {
				t.Errorf("a locked row was finished: %v", err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
				t.Error(err)
			}
			if more := claim(t, s, 10); len(more) != 1 || more[0].ID != 2 {
				t.Errorf("%d rows were claimed at last", len(more))
			}
		})
	}
}

// A turn is a lock of the session, so it must not stay with a connection of the pool.
func TestMariaDBConnectionsKeepNothingOfAClaim(t *testing.T) {
	db := onMaria(t)
	mariaTask(t, db, "grp varchar(10),", "")
	exec(t, db, "insert into task (grp) values ('a'), ('a'), ('b'), (null)")
	m := task()
	m.Group, m.Concurrency = mapping.Group{Column: "grp", Limit: 1}, 10
	m.SideTable, m.Available, m.Claim = true, "", mapping.Claim{}
	found, err := advice.Check(t.Context(), db, m)
	if err != nil || slices.ContainsFunc(found, func(f advice.Finding) bool { return f.Severity == advice.SeverityError }) {
		t.Fatalf("%v\n%s", err, listing(found))
	}
	if _, err := advice.Try(t.Context(), db, m, 10); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("select 1 from dibs_adopted").Scan(new(int)); err == nil || errors.Is(err, sql.ErrNoRows) {
		t.Error("a check has left its side table")
	}
	s := open(t, db, m)
	if jobs := claim(t, s, 10); len(jobs) != 3 {
		t.Errorf("%d rows were claimed", len(jobs))
	}
	if jobs := claim(t, s, 10); len(jobs) != 0 {
		t.Errorf("%d more rows were claimed", len(jobs))
	}
	var conns []*sql.Conn
	for range db.Stats().Idle {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		var locks, inTx int
		if err := c.QueryRowContext(t.Context(), "select release_all_locks(), @@in_transaction").Scan(&locks, &inTx); err != nil || locks+inTx > 0 {
			t.Errorf("a connection has %d locks, %d transactions, %v", locks, inTx, err)
		}
	}
	for _, c := range conns {
		c.Close()
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := s.SQLTx(tx).Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1}); err == nil || !strings.Contains(err.Error(), "no lock for that ends with a transaction") {
		t.Errorf("a transaction of the caller claims of groups: %v", err)
	}
}

// The server refuses some rows: by a trigger, a constraint, and a value that a column does not hold.
func TestMariaDBRefusedRowsStopNoOthers(t *testing.T) {
	for name, make := range map[string]string{
		"trigger":    "create trigger no before update on task for each row if new.id = 2 then signal sqlstate '45000' set message_text = 'not this one'; end if",
		"own state":  "create trigger no before update on task for each row if new.id = 2 then signal sqlstate '99001' set message_text = 'not this one'; end if",
		"constraint": "alter table task add constraint no check (coalesce(note, '') <> 'second' or mark is null)",
		"range":      "alter table task add tries tinyint unsigned not null default 254",
	} {
		t.Run(name, func(t *testing.T) {
			db := onMaria(t)
			mariaTask(t, db, "", "")
			exec(t, db, "insert into task (note) values ('first'), ('second'), ('third')")
			exec(t, db, make)
			m := task()
			if name == "range" {
				m.Claim.Attempts = "tries"
				exec(t, db, "update task set tries = 255 where id = 2")
			}
			s := open(t, db, m)
			if jobs := claim(t, s, 10); len(jobs) == 0 {
				jobs = claim(t, s, 10)
				if len(jobs) != 2 {
					t.Errorf("%d rows were claimed", len(jobs))
				}
			} else if len(jobs) != 2 {
				t.Errorf("%d rows were claimed", len(jobs))
			}
			if passed := s.PassedOver(); len(passed) != 1 || passed[0].Key != "2" {
				t.Errorf("passed over: %+v", passed)
			}
		})
	}
}

func TestMariaDBTablesOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	db, _ := adopttest.OnMariaDB(t)
	other, _ := adopttest.OnMariaDB(t)
	mariaTask(t, other, "", "")
	exec(t, other, "insert into task () values ()")
	var name string
	if err := other.QueryRow("select database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	refuses(t, db, task(), "table", "no table")
	m := changed(task(), func(m *mapping.Mapping) {
		m.Table, m.SideTable, m.Available, m.Claim = name+".task", true, "", mapping.Claim{}
	})
	s, err := adopt.Open(t.Context(), db, m)
	if err != nil {
		t.Fatal(err)
	}
	if jobs := claim(t, s, 1); len(jobs) != 1 {
		t.Errorf("%d rows were claimed", len(jobs))
	}
	exec(t, other, "select 1 from dibs_adopted")
	if found, err := advice.Find(t.Context(), db, name+".TASK"); err != nil || found != name+".task" {
		t.Errorf("found %q, %v", found, err)
	}
}

// A claim, a finish and the end of a lease take place although the server rolls each back first, because of a deadlock.
func TestMariaDBDeadlocksAreTriedAgain(t *testing.T) {
	for _, side := range []bool{false, true} {
		t.Run(fmt.Sprint("side table ", side), func(t *testing.T) {
			db := onMaria(t)
			mariaTask(t, db, "", "")
			exec(t, db, "create table tries (n int) engine = MyISAM") // a rollback keeps its rows
			exec(t, db, "insert into tries values (0)")
			exec(t, db, "insert into task () values (), ()")
			exec(t, db, `create trigger often before update on task for each row begin
				update tries set n = n + 1;
				if (select n from tries) in (1, 3) then
					signal sqlstate '40001' set message_text = 'a deadlock', mysql_errno = 1213;
				end if;
			end`)
			m := task()
			if side {
				m.SideTable, m.Claim, m.Available = true, mapping.Claim{}, ""
			}
			s := open(t, db, m)
			for range 2 {
				jobs := claim(t, s, 1)
				if len(jobs) != 1 {
					t.Fatalf("%d rows were claimed", len(jobs))
				}
				if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
					t.Fatal(err)
				}
			}
			if jobs := claim(t, s, 1); len(jobs) != 0 {
				t.Errorf("%d rows were claimed once more", len(jobs))
			}
			var left, tries int
			if err := db.QueryRow("select (select count(*) from task where done is null), n from tries").Scan(&left, &tries); err != nil || left > 0 || tries < 3 {
				t.Errorf("%d rows are left after %d tries, %v", left, tries, err)
			}
		})
	}
}
