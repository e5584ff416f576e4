//go:build !linux

package pgserver

func free(string) uint64 { return 0 }
