package advice

import (
	"context"
	"database/sql"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// Find returns the name, for Mapping.Table, of the one table that can be meant by a name. It
// understands names in double quotes, brackets or backticks. If no table has exactly the name,
// it takes one whose name differs in case alone, or one of another schema. Unless exactly one
// table can be meant, an InvalidError names those that can.
func Find(ctx context.Context, db *sql.DB, name string) (string, error) {
	d, err := adopted.DialectOf(ctx, db)
	if err != nil {
		return "", adopted.Classify("find the table", err)
	}
	on, err := adopted.Find(ctx, db, d, name, true)
	if err != nil {
		return "", adopted.Classify("find the table", err)
	}
	return on.Called, nil
}

// Tables lists the tables of the database that begin so, for the shell's completion.
func Tables(ctx context.Context, db *sql.DB, begin string) ([]string, error) {
	d, err := adopted.DialectOf(ctx, db)
	if err != nil {
		return nil, adopted.Classify("list tables", err)
	}
	rows, err := adopted.QueryAll(ctx, db, d.Tables)
	var names []string
	for _, r := range rows {
		if strings.HasPrefix(r[0], begin) {
			names = append(names, r[0])
		}
	}
	return names, adopted.Classify("list tables", err)
}
