package sqlite

import (
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"
)

// line is where the processes that write to a file queue. The system has one of them after the other lock a
// file beside the database, in the order in which they asked, so that those behind it sleep until they are woken
// instead of trying the database's lock again and again.
//
// It is good manners and nothing more: SQLite's own lock keeps writers apart. Where the file cannot be made or
// locked there is no line, and programs that write without it only make the first in line wait.
type line struct {
	mu     sync.Mutex
	file   *os.File // nil: there is no line
	asked  bool     // a goroutine waits for the lock
	wanted bool     // a transaction waits for that goroutine
	held   bool
	closed bool
	come   chan struct{} // closed when the lock that was asked for is held
}

// linePatience is how long a process waits in line before it also tries by itself: the first in line may have been
// stopped before it has begun to write.
const linePatience = time.Second

// lineSuffix is the end of the name of the file that is locked.
const lineSuffix = "-turn"

// open makes or opens the file beside the database at path.
func (l *line) open(path string) {
	file, err := makeBeside(path, lineSuffix)
	if err != nil {
		return // as in a directory that cannot be written
	}
	if _, err := tryLock(file); err != nil { // this file system has no such locks
		_ = file.Close()
		return
	}
	_ = unlock(file)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
}

// makeBeside opens the file of the database's name and this suffix, or makes it with the database's permissions. Users who
// may only read the database may not read this file: they need no turn, and could hold up the others by locking it.
func makeBeside(path, suffix string) (*os.File, error) {
	database, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	found, err := os.Lstat(path + suffix)
	switch {
	case err == nil && found.Mode().IsRegular():
		return os.Open(path + suffix)
	case err == nil:
		return nil, fs.ErrExist // opening a named pipe would wait for its other end
	}
	mode := database.Mode().Perm()
	for _, write := range []fs.FileMode{0o020, 0o002} {
		if mode&write == 0 {
			mode &^= write << 1
		}
	}
	file, err := os.OpenFile(path+suffix, os.O_RDONLY|os.O_CREATE, mode)
	if err == nil && runtime.GOOS != "windows" { // where Chmod only makes files read-only
		_ = file.Chmod(mode) // the umask may have taken some away
		_ = ownAlike(file, database)
	}
	return file, err
}

// join takes the turn if nobody else has it. Otherwise it returns a channel that is closed once the turn has come, and
// whether the process is waiting there for the first time: it may have given up waiting before, and still be in line.
func (l *line) join() (come <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.held {
		return nil, false
	}
	l.wanted = true
	if l.asked {
		return l.come, false
	}
	if l.held, _ = tryLock(l.file); l.held {
		return nil, false
	}
	l.asked, l.come = true, make(chan struct{})
	go l.wait()
	return l.come, true
}

// wait waits for the lock. If no transaction wants it by then, it gives it back.
func (l *line) wait() {
	err := lock(l.file)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = false
	switch {
	case err != nil || l.closed:
		_ = l.file.Close()
		l.file = nil
	case l.wanted:
		l.held = true
	default:
		_ = unlock(l.file)
	}
	close(l.come)
}

// leave passes the turn on, or gives up waiting for it.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = false
	if l.held {
		l.held = false
		_ = unlock(l.file) // an error ends with the process
	}
}

// close leaves the line. A goroutine that still waits for the lock closes the file when it gets it.
func (l *line) close() {
	l.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.file != nil && !l.asked {
		_ = l.file.Close()
		l.file = nil
	}
}

// exists reports whether this process can queue.
func (l *line) exists() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil
}
