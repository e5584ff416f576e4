package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// TestMain also serves as the worker process.
func TestMain(m *testing.M) {
	lab.Obey(work)
	needs.Split()
	os.Exit(mytest.M{M: m}.Run())
}

// order is the input of a worker process.
type order struct {
	Table, Kind, DSN, Dir, Name, Broken string
}

func nameOf(j *dibs.RawJob) string {
	if j.Key != "" {
		return j.Key
	}
	return strconv.FormatInt(j.ID, 10)
}

// work is the main function of a worker process. It ends when its stdin closes.
func work(ctx context.Context, o order) error {
	driver := map[string]string{"sqlite": "sqlite", "postgres": "pgx", "mariadb": "mysql"}[o.Kind]
	db, err := sql.Open(driver, o.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	other, err := patient(driver, o.DSN)
	if err != nil {
		return err
	}
	defer other.Close()
	m, err := shortened(o.Table, o.Kind)
	if err != nil {
		return err
	}
	store, err := adopt.Open(context.Background(), db, spoil(o.Broken, m)) // stdin may close before it is open
	if err != nil {
		return err
	}
	rec, err := history.OpenIn(o.Dir, o.Name)
	if err != nil {
		return err
	}
	w := worker(o, m, other, rec)
	w.Store, w.Queue = history.WrapStore(breaking(o.Broken, db, store), rec), store.Queue()
	return errors.Join(w.Run(ctx), rec.Close())
}

// patient opens the database with a long wait for SQLite's write lock. On MariaDB names may stand in double quotes.
func patient(driver, dsn string) (*sql.DB, error) {
	if driver == "mysql" {
		dsn += "?multiStatements=true&tx_isolation=%27READ-COMMITTED%27&sql_mode=%27ANSI_QUOTES,STRICT_ALL_TABLES%27"
	}
	if driver == "sqlite" {
		dsn += "&_pragma=busy_timeout(60000)"
	}
	return sql.Open(driver, dsn)
}

func worker(o order, m mapping.Mapping, other *sql.DB, rec *history.Recorder) *dibs.Worker {
	var byHand string
	for _, t := range slices.Concat(fiveTables, strangeTables, productTables, []owned{mailing}) {
		if t.name == o.Table {
			byHand = t.withDefaults(m, o.Kind).byHand
		}
	}
	w := &dibs.Worker{Name: o.Name, Concurrency: 20, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	w.HandleRaw("", func(ctx context.Context, j *dibs.RawJob) error {
		does := func(what string) bool { return strings.Contains(string(j.Payload), what) }
		switch {
		case does(doSlow):
			select {
			case <-time.After(m.Lease * 3 / 2):
			case <-ctx.Done():
				return ctx.Err()
			}
		case does(doSteal):
			err := rec.Ended(j.ID, func() (bool, error) { return oneRow(other.ExecContext(ctx, byHand, nameOf(j))) })
			if errors.Is(err, errNoCount) {
				return nil
			}
			return err
		case does(doPoison), rand.IntN(200) == 0:
			return errors.New("not this time")
		}
		return nil
	})
	return w
}

// errNoCount means that a statement reports no changed row. Statements on a view always do.
var errNoCount = errors.New("changed no row, or one below a view")

// oneRow returns an error unless a statement has changed one row.
func oneRow(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return false, errors.Join(errNoCount, err)
	}
	return true, nil
}
