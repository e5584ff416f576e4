package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	firstJobs  = 20
	firstPause = 500 * time.Millisecond // lets the worker become idle between two processes
)

// firstRepeats scales firstJobs.
func (b *Bench) firstRepeats() int { return max(int(firstJobs*b.Scale), 3) }

// FirstJob is W11: fresh processes, one after the other, open the system, enqueue one job each,
// and end. The time from the beginning of Serve, which main calls, to the start of the job's
// handler counts. That is in another process, which has been running. With exit, the fresh
// process calls os.Exit as soon as its enqueue has returned.
func (b *Bench) FirstJob(exit bool) Workload {
	how := "closes the system"
	if exit {
		how = "ends without closing it"
	}
	return Workload{
		ID: "W11", Name: "the first job of a fresh process that " + how,
		Rows:  []Row{{Key: "p50", Name: "main to start, median of " + fmt.Sprint(b.firstRepeats()), Unit: "ms"}, {Key: "worst", Name: "the slowest", Unit: "ms"}},
		Conns: conns(3, b.Pool), Takes: time.Second + time.Duration(b.firstRepeats())*(b.duration(firstPause)+200*time.Millisecond),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
				return b.firstJob(ctx, o, order{System: p.Name, Place: o.place, Pool: b.Pool, Handlers: b.Handlers}, exit)
			})
		},
	}
}

func (b *Bench) firstJob(ctx context.Context, s System, o order, exit bool) (Measured, error) {
	h, err := b.workElsewhere(ctx, o)
	if err != nil {
		return Measured{}, err
	}
	fresh := o
	fresh.Fresh, fresh.Exit = true, exit
	err = s.Enqueue(ctx, letters(1)) // warms the handlers' process
	for i := 0; err == nil && i < b.firstRepeats(); i++ {
		if err = await(ctx, i+1, h); err == nil {
			err = sleep(ctx, b.duration(firstPause))
		}
		if err == nil {
			err = b.runFresh(ctx, fresh)
		}
	}
	if err == nil {
		err = await(ctx, b.firstRepeats()+1, h)
	}
	r, ended := h.end()
	if err := errors.Join(err, ended); err != nil {
		return Measured{}, err
	}
	_, all := waits(r.Starts, 0)
	return Measured{Figures: map[string]float64{"p50": ms(quantile(all, 0.5)), "worst": ms(quantile(all, 1))}}, nil
}

// runFresh runs a fresh process to its end.
func (b *Bench) runFresh(ctx context.Context, o order) error {
	c, err := b.spawn(ctx, "fresh", o)
	if err != nil {
		return err
	}
	_, err = c.end()
	return err
}

// enqueueFirst is what a fresh process does.
func enqueueFirst(ctx context.Context, out *json.Encoder, s System, began time.Time, exit bool) error {
	job := letters(1)
	job[0].Mail.Sent = began.UnixNano()
	if err := s.Enqueue(ctx, job); err != nil {
		return err
	}
	if err := out.Encode(report{Count: 1}); err != nil {
		return err
	}
	if exit {
		os.Exit(0)
	}
	return nil // Serve closes the system
}
