package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/dibs-queue/dibs/internal/checks"
)

// Tokens are those whom a server serves: each a secret, a name for the log, and what its holder may
// do. Make them with [ParseTokens]. All methods may be called while the server runs.
type Tokens struct {
	list atomic.Pointer[[]*grant]
}

// grant is what one token allows.
type grant struct {
	name   string
	hash   [sha256.Size]byte // hash of the token; the token itself is not kept
	scopes map[Scope]queues
}

// queues lists queues by name; nil: all queues.
type queues []string

const (
	minToken   = 20  // fewest characters of a token, so that nobody can guess it
	maxToken   = 512 // most characters of a token
	hashPrefix = "sha256:"
	ownPrefix  = "dibs_" // prefix of the tokens that NewToken makes, by which one recognizes them
)

var (
	tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)
	// tokenText matches what RFC 6750 allows after the word Bearer.
	tokenText = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)
)

// ParseTokens reads a list of tokens: one line each, with its name, the token or its hash, and one
// or more scopes, separated by blanks. What follows a # at the begin of a line or after a blank is a comment.
//
//	mailer  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  enqueue:mail,news  read
//	boss    sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752  admin
//
// A scope alone is for all queues; after a colon follow the only queues that it is for. In their names, a blank, a
// comma and a % are written as in URLs: %20, %2C, %25. The hash is the SHA-256 of the token in hexadecimal. A
// token has 20 to 512 letters, digits and characters of -._~+/, and perhaps = at the end.
//
// Errors name the line. They do not quote it, since it may hold a token.
func ParseTokens(text string) (*Tokens, error) {
	t := &Tokens{}
	if err := t.Replace(text); err != nil {
		return t, err
	}
	if len(*t.list.Load()) == 0 {
		return t, fmt.Errorf("there is no token in it")
	}
	return t, nil
}

// Replace takes the tokens of another list in place of all that there were: without any, nobody may
// do anything. After an error nothing has changed.
func (t *Tokens) Replace(text string) error {
	list := []*grant{}
	for i, line := range strings.Split(text, "\n") {
		g, err := parseGrant(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		if g == nil {
			continue
		}
		for _, other := range list {
			if other.name == g.name || other.hash == g.hash {
				return fmt.Errorf("line %d: an earlier line has the same name or token", i+1)
			}
		}
		list = append(list, g)
	}
	t.list.Store(&list)
	return nil
}

func parseGrant(line string) (*grant, error) {
	fields := strings.Fields(line)
	if i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "#") }); i >= 0 {
		fields = fields[:i]
	}
	if len(fields) == 0 {
		return nil, nil
	}
	if len(fields) < 3 {
		return nil, fmt.Errorf("a name, a token and a scope are needed, such as: mailer sha256:… enqueue:mail")
	}
	g := &grant{name: fields[0], scopes: map[Scope]queues{}}
	if !tokenName.MatchString(g.name) {
		return nil, fmt.Errorf("its first part is no name: up to 64 letters, digits and characters of ._@-")
	}
	if digits, hashed := strings.CutPrefix(fields[1], hashPrefix); hashed {
		if n, err := hex.Decode(g.hash[:], []byte(digits[:min(len(digits), 2*sha256.Size)])); err != nil || n != sha256.Size || len(digits) != 2*sha256.Size {
			return nil, fmt.Errorf("after sha256: 64 hexadecimal digits are needed")
		}
	} else {
		if n := len(fields[1]); n < minToken || n > maxToken || !tokenText.MatchString(fields[1]) {
			return nil, fmt.Errorf("its second part is no token: %d to %d letters, digits and characters of -._~+/", minToken, maxToken)
		}
		g.hash = sha256.Sum256([]byte(fields[1]))
	}
	for i, f := range fields[2:] {
		if err := g.add(f); err != nil {
			return nil, fmt.Errorf("its part %d: %w", i+3, err)
		}
	}
	return g, nil
}

// add adds a scope, in the form that a line of a list has.
func (g *grant) add(text string) error {
	word, list, some := strings.Cut(text, ":")
	scope := Scope(word)
	if !slices.Contains([]Scope{ScopeEnqueue, ScopeWork, ScopeRead, ScopeAdmin}, scope) {
		return fmt.Errorf("the scopes are enqueue, work, read and admin, each alone or with queues, such as enqueue:mail,news")
	}
	if _, twice := g.scopes[scope]; twice {
		return fmt.Errorf("the scope %s is there already: write all its queues after one colon", scope)
	}
	if !some {
		g.scopes[scope] = nil
		return nil
	}
	names := queues{}
	for _, part := range strings.Split(list, ",") {
		name, err := url.PathUnescape(part)
		if err != nil {
			return fmt.Errorf("a %% in the name of a queue is written as %%25")
		}
		if err := checks.Name("queue", name); err != nil {
			return fmt.Errorf("a queue after %s: %w", scope, err)
		}
		names = append(names, name)
	}
	g.scopes[scope] = names
	return nil
}

// find returns the grant of a token, or nil. How long it takes does not depend on the token.
func (t *Tokens) find(token string) *grant {
	if len(token) > maxToken {
		return nil
	}
	hash := sha256.Sum256([]byte(token))
	var found *grant
	for _, g := range *t.list.Load() {
		if subtle.ConstantTimeCompare(g.hash[:], hash[:]) == 1 {
			found = g
		}
	}
	return found
}

// queuesOf returns the queues for which a grant has a scope. The scope admin includes all others.
func (g *grant) queuesOf(scope Scope) (names queues, has bool) {
	own, hasOwn := g.scopes[scope]
	admin, hasAdmin := g.scopes[ScopeAdmin]
	if hasOwn && own == nil || hasAdmin && admin == nil {
		return nil, true
	}
	return slices.Concat(queues{}, own, admin), hasOwn || hasAdmin
}

// NewToken draws a token of a name and scopes, such as "enqueue:mail,news", and returns it with the line for a
// list of tokens (see [ParseTokens]), which holds only its hash.
func NewToken(name string, scopes ...string) (token, line string, err error) {
	if !tokenName.MatchString(name) {
		return "", "", fmt.Errorf("the first word is no name: up to 64 letters, digits and characters of ._@-") // not quoted: it may be a token
	}
	g := &grant{scopes: map[Scope]queues{}}
	for _, scope := range scopes {
		if strings.ContainsFunc(scope, unicode.IsSpace) {
			return "", "", fmt.Errorf("scope %.60q: a blank in the name of a queue is written as %%20", scope)
		}
		if err := g.add(scope); err != nil { // quoted, unlike a line of a list, as it holds no token
			return "", "", fmt.Errorf("scope %.60q: %w", scope, err)
		}
	}
	token = ownPrefix + rand.Text()
	hash := sha256.Sum256([]byte(token))
	line = strings.Join(append([]string{name, hashPrefix + hex.EncodeToString(hash[:])}, scopes...), " ")
	if _, err := parseGrant(line); err != nil {
		return "", "", err
	}
	return token, line, nil
}
