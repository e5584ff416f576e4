//go:build unix

package pgserver

import (
	"errors"
	"os"
	osexec "os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the system user that runs a server. A nil account is the user of this program.
type account struct{ uid, gid uint32 }

// unprivileged chooses an account other than root, since PostgreSQL refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		return &account{uint32(uid), uint32(gid)}, errors.Join(err1, err2)
	}
	return nil, errors.New("root cannot run PostgreSQL, and there is no user postgres or nobody to run it as")
}

func (a *account) chown(paths ...string) error {
	if a == nil {
		return nil
	}
	for _, p := range paths {
		if err := os.Chown(p, int(a.uid), int(a.gid)); err != nil {
			return err
		}
	}
	return nil
}

// detach makes cmd run under the account a, in its own session, so that a Ctrl-C for this
// program does not reach it.
func detach(cmd *osexec.Cmd, a *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}
