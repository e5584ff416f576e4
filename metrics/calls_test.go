package metrics_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/metrics"
)

// Handlers of a measured worker do steps and read what came before, if the worker's store can.
func TestAMeasuredStoreDoesWhatItDidBefore(t *testing.T) {
	onDatabases(t, func(t *testing.T, db admin.Database) {
		for name, store := range map[string]dibs.Store{
			"a database":                   db,
			"a database without operators": struct{ dibs.Database }{db},
			"a store that only works jobs": struct{ dibs.Store }{db},
		} {
			_, err := db.Enqueue(t.Context(), []dibs.NewJob{{Kind: "part", Ref: "part"}, {Kind: "sum", After: []dibs.Dep{{Ref: "part"}}}})
			if err != nil {
				t.Fatal(err)
			}
			var stepped, before error
			ended := false
			w := &dibs.Worker{Store: store}
			w.HandleRaw("part", func(context.Context, *dibs.RawJob) error { return nil })
			w.HandleRaw("sum", func(ctx context.Context, job *dibs.RawJob) error {
				_, stepped = dibs.Step(ctx, job, "a", func(context.Context) (int, error) { return 1, nil })
				found := 0
				for _, err := range job.Before(ctx) {
					before = errors.Join(before, err)
					found++
				}
				if ended = true; found != 1 {
					t.Errorf("%s: %d jobs came before", name, found)
				}
				return nil
			})
			r := prometheus.NewRegistry()
			for range 2 { // what is measured already stays as it is
				if err := metrics.Register(r, nil, w); err != nil {
					t.Fatal(err)
				}
			}
			run(t, w, func() bool { return ended })
			_, can := store.(dibs.StepStore)
			if (stepped == nil) != can || (before == nil) != can {
				t.Errorf("%s: a step gave %v, the jobs before %v", name, stepped, before)
			}
		}
	})
}
