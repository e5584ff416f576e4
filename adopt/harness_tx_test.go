package adopt_test

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/storetest"
)

// beginTx is how a caller begins a transaction in which it claims.
func (h *harness) beginTx(ctx context.Context) (storetest.Tx, error) {
	in := &harnessIn{h: h, in: map[string]*adopt.Tx{}, held: map[dibs.Lease]string{}}
	return storetest.SQL(h.db, func(tx checks.SQLTx) dibs.Tx {
		if own, ok := tx.(*sql.Tx); ok { // the first of the two
			in.tx = own
		}
		return in
	})(ctx)
}

// harnessIn is the harness in a transaction.
type harnessIn struct {
	h    *harness
	tx   *sql.Tx
	in   map[string]*adopt.Tx
	held map[dibs.Lease]string // by queue
}

func (i *harnessIn) on(ctx context.Context, queue string) (*adopt.Tx, string, error) {
	s, err := i.h.store(ctx, queue, false)
	if err != nil || s == nil {
		return nil, "", err
	}
	if i.in[s.Queue()] == nil {
		i.in[s.Queue()] = s.SQLTx(i.tx)
	}
	return i.in[s.Queue()], s.Queue(), nil
}

func (i *harnessIn) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := i.h.prepare(ctx, jobs)
	if err != nil {
		return nil, err
	}
	return i.h.insert(ctx, i.tx, rows)
}

func (i *harnessIn) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	in, queue, err := i.on(ctx, r.Queue)
	if err != nil || in == nil {
		return nil, err
	}
	jobs, err := in.Claim(ctx, r)
	for _, j := range jobs {
		i.held[j.Lease()] = queue
	}
	return jobs, err
}

func (i *harnessIn) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	by := map[string][]dibs.Outcome{}
	for _, o := range outcomes {
		l := dibs.Lease{ID: o.ID, Token: o.Token}
		by[i.held[l]] = append(by[i.held[l]], o)
	}
	for queue, some := range by {
		in, _, err := i.on(ctx, queue)
		if err != nil {
			return err
		}
		if err := in.Finish(ctx, some); err != nil {
			return err
		}
		for _, o := range some {
			delete(i.held, dibs.Lease{ID: o.ID, Token: o.Token})
		}
	}
	return nil
}
