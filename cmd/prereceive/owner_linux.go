//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// startedAs is who this process was at first.
var startedAs = os.Geteuid()

// owner is the account that a file belongs to.
type owner struct{ uid, gid int }

func ownerOf(info os.FileInfo) (owner, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, false
	}
	return owner{int(stat.Uid), int(stat.Gid)}, true
}

// groups are the account's own, and its primary one.
func (o owner) groups() (gid int, groups []int) {
	account, err := user.LookupId(strconv.Itoa(o.uid))
	if err != nil {
		return o.gid, []int{o.gid}
	}
	if gid, err = strconv.Atoi(account.Gid); err != nil {
		gid = o.gid
	}
	ids, err := account.GroupIds()
	if err != nil {
		return gid, []int{gid}
	}
	for _, id := range ids {
		if n, err := strconv.Atoi(id); err == nil {
			groups = append(groups, n)
		}
	}
	return gid, groups
}

// become gives root's rights up for another account's, for good: what root would
// write into its directories the hook could not read, and git must not run as root
// in a repository that is somebody else's.
func become(o owner) error {
	if os.Geteuid() != 0 || o.uid == 0 {
		return nil
	}
	gid, groups := o.groups()
	if err := errors.Join(syscall.Setgroups(groups), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(o.uid, o.uid, o.uid)); err != nil {
		return fmt.Errorf("become user %d: %w", o.uid, err)
	}
	return nil
}

// aside does one thing as another account, and is root again.
func aside(o owner, do func() error) error {
	if os.Geteuid() != 0 || o.uid == 0 {
		return do()
	}
	gid, groups := o.groups()
	if err := errors.Join(syscall.Setgroups(groups), syscall.Setresgid(-1, gid, -1), syscall.Setresuid(-1, o.uid, -1)); err != nil {
		return fmt.Errorf("become user %d: %w", o.uid, err)
	}
	err := do()
	return errors.Join(err, syscall.Setresuid(-1, 0, -1), syscall.Setresgid(-1, 0, -1), syscall.Setgroups(nil))
}

// room is what is left on the file system of a directory: bytes and inodes; no
// inodes are counted where most is 0.
func room(dir string) (bytes, inodes, most uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Ffree, st.Files, nil //nolint:gosec // a block size is no negative number
}

// home is where git looks for the configuration of the account that this process
// is. Who never became anybody else has it in the environment.
func home(env []string) string {
	if os.Geteuid() == startedAs {
		return variable(env, "HOME")
	}
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && u.HomeDir != "" {
		return u.HomeDir
	}
	return "/nonexistent"
}
