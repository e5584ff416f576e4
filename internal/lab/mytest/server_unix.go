//go:build unix

package mytest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged has a command run as a user other than root, as the server refuses root.
// The session of the command is its own: a Ctrl-C for this process does not reach it.
func (s *server) unprivileged(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"mysql", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return errors.Join(err1, err2, os.Chown(s.root, int(uid), int(gid)))
	}
	return errors.New("root cannot run MariaDB, and there is no user mysql or nobody to run it as")
}

// detach gives a command a session of its own: a Ctrl-C for this process does not reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// onDisk is a directory that is not in memory.
const onDisk = "/var/tmp"

// inMemory returns a directory in memory for a server's files, or "" if it has too little space.
func inMemory() string {
	const memory, needed = "/dev/shm", 2 << 30
	var fs syscall.Statfs_t
	if syscall.Statfs(memory, &fs) != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < needed {
		return ""
	}
	return memory
}
