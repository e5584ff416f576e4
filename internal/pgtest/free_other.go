//go:build !linux

package pgtest

func free(string) uint64 { return 0 }
