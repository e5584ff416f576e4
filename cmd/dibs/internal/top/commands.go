package top

import (
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

// app is one run of the command; the verbs of this package are its methods.
type app struct{ *cmdline.App }

// Commands is the verb that looks at queues live.
func Commands(run *cmdline.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{
		a.Adoptable(newTopCmd(a)),
	}
}
