package advice

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Fence is how a claim is told from all others, so that a stale worker cannot finish
// what another has claimed since.
type Fence string

// The degrees of safety, the safest first.
const (
	// ByToken: every claim writes a random mark, and only who has it can finish.
	ByToken Fence = "token"
	// BySideTable: the same, in our own table.
	BySideTable Fence = "side table"
	// ByValues: only who knows exactly what the claim wrote into locked_by, attempts
	// and started_at can finish.
	ByValues Fence = "values"
	// ByTransaction: nothing is written; the row lock holds the claim while a transaction lasts.
	ByTransaction Fence = "transaction"
)

// Degree says what of dibs' promises a mapping can keep.
type Degree struct {
	Fence    Fence
	Recovers bool // rows of a killed worker become available again
	Extends  bool // a handler may take longer than the lease
	Attempts bool // they are counted, so that a row that kills its workers ends as dead
	Delays   bool // a retry waits
	Errors   bool // why attempts failed is kept
	Says     []string
}

// String is what it says, a line each.
func (d Degree) String() string { return strings.Join(d.Says, "\n") }

// DegreeOf says what of dibs' promises a store can keep, and in plain words what not.
func DegreeOf(s *adopt.Store) Degree {
	p, _ := s.Inside()
	return subjectOf(p).degree()
}

func (p *subject) degree() Degree {
	d := Degree{
		Recovers: p.Ends() || p.LockOnly(),
		Extends:  !p.LockOnly(),
		Attempts: p.SideTable || p.Claim.Attempts != "",
		Delays:   p.SideTable || p.Before != nil,
		Errors:   p.SideTable || p.keepsErrors(),
	}
	say := func(text string, args ...any) { d.Says = append(d.Says, fmt.Sprintf(text, args...)) }
	d.Fence = p.sayFence(say)
	if !p.LockOnly() {
		p.sayLease(say)
	}
	if !d.Attempts {
		say("attempts are not counted: a row that fails, or kills its worker, is tried for ever. Name claim.attempts, or set side_table")
	}
	if !d.Delays {
		say("a failed row is available again at once: nothing can hold the delay of a retry. Name not_before, or set side_table")
	}
	if !d.Errors {
		say("why attempts failed is logged but not kept: no outcome sets a column to $error, and there is no side table")
	}
	if p.SideTable {
		say("unless it is there, %s is made when the mapping is first worked with, which needs the right to create a table in that schema", p.Side())
	}
	if p.Dead == nil && p.SideTable {
		say("rows that failed for good are dead in %s alone: in the table they stay unfinished, and other programs and views see them so. Name what dead sets, if the table can say it", p.Side())
	}
	if p.Dead == nil && !p.SideTable {
		say("nothing is done with rows that failed for good: they are put back like others. Name what dead sets")
	}
	return d
}

func (p *subject) sayFence(say func(string, ...any)) Fence {
	names := make([]string, len(p.Fence))
	for i, c := range p.Fence {
		names[i] = c.Name
	}
	switch {
	case p.SideTable:
		say("fenced by a token in the side table %s: a stale worker changes nothing. Programs that take rows by the table's own columns do not see these leases%s", p.Side(), p.elseSeen())
		return BySideTable
	case p.LockOnly():
		say("a claim lasts as long as a transaction (ClaimTx): its row lock is all that holds it, and workers and the claim command cannot be used. Name columns that a claim may write, or set side_table")
		return ByTransaction
	case p.Claim.Token != "":
		say("fenced by the token in %s: a stale worker changes nothing", p.Claim.Token)
		return ByToken
	}
	say("fenced by the exact values of %s: a worker whose claim is over changes nothing, unless a later claim of the row wrote the same values", strings.Join(names, ", "))
	switch {
	case p.Claim.Attempts != "":
		say("two claims of a row look alike only if somebody sets %s back: each claim counts it up", p.Claim.Attempts)
	case p.Started != nil && p.Started.Grain <= time.Millisecond:
		say("two claims of a row%s look alike only if both are made within one step of the clock of %s, which holds %s", p.sameWorker(), p.Started.Name, p.Started.Steps())
	case p.Started != nil:
		say("%s holds %s: two claims of a row%s within one look alike. A token column would tell them apart", p.Started.Name, p.Started.Steps(), p.sameWorker())
	default:
		say("two claims of a row by workers of the same name look alike: give every worker its own name, and name a token or started_at column if you can")
	}
	return ByValues
}

func (p *subject) elseSeen() string {
	if p.Marked() {
		return ", but do see what a claim sets"
	}
	return ", and would take the same rows"
}

func (p *subject) sameWorker() string {
	if p.Claim.LockedBy != "" {
		return " by the same worker"
	}
	return ""
}

func (p *subject) sayLease(say func(string, ...any)) {
	switch {
	case p.SideTable:
	case p.Timeout != nil:
		say("%s says when a claim ends, %v after it was made or extended: then rows of a killed worker are taken again", p.Timeout.Name, p.Lease)
	case p.Started != nil:
		say("a claim ends %v after the time in %s: then rows of a killed worker are taken again. A worker that needs longer extends its claim by setting %s to the time it is", p.Lease, p.Started.Name, p.Started.Name)
	default:
		say("a claim does not end by itself: the rows of a killed worker stay taken until somebody puts them back. Name a started_at or timeout column, or set side_table")
	}
	if t := cmp.Or(p.Timeout, p.Started); t != nil && t.Kind == adopted.Stamp && p.Times == mapping.TimesLocal && !p.SideTable {
		say("%s is in local time: give all sessions the same time zone, or leases end early; where clocks change, one can end an hour early or late", t.Name)
	}
	if p.Claim.LockedBy == "" && !p.SideTable {
		say("a restarted worker cannot take back its own rows (Resume): nothing says whose they are")
	}
}

func (p *subject) keepsErrors() bool {
	for _, ch := range p.Changes() {
		for _, v := range ch.Set {
			if v == "$error" {
				return true
			}
		}
	}
	return false
}
