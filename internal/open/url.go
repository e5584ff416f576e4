package open

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/session"
)

// URL names a database. It may hold a password, so every way of formatting it shows the
// result of String. Only Reveal returns all of it, for drivers and for the environment of
// other processes.
type URL string

// Reveal returns the URL with its password.
func (u URL) Reveal() string { return string(u) }

// hidden replaces a secret.
const hidden = "xxxxx"

// String shows the URL without passwords. It shows nothing of a URL that dibs does not
// understand, since any part of it may be a password.
func (u URL) String() string {
	if _, ok := sqlitePath(u); ok || u == "" {
		return string(u)
	}
	server, err := serverURL(u)
	if err != nil {
		return "(a URL that is not understood)"
	}
	if _, has := server.User.Password(); has {
		server.User = url.UserPassword(server.User.Username(), hidden)
	}
	parts := strings.Split(server.RawQuery, "&")
	for i, part := range parts {
		name, _, given := strings.Cut(part, "=")
		switch {
		case !given && part != "":
			parts[i] = hidden
		case given && isSecret(part):
			parts[i] = name + "=" + hidden
		}
	}
	server.RawQuery = strings.Join(parts, "&")
	return server.String()
}

// BehindPooler adds to the URL that the server is behind a pooler in transaction mode,
// unless the URL has a pooler parameter already.
func (u URL) BehindPooler() (URL, error) {
	server, err := serverURL(u)
	if err != nil || isMySQL(server) || server.Scheme == sqlServerScheme {
		return "", &Error{
			Problem: "--pooler is for PostgreSQL",
			Next:    "name the database with --db postgres://USER@HOST:PORT/NAME",
			Err:     dibs.ErrInvalid,
		}
	}
	addParam(server, "pooler", string(session.Transactions))
	return URL(server.String()), nil
}

// addParam adds a parameter that the URL lacks. It keeps the text of the others, since
// PostgreSQL's drivers do not read a + as a blank.
func addParam(u *url.URL, name, value string) {
	if u.Query().Has(name) {
		return
	}
	value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+name+"="+value, "&")
}

// GoString hides passwords from %#v.
func (u URL) GoString() string { return `"` + u.String() + `"` }

// MarshalText hides passwords from JSON and other encoders.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Set and Type make URL the value of a flag.
func (u *URL) Set(s string) error {
	*u = URL(s)
	return nil
}

// Type is the type's name in the help of a flag.
func (u *URL) Type() string { return "string" }

var serverSchemes = append([]string{"postgres", "postgresql", sqlServerScheme}, mysqlSchemes...)

// serverURL parses the URL of a database on a server. It refuses URLs that parsers read in
// different ways, in which part of a password could be taken for a host and be shown.
func serverURL(u URL) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(string(u), "://")
	if !slices.Contains(serverSchemes, scheme) {
		return nil, errors.New("it does not begin with postgres://, mysql:// or sqlserver://")
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && (strings.Contains(rest[i:], "@") || strings.Contains(rest, "#")) {
		return nil, errors.New("an @ or # that belongs to a name or a password is written as %40 or %23")
	}
	server, err := url.Parse(string(u))
	if err != nil {
		return nil, errors.New("it is no URL") // the parser's own error quotes the URL
	}
	if server.Host == "" && server.Path == "" {
		server.Path = "/" // without a path, String leaves out the //
	}
	return server, nil
}

var secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|credential`)

// isSecret reports whether the value of a parameter, name=value, must not be shown, however
// often its name is encoded. A ; is no separator, but a user may mean it as one.
func isSecret(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	for {
		plain, err := url.QueryUnescape(name)
		if err != nil || strings.Contains(part, ";") || secretName.MatchString(plain) {
			return true
		}
		if plain == name {
			return false
		}
		name = plain
	}
}

// likeServer reports whether a path is more likely the name of a server: user:password@host,
// or words such as host=h password=p. afterScheme says that the path follows sqlite:.
func likeServer(path string, afterScheme bool) bool {
	user, _, hasPassword := strings.Cut(path, "@")
	if len(user) > 2 && user[1:3] == `:\` {
		user = user[3:] // a drive of Windows
	}
	hasPassword = hasPassword && strings.Contains(user, ":") && !(afterScheme && strings.ContainsAny(user, `/\`))
	return hasPassword || serverWords.MatchString(path)
}

var serverWords = regexp.MustCompile(`(?i)(^|[\s?&;])(host|hostaddr|port|user|dbname|sslmode|service|\w*pass\w*)\s*=`)

var (
	userInfo  = regexp.MustCompile(`([^\s"'(/:@]*):(?:/?[^\s/]\S*)?@`)
	cutShort  = regexp.MustCompile(`(://[^\s"'/:@]*):[^\s"'@]*(["…]|$)`) // a URL that ends before its @
	parameter = regexp.MustCompile(`(?i)((?:pass|pwd|secret|token|credential)\w*\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&"']+)`)
)

// Redacted hides everything in a text that looks like a password of a URL. The text may be
// an error that quotes a wrong argument.
func Redacted(text string) string {
	text = userInfo.ReplaceAllStringFunc(text, func(found string) string {
		name, rest, _ := strings.Cut(found, ":")
		if strings.EqualFold(rest, "password@") { // advice that shows the form of a URL
			return found
		}
		return name + ":" + hidden + "@"
	})
	text = cutShort.ReplaceAllString(text, "${1}:"+hidden+"${2}")
	return parameter.ReplaceAllString(text, "${1}"+hidden)
}
