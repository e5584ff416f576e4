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

	"github.com/dibs-queue/dibs/internal/lab/history"
)

// endedElsewhere is the name under which rows that the other program ends are counted.
const endedElsewhere = "elsewhere"

// others is another program that uses the table at the same time, without dibs: it inserts
// rows, writes to them, and ends some.
type others struct {
	*Adopted
	rec     *history.Recorder
	rng     *random.Rand
	newID   func() string // returns a new id as SQL text
	rowID   func(name string) (int64, error)
	endSets string // the SQL assignments that end a row; empty: the program deletes it

	inserted int
}

// learnTable finds out how to make ids and how to end rows.
func (o *others) learnTable(ctx context.Context) error {
	rows, err := o.SQL.QueryContext(ctx, "select "+quotedAll(o.M.ID, "")+" from "+o.tableSQL()+" where 1 = 0")
	if err != nil {
		return err
	}
	types, err := rows.ColumnTypes()
	if err = errors.Join(err, rows.Close(), rows.Err()); err != nil {
		return err
	}
	o.newID = func() string { return fmt.Sprint(o.inserted) }
	switch name := strings.ToUpper(types[0].DatabaseTypeName()); {
	case name == "UUID":
		o.newID = func() string { t := rand.Text(); return fmt.Sprintf("'%x'", t[:16]) }
	case isText(types[0]):
		o.newID = func() string { return fmt.Sprintf("'%s-%d'", rand.Text()[:8], o.inserted) }
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
	return o.tryEnding(ctx, strings.Join(sets, ", "))
}

// tryEnding tries assignments that should end a row, and keeps them if they do. Otherwise the
// program deletes rows.
func (o *others) tryEnding(ctx context.Context, sets string) error {
	if err := o.insert(ctx, o.rng); err != nil {
		return err
	}
	if _, err := o.SQL.ExecContext(ctx, o.qualified("update "+o.tableSQL()+" set "+sets)); err == nil {
		if ended, err := o.queryNames(ctx, "select name from "+o.Ends); err != nil || len(ended) > 0 {
			o.endSets = sets
		}
	}
	return o.exec(ctx, "delete from "+o.tableSQL(), "delete from "+o.Ends)
}

// insert inserts copies of rows under new ids, unless there are enough.
func (o *others) insert(ctx context.Context, rng *random.Rand) error {
	live, err := o.queryNames(ctx, "select count(*) from "+o.tableSQL()+" t where "+o.openCondition())
	if err != nil || len(live[0]) > 3 || live[0] > "400" && len(live[0]) == 3 {
		return ignoreTemporary(err)
	}
	columns := slices.DeleteFunc(slices.Clone(o.Columns), func(c string) bool { return c == o.M.ID[0] })
	into := quotedAll(append([]string{o.M.ID[0]}, columns...), "")
	for range 1 + rng.IntN(20) {
		o.inserted++
		values := []string{o.newID()}
		for _, c := range columns {
			values = append(values, o.value(c))
		}
		_, err := o.SQL.ExecContext(ctx, o.qualified("insert into "+o.tableSQL()+" ("+into+") select "+strings.Join(values, ", ")+
			" from (select * from "+o.copies+" order by random() limit 1) c"))
		if ignoreTemporary(err) != nil {
			return fmt.Errorf("the torture makes rows of its copy from existing ones, with new ids, and the copy refuses one: %w", err)
		}
	}
	return nil
}

// value returns the SQL of a new row's value in a column: that of the row from which it is
// made, or a similar but unique one.
func (o *others) value(column string) string {
	was := "c." + quoted(column)
	if !slices.Contains(o.Unique, column) {
		return was
	}
	return fmt.Sprintf("case typeof(%s) when 'null' then null when 'blob' then randomblob(16) when 'text' then %s || '-%d' else %d end", was, was, o.inserted, o.inserted)
}

// meddle ends a few rows, or writes to them without a change. It returns how many it ended.
func (o *others) meddle(ctx context.Context, rng *random.Rand) (n int, err error) {
	rows, err := o.queryNames(ctx, "select "+o.nameSQL()+" from "+o.tableSQL()+" t where "+o.openCondition()+" order by random() limit 3")
	if err != nil {
		return 0, ignoreTemporary(err)
	}
	for _, name := range rows {
		where := " where " + strings.ReplaceAll(o.nameSQL(), "t.", "") + " = $1"
		if rng.IntN(4) > 0 {
			column := quoted(o.Columns[rng.IntN(len(o.Columns))])
			if _, err := o.SQL.ExecContext(ctx, o.qualified("update "+o.tableSQL()+" set "+column+" = "+column+where), name); err != nil {
				return n, ignoreTemporary(err)
			}
			continue
		}
		text := "delete from " + o.tableSQL() + " as t" + where + " and " + o.openCondition()
		if o.endSets != "" {
			text = "update " + o.tableSQL() + " as t set " + o.endSets + where + " and " + o.openCondition()
		}
		row, err := o.rowID(name)
		if err != nil {
			return n, err
		}
		err = o.rec.Ended(row, func() (bool, error) {
			// The end of the run must not interrupt this, since the judge needs the answer.
			result, err := o.endRow(context.WithoutCancel(ctx), text, name)
			if err != nil {
				return false, err
			}
			changed, err := result.RowsAffected()
			n += int(changed)
			return changed == 1, err
		})
		if err != nil {
			return n, ignoreTemporary(err)
		}
	}
	return n, nil
}

// endRow ends a row. It gives up if another transaction keeps the row locked.
func (o *others) endRow(ctx context.Context, text, name string) (sql.Result, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	return o.SQL.ExecContext(ctx, o.qualified(text), name)
}

const sqliteUnique = 2067 // SQLITE_CONSTRAINT_UNIQUE

// ignoreTemporary returns nil for errors that may go away, since later calls do the same work:
// a busy file, a deadlock, or a partial unique index that does not admit the row now.
func ignoreTemporary(err error) error {
	var lite interface{ Code() int }
	var pg interface{ SQLState() string }
	switch {
	case err == nil, errors.As(err, &lite) && (lite.Code()&0xff == 5 || lite.Code() == sqliteUnique),
		errors.As(err, &pg) && (strings.HasPrefix(pg.SQLState(), "40") || pg.SQLState() == "23505"): // unique_violation
		return nil
	}
	return err
}
