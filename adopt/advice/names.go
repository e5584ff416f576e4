package advice

import (
	"context"
	"database/sql"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// Find returns the table that a name means, as Mapping.Table wants it. The name may stand in
// double quotes, brackets or backticks. If no table has exactly this name, it may differ in
// case, or be that of a table in another schema. If several tables fit, or none,
// an InvalidError lists the candidates.
func Find(ctx context.Context, db *sql.DB, name string) (string, error) {
	_, on, err := tableNamed(ctx, db, name)
	if err != nil {
		return "", adopted.Classify("find the table", err)
	}
	return on.Called, nil
}

func tableNamed(ctx context.Context, db *sql.DB, name string) (d adopted.Dialect, on *adopted.Table, err error) {
	if d, err = adopted.DialectOf(ctx, db); err == nil {
		on, err = adopted.Find(ctx, db, d, name, true)
	}
	return d, on, err
}

// Tables lists the tables whose names begin with a prefix. Shell completion uses it.
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
