package server

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// A token that asks for many places leaves some to others, and others do not wait behind all that it asks for.
func TestTokensTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		places := newTurns(3, 2)
		var got []string
		gives := map[string]func(){}
		ask := func(name, token string, n int64) {
			go func() {
				give, err := places.take(t.Context(), token, n)
				if err != nil {
					t.Error(err)
				}
				got, gives[name] = append(got, name), give
			}()
			synctest.Wait()
		}
		for i := range 4 {
			ask(fmt.Sprint("a", i), "a", 1)
		}
		ask("b0", "b", 1)
		ask("b1", "b", 1)
		ask("c0", "c", 1)
		want := []string{"a0", "a1", "b0"}
		if !slices.Equal(got, want) {
			t.Fatalf("%v have places, not %v", got, want)
		}
		for _, step := range []struct{ ends, next string }{{"a0", "c0"}, {"b0", "b1"}, {"c0", "a2"}, {"b1", ""}, {"a1", "a3"}, {"a2", ""}, {"a3", ""}} {
			gives[step.ends]()
			synctest.Wait()
			if step.next != "" {
				want = append(want, step.next)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("after the end of %s, %v had places, not %v", step.ends, got, want)
			}
		}
		if places.used != 0 || len(places.held) != 0 || len(places.waiting) != 0 {
			t.Errorf("left: %+v", places)
		}
	})
}

// A request whose client has gone gives its turn up, and does not hold up those behind it.
func TestATurnThatIsGivenUpHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		places := newTurns(3, 3)
		first, err := places.take(t.Context(), "a", 2)
		if err != nil {
			t.Fatal(err)
		}
		ctx, goAway := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() {
			_, err := places.take(ctx, "b", 3)
			ended <- err
		}()
		synctest.Wait()
		go func() {
			give, err := places.take(t.Context(), "c", 1)
			if err == nil {
				give()
			}
			ended <- err
		}()
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("one has passed another that waits for more places")
		}
		goAway()
		if one, other := <-ended, <-ended; (one == nil) == (other == nil) {
			t.Errorf("of one that has gone and one that waits, the turns end with %v and %v", one, other)
		}
		synctest.Wait()
		first()
		if places.used != 0 {
			t.Errorf("%d places are left in use", places.used)
		}
	})
}
