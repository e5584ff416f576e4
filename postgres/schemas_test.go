package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// schemas has the schemas of a suite, all in one database. Making one costs the server more than
// most tests do, so a test gets one that another has used, emptied. A schema is not used again if
// its test has changed more than rows, or has left many rows.
type schemas struct {
	server string
	name   string // the name of a schema begins with it
	admin  *pgxpool.Pool

	mu   sync.Mutex
	made int
	free []madeSchema
}

type madeSchema struct{ name, shape string }

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
	var taken madeSchema
	if n := len(s.free); n > 0 {
		taken, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.made++
		taken.name = fmt.Sprintf("%s_%d", s.name, s.made)
		if err := postgres.Migrate(t.Context(), s.server, postgres.Options{Schema: taken.name}); err != nil {
			t.Fatal(err)
		}
		taken.shape, _ = s.look(t, taken.name)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if shape, large := s.look(t, taken.name); shape == taken.shape && !large {
			s.empty(t, taken.name)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.free = append(s.free, taken)
		}
	})
	return taken.name
}

// look describes all of a schema but the rows of its tables, by which transactions have written
// it in the server's catalogs, and tells whether a table has become large.
func (s *schemas) look(t testing.TB, schema string) (shape string, large bool) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := s.admin.QueryRow(ctx, `
		with n as materialized (select oid, xmin from pg_namespace where nspname = $1),
		c as materialized (select c.oid, c.xmin, c.relkind from pg_class c join n on c.relnamespace = n.oid),
		rows as (
			select 'n', oid, xmin from n
			union all select 'c', oid, xmin from c
			union all select 'a', a.attrelid, a.xmin from pg_attribute a join c on a.attrelid = c.oid
			union all select 'd', d.oid, d.xmin from pg_attrdef d join c on d.adrelid = c.oid
			union all select 'i', i.indexrelid, i.xmin from pg_index i join c on i.indrelid = c.oid
			union all select 'g', g.oid, g.xmin from pg_trigger g join c on g.tgrelid = c.oid
			union all select 'k', k.oid, k.xmin from pg_constraint k join n on k.connamespace = n.oid
			union all select 'p', p.oid, p.xmin from pg_proc p join n on p.pronamespace = n.oid
			union all select 't', t.oid, t.xmin from pg_type t join n on t.typnamespace = n.oid
		)
		select
			(select concat(count(*), ' ', sum(hashtextextended(concat_ws(' ', r), 0)::numeric)) from rows r),
			exists (select from c where relkind in ('r', 'i') and pg_relation_size(c.oid) > 200000)`, schema).Scan(&shape, &large)
	if err != nil {
		t.Fatal(err)
	}
	var versions string
	err = s.admin.QueryRow(ctx, "select string_agg(concat_ws(' ', version, compatible_with), ',' order by version) from "+schema+".migration").Scan(&versions)
	if err != nil {
		t.Fatal(err)
	}
	return shape + " " + versions, large
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
