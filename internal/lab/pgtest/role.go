package pgtest

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
)

// Role creates a role that may log in to the database at address, and runs statements, in
// which ROLE stands for the role's name. It returns the address with the role's password,
// and drops the role when the test ends.
func Role(t testing.TB, address string, statements ...string) string {
	t.Helper()
	name, password := "dibs_test_"+strings.ToLower(rand.Text()), rand.Text()
	must := func(statement string) {
		t.Helper()
		if err := exec(address, strings.ReplaceAll(statement, "ROLE", name)); err != nil {
			t.Errorf("pgtest: %s: %v", statement, err)
		}
	}
	must("create role ROLE login password '" + password + "'")
	t.Cleanup(func() {
		must("drop owned by ROLE")
		must("drop role ROLE")
	})
	for _, s := range statements {
		must(s)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}

// Grants give a role the rights that a worker needs; docs/operations.md names the same.
var Grants = []string{
	"grant usage on schema dibs to ROLE",
	"grant select, insert, update, delete on all tables in schema dibs to ROLE",
	"grant usage, select on all sequences in schema dibs to ROLE",
}
