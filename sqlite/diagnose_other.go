//go:build !linux

package sqlite

import (
	"context"

	"github.com/dibs-queue/dibs/admin"
)

func lockFacts(context.Context, string) ([]admin.Fact, error) { return nil, errNoLocks }

func lockers(string) (writer int, readers []int, err error) { return 0, nil, errNoLocks }

func processName(int) string { return "" }

func fileSystem(string) (network string, free int64) { return "", -1 }
