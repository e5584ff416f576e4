package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// On MariaDB, --until-empty does what stands in the inbox too, though no list shows it yet.
func TestWorkUntilEmptyTakesTheInbox(t *testing.T) {
	t.Parallel()
	address := mytest.URL(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mysql.Open(t.Context(), u.User.String()+"@tcp("+u.Host+")"+u.Path, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.DB().ExecContext(t.Context(), "insert into dibs_inbox (queue, payload) values ('q', '1'), ('q', '2'), ('q', '1.')"); err != nil {
		t.Fatal(err)
	}
	c := &cli{&clitest.CLI{T: t, DB: address}}
	if r := c.Run("", "work", "q", "--until-empty", "--", "true"); r.Code != 0 {
		t.Errorf("the worker ends with %+v", r)
	}
	if got := c.OK("ls", "q", "--state", "completed", "--json"); strings.Count(got, `"state":"completed"`) != 2 {
		t.Errorf("completed are %s", got)
	}
	if got := c.OK("failures", "q"); !strings.Contains(got, "refused: payload: is not valid JSON") {
		t.Errorf("the failures are %s", got)
	}
}
