package mysql_test

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// TestTheServersClockIsReadAgain moves what the store knows of the server's clock, as if the clocks had drifted apart.
func TestTheServersClockIsReadAgain(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	job := dibs.NewJob{Queue: "q", Kind: "k"}
	added, err := s.Enqueue(t.Context(), []dibs.NewJob{job})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		age   time.Duration // how old the last reading is
		right bool
		call  func() error
	}{
		{"a read soon after a reading", 0, false, func() error { _, err := s.Get(t.Context(), added[0].ID); return err }},
		{"a read long after one", time.Hour, true, func() error { _, err := s.Get(t.Context(), added[0].ID); return err }},
		{"a read before one, as the system's clock was put back", -time.Hour, true, func() error { _, err := s.Get(t.Context(), added[0].ID); return err }},
		{"a look for new work long after one", time.Hour, true, func() error { s.Look(t.Context()); return nil }},
		{"a transaction", 0, true, func() error { _, err := s.Enqueue(t.Context(), []dibs.NewJob{job}); return err }},
	} {
		s.Drift(time.Hour, c.age)
		if err := c.call(); err != nil {
			t.Fatal(err)
		}
		if wrong := time.Until(s.Now()).Abs(); wrong < time.Minute != c.right {
			t.Errorf("after %s the time is wrong by %v", c.name, wrong)
		}
	}
}
