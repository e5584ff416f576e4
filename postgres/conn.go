package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/reads"
)

// conn runs statements: on the pool, in a pgx transaction or in a database/sql
// transaction.
type conn interface {
	// run executes the steps in order, in one transaction, where possible in one
	// round trip.
	run(ctx context.Context, steps ...step) error
}

// step is one statement. begin, if not nil, is called each time before the statement is sent
// (a transaction may be repeated), and row for each row that it returns.
type step struct {
	sql   string
	args  []any
	begin func()
	row   func(reads.Scan) error
}

// into scans each row into the same variables.
func (st step) into(to ...any) step {
	st.row = func(scan reads.Scan) error { return scan(to...) }
	return st
}

// collect appends the rows of a step to a list; columns says into which fields of an element a row's values go.
func collect[T any](st step, to *[]T, columns func(*T) []any) step {
	st.begin, st.row = reads.Collect(to, columns)
	return st
}

// column collects the values of a step that has one column.
func column[T any](st step, to *[]T) step { return collect(st, to, reads.One) }

// among puts the values of a step with one column into a map, as keys.
func among[T comparable](st step, to map[T]bool) step {
	var one T
	st.begin = func() { clear(to) }
	st.row = func(scan reads.Scan) error {
		err := scan(&one)
		to[one] = true
		return err
	}
	return st
}

// read passes the rows of a step to its function row.
func (st step) read(next func() bool, scan reads.Scan) error {
	for next() {
		if st.row == nil {
			continue
		}
		if err := st.row(scan); err != nil {
			return err
		}
	}
	return nil
}

// batcher is a pgx pool, connection or transaction. Outside of a transaction a batch
// is a transaction by itself.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

type pgxConn struct {
	batcher
	// plain: the connection does not ask the server for the types of parameters, so
	// parameters are sent as text.
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
		err = cmp.Or(s.read(rows.Next, rows.Scan), rows.Err())
		rows.Close()
		if err != nil {
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
	return cmp.Or(s.read(rows.Next, rows.Scan), rows.Err())
}

func plainArgs(args []any) []any {
	plain := make([]any, len(args))
	for i, a := range args {
		plain[i] = plainArg(a)
	}
	return plain
}

// plainArg turns what only pgx can encode into text, and lists into PostgreSQL's text form of arrays.
func plainArg(a any) any {
	v := reflect.ValueOf(a)
	switch {
	case v.Kind() == reflect.Array:
		return plainText(v)
	case v.Kind() != reflect.Slice || v.Type().Elem().Kind() == reflect.Uint8:
		return a
	case v.IsNil():
		return nil
	}
	b := []byte{'{'}
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if x := v.Index(i); x.Kind() == reflect.Pointer && x.IsNil() {
			b = append(b, "null"...)
		} else {
			b = append(b, `"`+quoted.Replace(plainText(reflect.Indirect(x)))+`"`...)
		}
	}
	return string(append(b, '}'))
}

func plainText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case [16]byte:
		return hex.EncodeToString(x[:])
	case time.Time:
		return x.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	default:
		return fmt.Sprint(x)
	}
}

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// poolConn runs steps on a pool. It repeats a transaction that failed only because of
// concurrent transactions, and explains errors: see explain.
type poolConn struct {
	conn
	s *Store
}

func (c poolConn) run(ctx context.Context, steps ...step) error {
	began := time.Now()
	err := repeatTransaction(func() error { return c.conn.run(ctx, steps...) })
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

// dropIdle closes the idle connections of the store's pools after a call that got no answer. After a failover, or
// where a firewall has forgotten the connections, all of them are silent, and each would cost another call that waits
// in vain.
func (s *Store) dropIdle() {
	for _, p := range []*pgxpool.Pool{s.pool, s.sidePool} {
		if p.Stat().IdleConns() > 0 {
			p.Reset()
		}
	}
}

// explain turns a denied permission into a DeniedError, and the error of a call that Close
// has broken off into ErrClosed. If the server has no free connection, the store begins to
// save connections (slots).
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

// readCommitted runs steps on a pool in a READ COMMITTED transaction, since connections may
// have another default. Begin and commit go in the steps' round trip.
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

// preceded is a conn that runs some steps before others, in the same round trip: before each run, or only before the
// first.
type preceded struct {
	conn
	by   []step
	once bool
}

func (p *preceded) run(ctx context.Context, steps ...step) error {
	steps = slices.Concat(p.by, steps)
	if p.once {
		p.by = nil
	}
	return p.conn.run(ctx, steps...)
}

// planningConn sets up the planner in each transaction, for connections that the caller has opened.
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
