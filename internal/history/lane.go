package history

import (
	"math"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// lane is what is known of one queue over time.
type lane struct {
	// Yes is 1; no limit is unlimited.
	paused, strict, fifo, concurrency, groupLimit, lease, maxAttempts setting
	backoff                                                           *dibs.Backoff // nil: it was changed

	forgets bool // finished jobs may have been deleted during the run

	groups  map[string]*setting // limits of single groups; 0: the queue's
	unknown []int32             // claims and resumes whose answer nobody got, by Begin
	resumes []int32             // the resumes among them
	short   []shortClaim        // by Begin
	busy    int64               // until then, a call that took turns with claims may have gone on
}

const unlimited = math.MaxInt32

// setting is a value over time.
type setting struct {
	start   int64
	changes []change // by lo
}

// change is one that certainly or perhaps (hi is never) took effect from lo to hi.
type change struct{ lo, hi, value int64 }

// between are the least and the most that may have been in force at some time from lo
// to hi: the value at the start and those of all changes, but for what another change
// had certainly replaced before.
func (s *setting) between(lo, hi int64) (least, most int64) {
	replaced := int64(-1)
	for _, c := range s.changes {
		if c.hi < lo {
			replaced = max(replaced, c.lo)
		}
	}
	least, most = never, -never
	if replaced < 0 {
		least, most = s.start, s.start
	}
	for _, c := range s.changes {
		if c.lo <= hi && c.hi >= replaced {
			least, most = min(least, c.value), max(most, c.value)
		}
	}
	return least, most
}

// kept is longer than any run: what a queue keeps for less may be gone at the end.
const kept = 24 * time.Hour

// shortClaim is an answered claim after which nothing that it could see was left to
// take. Its client has claimed from the queue again and again since steady.
type shortClaim struct {
	call   int32
	alone  bool // no other call went on meanwhile that may lock jobs or take a turn
	steady int64
}

// disturb notes a call that may have kept claims from finding what there was.
func (ix *index) disturb(l *lane, s *span) {
	if n := len(l.short); n > 0 && ix.spans[l.short[n-1].call].hi >= s.lo {
		l.short[n-1].alone = false
	}
	l.busy = max(l.busy, s.until)
}

// lane of a queue; one that nobody has set has the default settings.
func (ix *index) lane(name string) *lane {
	l := ix.lanes[name]
	if l == nil {
		l = &lane{groups: make(map[string]*setting)}
		l.set(dibs.DefaultSettings(name))
		ix.lanes[name] = l
	}
	return l
}

func (l *lane) set(q dibs.Queue) {
	l.paused.start, l.strict.start, l.fifo.start = yes(q.Paused), yes(q.Strict), yes(q.Order == dibs.FIFO)
	l.concurrency.start, l.groupLimit.start = limitOf(q.Concurrency), int64(q.GroupLimit)
	l.lease.start, l.maxAttempts.start, l.backoff = q.Lease.Microseconds(), int64(q.MaxAttempts), &q.Backoff
	l.forgets = min(q.KeepCompleted, q.KeepDead, q.KeepCancelled) < kept
}

func yes(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func limitOf(concurrency int) int64 {
	if concurrency == 0 {
		return unlimited
	}
	return int64(concurrency)
}

func (l *lane) group(name string) *setting {
	g := l.groups[name]
	if g == nil {
		g = &setting{}
		l.groups[name] = g
	}
	return g
}

func (ix *index) makeLanes() {
	ix.lanes = make(map[string]*lane)
	for _, q := range ix.Queues {
		ix.lane(q.Name).set(q)
	}
	for queue, groups := range ix.Groups {
		for group, limit := range groups {
			ix.lane(queue).group(group).start = int64(limit)
		}
	}
	busy := int64(0) // as of a lane, by calls that concern all of them
	type series struct{ since, last int64 }
	steady := make(map[[2]string]series) // by client and queue
	for i, c := range ix.Calls {
		s := &ix.spans[i]
		switch c.Verb {
		case SetQueue:
			l := ix.lane(c.Queue)
			ix.disturb(l, s)
			if s.fate != Nothing && c.Settings != nil {
				l.change(s, c.Settings)
			}
		case SetGroup:
			l := ix.lane(c.Queue)
			ix.disturb(l, s)
			if s.fate != Nothing {
				g := l.group(c.Group)
				g.changes = append(g.changes, change{s.lo, s.hi, int64(c.Limit)})
			}
		case Sweep, Cancel, Requeue, Edit:
			for _, l := range ix.lanes {
				ix.disturb(l, s)
			}
			busy = max(busy, s.until)
		case Claim, Resume:
			l := ix.lane(c.Queue)
			alone := max(l.busy, busy) < s.lo
			ix.disturb(l, s)
			if c.Fate == Unknown {
				l.unknown = append(l.unknown, int32(i))
				if c.Verb == Resume {
					l.resumes = append(l.resumes, int32(i))
				}
			}
			if c.Verb != Claim || c.Fate != Done {
				continue
			}
			key := [2]string{c.Client, c.Queue}
			run := steady[key]
			if s.lo-run.last > ix.grace {
				run.since = s.lo
			}
			run.last = s.hi
			steady[key] = run
			if len(c.Jobs) < c.Want && !c.Kinds && c.Tx == "" {
				l.short = append(l.short, shortClaim{int32(i), alone, run.since})
			}
		case Prune:
			ix.pruned = ix.pruned || s.fate != Nothing
		case Fault:
			if strings.HasPrefix(c.Text, "server") {
				ix.faults = append(ix.faults, *s)
			}
		}
	}
}

func (l *lane) change(s *span, c *dibs.QueueChange) {
	add := func(to *setting, value int64) { to.changes = append(to.changes, change{s.lo, s.hi, value}) }
	if c.Paused != nil {
		add(&l.paused, yes(*c.Paused))
	}
	if c.Strict != nil {
		add(&l.strict, yes(*c.Strict))
	}
	if c.Order != nil {
		add(&l.fifo, yes(*c.Order == dibs.FIFO))
	}
	if c.Concurrency != nil {
		add(&l.concurrency, limitOf(*c.Concurrency))
	}
	if c.Lease != nil {
		add(&l.lease, c.Lease.Microseconds())
	}
	if c.MaxAttempts != nil {
		add(&l.maxAttempts, int64(*c.MaxAttempts))
	}
	if c.Backoff != nil {
		l.backoff = nil
	}
	for _, keep := range []*time.Duration{c.KeepCompleted, c.KeepDead, c.KeepCancelled} {
		l.forgets = l.forgets || keep != nil && *keep < kept
	}
	if c.GroupLimit != nil {
		add(&l.groupLimit, int64(*c.GroupLimit))
	}
}

// places are the least and the most jobs of a group that may have been allowed to run
// at once at some time from lo to hi.
func (l *lane) places(group string, lo, hi int64) (least, most int64) {
	least, most = l.groupLimit.between(lo, hi)
	g := l.groups[group]
	if g == nil {
		return least, most
	}
	ownLeast, ownMost := g.between(lo, hi)
	if ownMost == 0 {
		return least, most
	}
	if ownLeast > 0 {
		return ownLeast, ownMost
	}
	for _, c := range g.changes {
		if c.value > 0 {
			least = min(least, c.value)
		}
	}
	return least, max(most, ownMost)
}

// clouded reports whether an unknown claim may have held any job at some time from lo
// to hi.
func (ix *index) clouded(l *lane, lo, hi int64) bool {
	for _, n := range l.unknown {
		if s := &ix.spans[n]; s.lo <= hi && s.until >= lo {
			return true
		}
	}
	return false
}

// faulty reports whether the server was away at some time from lo to hi.
func (ix *index) faulty(lo, hi int64) bool {
	for i := range ix.faults {
		if s := &ix.faults[i]; s.lo <= hi && s.until >= lo {
			return true
		}
	}
	return false
}
