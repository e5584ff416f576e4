package main

import (
	"github.com/dibs-queue/dibs"
	"github.com/spf13/cobra"
)

func newCheckCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Look for anything in the database that must not be",
		Long: `Look for anything in the database that must not be, such as a count that is wrong or
a group over its limit. Each finding is one line; exit code 1 if there is any.

It reads everything, so it takes long on large tables. It locks nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withExisting(cmd.Context(), func(db dibs.Database) error {
				findings, err := db.Check(cmd.Context())
				if err != nil {
					return err
				}
				return a.report(findings)
			})
		},
	}
}

func (a *app) report(findings []string) error {
	if a.json {
		if findings == nil {
			findings = []string{}
		}
		err := a.writeJSON(struct {
			Findings []string `json:"findings"`
		}{findings})
		if err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			a.say("%s", printable(f))
		}
		if len(findings) == 0 {
			a.say("nothing wrong")
		}
	}
	if len(findings) > 0 {
		return &codeError{code: exitFailure}
	}
	return nil
}
