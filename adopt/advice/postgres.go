package advice

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// postgres implements questions for PostgreSQL.
type postgres struct{}

// claim makes a claim and adds up the rows that it reads. Then it asks for the plan of a claim from a large table: without
// scans of the whole table and without sorting, if an index allows that.
func (postgres) claim(ctx context.Context, q adopted.Querier, p *adopted.Plan) (claimRun, error) {
	st, chooses := p.Do.Claim, "CTE picked"
	if p.Do.Turn != nil { // the statement turn.sql finds the rows, not claim.sql
		st, chooses = p.Do.Turn, "CTE seen"
	}
	var plans []struct{ Plan node }
	explain := func(options string) error {
		text, err := adopted.FirstOf(adopted.QueryAll(ctx, q, "explain (format json, costs off"+options+") "+st.Text, st.Args(p.OneClaim())...))
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text[0]), &plans)
	}
	if err := explain(", analyze, timing off, summary off"); err != nil {
		return claimRun{}, err
	}
	run := claimRun{rows: int64(plans[0].Plan.rowsRead())}
	for _, name := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
		if _, err := q.ExecContext(ctx, "set local "+name+" = off"); err != nil {
			return run, err
		}
	}
	plans = nil
	if err := explain(""); err != nil {
		return run, err
	}
	scans := &scans{presorted: max(len(p.Mapping.Order), 1), partial: map[string]bool{}}
	for _, x := range p.On.Indexes {
		scans.partial[x.Name] = x.Where != ""
	}
	if choice := plans[0].Plan.subplan(chooses); choice != nil {
		scans.follow(*choice)
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

// node is a step of a query plan of PostgreSQL, with the fields that are read here.
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

// rowsRead counts the rows that the scans of this node and its children read.
func (n node) rowsRead() float64 {
	sum := 0.0
	switch n.Type {
	case "Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan":
		sum = n.Loops * (n.Rows + n.Removed + n.Recheck)
	}
	for _, child := range n.Plans {
		sum += child.rowsRead()
	}
	return sum
}

// subplan finds a subplan by its name.
func (n node) subplan(name string) *node {
	if n.Subplan == name {
		return &n
	}
	for _, child := range n.Plans {
		if found := child.subplan(name); found != nil {
			return found
		}
	}
	return nil
}

// scans collects how a plan reads the adopted table.
type scans struct {
	names     []string        // indexes that the plan scans
	presorted int             // number of columns of the order by which an index must sort
	partial   map[string]bool // whether each index of the table is partial
	bad       bool            // the plan sorts, or reads more than the rows that can be claimed
}

// follow collects the scans below a node. A sort above them makes their order useless.
func (s *scans) follow(n node) {
	switch {
	case n.Type == "Sort", n.Type == "Incremental Sort" && len(n.Presorted) < s.presorted:
		s.bad = s.bad || n.readsTable("t")
	case n.Type == "Seq Scan" && n.scansTable("t"):
		s.bad = true
	case (n.Type == "Index Scan" || n.Type == "Index Only Scan") && n.scansTable("t"):
		s.names = append(s.names, n.Index)
		s.bad = s.bad || n.Cond == "" && !s.partialLike(n.Index)
	}
	for _, child := range n.Plans {
		s.follow(child)
	}
}

// partialLike reports whether an index is partial. An index of a partition is not known here:
// it counts as partial if the table has any partial index.
func (s *scans) partialLike(name string) bool {
	partial, own := s.partial[name]
	return partial || !own && slices.Contains(slices.Collect(maps.Values(s.partial)), true)
}

// scansTable reports whether a node scans the table with this alias, or one of its partitions.
func (n node) scansTable(alias string) bool {
	return n.Alias == alias || strings.HasPrefix(n.Alias, alias+"_")
}

func (n node) readsTable(alias string) bool {
	return n.scansTable(alias) || slices.ContainsFunc(n.Plans, func(child node) bool { return child.readsTable(alias) })
}

// postgresLocks lists the strongest lock of this transaction on each table. Row locks are not in pg_locks.
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
	"ExclusiveLock":    "only one claim at a time counts the running rows; other claims do not wait: they skip the groups of these rows, or, in a queue with a limit, try again later",
}

func (postgres) locks(ctx context.Context, q adopted.Querier, on *adopted.Table, n int) ([]string, error) {
	rows, err := adopted.QueryAll(ctx, q, postgresLocks)
	var all []string
	for _, r := range rows {
		means := lockMeans[r[1]]
		if means == "" {
			means = "comes from creating the side table, which was missing"
		}
		all = append(all, fmt.Sprintf("%s, %s: %s", r[0], r[1], means))
	}
	if n > 0 {
		all = append(all, fmt.Sprintf("%d rows of %s, FOR UPDATE: other claims skip them; other programs that change them wait", n, on.Name))
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
