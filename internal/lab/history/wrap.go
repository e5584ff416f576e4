package history

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Wrap records every call of db that changes something. The payload of every job must be
// an object with a field "key", see [Key]. Transactions made by InTx are recorded too; for
// the caller's own transactions, see [WrapTx].
func Wrap(db admin.Database, r *Recorder) admin.Database {
	return &wrapped{wrappedStore{db, r}, database{db}}
}

// WrapStore is Wrap for a store that only works jobs, such as that of an adopted table.
func WrapStore(s dibs.Store, r *Recorder) dibs.Store { return &wrappedStore{s, r} }

// WrapTx records the calls in a transaction of the caller's, under a name that
// [Recorder.NewTx] returned. The caller ends it by [Recorder.Commit] or [Recorder.Rollback].
func WrapTx(tx dibs.Tx, r *Recorder, id string) dibs.Tx { return &wrappedTx{tx: tx, r: r, id: id} }

// Key returns the field "key" of a payload, or "".
func Key(payload json.RawMessage) string {
	var p struct {
		Key string `json:"key"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return ""
	}
	return p.Key
}

// Sum returns a checksum of a payload.
func Sum(payload json.RawMessage) uint32 { return crc32.ChecksumIEEE(payload) }

// FateOf returns the fate that a call's error proves. A FinishError says that the call took
// effect for all jobs except those that it lists.
func FateOf(err error) Fate {
	var refused *dibs.FinishError
	switch {
	case err == nil, errors.As(err, &refused):
		return Done
	case errors.Is(err, dibs.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Unknown
	case errors.Is(err, dibs.ErrInvalid), errors.Is(err, dibs.ErrClosed), errors.Is(err, dibs.ErrSchema),
		errors.Is(err, dibs.ErrNotFound), errors.Is(err, dibs.ErrUnknownQueue):
		return Nothing
	default:
		return Unknown
	}
}

// Commit records that the function commit ends the transaction. After an error, it may or
// may not be committed. A transaction without this record was never committed.
func (r *Recorder) Commit(tx string, commit func() error) error {
	return r.record(&Call{Verb: Commit, Tx: tx}, func(c *Call) error {
		err := commit()
		if err != nil {
			c.Fate = Unknown
		}
		return err
	})
}

// Rollback records that the function rollback ends the transaction. Its fate is Done even
// if rollback fails, since the database discards what was never committed.
func (r *Recorder) Rollback(tx string, rollback func() error) error {
	return r.record(&Call{Verb: Rollback, Tx: tx}, func(c *Call) error {
		c.Fate = Done
		return rollback()
	})
}

// record writes the call's two lines, and calls f between them. f may set the fate itself.
func (r *Recorder) record(c *Call, f func(*Call) error) error {
	if err := r.Begin(c); err != nil {
		return err
	}
	c.Fate = ""
	err := f(c)
	if c.Fate == "" {
		c.Fate = FateOf(err)
	}
	if err != nil {
		c.Error = err.Error()
	}
	r.End(c)
	return err
}

type wrappedStore struct {
	dibs.Store
	r *Recorder
}

func (w *wrappedStore) Claim(ctx context.Context, q dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return w.r.claim("", q, func() ([]*dibs.RawJob, error) { return w.Store.Claim(ctx, q) })
}

func (w *wrappedStore) Resume(ctx context.Context, q dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	c := &Call{Verb: Resume, Queue: queueName(q.Queue), Worker: q.Worker, Lease: q.Lease}
	return w.r.recordClaim(c, func() ([]*dibs.RawJob, error) { return w.Store.Resume(ctx, q) })
}

func (w *wrappedStore) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (e dibs.Extended, err error) {
	err = w.r.record(&Call{Verb: Extend, Leases: leases, Lease: d}, func(c *Call) error {
		e, err = w.Store.Extend(ctx, leases, d)
		c.Refused, c.leftOut = e.Lost, e.Finishing
		return err
	})
	return e, err
}

func (w *wrappedStore) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return w.r.finish("", outcomes, func() error { return w.Store.Finish(ctx, outcomes) })
}

func (w *wrappedStore) Sweep(ctx context.Context) (s dibs.Swept, err error) {
	err = w.r.record(&Call{Verb: Sweep}, func(*Call) error {
		s, err = w.Store.Sweep(ctx)
		return err
	})
	return s, err
}

// wrapped prefers the methods of wrappedStore to those of the database.
type wrapped struct {
	wrappedStore
	database
}

type database struct{ admin.Database }

func (w *wrapped) Wakeups(queue string) (wake <-chan struct{}, stop func()) {
	return w.Database.Wakeups(queue)
}

func (w *wrapped) Register(ctx context.Context, workers ...dibs.WorkerInfo) error {
	return w.Database.Register(ctx, workers...)
}

func (w *wrapped) Due(ctx context.Context, queues, kinds []string) ([]string, error) {
	return w.Database.Due(ctx, queues, kinds)
}

func (w *wrapped) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return w.r.enqueue("", jobs, func() ([]dibs.Enqueued, error) { return w.Database.Enqueue(ctx, jobs) })
}

func (w *wrapped) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	err = w.r.record(&Call{Verb: Cancel, IDs: ids}, func(c *Call) error {
		ended, asked, err = w.Database.Cancel(ctx, ids)
		c.Changed, c.Asked = slices.Concat(ended, asked), slices.Clone(asked)
		return err
	})
	return ended, asked, err
}

func (w *wrapped) Requeue(ctx context.Context, ids []int64, until time.Time) (done []int64, err error) {
	err = w.r.record(&Call{Verb: Requeue, IDs: ids}, func(c *Call) error {
		done, err = w.Database.Requeue(ctx, ids, until)
		c.Changed = done
		return err
	})
	return done, err
}

func (w *wrapped) Edit(ctx context.Context, ids []int64, e admin.Edit) (done []int64, err error) {
	err = w.r.record(&Call{Verb: Edit, IDs: ids}, func(c *Call) error {
		done, err = w.Database.Edit(ctx, ids, e)
		c.Changed = done
		return err
	})
	return done, err
}

func (w *wrapped) Prune(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (n int, err error) {
	err = w.r.record(&Call{Verb: Prune, Queue: queue}, func(*Call) error {
		n, err = w.Database.Prune(ctx, queue, state, olderThan)
		return err
	})
	return n, err
}

func (w *wrapped) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (q dibs.Queue, err error) {
	err = w.r.record(&Call{Verb: SetQueue, Queue: name}, func(c *Call) error {
		q, err = w.Database.ChangeQueue(ctx, name, func(q *dibs.Queue) error {
			c.Settings = new(dibs.QueueChange)
			return noteChanges(f, q, c.Settings)
		})
		return err
	})
	return q, err
}

func (w *wrapped) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	return w.r.record(&Call{Verb: SetGroup, Queue: queue, Group: group}, func(c *Call) error {
		return w.Database.ChangeGroup(ctx, queue, group, func(g *dibs.Group) error {
			var change dibs.GroupChange
			err := noteChanges(f, g, &change)
			c.Limit, c.Rate = change.Limit, change.Rate
			return err
		})
	})
}

// noteChanges has f change settings, and sets those fields of change whose settings differ by that.
func noteChanges[T any](f func(*T) error, settings *T, change any) error {
	before := *settings
	if err := f(settings); err != nil {
		return err
	}
	to := reflect.ValueOf(change).Elem()
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if now := reflect.ValueOf(settings).Elem().FieldByName(name); !now.Equal(reflect.ValueOf(before).FieldByName(name)) {
			to.Field(i).Set(reflect.New(now.Type()))
			to.Field(i).Elem().Set(now)
		}
	}
	return nil
}

// InTx records the transaction's end: it begins when f returns, and is over when the
// database has answered.
func (w *wrapped) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	id := w.r.NewTx()
	var end *Call
	err := w.Database.InTx(ctx, func(tx dibs.Tx) error {
		err := f(WrapTx(tx, w.r, id))
		c := &Call{Verb: Commit, Tx: id}
		if err != nil {
			c.Verb = Rollback
		}
		if err := w.r.Begin(c); err != nil {
			return err
		}
		end = c
		return err
	})
	if end == nil {
		return err
	}
	end.Fate = Done
	if err != nil && (end.Verb == Commit || FateOf(err) == Unknown) { // another error of f does not keep the database from rolling back
		end.Error = err.Error()
	}
	if err != nil && end.Verb == Commit {
		end.Fate = Unknown
	}
	w.r.End(end)
	return err
}

type wrappedTx struct {
	tx dibs.Tx
	r  *Recorder
	id string
}

func (w *wrappedTx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return w.r.enqueue(w.id, jobs, func() ([]dibs.Enqueued, error) { return w.tx.Enqueue(ctx, jobs) })
}

func (w *wrappedTx) Claim(ctx context.Context, q dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	return w.r.claim(w.id, q, func() ([]*dibs.RawJob, error) { return w.tx.Claim(ctx, q) })
}

func (w *wrappedTx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return w.r.finish(w.id, outcomes, func() error { return w.tx.Finish(ctx, outcomes) })
}

// ChangeGroup is not recorded: no call of a recorded transaction changes settings.
func (w *wrappedTx) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	return w.tx.ChangeGroup(ctx, queue, group, f)
}

func (w *wrappedTx) Wake() { w.tx.Wake() }
