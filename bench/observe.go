package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/dibs-queue/dibs/internal/workload"
)

// observed is at, with what the flags ask for noted while something is measured.
func (b *bench) observed(at *workload.Bench, waits *workload.Waits) *workload.Bench {
	own := *at
	own.Observe = func(ctx context.Context) (func() error, error) {
		end := func() error { return nil }
		if b.waits && waits != nil {
			var err error
			if end, err = waits.Watch(ctx, own.Server, databases+"%"); err != nil {
				return nil, err
			}
		}
		if b.profile == "" {
			return end, nil
		}
		stop, err := b.startProfile()
		if err != nil {
			return nil, errors.Join(err, end())
		}
		return func() error { return errors.Join(stop(), end()) }, nil
	}
	return &own
}

func (b *bench) startProfile() (stop func() error, err error) {
	b.profiles++
	file, err := os.Create(fmt.Sprintf("%s.%d", b.profile, b.profiles))
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
