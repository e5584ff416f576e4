package combine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs/internal/combine"
	"github.com/dibs-queue/dibs/internal/needs"
)

// server answers each number with its double. A batch takes time, and is recorded.
type server struct {
	takes   time.Duration
	leaves  time.Duration // how long Left takes
	mu      sync.Mutex
	batches [][]int
	left    []int
	calls   *combine.Calls[int, int]
}

var errBroken = errors.New("the connection is broken")

func newServer(takes time.Duration) *server {
	s := &server{takes: takes}
	s.calls = &combine.Calls[int, int]{
		Do: s.do, MaxSize: 10, Slow: time.Minute,
		Left: func(_, a int) {
			time.Sleep(s.leaves)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.left = append(s.left, a)
		},
		Size: func(n int) int { return max(1, n/100) },
	}
	return s
}

func (s *server) do(ctx context.Context, batch []int, answer func(int, int, error)) {
	s.mu.Lock()
	s.batches = append(s.batches, slices.Clone(batch))
	s.mu.Unlock()
	var err error
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		err = errBroken
	}
	for i, n := range batch {
		answer(i, 2*n, err)
	}
}

// ask makes calls in this order and returns the answer or error of each.
func (s *server) ask(t *testing.T, numbers ...int) {
	t.Helper()
	var all sync.WaitGroup
	for _, n := range numbers {
		all.Go(func() { s.one(t, n) })
		synctest.Wait()
	}
	all.Wait()
}

func (s *server) one(t *testing.T, n int) {
	t.Helper()
	if a, err := s.calls.Call(context.Background(), n); err != nil || a != 2*n {
		t.Errorf("call %d was answered %d, %v", n, a, err)
	}
}

func (s *server) expect(t *testing.T, batches ...[]int) {
	t.Helper()
	if !slices.EqualFunc(s.batches, batches, slices.Equal) {
		t.Errorf("batches: %v, want %v", s.batches, batches)
	}
}

func TestACallThatMeetsNoOtherIsMadeAtOnce(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(time.Second)
		start := time.Now()
		s.ask(t, 1)
		s.ask(t, 2)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("two calls of a second took %v", took)
		}
		s.expect(t, []int{1}, []int{2})
	})
}

func TestCallsThatWaitGoTogether(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(time.Second)
		s.ask(t, 1, 2, 3, 4)
		s.expect(t, []int{1}, []int{2, 3, 4})
	})
}

func TestABatchHasALimitButForASingleCall(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(time.Second)
		s.ask(t, 1, 500, 400, 200, 5000, 3) // sizes 1, 5, 4, 2, 50, 1
		s.expect(t, []int{1}, []int{500, 400}, []int{200}, []int{5000}, []int{3})
	})
}

func TestASlowBatchDoesNotHoldUpTheNext(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(10 * time.Second)
		s.calls.Slow = time.Second
		start := time.Now()
		s.ask(t, 1, 2, 3)
		if took := time.Since(start); took != 11*time.Second {
			t.Errorf("it took %v", took)
		}
		s.expect(t, []int{1}, []int{2, 3})
	})
}

func TestACallerThatGivesUpHarmsNoOther(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		s, start := newServer(time.Second), time.Now()
		s.leaves = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		give := func(n int) {
			gone.Go(func() {
				if _, err := s.calls.Call(ctx, n); !errors.Is(err, context.Canceled) {
					t.Errorf("call %d: %v", n, err)
				}
			})
			synctest.Wait()
		}
		var others sync.WaitGroup
		others.Go(func() { s.one(t, 1) })
		synctest.Wait()
		give(2) // goes into one batch with 3
		others.Go(func() { s.one(t, 3) })
		time.Sleep(1500 * time.Millisecond)
		give(4) // waits behind this batch
		cancel()
		gone.Wait()
		others.Wait()
		s.expect(t, []int{1}, []int{2, 3})
		s.one(t, 5)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("the others were answered after %v", took)
		}
		time.Sleep(s.leaves)
		synctest.Wait()
		if !slices.Equal(s.left, []int{4}) {
			t.Errorf("answers without a caller: %v, want that to 2 alone", s.left)
		}
	})
}

func TestABatchEndsWhenNobodyWaitsForIt(t *testing.T) {
	needs.Race(t)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(time.Hour)
		s.calls.Slow = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				if _, err := s.calls.Call(ctx, n); err == nil {
					t.Errorf("call %d was answered", n)
				}
			})
		}
		all.Wait()
		synctest.Wait() // synctest fails if a goroutine still waits
		start := time.Now()
		s.takes = 0
		s.ask(t, 7)
		if took := time.Since(start); took != 0 {
			t.Errorf("the next call took %v", took)
		}
	})
}

func TestCallsApartAreAnsweredByThemselves(t *testing.T) {
	answers, batches := make([]int, 3), 0
	calls := combine.Calls[int, int]{
		Do: func(_ context.Context, batch []int, answer func(int, int, error)) {
			batches++
			answer(0, batch[0], nil)
			answer(1, 0, combine.ErrApart)
			answer(2, 0, fmt.Errorf("refused: %w", combine.ErrApart))
		},
		Alone: func(_ context.Context, n int) (int, error) { return -n, nil },
	}
	answer := func(i, a int, err error) {
		if err != nil {
			t.Error(err)
		}
		answers[i] = a
	}
	calls.Make(t.Context(), []int{1, 2, 3}, answer)
	if !slices.Equal(answers, []int{1, -2, -3}) {
		t.Errorf("answers: %v", answers)
	}
	calls.Make(t.Context(), []int{4}, answer)
	if answers[0] != -4 || batches != 1 {
		t.Errorf("a batch of one is answered by %d, after %d batches", answers[0], batches)
	}
}

func TestAValueIsForgottenWithItsLastUser(t *testing.T) {
	var k combine.Keyed[string, *int]
	made := 0
	use := func() (*int, func()) { return k.Use("a", func() *int { made++; return new(made) }) }
	first, leave := use()
	second, leaveToo := use()
	leave()
	if third, done := use(); first != second || third != first || made != 1 {
		t.Errorf("%d values are made for one key", made)
	} else {
		done()
	}
	leaveToo()
	if last, _ := use(); *last != 2 {
		t.Error("the value outlives its last user")
	}
}
