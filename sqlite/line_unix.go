//go:build !windows

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// These are the locks of flock. They belong to the open file, end with the process that has it open, and differ from
// the locks that SQLite takes on its files.

func tryLock(file *os.File) (held bool, err error) {
	err = flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// lock waits for the lock, without polling.
func lock(file *os.File) error { return flock(file, syscall.LOCK_EX) }

func unlock(file *os.File) error { return flock(file, syscall.LOCK_UN) }

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// ownAlike gives a file that root has made to the database's owner, as SQLite does with its own.
func ownAlike(file *os.File, database fs.FileInfo) error {
	if owner, ok := database.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		return file.Chown(int(owner.Uid), int(owner.Gid))
	}
	return nil
}
