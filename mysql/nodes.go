package mysql

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// node is the server, or one server of a cluster.
type node struct {
	host       string
	name       atomic.Pointer[string] // in the cluster
	pool, side *sql.DB
	dialect    *rowstore.Dialect // whose turns and keys are made by this node's side
	away       atomic.Bool       // calls go to other nodes until watch finds that this one is ready
}

// Hosts are the servers that the Addr of a driver's configuration names, with commas between them, each with its port. The driver
// takes several for one that lacks a port.
func Hosts(addr string) []string {
	if !strings.Contains(addr, ",") {
		return []string{addr}
	}
	hosts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]:3306"), ",")
	for i, h := range hosts {
		if !strings.Contains(h[strings.LastIndex(h, "]")+1:], ":") {
			hosts[i] = h + ":3306"
		}
	}
	return hosts
}

const (
	frozenAfter = 10 * time.Second // how long a node of several may take for a statement
	readyWithin = 2 * time.Second  // how long a node may take to say that it is ready
	watchEvery  = time.Second      // how often a node that is away is asked, at most twice as much
	backAfter   = 4 * time.Second  // calls go back to it up to this much later, each process at a moment of its own
)

// nodes are the nodes in the order in which they are to be tried for what has a key: all processes that have the same key, such as
// that of a queue, begin with the same node.
func (s *Store) order(key string) []*node {
	if len(s.nodes) == 1 {
		return s.nodes
	}
	weight := func(n *node) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(n.host + " " + key)) // never fails
		return h.Sum64() * 0x9e3779b97f4a7c15
	}
	all := slices.Clone(s.nodes)
	slices.SortFunc(all, func(a, b *node) int {
		return cmp.Or(-cmp.Compare(weight(a), weight(b)), cmp.Compare(a.host, b.host))
	})
	return all
}

// at is the node for what has a key: the first that is not away, or the first of all.
func (s *Store) at(key string) *node {
	all := s.order(key)
	for _, n := range all {
		if !n.away.Load() {
			return n
		}
	}
	return all[0]
}

// any is the node for what has no key. Each store has one of its own.
func (s *Store) any() *node { return s.at(s.own) }

// near is the node for a call.
func (s *Store) near(ctx context.Context) *node {
	if key, ok := rowstore.Place(ctx); ok {
		return s.at(fmt.Sprintf("queue %02x", key))
	}
	return s.any()
}

// lost notes that a node is away, if an error says so, and reports whether another one can be used.
func (s *Store) lost(n *node, err error) bool {
	if len(s.nodes) == 1 || !unusable(err) || s.closed.Load() {
		return false
	}
	if n.away.CompareAndSwap(false, true) {
		s.watching.Go(func() { s.watch(n) })
		s.callers.SetMaxIdleConns(0) // closes those to this node too
		s.callers.SetMaxIdleConns(2)
	}
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.away.Load() })
}

// errNotReady is of a node that answers, and takes no part in the cluster now.
var errNotReady = &driver.MySQLError{Number: codeNotReady}

// unusable reports whether an error says that a server cannot be used now.
func unusable(err error) bool {
	switch code(err) {
	case 0:
		return err != nil && errors.Is(classify(err), dibs.ErrUnavailable) && !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, errUnknown)
	case codeNotReady, 1040, 1053, 1152, 1203, 1927:
		return true
	}
	return false
}

// watch waits until a node that is away is ready.
func (s *Store) watch(n *node) {
	for {
		if !s.pause(watchEvery + rand.N(watchEvery)) {
			return
		}
		if s.isReady(n) && s.pause(rand.N(backAfter)) && s.isReady(n) {
			n.away.Store(false)
			return
		}
	}
}

// pause waits, and reports whether the store is still open.
func (s *Store) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ended.Done():
		return false
	}
}

// isReady reports whether a node is a synchronized part of the store's cluster.
func (s *Store) isReady(n *node) bool {
	ctx, stop := context.WithTimeout(s.ended, readyWithin)
	defer stop()
	var ready, state, cluster, name string
	err := n.pool.QueryRowContext(ctx, nodeState).Scan(&ready, &state, &cluster, &name)
	n.name.Store(&name)
	return err == nil && ready == "ON" && state == "4" && (s.clusterID == "" || cluster == s.clusterID)
}

const nodeState = `
select
  max(case when variable_name = 'wsrep_ready' then variable_value end),
  max(case when variable_name = 'wsrep_local_state' then variable_value end),
  max(case when variable_name = 'wsrep_cluster_state_uuid' then variable_value end),
  @@wsrep_node_name
from information_schema.global_status
where variable_name in ('wsrep_ready', 'wsrep_local_state', 'wsrep_cluster_state_uuid')`

// anyNode connects callers' transactions to a node that is there.
type anyNode struct {
	s          *Store
	connectors map[*node]sqldriver.Connector
}

func (c anyNode) Connect(ctx context.Context) (conn sqldriver.Conn, err error) {
	all := c.s.order(c.s.own)
	for _, away := range []bool{false, true} {
		for _, n := range all {
			if n.away.Load() != away {
				continue
			}
			if conn, err = c.connectors[n].Connect(ctx); err == nil || ctx.Err() != nil {
				return conn, err
			}
			c.s.lost(n, err)
		}
	}
	return nil, err
}

func (c anyNode) Driver() sqldriver.Driver { return driver.MySQLDriver{} }
