package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// rolesInDocs are the statements of docs/operations.md that make roles and give them rights,
// before "dibs migrate", after it, for enqueueing with IfHeld and with After, and for the functions.
func rolesInDocs(t *testing.T) (before, after, held, flows, functions string) {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(-- As .*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 5 {
		t.Fatalf("operations.md has %d blocks that begin with -- As, want 5", len(blocks))
	}
	return string(blocks[0][1]), string(blocks[1][1]), string(blocks[2][1]), string(blocks[3][1]), string(blocks[4][1])
}

func urlForRole(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	return u.String()
}

// The roles of the documentation can do what it says, and nothing else.
func TestRolesAsDocumented(t *testing.T) {
	t.Parallel()
	server, ctx := pgtest.NewServer(t), t.Context()
	super := connect(t, server.URL())
	before, after, held, flows, functions := rolesInDocs(t)
	execute(t, super, "create database shop")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/shop"
	shop := u.String()
	execute(t, connect(t, shop), before)
	for _, role := range []string{"dibs_owner", "dibs_enqueue", "dibs_work", "dibs_read"} {
		execute(t, super, "alter role "+role+" password 'secret'")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(postgres.Migrate(ctx, urlForRole(t, shop, "dibs_owner"), postgres.Options{}))
	execute(t, connect(t, urlForRole(t, shop, "dibs_owner")), after)
	must(postgres.Migrate(ctx, urlForRole(t, shop, "dibs_owner"), postgres.Options{}))

	enqueue := opened(t, urlForRole(t, shop, "dibs_enqueue"), postgres.Options{})
	_, err = enqueue.Enqueue(ctx, []dibs.NewJob{{Queue: "shop", Kind: "k"}, {Queue: "shop", Kind: "k", Group: "g"}, {Queue: "shop", Kind: "k", UniqueKey: "u"}})
	must(err)
	_, err = enqueue.Enqueue(ctx, make600())
	must(err)
	must(enqueue.InTx(ctx, func(tx dibs.Tx) error {
		_, err := tx.Enqueue(ctx, []dibs.NewJob{{Queue: "shop", Kind: "k", UniqueKey: "u"}})
		return err
	}))
	heldKeys(t, enqueue, func() { execute(t, connect(t, urlForRole(t, shop, "dibs_owner")), held) })
	comesAfter(t, enqueue, func() { execute(t, connect(t, urlForRole(t, shop, "dibs_owner")), flows) })
	refused(t, "claim", func() error {
		_, err := enqueue.Claim(ctx, dibs.ClaimRequest{Worker: "w", N: 1})
		return err
	})
	execute(t, connect(t, urlForRole(t, shop, "dibs_owner")), strings.ReplaceAll(functions, "dibs_sql", "dibs_read"))
	execute(t, connect(t, urlForRole(t, shop, "dibs_read")), "select dibs.enqueue('shop')")
	work := opened(t, urlForRole(t, shop, "dibs_work"), postgres.Options{})
	lifecycle(t, work)
	_, err = work.ChangeQueue(ctx, "q", dibs.QueueChange{Strict: new(true)}.Apply)
	must(err)
	must(work.ChangeGroup(ctx, "q", "g", dibs.GroupChange{Limit: new(2), Rate: &dibs.Rate{N: 9, Per: time.Second}}.Apply))
	_, err = work.Prune(ctx, "", "", 0)
	must(err)

	read := opened(t, urlForRole(t, shop, "dibs_read"), postgres.Options{})
	_, err = read.Stats(ctx)
	must(err)
	_, err = read.Queues(ctx)
	must(err)
	for _, state := range []dibs.State{"", dibs.Running, dibs.Completed} {
		_, err = read.List(ctx, admin.Filter{State: state})
		must(err)
	}
	_, err = read.Check(ctx)
	must(err)
	refused(t, "enqueue", func() error {
		_, err := read.Enqueue(ctx, []dibs.NewJob{{Queue: "new", Kind: "k"}})
		return err
	})
}

// heldKeys enqueues with periods, and meets the holder of a key as soon as the role may.
func heldKeys(t *testing.T, enqueue *postgres.Store, allow func()) {
	t.Helper()
	unique := dibs.NewJob{Queue: "shop", Kind: "k", UniqueKey: "day", UniqueFor: time.Hour}
	if _, err := enqueue.Enqueue(t.Context(), []dibs.NewJob{unique, {Queue: "shop", Kind: "k", UniqueKey: "u", UniqueFor: time.Hour}}); err != nil {
		t.Error(err)
	}
	meet := func() error {
		_, err := enqueue.Enqueue(t.Context(), []dibs.NewJob{unique})
		return err
	}
	unique.IfHeld, unique.Payload, unique.Group = dibs.HeldReplace, []byte(`2`), "g"
	refused(t, "replace", meet)
	allow()
	if err := meet(); err != nil {
		t.Error(err)
	}
	unique.IfHeld, unique.Delay, unique.DelayLimit = dibs.HeldPush, time.Minute, time.Hour
	if err := meet(); err != nil {
		t.Error(err)
	}
}

// comesAfter enqueues a job that comes after others as soon as the role may.
func comesAfter(t *testing.T, enqueue *postgres.Store, allow func()) {
	t.Helper()
	follow := func() error {
		_, err := enqueue.Enqueue(t.Context(), []dibs.NewJob{{Queue: "shop", Kind: "k", Ref: "a"}, {Queue: "shop", Kind: "k", After: []dibs.Dep{{Ref: "a"}, {ID: 1}}}})
		return err
	}
	refused(t, "after", follow)
	allow()
	if err := follow(); err != nil {
		t.Error(err)
	}
}

func make600() []dibs.NewJob {
	jobs := make([]dibs.NewJob, 600) // enough for COPY
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "shop", Kind: "k"}
	}
	return jobs
}

// refused expects an error that names the missing right, and the statement to run.
func refused(t *testing.T, what string, call func() error) {
	t.Helper()
	err := call()
	var denied *postgres.DeniedError
	if !errors.Is(err, dibs.ErrDenied) || !errors.As(err, &denied) {
		t.Errorf("%s: got %v, want ErrDenied", what, err)
		return
	}
	if text := strings.Join(denied.Grants, "; "); !regexp.MustCompile(`^grant [a-z, ]+ on dibs\.[a-z_]+`).MatchString(text) {
		t.Errorf("%s: the grants are %q", what, text)
	}
}

// After the grants in an error have been run, the call succeeds.
func TestGrantsOfAnErrorHelp(t *testing.T) {
	t.Parallel()
	if empty := new(postgres.DeniedError); empty.Error() == "" || !errors.Is(empty, dibs.ErrDenied) || errors.Unwrap(empty) != nil {
		t.Errorf("an empty error says %q", empty)
	}
	_, address := migrated(t, postgres.Options{})
	role := pgtest.Role(t, address)
	owner := connect(t, address)
	for range 10 {
		s, err := postgres.Open(t.Context(), role, postgres.Options{})
		if err == nil {
			if _, err = s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err == nil {
				_, err = s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
			}
			_ = s.Close() // never fails
		}
		if err == nil {
			return
		}
		var denied *postgres.DeniedError
		if !errors.As(err, &denied) || len(denied.Grants) == 0 {
			t.Fatalf("got %v", err)
		}
		for _, g := range denied.Grants {
			execute(t, owner, g)
		}
	}
	t.Error("the role still lacks rights")
}

// The register of workers is the one table without which a worker works. The error of the
// report says what to grant.
func TestAWorkerWithoutTheRegisterWorks(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	_, address := migrated(t, postgres.Options{})
	role := pgtest.Role(t, address, pgtest.Grants...)
	name, err := url.Parse(role)
	if err != nil {
		t.Fatal(err)
	}
	owner := connect(t, address)
	execute(t, owner, "revoke all on dibs.worker from "+name.User.Username())
	db := opened(t, role, postgres.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed := make(chan error, 10)
	w := &dibs.Worker{Store: db, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler), Error: func(_ string, err error) { failed <- err }}}
	ran := make(chan bool, 1)
	w.HandleRaw("k", func(context.Context, *dibs.RawJob) error { ran <- true; return nil })
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	refused(t, "register", func() error { return <-failed })
	if _, err := db.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	<-ran
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run gave %v", err)
	}
	refused(t, "workers", func() error { _, err := db.Workers(ctx); return err })
}

// A worker whose role lacks a right ends at once; one that loses a right later goes on.
func TestAWorkerWithoutRightsEnds(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s, address := migrated(t, postgres.Options{})
	role := pgtest.Role(t, address, pgtest.Grants...)
	owner := connect(t, address)
	work := func(ctx context.Context, db dibs.Store, ran func()) error {
		w := &dibs.Worker{Store: db, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
		w.HandleRaw("k", func(context.Context, *dibs.RawJob) error { ran(); return nil })
		return w.Run(ctx)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name, err := url.Parse(role)
	if err != nil {
		t.Fatal(err)
	}
	db := opened(t, role, postgres.Options{})
	revoke := "revoke insert on dibs.finished from " + name.User.Username()
	execute(t, owner, revoke)
	if err := work(ctx, db, func() {}); !errors.Is(err, dibs.ErrDenied) {
		t.Errorf("without the right to keep finished jobs, Run gave %v", err)
	}
	execute(t, owner, strings.NewReplacer("revoke", "grant", "from", "to").Replace(revoke))
	add := func() {
		t.Helper()
		if _, err := s.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
	}
	ran, ended := make(chan bool, 10), make(chan error, 1)
	add()
	working, stop := context.WithCancel(ctx)
	go func() { ended <- work(working, db, func() { ran <- true }) }()
	<-ran
	claims := strings.Replace(revoke, "insert on dibs.finished", "insert on dibs.claim", 1)
	execute(t, owner, claims)
	add()
	select {
	case err := <-ended:
		t.Fatalf("Run ended with %v when a right was revoked", err)
	case <-time.After(300 * time.Millisecond): // it need not be long enough to be sure
	}
	execute(t, owner, strings.NewReplacer("revoke", "grant", "from", "to").Replace(claims))
	<-ran
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBrokenAndForeignSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after string
		words []string
	}{
		"tables are missing":         {"drop table dibs.wake, dibs.finished cascade", []string{"only in part", "finished", "wake"}},
		"a sequence is missing":      {"alter table dibs.job alter id drop default; drop sequence dibs.job_id", []string{"only in part", "job_id"}},
		"its note is missing":        {"delete from dibs.migration", []string{"only in part", "before the first release", "drop schema"}},
		"it is another program's":    {"drop schema dibs cascade; create schema dibs; create table dibs.job (id int)", []string{"job", "not dibs' own", "another schema"}},
		"with migrations of its own": {"drop schema dibs cascade; create schema dibs; create table dibs.migration (version int)", []string{"migration", "not dibs' own"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, address := migrated(t, postgres.Options{})
			execute(t, connect(t, address), c.after)
			_, opens := postgres.Open(t.Context(), address, postgres.Options{})
			for what, err := range map[string]error{"Open": opens, "Migrate": postgres.Migrate(t.Context(), address, postgres.Options{})} {
				if !errors.Is(err, dibs.ErrSchema) {
					t.Errorf("%s gave %v", what, err)
					continue
				}
				for _, w := range c.words {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%s says %q, without %q", what, err, w)
					}
				}
			}
		})
	}
	for _, schema := range []string{"information_schema", "pg_catalog", "PG_dibs", "Information_Schema"} {
		if err := postgres.Migrate(t.Context(), "postgres://nowhere.invalid/x", postgres.Options{Schema: schema}); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("schema %s: %v", schema, err)
		}
	}
}

// A schema is not refused because of another program's objects beside dibs'.
func TestASchemaThatIsThereIsUsed(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	execute(t, connect(t, address), "create schema dibs; create table dibs.customers (id int)")
	if err := postgres.Migrate(t.Context(), address, postgres.Options{}); err != nil {
		t.Error(err)
	}
}

// migrationNames lists the migrations that there are.
func migrationNames(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

func TestMigrateTellsWhatItDid(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	all := migrationNames(t)
	for _, want := range []string{strings.Join(all, ", "), ""} {
		var version int
		var names []string
		o := postgres.Options{Migrated: func(v int, list []string) { version, names = v, list }}
		if err := postgres.Migrate(t.Context(), address+"&pool_max_conns=3", o); err != nil {
			t.Fatal(err)
		}
		if version != len(all) || strings.Join(names, ", ") != want {
			t.Errorf("told of version %d and %q, want %d and %q", version, names, len(all), want)
		}
	}
}

// The printed migrations have no transaction, so a tool can run them in its own.
func TestMigrationsWithoutTransactions(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	text, err := postgres.Migrations(postgres.Options{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, address)
	execute(t, conn, "begin")
	execute(t, conn, text)
	execute(t, conn, "rollback")
	if _, err := postgres.Open(t.Context(), address, postgres.Options{}); !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("after the rollback the schema is there: %v", err)
	}
	execute(t, conn, "begin;"+text+"commit")
	opened(t, address, postgres.Options{})
	newest := len(migrationNames(t))
	if none, err := postgres.Migrations(postgres.Options{}, newest); none != "" || err != nil {
		t.Errorf("since the newest version there are %q, %v", none, err)
	}
	for _, version := range []int{-1, newest + 1} {
		if _, err := postgres.Migrations(postgres.Options{}, version); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("since version %d: %v", version, err)
		}
	}
}
