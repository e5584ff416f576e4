package postgres_test

import (
	"context"
	"errors"
	"math"
	"net"
	"regexp"
	"sync"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/storetest"
)

func TestErrorsOfADeadServerAreOneSentence(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	if err := postgres.Migrate(t.Context(), server.URL(), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	s := opened(t, server.URL(), postgres.Options{})
	server.Stop(pgtest.Immediate)
	storetest.Refused(t, s)
}

func TestErrorsOfARevokedRightAreOneSentence(t *testing.T) {
	t.Parallel()
	_, address := migrated(t, postgres.Options{})
	role := pgtest.Role(t, address, pgtest.Grants...)
	s := opened(t, role, postgres.Options{})
	execute(t, connect(t, address), "revoke all on all tables in schema dibs from "+connect(t, role).Config().User)
	storetest.Refused(t, withoutTx{s})
}

// withoutTx is a store that makes a call in InTx.
type withoutTx struct{ *postgres.Store }

func (s withoutTx) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	return s.Store.InTx(ctx, func(tx dibs.Tx) error {
		_, err := tx.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}})
		return errors.Join(err, f(tx))
	})
}

func TestOptionsOutOfRange(t *testing.T) {
	t.Parallel()
	var invalid *dibs.InvalidError
	if _, err := postgres.New(t.Context(), nil, postgres.Options{}); !errors.As(err, &invalid) || invalid.Field != "pool" {
		t.Errorf("without a pool: %v", err)
	}
	for _, n := range []int{-1, math.MaxInt32 + 1, 1 << 40} {
		if _, err := postgres.Open(t.Context(), "postgres://nowhere.invalid/x", postgres.Options{MaxConns: n}); !errors.As(err, &invalid) || invalid.Field != "options.max_conns" {
			t.Errorf("MaxConns %d: %v", n, err)
		}
	}
}

// A call that is under way when the store is closed, connecting for instance, fails with ErrClosed.
func TestCallsThatRaceCloseAreToldSo(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	_, address := migrated(t, postgres.Options{})
	for range 20 {
		s := opened(t, address, postgres.Options{})
		var calls sync.WaitGroup
		begin := make(chan struct{})
		for i := range 16 {
			calls.Go(func() {
				<-begin
				for {
					var err error
					switch i % 4 {
					case 0:
						_, err = s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k", UniqueKey: "u"}})
					case 1:
						_, err = s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
					case 2:
						_, err = s.Stats(t.Context())
					case 3:
						err = s.InTx(t.Context(), func(tx dibs.Tx) error { return nil })
					}
					if err == nil {
						continue
					}
					if !errors.Is(err, dibs.ErrClosed) {
						t.Errorf("a call was told %v", err)
					}
					return
				}
			})
		}
		close(begin)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
	}
}

// A connection that is not made gives one sentence, with the first server and why; pgx has a line for each try of each address.
func TestErrorsOfConnectionsAreOneSentence(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), "postgres://app:secret@127.0.0.1:1,127.0.0.1:2/x", postgres.Options{})
	if !errors.Is(err, dibs.ErrUnavailable) {
		t.Fatal(err)
	}
	if text := err.Error(); !regexp.MustCompile(`^dibs: open: database unavailable: no connection to 127\.0\.0\.1:1 and 1 more: [^\n:]*connect: [^\n:]+$`).MatchString(text) {
		t.Errorf("the error is %q", text)
	}
}

// A server that takes connections and says nothing is as unavailable as one that refuses them.
func TestAServerThatDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, err = postgres.Open(t.Context(), "postgres://app@"+silent.Addr().String()+"/x?sslmode=disable&connect_timeout=1", postgres.Options{})
	if !errors.Is(err, dibs.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
