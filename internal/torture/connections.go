package torture

import (
	"context"
	"database/sql"
	"fmt"
)

// What a process needs of the server's connections, besides those of its store's pool.
const (
	besidePool = 3  // the store's upkeep and its wake-ups
	ofSQL      = 2  // for database/sql
	ofOperator = 16 // for the torture itself and for what it does not know
	leastPool  = 2
	mostPool   = 8
)

// ConnectionsError: the server does not have as many connections as the workers need.
type ConnectionsError struct {
	Workers, Need, Free, Most int // Most is how many workers it would be enough for
}

func (e *ConnectionsError) Error() string {
	return fmt.Sprintf("%d workers need about %d connections, and the PostgreSQL server has %d free (see its max_connections)", e.Workers, e.Need, e.Free)
}

// poolSize is how many connections the store of each process may use, of those that the
// server has free.
func (r *run) poolSize(ctx context.Context) (int, error) {
	if r.onSQLite() {
		return 0, nil
	}
	var free int
	err := r.withSQL(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- (select count(*)::int from pg_stat_activity where backend_type = 'client backend')`).Scan(&free)
	})
	if err != nil {
		return 0, err
	}
	const each = besidePool + ofSQL
	processes := r.Workers + producers
	if need := processes*(each+leastPool) + ofOperator; need > free {
		return 0, &ConnectionsError{r.Workers, need, free, max(0, (free-ofOperator)/(each+leastPool)-producers)}
	}
	return min((free-ofOperator)/processes-each, mostPool), nil
}
