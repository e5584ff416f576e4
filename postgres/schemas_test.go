package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs/internal/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// schemas has the schemas of a suite, all in one database. Making one costs the server more than
// most tests do, so a test gets one that another has used, emptied. A schema is not used again if
// its test has changed more than rows, or has left many rows.
type schemas struct {
	server string
	name   string // the name of a schema begins with it
	admin  *pgxpool.Pool

	mu    sync.Mutex
	made  int
	free  []string
	shape string // what look says of a new schema
}

func newSchemas(t *testing.T, name string) *schemas {
	s := &schemas{server: pgtest.URL(t), name: name}
	var err error
	if s.admin, err = pgxpool.New(t.Context(), s.server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.admin.Close)
	return s
}

// take is a schema of a test, new or as good as new. It is emptied when the stores and
// connections that the test opens from here on are closed.
func (s *schemas) take(t testing.TB) (schema string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		schema, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.made++
		schema = fmt.Sprintf("%s_%d", s.name, s.made)
		if err := postgres.Migrate(t.Context(), s.server, postgres.Options{Schema: schema}); err != nil {
			t.Fatal(err)
		}
		if s.shape == "" {
			s.shape = s.look(t, schema)
		}
	}
	t.Cleanup(func() {
		if !t.Failed() && s.look(t, schema) == s.shape {
			s.empty(t, schema)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.free = append(s.free, schema)
		}
	})
	return schema
}

// look describes all of a schema but the rows of its tables, and whether one has become large.
func (s *schemas) look(t testing.TB, schema string) (shape string) {
	t.Helper()
	err := s.admin.QueryRow(context.WithoutCancel(t.Context()), `
		select md5(replace(concat_ws('|',
			(select string_agg(concat_ws(' ', relname, relkind, relacl, reloptions, relowner, relhastriggers, pg_relation_size(c.oid) > 200000), ',' order by relname)
				from pg_class c where relnamespace = n.oid),
			(select string_agg(concat_ws(' ', c.relname, attname, atttypid::regtype, attnotnull, attacl, attoptions, attstattarget, pg_get_expr(adbin, adrelid)), ',' order by c.relname, attnum)
				from pg_class c join pg_attribute a on a.attrelid = c.oid left join pg_attrdef on adrelid = c.oid and adnum = attnum where relnamespace = n.oid and relkind in ('r', 'c')),
			(select string_agg(concat_ws(' ', conname, contype, convalidated, pg_get_constraintdef(oid)), ',' order by conname) from pg_constraint c where connamespace = n.oid),
			(select string_agg(concat_ws(' ', oid::regprocedure, prosrc, proacl, proconfig, prosecdef, proowner), ',' order by oid::regprocedure::text) from pg_proc where pronamespace = n.oid),
			(select string_agg(concat_ws(' ', typname, typtype), ',' order by typname) from pg_type where typnamespace = n.oid),
			nspacl, nspowner, (select string_agg(concat_ws(' ', version, compatible_with), ',' order by version) from `+schema+`.migration)), $1, 'schema'))
		from pg_namespace n where nspname = $1`, schema).Scan(&shape)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func (s *schemas) empty(t testing.TB, schema string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var deletions string
	err := s.admin.QueryRow(ctx, `
		select string_agg(format('delete from %s;', oid::regclass), ' ')
		from pg_class where relnamespace = $1::regnamespace and relkind = 'r' and relname <> 'migration'`, schema).Scan(&deletions)
	if err != nil {
		t.Fatal(err)
	}
	const restart = "select setval(seqrelid, seqstart, false) from pg_sequence join pg_class c on c.oid = seqrelid where relnamespace = '%s'::regnamespace"
	if _, err := s.admin.Exec(ctx, deletions+fmt.Sprintf(restart, schema)); err != nil {
		t.Fatal(err)
	}
}
