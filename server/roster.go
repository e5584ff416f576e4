package server

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

const (
	// tellEvery is how often the roster registers clients that have come or changed, and removes those that have left.
	tellEvery = 2 * time.Second
	// tellAllEvery is how often it registers all clients, as often as workers report.
	tellAllEvery = 10 * time.Second
	// maxClients is how many clients are listed at once, and maxKept how many of their leases are remembered. More
	// clients are served in the same way, but not listed.
	maxClients = 1000
	maxKept    = 100_000
	// maxAsked is how many queues and how many kinds are listed for one client. If it asks for more kinds, it is listed
	// as taking all kinds.
	maxAsked = 50
	// tellAtOnce is how many clients one call registers.
	tellAtOnce = 100
	// overHTTP is the version that the register shows for clients over HTTP, which report none.
	overHTTP = "http"
)

// roster lists clients that claim over HTTP in the register of workers, as workers list themselves. A client is listed
// while it waits for jobs, while leases that it got here last, and for WorkerLostAfter after its last claim.
type roster struct {
	register func(context.Context, ...dibs.WorkerInfo) error

	mu        sync.Mutex
	clients   map[clientKey]*client
	leases    map[leaseKey]*kept
	listedAll time.Time
}

// clientKey identifies a client by the name of the token, the address, and the name of the worker.
type clientKey struct{ token, host, worker string }

type leaseKey struct {
	id    int64
	token dibs.Token
}

// client is what the roster knows about a client.
type client struct {
	info      dibs.WorkerInfo
	kinds     []string  // kinds of the last claim
	asked     int       // how many jobs its claims under way ask for
	held      int       // how many leases it holds that it got here
	claimedAt time.Time // when its last claim ended
	changed   bool      // the register does not have the client's present state yet
}

// kept is a lease that a client got here.
type kept struct {
	client *client
	until  time.Time
}

func newRoster(register func(context.Context, ...dibs.WorkerInfo) error) *roster {
	return &roster{register: register, clients: map[clientKey]*client{}, leases: map[leaseKey]*kept{}}
}

// claims notes that a client asks for jobs. The caller calls end with the jobs that the client got, if any.
func (ro *roster) claims(r *http.Request, c dibs.ClaimRequest) (end func(jobs []*dibs.RawJob, now time.Time)) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	key := clientKey{host: host, worker: c.Worker}
	if e := entryOf(r); e != nil {
		key.token = e.token
	}
	ro.mu.Lock()
	defer ro.mu.Unlock()
	of := ro.clients[key]
	switch {
	case of == nil && len(ro.clients) >= maxClients:
		return func([]*dibs.RawJob, time.Time) {}
	case of == nil:
		of = &client{info: dibs.WorkerInfo{Name: c.Worker, Host: host, Version: overHTTP, State: dibs.WorkerWorking}}
		rand.Read(of.info.ID[:])
		ro.clients[key] = of
	}
	of.asks(c)
	return func(jobs []*dibs.RawJob, now time.Time) { ro.claimed(of, c.N, jobs, now) }
}

// asks adds the queue, the kinds and the number of a claim to what the client is listed with.
func (of *client) asks(c dibs.ClaimRequest) {
	before := of.info
	of.asked += c.N
	of.info.Concurrency = max(before.Concurrency, min(of.held+of.asked, dibs.MaxBatch))
	if !slices.Contains(before.Queues, c.Queue) && len(before.Queues) < maxAsked {
		of.info.Queues = append(slices.Clip(before.Queues), c.Queue) // in a new array, as a call to the database may be reading the old one
	}
	switch {
	case len(c.Kinds) == 0 || len(c.Kinds) > maxAsked:
		of.info.Kinds = nil
	case len(before.Queues) == 0:
		of.info.Kinds = c.Kinds
	case before.Kinds != nil && !slices.Equal(c.Kinds, of.kinds):
		all := slices.Concat(before.Kinds, c.Kinds)
		slices.Sort(all)
		if of.info.Kinds = slices.Compact(all); len(of.info.Kinds) > maxAsked {
			of.info.Kinds = nil
		}
	}
	if of.kinds = nil; of.info.Kinds != nil {
		of.kinds = c.Kinds
	}
	of.changed = of.changed || of.info.Concurrency != before.Concurrency || len(of.info.Queues) != len(before.Queues) || len(of.info.Kinds) != len(before.Kinds)
}

// claimed notes which jobs a client has got that asked for n.
func (ro *roster) claimed(of *client, n int, jobs []*dibs.RawJob, now time.Time) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	of.asked -= n
	of.claimedAt = now
	for _, j := range jobs {
		key := leaseKey{j.ID, j.Token}
		if len(ro.leases) == maxKept || ro.leases[key] != nil {
			continue
		}
		ro.leases[key] = &kept{of, now.Add(j.LeaseUntil.Sub(j.ClaimedAt))}
		of.held++
	}
}

// extended notes that a lease was extended.
func (ro *roster) extended(l dibs.Lease, d time.Duration, now time.Time) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	if k := ro.leases[leaseKey{l.ID, l.Token}]; k != nil {
		k.until = now.Add(d)
	}
}

// ended notes that a lease is no longer held.
func (ro *roster) ended(id int64, token dibs.Token) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	ro.end(leaseKey{id, token})
}

func (ro *roster) end(key leaseKey) {
	if k := ro.leases[key]; k != nil {
		k.client.held--
		delete(ro.leases, key)
	}
}

// tellOfGuests keeps clients that claim over HTTP in the register of workers, until the server closes.
func (s *Server) tellOfGuests() {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ticker.C:
		case <-s.closing.Done():
			ctx, cancel := context.WithTimeout(context.Background(), tellEvery)
			defer cancel()
			if err := s.guests.leave(ctx); err != nil {
				s.Log.Debug("call to the database failed", "call", "register", "error", err.Error())
			}
			return
		}
		ctx, cancel := context.WithTimeout(s.closing, callTimeout)
		err := s.guests.tell(ctx, time.Now())
		cancel()
		if err != nil && !failing && s.closing.Err() == nil {
			s.Log.Warn("clients are not in the register of workers; they are served all the same", "call", "register", "error", err.Error())
		}
		failing = err != nil
	}
}

// tell registers the clients that have changed. If a call fails, its clients are registered the next time.
func (ro *roster) tell(ctx context.Context, now time.Time) (err error) {
	for some := range slices.Chunk(ro.changes(now), tellAtOnce) {
		list := make([]dibs.WorkerInfo, len(some))
		for i, each := range some {
			list[i] = each.info
		}
		if failed := ro.register(ctx, list...); failed != nil {
			err = failed
			ro.again(some)
		}
	}
	return err
}

// listing is the entry of a client that the database is to get.
type listing struct {
	key  clientKey
	of   *client
	info dibs.WorkerInfo
}

// changes returns the entries of clients that have changed, and now and then those of all clients.
func (ro *roster) changes(now time.Time) (list []listing) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	all := now.Sub(ro.listedAll) >= tellAllEvery
	if all {
		ro.listedAll = now
		for key, k := range ro.leases {
			if now.After(k.until) {
				ro.end(key)
			}
		}
	}
	for key, of := range ro.clients {
		info := of.info
		switch {
		case of.asked == 0 && of.held == 0 && now.Sub(of.claimedAt) >= dibs.WorkerLostAfter:
			info.State = dibs.WorkerStopped
			delete(ro.clients, key)
		case !of.changed && !all:
			continue
		}
		of.changed = false
		list = append(list, listing{key, of, info})
	}
	return list
}

// again marks clients whose entries could not be registered.
func (ro *roster) again(list []listing) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	for _, each := range list {
		if each.of.changed = true; ro.clients[each.key] == nil {
			ro.clients[each.key] = each.of
		}
	}
}

// leave removes all clients from the register, as the server closes.
func (ro *roster) leave(ctx context.Context) error {
	ro.mu.Lock()
	var list []dibs.WorkerInfo
	for _, of := range ro.clients {
		of.info.State = dibs.WorkerStopped
		list = append(list, of.info)
	}
	clear(ro.clients)
	ro.mu.Unlock()
	for some := range slices.Chunk(list, tellAtOnce) {
		if err := ro.register(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}
