package queues

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// scheduleFlags holds the flags that describe a schedule.
type scheduleFlags struct {
	cron  string
	every cmdline.DurationFlag
	zone  string

	queue, kind, payload, metadata, group string
	priority, maxAttempts                 int

	jitter      cmdline.DurationFlag
	missed      string
	missedLimit int
	skipOverlap bool
	start, end  cmdline.NoTimeFlag
	paused      bool
}

func (f *scheduleFlags) addSpec(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.Var(&f.every, "every", "interval between ticks, at least 1s")
	fs.StringVar(&f.cron, "cron", "", "`SPEC` of the ticks: five or six fields, or a word such as @daily")
	fs.StringVar(&f.zone, "zone", "UTC", "time `ZONE` of --cron, such as Europe/Berlin")
	fs.Var(&f.start, "start", "`TIME` before which there is no tick; without a zone it is this machine's;\n'' for none")
	fs.Var(&f.end, "end", "`TIME` after which there is no tick; '' for none")
	cmd.MarkFlagsMutuallyExclusive("every", "cron")
}

func (f *scheduleFlags) add(cmd *cobra.Command) {
	f.addSpec(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.queue, "queue", "q", "", "`QUEUE` of the jobs")
	fs.StringVarP(&f.kind, "kind", "k", "", "`KIND` of the jobs")
	fs.StringVar(&f.payload, "payload", "null", "of the jobs, `JSON`")
	fs.StringVar(&f.metadata, "metadata", "", "of the jobs, a small `JSON` object")
	fs.IntVarP(&f.priority, "priority", "p", dibs.DefaultPriority, "of the jobs, `0-32767`, small first")
	fs.IntVar(&f.maxAttempts, "max-attempts", 0, "of the jobs; 0: the queue's")
	fs.StringVarP(&f.group, "group", "g", "", "`GROUP` of the jobs")
	fs.Var(&f.jitter, "jitter", "start each job up to this much later, at random")
	fs.StringVar(&f.missed, "missed", string(dibs.MissedOnce), "what becomes of ticks that passed while no process ran: once (one\njob for all of them), skip or all")
	fs.IntVar(&f.missedLimit, "missed-limit", dibs.DefaultMissedLimit, "for --missed all: how many jobs at most")
	fs.BoolVar(&f.skipOverlap, "skip-overlap", false, "no job while the one of the tick before has not ended")
}

// apply makes the changes that the flags ask for.
func (f *scheduleFlags) apply(cmd *cobra.Command, s *dibs.Schedule) error {
	changed := cmd.Flags().Changed
	for name, set := range map[string]func(){
		"every":        func() { s.Spec = "every " + shortDuration(time.Duration(f.every)) },
		"cron":         func() { s.Spec = f.cron },
		"zone":         func() { s.Zone = f.zone },
		"queue":        func() { s.Queue = f.queue },
		"kind":         func() { s.Kind = f.kind },
		"payload":      func() { s.Payload = json.RawMessage(f.payload) },
		"metadata":     func() { s.Metadata = json.RawMessage(f.metadata) },
		"priority":     func() { s.Priority = &f.priority },
		"max-attempts": func() { s.MaxAttempts = f.maxAttempts },
		"group":        func() { s.Group = f.group },
		"jitter":       func() { s.Jitter = time.Duration(f.jitter) },
		"missed-limit": func() { s.MissedLimit = f.missedLimit },
		"skip-overlap": func() { s.SkipOverlap = f.skipOverlap },
		"start":        func() { s.Start = f.start.Time() },
		"end":          func() { s.End = f.end.Time() },
		"paused":       func() { s.Paused = f.paused },
	} {
		if changed(name) {
			set()
		}
	}
	if changed("missed") {
		if s.Missed = dibs.Missed(f.missed); s.Missed != dibs.MissedAll && !changed("missed-limit") {
			s.MissedLimit = 0
		}
	}
	if changed("cron") && f.cron == "" {
		return cmdline.Usagef(cmd, "--cron needs a spec, such as '0 9 * * mon-fri'")
	}
	if every := time.Duration(f.every); changed("every") && (every < dibs.MinEvery || every > dibs.MaxDelay) {
		return cmdline.Usagef(cmd, "--every must be %s to %s, got %s", wire.FormatDuration(dibs.MinEvery), wire.FormatDuration(dibs.MaxDelay), wire.FormatDuration(every))
	}
	return nil
}

// typed names the flag in an error about a field of a schedule that a flag has set.
func (f *scheduleFlags) typed(cmd *cobra.Command, err error) error {
	var rule *dibs.InvalidError
	if !errors.As(err, &rule) {
		return err
	}
	field, ofSchedule := strings.CutPrefix(rule.Field, "schedule.")
	flag := strings.ReplaceAll(field, "_", "-")
	if field == "spec" {
		flag = "cron" // apply has checked --every
	}
	if !ofSchedule || !cmd.Flags().Changed(flag) {
		return err
	}
	return &dibs.InvalidError{Field: "--" + flag, Reason: rule.Reason}
}

// shortDuration is d without parts that are zero, in the form of time.ParseDuration.
func shortDuration(d time.Duration) string {
	s := d.String()
	for _, zero := range [][2]string{{"m0s", "m"}, {"h0m", "h"}} {
		if strings.HasSuffix(s, zero[0]) {
			s = strings.TrimSuffix(s, zero[0]) + zero[1]
		}
	}
	return s
}

func (a *app) listSchedules(list []dibs.Schedule) error {
	if a.JSON {
		return term.WriteEach(&a.Terminal, list, func(s dibs.Schedule) any { return wire.ScheduleOf(s) })
	}
	if len(list) == 0 {
		fmt.Fprintln(a.Stdout, "no schedules yet; 'dibs schedule add' makes them")
		return nil
	}
	t := a.TableOf("SCHEDULE", "SPEC", "ZONE", "QUEUE", "KIND", "NEXT", "LAST TICK", "#LAST JOB", "OWNER")
	for _, s := range list {
		last, job, owner := "-", "-", "-"
		if !s.LastTick.IsZero() {
			last = words.Since(time.Now(), s.LastTick)
		}
		if s.LastJob > 0 {
			job = fmt.Sprint(s.LastJob)
		}
		if s.Owner != "" {
			owner = a.Cell(s.Owner, 16)
		}
		t.AppendRow([]any{a.Cell(s.Name, 24), a.Cell(s.Spec, 24), a.Cell(s.Zone, 20), a.Cell(s.Queue, 20), a.Cell(s.Kind, 20), a.tickText(s, s.Next), last, job, owner})
	}
	t.Render()
	return nil
}

// tickText is a tick in the schedule's zone, or why there is none.
func (a *app) tickText(s dibs.Schedule, t time.Time) string {
	switch {
	case !t.IsZero() && t.Equal(s.Next) && holdups.Late(s, time.Now()):
		return inZone(s, t).Format("2006-01-02 15:04:05 MST") + a.Paint(term.Red, " ("+words.Since(time.Now(), t)+", late)")
	case !t.IsZero():
		return inZone(s, t).Format("2006-01-02 15:04:05 MST") + a.Paint(term.Faint, " ("+words.Since(time.Now(), t)+")")
	case s.Paused:
		return a.Paint(term.Yellow, "paused")
	}
	return "none"
}

func inZone(s dibs.Schedule, t time.Time) time.Time {
	if z, err := time.LoadLocation(cmp.Or(s.Zone, "UTC")); err == nil {
		return t.In(z)
	}
	return t
}

func (a *app) showSchedule(ctx context.Context, db admin.Database, s dibs.Schedule) error {
	if a.JSON {
		return a.WriteJSON(wire.ScheduleOf(s))
	}
	title := a.Paint(term.Bold, words.Printable(s.Name))
	if s.Paused {
		title += a.Paint(term.Yellow, "  paused")
	}
	raw, _ := s.Payload.(json.RawMessage)
	lines := []term.Entry{
		{Name: "spec", Value: words.Printable(s.Spec) + " (" + words.Printable(s.Zone) + ")"},
		{Name: "queue", Value: words.Printable(s.Queue)},
		{Name: "kind", Value: words.Printable(s.Kind)},
		{Name: "payload", Value: term.IndentJSON(raw)},
		{Name: "metadata", Value: term.IndentJSON(s.Metadata)},
		{Name: "group", Value: words.Printable(s.Group)},
	}
	add := func(set bool, name string, value func() string) {
		if set {
			lines = append(lines, term.Entry{Name: name, Value: value()})
		}
	}
	tick := func(t time.Time) func() string { return func() string { return a.tickText(s, t) } }
	add(s.Priority != nil, "priority", func() string { return fmt.Sprint(*s.Priority) })
	add(s.MaxAttempts > 0, "attempts", func() string { return fmt.Sprint(s.MaxAttempts) })
	add(s.Jitter > 0, "jitter", func() string { return wire.FormatDuration(s.Jitter) })
	add(true, "missed", func() string {
		if s.Missed == dibs.MissedAll {
			return fmt.Sprintf("%s, %d at most", s.Missed, s.MissedLimit)
		}
		return string(s.Missed)
	})
	add(s.SkipOverlap, "overlap", func() string { return "no job while the one before has not ended" })
	add(!s.Start.IsZero(), "start", tick(s.Start))
	add(!s.End.IsZero(), "end", tick(s.End))
	add(true, "owner", func() string { return words.Printable(s.Owner) })
	add(!s.LastTick.IsZero(), "last tick", tick(s.LastTick))
	add(s.LastJob > 0, "last job", func() string { return fmt.Sprint(s.LastJob) })
	next := []time.Time{s.Next}
	if !s.Next.IsZero() {
		after, err := db.NextTicks(ctx, s, 3)
		if err != nil {
			return err
		}
		if !holdups.Late(s, time.Now()) {
			next = nil
		}
		next = append(next, after...)
	}
	texts := make([]string, len(next))
	for i, t := range next {
		texts[i] = a.tickText(s, t)
	}
	a.Block(title, append(lines, term.Entry{Name: "next", Value: strings.Join(texts, "\n"+term.BelowValue)}))
	return nil
}

func (a *app) listTicks(s dibs.Schedule, next []time.Time) error {
	for _, t := range next {
		if a.JSON {
			line := map[string]any{"tick": t}
			if t.Equal(s.Next) && holdups.Late(s, time.Now()) {
				line["late"] = true
			}
			if err := a.WriteJSON(line); err != nil {
				return err
			}
			continue
		}
		a.Say("%s", a.tickText(s, t))
	}
	if len(next) == 0 && !a.JSON {
		a.Say("none")
	}
	return nil
}
