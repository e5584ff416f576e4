package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/session"
)

func TestAURLThatCannotBeParsedKeepsItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://user:sec ret@host/database",
		"postgres://user:secret%zz@host/database",
		"host=host password=first secret user=user",
		"host=host password=secret port=many",
	} {
		_, _, err := session.Parse(url)
		if !errors.Is(err, dibs.ErrInvalid) || strings.Contains(err.Error(), "ret") || strings.Contains(err.Error(), "first") {
			t.Errorf("%s: %v", url, err)
		}
		if _, _, err := session.DB(t.Context(), url); !errors.Is(err, dibs.ErrInvalid) || strings.Contains(err.Error(), "ret") {
			t.Errorf("%s of a database that is not dibs': %v", url, err)
		}
	}
}
