package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// conn is where statements run: the pool, a pgx transaction or a database/sql
// transaction.
type conn interface {
	// run executes the steps in order, in one transaction, where possible in one
	// round trip.
	run(ctx context.Context, steps ...step) error
}

// step is one statement. row, if not nil, is called for each row it returns; begin,
// if not nil, before it is sent, again when a transaction is repeated.
type step struct {
	sql   string
	args  []any
	begin func()
	row   func(scan func(...any) error) error
}

// batcher is a pgx pool, connection or transaction. Outside of a transaction a
// batch is one by itself.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

type pgxConn struct {
	batcher
	// plain: the connection does not ask the server for the types of parameters, so
	// they go as text.
	plain bool
}

func onPgx(b batcher, c *pgx.ConnConfig) pgxConn {
	mode := c.DefaultQueryExecMode
	return pgxConn{batcher: b, plain: mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol}
}

func (c pgxConn) run(ctx context.Context, steps ...step) (err error) {
	var b pgx.Batch
	for _, s := range steps {
		if s.begin != nil {
			s.begin()
		}
		if c.plain {
			s.args = plainArgs(s.args)
		}
		b.Queue(s.sql, s.args...)
	}
	results := c.SendBatch(ctx, &b)
	defer func() {
		if e := results.Close(); err == nil {
			err = e
		}
	}()
	for _, s := range steps {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		for rows.Next() {
			if s.row == nil {
				continue
			}
			if err := s.row(rows.Scan); err != nil {
				rows.Close()
				return err
			}
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

// sqlConn is a database/sql transaction of any driver that passes strings on as
// text parameters: arrays go as literals, which every one of them can.
type sqlConn struct{ tx checks.SQLTx }

func (c sqlConn) run(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		if err := c.step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (c sqlConn) step(ctx context.Context, s step) error {
	if s.begin != nil {
		s.begin()
	}
	rows, err := c.tx.QueryContext(ctx, s.sql, plainArgs(s.args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if s.row == nil {
			continue
		}
		if err := s.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func plainArgs(args []any) []any {
	plain := make([]any, len(args))
	for i, a := range args {
		plain[i] = plainArg(a)
	}
	return plain
}

// plainArg turns what only pgx can encode into text.
func plainArg(a any) any {
	switch v := a.(type) {
	case []int64:
		return literal(v, func(x int64) *string { return text(strconv.FormatInt(x, 10)) })
	case []int16:
		return literal(v, func(x int16) *string { return text(strconv.Itoa(int(x))) })
	case []int32:
		return literal(v, func(x int32) *string { return text(strconv.Itoa(int(x))) })
	case []*int64:
		return literal(v, func(x *int64) *string {
			if x == nil {
				return nil
			}
			return text(strconv.FormatInt(*x, 10))
		})
	case []bool:
		return literal(v, func(x bool) *string { return text(strconv.FormatBool(x)) })
	case []string:
		if v == nil {
			return nil
		}
		return literal(v, func(x string) *string { return &x })
	case []*string:
		return literal(v, func(x *string) *string { return x })
	case [][16]byte:
		return literal(v, func(x [16]byte) *string { return text(fmt.Sprintf("%x", x)) })
	case [16]byte:
		return fmt.Sprintf("%x", v)
	case []time.Time:
		return literal(v, func(x time.Time) *string { return text(x.UTC().Format("2006-01-02 15:04:05.999999Z07:00")) })
	case []*time.Time:
		return literal(v, func(x *time.Time) *string {
			if x == nil {
				return nil
			}
			return text(x.UTC().Format("2006-01-02 15:04:05.999999Z07:00"))
		})
	}
	return a
}

func text(s string) *string { return &s }

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// literal writes an array in PostgreSQL's text form; nil elements are null.
func literal[T any](list []T, element func(T) *string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, x := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		s := element(x)
		if s == nil {
			b.WriteString("null")
			continue
		}
		b.WriteByte('"')
		b.WriteString(quoted.Replace(*s))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// retrying is a pool's conn that repeats a transaction which failed only because
// of what ran beside it.
type retrying struct{ conn }

func (c retrying) run(ctx context.Context, steps ...step) error {
	return repeating(func() error { return c.conn.run(ctx, steps...) })
}

// closable is a pool's conn that says of a call which Close has broken off that the store
// is closed.
type closable struct {
	conn
	s *Store
}

func (c closable) run(ctx context.Context, steps ...step) error {
	return c.s.ended(ctx, c.conn.run(ctx, steps...))
}

// ended looks at how a call has ended. It tells the end of the store, which ends the
// connecting of its pools, from the end of the caller's context.
func (s *Store) ended(ctx context.Context, err error) error {
	if hasCode(err, "42501") { // insufficient_privilege
		return s.denied(ctx, err)
	}
	if hasCode(err, "53300") { // too_many_connections: of the server, the database or the role
		s.lookAtSlots(100)
	}
	if s.closed.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return dibs.ErrClosed
	}
	return err
}

// begun is a pool's conn that names the isolation of its transactions, since the
// connections may have any default. It begins and ends them in the steps' round trip.
type begun struct{ *pgxpool.Pool }

func (c begun) run(ctx context.Context, steps ...step) error {
	own, err := c.Acquire(ctx)
	if err != nil {
		return err
	}
	defer own.Release()
	steps = slices.Concat([]step{{sql: "begin isolation level read committed"}}, steps, []step{{sql: "commit"}})
	err = onPgx(own, own.Conn().Config()).run(ctx, steps...)
	if own.Conn().PgConn().TxStatus() != 'I' {
		_, _ = own.Exec(ctx, "rollback") // else the pool closes the connection
	}
	return err
}

// planned is a conn on connections that Open has not set up.
type planned struct{ conn }

func (c planned) run(ctx context.Context, steps ...step) error {
	return c.conn.run(ctx, append([]step{{sql: ownTransaction}}, steps...)...)
}

func repeating(f func() error) error {
	const tries = 5
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == tries || !again(err) {
			return err
		}
	}
}
