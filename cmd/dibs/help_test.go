package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/storetest"
	"github.com/spf13/cobra"
)

// A golden file keeps every command's help, so that a reviewer sees each change.
func TestACommandWithoutItsVerbIsAUsageError(t *testing.T) {
	c := onSQLite(t)
	for _, group := range []string{"adopt", "schedule"} {
		c.Fails(cmdline.ExitUsage, "", []string{group}, "which command? give one of:", "see 'dibs "+group+" --help'")
		c.Fails(cmdline.ExitUsage, "", []string{group, "--json"}, "which command? give one of:")
		c.OK(group, "--help")
	}
}

func TestHelp(t *testing.T) {
	c := onSQLite(t)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "completion" || cmd.Name() == "help" {
			return // cobra's own text
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		name := strings.Join(append([]string{"dibs"}, path...), "-")
		t.Run(name, func(t *testing.T) {
			r := c.Run("", append([]string{"help"}, path...)...)
			if r.Code != cmdline.ExitOK || r.Err != "" {
				t.Fatalf("exit code %d: %s", r.Code, r.Err)
			}
			golden.Match(t, "help/"+name+".txt", r.Out)
			for line := range strings.Lines(r.Out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
					t.Errorf("a line has %d characters: %s", n, line)
				}
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCmd(newApp(strings.NewReader(""), &strings.Builder{}, &strings.Builder{})))
}

func TestVersion(t *testing.T) {
	c := onSQLite(t)
	if got := c.OK("version"); !strings.HasPrefix(got, "dibs ") {
		t.Errorf("dibs version writes %q", got)
	}
	if got, want := c.OK("--version"), c.OK("version"); got != want {
		t.Errorf("dibs --version writes %q, dibs version %q", got, want)
	}
	if got := c.OK("version"); !strings.Contains(got, "\n"+storetest.SQLServer.Proven+"\n") {
		t.Errorf("dibs version writes %q, and not %q", got, storetest.SQLServer.Proven)
	}
	v := c.Row(c.OK("version", "--json"))
	for _, field := range []string{"version", "go", "platform"} {
		if v[field] == "" || v[field] == nil {
			t.Errorf("no %s in %v", field, v)
		}
	}
}

// The error for another queue's word names the command of dibs.
func TestWordsOfOtherQueues(t *testing.T) {
	c := onSQLite(t)
	for word, want := range map[string]string{
		"retry": "requeue", "add": "enqueue", "push": "enqueue", "delete": "cancel or prune", "list": "ls", "rm": "cancel or prune",
		"status": "show or stats", "consume": "work", "ack": "finish", "renew": "extend", "dequeue": "claim", "enque": "enqueue",
	} {
		c.Fails(cmdline.ExitUsage, "", []string{word, "1", "--now"}, "dibs: unknown command \""+word+"\" for \"dibs\"; did you mean "+want+"?\n      see 'dibs --help'\n")
	}
	for name := range cmdline.OtherWords {
		if found, _, err := newRootCmd(newApp(nil, io.Discard, io.Discard)).Find([]string{name}); err != nil || found.Name() != name {
			t.Errorf("there is no command %s", name)
		}
		for _, word := range cmdline.OtherWords[name] {
			if found, _, err := newRootCmd(newApp(nil, io.Discard, io.Discard)).Find([]string{word}); err == nil {
				t.Errorf("%s is a command: %s", word, found.Name())
			}
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	c := onSQLite(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := c.OK("completion", shell); !strings.Contains(got, "dibs") {
			t.Errorf("dibs completion %s writes %.80q", shell, got)
		}
	}
}

func TestCompletionOffersQueues(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "emails")
		c.OK("enqueue", "exports")
		c.OK("enqueue", "sums")
		for _, verb := range []string{"pause", "resume", "stats", "queue", "ls", "work", "enqueue", "claim"} {
			r := c.Run("", "__complete", "--db", c.DB, verb, "e")
			if r.Code != cmdline.ExitOK || !strings.HasPrefix(r.Out, "emails\nexports\n:") {
				c.T.Errorf("completing 'dibs %s e' gives %q", verb, r.Out)
			}
		}
	})
}

// A mistake in --db must not create a file, nor print a message into the prompt.
func TestCompletionMakesNoFile(t *testing.T) {
	c := onSQLite(t)
	r := c.Run("", "__complete", "--db", c.DB, "pause", "")
	if r.Code != cmdline.ExitOK || !strings.HasPrefix(r.Out, ":") {
		t.Errorf("got exit code %d and %q", r.Code, r.Out)
	}
	c.Fails(cmdline.ExitSchema, "", []string{"ls"}, "there is no database file", "dibs migrate")
}

func TestUsageErrors(t *testing.T) {
	c := onSQLite(t)
	for _, args := range [][]string{
		{"frobnicate"},
		{"help", "frobnicate"},
		{"ls", "--frobnicate"},
		{"ls", "a", "b"},
		{"show"},
		{"show", "1", "--payload", "--result"},
		{"pause"},
		{"cancel"},
		{"cancel", "1", "--queue", "emails"},
		{"requeue", "--queue", "emails"},
		{"edit", "1"},
		{"finish", "1"},
		{"finish", "--dead"},
		{"finish", "1", strings.Repeat("a", 32)},
		{"finish", "1", strings.Repeat("a", 32), "--dead", "--completed"},
		{"extend", "1"},
		{"prune"},
		{"queue", "--concurrency", "3"},
		{"queue", "emails", "--group", "customer"},
		{"claim", "--resume"},
		{"work", "emails"},
		{"work", "emails", "--"},
		{"work", "emails", "more", "--", "true"},
		{"work", "emails", "--", "no-such-program-here"},
		{"enqueue", "a", "1", "2"},
		{"enqueue", "a", "1", "--lines"},
		{"enqueue", "a", "--lines", "--csv"},
		{"enqueue", "a", "--file", "jobs"},
		{"enqueue", "a", "--partial"},
		{"enqueue", "a", "--lines", "--unique", "k"},
		{"enqueue", "a", "--delay", "1s", "--run-at", "now"},
		{"enqueue", "a", "--delay", "soon"},
		{"enqueue", "a", "--run-at", "soon"},
		{"enqueue", "a", "--priority", "high"},
	} {
		c.Fails(cmdline.ExitUsage, "", args, "\n      see 'dibs", "--help'\n")
	}
}

// A command without its argument asks for it in words, with a line that has one.
func TestMissingArgumentsAreAskedFor(t *testing.T) {
	c := onSQLite(t)
	for line, question := range map[string]string{
		"show 17": "which job?", "wait 17": "which job?", "pause emails": "which queue?", "resume emails": "which queue?",
		"schedule add tidy --every 90s": "which schedule?", "schedule set report --every 2m": "which schedule?", "schedule show report": "which schedule?",
		"schedule pause report": "which schedule?", "schedule resume report": "which schedule?", "schedule run report": "which schedule?", "schedule rm report": "which schedule?",
		"adopt init orders": "which table?", "adopt check orders.yaml": "which mapping?", "adopt sql orders.yaml": "which mapping?", "adopt try orders.yaml": "which mapping?",
	} {
		words := strings.Fields(line)
		if i := slices.Index(words, "--every"); i > 0 {
			words = words[:i]
		}
		c.Fails(cmdline.ExitUsage, "", words[:len(words)-1], "dibs: "+question+" write for example: dibs "+line+"\n")
	}
	c.Fails(cmdline.ExitUsage, "", []string{"show", "1", "2"}, `only one job can be named; "2" is too many`)
}
