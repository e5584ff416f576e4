package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// observedStore is a store whose calls are measured.
type observedStore struct {
	db     dibs.Store
	p      *process
	claims bool // count claimed jobs here, as no worker of this process counts them
}

// observedDatabase is an observedStore that has all other methods of a database, too.
type observedDatabase struct {
	observedStore
	database
}

// Unwrap is the database whose calls are measured: it may do more than an admin.Database.
func (o observedDatabase) Unwrap() admin.Database { return o.Database }

// database keeps the methods of admin.Database one level deeper than those of observedStore, which so take precedence.
type database struct{ admin.Database }

// observedService is an observedStore that has what handlers use of a dibs.Database, too.
type observedService struct {
	observedStore
	dibs.StepStore
	dibs.BeforeStore
}

// observed returns a store that measures the calls of db, with all that workers and handlers use of db.
func (p *process) observed(db dibs.Store) dibs.Store {
	switch db := db.(type) {
	case observedStore, observedService, observedDatabase:
		return db
	case admin.Database:
		return observedDatabase{observedStore{db: db, p: p}, database{db}}
	case dibs.Database:
		return observedService{observedStore{db: db, p: p}, db, db}
	}
	return observedStore{db: db, p: p}
}

// called records a call that began at a time.
func (p *process) called(call string, begin time.Time, err error) {
	p.calls.WithLabelValues(call).Observe(time.Since(begin).Seconds())
	if err != nil {
		p.errors.WithLabelValues(call, sortOf(err)).Inc()
	}
}

// sorts lists the errors that have a label value of their own.
var sorts = []struct {
	err  error
	name string
}{
	{dibs.ErrLeaseLost, "lease_lost"},
	{dibs.ErrInvalid, "invalid"},
	{dibs.ErrUnavailable, "unavailable"},
	{dibs.ErrDenied, "denied"},
	{dibs.ErrSchema, "schema"},
	{dibs.ErrClosed, "closed"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

func sortOf(err error) string {
	for _, s := range sorts {
		if errors.Is(err, s.err) {
			return s.name
		}
	}
	return other
}

func (s observedStore) Claim(ctx context.Context, r dibs.ClaimRequest) (jobs []*dibs.RawJob, err error) {
	defer func(begin time.Time) { s.p.called("claim", begin, err) }(time.Now())
	jobs, err = s.db.Claim(ctx, r)
	s.claimed(jobs)
	return jobs, err
}

func (s observedStore) Resume(ctx context.Context, r dibs.ClaimRequest) (jobs []*dibs.RawJob, err error) {
	defer func(begin time.Time) { s.p.called("resume", begin, err) }(time.Now())
	jobs, err = s.db.Resume(ctx, r)
	s.claimed(jobs)
	return jobs, err
}

func (s observedStore) claimed(jobs []*dibs.RawJob) {
	if s.claims {
		s.p.countClaimed(jobs, s.p.claimedOf)
	}
}

func (s observedStore) Due(ctx context.Context, queues, kinds []string) (due []string, err error) {
	defer func(begin time.Time) { s.p.called("due", begin, err) }(time.Now())
	return s.db.Due(ctx, queues, kinds)
}

func (s observedStore) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (out dibs.Extended, err error) {
	defer func(begin time.Time) { s.p.called("extend", begin, err) }(time.Now())
	return s.db.Extend(ctx, leases, d)
}

func (s observedStore) Finish(ctx context.Context, outcomes []dibs.Outcome) (err error) {
	defer func(begin time.Time) { s.p.called("finish", begin, err) }(time.Now())
	return s.db.Finish(ctx, outcomes)
}

func (s observedStore) Sweep(ctx context.Context) (swept dibs.Swept, err error) {
	defer func(begin time.Time) { s.p.called("sweep", begin, err) }(time.Now())
	return s.db.Sweep(ctx)
}

func (s observedStore) Register(ctx context.Context, workers ...dibs.WorkerInfo) (err error) {
	defer func(begin time.Time) { s.p.called("register", begin, err) }(time.Now())
	return s.db.Register(ctx, workers...)
}

func (s observedStore) Wakeups(queue string) (wake <-chan struct{}, stop func()) {
	return s.db.Wakeups(queue)
}
