package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx   = kernel32.NewProc("LockFileEx")
	unlockFileEx = kernel32.NewProc("UnlockFileEx")
)

const (
	failImmediately = 1
	exclusive       = 2
	lockViolation   = syscall.Errno(33)
)

func tryLock(file *os.File) (held bool, err error) {
	err = lockFirstByte(file, exclusive|failImmediately)
	if errors.Is(err, lockViolation) {
		return false, nil
	}
	return err == nil, err
}

// lock waits for the lock, without polling.
func lock(file *os.File) error { return lockFirstByte(file, exclusive) }

func lockFirstByte(file *os.File, flags uintptr) error {
	var at syscall.Overlapped
	return called(lockFileEx.Call(file.Fd(), flags, 0, 1, 0, uintptr(unsafe.Pointer(&at))))
}

func unlock(file *os.File) error {
	var at syscall.Overlapped
	return called(unlockFileEx.Call(file.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(&at))))
}

func called(ok, _ uintptr, err error) error {
	if ok != 0 {
		return nil
	}
	return err
}

func ownAlike(*os.File, fs.FileInfo) error { return nil }
