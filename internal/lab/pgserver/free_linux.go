package pgserver

import "syscall"

// free returns the free space of dir in bytes.
func free(dir string) uint64 {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}
