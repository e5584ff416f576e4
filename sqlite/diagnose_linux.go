package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// Bytes of the -shm that connections lock: see "WAL-Mode File Format" in SQLite's documentation.
const (
	writeLock     = 120
	firstReadLock = 124 // readers that need pages of the -wal
	lastReadLock  = 127
)

// lockFacts finds the processes that hold the file's write lock for a second, or that read it, from
// the system's list of locks: opening the file and closing it again would end this process' own
// locks on it.
func lockFacts(ctx context.Context, path string) (facts []admin.Fact, err error) {
	const looks, pause = 6, 200 * time.Millisecond
	writer, readers, err := lockers(path)
	if err != nil {
		return nil, err
	}
	for _, pid := range readers {
		facts = append(facts, admin.Fact{Name: "reader", About: processName(pid), ID: int64(pid)})
	}
	for range looks - 1 {
		if writer == 0 {
			return facts, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		next, _, err := lockers(path)
		if err != nil || next != writer {
			return facts, err
		}
	}
	if writer != 0 {
		facts = append(facts, admin.Fact{Name: "writer", About: processName(writer), ID: int64(writer), Age: (looks - 1) * pause})
	}
	return facts, nil
}

var errNoWAL = errors.New("the file has no -shm: only in WAL mode it tells who locks it")

// lockers returns the processes that lock the file; writer is 0 if none writes. The system returns its
// list in parts, and a lock that moves between two of them can be missing. So there is no writer only
// if two lists have none.
func lockers(path string) (writer int, readers []int, err error) {
	if writer, readers, err = listedLockers(path); writer == 0 && err == nil {
		writer, readers, err = listedLockers(path)
	}
	return writer, readers, err
}

func listedLockers(path string) (writer int, readers []int, err error) {
	var shm syscall.Stat_t
	if err := syscall.Stat(path+"-shm", &shm); errors.Is(err, os.ErrNotExist) {
		return 0, nil, errNoWAL
	} else if err != nil {
		return 0, nil, err
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, nil, errNoLocks
	}
	major, minor := shm.Dev>>8&0xfff|shm.Dev>>32&^0xfff, shm.Dev&0xff|shm.Dev>>12&^0xff
	file := fmt.Sprintf("%02x:%02x:%d", major, minor, shm.Ino)
	for lines := bufio.NewScanner(bytes.NewReader(locks)); lines.Scan(); {
		// a line looks like this: 10: POSIX  ADVISORY  READ 31592 fe:00:9977967 124 124
		var number, kind, sort, mode, on, last string
		var pid, first int
		n, _ := fmt.Sscan(lines.Text(), &number, &kind, &sort, &mode, &pid, &on, &first, &last)
		switch {
		case n < 8 || on != file:
		case first == writeLock && mode == "WRITE":
			writer = pid
		case first >= firstReadLock && first <= lastReadLock && mode == "READ":
			readers = append(readers, pid)
		}
	}
	return writer, readers, nil
}

// processName is the name of a process' program, empty if it is not known.
func processName(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}

// networkFiles are the network file systems, by the numbers that statfs(2) gives them.
var networkFiles = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x01021997: "9P", 0x5346414f: "AFS",
	0x00c36400: "Ceph", 0x47504653: "GPFS", 0x0bd00bd0: "Lustre", 0x7461636f: "OCFS2", 0x73757245: "Coda",
}

// fileSystem returns the kind of the network file system that a file is on, empty for others, and
// how many bytes are free there, -1 if that is not known.
func fileSystem(path string) (network string, free int64) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &fs); err != nil {
		return "", -1
	}
	return networkFiles[uint32(fs.Type)], int64(fs.Bavail) * int64(fs.Bsize) //nolint:unconvert // their types differ between systems
}
