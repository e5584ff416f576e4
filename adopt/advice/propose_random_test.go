package advice_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/crash"
)

// queueColumns are columns as tables of work have them: names, types and values of which one each is taken.
var queueColumns = []struct {
	names         string
	types, values []string
}{
	{"status state stage delivery_state", []string{"varchar(20)", "varchar(20) not null default 'new'"}, []string{"'new'", "'to send'", "'running'", "'done'", "'failed'", "'cancelled'", "'on hold'", "'retry'"}},
	{"status StatusID order_state", []string{"int", "int not null default 0", "int default 2"}, []string{"0", "1", "2", "3", "4", "5"}},
	{"finished_at sent_at completion_time", []string{"timestamp", "timestamp default current_timestamp"}, []string{"'2026-01-31 10:00:00'"}},
	{"started_at locked_at claimed_on attempt_end expires_at failed_at cancelled_at archived_at updated_at", []string{"timestamp"}, []string{"'2026-01-31 10:00:00'", "'2026-02-01 10:00:00'"}},
	{"run_at next_attempt_at created_at CreatedOn", []string{"timestamp", "timestamp not null default current_timestamp"}, []string{"'2026-01-31 10:00:00'", "'2051-01-31 10:00:00'"}},
	{"worker locked_by last_error remark result payload body kind type queue group_key token", []string{"text", "varchar(40)", "text not null"}, []string{"'a'", "'b'", `'{"a": 1}'`}},
	{"attempts retry_count max_attempts priority claim_id amount", []string{"int", "int not null default 0"}, []string{"0", "1", "7"}},
	{"processed done locked in_process success", []string{"boolean", "boolean not null default false"}, []string{"true", "false"}},
	{"processed is_running successful", []string{"int", "smallint not null default 0"}, []string{"0", "1"}},
}

func oneOf(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

// randomTable writes the statements that make a table with some rows.
func randomTable(r *rand.Rand, name string) string {
	columns, values := []string{"id integer primary key"}, [][]string{nil}
	for range 2 + r.IntN(8) {
		c := queueColumns[r.IntN(len(queueColumns))]
		column, declared := oneOf(r, strings.Fields(c.names)...), oneOf(r, c.types...)
		if strings.Contains(strings.Join(columns, ","), `"`+column+`"`) {
			continue
		}
		of := c.values
		if !strings.Contains(declared, "not null") {
			of = append([]string{"null", "null"}, of...)
		}
		columns, values = append(columns, `"`+column+`" `+declared), append(values, of)
	}
	text := "create table " + name + " (" + strings.Join(columns, ", ") + ");\n"
	for i := range r.IntN(3) * r.IntN(9) {
		row := []string{fmt.Sprint(i)}
		for _, of := range values[1:] {
			row = append(row, oneOf(r, of...))
		}
		text += "insert into " + name + " values (" + strings.Join(row, ", ") + ");\n"
	}
	return text
}

// Whatever a table looks like, there is a proposal for it, which reads back as it is written.
// Each field that does not fit is named in the reasons.
func TestProposalsOfAnyTable(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		r := crash.Random(t)
		for i := range 40 {
			name := fmt.Sprintf("any_%d", i)
			table := randomTable(r, name)
			exec(t, db, table)
			m, text := proposed(t, db, name)
			again, err := mapping.Parse([]byte(text))
			if err != nil {
				t.Fatalf("%v in\n%s\nof\n%s", err, text, table)
			}
			if got, want := fmt.Sprintf("%+v", normal(again)), fmt.Sprintf("%+v", normal(m)); got != want {
				t.Errorf("the file says\n%s\nnot\n%s\nof\n%s", got, want, table)
			}
			for _, f := range findings(t, db, m) {
				if f.Severity == advice.SeverityError && !strings.Contains(text, "NOT SURE: "+f.Field) {
					t.Errorf("%+v in\n%s\nof\n%s", f, text, table)
				}
			}
		}
	})
}
