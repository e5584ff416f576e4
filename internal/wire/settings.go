package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// Setting is one setting of a queue as people read and write it: in the form of the page, and as a flag of 'dibs queue'.
type Setting struct {
	Name  string // as in JSON, or of a part that JSON has inside another object
	Flag  string // of 'dibs queue'
	Label string // of the field in a form
	Help  string // what it is; after a semicolon, what some of its values mean
	// of is where a queue has it: a pointer to a bool, int, float64, duration or order, or to a rate without its burst.
	of func(*dibs.Queue) any
}

// QueueSettings are all settings of a queue but the pause, in the order in which they are shown. A rate comes before its
// burst.
var QueueSettings = []Setting{
	{"concurrency", "concurrency", "Jobs at once", "jobs running at once over all workers; 0: no limit", func(q *dibs.Queue) any { return &q.Concurrency }},
	{"rate", "rate", "Rate of starts", "most starts over all workers, as 100/min or 10/90s; 0: no limit", func(q *dibs.Queue) any { return &q.Rate }},
	{"burst", "burst", "Burst", "how many starts more may have been saved up", func(q *dibs.Queue) any { return &q.Rate.Burst }},
	{"group_limit", "group-limit", "Jobs of one group at once", "jobs of one group running at once", func(q *dibs.Queue) any { return &q.GroupLimit }},
	{"group_rate", "group-rate", "Rate of each group", "the rate of each group that has none of its own; 0: no limit", func(q *dibs.Queue) any { return &q.GroupRate }},
	{"group_burst", "group-burst", "Burst of each group", "how many starts more each group may have saved up", func(q *dibs.Queue) any { return &q.GroupRate.Burst }},
	{"strict", "strict", "Strict order in groups", "a job that waits for its retry holds its place in its group", func(q *dibs.Queue) any { return &q.Strict }},
	{"order", "order", "Order", "of claims: fifo, lifo, or fair between groups", func(q *dibs.Queue) any { return &q.Order }},
	{"lease", "lease", "Lease", "how long a claim lasts unless extended", func(q *dibs.Queue) any { return &q.Lease }},
	{"job_timeout", "job-timeout", "Job timeout", "how long an attempt may run, also one that runs now; then it has failed, which counts; 0s: no limit", func(q *dibs.Queue) any { return &q.JobTimeout }},
	{"max_attempts", "max-attempts", "Attempts", "attempts that a job has; for jobs that come later", func(q *dibs.Queue) any { return &q.MaxAttempts }},
	{"backoff_base", "backoff", "First delay", "delay before the first retry", func(q *dibs.Queue) any { return &q.Backoff.Base }},
	{"backoff_factor", "backoff-factor", "Factor of delays", "how much longer each delay is than the one before", func(q *dibs.Queue) any { return &q.Backoff.Factor }},
	{"backoff_max", "backoff-max", "Longest delay", "the longest delay", func(q *dibs.Queue) any { return &q.Backoff.Max }},
	{"backoff_jitter", "backoff-jitter", "Spread of delays", "by which part, 0 to 1, delays vary at random", func(q *dibs.Queue) any { return &q.Backoff.Jitter }},
	{"keep_completed", "keep-completed", "Keep completed jobs", "how long completed jobs stay readable; 0s: not at all", func(q *dibs.Queue) any { return &q.KeepCompleted }},
	{"keep_dead", "keep-dead", "Keep dead jobs", "how long dead jobs stay readable; 0s: not at all", func(q *dibs.Queue) any { return &q.KeepDead }},
	{"keep_cancelled", "keep-cancelled", "Keep cancelled jobs", "how long cancelled jobs stay readable; 0s: not at all", func(q *dibs.Queue) any { return &q.KeepCancelled }},
	{"payload_limit", "payload-limit", "Longest payload", "bytes that a payload may have", func(q *dibs.Queue) any { return &q.PayloadLimit }},
}

// Text is the setting of a queue in the form that Set reads.
func (s Setting) Text(q dibs.Queue) string {
	switch v := s.of(&q).(type) {
	case *bool:
		return map[bool]string{false: "no", true: "yes"}[*v]
	case *int:
		return strconv.Itoa(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *time.Duration:
		return FormatDuration(*v)
	case *dibs.Order:
		return string(*v)
	default:
		return FormatRate(*v.(*dibs.Rate))
	}
}

// Set reads a text into the setting of a queue. A rate of 0 takes its burst away too. An error is a dibs.InvalidError;
// whether the queue may have the value is not checked.
func (s Setting) Set(q *dibs.Queue, text string) error {
	var reason string
	switch v := s.of(q).(type) {
	case *bool:
		b, err := strconv.ParseBool(text)
		if *v = b || text == "yes"; err != nil && text != "yes" && text != "no" {
			reason = fmt.Sprintf("must be yes or no, got %.40q", text)
		}
	case *int:
		n, err := strconv.Atoi(text)
		if *v = n; err != nil {
			reason = fmt.Sprintf("must be a whole number, got %.40q", text)
		}
	case *float64:
		n, err := strconv.ParseFloat(text, 64)
		if *v = n; err != nil {
			reason = fmt.Sprintf("must be a number, got %.40q", text)
		}
	case *time.Duration:
		d, err := ParseDuration(text)
		if *v = d; err != nil {
			reason = err.Error()
		}
	case *dibs.Order:
		*v = dibs.Order(text)
	case *dibs.Rate:
		r, err := ParseRate(text)
		if err != nil {
			reason = err.Error()
		} else if r.N != 0 {
			r.Burst = v.Burst
		}
		*v = r
	}
	if reason != "" {
		return &dibs.InvalidError{Field: s.Name, Reason: reason}
	}
	return nil
}

// Choices are the texts that the setting can have; nil: any.
func (s Setting) Choices() []string {
	switch s.of(new(dibs.Queue)).(type) {
	case *bool:
		return []string{"no", "yes"}
	case *dibs.Order:
		return []string{string(dibs.FIFO), string(dibs.LIFO), string(dibs.Fair)}
	}
	return nil
}

// Type is a word for what Set reads.
func (s Setting) Type() string {
	switch s.of(new(dibs.Queue)).(type) {
	case *bool:
		return "bool"
	case *int:
		return "int"
	case *float64:
		return "float"
	case *time.Duration:
		return "duration"
	case *dibs.Rate:
		return "rate"
	}
	return "string"
}

// Shown is the setting of a queue for people, with a word for no limit.
func (s Setting) Shown(q dibs.Queue) string {
	text := s.Text(q)
	if strings.HasSuffix(s.Help, "; "+text+": no limit") {
		return "no limit"
	}
	return text
}

// Means is what the setting is, without what its values mean.
func (s Setting) Means() string {
	what, _, _ := strings.Cut(s.Help, "; ")
	return what
}
