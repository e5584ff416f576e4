package dibs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// These tests check what a machine can of how the code is written; CONTRIBUTING.md gives the reasons.
const (
	maxFunction   = 70  // lines
	maxFile       = 400 // lines
	maxTestFile   = 450 // lines
	maxOptions    = 10  // fields of a struct of settings
	minHeaderPart = 2   // characters of each part of an SQL header
)

func TestTidyFilesAndFunctionsAreShort(t *testing.T) {
	t.Parallel()
	for name, file := range goFiles(t) {
		limit := maxFile
		if strings.HasSuffix(name, "_test.go") {
			limit = maxTestFile
		}
		if n := file.lines(file.syntax); n > limit {
			t.Errorf("%s has %d lines, at most %d are allowed: does it hold one thing?", name, n, limit)
		}
		for node := range ast.Preorder(file.syntax) {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if n := file.lines(node); n > maxFunction {
					t.Errorf("%s: %s has %d lines, at most %d are allowed", name, node.Name, n, maxFunction)
				}
			case *ast.TypeSpec:
				settings, ok := node.Type.(*ast.StructType)
				if ok && (strings.HasSuffix(node.Name.Name, "Options") || strings.HasSuffix(node.Name.Name, "Config")) && settings.Fields.NumFields() > maxOptions {
					t.Errorf("%s: %s has %d fields, at most %d are allowed", name, node.Name, settings.Fields.NumFields(), maxOptions)
				}
			}
		}
	}
}

// driver lists what a package may import beside the standard library and this module.
var driver = map[string][]string{
	".":                    nil,
	"admin":                {""},
	"adopt":                nil,
	"adopt/advice":         {"go.yaml.in/yaml/v4"},
	"adopt/mapping":        {"go.yaml.in/yaml/v4"},
	"internal/adopted":     {"github.com/go-sql-driver/mysql"}, // its errors
	"internal/ticks":       {"github.com/netresearch/go-cron"},
	"internal/needs":       nil,
	"internal/chars":       nil,
	"internal/nesting":     nil,
	"internal/waits":       nil,
	"internal/page":        nil,
	"dibstest":             {"github.com/jackc/pgx/v5"},
	"otel":                 {"go.opentelemetry.io/otel"},
	"metrics":              {"github.com/prometheus/client_golang"},
	"internal/lab/history": nil,                                                   // storetest is built on it, and its users get what it imports
	"server":               {"go.yaml.in/yaml/v4", "golang.org/x/sync/semaphore"}, // pgx needs the semaphore too
	"sqlite":               {"modernc.org/sqlite"},
	"mysql":                {"github.com/go-sql-driver/mysql"},
	"sqlserver":            {"github.com/microsoft/go-mssqldb"},
	"postgres":             {"github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2"}, // puddle is pgx's pool

	"cmd/dibs/internal/cmdline":  {"github.com/spf13/cobra", "github.com/spf13/pflag"},
	"cmd/dibs/internal/runner":   {"golang.org/x/sys/unix"},
	"cmd/dibs/internal/daemon":   {"github.com/prometheus/client_golang", "github.com/spf13/cobra"},
	"cmd/dibs/internal/jobs":     {"github.com/spf13/cobra"},
	"cmd/dibs/internal/queues":   {"github.com/spf13/cobra", "github.com/spf13/pflag"},
	"cmd/dibs/internal/database": {"github.com/jackc/pgx/v5", "github.com/jedib0t/go-pretty/v6", "github.com/spf13/cobra"},
	"cmd/dibs/internal/top":      {"charm.land/bubbletea/v2", "charm.land/lipgloss/v2", "github.com/spf13/cobra"},
	"cmd/dibs/internal/linear":   {"github.com/anishathalye/porcupine"},
	"cmd/dibs/internal/torture":  {"github.com/jackc/pgx/v5", "go.yaml.in/yaml/v4"},
	"cmd/dibs/internal/term":     {"github.com/jedib0t/go-pretty/v6", "github.com/schollz/progressbar/v3", "golang.org/x/term"},
	"internal/reads":             nil,
	"internal/rowstore":          nil,
}

// below lists which packages of this module a package may import.
var below = map[string][]string{
	".":                    {"internal/chars", "internal/nesting"},
	"admin":                {""},
	"adopt":                {"", "adopt/mapping", "internal/adopted", "internal/checks", "internal/nesting", "internal/waits"},
	"adopt/advice":         {"", "adopt", "adopt/mapping", "internal/adopted", "internal/chars", "internal/checks", "internal/qualify"},
	"adopt/mapping":        {""},
	"internal/adopted":     {"", "adopt/mapping", "internal/checks", "internal/qualify"},
	"internal/checks":      {"", "internal/chars", "internal/nesting", "internal/zone"},
	"internal/chars":       nil,
	"internal/combine":     nil,
	"internal/nesting":     nil,
	"internal/ticks":       {"", "internal/checks", "internal/zone"},
	"internal/zone":        {""},
	"internal/waits":       {"", "internal/checks"},
	"sqlite":               {"", "internal/checks", "internal/reads", "internal/rowstore", "internal/sqlfiles"},
	"mysql":                {"", "internal/checks", "internal/reads", "internal/rowstore", "internal/sqlfiles"},
	"sqlserver":            {"", "internal/checks", "internal/reads", "internal/rowstore", "internal/sqlfiles"},
	"internal/bucket":      {""},
	"internal/rest":        nil,
	"dibstest":             {"", "postgres", "sqlite"},
	"otel":                 {""},
	"metrics":              {""},
	"internal/qualify":     nil,
	"internal/session":     {""},
	"postgres":             {"", "internal/bucket", "internal/checks", "internal/combine", "internal/reads", "internal/rest", "internal/ticks", "internal/waits", "internal/qualify", "internal/session", "internal/settings", "internal/sqlfiles", "internal/wakeups"},
	"internal/lab/history": {""},
	"storetest":            {"", "internal/checks", "internal/lab/history", "internal/needs"},
	"internal/wire":        {"", "internal/nesting"},
	"internal/words":       {"internal/checks"},
	"internal/holdups":     {"", "internal/words"},
	"internal/page":        {"", "internal/checks", "internal/failures", "internal/holdups", "internal/wire", "internal/words"},
	"server":               {"", "internal/checks", "internal/page", "internal/wire", "internal/words"},

	"cmd/dibs/internal/term":     {"", "internal/checks", "internal/wire", "internal/words"},
	"cmd/dibs/internal/cmdline":  {"", "adopt", "adopt/advice", "adopt/mapping", "cmd/dibs/internal/term", "internal/open", "internal/wire", "internal/words"},
	"cmd/dibs/internal/runner":   {"", "cmd/dibs/internal/term", "internal/checks", "internal/nesting", "internal/wire", "internal/words"},
	"cmd/dibs/internal/daemon":   {"", "cmd/dibs/internal/cmdline", "cmd/dibs/internal/runner", "cmd/dibs/internal/term", "internal/checks", "internal/open", "internal/words", "metrics", "server"},
	"cmd/dibs/internal/jobs":     {"", "cmd/dibs/internal/cmdline", "cmd/dibs/internal/term", "internal/checks", "internal/failures", "internal/open", "internal/holdups", "internal/wire", "internal/words"},
	"cmd/dibs/internal/queues":   {"", "cmd/dibs/internal/cmdline", "cmd/dibs/internal/term", "internal/checks", "internal/ticks", "internal/holdups", "internal/wire", "internal/words"},
	"cmd/dibs/internal/database": {"", "adopt", "adopt/advice", "adopt/mapping", "cmd/dibs/internal/cmdline", "cmd/dibs/internal/term", "internal/adopted", "internal/failures", "internal/open", "internal/ticks", "internal/holdups", "internal/wire", "internal/words", "postgres", "sqlite"},
	"cmd/dibs/internal/linear":   {"internal/lab/history"},
	"cmd/dibs/internal/top":      {"", "cmd/dibs/internal/cmdline", "cmd/dibs/internal/jobs", "cmd/dibs/internal/term", "internal/holdups", "internal/wire", "internal/words"},

	"internal/reads":    {"", "internal/checks", "internal/ticks", "internal/waits"},
	"internal/rowstore": {"", "internal/bucket", "internal/checks", "internal/reads", "internal/rest", "internal/settings", "internal/ticks", "internal/waits", "internal/wakeups"},
	"internal/settings": {"", "internal/checks"},
	"internal/sqlfiles": {""},
	"internal/wakeups":  {""},
}

func TestTidyImportsNeverPointUp(t *testing.T) {
	t.Parallel()
	const module = "github.com/dibs-queue/dibs"
	for name, file := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		for _, spec := range file.syntax.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			first, _, _ := strings.Cut(imported, "/")
			ours := imported == module || strings.HasPrefix(imported, module+"/")
			allowed, bound := below[dir]
			if !ours {
				allowed, bound = driver[dir]
			}
			if slices.Contains(allowed, "") { // who may know jobs may know what operators do with them
				allowed = append(slices.Clone(allowed), "admin")
			}
			switch {
			case !bound || !strings.Contains(first, "."): // dir has no rule, or it is the standard library
			case ours && slices.Contains(allowed, strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")):
			case !ours && slices.ContainsFunc(allowed, func(d string) bool { return imported == d || strings.HasPrefix(imported, d+"/") }):
			default:
				t.Errorf("%s must not import %s", name, imported)
			}
		}
	}
}

var (
	headerParts = []string{"-- Purpose: ", "-- Parameters: ", "-- Columns out: ", "-- Concurrency: "}
	loudSQL     = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|VALUES|RETURNING|JOIN|AND|ORDER BY)\b`)
	starSQL     = regexp.MustCompile(`\bselect\s+\*`)
)

func TestTidySQLFilesSayWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ".sql") {
		if !strings.Contains(name, "/sql/") {
			continue
		}
		text := read(t, name)
		at := 0
		for _, part := range headerParts {
			i := strings.Index(text[at:], part)
			if i < 0 || (part == headerParts[0] && i != 0) {
				t.Errorf("%s: its header needs, in this order, %q", name, headerParts)
				break
			}
			at += i + len(part)
			line, _, _ := strings.Cut(text[at:], "\n")
			if len(line) < minHeaderPart {
				t.Errorf("%s: %q says nothing", name, part)
			}
		}
		code := regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
		if found := loudSQL.FindString(code); found != "" {
			t.Errorf("%s: keyword %s must be in lower case", name, found)
		}
		if starSQL.MatchString(code) {
			t.Errorf("%s: name the columns in place of select *", name)
		}
	}
}

// The databases need different statements where one works on sets of rows and the other, alone in its write transaction, row
// by row. Every other statement has the same name in both folders, so that one can be read beside the other.
var (
	onlyPostgres = strings.Fields(`
		clock_due complete delete delete_queue delete_schedules diagnose_horizon diagnose_locks diagnose_rows diagnose_schema diagnose_server diagnose_sessions diagnose_tables diagnose_turns drop_new drop_reached edges enqueue_copy enqueue_copy_wide enqueue_count enqueue_draw enqueue_unique expire holders lock_admit lock_repair locks_awaited locks_held locks_rows marks mend new_queues no_jobs payloads pending present rate_free rate_spent recheck requeue
		lock_holders retention retry revive rights schedules_busy schedules_ticked set_windows settle_close settle_end settle_release settle_take take_windows turn_admit turn_claim turn_expire turn_settle turn_sweep wake_group wake_groups`)
	onlySQLite = strings.Fields(`
		add_edges add_ended add_history child_edges child_open claim_fair close_edges drop_audit drop_edges drop_ended drop_steps blocked check_earlier check_later clock clock_now count_claimed delete_schedule diagnose_file displace drop_claim drop_history drop_queue drop_queue_groups drop_queue_keys drop_queue_rates drop_queue_reached drop_queue_tally drop_tally drop_windows due_claims
		ended ended_list ended_parents fair finish forget_claim free_key give_back group_limits grouped groups held_groups hold holder live log_claim mend_claims mark_flow mend_followers mend_groups mend_leases mend_queues mended_to keep_followed next_held next_tick open_edges parents places push queue queue_uses rates reach reached
		prune_steps remove remove_finished reopen revived running schedule_ticked set_window spend step_room still_waiting sweep_due unended unhold unset_group unset_group_rate wait_again window`)
)

func TestTidyDatabasesHaveTheSameStatements(t *testing.T) {
	t.Parallel()
	pg, lite := statements(t, "postgres"), statements(t, "sqlite")
	same := func(db string, names, others, only []string) {
		for _, name := range names {
			if slices.Contains(others, name) == slices.Contains(only, name) {
				t.Errorf("%s/sql/%s.sql: a statement is in both folders, or in the list of those that only %s has", db, name, db)
			}
		}
		for _, name := range only {
			if !slices.Contains(names, name) {
				t.Errorf("%s is listed as a statement of %s, but is not there", name, db)
			}
		}
	}
	same("postgres", pg, lite, onlyPostgres)
	same("sqlite", lite, pg, onlySQLite)
}

// statements lists the names of a database's statements. A statement that no code uses is
// an error; the code of those that only read is in internal/reads, too, and of SQLite's in internal/rowstore.
func statements(t *testing.T, db string) []string {
	t.Helper()
	var code strings.Builder
	for _, name := range files(t, ".go") {
		dir := path.Dir(name)
		if (dir == db || dir == "internal/reads" || db == "sqlite" && dir == "internal/rowstore") && !strings.HasSuffix(name, "_test.go") {
			code.WriteString(read(t, name))
		}
	}
	var names []string
	for _, name := range files(t, ".sql") {
		if path.Dir(name) != db+"/sql" {
			continue
		}
		name = strings.TrimSuffix(path.Base(name), ".sql")
		if !strings.Contains(code.String(), `"`+name+`"`) {
			t.Errorf("%s/sql/%s.sql is used nowhere", db, name)
		}
		names = append(names, name)
	}
	return names
}

// forbidden are words that the API never uses; CONTRIBUTING.md gives ours. Words that are
// wrong only for some things (type, data, lock, ...) need a reader.
var forbidden = strings.Fields(`
	ack acks adapter archived broker clean consumer dequeue discarded performer poll processor producer publish
	purge receipt renew replay reschedule topic tube visibility`)

// The prefix "dibs: " is in a store's error once: only checks.Failed adds it.
func TestTidyOneFunctionPutsDibsBeforeErrors(t *testing.T) {
	t.Parallel()
	for name, file := range goFiles(t) {
		if dir := path.Dir(name); strings.HasSuffix(name, "_test.go") || name == "internal/checks/failed.go" ||
			!slices.Contains([]string{"adopt", "adopt/advice", "adopt/mapping", "internal/adopted", "internal/reads", "internal/rowstore", "sqlite", "postgres", "internal/checks"}, dir) {
			continue
		}
		panics := map[ast.Node]bool{}
		for node := range ast.Preorder(file.syntax) {
			if call, ok := node.(*ast.CallExpr); ok && len(call.Args) == 1 {
				if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "panic" {
					for inner := range ast.Preorder(call) {
						panics[inner] = true
					}
				}
			}
			if text, ok := node.(*ast.BasicLit); ok && strings.HasPrefix(text.Value, `"dibs: `) && !panics[node] {
				t.Errorf("%s: the error %s has its prefix from checks.Failed", name, text.Value)
			}
		}
	}
}

func TestTidyTheAPIUsesOurWords(t *testing.T) {
	t.Parallel()
	for name, file := range goFiles(t) {
		switch path.Dir(name) {
		case ".", "adopt", "adopt/advice", "adopt/mapping", "sqlite", "postgres", "server", "metrics", "storetest", "dibstest":
		default:
			continue
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for node := range ast.Preorder(file.syntax) {
			for _, id := range declared(node) {
				for _, word := range camelWords(id.Name) {
					if id.IsExported() && slices.Contains(forbidden, word) {
						t.Errorf("%s: %s: we do not say %q", name, id.Name, word)
					}
				}
			}
		}
	}
}

// declared lists the names that a node declares.
func declared(node ast.Node) []*ast.Ident {
	switch node := node.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{node.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{node.Name}
	case *ast.ValueSpec:
		return node.Names
	case *ast.Field:
		return node.Names
	}
	return nil
}

func camelWords(name string) []string {
	var out []string
	for i, r := range name {
		if i == 0 || unicode.IsUpper(r) {
			out = append(out, "")
		}
		out[len(out)-1] += string(unicode.ToLower(r))
	}
	return out
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]+))?[^)]*\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the places of a page that links can name, as GitHub makes them of headings.
func anchors(page string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(block.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

func TestTidyLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(block.ReplaceAllString(read(t, name), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(name), m[1])
			if m[1] == "" {
				target = name
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(read(t, target)), m[2]) {
				t.Errorf("%s links to #%s of %s, which has no such heading", name, m[2], target)
			}
		}
	}
}

// TestTidyNoPathsOfOneMachine finds paths that exist only on one developer's machine.
func TestTidyNoPathsOfOneMachine(t *testing.T) {
	t.Parallel()
	paths := regexp.MustCompile(`/(` + strings.Join([]string{"work", "farm", "root", "home", "Users"}, "|") + `)/[A-Za-z.]`)
	for _, name := range files(t, ".go", ".md", ".sql", ".sh", ".txt", ".conf", "Makefile", "run", ".mod") {
		for i, line := range strings.Split(read(t, name), "\n") {
			if found := paths.FindString(line); found != "" {
				t.Errorf("%s:%d holds a path of one machine: %s", name, i+1, found)
			}
		}
	}
}

type goFile struct {
	set    *token.FileSet
	syntax *ast.File
}

func (f goFile) lines(n ast.Node) int {
	if n == f.syntax {
		return f.set.File(n.Pos()).LineCount() - 1 // the last line is empty
	}
	return f.set.Position(n.End()).Line - f.set.Position(n.Pos()).Line + 1
}

func goFiles(t *testing.T) map[string]goFile {
	t.Helper()
	all := map[string]goFile{}
	for _, name := range files(t, ".go") {
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = goFile{set, syntax}
	}
	return all
}

// files lists the module's files whose names end in one of the endings, without folders
// that are hidden (but with .ci) or that Go ignores.
func files(t *testing.T, endings ...string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && name != ".ci" && (strings.HasPrefix(base, ".") || slices.Contains([]string{"testdata", "bin", "dist", "node_modules"}, base)):
			return fs.SkipDir
		case d.Type().IsRegular() && slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(base, e) }):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
