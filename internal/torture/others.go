package torture

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	random "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/history"
)

// elsewhere is what the count of rows is called that the other program ends.
const elsewhere = "elsewhere"

// others is another program that goes on using the table: it inserts rows, writes to
// them, and ends some by itself, without asking anybody.
type others struct {
	*Adopted
	rec   *history.Recorder
	rng   *random.Rand
	newID func() string // SQL
	row   func(name string) (int64, error)
	sets  string // how it ends a row; empty: it deletes it

	n int
}

// learn finds out how ids are made and rows are ended.
func (o *others) learn(ctx context.Context) error {
	rows, err := o.SQL.QueryContext(ctx, "select "+quotedAll(o.M.ID, "")+" from "+o.table()+" where 1 = 0")
	if err != nil {
		return err
	}
	types, err := rows.ColumnTypes()
	if err = errors.Join(err, rows.Close(), rows.Err()); err != nil {
		return err
	}
	o.newID = func() string { return fmt.Sprint(o.n) }
	switch name := strings.ToUpper(types[0].DatabaseTypeName()); {
	case name == "UUID":
		o.newID = func() string { t := rand.Text(); return fmt.Sprintf("'%x'", t[:16]) }
	case isText(types[0]):
		o.newID = func() string { return fmt.Sprintf("'%s-%d'", rand.Text()[:8], o.n) }
	}
	var sets []string
	for _, name := range slices.Sorted(maps.Keys(o.M.Completed.Set)) {
		switch v := o.M.Completed.Set[name].(type) {
		case string:
			if v == "$now" {
				sets = append(sets, quoted(name)+" = current_timestamp")
			} else if !strings.HasPrefix(v, "$") {
				sets = append(sets, quoted(name)+" = '"+strings.ReplaceAll(v, "'", "''")+"'")
			}
		case nil:
			sets = append(sets, quoted(name)+" = null")
		default:
			sets = append(sets, fmt.Sprintf("%s = %v", quoted(name), v))
		}
	}
	return o.tryOut(ctx, strings.Join(sets, ", "))
}

// tryOut keeps a way to end rows if it does: else they are deleted.
func (o *others) tryOut(ctx context.Context, sets string) error {
	if err := o.insert(ctx, o.rng); err != nil {
		return err
	}
	if _, err := o.SQL.ExecContext(ctx, o.sent("update "+o.table()+" set "+sets)); err == nil {
		if ended, err := o.names(ctx, "select name from "+o.Ends); err != nil || len(ended) > 0 {
			o.sets = sets
		}
	}
	return o.exec(ctx, "delete from "+o.table(), "delete from "+o.Ends)
}

// insert inserts copies of rows under new ids, unless there are enough.
func (o *others) insert(ctx context.Context, rng *random.Rand) error {
	live, err := o.names(ctx, "select count(*) from "+o.table()+" t where "+o.open())
	if err != nil || len(live[0]) > 3 || live[0] > "400" && len(live[0]) == 3 {
		return outage(err)
	}
	columns := slices.DeleteFunc(slices.Clone(o.Columns), func(c string) bool { return c == o.M.ID[0] })
	into := quotedAll(append([]string{o.M.ID[0]}, columns...), "")
	for range 1 + rng.IntN(20) {
		o.n++
		values := []string{o.newID()}
		for _, c := range columns {
			values = append(values, o.value(c))
		}
		_, err := o.SQL.ExecContext(ctx, o.sent("insert into "+o.table()+" ("+into+") select "+strings.Join(values, ", ")+
			" from (select * from "+o.copies+" order by random() limit 1) c"))
		if outage(err) != nil {
			return fmt.Errorf("the torture makes rows of its copy from others, under new ids, and the copy refuses one: %w", err)
		}
	}
	return nil
}

// value is what a new row has in a column: what the row has that it is made from, or else
// something like it that no other has.
func (o *others) value(column string) string {
	was := "c." + quoted(column)
	if !slices.Contains(o.Unique, column) {
		return was
	}
	return fmt.Sprintf("case typeof(%s) when 'null' then null when 'blob' then randomblob(16) when 'text' then %s || '-%d' else %d end", was, was, o.n, o.n)
}

// meddle ends a few rows, or writes to them without changing anything. It returns how many it has ended.
func (o *others) meddle(ctx context.Context, rng *random.Rand) (n int, err error) {
	some, err := o.names(ctx, "select "+o.name()+" from "+o.table()+" t where "+o.open()+" order by random() limit 3")
	if err != nil {
		return 0, outage(err)
	}
	for _, name := range some {
		where := " where " + strings.ReplaceAll(o.name(), "t.", "") + " = $1"
		if rng.IntN(4) > 0 {
			column := quoted(o.Columns[rng.IntN(len(o.Columns))])
			if _, err := o.SQL.ExecContext(ctx, o.sent("update "+o.table()+" set "+column+" = "+column+where), name); err != nil {
				return n, outage(err)
			}
			continue
		}
		text := "delete from " + o.table() + " as t" + where + " and " + o.open()
		if o.sets != "" {
			text = "update " + o.table() + " as t set " + o.sets + where + " and " + o.open()
		}
		row, err := o.row(name)
		if err != nil {
			return n, err
		}
		err = o.rec.Ended(row, func() (bool, error) {
			// The end of the run does not cut it off: the judge has to know whether the row has ended.
			result, err := o.endIt(context.WithoutCancel(ctx), text, name)
			if err != nil {
				return false, err
			}
			changed, err := result.RowsAffected()
			n += int(changed)
			return changed == 1, err
		})
		if err != nil {
			return n, outage(err)
		}
	}
	return n, nil
}

// endIt gives up where somebody keeps the row locked for good.
func (o *others) endIt(ctx context.Context, text, name string) (sql.Result, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	return o.SQL.ExecContext(ctx, o.sent(text), name)
}

const sqliteUnique = 2067 // SQLITE_CONSTRAINT_UNIQUE

// outage is nil where the error may pass: what was not done is done by the next. A partial
// unique index, such as one of rows that wait, may have no room for a row just now.
func outage(err error) error {
	var lite interface{ Code() int }
	var pg interface{ SQLState() string }
	switch {
	case err == nil, errors.As(err, &lite) && (lite.Code()&0xff == 5 || lite.Code() == sqliteUnique),
		errors.As(err, &pg) && (strings.HasPrefix(pg.SQLState(), "40") || pg.SQLState() == "23505"): // unique_violation
		return nil
	}
	return err
}
