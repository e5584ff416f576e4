package mysql_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// readsAll are the statements that may read all jobs, as they look for what is wrong, or show everything.
var readsAll = map[string]bool{
	"check": true, "repairable": true, "texts": true, "stray_steps": true,
}

// TestPlans explains each statement, with a few jobs and with many, and refuses whatever reads a whole table or index of
// jobs: a statement that locks would lock all of them. Blocks cannot be explained; TestReadsStayTheSameHoweverManyJobsThereAre
// counts what they read.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 3000} {
		s := openStore(t, mytest.Address(t))
		fill(t, s, n)
		for _, name := range s.StatementNames() {
			if !readsAll[name] {
				explain(t, s, name, n)
			}
		}
	}
}

// TestRowsAreLockedByTheirPrimaryKeysAlone reads the parts of statements that pass over locked rows. By another index they
// would keep entries of jobs locked that they pass over.
func TestRowsAreLockedByTheirPrimaryKeysAlone(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	locking := 0
	for _, name := range s.StatementNames() {
		text := indexName.ReplaceAllString(s.Statement(name), "force index $1")
		for _, end := range passesOver.FindAllStringIndex(text, -1) {
			locking++
			part := text[:end[0]]
			for inner := subquery.FindStringIndex(part); inner != nil; inner = subquery.FindStringIndex(part) {
				part = part[:inner[0]] + part[inner[1]:]
			}
			part = part[strings.LastIndex(part, "select"):]
			for _, index := range usesIndex.FindAllString(part, -1) {
				if index != "force index primary" {
					t.Errorf("%s locks rows by another index: %s", name, part)
				}
			}
			if !usesIndex.MatchString(part) {
				t.Errorf("%s locks rows, and does not say by which index: %s", name, part)
			}
		}
	}
	if locking < 20 {
		t.Errorf("only %d statements pass over locked rows", locking)
	}
}

var (
	passesOver = regexp.MustCompile(`for update skip locked|lock in share mode skip locked`)
	subquery   = regexp.MustCompile(`\([^()]*\)`) // and whatever else stands in brackets
	indexName  = regexp.MustCompile(`force index \((\w+)\)`)
	usesIndex  = regexp.MustCompile(`force index \w+`)
)

func explain(t *testing.T, s *mysql.Store, name string, n int) {
	t.Helper()
	header := headerOf(t, name)
	err := s.Explain(t.Context(), name, func(n int) any { return sample(header, n) }, func(part, table, kind, extra string) {
		if !ofJobs.MatchString(table) || !jobTables.MatchString(part) {
			return
		}
		if table == "dibs_job" && strings.HasPrefix(part, "insert") { // what it inserts into
			return
		}
		locks := lockingPart.MatchString(part)
		whole := kind == "ALL" || kind == "index" && !strings.Contains(part, "limit")
		if whole && (locks || n > 100) || locks && strings.Contains(extra, "filesort") {
			t.Errorf("%s with %d jobs reads %s by %s (%s):\n%s", name, n, table, kind, extra, part)
		}
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// headerOf is the header of the file of a statement, or of the one of which it is made.
func headerOf(t *testing.T, name string) string {
	t.Helper()
	for _, made := range []string{"_newest", "_rated", "_alike", "_many"} {
		name = strings.ReplaceAll(name, made, "")
	}
	name = strings.Replace(name, "wait_keys", "lock_keys", 1)
	text, err := os.ReadFile("sql/" + name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	var header []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		header = append(header, strings.TrimSpace(strings.TrimLeft(line, "- ")))
	}
	before, _, _ := strings.Cut(strings.Join(header, " "), "Columns out")
	if m := sameAs.FindStringSubmatch(before); m != nil {
		return headerOf(t, m[1])
	}
	return before
}

var (
	ofJobs      = regexp.MustCompile(`^(j|f|e|k|x|y|dibs_job|dibs_finished)$`) // the aliases that the statements have for them
	jobTables   = regexp.MustCompile(`dibs_(job|finished|edge|key)\b`)
	lockingPart = regexp.MustCompile(`^(update|delete)|skip locked`)
	sameAs      = regexp.MustCompile(`Parameters: those of (\w+)\.sql`)
	described   = regexp.MustCompile(`\?([0-9]+)([^?]*)`)
	aList       = regexp.MustCompile(`JSON|names of queues|ids;|queues, or only`)
	aName       = regexp.MustCompile(`queue|group|unique key|kind|state|name|worker|token|a part|payload|turn,`)
)

// sample is an argument of the kind that a header says. A name that is given as a number would make indexes useless.
func sample(header string, n int) any {
	of := ""
	for _, m := range described.FindAllStringSubmatch(header, -1) {
		if m[1] == string(rune('0'+n%10)) && n < 10 && of == "" || n >= 10 && m[1] == "1"+string(rune('0'+n%10)) && of == "" {
			of = m[2]
		}
	}
	switch {
	case aList.MatchString(of):
		return "[1, 2]"
	case strings.Contains(of, "how many") || strings.Contains(of, "whether") || strings.Contains(of, "how far"):
		return 10
	case aName.MatchString(of):
		return "q"
	}
	return 10
}

func fill(t *testing.T, s *mysql.Store, n int) {
	t.Helper()
	var jobs []dibs.NewJob
	for i := range n {
		j := dibs.NewJob{Queue: "q", Kind: "k", Priority: new(i % 3)}
		if i%4 == 0 {
			j.Group = string(rune('a' + i%5))
		}
		jobs = append(jobs, j)
	}
	for some := jobs; len(some) > 0; some = some[min(len(some), 500):] {
		if _, err := s.Enqueue(t.Context(), some[:min(len(some), 500)]); err != nil {
			t.Fatal(err)
		}
	}
	claimed, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: max(1, n/3), Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var done []dibs.Outcome
	for _, j := range claimed[:(len(claimed)+1)/2] {
		done = append(done, j.Lease().Complete(nil))
	}
	if err := s.Finish(t.Context(), done); err != nil {
		t.Fatal(err)
	}
}
