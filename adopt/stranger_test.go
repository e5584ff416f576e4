package adopt_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// Open refuses a side table that another user owns: its triggers would run with the rights of
// every user who works on the adopted table, even a superuser.
func TestASideTableOfAStrangerIsRefused(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	stranger, worker := fmt.Sprintf("stranger_%d", rand.Uint64()), fmt.Sprintf("worker_%d", rand.Uint64())
	exec(t, db, `create role `+stranger+`; create role `+worker+`; grant create on schema public to `+stranger+`, `+worker)
	t.Cleanup(func() {
		for _, role := range []string{stranger, worker} {
			exec(t, db, `reset role; drop owned by `+role+`; drop role `+role)
		}
	})
	exec(t, db, `create table work (id bigint primary key, status text not null default 'new'); insert into work (id) values (1);
		grant all on work to `+worker)
	m := sided()
	for name, plant := range map[string]string{
		"table": `create table dibs_adopted (like own including all);
			create function steal() returns trigger language plpgsql as $$ begin raise 'planted: %', current_user; end $$;
			create trigger steal before insert or update on dibs_adopted execute function steal()`,
		"view": `create function steal() returns int immutable language plpgsql as $$ begin raise 'planted: %', current_user; end $$;
			create view dibs_adopted as select own.* from own where steal() = 1`,
	} {
		opened(t, db, m)
		exec(t, db, `alter table dibs_adopted rename to own; alter index dibs_adopted_lease rename to own_lease; grant select on own to `+stranger)
		exec(t, db, `set role `+stranger+`; `+plant+`; grant all on dibs_adopted to public`)
		for _, role := range []string{"none", worker} {
			exec(t, db, `set role `+role)
			_, opening := adopt.Open(t.Context(), db, m)
			_, trying := advice.Try(t.Context(), db, m, 1)
			findings, err := advice.Check(t.Context(), db, m)
			if err != nil || len(findings) != 1 || findings[0].Severity != advice.SeverityError || findings[0].Field != "side_table" || !strings.Contains(findings[0].Text, stranger) {
				t.Errorf("%s, as %s: Check found %+v, %v", name, role, findings, err)
			}
			for call, err := range map[string]error{"Open": opening, "Try": trying} {
				var invalid *dibs.InvalidError
				if !errors.As(err, &invalid) || invalid.Field != "side_table" || !strings.Contains(err.Error(), stranger) {
					t.Errorf("%s, as %s: %s gave %v", name, role, call, err)
				}
			}
		}
		exec(t, db, `reset role; drop `+name+` dibs_adopted; drop function steal; drop table own`)
	}
	// The owner of the adopted table and the worker's own roles can be trusted.
	exec(t, db, `set role `+stranger)
	exec(t, db, `create table theirs (id bigint primary key, status text not null default 'new'); grant all on theirs to `+worker)
	m.Table = "theirs"
	opened(t, db, m)
	exec(t, db, `grant all on dibs_adopted to `+worker+`; reset role; set role `+worker)
	opened(t, db, m)
	m.Table = "work"
	if _, err := adopt.Open(t.Context(), db, m); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("a stranger's side table of another table of theirs gave %v", err)
	}
	exec(t, db, `reset role; grant `+stranger+` to `+worker+`; set role `+worker)
	opened(t, db, m)
}
