package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs"
)

// A large flow has the edges that Go writes, and one that is too large is refused for the same job.
func TestTheFunctionsLinkLargeFlows(t *testing.T) {
	t.Parallel()
	bySelf, byFunctions, pool := twins(t)
	var each, pairs []dibs.NewJob
	for i := range 1000 {
		each = append(each, dibs.NewJob{Kind: "k", Ref: "a", After: []dibs.Dep{{Ref: "a"}}})
		pairs = append(pairs, dibs.NewJob{Kind: "k", Ref: fmt.Sprint("r", i)})
	}
	for i := range pairs {
		pairs = append(pairs, dibs.NewJob{Kind: "k", After: []dibs.Dep{{Ref: fmt.Sprint("r", i)}, {Ref: "r0", On: dibs.NeedEnded}}})
	}
	each[0].After = nil // else no other stands before it
	var want, got *dibs.InvalidError
	_, err := bySelf.Enqueue(t.Context(), each)
	_, errByFunctions := byFunctions.Enqueue(t.Context(), each)
	if !errors.As(err, &want) || !errors.As(errByFunctions, &got) || *got != *want {
		t.Errorf("the functions say %v, Go says %v", errByFunctions, err)
	}
	if _, err := bySelf.Enqueue(t.Context(), pairs); err != nil {
		t.Fatal(err)
	}
	if _, err := byFunctions.Enqueue(t.Context(), pairs); err != nil {
		t.Fatal(err)
	}
	edges := func(schema string) (text string) {
		if err := pool.QueryRow(t.Context(), `
			select string_agg(format('%s %s %s', e.child - j.least, e.parent - j.least, e.need), ',' order by e.child, e.parent)
			from `+schema+`.edge e cross join (select min(id) as least from `+schema+`.job) j`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if edges("by_self") != edges("by_functions") {
		t.Error("the edges differ")
	}
	consistent(t, byFunctions.Store)
}
