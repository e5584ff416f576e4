package open

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// shownOf lists all texts in which dibs shows a URL, except for those with its database's
// words. It makes no connection and no file.
func shownOf(u URL) []string {
	shown := []string{u.String(), host(u), fmt.Sprintf("%#v", u)}
	explained := func(ofPostgres, ofSQLite error) error { // only a URL that parses leads to an error of a database
		t, err := find(u, Options{})
		switch {
		case err != nil:
			return err
		case t.file:
			return Explain(u, ofSQLite)
		}
		return Explain(u, ofPostgres)
	}
	for _, call := range []func() error{
		func() error { _, _, err := Place(u); return err },
		func() error { _, err := find(u, Options{Schema: "s"}); return err },
		func() error { _, err := find(u, Options{Prefix: "p"}); return err },
		func() error { _, err := u.BehindPooler(); return err },
		func() error { return explained(pgError("28P01"), sqliteError(sqliteCantOpen)) },
		func() error { return explained(pgError("3D000"), sqliteError(sqliteNotADB)) },
		func() error { _, err := pgconn.ParseConfig(u.Reveal()); return explained(err, nil) },
	} {
		text := "no error"
		if err := call(); err != nil {
			text = err.Error()
		}
		shown = append(shown, text)
	}
	return shown
}

// FuzzPassword checks that no four characters of a password are shown, unless they are shown
// with another password too. The other passwords make each URL parse, or fail, in another way.
func FuzzPassword(f *testing.F) {
	others := []string{"x", "", " ", "%", "#", "/", "@/", "\n", "=", ";", ":", "?"}
	for i := range secretURLs {
		f.Add(uint(i), "p4ssword")
	}
	for _, password := range []string{"a@b", "a/b", "a?b", "a#b", "%zz", "p%61ss", "a:b", "a'b", "a;b", "a&b=c", "[", "\x00", "ä", "://", "@h/x.db", `a\b`} {
		f.Add(uint(0), password)
	}
	with := func(n uint, password string) URL {
		return URL(strings.ReplaceAll(string(secretURLs[n%uint(len(secretURLs))]), secret, password))
	}
	allowed := make([][][]string, len(secretURLs))
	for i := range allowed {
		for _, other := range others {
			allowed[i] = append(allowed[i], shownOf(with(uint(i), other)))
		}
	}
	f.Fuzz(func(t *testing.T, n uint, password string) {
		before, after, _ := strings.Cut(string(secretURLs[n%uint(len(secretURLs))]), secret)
		switch {
		case before == "",
			before == "postgres://u:" && after == "",                                    // a host or its port
			strings.Contains(before+after, "?") && strings.Contains(password, "&"),      // another parameter
			strings.HasPrefix(before, "sqlite:") && strings.ContainsAny(password, `/\`), // a path
			!strings.HasPrefix(before, "postgres") && strings.HasPrefix(password, `\`):  // a drive of Windows
			t.Skip("it does not look like a password, or only a part of it does")
		}
		known := strings.Join(slices.Concat(allowed[n%uint(len(secretURLs))]...), "\n")
		plain, _ := url.PathUnescape(password)
		for _, text := range shownOf(with(n, password)) {
			for _, form := range []string{password, plain} {
				for i := range len(form) - 3 {
					if part := form[i : i+4]; strings.Contains(text, part) && !strings.Contains(known, part) {
						t.Fatalf("the password %q in %q: its part %q is shown: %s", password, with(n, password).Reveal(), part, text)
					}
				}
			}
		}
	})
}

// FuzzURL checks that a correctly encoded URL is understood, whatever its parts: the server gets
// them unchanged, dibs adds each parameter once, and String hides only the password.
func FuzzURL(f *testing.F) {
	f.Add("app", "S3CRET", "db.example.com:5432", "shop", "application_name", "x y")
	f.Add("", "", "", "", "", "")
	f.Add("a@b", "a:b/c?d#e@f", "h1:1,h2:2", "über", "options", "-c work_mem=1MB")
	f.Add("u", "p", "[::1]:5432", "x.db", "password", "S3CRET")
	f.Add("u", "p", "h", "x", "connect_timeout", "3")
	f.Add("u", "p", "h", "x", "pooler", "session")
	f.Fuzz(func(t *testing.T, user, password, host, name, param, value string) {
		if strings.ContainsAny(host, "/?#@%") {
			t.Skip("no host")
		}
		path := strings.ReplaceAll((&url.URL{Path: "/" + name}).EscapedPath(), "@", "%40")
		text := "postgres://" + url.UserPassword(user, password).String() + "@" + host + path
		if param != "" {
			text += "?" + strings.ReplaceAll(url.Values{param: {value}}.Encode(), "+", "%20")
		}
		made, err := url.Parse(text)
		if err != nil {
			t.Skip("no URL")
		}
		u := URL(text)
		_, server, err := Place(u)
		if err != nil {
			t.Fatalf("%s: %v", u.Reveal(), err)
		}
		pooled, err := u.BehindPooler()
		if err != nil {
			t.Fatalf("%s: %v", u.Reveal(), err)
		}
		again, err := pooled.BehindPooler()
		if err != nil || again != pooled {
			t.Errorf("%s, behind a pooler, becomes %s, %v", pooled.Reveal(), again.Reveal(), err)
		}
		for added, text := range map[string]string{"connect_timeout": server, "pooler": pooled.Reveal()} {
			got, err := url.Parse(text)
			if err != nil {
				t.Fatalf("%s becomes %s: %v", u.Reveal(), text, err)
			}
			had, has := made.Query(), got.Query()
			if n := len(has[added]); n != 1 {
				t.Errorf("%s has %s %d times", text, added, n)
			}
			if !had.Has(added) {
				has.Del(added)
			}
			secret, _ := got.User.Password()
			if got.User.Username() != user || secret != password || got.Host != host || got.Path != "/"+name || has.Encode() != had.Encode() {
				t.Errorf("%s becomes %s", u.Reveal(), text)
			}
		}
		if shown := URL(u.String()); shown.String() != string(shown) {
			t.Errorf("%s is shown as %s, and that as %s", u.Reveal(), string(shown), shown)
		}
	})
}

// FuzzRedacted checks that Redacted hides the password of a quoted URL and changes nothing else.
func FuzzRedacted(f *testing.F) {
	f.Add("unknown command \"", "app", "S3CRET", "h/db", "\" for dibs")
	f.Add("", "", "a b:c", "h", "")
	f.Add("dsn: ", "u", "p/w@x?", "127.0.0.1:5432/x?sslmode=disable", "; give --db")
	f.Fuzz(func(t *testing.T, before, user, password, rest, after string) {
		if strings.ContainsAny(rest+user, " :@\"'") || slices.Contains([]string{"", "password"}, strings.ToLower(password)) {
			t.Skip("it cannot be part of a URL, or is the word password itself")
		}
		quoting := func(password string) string {
			return Redacted(before + "postgres://" + url.UserPassword(user, password).String() + "@" + rest + after)
		}
		if got, want := quoting(password), quoting("x"); got != want {
			t.Errorf("with the password %q it is %q, with another %q", password, got, want)
		}
	})
}
