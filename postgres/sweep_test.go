package postgres

import (
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs"
)

// Jobs past retention are deleted as fast as they come: if a sweep leaves some, the next one
// goes on at once.
func TestRetentionGoesOnInTheNextSweep(t *testing.T) {
	s := footprintStore(t)
	if _, err := s.ChangeQueue(t.Context(), "m", dibs.QueueChange{}.Apply); err != nil {
		t.Fatal(err)
	}
	const most, more = pruneMost, 7
	old := fmt.Sprintf(`
		insert into %s.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload)
		select i, 'completed', now() - interval '2 days', now(), now(), 1, 0, 1, 1, false, 'm', 'k', '1' from generate_series(1, %d) i`, s.o.schema(), most+more)
	if _, err := s.pool.Exec(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for sweep, want := range []int{most, more, 0} {
		swept, err := s.Sweep(t.Context())
		if err != nil || swept.Pruned != want {
			t.Fatalf("sweep %d pruned %d, want %d; %v", sweep+1, swept.Pruned, want, err)
		}
	}
}

// Many queues whose jobs are past retention make no statement long, nor a sweep.
func TestRetentionOfManyQueuesIsDoneInParts(t *testing.T) {
	s := footprintStore(t)
	const queues, each = 30, pruneBatch
	for i := range queues {
		if _, err := s.ChangeQueue(t.Context(), fmt.Sprint("q", i), dibs.QueueChange{}.Apply); err != nil {
			t.Fatal(err)
		}
	}
	old := fmt.Sprintf(`
		insert into %s.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload)
		select i, 'completed', now() - interval '2 days', now(), now(), 1, 0, 1, 1, false, 'q' || i %% %d, 'k', '1' from generate_series(1, %d) i`, s.o.schema(), queues, queues*each)
	if _, err := s.pool.Exec(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for sweep, want := range []int{pruneMost, queues*each - pruneMost, 0} {
		swept, err := s.Sweep(t.Context())
		if err != nil || swept.Pruned != want {
			t.Fatalf("sweep %d pruned %d, want %d; %v", sweep+1, swept.Pruned, want, err)
		}
	}
}
