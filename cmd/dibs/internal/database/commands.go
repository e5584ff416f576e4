// Package database has the verbs for a database as a whole: its schema, its health, tables to adopt.
package database

import (
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

// app is one run of the command; the verbs of this package are its methods.
type app struct{ *cmdline.App }

// Commands are the verbs for a database as a whole.
func Commands(run *cmdline.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{
		newAdoptCmd(a),
		newMigrateCmd(a),
		newDoctorCmd(a),
		newCheckCmd(a),
		newLocksCmd(a),
	}
}
