package top

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// The live view draws to the terminal itself, so its pictures are checked in every state.
func TestTopShowsNothingHostile(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	db := busy()
	for i := range db.queues {
		db.queues[i].Queue += clitest.EvilName
	}
	for _, j := range db.jobs {
		j.Queue, j.Kind, j.Worker, j.Group, j.UniqueKey = db.queues[0].Queue, clitest.EvilName, clitest.EvilName, clitest.EvilName, clitest.EvilName
		j.Payload, j.Metadata, j.Result = json.RawMessage(`"`+clitest.EvilText+`"`), json.RawMessage(clitest.EvilName), json.RawMessage(clitest.EvilName)
		j.Errors = append(j.Errors, dibs.AttemptError{Worker: clitest.EvilName, Error: clitest.EvilName})
	}
	for _, color := range []bool{false, true} {
		m := screen(t, db, 120, 30)
		m.app.Color = color
		look := func(state string) {
			t.Helper()
			text := m.View().Content
			clitest.Harmless(t, state, text, color)
			if n := strings.Count(text, "\n") + 1; n != 30 {
				t.Errorf("%s has %d lines", state, n)
			}
			if !strings.Contains(text, `\u`) {
				t.Errorf("%s shows nothing hostile:\n%s", state, text)
			}
		}
		look("queues")
		press(m, "p")
		look("a question")
		press(m, "y")
		look("an answer")
		press(m, "enter")
		look("one queue")
		press(m, "tab", "tab")
		look("dead jobs")
		press(m, "enter")
		look("a job")
		for range 10 {
			press(m, "down")
			look("a job, scrolled")
		}
		send(m, doneMsg{err: errors.New(clitest.EvilName)})
		look("an error")
	}
}

func TestTheTitleHoldsNoPassword(t *testing.T) {
	t.Parallel()
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.DBFlag = "postgres://u@h/d?application_name=a&password=S3CRET&sslpassword=S3CRET"
	v := topView{app: a, title: a.URL().String(), width: 300, height: 20}
	if text := strings.Join(v.draw(), "\n"); strings.Contains(text, "S3CRET") {
		t.Errorf("it holds the password: %s", text)
	}
}
