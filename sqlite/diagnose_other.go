//go:build !linux

package sqlite

import (
	"context"

	"github.com/dibs-queue/dibs/diagnosis"
)

func lockFacts(context.Context, string) ([]diagnosis.Fact, error) { return nil, errNoLocks }

func fileSystem(string) (network string, free int64) { return "", -1 }
