package torture

import (
	"context"
	"database/sql"
	"fmt"
)

const (
	storeConns    = 3  // connections of each store outside of its pool, for upkeep and wake-ups
	sqlConns      = 2  // connections of each process for database/sql
	operatorConns = 16 // connections for the torture itself and for other programs
	minPool       = 2  // the fewest connections in a store's pool
	maxPool       = 8  // the most connections in a store's pool
)

// ConnectionsError says that the server has fewer free connections than the workers need.
type ConnectionsError struct {
	Workers, Need, Free, Most int // Most is how many workers the free connections suffice for
}

func (e *ConnectionsError) Error() string {
	return fmt.Sprintf("%d workers need about %d connections, and the server has %d free (see its max_connections)", e.Workers, e.Need, e.Free)
}

// poolSize divides the server's free connections: it returns how many the pool of each
// process' store may use.
func (r *run) poolSize(ctx context.Context) (int, error) {
	kind := r.kind()
	if kind.free == "" {
		return 0, nil
	}
	var free int
	err := r.withSQL(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, kind.free).Scan(&free)
	})
	if err != nil {
		return 0, err
	}
	const each = storeConns + sqlConns
	processes := r.Workers + r.plan.producers
	if need := processes*(each+minPool) + operatorConns; need > free {
		return 0, &ConnectionsError{r.Workers, need, free, max(0, (free-operatorConns)/(each+minPool)-r.plan.producers)}
	}
	return min((free-operatorConns)/processes-each, maxPool), nil
}
