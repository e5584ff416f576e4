package database

import (
	"context"
	"fmt"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newCheckCmd(a *app) *cobra.Command {
	repair := false
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for anything in the database that must not be",
		Long: `Look for anything in the database that must not be, such as a count that is wrong or
a group over its limit. Each finding is one line; exit code 1 if there is any.

With --repair, repair what is wrong after somebody has deleted or inserted rows with SQL:
counts that are not those of the rows, and groups whose next job is stuck.
Workers may run meanwhile. What was repaired is listed as such, and exit code 1 says that
something else is wrong, which is not repaired. Jobs of a group that was stuck are shown
as blocked until a worker's next claim.

It reads everything, so it takes long on large tables. It locks nothing; but a repair
of a SQLite file makes other writers wait while it reads.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				var repaired []string
				if repair {
					var err error
					if repaired, err = repairs(cmd.Context(), db); err != nil {
						return err
					}
					a.Noted(cmd.Context(), db, "repair", len(repaired), "counts and jobs that were changed with SQL")
				}
				findings, err := db.Check(cmd.Context())
				if err != nil {
					return err
				}
				return a.report(repaired, findings)
			})
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair wrong counts and groups that are stuck")
	return cmd
}

// repairer is a database that can repair damage done by manual SQL.
type repairer interface {
	Repair(ctx context.Context) ([]string, error)
}

// repairs repairs the database and returns a list of repairs, which is not nil.
func repairs(ctx context.Context, db admin.Database) ([]string, error) {
	r, ok := db.(repairer)
	if !ok {
		return nil, fmt.Errorf("check: %T has nothing to repair", db)
	}
	return r.Repair(ctx)
}

// report prints the repairs, nil without --repair, and the findings.
func (a *app) report(repaired, findings []string) error {
	if a.JSON {
		err := a.WriteJSON(struct {
			Repaired []string `json:"repaired,omitzero"`
			Findings []string `json:"findings"`
		}{repaired, append([]string{}, findings...)})
		if err != nil {
			return err
		}
	} else {
		for _, m := range repaired {
			a.Say("repaired: %s", words.Printable(m))
		}
		for _, f := range findings {
			a.Say("%s", words.Printable(f))
		}
		if len(repaired)+len(findings) == 0 {
			a.Say("nothing wrong")
		}
	}
	if len(findings) > 0 {
		return &cmdline.CodeError{Code: cmdline.ExitFailure}
	}
	return nil
}
