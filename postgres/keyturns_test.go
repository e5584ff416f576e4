package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// While an open transaction has enqueued a job with a unique key, no other job with that key can be enqueued, as
// nobody knows yet whether the key is held. Calls that try use only one connection of the pool, and end with an
// error.
func TestAnOpenTransactionHoldsUpItsOwnKeyOnly(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s, url := migrated(t, postgres.Options{MaxConns: 3})
	holder := connect(t, url)
	execute(t, holder, "begin")
	execute(t, holder, "select dibs.enqueue('mail', '1', kind => 'k', unique_key => 'held')")
	held := dibs.NewJob{Queue: "mail", Kind: "k", UniqueKey: "held"}
	const callers = 20
	errs := make(chan error, callers+1)
	for range callers {
		go func() {
			_, err := s.Enqueue(t.Context(), []dibs.NewJob{held})
			errs <- err
		}()
	}
	go func() {
		_, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail", Kind: "k"}, held})
		errs <- err
	}()
	for _, key := range []string{"a", "b", "c"} {
		got, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "mail", Kind: "k", UniqueKey: key}})
		if err != nil || got[0].Existing {
			t.Errorf("key %s: %+v %v", key, got, err)
		}
	}
	for range callers + 1 {
		if err := <-errs; !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "a transaction that has not ended has enqueued a job with the unique key") {
			t.Errorf("a caller with the held key got %v", err)
		}
	}
	execute(t, holder, "commit")
	got, err := s.Enqueue(t.Context(), []dibs.NewJob{held})
	if err != nil || !got[0].Existing {
		t.Errorf("after the commit: %+v %v", got, err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Waiting != 4 {
		t.Errorf("%+v %v", stats, err)
	}
}
