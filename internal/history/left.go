package history

import (
	"context"

	"github.com/dibs-queue/dibs"
)

// Left reads every job that is in the database, for Evidence.Final.
func Left(ctx context.Context, db dibs.Admin) ([]*dibs.RawJob, error) {
	var all []*dibs.RawJob
	for _, state := range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		f := dibs.Filter{State: state, Limit: 1000}
		for {
			page, err := db.List(ctx, f)
			if err != nil {
				return nil, err
			}
			all = append(all, page.Jobs...)
			if f.After = page.Next; f.After == "" {
				break
			}
		}
	}
	return all, nil
}
