package failures

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs/admin"
)

func TestErrorsThatDifferInNumbersAreAlike(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"dial tcp …: connect: connection refused":          {"dial tcp 10.0.0.1:5432: connect: connection refused", "dial tcp 127.0.0.1:80: connect: connection refused"},
		"dial tcp […]:…: i/o timeout":                      {"dial tcp [2001:db8::1]:443: i/o timeout", "dial tcp [fe80::1c2a:0:1]:8080: i/o timeout"},
		`no user "…" in tenant …`:                          {`no user "ann" in tenant 7`, `no user "bob \" x" in tenant 1234567`, `no user "" in tenant 1`},
		"can't open user's file '…'":                       {"can't open user's file '/tmp/a b'", "can't open user's file 'x'"},
		"order … not found":                                {"order 8f14e45f-ceea-467f-9a3b-0d5a2f1c7e11 not found", "order 0xc000123abc not found", "order 7 not found", "order deadbeef01 not found", "order 01HF3K8ZQ4T6Y9X0ABCD not found"},
		"after … at …":                                     {"after 300ms at 2026-11-23T10:00:00Z", "after 1m30s at 2026-11-23T10:00:00.123456+01:00", "after 2s at 2026-11-23"},
		"mail to … bounced":                                {"mail to ann@example.com bounced", "mail to b.c-d@mail.example.org bounced"},
		"job…, worker-…: db-….internal: SQLSTATE 42601":    {"job42, worker-1: db-7.internal: SQLSTATE 42601", "job1, worker-23: db-12.internal: SQLSTATE 42601"},
		"panic: runtime error: index out of range […]":     {"panic: runtime error: index out of range [5]", "panic: runtime error: index out of range [77]"},
		"exit status 1: Traceback (most recent call last)": {"exit status 1: Traceback (most recent call last)"},
		"":                     {"", "  ", "\n"},
		"x509: unknown":        {},
		"connection refused":   {"connection refused"},
		"Zeit überschritten …": {"Zeit überschritten 5", "Zeit überschritten ٣"},
	} {
		for _, text := range texts {
			if got := Fingerprint(text); got != want {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
	}
}

// The short numbers by which protocols say what is wrong stay, and nothing else that looks like them.
func TestCodesOfProtocolsStay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"550 5.1.1 <ann@example.com>: no such user 7":                                "550 5.1.1 <…>: no such user …",
		"smtp: 550-5.7.26 from 10.0.0.1 refused":                                     "smtp: 550-5.7.26 from … refused",
		"rcpt to: 421 4.7.0 try again in 300 s":                                      "rcpt to: 421 4.7.0 try again in … s",
		"first\n452 4.2.2 mailbox 1234 full":                                         "first\n452 4.2.2 mailbox … full",
		"POST https://api.example.com/v1/orders: 500 Internal Server Error":          "POST https://api.example.com/v…/orders: 500 Internal Server Error",
		"unexpected status 404 for order 404404":                                     "unexpected status 404 for order …",
		"HTTP 503 after 200 ms":                                                      "HTTP 503 after … ms",
		"HTTP/1.1 429 Too Many Requests, retry after 30":                             "HTTP/1.1 429 Too Many Requests, retry after …",
		"status code: 502, request 8f14e45f-ceea-467f-9a3b-0d5a2f1c7e11":             "status code: 502, request …",
		"status=409 job=17":                                                          "status=409 job=…",
		"code:404 id:404":                                                            "code:404 id:…",
		"the server returned 410":                                                    "the server returned 410",
		`ERROR: duplicate key value violates "a_key" (SQLSTATE 23505)`:               `ERROR: duplicate key value violates "…" (SQLSTATE 23505)`,
		"SQLSTATE[42P01]: undefined table":                                           "SQLSTATE[42P01]: undefined table",
		"Error 1062 (23000): Duplicate entry '7' for key 3":                          "Error 1062 (23000): Duplicate entry '…' for key …",
		"errno 111, exit code 137, signal 9":                                         "errno 111, exit code 137, signal 9",
		"order 550 has 404 items of 500":                                             "order … has … items of …",
		"customer: 55012 in 5.1.1 of 12":                                             "customer: … in … of …",
		"returned 450000 rows, with 17 left; errors 12; status 20261123; error 8a5f": "returned … rows, with … left; errors …; status …; error …a…f",
		"line: 404040, sqlstate 1234567":                                             "line: …, sqlstate …",
	} {
		if got := Fingerprint(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestErrorsThatDifferInWordsAreNot(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range []string{
		"connection refused", "connection reset", "no such host", "timeout", "Timeout", "unknown kind", "a face in a cafe", "a bad decade",
		"a.b.c", "a-b", "pkg/errors: x", "std::bad_alloc", "std::bad_cast",
	} {
		f := Fingerprint(text)
		if other, ok := seen[f]; ok || f == "" {
			t.Errorf("%q and %q are both %q", text, other, f)
		}
		seen[f] = text
	}
}

func TestFailuresAreGrouped(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var list []admin.Failure
	for i := range 30 {
		f := admin.Failure{ID: int64(100 - i), Queue: "q", Kind: "k", At: now.Add(-time.Duration(i) * time.Minute), Error: fmt.Sprintf("dial 10.0.0.%d: refused", i)}
		switch i % 10 {
		case 1:
			f.Kind = "other"
		case 2:
			f.Queue = "r"
		case 3:
			f.Error = "no such file"
		}
		list = append(list, f)
	}
	groups := Of(list, Spans{From: now.Add(-20 * time.Minute), Width: 10 * time.Minute, N: 2})
	var got []string
	for _, g := range groups {
		got = append(got, fmt.Sprintf("%s %s %q %q %d %v %v-%v %d ids", g.Queue, g.Kind, g.Fingerprint, g.Part, g.Count, g.Counts, now.Sub(g.Last), now.Sub(g.First), len(g.IDs)))
	}
	want := []string{
		`q k "dial …: refused" "refused" 21 [7 7] 0s-29m0s 10 ids`,
		`q other "dial …: refused" "refused" 3 [1 1] 1m0s-21m0s 3 ids`,
		`r k "dial …: refused" "refused" 3 [1 1] 2m0s-22m0s 3 ids`,
		`q k "no such file" "no such file" 3 [1 1] 3m0s-23m0s 3 ids`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if g := groups[0]; g.Example != "dial 10.0.0.0: refused" || g.IDs[0] != 100 || !slices.IsSortedFunc(g.IDs, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("the example is %q of %v", g.Example, g.IDs)
	}
}

// Whatever the text: the fingerprint is bounded, stays itself, and each of its stretches
// stands in the error, so that a list of errors with that part has all of the group.
func FuzzFingerprint(f *testing.F) {
	for _, text := range []string{
		"", "…", "a…1", "\xff\xfe", "'", `"`, `'''"""`, `"\`, "0x", "0", "::", "1::", "@.1", "‘x’", "\u202e\u2066evil\u2069", "\x1b[31mred\x1b[0m 1", "a\x00b",
		"<script>alert(1)</script>", strings.Repeat("9", 5000), strings.Repeat("a1", 5000), strings.Repeat("'", 5000), strings.Repeat("é1…", 500), "2026-11-23T", "1e999999999h",
		"Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nValueError: x", "٣٤٥ १२३", "e\u0301\u0301\u0301 1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Fingerprint(text)
		if n := utf8.RuneCountInString(got); n > mostHead+mostTail+1 || !utf8.ValidString(got) {
			t.Errorf("%q: %d runes: %q", text, n, got)
		}
		valid := strings.ToValidUTF8(text, "\uFFFD")
		for _, piece := range strings.Split(got, gap) {
			if !strings.Contains(valid, piece) {
				t.Errorf("%q is no part of %q", piece, text)
			}
		}
		if p := part(got); !strings.Contains(text, p) {
			t.Errorf("part %q is no part of %q", p, text)
		}
		if again := Fingerprint(text); again != got {
			t.Errorf("%q: %q and %q", text, got, again)
		}
	})
}
