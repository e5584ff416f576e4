package mysql

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

func parseAddress(address string) (*driver.Config, error) {
	config, err := driver.ParseDSN(address)
	if err != nil {
		return nil, &dibs.InvalidError{Field: "address", Reason: "must be user:password@tcp(host:port)/database"}
	}
	if config.DBName == "" {
		return nil, &dibs.InvalidError{Field: "address", Reason: "names no database; give user:password@tcp(host:port)/database"}
	}
	return config, nil
}

// poolSize reads the parameter pool_max_conns of an address, which overrides MaxConns. The driver knows no such parameter.
func poolSize(config *driver.Config, size *int) error {
	given, ok := config.Params["pool_max_conns"]
	if !ok {
		return nil
	}
	delete(config.Params, "pool_max_conns")
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		return &dibs.InvalidError{Field: "pool_max_conns", Reason: fmt.Sprintf("must be 1 or more, got %q", given)}
	}
	*size = n
	return nil
}

// lockWait is how long a statement of the store waits for a lock, in seconds. Then the call is made again.
const lockWait = 5

// idleWithin is for how many seconds a transaction of the store may do nothing. Then the server ends its connection: the process
// stands still, perhaps as its machine does, and nobody gets what it has locked.
const idleWithin = 10

// sideConns is how many connections make rows beside transactions, or are looked at by callers' transactions, at once.
const sideConns = 8

// connect makes the pools. They connect when they are first used.
func (s *Store) connect(config *driver.Config, o *Options) error {
	hosts := Hosts(config.Addr)
	own := config.Clone()
	own.InterpolateParams, own.MultiStatements, own.ParseTime = true, true, false
	own.MaxAllowedPacket = 0         // each connection asks the server; a statement that is larger than that is sent in parts
	own.Logger = &driver.NopLogger{} // calls return the errors
	if own.Params == nil {
		own.Params = map[string]string{}
	}
	own.Params["sql_mode"] = "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'"
	own.Params["innodb_lock_wait_timeout"] = fmt.Sprint(lockWait)
	own.Params["tx_isolation"] = "'READ-COMMITTED'"
	own.Params["idle_transaction_timeout"] = cmp.Or(own.Params["idle_transaction_timeout"], fmt.Sprint(idleWithin))
	own.Params["group_concat_max_len"] = "67108864"
	own.Params["optimizer_switch"] = "'exists_to_in=off'" // else an exists reads a whole index of jobs where it could look up one
	if s.cluster {
		own.Params["wsrep_sync_wait"] = syncWait
	}
	side := own.Clone()
	side.Params["innodb_lock_wait_timeout"] = "0"
	callers := own.Clone()
	callers.MultiStatements = false
	delete(callers.Params, "sql_mode")
	delete(callers.Params, "innodb_lock_wait_timeout")
	delete(callers.Params, "idle_transaction_timeout")
	if len(hosts) > 1 {
		own.ReadTimeout, side.ReadTimeout = cmp.Or(own.ReadTimeout, frozenAfter), cmp.Or(side.ReadTimeout, frozenAfter)
	}
	most := cmp.Or(o.MaxConns, 20)
	s.nodes, s.waiting = nil, make(chan struct{}, most/4)
	to := anyNode{s, map[*node]sqldriver.Connector{}}
	for _, host := range hosts {
		n := &node{host: host}
		for _, p := range []struct {
			pool   **sql.DB
			config *driver.Config
			most   int
		}{{&n.pool, own, most}, {&n.side, side, sideConns}, {nil, callers, 0}} {
			p.config = p.config.Clone()
			p.config.Addr = host
			connector, err := driver.NewConnector(p.config)
			if err != nil {
				return &dibs.InvalidError{Field: "address", Reason: err.Error()}
			}
			if o.through != nil {
				connector = o.through(connector)
			}
			if p.pool == nil {
				to.connectors[n] = connector
				continue
			}
			*p.pool = sql.OpenDB(connector)
			(*p.pool).SetMaxOpenConns(p.most)
			(*p.pool).SetMaxIdleConns(max(p.most, 2))
		}
		n.dialect = s.dialectAt(n)
		s.nodes = append(s.nodes, n)
	}
	s.sql.Concurrent = s.nodes[0].dialect.Concurrent
	connector := to.connectors[s.nodes[0]]
	if len(hosts) > 1 {
		connector = to
	}
	s.callers = sql.OpenDB(connector)
	s.callers.SetMaxIdleConns(2)
	return nil
}

// dialectAt is the store's dialect on the connections of a node.
func (s *Store) dialectAt(n *node) *rowstore.Dialect {
	d := s.sql.Dialect
	d.Concurrent = &rowstore.Concurrent{
		Turn: func(tx *rowstore.Session, turn rowstore.Turn, queue string, shared bool) (bool, error) {
			return s.turn(n, tx, turn, queue, shared)
		},
		LockKeys: func(tx *rowstore.Session, keys []rowstore.UniqueKey, mayWait bool) (bool, error) {
			return s.lockKeys(n, tx, keys, mayWait)
		},
		Bar:       func(tx *rowstore.Session, queue string) error { return s.bar(n, tx, queue) },
		Certified: s.cluster, Counted: true, Inbox: true, Patience: 15 * time.Second, LookPart: 20,
	}
	return &d
}

// refused are servers that speak the protocol but take no row locks, and why.
var refused = map[string]string{
	"tidb": "TiDB reads SKIP LOCKED and locks nothing, so two workers would get the same job",
	"dolt": "Dolt reads FOR UPDATE SKIP LOCKED and locks nothing, so two workers would get the same job",
}

// server refuses servers on which the promises cannot be kept, and reads what the store needs to know of others. Of several it asks
// the first that answers.
func (s *Store) server(ctx context.Context) (err error) {
	for _, n := range s.order(s.own) {
		var comment string
		err = n.pool.QueryRowContext(ctx, "select @@version, @@version_comment, @@auto_increment_increment").Scan(&s.version, &comment, &s.idStep)
		if err == nil {
			return suitable(s.version, comment)
		}
		if ctx.Err() != nil || !s.lost(n, err) {
			return err
		}
	}
	return err
}

func suitable(version, comment string) error {
	for name, why := range refused {
		if strings.Contains(strings.ToLower(version+" "+comment), name) {
			return &dibs.InvalidError{Field: "address", Reason: "names a server on which dibs cannot keep its promises: " + why}
		}
	}
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	if err != nil || !strings.Contains(version, "MariaDB") || major < 10 || major == 10 && minor < 6 {
		return &dibs.InvalidError{Field: "address", Reason: fmt.Sprintf("names a server of version %s; dibs needs MariaDB 10.6 or later", version)}
	}
	return nil
}
