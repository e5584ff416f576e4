package holdups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/words"
)

// lateAfter is how late a tick must be to be reported: programs look for ticks every two seconds.
const lateAfter = 10 * time.Second

// Late reports whether a schedule's next tick should have had its job by now.
func Late(s dibs.Schedule, now time.Time) bool {
	return !s.Next.IsZero() && now.Sub(s.Next) > lateAfter
}

// A Holder is a transaction that holds rows which workers pass over, so that nobody is seen to wait for it.
type Holder struct {
	Who       string // the transaction's process, what it holds and for how long, its program and state
	Statement string // its last statement, written by another program: it may hold secrets
	Next      string // SQL that ends the transaction, or shows more about it
}

// Holders is what a database says of transactions that hold rows.
type Holders []admin.Fact

// ReadHolders asks a database who holds rows, be it inside of another. Databases that cannot tell know nobody.
func ReadHolders(ctx context.Context, db any) (Holders, error) {
	for outer, is := db.(interface{ Unwrap() admin.Database }); is; outer, is = db.(interface{ Unwrap() admin.Database }) {
		db = outer.Unwrap()
	}
	teller, ok := db.(interface {
		Diagnose(ctx context.Context, parts ...string) (admin.Diagnosis, error)
	})
	if !ok {
		return nil, nil
	}
	r, err := teller.Diagnose(ctx, "rows", "locks of the file")
	return r.Facts, err
}

// Of finds the transaction that holds the row of a schedule, or else rows of one of the tables for longest, or the whole file.
func (list Holders) Of(schedule string, tables ...string) (h Holder, is bool) {
	var f admin.Fact
	for _, each := range list {
		switch {
		case each.Name == "schedule_lock" && schedule != "" && each.About == schedule:
			f = each
		case f.Name == "" && (each.Name == "row_lock" && slices.Contains(tables, each.About) || each.Name == "writer"):
			f = each
		}
	}
	if f.Name == "" {
		return h, false
	}
	if f.Name == "writer" {
		return Holder{Who: fmt.Sprintf("process %d (%s) holds the write lock of the file", f.ID, words.Clip(words.OneLine(f.About), 160)), Next: fmt.Sprintf("ps -fp %d", f.ID)}, true
	}
	holds, open := "has locked rows of the table "+f.About, ""
	if f.Name == "schedule_lock" {
		holds = "holds its row"
	}
	if f.Age > 0 {
		open = ", in a transaction that is open for " + words.Roughly(f.Age)
	}
	if f.ID == 0 {
		return Holder{Who: "a prepared transaction " + holds, Next: "select gid, prepared, owner from pg_prepared_xacts;"}, true
	}
	program, statement, _ := strings.Cut(f.Text, "\n")
	h.Who = fmt.Sprintf("process %d of the server %s%s; %s", f.ID, holds, open, words.Clip(words.OneLine(program), 160))
	h.Statement = words.Clip(words.OneLine(statement), 160)
	h.Next = fmt.Sprintf("select pg_terminate_backend(%d);", f.ID)
	return h, true
}
