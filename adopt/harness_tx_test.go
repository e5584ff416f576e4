package adopt_test

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/storetest"
)

// beginTx begins a transaction as a caller does to claim in it.
func (h *harness) beginTx(ctx context.Context) (storetest.Tx, error) {
	inTx := &harnessIn{h: h, stores: map[string]*adopt.Tx{}, held: map[dibs.Lease]string{}}
	return storetest.SQL(h.db, func(tx dibs.SQLTx) dibs.Tx {
		if own, ok := tx.(*sql.Tx); ok { // storetest calls this again with a wrapper of the same transaction
			inTx.tx = own
		}
		return inTx
	})(ctx)
}

// harnessIn is a harness in a transaction.
type harnessIn struct {
	h      *harness
	tx     *sql.Tx
	stores map[string]*adopt.Tx  // transaction of each queue's store
	held   map[dibs.Lease]string // queues of the leases
}

func (i *harnessIn) on(ctx context.Context, queue string) (*adopt.Tx, string, error) {
	s, err := i.h.store(ctx, queue, false)
	if err != nil || s == nil {
		return nil, "", err
	}
	if i.stores[s.Queue()] == nil {
		i.stores[s.Queue()] = s.SQLTx(i.tx)
	}
	return i.stores[s.Queue()], s.Queue(), nil
}

func (i *harnessIn) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := i.h.prepare(ctx, jobs)
	if err != nil {
		return nil, err
	}
	return i.h.insert(ctx, i.tx, rows)
}

func (i *harnessIn) ChangeGroup(context.Context, string, string, func(*dibs.Group) error) error {
	return errHarness
}

func (i *harnessIn) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	tx, queue, err := i.on(ctx, r.Queue)
	if err != nil || tx == nil {
		return nil, err
	}
	jobs, err := tx.Claim(ctx, r)
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
		tx, _, err := i.on(ctx, queue)
		if err != nil {
			return err
		}
		if err := tx.Finish(ctx, some); err != nil {
			return err
		}
		for _, o := range some {
			delete(i.held, dibs.Lease{ID: o.ID, Token: o.Token})
		}
	}
	return nil
}
