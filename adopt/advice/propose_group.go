package advice

import (
	"context"
	"slices"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// groups proposes the column of the groups, unless rows with the same value in it run together already.
func (p *proposer) groups(ctx context.Context) {
	if p.group == nil {
		return
	}
	for _, x := range p.table.Indexes {
		if x.Unique && x.Where != "" && slices.Equal(x.Columns, mapping.Columns{p.group.Name}) {
			p.why("group", "the unique index %s lets one row of each %s run at a time", x.Name, p.group.Name)
		}
	}
	busy := p.busyGroups(ctx)
	if len(busy) > 0 && adopted.Atoi(busy[0][1]) > 1 {
		p.unsure("group", "none is proposed: %s rows with the %s %.40q are in progress together, so rows of the same %[2]s need not wait for each other", busy[0][1], p.group.Name, busy[0][0])
		return
	}
	p.m.Group.Column = p.group.Name
	p.unsure("group", "only its name says that rows of the same %s must not run together; remove it if they may", p.group.Name)
	if len(busy) > 0 {
		p.unsure("group", "the other rows of %d values of %s wait until a row that is in progress has ended, such as those of %.40q", len(busy), p.group.Name, busy[0][0])
	}
}

// busyGroups lists the groups of rows that are in progress, with their numbers, the largest first.
func (p *proposer) busyGroups(ctx context.Context) [][]string {
	if p.m.Available == "" || p.m.Unfinished == "" {
		return nil
	}
	return p.look(ctx, "select %s, count(*) from (select %s from %s t where %[2]s is not null and (%[4]s) and not (%[5]s) limit %[6]d) t group by 1 order by 2 desc, 1 limit 1000",
		p.dialect.AsText(p.group.SQL()), p.group.SQL(), p.table.Quoted(), p.m.Unfinished, p.m.Available, proposeRows)
}
