package page

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// field is a setting of a queue, as a form shows it.
type field struct {
	Name, Label, Help string
	Choices           []string // values to choose from; nil: any text
	Value             string

	get func(dibs.Queue) string
	set func(q *dibs.Queue, text string) error
}

// settingsFields lists the settings in the form of a queue.
var settingsFields = []field{
	number("concurrency", "Jobs at once", "over all workers; 0: no limit; 1: one after the other", func(q *dibs.Queue) *int { return &q.Concurrency }),
	pace("rate", "Rate of starts", "such as 100/min or 10/90s, over all workers; 0: no limit", func(q *dibs.Queue) *dibs.Rate { return &q.Rate }),
	number("burst", "Burst", "starts that may have been saved up, beyond the rate", func(q *dibs.Queue) *int { return &q.Rate.Burst }),
	number("group_limit", "Jobs of one group at once", "for groups that have no limit of their own", func(q *dibs.Queue) *int { return &q.GroupLimit }),
	pace("group_rate", "Rate of each group", "of starts, for groups that have no rate of their own; 0: no limit", func(q *dibs.Queue) *dibs.Rate { return &q.GroupRate }),
	number("group_burst", "Burst of each group", "starts that may have been saved up, beyond that rate", func(q *dibs.Queue) *int { return &q.GroupRate.Burst }),
	{
		Name: "strict", Label: "Strict order in groups", Help: "a job that waits for its retry holds its place in its group", Choices: []string{"no", "yes"},
		get: func(q dibs.Queue) string { return map[bool]string{false: "no", true: "yes"}[q.Strict] },
		set: setStrict,
	},
	{
		Name: "order", Label: "Order", Help: "of claims, within a priority: first in, first out, or last in, first out", Choices: []string{"fifo", "lifo"},
		get: func(q dibs.Queue) string { return string(q.Order) },
		set: func(q *dibs.Queue, text string) error { q.Order = dibs.Order(text); return nil },
	},
	span("lease", "Lease", "how long after its last sign of life a worker loses its jobs", func(q *dibs.Queue) *time.Duration { return &q.Lease }),
	span("job_timeout", "Job timeout", "how long an attempt may run, also one that runs now: then its handler is told to stop, and it has failed, which counts; 0s: no limit", func(q *dibs.Queue) *time.Duration { return &q.JobTimeout }),
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

func pace(name, label, help string, of func(*dibs.Queue) *dibs.Rate) field {
	return field{
		Name: name, Label: label, Help: help,
		get: func(q dibs.Queue) string { return wire.FormatRate(*of(&q)) },
		set: func(q *dibs.Queue, text string) error {
			r, err := wire.ParseRate(text)
			if err != nil {
				return &dibs.InvalidError{Field: name, Reason: err.Error()}
			}
			of(q).N, of(q).Per = r.N, r.Per
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

func setStrict(q *dibs.Queue, text string) error {
	if text != "yes" && text != "no" {
		return &dibs.InvalidError{Field: "strict", Reason: fmt.Sprintf("must be yes or no, got %.40q", text)}
	}
	q.Strict = text == "yes"
	return nil
}

// fieldsOf lists the settings of a queue, with their values, for a form.
func fieldsOf(q dibs.Queue) []field {
	list := make([]field, len(settingsFields))
	for i, f := range settingsFields {
		f.Value = f.get(q)
		list[i] = f
	}
	return list
}

// difference is a setting that a form would change.
type difference struct {
	Name, Label, Old, New string
}

type settingsView struct {
	Queue   string
	Group   string // empty: the settings are those of the queue
	Changes []difference
	Back    string
}

// changeSettings shows what a form would change. When the change is confirmed, it is made.
func (p *Page) changeSettings(r *request) (to, done string, err error) {
	name := r.PathValue("queue")
	if err := r.mayChange(name); err != nil {
		return "", "", err
	}
	q, err := p.queueNow(r, name)
	if err != nil {
		return "", "", err
	}
	v := settingsView{Queue: name, Back: "/queues/" + segment(name)}
	fill := func(q *dibs.Queue) (err error) {
		v.Changes, err = fillSettings(r, q)
		return err
	}
	sure := r.PostFormValue("sure") != ""
	if sure {
		_, err = p.DB.ChangeQueue(r.Context(), name, fill)
	} else {
		err = fill(&q)
	}
	switch {
	case err != nil:
		return "", "", err
	case len(v.Changes) == 0:
		return v.Back, "Nothing to change.", nil
	case !sure:
		p.write(r, http.StatusOK, "settings", v)
		return answered, "", nil
	}
	p.audit(r, "change", len(v.Changes), "queue "+name+": "+listed(v.Changes))
	return v.Back, fmt.Sprintf("Changed %s of the queue %s.", plural(len(v.Changes), "setting"), oneLine(name)), nil
}

type deleteView struct{ Queue string }

// deleteQueue asks whether to delete a queue. When that is confirmed, the queue is deleted.
func (p *Page) deleteQueue(r *request) (to, done string, err error) {
	name := r.PathValue("queue")
	if err := r.mayChange(name); err != nil {
		return "", "", err
	}
	if _, err := p.queueNow(r, name); err != nil {
		return "", "", err
	}
	if r.PostFormValue("sure") == "" {
		p.write(r, http.StatusOK, "delete", deleteView{name})
		return answered, "", nil
	}
	if err := p.DB.DeleteQueue(r.Context(), name, false); err != nil {
		return "", "", err
	}
	p.audit(r, "delete", 1, "queue "+name)
	return "/", "The queue " + oneLine(name) + " is deleted.", nil
}

// fillSettings sets the settings of a queue that a form has, and lists what differs.
func fillSettings(r *request, q *dibs.Queue) (changes []difference, err error) {
	old := *q
	for _, f := range settingsFields {
		given, ok := r.PostForm[f.Name]
		if !ok || len(given) != 1 || r.PostForm.Has("was-"+f.Name) && given[0] == r.PostForm.Get("was-"+f.Name) {
			continue // the viewer has not touched this field: if its value is another one by now, somebody else has changed it
		}
		if text := strings.TrimSpace(given[0]); text != f.get(old) {
			if err := unchangedSince(r, f.Name, f.Label, f.get(old)); err != nil {
				return nil, err
			}
			if err := f.set(q, text); err != nil {
				return nil, err
			}
		}
	}
	if err := cmp.Or(withoutRate("burst", old.Rate, &q.Rate), withoutRate("group_burst", old.GroupRate, &q.GroupRate)); err != nil {
		return nil, err
	}
	for _, f := range settingsFields {
		if f.get(old) != f.get(*q) {
			changes = append(changes, difference{f.Name, f.Label, f.get(old), f.get(*q)})
		}
	}
	return changes, nil
}

// unchangedSince refuses a confirmed change if the setting no longer has the value that the page
// showed, as the viewer has not seen its new value.
func unchangedSince(r *request, name, label, now string) error {
	was := r.PostFormValue("was-" + name)
	if r.PostFormValue("sure") == "" || !r.PostForm.Has("was-"+name) || now == was {
		return nil
	}
	return &refusal{http.StatusConflict, fmt.Sprintf("Somebody else has changed “%s” meanwhile: it was %s and is %s now. Nothing was changed here: go back and look at it again.",
		label, oneLine(words.Clip(was, 40)), now)}
}

// withoutRate removes the burst if the rate was removed, and refuses a burst without a rate.
func withoutRate(field string, old dibs.Rate, rate *dibs.Rate) error {
	if rate.N != 0 {
		return nil
	}
	if rate.Burst != 0 && rate.Burst != old.Burst {
		return &dibs.InvalidError{Field: field, Reason: "needs a rate; without one there is no limit"}
	}
	*rate = dibs.Rate{}
	return nil
}

// listed writes the differences as one text, for the page of changes.
func listed(changes []difference) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.Name + " " + c.Old + " to " + c.New
	}
	return strings.Join(texts, ", ")
}
