package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// What people have changed is kept for others to see.
var changeCases = []oneCase{
	{"noted changes are listed, newest first", notedChanges},
	{"many note changes at once", notedAtOnce},
}

func notedChanges(t *test) {
	for i := range 5 {
		t.must(t.db.NoteChange(t.ctx, admin.Change{Who: fmt.Sprint("w", i), Did: "pause", What: "queue <q>\x00\xff", N: i}))
	}
	list, err := t.Another(t).Changes(t.ctx, 3)
	t.must(err)
	if len(list) != 3 || list[0].Who != "w4" || list[2].Who != "w2" || list[0].N != 4 || list[0].Did != "pause" || list[0].What != "queue <q>\ufffd\ufffd" {
		t.Errorf("got %+v", list)
	}
	if list[2].At.Year() < 2000 || list[2].At.After(list[0].At) {
		t.Errorf("changes are noted as of %v and %v", list[2].At, list[0].At)
	}
	t.must(t.db.NoteChange(t.ctx, admin.Change{Who: strings.Repeat("ä", 5000), Did: "x"}))
	list, err = t.db.Changes(t.ctx, 1)
	t.must(err)
	if n := len(list[0].Who); n < 500 || n > 1<<10 {
		t.Errorf("a long text was kept with %d bytes", n)
	}
	var rule *dibs.InvalidError
	if err := t.db.NoteChange(t.ctx, admin.Change{}); !errors.As(err, &rule) || rule.Field != "did" {
		t.Errorf("a change of nothing: %v", err)
	}
	for _, n := range []int{0, -1, admin.MaxChanges + 1} {
		if _, err := t.db.Changes(t.ctx, n); !errors.As(err, &rule) || rule.Field != "n" {
			t.Errorf("%d changes: %v", n, err)
		}
	}
}

func notedAtOnce(t *test) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				if err := t.db.NoteChange(t.ctx, admin.Change{Who: fmt.Sprint(i), Did: "x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	list, err := t.db.Changes(t.ctx, 1000)
	t.must(err)
	if len(list) != 160 {
		t.Errorf("of 160 changes, %d are listed", len(list))
	}
}
