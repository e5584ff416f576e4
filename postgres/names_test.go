package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// A schema's name may be as long as the server allows: the channel that is named after it is cut off alike in Go and
// in SQL, and enqueueing in either way wakes workers.
func TestSchemasOfLongNames(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, length := range []int{57, 58, 59, 63} {
		o := postgres.Options{Schema: strings.Repeat("s", length-1) + "x"}
		if err := postgres.Migrate(t.Context(), url, o); err != nil {
			t.Fatal(err)
		}
		s := opened(t, url, o)
		wake, stop := s.Wakeups(dibs.DefaultQueue)
		defer stop()
		other := opened(t, url, o)
		for _, enqueue := range []func() error{
			func() error {
				_, err := other.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}})
				return err
			},
			func() error {
				_, err := connect(t, url).Exec(t.Context(), "select "+o.Schema+".enqueue('default', '1')")
				return err
			},
		} {
			for rung := false; !rung; { // the store listens soon after it was opened
				if err := enqueue(); err != nil {
					t.Fatalf("%d characters: %v", length, err)
				}
				select {
				case <-wake:
					rung = true
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
	}
}

// A role that owns the schema needs no right to make schemas.
func TestMigrateInASchemaOfOnesOwn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	role := pgtest.Role(t, url, "create schema mine authorization ROLE")
	o := postgres.Options{Schema: "mine"}
	if err := postgres.Migrate(t.Context(), role, o); err != nil {
		t.Fatal(err)
	}
	if _, err := opened(t, role, o).Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Error(err)
	}
	text, err := postgres.Migrations(postgres.Options{Schema: "printed"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	printed := pgtest.Role(t, url, "create schema printed authorization ROLE")
	if _, err := connect(t, printed).Exec(t.Context(), text); err != nil {
		t.Errorf("the printed migrations: %v", err)
	}
	if err := postgres.Migrate(t.Context(), role, postgres.Options{Schema: "another"}); err == nil {
		t.Error("a schema was made without the right")
	}
}
