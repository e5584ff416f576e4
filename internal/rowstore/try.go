package rowstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Admit gives the places of a queue's groups that ask for it, as before a claim.
func (s *Store) Admit(ctx context.Context, queue string) error {
	_, err := s.admitAsked(ctx, queue)
	return err
}

// Trial makes calls as a store does, in a transaction that will be rolled back.
type Trial struct{ Session *Session }

// Held reports whether a call has failed since another transaction holds what it needs.
func Held(err error) bool { return errors.Is(err, errAgain) }

// Claim claims jobs by the places that groups have. missed is true if another transaction has the queue's turn.
func (t Trial) Claim(r dibs.ClaimRequest) (jobs []*dibs.RawJob, missed bool, err error) {
	if err := checks.Claim(&r); err != nil {
		return nil, false, err
	}
	err = t.run(func(s *Session) (err error) {
		jobs, err = s.claim(r)
		missed = s.others.missed
		return err
	})
	return jobs, missed, err
}

// Enqueue enqueues jobs.
func (t Trial) Enqueue(jobs ...dibs.NewJob) error {
	rows, err := checkJobs(jobs)
	if err != nil {
		return err
	}
	return t.run(func(s *Session) error {
		_, err := s.enqueue(rows)
		return err
	})
}

// Extend lengthens a lease. It fails as Held says if another transaction has locked the job.
func (t Trial) Extend(l dibs.Lease, d time.Duration) error {
	return t.run(func(s *Session) error {
		e, err := s.extend([]dibs.Lease{l}, d)
		switch {
		case err != nil:
			return err
		case slices.Contains(e.Finishing, l.ID):
			return errAgain
		case len(e.Lost) > 0:
			return dibs.ErrLeaseLost
		}
		return nil
	})
}

// Finish writes an outcome. It fails as Held says if another transaction has locked the job.
func (t Trial) Finish(o dibs.Outcome) error {
	return t.run(func(s *Session) error {
		r, err := s.finish([]dibs.Outcome{o})
		switch {
		case err != nil:
			return err
		case len(r.busy) > 0:
			return errAgain
		case len(r.lost) > 0:
			return dibs.ErrLeaseLost
		}
		return nil
	})
}

// SetQueue writes a queue's settings as they are.
func (t Trial) SetQueue(name string) error {
	return t.run(func(s *Session) error {
		now, err := s.settings(name)
		if err != nil {
			return err
		}
		return s.setQueue(now, now)
	})
}

func (t Trial) run(f func(*Session) error) error {
	err := t.Session.Run(f)
	if err == nil {
		err = t.Session.WriteTally()
	}
	return err
}
