package advice

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// groups proposes the column of the groups, unless rows with the same value in it run together already.
func (p *proposer) groups(ctx context.Context, db *sql.DB) error {
	if p.group == nil {
		return nil
	}
	for _, x := range p.table.Indexes {
		if x.Unique && x.Where != "" && slices.Equal(x.Columns, mapping.Columns{p.group.Name}) {
			p.why("group", "the unique index %s lets one row of each %s run at a time", x.Name, p.group.Name)
		}
	}
	busy, err := p.busyGroups(ctx, db)
	if err != nil {
		return err
	}
	if len(busy) > 0 && adopted.Atoi(busy[0][1]) > 1 {
		p.unsure("group", "none is proposed: %s rows with the %s %.40q are in progress together, so rows of the same %[2]s need not wait for each other", busy[0][1], p.group.Name, busy[0][0])
		return nil
	}
	p.m.Group.Column = p.group.Name
	p.unsure("group", "only its name says that rows of the same %s must not run together; remove it if they may", p.group.Name)
	if len(busy) > 0 {
		p.unsure("group", "the other rows of %d values of %s wait until a row that is in progress has ended, such as those of %.40q", len(busy), p.group.Name, busy[0][0])
	}
	return nil
}

// busyGroups lists the groups of rows that are in progress, with their numbers, the largest first.
func (p *proposer) busyGroups(ctx context.Context, db *sql.DB) ([][]string, error) {
	if p.m.Available == "" || p.m.Unfinished == "" {
		return nil, nil
	}
	group := p.dialect.AsText(p.group.SQL())
	rows, err := p.dialect.Look(ctx, db, checkTime, fmt.Sprintf(
		"select %s, count(*) from (select %s from %s t where %s and (%s) and not (%s) limit %d) t group by 1 order by 2 desc, 1 limit 1000",
		group, p.group.SQL(), p.table.Quoted(), p.group.SQL()+" is not null", p.m.Unfinished, p.m.Available, proposeRows), nil)
	if adopted.TooLong(err) {
		return nil, nil
	}
	return rows, err
}
