package reads

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// Damage is a row of repairable.sql: something wrong that a repair mends.
type Damage struct {
	Finding      string
	Queue, State string // State is the count that is wrong, or "group", "step", "edge" or "payload" for other damage
	Lacks        int64  // what must be added to the count; for an edge, the job that is gone
}

// Columns are where the values of a row go.
func (d *Damage) Columns() []any { return []any{&d.Finding, &d.Queue, &d.State, &d.Lacks} }

// Check looks for anything in the database that breaks an invariant.
func (c Calls) Check(ctx context.Context) ([]string, error) {
	if err := c.Ready(ctx, "check"); err != nil {
		return nil, err
	}
	var found []Damage
	var others, unreadable []string
	var j dibs.RawJob
	text := []any{&j.ID, (*[]byte)(&j.Payload), (*[]byte)(&j.Metadata)}
	err := c.Read(
		ctx, rows(&found, (*Damage).Columns, "repairable"), rows(&others, One, "check"),
		Statement{Name: "texts", Begin: func() { unreadable = nil }, Row: func(scan Scan) error {
			j = dibs.RawJob{}
			err := scan(text...)
			unreadable = append(unreadable, checks.Texts(&j)...)
			return err
		}},
	)
	if err != nil {
		return nil, c.Failed("check", err)
	}
	all := []string{}
	for _, d := range found {
		all = append(all, d.Finding)
	}
	schedules, err := ticks.UnreadableOf(ctx, c.Schedules)
	return append(append(append(all, others...), unreadable...), schedules...), err
}

// Uses is where the values go that say what keeps a queue from being deleted.
func Uses(u *checks.QueueUses) []any {
	return []any{Number(&u.Live), Number(&u.Ended), Text(&u.Key), Time(&u.KeyUntil)}
}
