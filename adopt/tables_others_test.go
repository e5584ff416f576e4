package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// onEvery runs f with a new database of each kind.
func onEvery(t *testing.T, f func(t *testing.T, driver, dsn string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		f(t, "sqlite", file(t))
	})
	t.Run("postgres", func(t *testing.T) { f(t, "pgx", pgtest.URL(t)) })
	t.Run("mariadb", func(t *testing.T) { f(t, "mysql", mytest.Address(t)) })
}

func statement(t *testing.T, db *sql.DB, query string, args ...any) int64 {
	t.Helper()
	result, err := db.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%v\n%.400s", err, query)
	}
	n, err := result.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// others acts as another program on the same table: it inserts rows, and changes and ends
// existing ones.
type others struct {
	touched map[string]bool
	taken   int // rows that the table's own worker has ended
	left    atomic.Int64
}

func (o *others) done() bool { return o.left.Load() == 0 }

func (f *fleet) others(ctx context.Context, t *testing.T) *others {
	t.Helper()
	o := &others{touched: map[string]bool{}}
	o.left.Store(int64(f.extra))
	names := slices.Collect(maps.Keys(f.ranks(t)))
	touch := fmt.Sprintf(`update %s set %s = 'seen' where %s = $1 and %s`, f.table, f.remark, f.key("", f.kind), f.meant(f.m.Unfinished))
	if f.kind == "mariadb" {
		if len(f.m.ID) == 1 { // the condition is one that an index serves: an update locks the rows that it reads
			touch = strings.Replace(touch, f.key("", f.kind), `"`+f.m.ID[0]+`"`, 1)
		}
		touch, _ = unnumbered(touch, "")
	}
	go func() {
		for n := f.rows; o.left.Load() > 0 && ctx.Err() == nil; n += 10 {
			f.fill(t, n, n+10)
			if name := names[rand.IntN(len(names))]; statement(t, f.db, touch, name) == 1 {
				o.touched[name] = true
			}
			name := names[rand.IntN(len(names))]
			err := f.rec.Ended(f.id(t, name), func() (bool, error) { return oneRow(f.db.ExecContext(ctx, f.byHand, name)) })
			if err != nil && !errors.Is(err, errNoCount) {
				t.Error(err)
			}
			f.takeOne(t, o, names[rand.IntN(len(names))])
			o.left.Add(-10)
		}
	}()
	return o
}
