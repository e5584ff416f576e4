package torture

import (
	"errors"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
)

func TestTooManyWorkersForTheServerAreRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := open.Migrate(t.Context(), open.URL(url), open.Options{}); err != nil {
		t.Fatal(err)
	}
	db, err := open.Database(t.Context(), open.URL(url), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sized := func(workers int) (int, error) {
		r := &run{Config: Config{DB: db, URL: url, About: About{Workers: workers}}}
		return r.poolSize(t.Context())
	}
	var few *ConnectionsError
	if _, err := sized(100_000); !errors.As(err, &few) {
		t.Fatalf("100,000 workers: %v", err)
	}
	if few.Most > few.Free || few.Need <= few.Free {
		t.Errorf("%+v", few)
	}
	if few.Most < 1 {
		t.Fatal("the server has hardly any connection free: give it more max_connections")
	}
	if n, err := sized(1); err != nil || n < minPool || n > maxPool {
		t.Errorf("one worker: a pool of %d, %v", n, err)
	}
}
