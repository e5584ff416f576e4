package advice

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// postgres is what the advice asks of PostgreSQL.
type postgres struct{}

// claim has a claim made, and adds up the rows that it reads. Then it asks for the plan as it
// would be if the table were large.
func (postgres) claim(ctx context.Context, q adopted.Querier, p *adopted.Plan) (claimRun, error) {
	st, chooses := p.Do.Claim, "CTE picked"
	if p.Do.Turn != nil { // this statement finds the rows
		st, chooses = p.Do.Turn, "CTE seen"
	}
	var plans []struct{ Plan node }
	explain := func(how string) error {
		text, err := adopted.FirstOf(adopted.QueryAll(ctx, q, "explain (format json, costs off"+how+") "+st.Text, st.Args(p.OneClaim())...))
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text[0]), &plans)
	}
	if err := explain(", analyze, timing off, summary off"); err != nil {
		return claimRun{}, err
	}
	run := claimRun{rows: int64(plans[0].Plan.read())}
	settings := []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"}
	for _, name := range settings {
		if _, err := q.ExecContext(ctx, "set local "+name+" = off"); err != nil {
			return run, err
		}
	}
	plans = nil
	if err := explain(""); err != nil {
		return run, err
	}
	for _, name := range settings {
		if _, err := q.ExecContext(ctx, "set local "+name+" to default"); err != nil {
			return run, err
		}
	}
	scans := &scans{presorted: max(len(p.Mapping.Order), 1), partial: map[string]bool{}}
	for _, x := range p.On.Indexes {
		scans.partial[x.Name] = x.Where != ""
	}
	if part := plans[0].Plan.part(chooses); part != nil {
		scans.follow(*part)
	}
	if scans.bad || len(scans.names) == 0 {
		return run, nil
	}
	run.index = scans.names[0]
	if _, own := scans.partial[run.index]; !own && !p.On.Whole {
		run.index += " and those of other partitions"
	}
	return run, nil
}

// node is a part of PostgreSQL's plan, as far as it matters here.
type node struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`

	Alias     string
	Index     string   `json:"Index Name"`
	Cond      string   `json:"Index Cond"`
	Subplan   string   `json:"Subplan Name"`
	Presorted []string `json:"Presorted Key"`

	Plans []node
}

// read counts the rows that scans of tables read, of what is below, too.
func (n node) read() float64 {
	sum := 0.0
	switch n.Type {
	case "Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan":
		sum = n.Loops * (n.Rows + n.Removed + n.Recheck)
	}
	for _, below := range n.Plans {
		sum += below.read()
	}
	return sum
}

// part finds a part of the plan by its name.
func (n node) part(name string) *node {
	if n.Subplan == name {
		return &n
	}
	for _, below := range n.Plans {
		if found := below.part(name); found != nil {
			return found
		}
	}
	return nil
}

// scans are how a plan reads the adopted table.
type scans struct {
	names     []string // the indexes that are used
	presorted int      // how many columns of the order an index must give
	partial   map[string]bool
	bad       bool
}

// follow looks at a plan from the top: a sort of what the scans give makes them useless.
func (s *scans) follow(n node) {
	switch {
	case n.Type == "Sort", n.Type == "Incremental Sort" && len(n.Presorted) < s.presorted:
		s.bad = s.bad || n.reads("t")
	case n.Type == "Seq Scan" && n.of("t"):
		s.bad = true
	case (n.Type == "Index Scan" || n.Type == "Index Only Scan") && n.of("t"):
		s.names = append(s.names, n.Index)
		s.bad = s.bad || n.Cond == "" && !s.partialLike(n.Index)
	}
	for _, below := range n.Plans {
		s.follow(below)
	}
}

// partialLike reports whether an index is partial. Those of partitions are not among the table's own:
// they count as such if the table has any.
func (s *scans) partialLike(name string) bool {
	partial, own := s.partial[name]
	if own {
		return partial
	}
	for _, p := range s.partial {
		if p {
			return true
		}
	}
	return false
}

// of: it reports whether a scan reads the table of that alias, or a partition of it.
func (n node) of(alias string) bool { return n.Alias == alias || strings.HasPrefix(n.Alias, alias+"_") }

func (n node) reads(alias string) bool {
	return n.of(alias) || slices.ContainsFunc(n.Plans, func(below node) bool { return below.reads(alias) })
}

// What the transaction of this connection holds, apart from its rows: the strongest on each.
var postgresLocks = qualify.Text(`
select
    case when l.locktype = 'relation' then 'table ' || t.relname else l.locktype || ' lock' end,
    (array_agg(l.mode order by array_position(array['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock',
        'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], l.mode) desc))[1]
from pg_locks l
left join pg_index i on i.indexrelid = l.relation
left join pg_class t on t.oid = coalesce(i.indrelid, l.relation)
left join pg_namespace n on n.oid = t.relnamespace
where l.pid = pg_backend_pid() and l.granted and l.locktype in ('relation', 'advisory')
and not coalesce(n.nspname, '') in ('pg_catalog', 'pg_toast')
group by 1
order by 1`)

var lockMeans = map[string]string{
	"AccessShareLock":  "stops only DROP and ALTER TABLE",
	"RowShareLock":     "stops only DROP and ALTER TABLE",
	"RowExclusiveLock": "stops only DROP, ALTER TABLE and CREATE INDEX",
	"ExclusiveLock":    "other claims pass over the groups of these rows, or of a queue with a limit come back later, and do not wait: one at a time counts what runs",
}

func (postgres) locks(ctx context.Context, q adopted.Querier, on *adopted.Table, n int) ([]string, error) {
	rows, err := adopted.QueryAll(ctx, q, postgresLocks)
	var all []string
	for _, r := range rows {
		means := lockMeans[r[1]]
		if means == "" {
			means = "of making the side table, which was not there"
		}
		all = append(all, fmt.Sprintf("%s, %s: %s", r[0], r[1], means))
	}
	if n > 0 {
		all = append(all, fmt.Sprintf("%d rows of %s, FOR UPDATE: other claims pass over them; who changes them waits", n, on.Name))
	}
	return all, err
}

var postgresAllowed = qualify.Text(`
select a.attname, e.enumlabel
from pg_attribute a
join pg_enum e on e.enumtypid = a.atttypid
where a.attrelid = $1::bigint::oid
union all
select a.attname, m[1]
from pg_constraint k
join pg_attribute a on a.attrelid = k.conrelid and k.conkey = array[a.attnum]
cross join regexp_matches(pg_get_constraintdef(k.oid), '''([^'']+)''', 'g') m
where k.conrelid = $1::bigint::oid and k.contype = 'c'`)

func (postgres) allowed(ctx context.Context, q adopted.Querier, on *adopted.Table) (map[string][]string, error) {
	rows, err := adopted.QueryAll(ctx, q, postgresAllowed, on.ID)
	all := map[string][]string{}
	for _, r := range rows {
		all[r[0]] = append(all[r[0]], r[1])
	}
	return all, err
}

func (postgres) timesOf(c adopted.Column, sample string) (f mapping.TimeFormat, sure bool) {
	switch {
	case c.Kind == adopted.Integer:
		return numberTimes(sample)
	case strings.Contains(strings.ToLower(c.Def), "utc"):
		return mapping.TimesUTC, true
	}
	return mapping.TimesLocal, false
}

func (postgres) odd(c adopted.Column, f mapping.TimeFormat, expr string) string {
	if c.Kind == adopted.Integer {
		return oddNumber(f, expr)
	}
	return ""
}
