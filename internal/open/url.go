package open

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/session"
)

// URL names a database. It may hold a password, so it prints without: every way of
// formatting it shows what String returns. Only Reveal gives all of it, for drivers and
// for the environment of other processes.
type URL string

// Reveal returns the URL with its password.
func (u URL) Reveal() string { return string(u) }

// hidden stands for what is not shown.
const hidden = "xxxxx"

// String shows the URL without passwords. Of a URL that dibs does not understand nothing is
// shown, as nobody can say which part of it is a password.
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

// BehindPooler is the URL with the word that a pooler in transaction mode stands before the
// server, unless it says something of poolers itself.
func (u URL) BehindPooler() (URL, error) {
	server, err := serverURL(u)
	if err != nil {
		return "", &Error{
			Problem: "--pooler is for PostgreSQL",
			Next:    "name the database with --db postgres://USER@HOST:PORT/NAME",
			Err:     dibs.ErrInvalid,
		}
	}
	addParam(server, "pooler", string(session.Transactions))
	return URL(server.String()), nil
}

// addParam adds a parameter that the URL lacks. The others stay as they are written: to
// PostgreSQL's drivers a + is no blank.
func addParam(u *url.URL, name, value string) {
	if u.Query().Has(name) {
		return
	}
	value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20") // PostgreSQL's URLs know no + for a blank
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+name+"="+value, "&")
}

// GoString is for %#v.
func (u URL) GoString() string { return `"` + u.String() + `"` }

// MarshalText is for JSON and other encoders.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Set and Type make it the value of a flag.
func (u *URL) Set(s string) error {
	*u = URL(s)
	return nil
}

// Type is what a flag of this type is called.
func (u *URL) Type() string { return "string" }

// serverURL parses the URL of a PostgreSQL database. It refuses what others read in
// another way: there a part of a password could be taken for a host or a name, and be shown.
func serverURL(u URL) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(string(u), "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return nil, errors.New("it does not begin with postgres://")
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && (strings.Contains(rest[i:], "@") || strings.Contains(rest, "#")) {
		return nil, errors.New("an @ or # that belongs to a name or a password is written as %40 or %23")
	}
	server, err := url.Parse(string(u))
	if err != nil {
		return nil, errors.New("it is no URL") // the error quotes it
	}
	if server.Host == "" && server.Path == "" {
		server.Path = "/" // else it would be written without the //
	}
	return server, nil
}

var secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|credential`)

// isSecret reports whether the value of a parameter, name=value, must not be shown, however
// often its name is encoded. A ; is no separator, but may be meant as one.
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

// likeServer reports whether a path is more likely how somebody names a server: by
// user:password@host, or by words such as host=h password=p. named says that sqlite: stands
// before it.
func likeServer(path string, named bool) bool {
	before, _, at := strings.Cut(path, "@")
	if len(before) > 2 && before[1:3] == `:\` {
		before = before[3:] // a drive of Windows
	}
	at = at && strings.Contains(before, ":") && !(named && strings.ContainsAny(before, `/\`))
	return at || serverWords.MatchString(path)
}

var serverWords = regexp.MustCompile(`(?i)(^|[\s?&;])(host|hostaddr|port|user|dbname|sslmode|service|\w*pass\w*)\s*=`)

var (
	userInfo  = regexp.MustCompile(`([^\s"'(/:@]*):(?:/?[^\s/]\S*)?@`)
	cutShort  = regexp.MustCompile(`(://[^\s"'/:@]*):[^\s"'@]*(["…]|$)`) // before the @
	parameter = regexp.MustCompile(`(?i)((?:pass|pwd|secret|token|credential)\w*\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&"']+)`)
)

// Redacted is a text, such as a wrong argument that an error quotes, without what looks like
// a password of a URL.
func Redacted(text string) string {
	text = userInfo.ReplaceAllStringFunc(text, func(found string) string {
		name, rest, _ := strings.Cut(found, ":")
		if strings.EqualFold(rest, "password@") { // the word itself, in advice
			return found
		}
		return name + ":" + hidden + "@"
	})
	text = cutShort.ReplaceAllString(text, "${1}:"+hidden+"${2}")
	return parameter.ReplaceAllString(text, "${1}"+hidden)
}
