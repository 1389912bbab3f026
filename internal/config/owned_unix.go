//go:build unix

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ownedAlone refuses a file that somebody besides root and this process's user
// may have written. A file that cannot be looked at is left to who opens it.
func ownedAlone(file string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("is a symbolic link")
	case !ok:
		return errors.New("its owner is not known")
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("belongs to user %d; it must belong to root or to the user who runs the hook", stat.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("has mode %04o: others than its owner may write it", info.Mode().Perm())
	default:
		return nil
	}
}

// giveTo gives a file the owner that another has.
func giveTo(f *os.File, like os.FileInfo) error {
	stat, ok := like.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(int(stat.Uid), int(stat.Gid))
}
