package crash

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Judge completes all jobs that the clients left, as a client under the given name, and
// describes each broken promise. It judges from the records of all clients in dir and from
// the database.
func Judge(ctx context.Context, db admin.Database, dir, name string) ([]string, error) {
	rec, err := history.OpenIn(dir, name)
	if err != nil {
		return nil, err
	}
	limited, stop := context.WithTimeout(ctx, 2*time.Minute) // if a job cannot be completed, the time runs out
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

// slack is how much later than promised claims may be while servers and processes restart.
const slack = 3 * time.Second

// drain completes all live jobs. It resumes those of killed clients under the clients' names.
func drain(ctx context.Context, db admin.Database) error {
	for {
		page, err := db.List(ctx, admin.Filter{Limit: 1000})
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

// Early is a faulty store that acknowledges outcomes before it writes them: each Finish
// writes the outcomes of the previous one.
type Early struct {
	admin.Database
	mu        sync.Mutex
	unwritten []dibs.Outcome
}

func (e *Early) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	due := e.unwritten
	e.unwritten = slices.Clone(outcomes)
	if string(outcomes[len(outcomes)-1].Result) == staleText { // the client expects a refusal at once
		due, e.unwritten = slices.Concat(due, outcomes), nil
	}
	if len(due) == 0 {
		return nil
	}
	return e.Database.Finish(ctx, due)
}
