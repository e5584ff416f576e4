package rowstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs/internal/reads"
)

// Reads are the calls that only read.
func (s *Store) Reads() reads.Calls {
	c := reads.Calls{Database: reader{s}}
	if s != nil {
		c.Now = s.dialect.Now
	}
	return c
}

// reader runs the statements of package reads one after the other, each in its own snapshot.
type reader struct{ s *Store }

func (r reader) Ready(ctx context.Context, op string) error { return r.s.wrap(op, r.s.ready(ctx)) }

func (r reader) Failed(op string, err error) error { return r.s.wrap(op, err) }

func (r reader) Read(ctx context.Context, all ...reads.Statement) error {
	for _, st := range all {
		if st.Begin != nil {
			st.Begin()
		}
		each := func(rows *sql.Rows) error { return st.Row(rows.Scan) }
		if err := r.s.engine.Read(ctx, st.Name, each, encoded(st.Args)...); err != nil {
			return err
		}
	}
	return nil
}

// encoded turns arguments into parameters of statements: times into microseconds, lists into JSON.
func encoded(args []any) []any {
	all := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case time.Time:
			all[i] = a.UnixMicro()
		case *time.Time:
			if a != nil {
				all[i] = a.UnixMicro()
			}
		case []string:
			all[i] = jsonList(a)
		case []int64:
			all[i] = jsonIDs(a)
		default:
			all[i] = a
		}
	}
	return all
}
