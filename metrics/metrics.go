// Package metrics gives Prometheus the metrics of a dibs queue: those of a database, read at each
// scrape, and those of this process' workers and calls. docs/howto/metrics.md lists them.
//
// Names of queues and kinds are users' data, so their number is bounded: 500 queues, 200 kinds, and
// 1,000 pairs of both in a process. What is beyond that is counted under the name "other".
package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Register registers the metrics of a database and of workers, and may be called again for more workers
// and the same registerer. Call it before the database is used, and once the Store and Hooks of each
// worker are set, before its Run: it calls the worker's own hooks after its own.
//
// db is a *postgres.Store or a *sqlite.Store, or another [admin.Database], of which less is known. nil leaves the
// database out, as for a worker on an adopted table, or where another process shows the database: all of them would
// show the same. To show two databases, tell them apart with [prometheus.WrapRegistererWith].
//
// A scrape costs the database one statistics statement, and every 10 s the lists of workers and schedules. Scrapes
// within a second share them. If the database does not answer within 2 s, the metric dibs_up is 0, and those of the
// process are served as ever.
func Register(r prometheus.Registerer, db admin.Database, workers ...*dibs.Worker) error {
	for _, w := range workers {
		if w == nil || w.Store == nil {
			return &dibs.InvalidError{Field: "workers", Reason: "have one that is nil or has no Store; set that first"}
		}
	}
	p, err := processOf(r)
	if err != nil {
		return err
	}
	if db != nil {
		if err := r.Register(newDatabase(db, p)); err != nil {
			return fmt.Errorf("register the metrics of the database: %w", err)
		}
		p.watch(db)
	}
	for _, w := range workers {
		p.observe(w)
	}
	return nil
}

// Observe is [Register] for a program that calls a database without a Worker, as an HTTP server does. It returns a
// database that measures the calls of [dibs.Store], and counts what is claimed.
func Observe(r prometheus.Registerer, db admin.Database) (admin.Database, error) {
	if db == nil {
		return nil, &dibs.InvalidError{Field: "db", Reason: "is nil"}
	}
	if err := Register(r, db); err != nil {
		return nil, err
	}
	p, err := processOf(r)
	if err != nil {
		return nil, err
	}
	return observedDatabase{observedStore{db, p, true}, database{db}}, nil
}

// processOf returns this process' metrics, and registers them if r does not have them yet.
func processOf(r prometheus.Registerer) (*process, error) {
	if r == nil {
		return nil, &dibs.InvalidError{Field: "registerer", Reason: "is nil; give prometheus.DefaultRegisterer or one of your own"}
	}
	p := newProcess()
	err := r.Register(p)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if old, ours := already.ExistingCollector.(*process); ours {
			return old, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the process: %w", err)
	}
	return p, nil
}
