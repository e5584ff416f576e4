package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// newQueues refuses to make more queues than Limits.Queues: statistics and upkeep look at each of them, and a client
// that may enqueue into all queues can make one with any name.
type newQueues struct {
	mu    sync.Mutex
	known map[string]bool // queues that are known to exist, up to maxKnownQueues
	n     int             // how many queues there were at the last count, and how many were made here since
	at    time.Time       // when the queues were last counted
}

const (
	maxKnownQueues = 10_000
	countQueues    = 10 * time.Second // how long a count of the queues is used
	recountQueues  = time.Second      // the same if by that count a queue must be refused
)

// mayMake refuses a call that would make queues beyond the limit.
func (s *Server) mayMake(ctx context.Context, queues ...string) error {
	unknown := s.made.unknown(queues)
	if len(unknown) == 0 {
		return nil
	}
	found, err := s.db.Queues(ctx, unknown...)
	if err != nil {
		return err
	}
	s.made.found(found)
	if unknown = s.made.unknown(unknown); len(unknown) == 0 {
		return nil
	}
	room := false
	for _, age := range []time.Duration{countQueues, recountQueues} { // count again before refusing: queues may have been deleted, or in the end not been made
		if s.made.older(age) {
			all, err := s.db.Queues(ctx)
			if err != nil {
				return err
			}
			s.made.counted(len(all))
		}
		if room = s.made.add(len(unknown), s.Limits.Queues); room {
			break
		}
	}
	if !room {
		return &dibs.InvalidError{Field: "queue", Reason: fmt.Sprintf("%.60q would be a new one, and this server makes no more where there are %d (dibs serve --max-queues, or Limits.Queues): use one that there is, or delete some", unknown[0], s.Limits.Queues)}
	}
	return nil
}

// unknown returns those of the queues that are not known to exist.
func (m *newQueues) unknown(queues []string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range queues {
		if name == "" {
			name = dibs.DefaultQueue
		}
		if !m.known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (m *newQueues) found(queues []dibs.Queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known)+len(queues) > maxKnownQueues {
		m.known = map[string]bool{}
	}
	for _, q := range queues {
		m.known[q.Name] = true
	}
}

func (m *newQueues) older(age time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.at) >= age
}

func (m *newQueues) counted(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n, m.at = n, time.Now()
}

// add counts n queues that are being made, unless there would be more than most.
func (m *newQueues) add(n, most int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n+n > most {
		return false
	}
	m.n += n
	return true
}
