// Package queues has the verbs for queues, schedules and workers.
package queues

import (
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

// app is one run of the command; the verbs of this package are its methods.
type app struct{ *cmdline.App }

// Commands are the verbs for queues, schedules and the register of workers.
func Commands(run *cmdline.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{
		newWorkersCmd(a),
		newQueueCmd(a),
		newPauseCmd(a),
		newResumeCmd(a),
		newScheduleCmd(a),
	}
}
