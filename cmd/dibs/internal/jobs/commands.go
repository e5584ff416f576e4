// Package jobs has the verbs that add jobs, show and change them, and take them for scripts.
package jobs

import (
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

// app is one run of the command; the verbs of this package are its methods.
type app struct{ *cmdline.App }

// Commands are the verbs that add jobs, show and change them, and take them for scripts.
func Commands(run *cmdline.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{
		newEnqueueCmd(a),
		a.Adoptable(newLsCmd(a)),
		a.Adoptable(newShowCmd(a)),
		a.Adoptable(newWaitCmd(a)),
		newFlowCmd(a),
		newBeforeCmd(a),
		cmdline.OwnJobsOnly(newEditCmd(a)),
		cmdline.OwnJobsOnly(newCancelCmd(a)),
		a.Adoptable(newRequeueCmd(a)),
		cmdline.OwnJobsOnly(newPruneCmd(a)),
		a.Adoptable(newClaimCmd(a)),
		a.Adoptable(newExtendCmd(a)),
		a.Adoptable(newFinishCmd(a)),
		a.Adoptable(newStatsCmd(a)),
		newFailuresCmd(a),
	}
}
