package workload

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Waits samples the activity of the server's client backends: "running", "type:event" for
// what they wait for, or else their state.
type Waits struct {
	samples int
	counts  map[string]int
}

// Wait is one activity, with its mean number of processes.
type Wait struct {
	At   string  `json:"at"`
	Mean float64 `json:"mean"`
}

const (
	waitsEvery = 10 * time.Millisecond
	waitsSQL   = `select case when state <> 'active' then state
			when wait_event is null then 'running'
			else wait_event_type || ':' || wait_event end, count(*)::int
		from pg_stat_activity
		where backend_type = 'client backend' and state is not null and datname like $1
		group by 1`
)

// Watch takes a sample every 10 ms, until end, of the connections to databases whose names are like names.
func (w *Waits) Watch(ctx context.Context, s *Server, names string) (end func() error, err error) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(waitsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-stop:
				ended <- nil
				return
			}
			if err := w.sample(ctx, conn, names); err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() error {
		close(stop)
		err := <-ended
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}, nil
}

func (w *Waits) sample(ctx context.Context, conn *pgx.Conn, names string) error {
	rows, err := conn.Query(ctx, waitsSQL, names)
	if err != nil {
		return err
	}
	w.samples++
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	var waitsFor string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&waitsFor, &n}, func() error {
		w.counts[waitsFor] += n
		return nil
	})
	return err
}

// List sorts by number, the largest first.
func (w *Waits) List() (list []Wait) {
	byCount := func(a, b string) int { return cmp.Or(w.counts[b]-w.counts[a], cmp.Compare(a, b)) }
	for _, waitsFor := range slices.SortedFunc(maps.Keys(w.counts), byCount) {
		list = append(list, Wait{waitsFor, float64(w.counts[waitsFor]) / float64(w.samples)})
	}
	return list
}
