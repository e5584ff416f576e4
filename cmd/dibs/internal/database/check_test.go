package database

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Rows deleted with SQL leave wrong counts: check finds them, and with --repair corrects them. It reports other
// damage and leaves it.
func TestCheckRepairsWhatSQLByHandHasLeft(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("check", "--repair", "--json"); got != `{"repaired":[],"findings":[]}`+"\n" {
			t.Errorf("without damage, dibs check --repair --json writes %q", got)
		}
		if got := c.OK("check", "--repair"); got != "nothing wrong\n" {
			t.Errorf("without damage, dibs check --repair writes %q", got)
		}
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines")
		c.BySQL("delete from %sjob where id in (1, 2)")
		if r := c.Run("", "check"); r.Code != cmdline.ExitFailure || r.Out != "queue q: counted 3 waiting, there are 1\n" {
			t.Errorf("dibs check ends with %d and writes %q", r.Code, r.Out)
		}
		if got := c.OK("check", "--repair"); got != "repaired: queue q: counted 3 waiting, there are 1\n" {
			t.Errorf("dibs check --repair writes %q", got)
		}
		c.Has(c.Stats("q"), object{"waiting": 1})
		c.BySQL("update %sjob set payload = 'a'")
		r := c.Run("", "check", "--repair", "--json")
		want := `{"repaired":[],"findings":["job 3: its column payload is not valid JSON: invalid character 'a' looking for beginning of value: \"a\"; a worker ends it as dead"]}` + "\n"
		if r.Code != cmdline.ExitFailure || r.Out != want {
			t.Errorf("with what is not repaired, dibs check --repair --json ends with %d and writes %q", r.Code, r.Out)
		}
		c.BySQL("update %sjob set payload = '1'")
		c.Fails(cmdline.ExitUsage, "", []string{"check", "--repair", "--table", "t.yaml"}, "'dibs check' does not work on an adopted table", "dibs adopt check")
	})
}

// What check says to do about a job without a kind can be done. SQLite refuses such a row.
func TestCheckSaysHowToEndAJobWithoutAName(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgtest.URL(t))
	c.OK("migrate")
	c.OK("enqueue", "q")
	c.BySQL("update %sjob set kind = ''")
	r := c.Run("", "check")
	advice := regexp.MustCompile(`^job 1: its queue or kind has no name: end it by "dibs ([^"]+)", and enqueue it again\n$`).FindStringSubmatch(r.Out)
	if r.Code != cmdline.ExitFailure || advice == nil {
		t.Fatalf("dibs check ends with %d and writes %q", r.Code, r.Out)
	}
	c.OK(strings.Fields(advice[1])...)
	c.Has(c.Job(1), object{"state": "cancelled"})
	if got := c.OK("check"); got != "nothing wrong\n" {
		t.Errorf("then dibs check writes %q", got)
	}
}

// If SQL has damaged the stored errors of a few jobs, these jobs say so, all others are shown
// as usual, and each of them can still fail and end.
func TestKeptErrorsThatAreDamagedSpoilNoOtherJob(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		damage := map[int]string{1: `{"a":1}`, 2: `["a"]`, 3: `"a"`, 4: `[{"attempt":"a"}]`, 5: `a`}
		if !strings.HasPrefix(c.DB, "sqlite:") { // its column accepts only JSON
			delete(damage, 5)
		}
		spoil := func(id int) {
			for _, table := range []string{"job", "finished"} {
				c.BySQL(fmt.Sprintf("update %%s%s set run_at = created_at, errors = '%s' where id = %d", table, damage[id], id))
			}
		}
		fail := func(text string, dead float64) {
			for range 6 {
				job := c.Row(c.OK("claim", "q"))
				ending := map[bool]string{true: "--dead", false: "--retry"}[job["id"] == dead]
				c.OK("finish", fmt.Sprint(job["id"]), job["token"].(string), ending, "--error", text)
			}
		}
		c.Feed("1\n2\n3\n4\n5\n6\n", "enqueue", "q", "--lines")
		fail("the server said no", 3)
		for id := range damage {
			spoil(id)
		}
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"show", "6"}} {
			if got := c.OK(args...); !strings.Contains(got, "the server said no") {
				t.Errorf("dibs %v does not show the error of job 6:\n%s", args, got)
			}
		}
		found := c.Run("", "check").Out
		for id, text := range damage {
			if got := c.OK("show", fmt.Sprint(id)); !strings.Contains(got, "  attempt unknown\n    the kept errors are damaged: "+text[:1]) {
				t.Errorf("dibs show %d does not show %s:\n%s", id, text, got)
			}
			if !strings.Contains(found, fmt.Sprintf("job %d: its kept errors are damaged\n", id)) {
				t.Errorf("dibs check does not name job %d:\n%s", id, found)
			}
		}
		if n := strings.Count(found, "\n"); n != len(damage) {
			t.Errorf("dibs check has %d findings of %d:\n%s", n, len(damage), found)
		}
		c.OK("requeue", "3")
		c.BySQL("update %sjob set run_at = created_at")
		fail("the server said no again", 1)
		spoil(2)
		c.Row(c.OK("claim", "q", "--lease", "1s"))
		if r := c.Run("", "work", "q", "--until-empty", "--", "true"); r.Code != cmdline.ExitOK || !strings.Contains(c.OK("show", "2"), "lease expired") {
			t.Errorf("dibs work ends with %d: %s", r.Code, r.Err)
		}
		c.BySQL("update %sfinished set errors = null")
	})
}

// A damaged payload spoils no other job either, wherever jobs are written as JSON.
func TestADamagedPayloadSpoilsNoOtherJob(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n", "enqueue", "q", "--jsonl")
		c.BySQL("update %sjob set payload = '{broken', metadata = '{broken' where id = 1")
		for _, args := range [][]string{{"ls", "--json"}, {"show", "1", "--json"}, {"claim", "q", "-n", "2"}} {
			got := c.OK(args...)
			if !strings.Contains(got, `"payload":"{broken","metadata":"{broken"`) || args[0] != "show" && !strings.Contains(got, `"payload":2`) {
				t.Errorf("dibs %v writes %s", args, got)
			}
		}
		c.BySQL("update %sjob set payload = '1', metadata = null")
	})
}

// The table refuses a time that no program can print and no claim can reach.
func TestTimesThatAreNoneAreRefusedByTheTable(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q", "1")
		times := []string{"-9223372036854775808", "253402300800000000"}
		if strings.HasPrefix(c.DB, "postgres") {
			times = []string{"'infinity'", "'-infinity'", "'20000-01-01'"}
		}
		for _, time := range times {
			if err := c.TryBySQL("update %sjob set run_at = " + time); err == nil || !strings.Contains(strings.ToLower(err.Error()), "constraint") {
				t.Errorf("run_at = %s: %v", time, err)
			}
		}
	})
}

func TestCheckReportsFindings(t *testing.T) {
	c := onSQLite(t)
	for _, json := range []bool{false, true} {
		var out, err strings.Builder
		a := newApp(strings.NewReader(""), &out, &err)
		a.JSON = json
		code := a.Fail(t.Context(), a.report(nil, []string{"job 1 is lost", "job 2 is too"}))
		want := "job 1 is lost\njob 2 is too\n"
		if json {
			want = `{"findings":["job 1 is lost","job 2 is too"]}` + "\n"
		}
		if code != cmdline.ExitFailure || out.String() != want || err.String() != "" {
			t.Errorf("exit code %d, %q, %q", code, out.String(), err.String())
		}
	}
	c.OK("enqueue", "q")
	if got := c.OK("check", "--json"); got != `{"findings":[]}`+"\n" {
		t.Errorf("dibs check writes %q", got)
	}
}
