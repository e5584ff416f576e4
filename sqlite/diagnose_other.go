//go:build !linux

package sqlite

import (
	"context"

	"github.com/dibs-queue/dibs/diagnosis"
)

func (s *Store) lockFacts(context.Context) ([]diagnosis.Fact, error) { return nil, errNoLocks }

func fileSystem(string) (network string, free int64) { return "", -1 }
