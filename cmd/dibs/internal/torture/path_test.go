package torture

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// The torture's own statements on the copy of an adopted table call no objects that somebody
// has planted in a schema of the search_path.
func TestNothingPlantedIsCalledOnACopy(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	p := pgtest.Plant(t, address)
	config.RuntimeParams["search_path"] = "planted, pg_catalog, public"
	sent := &sentTexts{}
	config.Tracer = sent
	db := stdlib.OpenDB(*config)
	defer db.Close()
	copies := map[string]mapping.Mapping{
		"id uuid default gen_random_uuid() primary key": {ID: mapping.Columns{"id"}},
		"id varchar, part int, primary key (id, part)":  {ID: mapping.Columns{"id", "part"}, Order: mapping.Columns{"part desc"}},
	}
	for _, plant := range []bool{true, false} {
		for columns, m := range copies {
			sent.texts = nil
			disturbCopy(t, db, columns, m)
			if !plant {
				continue
			}
			for _, text := range sent.texts {
				if looksUp.MatchString(text) {
					p.For(text)
				}
			}
		}
	}
	if n := p.Hits(); n > 0 {
		t.Errorf("%d calls of planted objects", n)
	}
	if made := p.Dependents(); len(made) > 0 {
		t.Errorf("these objects depend on planted ones: %q", made)
	}
}

// looksUp matches the statements in which a planted object could replace one of the system's.
var looksUp = regexp.MustCompile(`^(select|insert|update|delete) .*"copy"`)

// disturbCopy makes the torture run all of its own statements on a copy.
func disturbCopy(t *testing.T, db *sql.DB, columns string, m mapping.Mapping) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	m.Table, m.Unfinished, m.Available = "copy.job", "done is not true", "mark is null"
	m.Completed.Set = mapping.Set{"done": true, "at": "$now", "note": "it's"}
	a := &Adopted{M: m, SQL: db, Columns: append([]string{"done", "mark", "at", "note"}, m.ID...)}
	must(a.exec(ctx, `drop schema if exists copy cascade`, `create schema copy`,
		`create table copy.job (done bool, mark int, at timestamptz, note varchar, `+columns+`)`,
		`insert into copy.job (`+quotedAll(m.ID, "")+`) select `+map[int]string{1: "gen_random_uuid()", 2: "'a', 1"}[len(m.ID)]))
	must(a.Prepare(ctx, "copy"))
	_, err := a.queryNames(ctx, "select "+a.nameSQL()+" from "+a.tableSQL()+" t where "+a.readyCondition()+" order by "+a.orderBy())
	must(err)
	must(a.exec(ctx, "update "+a.tableSQL()+" set done = true"))
	must(a.keepCopies(ctx))
	rng := rand.New(rand.NewPCG(1, 2))
	rec, err := history.OpenIn(t.TempDir(), "faults")
	must(err)
	o := &others{Adopted: a, rng: rng, rec: rec, rowID: func(string) (int64, error) { return 1, nil }}
	must(o.learnTable(ctx))
	ended := 0
	for range 20 {
		must(o.insert(ctx, rng))
		n, err := o.meddle(ctx, rng)
		must(err)
		ended += n
	}
	must(rec.Close())
	if counted := a.ended(ctx); ended == 0 || counted != int64(ended) {
		t.Errorf("ended %d rows, and the triggers saw %d", ended, counted)
	}
}

// sentTexts records the statements that were sent.
type sentTexts struct{ texts []string }

func (s *sentTexts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.texts = append(s.texts, d.SQL)
	return ctx
}

func (s *sentTexts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
