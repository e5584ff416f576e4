package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// Errors of a URL never contain its password, even where it is unclear which part that is.
func TestErrorsOfURLsTellNoPassword(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"postgres://u:S3CRET@127.0.0.1:1/db?sslmode=maybe",
		"postgres://127.0.0.1:1/db?sslmode=maybe&password=S3CRET",
		"postgres://127.0.0.1:1/db?pool_max_conns=many&sslpassword=S3CRET",
		"postgres://127.0.0.1:1/db?connect_timeout=long&passfile=S3CRET",
		"postgres://u:a/S3CRET@127.0.0.1:1/db",
		"postgres://S3CRET:1/2@127.0.0.1:1/db",
		"postgres://u?S3C/RET@127.0.0.1:1/db?S3CRET",
		"postgres://u:%S3CRET@127.0.0.1:1/db",
		"postgres://u:S3CRET",
		"postgres://u:1:S3CRET@h:x/db",
		"postgres:u:S3CRET@127.0.0.1:1/db",
		"postgres:u:S3CRET@127.0.0.1:1/db b=c",
		"mysql://u:S3CRET@127.0.0.1:1/db",
		"u:S3CRET@127.0.0.1:1/db",
		"S3CRET",
		"host=127.0.0.1 password=a S3CRET",
		"host=127.0.0.1 password=a S3CRET sslmode=disable",
		"host=127.0.0.1 password='S3CRET",
		"host=127.0.0.1 password='S3CRET' sslmode=maybe",
		"host=127.0.0.1 port=S3CRET",
	} {
		_, err := postgres.Open(t.Context(), u, postgres.Options{})
		for _, err := range []error{err, postgres.Migrate(t.Context(), u, postgres.Options{})} {
			if !errors.Is(err, dibs.ErrInvalid) && !strings.Contains(u, "pool_") {
				t.Errorf("%s: %v", u, err)
			}
			if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "S3CRET") || strings.Contains(text, "S3") {
				t.Errorf("%s: %s", u, text)
			}
		}
	}
}

// Errors of a server that does not answer, or refuses, do not contain the password either.
func TestErrorsOfConnectingTellNoPassword(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"postgres://u:S3CRET@127.0.0.1:1/db",
		"postgres://127.0.0.1:1/db?user=u&password=S3CRET&sslpassword=S3CRET",
		"host=127.0.0.1 port=1 user=u password=S3CRET",
	} {
		_, err := postgres.Open(t.Context(), u, postgres.Options{})
		for _, err := range []error{err, postgres.Migrate(t.Context(), u, postgres.Options{})} {
			if !errors.Is(err, dibs.ErrUnavailable) || strings.Contains(fmt.Sprintf("%v %+v", err, err), "S3CRET") {
				t.Errorf("%s: %v", u, err)
			}
		}
	}
}
