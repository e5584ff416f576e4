package crash

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// Judge completes all that the clients have left, and says what was broken, by the
// records of all in dir and what is in the database. It is a client, too, of that name.
func Judge(ctx context.Context, db dibs.Database, dir, name string) ([]string, error) {
	rec, err := history.OpenIn(dir, name)
	if err != nil {
		return nil, err
	}
	limited, stop := context.WithTimeout(ctx, 2*time.Minute) // a job that cannot be completed is an error
	defer stop()
	if err := drain(limited, history.Wrap(db, rec)); err != nil {
		return nil, err
	}
	if err := rec.Close(); err != nil {
		return nil, err
	}
	e, err := history.Collect(ctx, db, dir)
	e.Slack, e.OrderSlack = slack, slack
	return history.Broken(history.Judge(e)), err
}

// slack is for a machine that starts servers and processes again all the time.
const slack = 3 * time.Second

// drain completes all live jobs. Those that ended clients held it resumes in their names.
func drain(ctx context.Context, db dibs.Database) error {
	for {
		page, err := db.List(ctx, dibs.Filter{Limit: 1000})
		if err != nil || len(page.Jobs) == 0 {
			return err
		}
		jobs, err := db.Claim(ctx, dibs.ClaimRequest{Worker: "drain", N: 1000})
		if err != nil {
			return err
		}
		resumed := map[string]bool{}
		for _, j := range page.Jobs {
			if j.State != dibs.Running || resumed[j.Worker] {
				continue
			}
			more, err := db.Resume(ctx, dibs.ClaimRequest{Worker: j.Worker})
			if err != nil {
				return err
			}
			jobs, resumed[j.Worker] = append(jobs, more...), true
		}
		outcomes := make([]dibs.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i] = j.Lease().Complete(nil)
		}
		if err := db.Finish(ctx, outcomes); err != nil {
			return err
		}
	}
}

// Early is a store that answers before the commit: it writes outcomes when the next
// ones come.
type Early struct {
	dibs.Database
	mu   sync.Mutex
	next []dibs.Outcome
}

func (e *Early) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	due := e.next
	e.next = slices.Clone(outcomes)
	if string(outcomes[len(outcomes)-1].Result) == staleText { // has to be refused at once
		due, e.next = slices.Concat(due, outcomes), nil
	}
	if len(due) == 0 {
		return nil
	}
	return e.Database.Finish(ctx, due)
}
