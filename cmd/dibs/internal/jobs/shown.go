package jobs

import (
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// The live view calls the functions below, to show jobs as the verbs of this package do.

// WriteJob writes a job as 'dibs show' does, with the reasons why it does not start.
func WriteJob(run *cmdline.App, j *dibs.RawJob, why []holdups.Hold) {
	(&app{run}).writeJob(j, why, causeIn(j), nil)
}

// causeIn says because of which job a job was cancelled.
func causeIn(j *dibs.RawJob) string {
	if j.Cause == 0 {
		return ""
	}
	return fmt.Sprintf("of job %d", j.Cause)
}

// Attempts are the counted attempts of a job, and their limit.
func Attempts(run *cmdline.App, j *dibs.RawJob) string { return (&app{run}).attempts(j) }

// HoldsOf lists the reasons why a job, or a row of an adopted table, does not start.
func HoldsOf(run *cmdline.App, w *holdups.Look, j *dibs.RawJob) []holdups.Hold {
	return (&app{run}).holdsOf(w, j)
}

// StatsJSON are a queue's statistics as 'dibs stats' writes them.
func StatsJSON(run *cmdline.App, s admin.QueueStats, w *holdups.Look) any {
	return (&app{run}).statsJSON(s, w)
}
