// Package daemon has the verbs whose processes stay: work and serve.
package daemon

import (
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

// app is one run of the command; the verbs of this package are its methods.
type app struct{ *cmdline.App }

// Commands are the verbs whose processes stay.
func Commands(run *cmdline.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{
		a.Adoptable(newWorkCmd(a)),
		a.Adoptable(newServeCmd(a)),
	}
}
