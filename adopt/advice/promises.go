package advice

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// promises says in plain words which of dibs' promises a store of the mapping keeps, and which not.
func (p *subject) promises() (all []string) {
	say := func(text string, args ...any) { all = append(all, fmt.Sprintf(text, args...)) }
	p.sayFence(say)
	if !p.LockOnly() {
		p.sayLease(say)
	}
	if !p.SideTable && p.Claim.Attempts == "" {
		say("attempts are not counted: a row that fails, or kills its worker, is retried for ever. Name claim.attempts, or set side_table")
	}
	if !p.SideTable && p.Before == nil {
		say("a row is available again at once after a failed attempt: no column holds the delay of a retry. Name not_before, or set side_table")
	}
	if !p.SideTable && !p.keepsErrors() {
		say("the errors of attempts are logged but not stored: no outcome sets a column to $error, and there is no side table")
	}
	if p.SideTable {
		say("if %s is missing, it is created when the mapping is first used, which needs the right to create a table in that schema", p.Side())
	}
	if p.Dead == nil && p.SideTable {
		say("rows that failed for good are dead only in %s: in the table they stay unfinished, and other programs and views see them so. Name what dead sets, if a column can hold it", p.Side())
	}
	if p.Dead == nil && !p.SideTable {
		say("rows that failed for good are put back and retried like others. Name what dead sets")
	}
	return all
}

func (p *subject) sayFence(say func(string, ...any)) {
	names := make([]string, len(p.Fence))
	for i, c := range p.Fence {
		names[i] = c.Name
	}
	switch {
	case p.SideTable:
		say("fenced by a token in the side table %s (degree \"side table\"): a stale worker changes nothing. Programs that take rows by the table's own columns do not see these leases%s", p.Side(), p.otherPrograms())
		return
	case p.LockOnly():
		say("a claim lasts as long as a transaction (degree \"transaction\"): only a row lock holds it, and neither workers nor the claim command can be used. Name columns that a claim may write, or set side_table")
		return
	case p.Claim.Token != "":
		say("fenced by the token in %s (degree \"token\"): a stale worker changes nothing", p.Claim.Token)
		return
	}
	say("fenced by the exact values of %s (degree \"exact values\"): a worker whose claim has ended changes nothing, unless a later claim of the row wrote the same values", strings.Join(names, ", "))
	switch {
	case p.Claim.Attempts != "":
		say("two claims of a row look alike only if somebody sets %s back, which each claim counts up", p.Claim.Attempts)
	case p.Started != nil && p.Started.Grain <= time.Millisecond:
		say("two claims of a row%s look alike only if both are made within one unit of %s, which holds %s", p.sameWorker(), p.Started.Name, p.Started.Steps())
	case p.Started != nil:
		say("%s holds %s: two claims of a row%s within one of these look alike. A token column would tell them apart", p.Started.Name, p.Started.Steps(), p.sameWorker())
	default:
		say("two claims of a row by workers of the same name look alike: give every worker its own name, and name a token or started_at column if you can")
	}
}

func (p *subject) otherPrograms() string {
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
		say("%s says when a claim ends, %v after it was made or extended: then the rows of a killed worker are claimed again", p.Timeout.Name, p.Lease)
	case p.Started != nil:
		say("a claim ends %v after the time in %s: then the rows of a killed worker are claimed again. A worker that needs longer extends its claim by setting %s to the current time", p.Lease, p.Started.Name, p.Started.Name)
	default:
		say("a claim does not end by itself: the rows of a killed worker stay claimed until somebody puts them back. Name a started_at or timeout column, or set side_table")
	}
	if t := cmp.Or(p.Timeout, p.Started); t != nil && t.Kind == adopted.Stamp && p.Times == mapping.TimesLocal && !p.SideTable {
		say("%s is in local time: give all sessions the same time zone, or leases end early; where clocks change, a lease can end an hour early or late", t.Name)
	}
	if p.Claim.LockedBy == "" && !p.SideTable {
		say("a restarted worker cannot take back its own rows (Resume): no column names the worker of a row")
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
