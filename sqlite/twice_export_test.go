package sqlite

import (
	"context"
	"errors"

	"github.com/dibs-queue/dibs/internal/rowstore"
)

// OpenTwice opens a store that runs each call twice, as the writer does where another call of its transaction fails: first
// in a transaction that it rolls back, and again after between.
func OpenTwice(ctx context.Context, path string, between func(*Store)) (*Store, error) {
	var o Options
	text, writing, err := migrate(ctx, path, &o, false)
	if err != nil {
		return nil, err
	}
	s := &Store{sql: text, turn: newTurn()}
	s.rows = rowstore.New(twice{engine{s}, between}, &text.Dialect)
	return s, s.open(ctx, path, o, writing)
}

type twice struct {
	engine
	between func(*Store)
}

func (e twice) Write(ctx context.Context, f func(*rowstore.Session) error) error {
	rolledBack := errors.New("rolled back")
	err := e.engine.Write(ctx, func(tx *rowstore.Session) error {
		if err := f(tx); err != nil {
			return err
		}
		return rolledBack
	})
	if !errors.Is(err, rolledBack) {
		return err
	}
	e.between(e.store)
	return e.engine.Write(ctx, f)
}
