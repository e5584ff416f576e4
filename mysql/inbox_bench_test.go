package mysql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

const (
	insertOne      = `insert into dibs_inbox (queue, kind, payload) values ('q', 'k', '{"a": 1}')`
	insertThousand = `insert into dibs_inbox (queue, kind, payload) select 'q', 'k', '{"a": 1}' from seq_1_to_1000`
)

// BenchmarkInbox measures what docs/design/0036-inbox.md says: one program, one store, and a server that does not wait for the
// disk.
func BenchmarkInbox(b *testing.B) {
	address := mytest.Address(b)
	s, db := openStore(b, address), program(b, address)
	insert := func(b *testing.B, text string) {
		if _, err := db.ExecContext(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	due := func(b *testing.B) {
		if _, err := s.Due(b.Context(), []string{"none"}, nil); err != nil {
			b.Fatal(err)
		}
	}
	for n, text := range map[int]string{1: insertOne, 1000: insertThousand} {
		b.Run(fmt.Sprint("insert ", n), func(b *testing.B) {
			for b.Loop() {
				insert(b, text)
			}
			b.StopTimer()
			insert(b, "truncate dibs_inbox")
		})
		b.Run(fmt.Sprint("take ", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				insert(b, text)
				b.StartTimer()
				due(b)
			}
		})
		jobs := make([]dibs.NewJob, n)
		for i := range jobs {
			jobs[i] = dibs.NewJob{Queue: "q", Kind: "k", Payload: map[string]int{"a": 1}}
		}
		b.Run(fmt.Sprint("Enqueue ", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Enqueue(b.Context(), jobs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkInboxLook measures a look at the inbox, which is empty.
func BenchmarkInboxLook(b *testing.B) {
	address := mytest.Address(b)
	s, db := openStore(b, address), program(b, address)
	look := func(b *testing.B) {
		for b.Loop() {
			if err := s.LookAtInbox(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("at nothing", look)
	b.Run("beside a snapshot that keeps 100000 rows", func(b *testing.B) {
		tx, err := db.BeginTx(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it has only read
		if _, err := tx.ExecContext(b.Context(), "select count(*) into @n from dibs_inbox"); err != nil {
			b.Fatal(err)
		}
		for _, text := range []string{"insert into dibs_inbox (queue) select 'q' from seq_1_to_100000", "delete from dibs_inbox"} {
			if _, err := db.ExecContext(b.Context(), text); err != nil {
				b.Fatal(err)
			}
		}
		look(b)
	})
}

// BenchmarkInboxWakes measures the time from an insert to the claim of a worker that waits.
func BenchmarkInboxWakes(b *testing.B) {
	address := mytest.Address(b)
	s, db := openStore(b, address), program(b, address)
	wake, stop := s.Wakeups("q")
	defer stop()
	for b.Loop() {
		b.StopTimer()
		time.Sleep(20 * time.Millisecond) // else each insert would come just after a look
		b.StartTimer()
		if _, err := db.ExecContext(b.Context(), insertOne); err != nil {
			b.Fatal(err)
		}
		for claimed := 0; claimed == 0; {
			<-wake
			jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
			if err != nil {
				b.Fatal(err)
			}
			claimed = len(jobs)
		}
	}
}
