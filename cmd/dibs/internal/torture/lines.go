package torture

import (
	"fmt"

	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Lines describes the calls of a violation, one line each.
func Lines(v *history.Violation) []string {
	var lines []string
	ends, attempts := endsOf(v.Calls), attemptsOf(v.Calls, v.Job)
	for _, c := range v.Calls {
		text := plainText(c)
		s := Story{Job: v.Job, attempts: attempts}
		if s.add(c, fateOf(c, ends)); len(s.Events) > 0 {
			text = s.Events[0].Text
		}
		lines = append(lines, fmt.Sprintf("%9.3f s  %-14s %s", c.Begin.Sub(v.Calls[0].Begin).Seconds(), c.Client, text))
	}
	return lines
}

// plainText describes a call without regard to a particular job.
func plainText(c *history.Call) string {
	text := string(c.Verb)
	if c.Queue != "" {
		text += " " + c.Queue
	}
	if n := len(c.New) + len(c.Jobs) + len(c.Leases) + len(c.Outcomes) + len(c.IDs); n > 0 {
		text += fmt.Sprintf(", %d jobs", n)
	}
	if c.Group != "" {
		text += ", group " + c.Group
	}
	if c.Limit != nil {
		text += fmt.Sprintf(": %d", *c.Limit)
	}
	if c.Rate != nil {
		text += fmt.Sprintf(": %+v", *c.Rate)
	}
	if c.Tx != "" {
		text += ", transaction " + c.Tx
	}
	if c.Text != "" {
		text += ": " + c.Text
	}
	return fmt.Sprintf("%s (%s)", text, c.Fate)
}
