package dibs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
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
	_, table, found := strings.Cut(read(t, "docs/internals.md"), "\n## The folders\n")
	if !found {
		t.Fatal("docs/internals.md does not list the folders")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var named []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(table, -1) {
		named = append(named, strings.TrimPrefix(m[1], "internal/"))
	}
	for _, name := range files(t, ".go") {
		parts := strings.Split(path.Dir(name), "/")
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
