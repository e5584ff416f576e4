package torture

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// order makes the test program play a part of a run.
type order struct {
	Part Part
	URL  string
}

func TestMain(m *testing.M) {
	lab.Obey(func(ctx context.Context, o order) error {
		return o.Part.Play(ctx, o.URL, func(ctx context.Context) (admin.Database, error) {
			return open.Database(ctx, open.URL(o.URL), open.Options{})
		})
	})
	needs.Split()
	os.Exit(m.Run())
}

func TestEveryPromiseIsKeptOnSQLite(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	untilAllWasTried(t, []string{kills, stops, limits, pauses, meddling, endedOverHTTP}, func() *Result {
		return runTorture(t, "sqlite:"+filepath.Join(t.TempDir(), "torture.db"), nil)
	})
}

func TestEveryPromiseIsKeptOnPostgreSQL(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs PostgreSQL: not with -short")
	}
	needs.Night(t, "dibs torture runs on PostgreSQL in TestTortureKeepsEveryPromiseAndCleansUp; servers are killed in TestAKilledServerHasAllThatItAcknowledged")
	untilAllWasTried(t, []string{kills, stops, cuts, crashes, snapshots, limits, pauses, meddling, endedOverHTTP}, func() *Result {
		server, err := pgtest.Launch()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		return runTorture(t, server.URL(), server)
	})
}

type testProcesses struct{}

func (testProcesses) Command(p Part, url string) (*exec.Cmd, error) { return lab.Self(order{p, url}) }

func (testProcesses) Start(cmd *exec.Cmd) error { return cmd.Start() }

// untilAllWasTried runs a torture, again and again on a machine too busy to get to everything in
// one, until all promises were tried and all faults have happened.
func untilAllWasTried(t *testing.T, faults []string, torture func() *Result) {
	t.Helper()
	left := map[string]bool{}
	for _, f := range faults {
		left[f] = lab.CanSuspend || f != stops
	}
	for _, v := range history.Judge(history.Evidence{}) {
		left["promise: "+v.Promise] = true
	}
	const runs = 20
	for range runs {
		r := torture()
		for _, v := range r.Verdicts {
			if v.Checked > 0 {
				delete(left, "promise: "+v.Promise)
			}
		}
		maps.DeleteFunc(left, func(f string, must bool) bool { return !must || r.Faults[f] > 0 })
		if len(left) == 0 || t.Failed() {
			return
		}
	}
	t.Errorf("not tried or not happened in %d runs: %v", runs, slices.Sorted(maps.Keys(left)))
}

// runTorture runs the torture for a short time, and fails the test for every broken promise.
func runTorture(t *testing.T, url string, server Server) *Result {
	t.Helper()
	needs.Long(t)
	if err := open.Migrate(t.Context(), open.URL(url), open.Options{}); err != nil {
		t.Fatal(err)
	}
	db, err := open.Database(t.Context(), open.URL(url), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TORTURE_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TORTURE_SEED=%d", seed)
	dir := t.TempDir()
	effects := "effects"
	if server != nil {
		effects = "public.effects"
	}
	r, err := Run(t.Context(), Config{
		About: About{Workers: 4, Seed: seed, Duration: 10 * time.Second},
		DB:    db, URL: url, Effects: effects, Dir: dir, Server: server, Processes: testProcesses{},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Verdicts {
		t.Logf("%d: %d cases", v.Number, v.Checked)
		for i, b := range v.Broken {
			if i == 3 {
				t.Errorf("and %d more", len(v.Broken)-i)
				break
			}
			t.Errorf("promise %d (%s) was broken: %s\n%s", v.Number, v.Promise, b.Text, strings.Join(Lines(&b), "\n"))
		}
	}
	judgedAgain, err := Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(judgedAgain.Verdicts, r.Verdicts) || !reflect.DeepEqual(judgedAgain.Totals, r.Totals) || !reflect.DeepEqual(judgedAgain.About, r.About) {
		t.Errorf("judged again from %+v: %+v\n%+v", judgedAgain.About, judgedAgain.Totals, judgedAgain.Verdicts)
	}
	if len(r.Verdicts) != 13 || r.Totals.Operations == 0 {
		t.Errorf("%d verdicts, totals %+v", len(r.Verdicts), r.Totals)
	}
	checkReport(t, r)
	r.Faults[endedOverHTTP] = completedOverHTTP(t, db)
	return r
}

// endedOverHTTP is the name under which jobs are counted that programs without dibs completed.
const endedOverHTTP = "completed over HTTP"

func completedOverHTTP(t *testing.T, db admin.Database) (n int) {
	t.Helper()
	page, err := db.List(t.Context(), admin.Filter{State: dibs.Completed, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if strings.HasSuffix(j.Worker, httpSuffix) {
			n++
		}
	}
	return n
}

// checkReport checks that the report contains the story and refers to no other file.
func checkReport(t *testing.T, r *Result) {
	t.Helper()
	var page bytes.Buffer
	if err := WriteReport(&page, r); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, foreign := range []string{"http:", "https:", "<script", "<link", "url("} {
		if strings.Contains(text, foreign) {
			t.Errorf("the report holds %q", foreign)
		}
	}
	if r.Story == nil || len(r.Story.Events) < 3 {
		t.Fatalf("no story: %+v", r.Story)
	}
	last := r.Story.Events[min(len(r.Story.Events), maxLines)-1]
	for _, want := range []string{r.Summary()[1:], r.Version, fmt.Sprintf("job %d", r.Story.Job), last.Client} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not hold %q", want)
		}
	}
	if !slices.IsSortedFunc(r.Story.Events, func(a, b Event) int { return a.At.Compare(b.At) }) {
		t.Error("the story is not in order")
	}
}
