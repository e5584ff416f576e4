package mysql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
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
	empty := func(b *testing.B) {
		if _, err := db.ExecContext(b.Context(), "truncate dibs_inbox"); err != nil {
			b.Fatal(err)
		}
	}
	const one, thousand = `insert into dibs_inbox (queue, kind, payload) values ('q', 'k', '{"a": 1}')`,
		`insert into dibs_inbox (queue, kind, payload) select 'q', 'k', '{"a": 1}' from seq_1_to_1000`
	for name, text := range map[string]string{"insert 1": one, "insert 1000": thousand} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				insert(b, text)
			}
			b.StopTimer()
			empty(b)
		})
	}
	for _, n := range []int{1, 1000} {
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
	due := func(b *testing.B) {
		if _, err := s.Due(b.Context(), []string{"none"}, nil); err != nil {
			b.Fatal(err)
		}
	}
	for name, text := range map[string]string{"take 1": one, "take 1000": thousand} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				insert(b, text)
				b.StartTimer()
				due(b)
			}
		})
	}
	look := func(b *testing.B) {
		for b.Loop() {
			if err := s.LookAtInbox(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("look", look)
	b.Run("look beside a snapshot that keeps 100000 rows", func(b *testing.B) {
		tx, err := db.BeginTx(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it has only read
		if _, err := tx.ExecContext(b.Context(), "select count(*) from dibs_inbox"); err != nil {
			b.Fatal(err)
		}
		insert(b, "insert into dibs_inbox (queue) select 'q' from seq_1_to_100000")
		insert(b, "delete from dibs_inbox")
		look(b)
	})
	b.Run("until claimed by a waiting worker", func(b *testing.B) {
		wake, stop := s.Wakeups("w")
		defer stop()
		for b.Loop() {
			time.Sleep(20 * time.Millisecond)
			insert(b, "insert into dibs_inbox (queue) values ('w')")
			for claimed := 0; claimed == 0; {
				<-wake
				jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{Queue: "w", Worker: "w", N: 1})
				if err != nil {
					b.Fatal(err)
				}
				claimed = len(jobs)
			}
		}
	})
}
