package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
	"github.com/dibs-queue/dibs/storetest"
)

// taken is what has become of the rows of an inbox, whichever store has taken them.
type taken struct {
	sync.Mutex
	done    map[int64]dibs.Enqueued
	refused map[int64]error
	more    chan struct{} // receives after a row was taken
}

func newTaken() *taken {
	return &taken{done: map[int64]dibs.Enqueued{}, refused: map[int64]error{}, more: make(chan struct{}, 1)}
}

func (t *taken) note(row int64, done dibs.Enqueued, refused error) {
	t.Lock()
	defer t.Unlock()
	if _, twice := t.done[row]; twice {
		refused = errors.New("the row was taken twice")
	}
	t.done[row], t.refused[row] = done, refused
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// The answers for some rows are there if ok is true: until then some have not been taken.
func (t *taken) of(rows []int64) (done []dibs.Enqueued, ok bool, err error) {
	t.Lock()
	defer t.Unlock()
	for _, row := range rows {
		e, ok := t.done[row]
		if !ok {
			return nil, false, nil
		}
		done, err = append(done, e), errors.Join(err, t.refused[row])
	}
	return done, true, err
}

// inboxStore is a store whose jobs come by way of the inbox, as those of programs in other languages do.
type inboxStore struct {
	*mysql.Store
	taken *taken
}

const inboxInsert = `insert into dibs_inbox
	(queue, kind, payload, metadata, priority, delay, run_at, max_attempts, group_key, unique_key, unique_until, unique_for, unique_window, if_held, delay_limit)
	values (?, ?, ?, ?, ?, ?, from_unixtime(?), ?, ?, ?, ?, ?, ?, ?, ?)`

// Enqueue inserts jobs into the inbox in one transaction, and waits until they were taken. What the inbox cannot refuse for a
// whole batch is refused before, as it would otherwise be a dead job.
func (s inboxStore) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := s.checked(ctx, jobs)
	if err != nil || len(rows) == 0 || !fitsInbox(jobs, rows) {
		return s.Store.Enqueue(ctx, jobs)
	}
	tx, err := s.DB().BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	var ids []int64
	for i := range jobs {
		result, err := tx.ExecContext(ctx, inboxInsert, inboxValues(&jobs[i], &rows[i])...)
		if err != nil {
			return nil, err
		}
		id, err := result.LastInsertId()
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	for {
		if _, err := s.Due(ctx, []string{"none"}, nil); err != nil { // it takes what stands in the inbox, unless another does
			return nil, err
		}
		if done, ok, err := s.taken.of(ids); ok {
			return done, err
		}
		select {
		case <-s.taken.more:
		case <-time.After(time.Millisecond): // another caller may have received that
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s inboxStore) checked(ctx context.Context, jobs []dibs.NewJob) ([]checks.Row, error) {
	if ctx == nil {
		return nil, nil
	}
	return checks.Jobs(jobs, func(queue string) (int, error) {
		found, err := s.Queues(ctx, queue)
		if err != nil || len(found) == 0 {
			return dibs.MaxPayload, err
		}
		return found[0].PayloadLimit, nil
	})
}

// fitsInbox reports whether the inbox takes such jobs: none that come after others, times from 1970 to 2038, and JSON that the
// server reads.
func fitsInbox(jobs []dibs.NewJob, rows []checks.Row) bool {
	for i, j := range jobs {
		deep := strings.Count(string(rows[i].Payload), "[")+strings.Count(string(rows[i].Payload), "{")+strings.Count(string(j.Metadata), "{") > 30
		if deep || j.Ref != "" || len(j.After) > 0 || !j.RunAt.IsZero() && (j.RunAt.Unix() < 1 || j.RunAt.Year() > 2037) {
			return false
		}
	}
	return true
}

func inboxValues(j *dibs.NewJob, r *checks.Row) []any {
	var runAt any
	if !j.RunAt.IsZero() {
		runAt = seconds(time.Duration(j.RunAt.UnixMicro()) * time.Microsecond)
	}
	var metadata any
	if len(j.Metadata) > 0 {
		metadata = string(j.Metadata)
	}
	return []any{
		j.Queue, j.Kind, string(r.Payload), metadata, j.Priority, seconds(j.Delay), runAt, j.MaxAttempts, j.Group,
		j.UniqueKey, string(j.UniqueUntil), seconds(j.UniqueFor), j.UniqueWindow, string(j.IfHeld), seconds(j.DelayLimit),
	}
}

// seconds is a duration as a number with six digits, rounded up.
func seconds(d time.Duration) string {
	us := (d + time.Microsecond - 1) / time.Microsecond
	return fmt.Sprintf("%d.%06d", us/1_000_000, us%1_000_000)
}

// TestInboxStore runs the chapters of the conformance suite that are about enqueueing, with all jobs enqueued by way of the inbox.
func TestInboxStore(t *testing.T) {
	needs.RaceInPart(t)
	t.Parallel()
	chapters := []string{"enqueue", "unique", "held"}
	if needs.AtNight() {
		chapters = append(chapters, "windows", "groups", "wide", "delete queue", "wake")
	}
	without := map[string]string{}
	for _, name := range storetest.Names() {
		chapter, _, _ := strings.Cut(name, "/")
		without[chapter] = "make night, or does not depend on how jobs are enqueued"
	}
	for _, chapter := range chapters {
		delete(without, chapter)
	}
	without["enqueue/a delay counts from the database's now"] = "it counts from the insert into the inbox, and the job is created later"
	storetest.RunSome(t, storetest.MariaDB, func(t testing.TB) storetest.Setup {
		address, all := mytest.Address(t), newTaken()
		open := func(t testing.TB) inboxStore {
			s := openStore(t, address)
			s.OnInboxTaken(all.note)
			return inboxStore{s, all}
		}
		s := open(t)
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return open(t) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(callers(t, address), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return pass(ctx, s.DB(), d) },
		}
	}, without)
}
