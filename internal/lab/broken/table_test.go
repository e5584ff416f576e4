package broken

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/golden"
)

// TestTheTableNamesEveryVariant compares testdata/faults.txt with the variants. How long a test
// took to find each was written there by hand, so it is taken over from the file.
func TestTheTableNamesEveryVariant(t *testing.T) {
	file := filepath.Join("testdata", "faults.txt")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\S+)\n(?:  .*\n)*?  seen in: +(.*)$`).FindAllStringSubmatch(string(b), -1) {
		seen[m[1]] = m[2]
	}
	var table []string
	for _, v := range Variants() {
		table = append(table, paragraph(v, cmp.Or(seen[v.Name], "not kept")))
	}
	golden.Match(t, "faults.txt", strings.Join(table, "\n"))
	onMariaDB := 0
	for _, v := range Variants() {
		if v.Patches[len(v.Patches)-1].Store == "mysql" {
			onMariaDB++
		}
	}
	if n := len(mariadbPatches) + len(mariadbVariants); n != onMariaDB {
		t.Errorf("%d variants have patches for MariaDB, and %d are listed: some name no variant", onMariaDB, n)
	}
	b, err = os.ReadFile(filepath.Join(module(t), "docs", "broken.md"))
	if want := fmt.Sprintf("%d of them ", onMariaDB); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("docs/broken.md does not say %s, %v", want, err)
	}
	for _, page := range []string{"broken.md", "proof.md"} {
		b, err := os.ReadFile(filepath.Join(module(t), "docs", page))
		if want := fmt.Sprintf(" %d faults", len(Variants())); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("docs/%s does not say%s, %v", page, want, err)
		}
	}
}

// paragraph is a variant's part of the table.
func paragraph(v Variant, seen string) string {
	var tests []string
	stores := map[string][]string{} // the stores on which a test catches the fault
	for _, p := range v.Patches {
		test := strings.TrimPrefix(p.CaughtBy, "TestStore/")
		if stores[test] == nil {
			tests = append(tests, test)
		}
		stores[test] = append(stores[test], map[string]string{"postgres": "PostgreSQL", "sqlite": "SQLite", "mysql": "MariaDB", ".": "the worker"}[p.Store])
	}
	for i, test := range tests {
		if len(tests) > 1 {
			tests[i] += " (" + strings.Join(stores[test], ", ") + ")"
		}
	}
	torture := "yes"
	if v.Untortured != "" {
		torture = "no: " + v.Untortured
	}
	return fmt.Sprintf("%s\n  fault:     %s\n  harm:      %s\n  caught by: %s\n  torture:   %s\n  seen in:   %s\n",
		v.Name, v.Fault, v.Harm, strings.Join(tests, "; "), torture, seen)
}
