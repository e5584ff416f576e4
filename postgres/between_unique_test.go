package postgres_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// A transaction enqueues a job with a period, and ends that job, too. A call that has waited for
// the transaction finds no live job, but a period that has begun meanwhile.
func TestWhoHasWaitedForAPeriodIsKeptOut(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	job := []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "u", UniqueFor: time.Hour}}
	tx := b.begin()
	in := b.Tx(tx)
	first, err := in.Enqueue(b.ctx, job)
	b.must(err)
	jobs, err := in.Claim(b.ctx, request(1))
	b.must(err)
	b.must(in.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
	b.learnsOf(tx, job, first)
}

// An enqueue that would replace a job waits for the transaction that has claimed the job.
func TestAReplacementWaitsForAClaimOfTheHolder(t *testing.T) {
	needs.Race(t)
	for _, until := range []dibs.UniqueUntil{dibs.UntilFinished, dibs.UntilClaimed} {
		for ending, commit := range map[string]bool{"commits": true, "rolls back": false} {
			t.Run(string(until)+", the claim "+ending, func(t *testing.T) {
				b := newBench(t, postgres.Options{})
				job := []dibs.NewJob{{Queue: "q", Kind: "k", Payload: "old", UniqueKey: "u", UniqueUntil: until, IfHeld: dibs.HeldReplace}}
				first, err := b.Enqueue(b.ctx, job)
				b.must(err)
				tx := b.begin()
				if jobs := b.takeIn(tx, 1); len(jobs) != 1 {
					t.Fatalf("claimed %v", jobs)
				}
				job[0].Payload = "new"
				var second []dibs.Enqueued
				end := b.beside(1, func() (err error) {
					second, err = b.Enqueue(b.ctx, job)
					return err
				})
				want, payload, finish := dibs.Enqueued{ID: first[0].ID, Existing: true, Replaced: !commit}, `"old"`, tx.Commit
				if !commit {
					payload, finish = `"new"`, tx.Rollback
				}
				b.must(finish(b.ctx))
				b.must(end())
				if commit && until == dibs.UntilClaimed { // the claim was committed, so the key is free
					want = dibs.Enqueued{ID: second[0].ID}
				}
				if second[0] != want {
					t.Errorf("got %+v, want %+v", second[0], want)
				}
				if j, err := b.Get(b.ctx, first[0].ID); err != nil || string(j.Payload) != payload {
					t.Errorf("payload %s, %v, want %s", j.Payload, err, payload)
				}
				b.consistent()
			})
		}
	}
}

// A call has met a key that is held, and has inserted a job with the other. Then the key's holder ends, and a second
// call takes the key and waits for the other. The first begins again: it must not wait for the second meanwhile.
func TestTwoCallsWithSeveralKeysNeverWaitForEachOther(t *testing.T) {
	needs.Race(t)
	keys := []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "a", IfHeld: dibs.HeldReplace}, {Queue: "q", Kind: "k", UniqueKey: "b"}}
	const inSQL = `select id, existing, replaced from dibs.enqueue_many('[{"queue": "q", "unique_key": "a", "if_held": "replace"}, {"queue": "q", "unique_key": "b", "group": "g"}]')`
	scan := func(row pgx.CollectableRow) (e dibs.Enqueued, err error) {
		return e, row.Scan(&e.ID, &e.Existing, &e.Replaced)
	}
	check := func(b bench, first, second []dibs.Enqueued) {
		for i, e := range second {
			want := dibs.Enqueued{ID: e.ID, Existing: true, Replaced: i == 0}
			if e.Existing || first[i] != want {
				b.Errorf("job %d: the first call got %+v, the second %+v", i, first[i], e)
			}
		}
		b.consistent()
	}
	t.Run("from Go", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		_, err := b.Enqueue(b.ctx, keys[:1])
		b.must(err)
		running := b.take(1, 0)[0].Lease()
		hook := &beforeStatement{}
		other := b.watched(hook, "holders")
		tx := b.begin()
		var first, second []dibs.Enqueued
		var end func() error
		hook.do = func() {
			b.must(b.Finish(b.ctx, []dibs.Outcome{running.Complete(nil)}))
			end = b.beside(1, func() (err error) {
				second, err = b.Tx(tx).Enqueue(b.ctx, keys)
				return errors.Join(err, tx.Commit(b.ctx))
			})
		}
		b.must(other.InTx(b.ctx, func(tx dibs.Tx) (err error) {
			first, err = tx.Enqueue(b.ctx, keys)
			return err
		}))
		b.must(end())
		check(b, first, second)
	})
	t.Run("from SQL", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		_, err := b.Enqueue(b.ctx, keys[:1])
		b.must(err)
		pause, one, two := b.begin(), b.begin(), b.begin()
		_, err = pause.Exec(b.ctx, "lock table dibs.wake_list in share mode") // calls name their groups after they have inserted the jobs
		b.must(err)
		call := func(tx pgx.Tx, waiting int, out *[]dibs.Enqueued) (end func() error) {
			return b.beside(waiting, func() error {
				rows, err := tx.Query(b.ctx, inSQL)
				if err == nil {
					*out, err = pgx.CollectRows(rows, scan)
				}
				return errors.Join(err, tx.Commit(b.ctx))
			})
		}
		var first, second []dibs.Enqueued
		endOne := call(one, 1, &first)
		_, err = b.pool.Exec(b.ctx, `with ended as (delete from dibs.job where unique_key = 'a' returning queue, id),
			wide as (delete from dibs.payload p using ended e where p.id = e.id)
			insert into dibs.tally (queue, waiting, enqueued) select queue, -1, -1 from ended`)
		b.must(err)
		endTwo := call(two, 2, &second)
		b.must(pause.Rollback(b.ctx))
		b.must(errors.Join(endTwo(), endOne()))
		check(b, first, second)
	})
}

// The holder of a key ends after a call has found that the key is held: the call answers with the holder, and need not
// begin again.
func TestAHolderThatEndsMeanwhileIsTheAnswer(t *testing.T) {
	b := newBench(t, postgres.Options{})
	jobs := []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "held"}, {Queue: "q", Kind: "k", UniqueKey: "free"}}
	held, err := b.Enqueue(b.ctx, jobs[:1])
	b.must(err)
	holder := b.take(1, 0)[0].Lease()
	hook := &beforeStatement{}
	other := b.watched(hook, "holders")
	hook.do = func() { b.must(b.Finish(b.ctx, []dibs.Outcome{holder.Complete(nil)})) }
	added, err := other.Enqueue(b.ctx, jobs)
	b.must(err)
	if added[0] != (dibs.Enqueued{ID: held[0].ID, Existing: true}) || added[1].Existing || hook.do != nil {
		t.Errorf("job %d held the key; got %+v", held[0].ID, added)
	}
	b.consistent()
}

// A transaction whose one snapshot shows a holder that has ended since: what it enqueues holds the key.
func TestOneSnapshotThatShowsTwoHolders(t *testing.T) {
	job := dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "u"}
	for name, enqueue := range map[string]func(b bench, tx pgx.Tx) ([]dibs.Enqueued, error){
		"in one call": func(b bench, tx pgx.Tx) ([]dibs.Enqueued, error) {
			return b.Tx(tx).Enqueue(b.ctx, []dibs.NewJob{job, job})
		},
		"in two calls": func(b bench, tx pgx.Tx) ([]dibs.Enqueued, error) {
			first, err := b.Tx(tx).Enqueue(b.ctx, []dibs.NewJob{job})
			b.must(err)
			second, err := b.Tx(tx).Enqueue(b.ctx, []dibs.NewJob{job})
			return append(first, second...), err
		},
		"from SQL": func(b bench, tx pgx.Tx) ([]dibs.Enqueued, error) {
			rows, err := tx.Query(b.ctx, `select id, existing from dibs.enqueue_many('[{"queue": "q", "unique_key": "u"}, {"queue": "q", "unique_key": "u"}]')`)
			b.must(err)
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e dibs.Enqueued, err error) { return e, row.Scan(&e.ID, &e.Existing) })
		},
		"from SQL, one by one": func(b bench, tx pgx.Tx) ([]dibs.Enqueued, error) {
			rows, err := tx.Query(b.ctx, `select dibs.enqueue('q', unique_key => 'u'), n > 1 from generate_series(1, 2) n`)
			b.must(err)
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e dibs.Enqueued, err error) { return e, row.Scan(&e.ID, &e.Existing) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			ended, err := b.Enqueue(b.ctx, []dibs.NewJob{job})
			b.must(err)
			lease := b.take(1, 0)[0].Lease()
			tx := b.beginAs(pgx.RepeatableRead)
			_, err = tx.Exec(b.ctx, "select from dibs.job")
			b.must(err)
			b.must(b.Finish(b.ctx, []dibs.Outcome{lease.Complete(nil)}))
			got, err := enqueue(b, tx)
			b.must(err)
			if len(got) != 2 || got[0].Existing || got[0].ID <= ended[0].ID || got[1] != (dibs.Enqueued{ID: got[0].ID, Existing: true}) {
				t.Errorf("job %d has ended; got %+v", ended[0].ID, got)
			}
			b.must(tx.Commit(b.ctx))
			b.consistent()
		})
	}
}

// A claim has taken its snapshot when a job gets another payload, in another place.
func TestAClaimNeverMixesAReplacedJobWithItsOldPayload(t *testing.T) {
	needs.Race(t)
	wide := `"` + strings.Repeat("w", 1000) + `"`
	for name, payloads := range map[string][2]string{
		"narrow to wide": {`"narrow"`, wide}, "wide to narrow": {wide, `"narrow"`}, "wide to wide": {wide, strings.ToUpper(wide)},
	} {
		t.Run(name, func(t *testing.T) { replacedUnderClaim(t, payloads[0], payloads[1]) })
	}
}

func replacedUnderClaim(t *testing.T, before, after string) {
	b := newBench(t, postgres.Options{})
	job := []dibs.NewJob{{Queue: "q", Kind: "k", Payload: json.RawMessage(before), UniqueKey: "u", IfHeld: dibs.HeldReplace}}
	_, err := b.Enqueue(b.ctx, job)
	b.must(err)
	claimer := b.openAnother()
	barrier := b.barrier(claimer, "claim", "    for key share skip locked", " and pg_advisory_xact_lock(1)::text is not null\n    for key share skip locked")
	var jobs []*dibs.RawJob
	end := b.beside(1, func() (err error) {
		jobs, err = claimer.Claim(b.ctx, request(1))
		return err
	})
	job[0].Payload = json.RawMessage(after)
	done, err := b.Enqueue(b.ctx, job)
	b.must(err)
	b.must(barrier.Rollback(b.ctx))
	b.must(end())
	if !done[0].Replaced {
		t.Fatalf("the job was not replaced: %+v", done[0])
	}
	for len(jobs) == 0 {
		jobs = b.take(1, time.Minute)
	}
	if got := string(jobs[0].Payload); got != after {
		t.Errorf("from %.10s to %.10s: claimed with %.10s", before, after, got)
	}
	b.consistent()
}

// PostgreSQL computes the calendar's windows too, by other code.
func TestAWindowEndsWherePostgreSQLSaysThatItDoes(t *testing.T) {
	b := newBench(t, postgres.Options{})
	for _, unit := range []string{"hour", "day", "week", "month"} {
		for _, zone := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Pacific/Kiritimati"} {
			if unit == "hour" && (zone == "Europe/Berlin" || zone == "America/St_Johns") {
				continue // PostgreSQL takes the second of two equal hours
			}
			_, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: unit + zone, UniqueWindow: unit + " in " + zone}})
			b.must(err)
			var got, want time.Time
			const end = `
				select w.until, (date_trunc($1, j.created_at at time zone $2) + ('1 ' || $1)::interval) at time zone $2
				from dibs.unique_window w join dibs.job j on j.id = w.job
				where w.unique_key = $1 || $2`
			b.must(b.pool.QueryRow(b.ctx, end, unit, zone).Scan(&got, &want))
			if !got.Equal(want) {
				t.Errorf("%s in %s ends at %v, want %v", unit, zone, got, want)
			}
		}
	}
}
