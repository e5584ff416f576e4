package advice

import (
	"context"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// database is what the advice needs to know of a database beside its dialect.
type database struct {
	habits
	questions
}

// habits are what databases differ in that needs no code.
type habits struct {
	nullsFirst  bool   // nulls come first in an order that is not turned round
	ownIndexes  bool   // an index is made with its schema's name, on a table without it
	room        string // SQL, with a place for the table, that lets rows be changed in place; empty: they always are, or never
	journalMode string // query of how readers and writers wait for each other; empty: they do not
}

// questions are what takes code of its own for each database.
type questions interface {
	// claim tells how the database runs a claim of one row, and may make one for that.
	claim(ctx context.Context, q adopted.Querier, p *adopted.Plan) (claimRun, error)
	// locks tells in words what the transaction of a claim of n rows holds.
	locks(ctx context.Context, q adopted.Querier, on *adopted.Table, n int) ([]string, error)
	// allowed are values of columns, by types and checks.
	allowed(ctx context.Context, q adopted.Querier, on *adopted.Table) (map[string][]string, error)
	// timesOf tells how a column seems to hold times, from its default and a value.
	timesOf(c adopted.Column, sample string) (f mapping.TimeFormat, sure bool)
	// odd is true for times that are not as a clock of the format writes them; empty: there are none.
	odd(c adopted.Column, f mapping.TimeFormat, expr string) string
}

// claimRun is how a database runs a claim of one row.
type claimRun struct {
	rows  int64  // how many it reads; -1: the database does not count them
	how   string // how it finds them, in words, if they are not counted
	index string // gives rows in the order of claims: without reading those that have ended, and without sorting but for ids; empty: there is none
}

// databases are these by their dialects.
var databases = map[string]database{
	adopted.Postgres.Title: {habits{room: "alter table %s set (fillfactor = 50)"}, postgres{}},
	adopted.SQLite.Title:   {habits{nullsFirst: true, ownIndexes: true, journalMode: "select journal_mode from pragma_journal_mode"}, sqlite{}},
}

// numberTimes is the format of a number that is a time of our days.
func numberTimes(sample string) (mapping.TimeFormat, bool) {
	switch n := adopted.Atoi(sample); {
	case n > 1e11:
		return mapping.TimesUnixMS, true
	case n > 1e8:
		return mapping.TimesUnix, true
	}
	return "", false
}

// oddNumber is true for milliseconds that should be seconds, and the other way round.
func oddNumber(f mapping.TimeFormat, expr string) string {
	if f == mapping.TimesUnixMS {
		return "(" + expr + " >= 1 and " + expr + " <= 100000000000)"
	}
	return expr + " > 100000000000"
}
