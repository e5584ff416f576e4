package checks

import (
	"cmp"
	"crypto/rand"
	"slices"

	"github.com/dibs-queue/dibs"
)

// NewToken makes the token of a claim.
func NewToken() (t dibs.Token) {
	rand.Read(t[:]) // never fails: see crypto/rand
	return t
}

// SortClaimed sorts the jobs of a claim in their queue's order: statements return them in none.
func SortClaimed(jobs []*dibs.RawJob, order dibs.Order) {
	slices.SortFunc(jobs, func(a, b *dibs.RawJob) int {
		if c := cmp.Compare(a.Priority, b.Priority); c != 0 {
			return c
		}
		c := cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
		if order == dibs.LIFO {
			return -c
		}
		return c
	})
}
