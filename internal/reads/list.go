package reads

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// List returns a page of jobs, newest first.
func (c Calls) List(ctx context.Context, f admin.Filter) (page admin.Page, err error) {
	if err := c.Ready(ctx, "list"); err != nil {
		return page, err
	}
	if err := checks.Filter(&f); err != nil {
		return page, err
	}
	if f.UniqueKey != "" {
		if page.Jobs, err = c.holder(ctx, f.Queue, f.UniqueKey); err != nil {
			return admin.Page{}, err
		}
		return page, nil
	}
	after, err := readCursor(f)
	if err != nil {
		return page, err
	}
	var last []*dibs.RawJob // holds one element if the statement stopped early: the place up to which it has looked
	err = c.Read(ctx, c.listed(f, after, &page.Jobs, &last))
	if err != nil {
		return admin.Page{}, c.Failed("list", err)
	}
	slices.SortFunc(page.Jobs, newestFirst)
	if len(page.Jobs) > f.Limit {
		page.Jobs = page.Jobs[:f.Limit]
		page.Next = cursorOf(f, page.Jobs[f.Limit-1]).String()
	} else if len(last) > 0 {
		if f.State.Final() {
			last[0].ID++ // so that the next page begins with this job
		}
		page.Next = cursorOf(f, last[0]).String()
	}
	return page, nil
}

// listed is the statement of a list. It returns one job more than a page holds if there is another page.
func (c Calls) listed(f admin.Filter, after cursor, to, last *[]*dibs.RawJob) Statement {
	look, _ := checks.Looked(f)
	switch {
	case f.State.Final():
		if b := f.FinishedBefore; !b.IsZero() && (after.at == nil || b.Before(*after.at)) {
			after = cursor{at: &b, id: math.MinInt64}
		}
		return c.jobs(to, last, "list_finished", f.Queue, f.Kind, f.Group, string(f.State), after.at, after.id, f.Limit+1, look, f.Worker, f.Error, f.Payload, f.FinishedSince)
	case f.State == dibs.Running:
		return c.jobs(to, last, "list_running", f.Queue, f.Kind, f.Group, after.id, f.Limit+1, look, f.Worker, f.Error, f.Payload)
	}
	return c.jobs(to, last, "list_live", f.Queue, f.Kind, f.Group, string(f.State), after.id, f.Limit+1, look, f.Worker, f.Error, f.Payload, f.Scheduled)
}

// newestFirst is the order of lists. Jobs that have not ended have no time.
func newestFirst(a, b *dibs.RawJob) int {
	return cmp.Or(b.FinishedAt.Compare(a.FinishedAt), cmp.Compare(b.ID, a.ID))
}

// cursor is the place of a page's last job: its id, and in lists of ended jobs the time of its end before that.
type cursor struct {
	at *time.Time
	id int64
}

func cursorOf(f admin.Filter, j *dibs.RawJob) cursor {
	if f.State.Final() {
		return cursor{&j.FinishedAt, j.ID}
	}
	return cursor{id: j.ID}
}

func (c cursor) String() string {
	if c.at == nil {
		return strconv.FormatInt(c.id, 10)
	}
	return fmt.Sprintf("%d.%d", c.at.UnixMicro(), c.id)
}

func readCursor(f admin.Filter) (c cursor, err error) {
	if f.After == "" {
		return cursor{id: math.MaxInt64}, nil
	}
	at, id, timed := strings.Cut(f.After, ".")
	if !timed {
		id = at
	} else if us, e := strconv.ParseInt(at, 10, 64); e == nil {
		t := checks.Time(time.UnixMicro(us)) // a time that no job can have makes another text, which is refused below
		c.at = &t
	}
	c.id, err = strconv.ParseInt(id, 10, 64)
	if err != nil || timed != f.State.Final() || c.String() != f.After {
		return c, &dibs.InvalidError{Field: "after", Reason: "is not the Next of a page of this list"}
	}
	return c, nil
}
