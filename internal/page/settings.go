package page

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// field is one setting of a queue in a form.
type field struct {
	Name, Label, Help string
	Choices           []string // nil: a text
	Value             string

	get func(dibs.Queue) string
	set func(q *dibs.Queue, text string) error
}

// settingsFields are the settings that the form of a queue has.
var settingsFields = []field{
	number("concurrency", "Jobs at once", "over all workers; 0: no limit; 1: one after the other", func(q *dibs.Queue) *int { return &q.Concurrency }),
	{
		Name: "rate", Label: "Rate of starts", Help: "such as 100/min or 10/90s, over all workers; 0: no limit",
		get: func(q dibs.Queue) string { return wire.FormatRate(q.Rate) },
		set: setRate,
	},
	number("burst", "Burst", "starts that may have been saved up, beyond the rate", func(q *dibs.Queue) *int { return &q.Rate.Burst }),
	number("group_limit", "Jobs of one group at once", "for groups that have no limit of their own", func(q *dibs.Queue) *int { return &q.GroupLimit }),
	{
		Name: "strict", Label: "Strict order in groups", Help: "a job that waits for its retry holds its place in its group", Choices: []string{"no", "yes"},
		get: func(q dibs.Queue) string { return map[bool]string{false: "no", true: "yes"}[q.Strict] },
		set: func(q *dibs.Queue, text string) error { q.Strict = text == "yes"; return nil },
	},
	{
		Name: "order", Label: "Order", Help: "of claims, within a priority: first in, first out, or last in, first out", Choices: []string{"fifo", "lifo"},
		get: func(q dibs.Queue) string { return string(q.Order) },
		set: func(q *dibs.Queue, text string) error { q.Order = dibs.Order(text); return nil },
	},
	span("lease", "Lease", "how long after its last sign of life a worker loses its jobs", func(q *dibs.Queue) *time.Duration { return &q.Lease }),
	number("max_attempts", "Attempts", "after so many failures a job is dead; for jobs that come later", func(q *dibs.Queue) *int { return &q.MaxAttempts }),
	span("backoff_base", "First delay", "before the first retry", func(q *dibs.Queue) *time.Duration { return &q.Backoff.Base }),
	fraction("backoff_factor", "Factor of delays", "each is so many times as long as the one before", func(q *dibs.Queue) *float64 { return &q.Backoff.Factor }),
	span("backoff_max", "Longest delay", "between two attempts", func(q *dibs.Queue) *time.Duration { return &q.Backoff.Max }),
	fraction("backoff_jitter", "Spread of delays", "0 to 1: the part by which they vary at random", func(q *dibs.Queue) *float64 { return &q.Backoff.Jitter }),
	span("keep_completed", "Keep completed jobs", "so long; 0s: not at all", func(q *dibs.Queue) *time.Duration { return &q.KeepCompleted }),
	span("keep_dead", "Keep dead jobs", "so long; 0s: not at all", func(q *dibs.Queue) *time.Duration { return &q.KeepDead }),
	span("keep_cancelled", "Keep cancelled jobs", "so long; 0s: not at all", func(q *dibs.Queue) *time.Duration { return &q.KeepCancelled }),
	number("payload_limit", "Longest payload", "in bytes", func(q *dibs.Queue) *int { return &q.PayloadLimit }),
}

func number(name, label, help string, of func(*dibs.Queue) *int) field {
	return field{
		Name: name, Label: label, Help: help,
		get: func(q dibs.Queue) string { return strconv.Itoa(*of(&q)) },
		set: func(q *dibs.Queue, text string) (err error) {
			if *of(q), err = strconv.Atoi(text); err != nil {
				return &dibs.InvalidError{Field: name, Reason: fmt.Sprintf("must be a whole number, got %.40q", text)}
			}
			return nil
		},
	}
}

func span(name, label, help string, of func(*dibs.Queue) *time.Duration) field {
	return field{
		Name: name, Label: label, Help: help,
		get: func(q dibs.Queue) string { return wire.FormatDuration(*of(&q)) },
		set: func(q *dibs.Queue, text string) (err error) {
			if *of(q), err = wire.ParseDuration(text); err != nil {
				return &dibs.InvalidError{Field: name, Reason: err.Error()}
			}
			return nil
		},
	}
}

func fraction(name, label, help string, of func(*dibs.Queue) *float64) field {
	return field{
		Name: name, Label: label, Help: help,
		get: func(q dibs.Queue) string { return strconv.FormatFloat(*of(&q), 'g', -1, 64) },
		set: func(q *dibs.Queue, text string) (err error) {
			if *of(q), err = strconv.ParseFloat(text, 64); err != nil {
				return &dibs.InvalidError{Field: name, Reason: fmt.Sprintf("must be a number, got %.40q", text)}
			}
			return nil
		},
	}
}

func setRate(q *dibs.Queue, text string) error {
	r, err := wire.ParseRate(text)
	if err != nil {
		return &dibs.InvalidError{Field: "rate", Reason: err.Error()}
	}
	q.Rate.N, q.Rate.Per = r.N, r.Per
	return nil
}

// fieldsOf are the settings of a queue in a form.
func fieldsOf(q dibs.Queue) []field {
	list := make([]field, len(settingsFields))
	for i, f := range settingsFields {
		f.Value = f.get(q)
		list[i] = f
	}
	return list
}

// difference is a setting that a form changes.
type difference struct {
	Name, Label, Old, New string
}

type settingsView struct {
	Queue   string
	Group   string // empty: settings of the queue
	Changes []difference
	Back    string
}

// changeSettings shows what a form would change. Once that is confirmed it changes it.
func (p *Page) changeSettings(r *request) (to, done string, err error) {
	name := r.PathValue("queue")
	if err := r.mayChange(name); err != nil {
		return "", "", err
	}
	old, err := p.queueNow(r, name)
	if err != nil {
		return "", "", err
	}
	changed := old
	for _, f := range settingsFields {
		given, ok := r.PostForm[f.Name]
		if !ok || len(given) != 1 || r.PostForm.Has("was-"+f.Name) && given[0] == r.PostForm.Get("was-"+f.Name) {
			continue // as the form had it: somebody else may have changed it since
		}
		if text := strings.TrimSpace(given[0]); text != f.get(old) {
			if err := f.set(&changed, text); err != nil {
				return "", "", err
			}
		}
	}
	if changed.Rate.N == 0 {
		changed.Rate = dibs.Rate{}
	}
	v := settingsView{Queue: name, Back: "/queues/" + segment(name)}
	for _, f := range settingsFields {
		if f.get(old) != f.get(changed) {
			v.Changes = append(v.Changes, difference{f.Name, f.Label, f.get(old), f.get(changed)})
		}
	}
	if len(v.Changes) == 0 {
		return v.Back, "Nothing to change.", nil
	}
	if r.PostFormValue("sure") == "" {
		p.write(r, http.StatusOK, "settings", v)
		return answered, "", nil
	}
	if _, err := p.DB.SetQueue(r.Context(), name, changeOf(old, changed)); err != nil {
		return "", "", err
	}
	p.audit(r, "change", len(v.Changes), "queue "+name+": "+listed(v.Changes))
	return v.Back, fmt.Sprintf("Changed %s of the queue %s.", plural(len(v.Changes), "setting"), oneLine(name)), nil
}

// changeOf names the settings that differ, so that nobody else's change of another is undone.
func changeOf(old, changed dibs.Queue) (c dibs.QueueChange) {
	c.Concurrency = differs(old.Concurrency, changed.Concurrency)
	c.Rate = differs(old.Rate, changed.Rate)
	c.GroupLimit = differs(old.GroupLimit, changed.GroupLimit)
	c.Strict = differs(old.Strict, changed.Strict)
	c.Order = differs(old.Order, changed.Order)
	c.Lease = differs(old.Lease, changed.Lease)
	c.MaxAttempts = differs(old.MaxAttempts, changed.MaxAttempts)
	c.Backoff = differs(old.Backoff, changed.Backoff)
	c.KeepCompleted = differs(old.KeepCompleted, changed.KeepCompleted)
	c.KeepDead = differs(old.KeepDead, changed.KeepDead)
	c.KeepCancelled = differs(old.KeepCancelled, changed.KeepCancelled)
	c.PayloadLimit = differs(old.PayloadLimit, changed.PayloadLimit)
	return c
}

// differs is a new value, or nil where it is the old one.
func differs[T comparable](old, changed T) *T {
	if old == changed {
		return nil
	}
	return &changed
}

// listed says what was changed, for the page of changes.
func listed(changes []difference) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.Name + " " + c.Old + " to " + c.New
	}
	return strings.Join(texts, ", ")
}
