package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// observed returns a copy that samples and profiles each measured part, as the flags ask.
func (b *bench) observed(bench *workload.Bench, waits *workload.Waits) *workload.Bench {
	copied := *bench
	copied.Observe = func(ctx context.Context) (func() error, error) {
		end := func() error { return nil }
		if b.waits && waits != nil {
			var err error
			if end, err = waits.Watch(ctx, copied.Server, databasePrefix+"%"); err != nil {
				return nil, err
			}
		}
		if b.profilePath == "" {
			return end, nil
		}
		stop, err := b.startProfile()
		if err != nil {
			return nil, errors.Join(err, end())
		}
		return func() error { return errors.Join(stop(), end()) }, nil
	}
	return &copied
}

func (b *bench) startProfile() (stop func() error, err error) {
	b.profilesWritten++
	file, err := os.Create(fmt.Sprintf("%s.%d", b.profilePath, b.profilesWritten))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
