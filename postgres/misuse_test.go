package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

func TestFunctionsRefuseBadArguments(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var noContext context.Context
	for _, c := range []struct {
		what, field string
		call        func() error
	}{
		{"Open without a context", "ctx", func() error { _, err := postgres.Open(noContext, url, postgres.Options{}); return err }},
		{"New without a context", "pool", func() error { _, err := postgres.New(noContext, nil, postgres.Options{}); return err }},
		{"New without a pool", "pool", func() error { _, err := postgres.New(t.Context(), nil, postgres.Options{}); return err }},
		{"Migrate without a context", "ctx", func() error { return postgres.Migrate(noContext, url, postgres.Options{}) }},
		{"Migrations with a bad schema", "schema", func() error { _, err := postgres.Migrations(postgres.Options{Schema: "a\x00b"}, 0); return err }},
	} {
		var invalid *dibs.InvalidError
		if err := c.call(); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%s: got %v, want an InvalidError of %s", c.what, err, c.field)
		}
	}
}
