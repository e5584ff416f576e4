package adopt

import (
	"errors"
	"fmt"

	"github.com/dibs-queue/dibs/internal/checks"
)

var errLocked = errors.New("another transaction has locked these rows; try again")

// cannot returns the error of a call that the mapping does not support.
func (s *Store) cannot(what, why string) error {
	return checks.Failed(what, fmt.Errorf("the adopted table %s %s: %w", s.plan.Mapping.Table, why, errors.ErrUnsupported))
}
