package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// cost measures what claims cost now, and says whether an index helps them.
func (c *checker) cost(ctx context.Context, q querier) error {
	p := c.p
	a := p.advise()
	took, claimed, err := c.claims(ctx, q)
	if refusal(err) {
		return invalid("claim", "%s refuses a claim of a row: %v; see the table's constraints and triggers", p.d.title(), err)
	}
	if err != nil {
		return err
	}
	read, how, err := p.d.reads(ctx, q, c.s)
	if err != nil {
		return err
	}
	if claimed == 0 {
		c.add(SeverityNote, "available", "", "no row is available now, so that a claim could not be tried")
	}
	measured := fmt.Sprintf("a claim of one row takes %.2f ms", float64(took.Microseconds())/1000)
	switch {
	case read >= 0:
		measured += fmt.Sprintf(" and reads %d rows", read)
	case how != "":
		measured += ", and " + how
	}
	index, err := p.d.served(ctx, q, c.s)
	if err != nil {
		return err
	}
	switch {
	case index == "" && (read < 0 || read > fewRows):
		c.add(SeverityWarning, "index", a.claim, "no index gives rows in the order of claims: %s; it will be more as the table grows", measured)
	case index == "":
		c.add(SeverityWarning, "index", a.claim, "no index gives rows in the order of claims: now %s, but it will be more as the table grows", measured)
	case read > manyRows:
		c.add(SeverityWarning, "index", a.claim, "index %s does not keep claims from reading much: %s", index, measured)
	default:
		c.add(SeverityNote, "index", "", "index %s gives rows in the order of claims: %s", index, measured)
	}
	return nil
}

const fewRows, manyRows = 100, 1000

// claims claims one row a few times, and tells how long the quickest took.
func (c *checker) claims(ctx context.Context, q querier) (least time.Duration, claimed int, err error) {
	for range 3 {
		start := time.Now()
		jobs, err := c.s.tryClaim(ctx, q, 1)
		if err != nil {
			return 0, 0, err
		}
		if took := time.Since(start); least == 0 || took < least {
			least = took
		}
		claimed += len(jobs)
	}
	return least, claimed, nil
}

// outcomes claims a row for each outcome and ends it so. That shows what constraints
// refuse, and triggers that change what a claim wrote.
func (c *checker) outcomes(ctx context.Context, q querier) error {
	delay := time.Minute
	for _, o := range []struct {
		field string
		end   dibs.Outcome
	}{
		{"completed", dibs.Outcome{Ending: dibs.EndCompleted}},
		{"put_back", dibs.Outcome{Ending: dibs.EndRetry, Error: "an error", Delay: &delay}},
		{"dead", dibs.Outcome{Ending: dibs.EndDead, Error: "an error"}},
		{"cancelled", dibs.Outcome{Ending: dibs.EndCancelled}},
	} {
		if !c.has(o.field) {
			continue
		}
		jobs, err := c.s.tryClaim(ctx, q, 1)
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			c.add(SeverityNote, o.field, "", "was not tried: no more rows are available now")
			return nil
		}
		end := o.end
		end.ID, end.Token = jobs[0].ID, jobs[0].Token
		switch err = c.s.finish(ctx, []dibs.Outcome{end}, q, c.s.find, func(_ bool, f func(querier) error) error { return f(q) }); {
		case errors.Is(err, dibs.ErrLeaseLost):
			return invalid(o.field, "a row that was just claimed is not as the claim left it; a trigger of the table may have changed it")
		case refusal(err):
			return invalid(o.field, "%s refuses it: %v; see the table's constraints and triggers", c.p.d.title(), err)
		case err != nil:
			return err
		}
	}
	return nil
}

// has reports whether the mapping says what the outcome does to a row.
func (c *checker) has(outcome string) bool {
	switch p := c.p; outcome {
	case "dead":
		return p.Dead != nil || p.SideTable
	case "cancelled":
		return p.Cancelled != nil
	}
	return true
}

// refusal reports whether the database does not take the values of a row.
func refusal(err error) bool {
	var pg sqlState
	var lite resultCode
	switch {
	case errors.As(err, &pg) && len(pg.SQLState()) == 5:
		class := pg.SQLState()[:2]
		return class == "22" || class == "23" || class == "P0" // data, constraints, what a trigger raises
	case errors.As(err, &lite):
		return lite.Code()&0xff == 19
	}
	return false
}

// claimArgs are the values for a claim of one row.
func (s *Store) claimArgs() (map[string]any, error) {
	t, err := s.taking("dibs adopt check", 0)
	if err != nil {
		return nil, err
	}
	t.values["n"], t.values["look"], t.values["kinds"] = 1, looks(1)[0], nil
	t.values["missed"], t.values["turns"] = nil, 1
	return t.values, nil
}

// reads has PostgreSQL run a claim, and adds up the rows that it read.
func (postgresDialect) reads(ctx context.Context, q querier, s *Store) (int64, string, error) {
	values, err := s.claimArgs()
	if err != nil {
		return 0, "", err
	}
	st := s.do.claim
	if s.do.turn != nil { // which finds the rows
		st = s.do.turn
	}
	plan, err := queryAll(ctx, q, "explain (analyze, costs off, timing off, summary off, format json) "+st.text, st.args(values)...)
	if err != nil {
		return 0, "", err
	}
	return rowsRead(plan[0][0])
}

// reads has SQLite say how it finds rows; it does not count them.
func (sqliteDialect) reads(ctx context.Context, q querier, s *Store) (int64, string, error) {
	values, err := s.claimArgs()
	if err != nil {
		return 0, "", err
	}
	plan, err := queryAll(ctx, q, "explain query plan "+s.do.claim.text, s.do.claim.args(values)...)
	if err != nil {
		return -1, "", err
	}
	how, sorts := "", false
	for _, step := range plan {
		name, found := strings.CutPrefix(step[3], "SEARCH t USING ")
		switch {
		case found && how == "":
			_, name, _ = strings.Cut(name, "INDEX ")
			how = "finds rows by index " + strings.TrimSpace(strings.SplitN(name, "(", 2)[0])
			if name == "" || strings.HasPrefix(strings.TrimSpace(name), "(") {
				how = "finds rows by their ids"
			}
		case strings.HasPrefix(step[3], "SCAN t") && !strings.Contains(step[3], " USING "):
			how = "reads the whole table"
		case strings.HasPrefix(step[3], "SCAN t") && how == "":
			how = "reads rows in the order of an index"
		}
		sorts = sorts || strings.HasPrefix(step[3], "USE TEMP")
	}
	if sorts && how != "" {
		how += ", then sorts what it found"
	}
	return -1, how, nil
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

func rowsRead(text string) (int64, string, error) {
	var plans []struct{ Plan node }
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) == 0 {
		return -1, "", err
	}
	return int64(plans[0].Plan.read()), "", nil
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
