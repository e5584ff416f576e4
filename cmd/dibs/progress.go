package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on stderr, or nothing if stderr is no terminal.
type progress struct{ bar *progressbar.ProgressBar }

// progress shows how many of total jobs are done; total is -1 if it is unknown.
func (a *app) progress(what string, total int) *progress {
	if !a.errTTY {
		return &progress{}
	}
	return &progress{progressbar.NewOptions(total,
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWriter(a.errScreen),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("jobs"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░", BarStart: "", BarEnd: ""}),
	)}
}

// A failure of the bar must not disturb the work, so its errors are ignored.

func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n)
	}
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
