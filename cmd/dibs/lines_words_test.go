package main

import (
	"strings"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
)

// What made-up command lines are made of.

// lineFiles are files in the folder of the lines.
var lineFiles = map[string]string{
	"m.yaml":       clitest.ByToken,
	"bad.yaml":     "table: [\n",
	"jobs.csv":     "@kind,to\nk,ann\nk,bob\n",
	"jobs.jsonl":   "{\"to\":1}\n{}\n\n\"x\"\n",
	"evil.jsonl":   "\"" + clitest.EvilText + "\"\n" + clitest.EvilName + "\n",
	"notes.db":     strings.Repeat("not a database ", 100),
	"empty.sqlite": "",
}

// lineDBs are names of databases: an existing one, missing ones and invalid ones.
var lineDBs = append([]string{
	"sqlite:jobs.db", "jobs.db", "sqlite:new.db", "sqlite:no/such/x.DB", "notes.db", "empty.sqlite", "sqlite:empty.sqlite", "sqlite:.", "sqlite:", "sqlite::memory:",
	"", "jobs", "mysql://h/x", clitest.EvilName, "sqlite:" + clitest.EvilText, "postgres://127.0.0.1:1/x", "postgres://127.0.0.1:1/" + clitest.EvilText,
	"postgres://" + clitest.EvilName, "sqlite:jobs.db?mode=ro", "sqlite:////", "file:jobs.db",
}, secretURLs...)

var lineEnv = map[string][]string{
	"DIBS_SCHEMA": {"dibs", "a b", clitest.EvilName, "1", strings.Repeat("s", 70)},
	"DIBS_PREFIX": {"dibs_", "p$", "1", "sqlite_", clitest.EvilName, "other_"},
	"DIBS_TABLE":  {"m.yaml", "bad.yaml", "no.yaml", clitest.EvilName, "jobs.db"},
}

// lineWords are arguments, and values of flags.
var lineWords = []string{
	"", "-", "--", "q", "emails", "nosuch", "1", "2", "3", "17", "0", "-1", "9223372036854775807", "9223372036854775808", "1.5", "null", "{}", "[1]",
	`{"to":"ann"}`, `"x"`, "{broken", strings.Repeat("a", 32), strings.Repeat("0", 32), strings.Repeat("long", 100), "k", "g=3", "g=x", "=", "now",
	"2026-12-31", "dead", "waiting", "completed", "m.yaml", "bad.yaml", "jobs.csv", "jobs.jsonl", "evil.jsonl", "no.csv", ".", "/", "W3", "%s%d%n",
	clitest.EvilName, clitest.EvilText, clitest.EvilControls, "\xff\xfe", "日本", "'; drop table dibs_job; --", "a\nb", "$(id)", "\x00", "--lines", "--help", "true",
}

// lineValues are valid and invalid values by type of flag.
var lineValues = map[string][]string{
	"int":         {"0", "1", "7", "100", "1000", "-1", "99999999999999999999", "x", "1e3", " 1", clitest.EvilName},
	"int64":       {"0", "1", "100", "-1", "9223372036854775807", "x"},
	"uint64":      {"0", "1", "18446744073709551615", "-1"},
	"float64":     {"0", "1", "0.5", "NaN", "Inf", "-0", "1e400", "x"},
	"duration":    {"0s", "1s", "100ms", "1h", "1d", "-1s", "1", "soon", "9999999d", "1d1h", "1e9s", clitest.EvilText},
	"time":        {"now", "2026-12-31", "2026-12-31 23:59", "9999-12-31T23:59:59Z", "soon", "0000-00-00", clitest.EvilText},
	"stringArray": {"k", "", "a=1", "g=3", clitest.EvilName},
	"stringSlice": {"W3", "W3,W5", ",", `"`, clitest.EvilName},
	"string":      {"q", "k", "", "fifo", "lifo", "dead", "finished", "claimed", "{}", "jobs.csv", "jobs.jsonl", "dibs", "other_", "p$", "1", "sqlite_", clitest.EvilName},
}

// lineInputs are inputs on stdin.
var lineInputs = []string{
	"", "\n", "1 2 3\n", "17\n18 x\n", "{\"a\":1}\n{\"a\":2}\n", "a,b\n1,2\n", "@kind,@nosuch\nk,1\n", `{"queue":"q","payload":1}` + "\n", "{\"queue\":\"q\",\"delay\":\"soon\"}\n",
	`{"id":1,"token":"` + strings.Repeat("a", 32) + `","ending":"completed"}` + "\n", `{"id":1,"token":"x","ending":"what"}` + "\n",
	clitest.EvilName + "\n", "\"" + clitest.EvilText + "\"\n", "\xff\xfe\x00\n", strings.Repeat("x", 100_000), strings.Repeat("line\n", 1000), "{\"queue\":\"\\u009b\"}\n", "\ufeff\"bom\"\n",
}

// lineArgs are valid arguments by command.
var lineArgs = func() map[string][][]string {
	queue, ids, file := []string{"q", "q", "emails", "nosuch"}, []string{"1", "2", "3", "5", "8", "13", "99999"}, []string{"m.yaml", "m.yaml", "bad.yaml", "no.yaml"}
	payload := []string{`{"to":"ann"}`, "1", "-", "{broken", `"` + clitest.EvilText + `"`}
	token := []string{strings.Repeat("a", 32)}
	return map[string][][]string{
		"enqueue": {queue, payload}, "ls": {queue}, "show": {ids}, "edit": {ids, {"--priority=3"}}, "cancel": {ids}, "requeue": {ids},
		"prune": {{"--older-than=1h", "--older-than=0s"}}, "work": {queue}, "claim": {queue}, "extend": {ids, token},
		"finish": {ids, token, {"--completed", "--dead", "--retry"}}, "stats": {queue}, "queue": {queue}, "pause": {queue}, "resume": {queue},
		"check": {}, "locks": {queue}, "init": {{"tickets", "dibs_job", "nosuch"}}, "sql": {file}, "try": {file},
	}
}()
