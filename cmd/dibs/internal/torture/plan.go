package torture

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
)

// lease is short, so that stopped and killed processes often lose their leases.
const lease = time.Second

// The queues of a run.
const (
	plain   = "plain"   // no limits
	grouped = "grouped" // groups with limits of 1 to 3
	strict  = "strict"  // groups with a limit of 1 in which retries keep their place
	limited = "limited" // a limit for the whole queue
	paced   = "paced"   // a rate for the whole queue, and for some groups
	unique  = "unique"  // every job holds a unique key
	fair    = "fair"    // groups take turns
	steady  = "steady"  // served only by the operator, whom no fault hits
	turns   = "turns"   // as steady, and groups take turns
)

// queues are the queues that the worker processes serve.
var queues = []string{plain, grouped, strict, limited, paced, unique, fair}

// txQueues are the queues from which transactions claim.
var txQueues = []string{plain, grouped, unique}

const (
	backlog    = 800 // producers wait while a queue has more live jobs
	groups     = 24  // how many groups a queue with groups has
	uniqueKeys = 2000
	maxClaim   = 100 // the most jobs of one claim
)

var tortureBackoff = dibs.Backoff{Base: 30 * time.Millisecond, Factor: 2, Max: 500 * time.Millisecond, Jitter: 0.25}

// settings are those of a queue at the start of a run.
type settings struct {
	queue  string
	change dibs.QueueChange
	groups map[string]int // groups that have a limit of their own; 0: the queue's limit holds
}

// set sets queues, and notes their settings.
func (r *run) set(ctx context.Context, all ...settings) (err error) {
	for _, s := range all {
		if _, err := r.DB.ChangeQueue(ctx, s.queue, s.change.Apply); err != nil {
			return err
		}
		r.startGroups[s.queue] = map[string]int{}
		for group, limit := range s.groups {
			if err := r.DB.ChangeGroup(ctx, s.queue, group, dibs.GroupChange{Limit: &limit}.Apply); err != nil {
				return err
			}
			if limit > 0 {
				r.startGroups[s.queue][group] = limit
			}
		}
	}
	r.startQueues, err = r.DB.Queues(ctx)
	return err
}

// prepare sets the queues and makes the table for effects.
func (r *run) prepare(ctx context.Context) error {
	var all []settings
	for _, q := range append([]string{steady, turns}, queues...) {
		s := settings{queue: q, change: dibs.QueueChange{Lease: ptr(lease), Backoff: &tortureBackoff, MaxAttempts: ptr(8)}}
		switch q {
		case grouped:
			s.groups = map[string]int{}
			for g := range groups {
				s.groups[groupName(g)] = g % 4
			}
		case strict:
			s.change.Strict = ptr(true)
		case fair:
			s.change.Order, s.change.GroupLimit = ptr(dibs.Fair), ptr(2)
		case turns:
			s.change.Order, s.groups = ptr(dibs.Fair), map[string]int{groupName(0): 2, groupName(1): 3}
		case limited:
			s.change.Concurrency = ptr(30)
		case paced:
			s.change.Rate, s.change.GroupLimit = &dibs.Rate{N: 100, Per: time.Second, Burst: 10}, ptr(3)
		}
		all = append(all, s)
	}
	if err := r.set(ctx, all...); err != nil {
		return err
	}
	return r.withSQL(func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "create table "+r.Effects+" (job bigint not null)")
		return err
	})
}

func groupName(g int) string { return fmt.Sprintf("group-%02d", g) }

// payload is the payload of every job of a run. The history identifies the job by Key.
type payload struct {
	Key string `json:"key"`
	Pad string `json:"pad,omitempty"`
}

// newJob makes a random job for a queue.
func newJob(rng *rand.Rand, queue, key string) dibs.NewJob {
	j := dibs.NewJob{Queue: queue, Kind: "work", Payload: payload{Key: key, Pad: pad[:rng.IntN(len(pad))]}}
	if rng.IntN(3) == 0 {
		j.Priority = ptr(rng.IntN(4) * 100)
	}
	if rng.IntN(20) == 0 {
		j.Delay = time.Duration(rng.IntN(1500)) * time.Millisecond
	}
	if rng.IntN(10) == 0 {
		j.MaxAttempts = 1 + rng.IntN(3)
	}
	switch queue {
	case paced:
		if rng.IntN(2) == 0 {
			j.Group = groupName(rng.IntN(groups))
		}
	case grouped, strict, fair:
		j.Group = groupName(rng.IntN(groups))
	case unique:
		j.UniqueKey = fmt.Sprintf("key-%d", rng.IntN(uniqueKeys))
		if rng.IntN(2) == 0 {
			j.UniqueUntil = dibs.UntilClaimed
		}
	}
	return j
}

const pad = "................................................................"

func ptr[T any](v T) *T { return &v }
