package advice

import (
	"context"
	"fmt"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// taken warns of rows that another program may have taken, and that would be claimed all the same: a column says since
// when, or by whom, a row is worked on, and no condition looks at it.
func (c *checker) taken(ctx context.Context) error {
	for _, col := range c.p.On.Columns {
		when := col.Kind == adopted.Instant || col.Kind == adopted.Stamp || col.Kind == adopted.Integer
		if !col.Null || c.p.looksAt(col) || !(when && isNamed(col, startedNames) || col.Kind == adopted.Text && isNamed(col, lockedByNames)) {
			continue
		}
		n, ok, err := c.count(ctx, "available", "select 1 from "+c.p.Table+" t where "+c.p.Waiting()+" and "+col.SQL()+" is not null")
		if err != nil {
			return err
		}
		if ok && n > 0 {
			c.add(SeverityWarning, "available", fmt.Sprintf("if another program sets %s when it takes a row, write in \"available\" that it is null, and name it in \"claim\"", col.Name),
				"no condition looks at %s, which is set in %s rows that would be claimed: another program may have taken them", col.Name, atMost(n))
		}
	}
	return nil
}

// looksAt reports whether a condition of the mapping may depend on a column.
func (p *subject) looksAt(col adopted.Column) bool {
	for _, d := range p.Conds {
		if d.Names(col) || d.WholeRow() || d.Has("select") {
			return true
		}
	}
	return false
}
