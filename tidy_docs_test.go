package dibs_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
)

// unwrapped matches lines of Markdown that no editor can break: tables, headings, pictures, and
// the addresses of links.
var unwrapped = regexp.MustCompile(`^(\||#|!\[|\[[^\]]+\]: |<)`)

// TestTidyMarkdownIsWrapped finds lines of text that are wider than 120 columns, though they
// have a blank at which they could be broken.
func TestTidyMarkdownIsWrapped(t *testing.T) {
	t.Parallel()
	const most = 120 // columns
	marker := regexp.MustCompile(`^ *([-*] |\d+\. )? *`)
	code := regexp.MustCompile("`[^`]*`")
	for _, name := range files(t, ".md") {
		inCode := false
		for i, line := range strings.Split(read(t, name), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				inCode = !inCode
			}
			text := code.ReplaceAllString(line[len(marker.FindString(line)):], "code")
			if !inCode && !unwrapped.MatchString(line) && utf8.RuneCountInString(line) > most && strings.Contains(text, " ") {
				t.Errorf("%s:%d has more than %d columns: begin each sentence on a line of its own, and break long ones", name, i+1, most)
			}
		}
	}
}

// TestTidyInternalsNamesEveryFolder compares the folders of docs/internals.md with those that
// hold Go files.
func TestTidyInternalsNamesEveryFolder(t *testing.T) {
	t.Parallel()
	table := section(t, "docs/internals.md", "The folders")
	var named []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(table, -1) {
		named = append(named, strings.TrimPrefix(strings.TrimPrefix(m[1], "internal/"), "lab/"))
	}
	for _, name := range files(t, ".go") {
		parts := strings.Split(strings.TrimPrefix(path.Dir(name), "internal/lab/"), "/")
		folder := parts[0]
		if folder == "internal" || folder == "cmd" {
			folder = parts[1]
		}
		if !slices.Contains(named, folder) && !slices.Contains(named, "cmd/"+folder) {
			t.Errorf("docs/internals.md does not say what %s is for", path.Dir(name))
			named = append(named, folder)
		}
	}
}

// TestTidyEachReasonWhyJobsDoNotStartIsExplained compares the table in docs/operations.md with
// the reasons that internal/holdups gives.
func TestTidyEachReasonWhyJobsDoNotStartIsExplained(t *testing.T) {
	t.Parallel()
	text := section(t, "docs/operations.md", "Who works, and why nothing happens")
	var given, explained []string
	for _, name := range files(t, ".go") {
		if path.Dir(name) == "internal/holdups" && !strings.HasSuffix(name, "_test.go") {
			for _, m := range regexp.MustCompile(`\bReason: "(\w+)"`).FindAllStringSubmatch(read(t, name), -1) {
				given = append(given, m[1])
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(text, -1) {
		explained = append(explained, m[1])
	}
	slices.Sort(given)
	slices.Sort(explained)
	if given = slices.Compact(given); len(given) < 2 || !slices.Equal(given, explained) {
		t.Errorf("docs/operations.md explains the reasons %q, internal/holdups gives %q", explained, given)
	}
}

// TestTidyTheLimitsAreThoseOfTheCode looks in docs/operations.md for what the constants say.
func TestTidyTheLimitsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	text := section(t, "docs/operations.md", "Limits")
	if !regexp.MustCompile(`maxConcurrency += MaxBatch / 2\n`).MatchString(read(t, "worker.go")) {
		t.Error("the largest Concurrency of a worker has changed: say it here and in docs/operations.md")
	}
	for _, row := range []string{
		fmt.Sprintf("name of a queue, kind, group or worker | %d bytes", dibs.MaxName),
		fmt.Sprintf("unique key | %d bytes", dibs.MaxUniqueKey),
		fmt.Sprintf("payload | %s; up to %s if the queue says so (`--payload-limit`)", size(dibs.MaxPayload), size(dibs.MaxPayloadLimit)),
		fmt.Sprintf("metadata | %s", size(dibs.MaxMetadata)),
		fmt.Sprintf("result | %s", size(dibs.MaxResult)),
		fmt.Sprintf("depth of these three | %s objects and arrays inside each other", thousands(dibs.MaxDepth)),
		fmt.Sprintf("errors of a job | the last %d, each cut to %s", dibs.MaxErrors, size(dibs.MaxErrorText)),
		fmt.Sprintf("jobs, outcomes or leases of one call | %s", thousands(dibs.MaxBatch)),
		fmt.Sprintf("delay of a start, a retry or a snooze | %d years of 365 days", dibs.MaxDelay/(365*24*time.Hour)),
		fmt.Sprintf("lease | %d ms to %d h", dibs.MinLease.Milliseconds(), dibs.MaxLease/time.Hour),
		fmt.Sprintf("handlers of one worker | %s", thousands(dibs.MaxBatch/2)),
		fmt.Sprintf("schedules of a database | %s", thousands(dibs.MaxSchedules)),
	} {
		if !strings.Contains(text, "\n| "+row+" |\n") {
			t.Errorf("docs/operations.md lists no limit\n| %s |", row)
		}
	}
}

// TestTidyTheDefaultsAreThoseOfTheCode looks in the pages for the settings that a new queue has.
func TestTidyTheDefaultsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	q := dibs.DefaultSettings("")
	for page, wants := range map[string][]string{
		"docs/howto/jobs.md": {
			fmt.Sprintf("A job has %d attempts.", q.MaxAttempts),
			fmt.Sprintf("it waits for %v, after each further one twice as long, up to %d h, give or take %.0f %%.",
				spaced(q.Backoff.Base), q.Backoff.Max/time.Hour, q.Backoff.Jitter*100),
		},
		"docs/operations.md": {
			fmt.Sprintf("a third of their length (%v by default)", spaced(q.Lease)),
			fmt.Sprintf("Completed and cancelled jobs stay readable for %d h and dead ones for %d days",
				q.KeepCompleted/time.Hour, q.KeepDead/(24*time.Hour)),
		},
		"README.md": {fmt.Sprintf("keeps its last %d errors", dibs.MaxErrors)},
	} {
		text := strings.Join(strings.Fields(read(t, page)), " ")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", page, want)
			}
		}
	}
}

// spaced is a duration with a blank before its unit.
func spaced(d time.Duration) string {
	return regexp.MustCompile(`([a-z])`).ReplaceAllString(d.String(), " $1")
}

// section is the part of a page below a heading of the second level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// size is a number of bytes that is a whole number of KiB or MiB.
func size(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// thousands is a number with a comma before its last three digits.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// TestTidyThePageOnVersionsNamesEachPackage compares the list of what is stable with the packages
// that other modules can import.
func TestTidyThePageOnVersionsNamesEachPackage(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/versions.md")
	for _, name := range files(t, ".go") {
		dir := path.Dir(name)
		first, _, _ := strings.Cut(dir, "/")
		if slices.Contains([]string{".", "bench", "cmd", "examples", "internal", "scripts", "tools"}, first) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if named := "`" + dir + "`"; !strings.Contains(page, named) {
			t.Errorf("docs/versions.md does not say whether the Go API of %s is stable", dir)
			page += named // it is said once
		}
	}
}
