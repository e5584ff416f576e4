package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// hostileDB is a database whose every text column holds such text.
type hostileDB struct {
	*cli
	t    *testing.T
	sql  *sql.DB
	ids  []string // ids of jobs in every state
	lite bool
}

// plant makes jobs in all states with the command, and a placeholder in every text. Then it replaces
// the placeholder with hostile text by SQL, since the command refuses such text.
func plant(c *cli) *hostileDB {
	c.T.Helper()
	c.OK("migrate")
	const word = "HOSTILE"
	add := func(args ...string) string {
		job := c.Row(c.OK(append([]string{
			"enqueue", "q" + word, `{"` + word + `":"` + word + `"}`, "--kind", "k" + word,
			"--metadata", `{"m":"` + word + `"}`, "--json",
		}, args...)...))
		return fmt.Sprint(job["id"])
	}
	h := &hostileDB{cli: c, t: c.T, lite: strings.HasPrefix(c.DB, "sqlite:")}
	for _, ending := range []string{"--completed", "--dead", "--cancelled", "--retry", ""} {
		h.ids = append(h.ids, add("--unique", "u"+word+ending))
		job := c.Row(c.OK("claim", "q"+word, "--worker", "w"+word))
		args := []string{"finish", fmt.Sprint(job["id"]), job["token"].(string), ending}
		switch ending {
		case "":
			continue
		case "--completed":
			args = append(args, "--result", `"`+word+`"`)
		default:
			args = append(args, "--error", word+"\nmore "+word)
		}
		c.OK(args...)
	}
	h.ids = append(h.ids, add("--group", "g"+word), add("--group", "g"+word), add("--delay", "1h"))
	c.OK("queue", "q"+word, "--group", "g"+word+"=1")
	a := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	a.DBFlag = open.URL(c.DB)
	var err error
	if h.sql, err = a.SQLDB(c.T.Context()); err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { _ = h.sql.Close() })
	h.replace(word)
	return h
}

// replace replaces the word with hostile text in every text column.
func (h *hostileDB) replace(word string) {
	h.t.Helper()
	columns, placeholder := `select table_schema || '.' || table_name || ' ' || column_name || ' ' || data_type from information_schema.columns
		where table_schema = 'dibs' and data_type in ('text', 'jsonb') and is_updatable = 'YES' and table_name not like '%\_job'`, "$1"
	if h.lite {
		columns, placeholder = `select m.name || ' ' || c.name || ' text' from sqlite_schema m, pragma_table_info(m.name) c
			where m.type = 'table' and m.name like 'dibs!_%' escape '!' and lower(c.type) = 'text'`, "?1"
	}
	all := textRows(h.t, h.sql, columns)
	if len(all) < 20 {
		h.t.Fatal(all)
	}
	for _, column := range all {
		f := strings.Fields(column)
		evil := clitest.EvilName
		if slices.Contains([]string{"payload", "metadata", "errors", "result"}, f[1]) {
			evil = clitest.EvilText
		}
		set := fmt.Sprintf("update %s set %s = cast(replace(cast(%[2]s as text), '%s', %s) as %s)", f[0], f[1], word, placeholder, f[2])
		if _, err := h.sql.ExecContext(h.t.Context(), set, evil); err != nil {
			h.t.Fatalf("%s: %v", set, err)
		}
	}
}

// screen runs the command, with or without a terminal.
func (h *hostileDB) screen(terminal bool, stdin string, args ...string) runResult {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(stdin), &out, &errs)
	a.OutTTY, a.Color = terminal, terminal
	code := a.Run(ctx, newRootCmd(a), append([]string{"--db", h.DB}, args...))
	return runResult{Code: code, Out: out.String(), Err: errs.String()}
}

// TestNothingHostileReachesATerminal prints every field by every command.
func TestNothingHostileReachesATerminal(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	each := map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	}
	for name, db := range each {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := plant(newCLI(t, db(t)))
			h.showsWhatThereIs()
			commands := h.reading()
			if h.lite { // names are refused before any database is asked
				commands = append(commands, h.refused()...)
			}
			for _, args := range commands {
				h.prints(true, false, args)
				h.prints(false, true, args)
				if h.lite {
					h.prints(false, false, args)
					h.prints(true, true, args)
				}
			}
			for _, id := range h.ids {
				h.prints(true, false, []string{"show", id, "--payload"})
				h.prints(true, false, []string{"show", id, "--result"})
			}
		})
	}
}

// reading lists commands that print or change the database.
func (h *hostileDB) reading() [][]string {
	queue, kind, group := "q"+clitest.EvilName, "k"+clitest.EvilName, "g"+clitest.EvilName
	commands := [][]string{
		{"ls"},
		{"ls", "--all"},
		{"ls", "nosuch"},
		{"stats"},
		{"stats", queue},
		{"queue"},
		{"queue", queue},
		{"queue", "nosuch"},
		{"pause", queue},
		{"pause", "nosuch"},
		{"check"},
		{"top", "--once"},
		{"locks", queue},
		{"claim", queue},
		{"__complete", "pause", ""},
		{"cancel", "--queue", queue, "--kind", kind},
		{"edit", "-p", "7", "--group", group},
		{"prune", "--older-than", "100d", "--queue", queue},
	}
	for _, state := range []string{"waiting", "blocked", "running", "completed", "dead", "cancelled"} {
		commands = append(commands, []string{"ls", "--state", state})
	}
	for _, id := range h.ids {
		commands = append(commands, []string{"show", id})
	}
	return append(commands, []string{"cancel", h.ids[7]}, []string{"requeue", h.ids[1]})
}

// refused lists commands with hostile arguments.
func (h *hostileDB) refused() [][]string {
	queue, kind, group := "q"+clitest.EvilName, "k"+clitest.EvilName, "g"+clitest.EvilName
	return [][]string{
		{"ls", queue},
		{"ls", "--kind", kind},
		{"stats", "nosuch"},
		{"queue", queue, "--lease", "9s"},
		{"queue", queue, "--group", group + "=2"},
		{"resume", queue},
		{"pause", queue + ".yaml"},
		{"locks", "nosuch"},
		{"enqueue", queue},
		{"enqueue", "q", "--kind", kind},
		{"enqueue", "q", "--unique", clitest.EvilText},
		{"enqueue", "q", "--group", group},
		{"enqueue", "q", clitest.EvilText},
		{"enqueue", "q", "--metadata", clitest.EvilText},
		{"enqueue", clitest.EvilText, "--lines"},
		{"claim", queue, "--resume", "--worker", "w" + clitest.EvilName},
		{"work", queue, "--until-empty", "--", "true"},
		{"requeue", "--state", "dead", "--queue", queue},
		{"prune", "--older-than", "1h", "--state", clitest.EvilName},
		{clitest.EvilName},
		{"ls", "--" + clitest.EvilText},
		{"ls", "--state", clitest.EvilName},
		{"show", clitest.EvilName},
		{"finish", clitest.EvilName, clitest.EvilName, "--dead"},
		{"--db", "sqlite:" + clitest.EvilName, "ls"},
		{"--db", clitest.EvilName, "ls"},
		{"--schema", clitest.EvilName, "--db", "postgres://127.0.0.1:1/x", "ls"},
		{"--prefix", clitest.EvilName, "--db", "sqlite:x.DB", "migrate", "--print"},
		{"ls", "--table", clitest.EvilName},
		{"enqueue", "q", "--file", clitest.EvilName, "--lines"},
		{"work", "q", "--", clitest.EvilName},
		{"adopt", "check", clitest.EvilName},
		{"adopt", "init", clitest.EvilName},
		{"torture", "--history", clitest.EvilName + "/x", "--report", "/" + clitest.EvilName + "/x"},
		{"bench", "--workload", clitest.EvilName},
	}
}

func (h *hostileDB) prints(terminal, asJSON bool, args []string) {
	h.t.Helper()
	if asJSON {
		args = append([]string{"--json"}, args...)
	}
	r := h.screen(terminal, `"`+clitest.EvilName+"\n", args...)
	what := fmt.Sprintf("dibs %q (terminal: %v)", args, terminal)
	clitest.Harmless(h.t, what+", stdout", r.Out, terminal && !asJSON)
	clitest.Harmless(h.t, what+", stderr", r.Err, false)
	if asJSON && args[1] != "__complete" {
		for line := range strings.Lines(r.Out) {
			if !json.Valid([]byte(line)) {
				h.t.Errorf("%s writes %q, which is not JSON", what, line)
			}
		}
	}
}

// showsWhatThereIs checks that hostile text was printed at all: escaped, and in JSON so that a
// reader gets the original.
func (h *hostileDB) showsWhatThereIs() {
	h.t.Helper()
	shown := h.screen(false, "", "show", h.ids[1]).Out
	for _, field := range []string{"queue ", "kind ", "unique ", "worker ", "metadata ", "payload ", "attempt 1 failed", "more "} {
		if _, rest, found := strings.Cut(shown, field); !found || !strings.Contains(rest, `\u009b31m`) {
			h.t.Errorf("show lacks the text of %s: %s", field, shown)
		}
	}
	var job dibs.RawJob
	r := h.screen(false, "", "show", h.ids[1], "--json")
	if err := json.Unmarshal([]byte(r.Out), &job); err != nil || job.Queue != "q"+clitest.EvilName || job.Worker != "w"+clitest.EvilName || !strings.Contains(job.Errors[0].Error, clitest.EvilText) {
		h.t.Errorf("%s is read as %q: %v", r.Out, job.Queue, err)
	}
	raw := h.screen(false, "", "show", h.ids[1], "--payload").Out
	if !strings.Contains(raw, clitest.EvilText) {
		h.t.Errorf("the payload is not written as it is: %q", raw)
	}
	for _, args := range [][]string{{"stats"}, {"queue"}, {"top", "--once"}, {"ls", "--state", "dead"}, {"stats", "nosuch"}} {
		if r := h.screen(true, "", args...); !strings.Contains(r.Out+r.Err, `\u`) {
			h.t.Errorf("dibs %v shows nothing hostile: %s%s", args, r.Out, r.Err)
		}
	}
}

// Rows of other programs may have invalid UTF-8 and payloads that are not JSON.
func TestWhatIsNotEvenTextReachesNoTerminal(t *testing.T) {
	needs.Long(t)
	c := onSQLite(t)
	h := plant(c)
	for _, set := range []string{
		"update dibs_job set payload = cast(x'229b33316d22' as text), kind = cast(x'9b' as text), worker = cast(x'9d' as text)",
		"update dibs_finished set payload = cast(x'1b5b33316d' as text), result = cast(x'9b' as text), metadata = cast(x'1b63' as text)",
	} {
		if _, err := h.sql.ExecContext(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range append(h.ids, strconv.Itoa(999)) {
		for _, args := range [][]string{{"show", id}, {"ls"}, {"ls", "--state", "dead"}, {"ls", "--state", "completed"}, {"top", "--once"}} {
			for _, terminal := range []bool{false, true} {
				h.prints(terminal, false, args)
				h.prints(terminal, true, args)
			}
		}
		h.prints(true, false, []string{"show", id, "--payload"})
	}
}

// The report and the messages of a torture contain paths, and names and keys of an adopted table.
func TestTheTorturesReportIsHarmless(t *testing.T) {
	t.Parallel()
	r := &torture.Result{Dir: clitest.EvilName}
	r.Command, r.Database, r.Version, r.Adopted, r.Took = clitest.EvilName, clitest.EvilName, clitest.EvilName, clitest.EvilName, time.Second
	r.Verdicts = []history.Verdict{{Promise: "p", Broken: []history.Violation{{Text: clitest.EvilName}}}}
	var page, out bytes.Buffer
	if err := torture.WriteReport(&page, r); err != nil {
		t.Fatal(err)
	}
	a := newApp(strings.NewReader(""), &out, &out)
	a.Say("%s", a.newTortureScreen(tortureOptions{}, &place{}).Verdict(r, clitest.EvilName))
	if err := a.WriteJSON(tortureJSONOf(r, clitest.EvilName)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{page.String(), out.String()} {
		if !strings.Contains(text, `\u009b31m`) || strings.IndexFunc(text, func(r rune) bool { return r == 0x9b || r == 0x202e || r == 0x1b }) >= 0 {
			t.Errorf("hostile text is missing, or as it was: %.2000q", text)
		}
	}
}

// Both kinds of database refuse hostile text as a name.
func TestHostileNamesAreRefused(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		all := "\u0000\u0001\u001b\u007f\u0080\u0085\u009b\u009d\u009f\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
		if !strings.HasPrefix(c.DB, "sqlite:") {
			all = "\u009b\u202e" // both databases use the same code
		}
		for _, r := range all {
			name := "a" + string(r) + "b"
			for _, args := range [][]string{
				{"enqueue", name},
				{"enqueue", "q", "--kind", name},
				{"enqueue", "q", "--group", name},
				{"enqueue", "q", "--unique", name},
				{"claim", name},
				{"claim", "q", "--worker", name},
				{"claim", "q", "--kind", name},
				{"queue", name, "--create"},
				{"work", name, "--", "true"},
				{"work", "q", "--name", name, "--", "true"},
				{"work", "q", "--kind", name, "--", "true"},
			} {
				c.Fails(cmdline.ExitUsage, "", args, "must not contain c")
			}
			c.Fails(cmdline.ExitUsage, `{"queue":`+strconv.QuoteToASCII(strings.ReplaceAll(name, "\x00", "\x01"))+"}\n", []string{"enqueue", "--jobs"}, "stdin:1: ")
		}
		c.OK("enqueue", "日本 ümläut עברית \U0001f600") // ordinary text of any language is allowed
	})
}

// textRows are the rows of one column.
func textRows(t *testing.T, db *sql.DB, query string, args ...any) (all []string) {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
