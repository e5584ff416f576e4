package history

import (
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// line is one line of a file: the client's name, the beginning of a call, or its end.
// Histories hold millions of jobs, so names are short and times are microseconds. The
// beginning of a call is rounded down, and its end up.
type line struct {
	Client string `json:"c,omitempty"`
	Number int    `json:"n,omitempty"`

	Verb   Verb   `json:"v,omitempty"`
	Begin  int64  `json:"b,omitempty"`
	Tx     string `json:"tx,omitempty"`
	Queue  string `json:"q,omitempty"`
	Worker string `json:"w,omitempty"`
	Want   int    `json:"want,omitempty"`
	Ahead  int    `json:"ahead,omitempty"`
	Kinds  bool   `json:"kinds,omitempty"`
	Lease  int64  `json:"l,omitempty"`

	New      []lineNew      `json:"new,omitempty"`
	Leases   []dibs.Lease   `json:"leases,omitempty"`
	Outcomes []dibs.Outcome `json:"outcomes,omitempty"`
	IDs      []int64        `json:"ids,omitempty"`
	Group    string         `json:"g,omitempty"`
	Text     string         `json:"text,omitempty"`

	End      int64             `json:"e,omitempty"`
	Fate     Fate              `json:"f,omitempty"`
	Error    string            `json:"err,omitempty"`
	Enqueued []dibs.Enqueued   `json:"enqueued,omitempty"`
	Jobs     []lineJob         `json:"jobs,omitempty"`
	Changed  []int64           `json:"changed,omitempty"`
	Asked    []int64           `json:"asked,omitempty"`
	Refused  []int64           `json:"refused,omitempty"`
	Left     []int64           `json:"left,omitempty"`
	Steps    []Step            `json:"steps,omitempty"`
	Settings *dibs.QueueChange `json:"set,omitempty"`
	Limit    *int              `json:"limit,omitempty"`
	Rate     *dibs.Rate        `json:"rate,omitempty"`
}

type lineNew struct {
	Key         string           `json:"k"`
	Sum         uint32           `json:"s"`
	Queue       string           `json:"q,omitempty"`
	Group       string           `json:"g,omitempty"`
	UniqueKey   string           `json:"u,omitempty"`
	UniqueUntil dibs.UniqueUntil `json:"uu,omitempty"`
	Priority    int              `json:"p"`
	Delay       int64            `json:"d,omitempty"`
	RunAt       int64            `json:"at,omitempty"`
	MaxAttempts int              `json:"max,omitempty"`
	Ref         string           `json:"ref,omitempty"`
	After       []lineDep        `json:"after,omitempty"`
	By          int64            `json:"by,omitempty"`
}

type lineDep struct {
	ID  int64     `json:"i,omitempty"`
	Ref string    `json:"r,omitempty"`
	On  dibs.Need `json:"on,omitempty"`
}

type lineJob struct {
	ID          int64       `json:"i"`
	Key         string      `json:"k"`
	Sum         uint32      `json:"s"`
	Token       *dibs.Token `json:"t,omitempty"` // absent: the token of the previous job
	Attempt     int         `json:"a"`
	Excused     int         `json:"x,omitempty"`
	MaxAttempts int         `json:"m"`
	Priority    int         `json:"p"`
	Group       string      `json:"g,omitempty"`
	RunAt       int64       `json:"r"`
	ClaimedAt   int64       `json:"c"`
	LeaseUntil  int64       `json:"l"`
}

// beginLine returns the line for the beginning of a call.
func beginLine(c *Call) *line {
	l := &line{
		Number: c.Number, Verb: c.Verb, Begin: c.Begin.UnixMicro(), Tx: c.Tx,
		Queue: c.Queue, Worker: c.Worker, Want: c.Want, Ahead: c.Ahead, Kinds: c.Kinds, Lease: c.Lease.Microseconds(),
		Leases: c.Leases, Outcomes: c.Outcomes, IDs: c.IDs,
		Group: c.Group, Text: c.Text,
	}
	if c.Verb == PutStep {
		l.Steps = c.Steps
	}
	for i := range c.New {
		n := &c.New[i]
		var after []lineDep
		for _, d := range n.After {
			after = append(after, lineDep(d))
		}
		l.New = append(l.New, lineNew{
			Key: n.Key, Sum: n.Sum, Queue: n.Queue, Group: n.Group, UniqueKey: n.UniqueKey, UniqueUntil: n.UniqueUntil,
			Priority: n.Priority, Delay: n.Delay.Microseconds(), RunAt: micros(n.RunAt), MaxAttempts: n.MaxAttempts,
			Ref: n.Ref, After: after, By: n.By,
		})
	}
	return l
}

// endLine returns the line for the end of a call.
func endLine(c *Call) *line {
	l := &line{
		Number: c.Number, End: c.End.UnixMicro() + 1, Fate: c.Fate, Error: c.Error,
		Changed: c.Changed, Asked: c.Asked, Refused: c.Refused, Left: c.leftOut,
		Settings: c.Settings, Limit: c.Limit, Rate: c.Rate,
	}
	if c.Verb == Steps {
		l.Steps = c.Steps
	}
	if c.Fate == Done && c.Verb == Enqueue {
		for i := range c.New {
			l.Enqueued = append(l.Enqueued, dibs.Enqueued{ID: c.New[i].ID, Existing: c.New[i].Existing})
		}
	}
	var last dibs.Token
	for i := range c.Jobs {
		j := &c.Jobs[i]
		n := lineJob{
			ID: j.ID, Key: j.Key, Sum: j.Sum, Attempt: j.Attempt, Excused: j.Excused, MaxAttempts: j.MaxAttempts, Priority: j.Priority, Group: j.Group,
			RunAt: micros(j.RunAt), ClaimedAt: micros(j.ClaimedAt), LeaseUntil: micros(j.LeaseUntil),
		}
		if j.Token != last {
			n.Token = &j.Token
			last = j.Token
		}
		l.Jobs = append(l.Jobs, n)
	}
	return l
}

// call returns the call whose beginning a line holds.
func (l *line) call(client string, same func(string) string) *Call {
	c := &Call{
		Client: client, Number: l.Number, Verb: l.Verb, Tx: l.Tx, Begin: instant(l.Begin), Fate: Unknown,
		Queue: same(l.Queue), Worker: same(l.Worker), Want: l.Want, Ahead: l.Ahead, Kinds: l.Kinds, Lease: duration(l.Lease),
		Leases: l.Leases, Outcomes: l.Outcomes, IDs: l.IDs,
		Group: same(l.Group), Text: l.Text, Steps: l.Steps,
	}
	if len(l.New) > 0 {
		c.New = make([]New, len(l.New))
	}
	for i := range l.New {
		n := &l.New[i]
		var after []dibs.Dep
		for _, d := range n.After {
			after = append(after, dibs.Dep(d))
		}
		c.New[i] = New{
			Key: n.Key, Sum: n.Sum, Queue: same(n.Queue), Group: same(n.Group), UniqueKey: same(n.UniqueKey), UniqueUntil: dibs.UniqueUntil(same(string(n.UniqueUntil))),
			Priority: n.Priority, Delay: duration(n.Delay), RunAt: instant(n.RunAt), MaxAttempts: n.MaxAttempts,
			Ref: same(n.Ref), After: after, By: n.By,
		}
	}
	return c
}

// end adds the answer that a line holds to the call.
func (l *line) end(c *Call, same func(string) string) {
	c.End, c.Fate, c.Error = instant(l.End), l.Fate, l.Error
	c.Changed, c.Asked, c.Refused = l.Changed, l.Asked, l.Refused
	c.Settings, c.Limit, c.Rate = l.Settings, l.Limit, l.Rate
	if c.Verb == Steps {
		c.Steps = l.Steps
	}
	if len(l.Left) > 0 {
		c.Leases = slices.DeleteFunc(c.Leases, func(held dibs.Lease) bool { return slices.Contains(l.Left, held.ID) })
		c.Outcomes = slices.DeleteFunc(c.Outcomes, func(o dibs.Outcome) bool { return slices.Contains(l.Left, o.ID) })
	}
	for i, e := range l.Enqueued {
		c.New[i].ID, c.New[i].Existing = e.ID, e.Existing
	}
	if len(l.Jobs) > 0 {
		c.Jobs = make([]Job, len(l.Jobs))
	}
	var token dibs.Token
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if j.Token != nil {
			token = *j.Token
		}
		c.Jobs[i] = Job{
			ID: j.ID, Key: j.Key, Sum: j.Sum, Token: token, Attempt: j.Attempt, Excused: j.Excused, MaxAttempts: j.MaxAttempts, Priority: j.Priority, Group: same(j.Group),
			RunAt: instant(j.RunAt), ClaimedAt: instant(j.ClaimedAt), LeaseUntil: instant(j.LeaseUntil),
		}
	}
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
