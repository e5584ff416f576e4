package adopted

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// A call whose context ends within its transaction reports this, not that the transaction is done.
func TestATransactionThatItsContextEndsIsNoFault(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = InTx(ctx, Postgres, db, func(q Querier) error {
		cancel()
		for {
			rows, err := q.QueryContext(t.Context(), "select 1")
			if errors.Is(err, sql.ErrTxDone) {
				return nil
			}
			if err == nil {
				err = errors.Join(rows.Close(), rows.Err())
			}
			if t.Context().Err() != nil {
				return err
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that its context has ended", err)
	}
}
