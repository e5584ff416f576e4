package checks

import (
	"context"

	"github.com/dibs-queue/dibs"
)

// Context refuses a context that is nil, with which the packages of databases panic,
// some of them while they hold locks.
func Context(ctx context.Context) error {
	if ctx == nil {
		return &dibs.InvalidError{Field: "ctx", Reason: "is nil; give context.Background() if there is no other"}
	}
	return nil
}
