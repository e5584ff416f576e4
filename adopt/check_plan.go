package adopt

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// served asks the planner for the claim's plan as it would be if the table were large.
func (postgresDialect) served(ctx context.Context, q querier, s *Store) (name string, err error) {
	values, err := s.claimArgs()
	if err != nil {
		return "", err
	}
	st, chooses := s.do.claim, "CTE picked"
	if s.do.turn != nil { // which finds the rows
		st, chooses = s.do.turn, "CTE seen"
	}
	settings := []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"}
	for _, name := range settings {
		if _, err := q.ExecContext(ctx, "set local "+name+" = off"); err != nil {
			return "", err
		}
	}
	rows, err := queryAll(ctx, q, "explain (costs off, format json) "+st.text, st.args(values)...)
	if err != nil {
		return "", err
	}
	for _, name := range settings {
		if _, err := q.ExecContext(ctx, "set local "+name+" to default"); err != nil {
			return "", err
		}
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal([]byte(rows[0][0]), &plans); err != nil || len(plans) == 0 {
		return "", err
	}
	scans := &scans{presorted: max(len(s.plan.Mapping.Order), 1), partial: map[string]bool{}}
	for _, x := range s.plan.on.indexes {
		scans.partial[x.name] = x.where != ""
	}
	if part := plans[0].Plan.part(chooses); part != nil {
		scans.follow(*part)
	}
	if scans.bad || len(scans.names) == 0 {
		return "", nil
	}
	if !s.plan.on.whole && !slices.ContainsFunc(s.plan.on.indexes, func(x index) bool { return x.name == scans.names[0] }) {
		return scans.names[0] + " and those of other partitions", nil
	}
	return scans.names[0], nil
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
	names     []string // of the indexes
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

// of reports whether a scan reads the table of that alias, or a partition of it.
func (n node) of(alias string) bool { return n.Alias == alias || strings.HasPrefix(n.Alias, alias+"_") }

func (n node) reads(alias string) bool {
	return n.of(alias) || slices.ContainsFunc(n.Plans, func(below node) bool { return below.reads(alias) })
}

var (
	searches  = regexp.MustCompile(`^SEARCH t USING (?:COVERING )?INDEX (\S+) \(`)
	scansWith = regexp.MustCompile(`^SCAN t USING (?:COVERING )?INDEX (\S+)`)
	lastTerms = regexp.MustCompile(`^USE TEMP B-TREE FOR LAST (?:TERM|(\d+) TERMS) OF ORDER BY`)
)

func (sqliteDialect) served(ctx context.Context, q querier, s *Store) (name string, err error) {
	values, err := s.claimArgs()
	if err != nil {
		return "", err
	}
	steps, err := queryAll(ctx, q, "explain query plan "+s.do.claim.text, s.do.claim.args(values)...)
	if err != nil {
		return "", err
	}
	within := map[string]bool{}
	if s.plan.Mapping.Group.Column == "" {
		within["0"] = true
	}
	ids := len(s.plan.order) - max(len(s.plan.Mapping.Order), 1)
	for _, step := range steps { // its number, that of the step that it is part of, nothing, and the text
		if step[3] == "MATERIALIZE seen" {
			within[step[0]] = true
		}
		if !within[step[1]] {
			continue
		}
		if m := searches.FindStringSubmatch(step[3]); m != nil {
			name = m[1]
		}
		if m := scansWith.FindStringSubmatch(step[3]); m != nil && slices.ContainsFunc(s.plan.on.indexes, func(x index) bool { return x.name == m[1] && x.where != "" }) {
			name = m[1]
		}
		if strings.HasPrefix(step[3], "USE TEMP B-TREE FOR ") && strings.HasSuffix(step[3], "ORDER BY") {
			last := lastTerms.FindStringSubmatch(step[3])
			if last == nil || max(atoi(last[1]), 1) > int64(ids) {
				return "", nil
			}
		}
	}
	return name, nil
}
