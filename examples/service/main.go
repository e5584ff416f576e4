// Command service is a service with a queue of its own: users sign up over HTTP, and get an
// email each; another email says each morning how many there are. At most ten emails start a
// second. It logs JSON, counts what happens, answers probes, and stops well when it is told to.
// docs/howto/deploying.md, docs/howto/monitoring.md and docs/howto/rates.md explain it.
//
//	go run ./examples/service
//	curl -i --data email=ann@example.com localhost:8080/users
//	curl localhost:8080/jobs/1
//
// DIBS_DB names the database as it does for the command dibs: sqlite:PATH, or a PATH that ends in
// .db, .sqlite or .sqlite3, or postgres://localhost/mydb.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"expvar"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/sqlite"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	db := flag.String("db", cmp.Or(os.Getenv("DIBS_DB"), "sqlite:service.db"), "sqlite:PATH or a postgres:// URL")
	address := flag.String("listen", "localhost:8080", "where to serve HTTP")
	flag.Parse()
	if err := run(*db, *address); err != nil {
		slog.Error("the service ended", "error", err)
		os.Exit(1)
	}
}

// openDatabase opens the queue, and a pool for the service's own table in the same database.
func openDatabase(ctx context.Context, url string) (store, *sql.DB, error) {
	if path := sqlitePath(url); path != "" {
		jobs, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return nil, nil, err
		}
		return jobs, jobs.DB(), nil
	}
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, nil, errors.New("unknown kind of database: name sqlite:PATH or postgres://USER@HOST/NAME in --db or $DIBS_DB")
	}
	if err := postgres.Migrate(ctx, url, postgres.Options{}); err != nil {
		return nil, nil, err
	}
	jobs, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, nil, errors.Join(err, jobs.Close())
	}
	return jobs, db, nil
}

// sqlitePath is the path of the SQLite file that a URL names, or empty if it names none.
func sqlitePath(url string) string {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return strings.TrimPrefix(path, "//")
	}
	switch filepath.Ext(url) {
	case ".db", ".sqlite", ".sqlite3":
		if !strings.Contains(url, "://") {
			return url
		}
	}
	return ""
}

func run(url, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	jobs, db, err := openDatabase(ctx, url)
	if err != nil {
		return err
	}
	defer jobs.Close()
	defer db.Close()
	s := &service{jobs: jobs, db: db, send: logEmail}
	if err := s.start(ctx); err != nil {
		return err
	}
	worker, mux := s.worker(), s.routes()
	worker.Hooks = counters()
	mux.Handle("GET /debug/vars", expvar.Handler())
	mux.HandleFunc("GET /healthz", probe(worker.Live))
	mux.HandleFunc("GET /readyz", probe(worker.Ready))
	context.AfterFunc(ctx, func() {
		again, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(again, worker.StopNow)
	})

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	slog.Info("listening", "address", listener.Addr().String())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return worker.Run(ctx) }) // nil after SIGTERM
	all.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	all.Go(func() error {
		<-ctx.Done() // SIGTERM, or one of the others has failed
		wait, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return server.Shutdown(wait)
	})
	return all.Wait()
}

// logEmail stands for a mail server.
func logEmail(_ context.Context, to, text string) error {
	slog.Info("email", "to", to, "text", text)
	return nil
}

func counters() dibs.Hooks {
	endings, seconds := expvar.NewMap("dibs_attempts"), expvar.NewFloat("dibs_handler_seconds")
	lost, failed := expvar.NewInt("dibs_leases_lost"), expvar.NewMap("dibs_store_errors")
	return dibs.Hooks{
		Finished: func(a dibs.Attempt) {
			ending := string(a.Outcome.Ending)
			switch {
			case a.NotWritten != nil: // refused, or the database was unreachable
				ending = "not_written"
			case ending == "": // the handler finished it in a transaction: ErrFinished
				ending = "finished"
			}
			endings.Add(ending, 1)
			seconds.Add(a.Ran.Seconds())
		},
		LeaseLost: func(*dibs.RawJob, error) { lost.Add(1) },
		Error:     func(call string, _ error) { failed.Add(call, 1) },
	}
}

// probe answers 200 while check finds nothing wrong.
func probe(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}
