package settings

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

func TestAChangeIsMadeOfWhatIsThereAtTheEnd(t *testing.T) {
	t.Parallel()
	stored, others := dibs.DefaultSettings("q"), 3
	read := func() (dibs.Queue, error) { return stored, nil }
	called := 0
	got, err := ChangeQueue("q", func(q *dibs.Queue) error {
		called++
		q.JobTimeout += time.Second
		return nil
	}, read, func(before, after dibs.Queue) error {
		if others > 0 { // somebody else comes first
			others--
			stored.MaxAttempts++
		}
		if stored != before {
			return checks.Failed("change queue", ErrStale) // as stores name it
		}
		stored = after
		return nil
	})
	if err != nil || called != 4 || got != stored || got.JobTimeout != time.Second || got.MaxAttempts != dibs.DefaultSettings("q").MaxAttempts+3 {
		t.Errorf("after %d calls it is %+v, %v", called, got, err)
	}
}

func TestAChangeThatIsAlwaysOvertakenEnds(t *testing.T) {
	t.Parallel()
	called := 0
	err := ChangeGroup("q", "g", func(g *dibs.Group) error { called++; g.Limit = 2; return nil },
		func() (dibs.Group, error) { return dibs.Group{Name: "g"}, nil },
		func(dibs.Group, dibs.Group) error { return ErrStale })
	if !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, ErrStale) || called != rounds {
		t.Errorf("after %d calls: %v", called, err)
	}
	if want := fmt.Sprintf("dibs: change group g: its settings changed %d times meanwhile: ", rounds); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
}

func TestErrorsOfAChangeAreReturnedAsTheyAre(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	read := func() (dibs.Queue, error) { return dibs.DefaultSettings("q"), nil }
	write := func(dibs.Queue, dibs.Queue) error { t.Error("something was written"); return nil }
	if q, err := ChangeQueue("q", func(*dibs.Queue) error { return mine }, read, write); !errors.Is(err, mine) || q != (dibs.Queue{}) {
		t.Errorf("got %+v, %v", q, err)
	}
	for name, f := range map[string]func(*dibs.Queue) error{"": func(*dibs.Queue) error { return nil }, "q": nil} {
		if _, err := ChangeQueue(name, f, read, write); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("the queue %q: %v", name, err)
		}
	}
	if err := OrStale(false, mine); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
}
