package rowstore

import (
	"context"
	"errors"
	"testing"

	"github.com/dibs-queue/dibs"
)

// TestARateThatCannotBeReadIsAnError is a claim whose connection is lost just then.
func TestARateThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	lost := errors.New("lost")
	s := NewSession(context.Background(), nil, &Dialect{})
	s.err = lost
	if _, err := s.mayStart(&queue{Queue: dibs.Queue{Rate: dibs.Rate{N: 1}}}); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
}
