package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/chars"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The tests generate command lines from the real tree of commands: every verb with every flag,
// with valid, wrong and hostile values, with input and environment variables. The tests do not
// know what each line does, but check for each:
//
//  1. no panic
//  2. it ends, at the latest when it is interrupted
//  3. the exit code is one of those in 'dibs help exit-codes'
//  4. an error begins with "dibs:", and a success without --json leaves no such line
//  5. no password of a URL is written, to stdout, stderr or a file
//  6. no control or direction character reaches a terminal
//  7. under --json, stdout holds nothing but JSON, a value a line
//  8. what a flag cannot take is an error that names the flag
const lineLimit = 2 * time.Minute // a line that takes longer hangs

// lines runs generated command lines and collects faults.
type lines struct {
	t         *testing.T
	rng       *rand.Rand
	dir       string                    // folder in which the lines run
	root      func(*app) *cobra.Command // makes the tree of commands
	findings  map[string]string         // the first line that shows a fault, for each kind of fault
	exitCodes map[int]int               // number of lines that ended with an exit code
}

// line is one command line.
type line struct {
	args     []string
	env      map[string]string
	stdin    string
	patience time.Duration // time after which the line is interrupted
	prose    bool          // stdout may be text though --json is given
	raw      bool          // stdout may be bytes as they were enqueued
}

func (l line) String() string {
	return fmt.Sprintf("%q env %q stdin %.60q", l.args, l.env, l.stdin)
}

func newLines(t *testing.T, seed uint64, root func(*app) *cobra.Command) *lines {
	t.Helper()
	g := &lines{t: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), root: root, findings: map[string]string{}, exitCodes: map[int]int{}}
	t.Chdir(g.dir)
	t.Setenv("TMPDIR", t.TempDir())
	for name, text := range lineFiles {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// found records a fault, once for each kind and command.
func (g *lines) found(kind string, l line, text string, args ...any) {
	name := kind
	for _, a := range l.args {
		if a != "" && a[0] != '-' && !strings.ContainsAny(a, ":=/") {
			name += " " + a
			break
		}
	}
	if _, known := g.findings[name]; !known {
		g.findings[name] = kind + ": " + fmt.Sprintf(text, args...) + "\n  " + l.String()
	}
}

// run runs a line and checks it.
func (g *lines) run(l line) {
	for _, name := range []string{"DIBS_DB", "DIBS_SCHEMA", "DIBS_PREFIX", "DIBS_TABLE"} {
		g.t.Setenv(name, l.env[name])
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(l.stdin), &out, &errs)
	ended := make(chan int, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				g.found("panic", l, "%v\n%s", p, debug.Stack())
				ended <- -1
			}
		}()
		ended <- a.Run(ctx, g.root(a), l.args)
	}()
	select {
	case code := <-ended:
		g.judge(a, l, code, out.String(), errs.String())
	case <-time.After(lineLimit):
		g.t.Fatalf("it hangs: %v", l) // the hanging line keeps running, so no further line can be judged
	}
}

// logged matches lines of a worker's log.
var logged = regexp.MustCompile(`^(time=|\{"time":)`)

func (g *lines) judge(a *app, l line, code int, out, errs string) {
	if known := code >= 0 && code <= cmdline.ExitBroken || code == cmdline.ExitInterrupted; !known && code != -1 {
		g.found("exit code", l, "%d", code)
	}
	g.exitCodes[code]++
	complaint := false
	for text := range strings.Lines(errs) {
		complaint = complaint || strings.HasPrefix(text, "dibs: ")
	}
	silent := code == cmdline.ExitOK || code == cmdline.ExitPartial || a.Running && (code == cmdline.ExitFailure || code == cmdline.ExitNotFound) // findings are on stdout
	if !silent && !complaint && code != -1 && !logged.MatchString(errs) {
		g.found("message", l, "exit code %d without one: %q", code, errs)
	}
	if strings.Contains(out+errs, secret) {
		g.found("secret", l, "%s%s", out, errs)
	}
	for name, text := range map[string]string{"stdout": out, "stderr": errs} {
		unsafe := func(r rune) bool { return chars.Unsafe(r) && r != '\n' && r != '\t' }
		if i := strings.IndexFunc(text, unsafe); i >= 0 && !(l.raw && name == "stdout") {
			g.found("control character", l, "%s has %q", name, text[max(0, i-20):min(len(text), i+20)])
		}
	}
	if a.JSON && !l.prose && !l.raw {
		for text := range strings.Lines(out) {
			if !json.Valid([]byte(text)) {
				g.found("JSON", l, "stdout has %.200q", text)
				break
			}
		}
	}
}

// files looks for passwords in all written files.
func (g *lines) files() {
	for _, dir := range []string{g.dir, os.Getenv("TMPDIR")} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(secret)) || strings.Contains(path, secret) {
				g.found("secret", line{args: []string{path}}, "a file holds it: %q", path)
			}
			return err
		})
		if err != nil {
			g.t.Fatal(err)
		}
	}
}

// leaves lists the commands without subcommands.
func (g *lines) leaves() []*cobra.Command {
	var all []*cobra.Command
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return // internal processes of the demo and the like
		}
		if cmd.Runnable() || !cmd.HasSubCommands() {
			all = append(all, cmd)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	root := g.root(newApp(strings.NewReader(""), io.Discard, io.Discard))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	visit(root)
	return all
}

// flags lists a command's flags, including the global ones.
func flags(cmd *cobra.Command) []*pflag.Flag {
	cmd.InitDefaultHelpFlag()
	var all []*pflag.Flag
	add := func(f *pflag.Flag) {
		if f.Name != "db" {
			all = append(all, f)
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return all
}

// make generates one line for a command.
func (g *lines) make(cmd *cobra.Command) line {
	path := strings.Fields(cmd.CommandPath())[1:]
	l := line{args: slices.Clone(path), env: map[string]string{}, stdin: pick(g.rng, lineInputs), patience: 2 * time.Second}
	name := path[0]
	l.prose = name == "help" || name == "completion" || name == "exit-codes" || name == "json"
	rarely := pick(g.rng, []int{5, 20, 1000})
	for _, f := range flags(cmd) {
		if g.rng.IntN(rarely) > 0 {
			continue
		}
		l.args = append(l.args, g.flag(f)...)
		switch f.Name {
		case "help", "version", "print":
			l.prose = true
		case "payload", "result":
			l.raw = true
		}
	}
	if g.rng.IntN(3) == 0 {
		l.args = append(l.args, "--json")
	}
	words := g.rng.IntN(4)
	if g.rng.IntN(2) == 0 { // arguments that the command accepts
		for _, words := range lineArgs[cmd.Name()] {
			l.args = append(l.args, pick(g.rng, words))
		}
		words = 0
	}
	for range words {
		l.args = append(l.args, pick(g.rng, lineWords))
	}
	g.place(&l, name)
	l.prose = l.prose || (name == "adopt" || name == "schedule") && len(path) == 1 || slices.Contains(l.args, "--help") // help is text
	if name == "serve" && len(path) == 1 {
		l.patience = 300 * time.Millisecond
		l.args = append(l.args, "--shutdown", "1s", "--listen", pick(g.rng, []string{"127.0.0.1:0", "127.0.0.1:0", ":0", "nonsense"}))
	}
	if name == "work" {
		l.patience = 300 * time.Millisecond
		l.args = append(l.args, "--shutdown", "1s", "--")
		l.args = append(l.args, pick(g.rng, [][]string{{"true"}, {"false"}, {"cat"}, {"sh", "-c", "exit 100"}, {"no-such-program"}, {clitest.EvilName}, {}})...)
	}
	return l
}

// place names a database, mostly an existing one. Commands that would keep a server or a disk busy
// get one that cannot be used.
func (g *lines) place(l *line, name string) {
	db := pick(g.rng, lineDBs)
	switch {
	case name == "demo" || name == "torture" || name == "bench":
		l.args = append(l.args, "--db", pick(g.rng, secretURLs))
		return
	case g.rng.IntN(3) > 0:
		db = "sqlite:jobs.db"
	}
	for name, values := range lineEnv {
		if g.rng.IntN(15) == 0 {
			l.env[name] = pick(g.rng, values)
		}
	}
	if g.rng.IntN(2) == 0 {
		l.env["DIBS_DB"] = db
		return
	}
	l.args = append(l.args, "--db", db)
}

// flag generates a flag with a value.
func (g *lines) flag(f *pflag.Flag) []string {
	value := pick(g.rng, append(lineValues[f.Value.Type()], lineWords...))
	if g.rng.IntN(3) > 0 && len(lineValues[f.Value.Type()]) > 0 {
		value = pick(g.rng, lineValues[f.Value.Type()])
	}
	if f.Value.Type() == "bool" {
		return []string{"--" + f.Name + pick(g.rng, []string{"", "", "", "=true", "=false", "=maybe"})}
	}
	if f.Shorthand != "" && g.rng.IntN(3) == 0 {
		return []string{"-" + f.Shorthand, value}
	}
	return []string{"--" + f.Name + "=" + value}
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// wrong gives every flag an invalid value, and expects the error to name the flag.
func (g *lines) wrong() {
	for _, cmd := range g.leaves() {
		for _, f := range flags(cmd) {
			value, typed := map[string]string{
				"bool": "maybe", "int": "many", "uint64": "-1", "float64": "much", "duration": "soon", "time": "later",
			}[f.Value.Type()]
			if !typed {
				continue
			}
			l := line{args: append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name+"="+value), patience: lineLimit}
			var out, errs bytes.Buffer
			a := newApp(strings.NewReader(""), &out, &errs)
			if code := a.Run(context.Background(), g.root(a), l.args); code != cmdline.ExitUsage || !strings.Contains(errs.String(), "--"+f.Name) || out.Len() > 0 {
				g.found("flag", l, "exit code %d, %s%s", code, out.String(), errs.String())
			}
		}
	}
}

// lineSeed returns the seed from the environment, or a random one in long runs, and the number of lines.
func lineSeed(t *testing.T) (seed uint64, n int) {
	t.Helper()
	seed, n = 20261122, 1000
	if os.Getenv("DIBS_SOAK") != "" {
		seed, n = rand.Uint64(), 100_000
	}
	if s := os.Getenv("DIBS_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d lines; DIBS_TEST_SEED=%d repeats this", n, seed)
	return seed, n
}

// TestCommandLines runs a thousand lines, or with DIBS_SOAK=1 many more.
func TestCommandLines(t *testing.T) {
	seed, n := lineSeed(t)
	g := newLines(t, seed, newRootCmd)
	g.all(n)
	for _, text := range g.findings {
		t.Error(text)
	}
	t.Logf("exit codes: %v", g.exitCodes)
	for _, code := range []int{cmdline.ExitOK, cmdline.ExitUsage, cmdline.ExitUnavailable, cmdline.ExitNotFound, cmdline.ExitSchema} {
		if g.exitCodes[code] < n/200 {
			t.Errorf("only %d of %d lines ended with exit code %d: do they still reach what they try?", g.exitCodes[code], n, code)
		}
	}
}

func (g *lines) all(n int) {
	leaves := g.leaves()
	g.run(line{args: []string{"migrate", "--db", "sqlite:jobs.db"}, patience: lineLimit})
	for range n {
		g.run(g.make(pick(g.rng, leaves)))
	}
	g.files()
	g.wrong()
}

// TestCommandLinesFindFaults plants a command with each fault.
func TestCommandLinesFindFaults(t *testing.T) {
	faults := map[string]func(*app, []string) error{
		"panic":             func(*app, []string) error { panic("planted") },
		"exit code":         func(*app, []string) error { return &cmdline.CodeError{Code: 42, Err: errors.New("planted")} },
		"message":           func(*app, []string) error { return &cmdline.CodeError{Code: cmdline.ExitSchema} },
		"secret":            func(a *app, _ []string) error { _, err := io.WriteString(a.Screen, a.URL().Reveal()); return err },
		"control character": func(a *app, args []string) error { _, err := fmt.Fprint(a.Screen, args); return err },
		"JSON":              func(a *app, _ []string) error { a.Say("all is well"); return nil },
		"flag":              func(*app, []string) error { return nil },
	}
	for name, run := range faults {
		t.Run(name, func(t *testing.T) {
			g := newLines(t, 7, func(a *app) *cobra.Command {
				root := &cobra.Command{Use: "dibs", SilenceErrors: true, SilenceUsage: true}
				root.PersistentFlags().Var(&a.DBFlag, "db", "")
				root.PersistentFlags().BoolVar(&a.JSON, "json", false, "")
				planted := &cobra.Command{Use: "planted", RunE: func(_ *cobra.Command, args []string) error {
					a.Running = true
					return run(a, args)
				}}
				if name == "flag" {
					planted.Flags().String("limit", "", "")
					planted.Flags().Lookup("limit").Value = looseInt{}
				}
				root.AddCommand(planted, newVersionCmd(a.App))
				return root
			})
			g.all(600)
			if _, found := g.findings[name+" planted"]; !found {
				t.Errorf("the %s is not found; %d others: %v", name, len(g.findings), g.findings)
			}
		})
	}
}

// looseInt is a number flag that accepts anything.
type looseInt struct{}

func (looseInt) String() string   { return "" }
func (looseInt) Set(string) error { return nil }
func (looseInt) Type() string     { return "int" }
