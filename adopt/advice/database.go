package advice

import (
	"context"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// database adds to a dialect what only the advice needs to know of a database.
type database struct {
	habits
	questions
}

// habits are differences between databases that texts and flags describe.
type habits struct {
	nullsFirst   bool   // an ascending order puts nulls first
	ownIndexes   bool   // create index names the schema with the index, not with the table
	pageRoom     string // statement, with %s for the table, that lets rows be updated in place; empty: there is none
	wholeIndexes bool   // an index has all rows of its table
	reserved     string // further names that stand for a column only in quotes, between blanks
	slowJournal  string // query for a journal mode in which readers and writers wait for each other; empty: they never do
}

// questions are what each database answers by code of its own.
type questions interface {
	// claim reports how the database runs a claim of one row. It may make such a claim and change settings of the
	// transaction, so the caller undoes it, or asks nothing after it.
	claim(ctx context.Context, q adopted.Querier, p *adopted.Plan) (claimRun, error)
	// locks describes each lock that the transaction of a claim of n rows holds.
	locks(ctx context.Context, q adopted.Querier, on *adopted.Table, n int) ([]string, error)
	// allowed returns the values that types and check constraints list, by column.
	allowed(ctx context.Context, q adopted.Querier, on *adopted.Table) (map[string][]string, error)
	// timesOf guesses the format of a column's times from its default and a value.
	timesOf(c adopted.Column, sample string) (f mapping.TimeFormat, sure bool)
	// odd is a condition that is true for a time that is not written in the format; empty: every time is written in it.
	odd(c adopted.Column, f mapping.TimeFormat, expr string) string
}

// claimRun is how a database runs a claim of one row.
type claimRun struct {
	rows   int64  // number of rows that the claim reads; -1: the database does not count them
	access string // how the claim finds rows, in words; empty if they are counted
	index  string // name of the index that gives unfinished rows in the order of claims, sorted except by id; empty: there is none
}

// databases is keyed by the title of the dialect.
var databases = map[string]database{
	adopted.Postgres.Title: {habits{pageRoom: "alter table %s set (fillfactor = 50)"}, postgres{}},
	adopted.MariaDB.Title:  {habits{nullsFirst: true, wholeIndexes: true, reserved: " lock key keys index rank row rows groups condition read write range interval option procedure release repeat trigger usage using "}, mariadb{}},
	adopted.SQLite.Title:   {habits{nullsFirst: true, ownIndexes: true, slowJournal: "select journal_mode from pragma_journal_mode where journal_mode not in ('wal', 'memory')"}, sqlite{}},
}

// numberTimes guesses the format of a number that is a time since 1973.
func numberTimes(sample string) (mapping.TimeFormat, bool) {
	switch n := adopted.Atoi(sample); {
	case n > 1e11:
		return mapping.TimesUnixMS, true
	case n > 1e8:
		return mapping.TimesUnix, true
	}
	return "", false
}

// oddNumber is a condition that finds milliseconds in a column of seconds, and the reverse.
func oddNumber(f mapping.TimeFormat, expr string) string {
	if f == mapping.TimesUnixMS {
		return "(" + expr + " >= 1 and " + expr + " <= 100000000000)"
	}
	return expr + " > 100000000000"
}
