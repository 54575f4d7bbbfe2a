package localservers

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// An account is the unprivileged user that Postgres runs as when this process
// is root; nil means this process's own user.
type account struct {
	name     string
	uid, gid uint32
}

// accountFor picks the user for a data folder: its owner if it exists, else
// "postgres", else "nobody". It is nil unless this process is root.
func accountFor(data string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(data); err == nil {
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 {
			return newAccount(user.LookupId(strconv.Itoa(int(uid))))
		}
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.Lookup("nobody")
	}
	return newAccount(found, err)
}

func newAccount(u *user.User, err error) (*account, error) {
	if err != nil {
		return nil, fmt.Errorf("Postgres refuses to run as root and no other user was found: %w; "+
			"create one (useradd --system postgres) or start as an ordinary user", err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		return nil, fmt.Errorf("user %s has no numeric ids (%s, %s)", u.Username, u.Uid, u.Gid)
	}
	return &account{name: u.Username, uid: uint32(uid), gid: uint32(gid)}, nil
}

func (a *account) attr() *syscall.SysProcAttr {
	if a == nil {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
}

// own gives a folder to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// checkReach refuses a folder that the account cannot get to, and names the
// closed one among its parents.
func (a *account) checkReach(dir string) error {
	if a == nil {
		return nil
	}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if !a.mayEnter(info) {
			return fmt.Errorf("Postgres runs as user %s, who cannot enter %s (mode %v): choose a folder outside of it, "+
				"such as one below /var/lib, or open it (chmod o+x %s)", a.name, at, info.Mode().Perm(), at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func (a *account) mayEnter(info fs.FileInfo) bool {
	stat, mode := info.Sys().(*syscall.Stat_t), info.Mode()
	switch {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}
