// Package deploy has no code: its tests check the files that docs/howto/deploying.md and docs/howto/metrics.md explain.
package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	_ "github.com/dibs-queue/dibs" // Go runs the tests again if a file is added to its folder, which needs.Sources cannot read
	"github.com/dibs-queue/dibs/internal/needs"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// parse reads YAML into a value, all documents of it.
func parse[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	for _, part := range strings.Split(read(t, name), "\n---\n") {
		var one T
		if err := yaml.Unmarshal([]byte(part), &one); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, one)
	}
	return all
}

// program finds a program, or skips the test; where CI is set, it has to be there for make test.
func program(t *testing.T, name, missing string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = filepath.Abs("../.tools/" + name)
		if err == nil {
			_, err = os.Stat(path)
		}
	}
	if err != nil {
		needs.Missing(t, "%s is missing: %s", name, missing)
	}
	return path
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	tool := program(t, "promtool", "scripts/promtool.sh fetches it")
	if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// exported are the names of all metrics, as the tests of package metrics list them.
func exported(t *testing.T) map[string]string {
	t.Helper()
	kinds := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(dibs_\w+) (\w+) `).FindAllStringSubmatch(read(t, "../metrics/testdata/names.txt"), -1) {
		kinds[m[1]] = m[2]
	}
	if len(kinds) < 30 {
		t.Fatalf("%d metrics are listed", len(kinds))
	}
	return kinds
}

var metric = regexp.MustCompile(`\bdibs_\w+`)

// onlyExported expects an expression to name only metrics that are exported, and parts of histograms only of histograms.
func onlyExported(t *testing.T, place, expr string) (named []string) {
	t.Helper()
	kinds := exported(t)
	for _, name := range metric.FindAllString(expr, -1) {
		whole := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		switch {
		case kinds[name] != "" && kinds[name] != "histogram":
			named = append(named, name)
		case kinds[whole] == "histogram" && whole != name:
			named = append(named, whole)
		default:
			t.Errorf("%s names %s, which nothing exports", place, name)
		}
		if strings.HasSuffix(name, "_total") && !regexp.MustCompile(`(rate|increase)\(`+name).MatchString(expr) {
			t.Errorf("%s shows the counter %s without its rate", place, name)
		}
	}
	return named
}

type panel struct {
	ID      int
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		UID, Title string
		Panels     []panel
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/dibs.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

func TestTheDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	var named []string
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	grafana := strings.NewReplacer("$__rate_interval", "1m", "$queue", "mail|news")
	ids := map[int]bool{}
	for _, p := range panels(t) {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has the id of another, or is too far to the right", p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			named = append(named, onlyExported(t, "panel "+p.Title, target.Expr)...)
			expr, err := json.Marshal(grafana.Replace(target.Expr))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&rules, "  - record: r%d\n    expr: %s\n", rules.Len(), expr)
		}
	}
	for name := range exported(t) {
		if !slices.Contains(named, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml") // its expressions, where promtool reads them
	write(t, file, rules.String())
	promtool(t, "check", "rules", file)
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	all := panels(t)
	for i, a := range all {
		for _, b := range all[i+1:] {
			p, q := a.GridPos, b.GridPos
			if p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				t.Errorf("panels %q and %q overlap", a.Title, b.Title)
			}
		}
	}
}

type rules struct {
	Groups []struct {
		Rules []struct{ Alert, Expr string }
	}
}

type ruleTests struct {
	Tests []struct {
		AlertRuleTest []struct {
			AlertName string `yaml:"alertname"`
			ExpAlerts []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
		InputSeries []struct{ Series string } `yaml:"input_series"`
	}
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, test := range parse[ruleTests](t, "prometheus/alerts_test.yml")[0].Tests {
		for _, check := range test.AlertRuleTest {
			fires[check.AlertName] = fires[check.AlertName] || len(check.ExpAlerts) > 0
			rests[check.AlertName] = rests[check.AlertName] || len(check.ExpAlerts) == 0
		}
	}
	for _, rule := range parse[rules](t, "prometheus/alerts.yml")[0].Groups[0].Rules {
		onlyExported(t, "alert "+rule.Alert, rule.Expr)
		if !fires[rule.Alert] || !rests[rule.Alert] {
			t.Errorf("no test sees %s fire, or none sees it rest", rule.Alert)
		}
		if !strings.Contains(read(t, "../docs/howto/metrics.md"), "`"+rule.Alert+"`") {
			t.Errorf("docs/howto/metrics.md does not explain %s", rule.Alert)
		}
	}
	promtool(t, "check", "rules", "prometheus/alerts.yml")
	promtool(t, "test", "rules", "prometheus/alerts_test.yml")
}

func TestPrometheusTakesItsConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/alerts.yml", read(t, "prometheus/alerts.yml"))
	write(t, dir+"/prometheus.yml", read(t, "compose/prometheus.yml"))
	promtool(t, "check", "config", dir+"/prometheus.yml")
	write(t, dir+"/token", "secret")
	guide := regexp.MustCompile("(?s)```yaml\n(scrape_configs:.*?)```").FindStringSubmatch(read(t, "../docs/howto/metrics.md"))
	if guide == nil {
		t.Fatal("docs/howto/metrics.md has no scrape_configs")
	}
	write(t, dir+"/guide.yml", strings.ReplaceAll(guide[1], "/etc/prometheus/dibs-token", dir+"/token"))
	promtool(t, "check", "config", dir+"/guide.yml")
}

// TestEveryMetricIsExplained reads the tables of docs/howto/metrics.md.
func TestEveryMetricIsExplained(t *testing.T) {
	t.Parallel()
	page := read(t, "../docs/howto/metrics.md")
	kinds := exported(t)
	for name := range kinds {
		if !strings.Contains(page, "| `"+name) {
			t.Errorf("docs/howto/metrics.md has no line of %s", name)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(dibs_\\w+)").FindAllStringSubmatch(page, -1) {
		if kinds[m[1]] == "" {
			t.Errorf("docs/howto/metrics.md explains %s, which nothing exports", m[1])
		}
	}
}

func TestSystemdTakesTheUnits(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("%v, %v", units, err)
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		needs.Missing(t, "%v: it is part of systemd", err)
	}
	for _, unit := range units {
		text := strings.NewReplacer("/usr/local/bin/dibs", "/bin/true").Replace(read(t, unit))
		file := filepath.Join(t.TempDir(), strings.Replace(filepath.Base(unit), "@", "@emails", 1))
		write(t, file, text)
		out, err := exec.CommandContext(t.Context(), tool, "verify", "--man=no", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(file)) {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}

// container is a container of a pod.
type container struct{ Command, Args []string }

// commands are all calls of dibs in the files, without its name.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	units, err := filepath.Glob("systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		all[unit] = strings.Fields(regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/dibs (.*)$`).FindStringSubmatch(read(t, unit))[1])
	}
	for _, name := range []string{"database", "serve", "work"} {
		for _, object := range parse[struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []container }
				}
			}
		}](t, "kubernetes/"+name+".yaml") {
			for _, c := range object.Spec.Template.Spec.Containers {
				all["kubernetes/"+name] = slices.Concat(c.Command[min(len(c.Command), 1):], c.Args)
			}
		}
	}
	for name, service := range parse[struct{ Services map[string]container }](t, "compose/compose.yaml")[0].Services {
		if len(service.Command) > 0 {
			all["compose, "+name] = service.Command
		}
	}
	if len(all) != 8 {
		t.Fatalf("%d commands: %v", len(all), all)
	}
	return all
}

// TestTheCommandsExist runs each command with --help, which reads its flags first.
func TestTheCommandsExist(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	dibs := needs.Build(t, "../cmd/dibs")
	for place, args := range commands(t) {
		at := len(args)
		if i := slices.Index(args, "--"); i >= 0 {
			at = i
		}
		out, err := exec.CommandContext(t.Context(), dibs, slices.Insert(slices.Clone(args), at, "--help")...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "dibs "+args[0]) {
			t.Errorf("%s: dibs %s: %v\n%s", place, strings.Join(args, " "), err, out)
		}
	}
}
