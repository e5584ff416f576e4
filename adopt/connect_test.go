package adopt_test

import (
	"database/sql"
	"errors"
	"regexp"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// A driver lists each address that it has tried, also twice, one a line: an error of an adopted table says it once.
func TestErrorsOfConnectionsAreOneSentence(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://app:secret@127.0.0.1:1,127.0.0.1:2/x": `no connection to 127\.0\.0\.1:1 and 1 more: [^\n:]*connect: [^\n:]+`,
		"postgres://app:secret@no-such-host.invalid/x":    `no connection to the server: lookup no-such-host\.invalid[^\n]*`,
	} {
		expectSentence(t, address, "database unavailable: "+want)
	}
}

// What a server that refuses connections says is in one sentence, too.
func TestErrorsOfRefusedConnectionsAreOneSentence(t *testing.T) {
	t.Parallel()
	expectSentence(t, regexp.MustCompile(`/[^/?]*\?`).ReplaceAllString(pgtest.URL(t), "/nosuchdatabase?sslmode=prefer&"), `no connection to the server: FATAL: database "nosuchdatabase" does not exist \(SQLSTATE 3D000\)`)
}

func expectSentence(t *testing.T, address, want string) {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = adopt.Open(t.Context(), db, mapping.Mapping{Table: "t", ID: []string{"id"}})
	if text := err.Error(); !regexp.MustCompile("^dibs: adopt: " + want + "$").MatchString(text) {
		t.Errorf("%s: the error is %q", address, text)
	}
	if unavailable := regexp.MustCompile("^database unavailable").MatchString(want); errors.Is(err, dibs.ErrUnavailable) != unavailable {
		t.Errorf("%s: the error passes: %v", address, !unavailable)
	}
}
