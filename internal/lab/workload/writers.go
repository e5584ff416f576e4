package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// idleWriters are pairs: the number of open transactions that have written, and the number
// of processes that only use the processor.
var idleWriters = []struct{ writers, burners int }{{1, 0}, {10, 0}, {10, 6}, {90, 0}, {300, 0}}

const (
	writersTime    = 30 * time.Second
	fewIdleWriters = 10 // every server must have free connections for this many
)

func writersKey(writers, burners int) string { return fmt.Sprintf("%d+%d", writers, burners) }

// Writers is W5 beside idle transactions that have an id, as those that wrote have: marks
// must pass over them. It leaves out cases for which the server has too few free connections.
func (b *Bench) Writers() Workload {
	w := Workload{
		ID: "W5", Name: "idle writers, " + round(LoopWindows*b.writersWindow()) + " each, 3 priorities",
		Postgres: true, Conns: conns(1, b.Pool) + fewIdleWriters, Takes: time.Duration(len(idleWriters)) * (LoopWindows*b.writersWindow() + 2*time.Second),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) { return b.besideWriters(ctx, p) },
	}
	for _, c := range idleWriters {
		name := fmt.Sprintf("last third beside %d", c.writers)
		if c.burners > 0 {
			name += fmt.Sprintf(" and %d busy processes", c.burners)
		}
		w.Rows = append(w.Rows, Row{Key: writersKey(c.writers, c.burners), Name: name, Unit: "jobs/s"})
	}
	return w
}

func (b *Bench) writersWindow() time.Duration {
	return max(b.duration(writersTime)/LoopWindows, shortWindow)
}

func (b *Bench) besideWriters(ctx context.Context, p Product) (Measured, error) {
	m := Measured{Figures: map[string]float64{}}
	for _, c := range idleWriters {
		free, err := b.Server.Free(ctx)
		if err != nil {
			return m, err
		}
		if free < conns(1, b.Pool)+c.writers {
			continue
		}
		_, err = b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
			rate, err := b.rateBeside(ctx, o, c.writers, c.burners)
			m.Figures[writersKey(c.writers, c.burners)] = rate
			return Measured{}, err
		})
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// rateBeside returns the rate in the last third of a closed loop.
func (b *Bench) rateBeside(ctx context.Context, o *opened, writers, burners int) (rate float64, err error) {
	for range writers {
		conn, err := pgx.Connect(ctx, o.place.URL)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the server rolls back in any case
		if _, err := conn.Exec(ctx, "begin; select pg_current_xact_id()"); err != nil {
			return 0, err
		}
	}
	for i := range burners {
		c, err := b.spawn(ctx, fmt.Sprintf("burner-%d", i+1), order{Burn: true})
		if err != nil {
			return 0, err
		}
		defer func() {
			_, ended := c.end()
			err = errors.Join(err, ended)
		}()
	}
	counts, err := b.loop(ctx, o, b.writersWindow())
	if err != nil {
		return 0, err
	}
	const last = LoopWindows / 3
	for _, n := range counts[LoopWindows-last:] {
		rate += float64(n) / (last * b.writersWindow().Seconds())
	}
	return rate, nil
}
