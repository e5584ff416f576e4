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

// Waits counts what the server's processes for a client were just doing, whenever
// somebody looked: "running", "type:event" for what they waited for, else their state.
type Waits struct {
	looks int
	found map[string]int
}

// Wait is one of those, and how many processes were at it on average.
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

// Watch looks every 10 ms, until end, at the connections to databases with such names.
func (w *Waits) Watch(ctx context.Context, s *Server, names string) (end func() error, err error) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(waitsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-over:
				ended <- nil
				return
			}
			if err := w.look(ctx, conn, names); err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() error {
		close(over)
		err := <-ended
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}, nil
}

func (w *Waits) look(ctx context.Context, conn *pgx.Conn, names string) error {
	rows, err := conn.Query(ctx, waitsSQL, names)
	if err != nil {
		return err
	}
	w.looks++
	if w.found == nil {
		w.found = map[string]int{}
	}
	var at string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&at, &n}, func() error {
		w.found[at] += n
		return nil
	})
	return err
}

// List begins with where most were.
func (w *Waits) List() (list []Wait) {
	most := func(a, b string) int { return cmp.Or(w.found[b]-w.found[a], cmp.Compare(a, b)) }
	for _, at := range slices.SortedFunc(maps.Keys(w.found), most) {
		list = append(list, Wait{at, float64(w.found[at]) / float64(w.looks)})
	}
	return list
}
