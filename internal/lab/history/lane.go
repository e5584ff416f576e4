package history

import (
	"math"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// lane holds the history of one queue: its settings over time, and calls that affect all its jobs.
type lane struct {
	// A setting that is on is 1. A limit that is off is unlimited.
	paused, strict, fifo, fair, concurrency, groupLimit, lease, maxAttempts setting
	backoff                                                                 *dibs.Backoff // nil: somebody changed it

	mayDelete bool // finished jobs may have been deleted during the run

	rates       map[string]*rates   // of the queue, under an empty name, and of groups
	groups      map[string]*setting // limits of single groups; 0: the queue's limit holds
	unknown     []int32             // claims and resumes without an answer, by Begin
	resumes     []int32             // resumes without an answer, by Begin
	shortClaims []shortClaim        // sorted by Begin
	busyUntil   int64               // when the last call that takes turns with claims had certainly ended
}

const unlimited = math.MaxInt32

// setting is a value over time.
type setting struct {
	start   int64
	changes []change // sorted by lo
}

// change is a new value that took effect between lo and hi. If hi is never, it may not have.
type change struct{ lo, hi, value int64 }

// between returns the least and the greatest value that may have been in force at some time
// from lo to hi. It leaves out values that another change had certainly replaced earlier.
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

// longestRun is longer than any run. If a queue keeps finished jobs for less, they may be
// deleted before the end.
const longestRun = 24 * time.Hour

// shortClaim is a claim that returned fewer jobs than it asked for: it took all that it
// could. Its client has claimed from the queue again and again since claimingSince.
type shortClaim struct {
	call          int32
	undisturbed   bool // no call that may lock jobs or take a turn overlapped the claim
	claimingSince int64
}

// noteOverlap notes a call that may have hidden claimable jobs from claims at the same time.
func (ix *index) noteOverlap(l *lane, s *span) {
	if n := len(l.shortClaims); n > 0 && ix.spans[l.shortClaims[n-1].call].hi >= s.lo {
		l.shortClaims[n-1].undisturbed = false
	}
	l.busyUntil = max(l.busyUntil, s.unlockedBy)
}

// lane returns the lane of a queue. A queue that was never set has the default settings.
func (ix *index) lane(name string) *lane {
	l := ix.lanes[name]
	if l == nil {
		l = &lane{groups: make(map[string]*setting), rates: make(map[string]*rates)}
		l.setStart(dibs.DefaultSettings(name))
		ix.lanes[name] = l
	}
	return l
}

func (l *lane) setStart(q dibs.Queue) {
	l.paused.start, l.strict.start = yes(q.Paused), yes(q.Strict)
	l.fifo.start, l.fair.start = yes(q.Order == dibs.FIFO), yes(q.Order == dibs.Fair)
	l.concurrency.start, l.groupLimit.start = limitOf(q.Concurrency), int64(q.GroupLimit)
	l.rate("").start = q.Rate
	l.lease.start, l.maxAttempts.start, l.backoff = q.Lease.Microseconds(), int64(q.MaxAttempts), &q.Backoff
	l.mayDelete = min(q.KeepCompleted, q.KeepDead, q.KeepCancelled) < longestRun
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
		ix.lane(q.Name).setStart(q)
	}
	for queue, groups := range ix.Groups {
		for group, limit := range groups {
			ix.lane(queue).group(group).start = int64(limit)
		}
	}
	busyUntil := int64(0) // when the last call that takes turns with claims of all queues had ended
	type series struct{ since, last int64 }
	claiming := make(map[[2]string]series) // claims without a pause, by client and queue
	for i, c := range ix.Calls {
		s := &ix.spans[i]
		switch c.Verb {
		case SetQueue:
			l := ix.lane(c.Queue)
			ix.noteOverlap(l, s)
			if s.fate != Nothing && c.Settings != nil {
				l.addChange(s, c.Settings)
			}
		case SetGroup:
			l := ix.lane(c.Queue)
			ix.noteOverlap(l, s)
			if s.fate != Nothing && c.Limit != nil {
				g := l.group(c.Group)
				g.changes = append(g.changes, change{s.lo, s.hi, int64(*c.Limit)})
			}
			if s.fate != Nothing && c.Rate != nil {
				r := l.rate(c.Group)
				r.changes = append(r.changes, rateChange{s.lo, s.hi, *c.Rate})
			}
		case Sweep, Cancel, Requeue, Edit:
			for _, l := range ix.lanes {
				ix.noteOverlap(l, s)
			}
			busyUntil = max(busyUntil, s.unlockedBy)
		case Claim, Resume:
			l := ix.lane(c.Queue)
			undisturbed := max(l.busyUntil, busyUntil) < s.lo
			ix.noteOverlap(l, s)
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
			run := claiming[key]
			if s.lo-run.last > ix.grace {
				run.since = s.lo
			}
			run.last = s.hi
			claiming[key] = run
			if len(c.Jobs) < c.Want-c.Ahead && !c.Kinds && c.Tx == "" {
				l.shortClaims = append(l.shortClaims, shortClaim{int32(i), undisturbed, run.since})
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

func (l *lane) addChange(s *span, c *dibs.QueueChange) {
	add := func(to *setting, value int64) { to.changes = append(to.changes, change{s.lo, s.hi, value}) }
	if c.Paused != nil {
		add(&l.paused, yes(*c.Paused))
	}
	if c.Strict != nil {
		add(&l.strict, yes(*c.Strict))
	}
	if c.Order != nil {
		add(&l.fifo, yes(*c.Order == dibs.FIFO))
		add(&l.fair, yes(*c.Order == dibs.Fair))
	}
	if c.Concurrency != nil {
		add(&l.concurrency, limitOf(*c.Concurrency))
	}
	if c.Rate != nil {
		r := l.rate("")
		r.changes = append(r.changes, rateChange{s.lo, s.hi, *c.Rate})
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
		l.mayDelete = l.mayDelete || keep != nil && *keep < longestRun
	}
	if c.GroupLimit != nil {
		add(&l.groupLimit, int64(*c.GroupLimit))
	}
}

// groupLimits returns the lowest and the highest limit of a group that may have been in
// force at some time from lo to hi.
func (l *lane) groupLimits(group string, lo, hi int64) (least, most int64) {
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

// unknownClaim reports whether a claim without an answer may have locked jobs at some time
// from lo to hi.
func (ix *index) unknownClaim(l *lane, lo, hi int64) bool {
	for _, n := range l.unknown {
		if s := &ix.spans[n]; s.lo <= hi && s.unlockedBy >= lo {
			return true
		}
	}
	return false
}

// serverAway reports whether the server was away at some time from lo to hi.
func (ix *index) serverAway(lo, hi int64) bool {
	for i := range ix.faults {
		if s := &ix.faults[i]; s.lo <= hi && s.unlockedBy >= lo {
			return true
		}
	}
	return false
}
