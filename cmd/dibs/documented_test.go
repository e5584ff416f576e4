package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	codeSpan = regexp.MustCompile("`dibs ([^`]+)`")
	codeLine = regexp.MustCompile(`(?m)(?:^|[|;&(] *|-c ')(?:go run \./cmd/)?dibs ([a-z-][^|;&)#\n]*)`)
	fence    = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
)

// Commands that the documents name exist, and so do their flags. Many of them take too long
// or need too much to be run by a test.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	root := newRootCmd(newApp(nil, io.Discard, io.Discard))
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %v, %v", pattern, pages, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			commands := codeSpan.FindAllSubmatch(text, -1)
			for _, block := range fence.FindAllSubmatch(text, -1) {
				if language := string(block[1]); language == "" || language == "sh" {
					commands = append(commands, codeLine.FindAllSubmatch(block[2], -1)...)
				}
			}
			for _, m := range commands {
				found++
				if wrong := unknown(root, strings.Fields(string(m[1]))); wrong != "" {
					t.Errorf("%s: dibs %s: there is no %s", page, m[1], wrong)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d commands were found", found)
	}
}

// unknown returns the first word that names a command or a flag that does not exist.
func unknown(root *cobra.Command, words []string) string {
	if words[0] == "help" || words[0] == "COMMAND" || slices.Equal(words, []string{"worker", "NAME"}) {
		return "" // the last two are names of connections
	}
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root && !strings.HasPrefix(words[0], "-") {
		return words[0]
	}
	for _, word := range rest {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case word == "--" || word == "-":
			return ""
		case strings.HasPrefix(word, "--") && cmd.Flag(name) == nil && root.Flag(name) == nil && name != "help",
			strings.HasPrefix(word, "-") && len(name) == 1 && cmd.Flags().ShorthandLookup(name) == nil:
			return word
		}
	}
	return ""
}
