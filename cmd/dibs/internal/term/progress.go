package term

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress is a bar on stderr, or nothing if stderr is no terminal.
type Progress struct{ bar *progressbar.ProgressBar }

// Progress shows how many of total jobs are done; total is -1 if it is unknown.
func (t *Terminal) Progress(what string, total int) *Progress {
	if !t.ErrTTY {
		return &Progress{}
	}
	return &Progress{progressbar.NewOptions(total,
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWriter(t.ErrScreen),
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

func (p *Progress) Add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n)
	}
}

func (p *Progress) Clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *Progress) Close() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
