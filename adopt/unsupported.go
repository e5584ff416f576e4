package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

var errLocked = errors.New("another transaction has locked these rows; try again")

func (s *Store) cannot(what, why string) error {
	return checks.Failed(what, fmt.Errorf("the adopted table %s %s: %w", s.plan.Mapping.Table, why, errors.ErrUnsupported))
}

// Enqueue is not supported: rows come from the programs that own the table.
func (s *Store) Enqueue(context.Context, []dibs.NewJob) ([]dibs.Enqueued, error) {
	return nil, s.cannot("enqueue", "gets its rows from the programs that own it; insert them with SQL")
}

// Cancel is not supported.
func (s *Store) Cancel(context.Context, []int64) (ended, asked []int64, err error) {
	return nil, nil, s.cannot("cancel", "is changed with SQL by those who own it")
}

// Edit is not supported.
func (s *Store) Edit(context.Context, []int64, dibs.Edit) ([]int64, error) {
	return nil, s.cannot("edit", "is changed with SQL by those who own it")
}

// Prune is not supported.
func (s *Store) Prune(context.Context, string, dibs.State, time.Duration) (int, error) {
	return 0, s.cannot("prune", "keeps its finished rows as long as those who own it want")
}

// SetQueue is not supported: the mapping has the settings.
func (s *Store) SetQueue(context.Context, string, dibs.QueueChange) (dibs.Queue, error) {
	return dibs.Queue{}, s.cannot("set the queue", "has its settings in the mapping; change it there")
}

// SetGroup is not supported: all groups have the mapping's limit.
func (s *Store) SetGroup(context.Context, string, string, int) error {
	return s.cannot("set the group", "has one limit for all groups, in the mapping")
}

// InTx is not supported: begin a transaction with database/sql and use Tx.
func (s *Store) InTx(context.Context, func(dibs.Tx) error) error {
	return s.cannot("transaction", "takes part in transactions that you begin: use Store.Tx")
}

// Check finds nothing wrong with an adopted table; adopt.Check looks at the mapping.
func (s *Store) Check(context.Context) ([]string, error) { return nil, nil }
