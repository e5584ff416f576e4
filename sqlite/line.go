package sqlite

import (
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"
)

// line is where the processes that write to a file queue. Each locks a file beside the database; the system
// gives them that lock one after the other, in the order in which they asked, and wakes the next. So those
// behind sleep instead of trying the database's lock again and again.
//
// The line only saves time: SQLite's own lock keeps writers apart. If the file cannot be made or locked, there
// is no line. Programs that write without the line only make the first in line wait.
type line struct {
	mu     sync.Mutex
	file   *os.File // nil: there is no line
	asked  bool     // a goroutine waits for the file's lock
	wanted bool     // a transaction waits for that goroutine
	held   bool
	closed bool
	come   chan struct{} // closed once this process holds the lock that it asked for
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
		return // no line, for example in a directory that cannot be written
	}
	if _, err := tryLock(file); err != nil { // the file system has no such locks
		_ = file.Close()
		return
	}
	_ = unlock(file)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
}

// makeBeside opens the file with the database's name and this suffix, or makes it with the database's permissions.
// Users who may only read the database may not read this file: they never write, and could hold up the others by
// locking it.
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
	if err == nil && runtime.GOOS != "windows" { // on Windows, Chmod can only make files read-only
		_ = file.Chmod(mode) // the umask may have removed some permissions
		_ = ownAlike(file, database)
	}
	return file, err
}

// join takes the turn if nobody else has it. Otherwise it returns a channel that is closed once the turn comes. first
// is false if the process was in line already, since a transaction before had given up waiting.
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

// wait waits for the lock. If no transaction wants the turn by then, it gives the lock back.
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
		_ = unlock(l.file) // an error is ignored: the lock ends with the process
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
