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
)

// conn runs statements: on the pool, in a pgx transaction or in a database/sql
// transaction.
type conn interface {
	// run executes the steps in order, in one transaction, where possible in one
	// round trip.
	run(ctx context.Context, steps ...step) error
}

// step is one statement. If they are not nil, begin is called each time before it is
// sent (a transaction may be repeated), and row for each row that it returns.
type step struct {
	sql   string
	args  []any
	begin func()
	row   func(scan func(...any) error) error
}

// batcher is a pgx pool, connection or transaction. Outside of a transaction a batch
// is a transaction by itself.
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
// text parameters: arrays go as literals, which all of them can send.
type sqlConn struct{ tx dibs.SQLTx }

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

// repeatingConn is a pool's conn that repeats a transaction that failed only because of
// concurrent transactions.
type repeatingConn struct{ conn }

func (c repeatingConn) run(ctx context.Context, steps ...step) error {
	return repeatTransaction(func() error { return c.conn.run(ctx, steps...) })
}

// explainingConn is a pool's conn that explains errors: see explain.
type explainingConn struct {
	conn
	s *Store
}

func (c explainingConn) run(ctx context.Context, steps ...step) error {
	began := time.Now()
	err := c.conn.run(ctx, steps...)
	if errors.Is(err, context.DeadlineExceeded) && time.Since(began) > unanswered {
		c.s.dropIdle()
	}
	if lost(err) {
		c.s.queues.forgetMarks()
	}
	return c.s.explain(ctx, err)
}

// unanswered is how long a call without an answer has lasted if its connection may have fallen silent.
const unanswered = 500 * time.Millisecond

// dropIdle closes the idle connections of the store's pools after a call that got no answer. If its wire has fallen
// silent, as after a failover or where something between has forgotten it, so have theirs, and each of them would cost
// a call that waits in vain.
func (s *Store) dropIdle() {
	for _, p := range []*pgxpool.Pool{s.pool, s.sidePool} {
		if p.Stat().IdleConns() > 0 {
			p.Reset()
		}
	}
}

// explain turns a denied permission into a DeniedError, and a call that Close has broken
// off into ErrClosed. A server without free connections starts the saving of them.
func (s *Store) explain(ctx context.Context, err error) error {
	if hasCode(err, "42501") { // insufficient_privilege
		return s.denied(ctx, err)
	}
	if hasCode(err, "53300") { // too_many_connections, by the limit of the server, the database or the role
		s.noteSlots(100)
	}
	if s.closed.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return dibs.ErrClosed
	}
	return err
}

// readCommitted is a pool's conn that names the isolation level of its transactions, as
// connections may have another default. Begin and commit go in the steps' round trip.
type readCommitted struct{ *pgxpool.Pool }

func (c readCommitted) run(ctx context.Context, steps ...step) error {
	own, err := c.Acquire(ctx)
	if err != nil {
		return err
	}
	defer own.Release()
	steps = slices.Concat([]step{{sql: "begin isolation level read committed"}}, steps, []step{{sql: "commit"}})
	err = onPgx(own, own.Conn().Config()).run(ctx, steps...)
	if own.Conn().PgConn().TxStatus() != 'I' {
		_, _ = own.Exec(ctx, "rollback") // the pool would close a connection with an open transaction
	}
	return err
}

// planningConn sets the planner up in each transaction, for connections that Open has not set up.
type planningConn struct{ conn }

func (c planningConn) run(ctx context.Context, steps ...step) error {
	return c.conn.run(ctx, append([]step{{sql: ownTransaction}}, steps...)...)
}

func repeatTransaction(f func() error) error {
	const tries = 5
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == tries || !repeatable(err) {
			return err
		}
	}
}
