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
	for _, p := range v.Patches {
		test := strings.TrimPrefix(p.CaughtBy, "TestStore/")
		switch {
		case len(v.Patches) == 1 || p.CaughtBy == v.Patches[0].CaughtBy && p.CaughtBy == v.Patches[1].CaughtBy:
		case p.Store == "sqlite":
			test += " (SQLite)"
		default:
			test += " (PostgreSQL)"
		}
		if len(tests) == 0 || tests[0] != test {
			tests = append(tests, test)
		}
	}
	torture := "yes"
	if v.Untortured != "" {
		torture = "no: " + v.Untortured
	}
	return fmt.Sprintf("%s\n  fault:     %s\n  harm:      %s\n  caught by: %s\n  torture:   %s\n  seen in:   %s\n",
		v.Name, v.Fault, v.Harm, strings.Join(tests, "; "), torture, seen)
}
