//go:build unix

package config

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// lockBeside takes an exclusive lock on a file beside, which ends with the process. The
// file stays: a removed one would give two holders. Only its owner may open it, so that
// nobody who may merely read the configuration can keep admins waiting.
func lockBeside(file string, like os.FileInfo, patience time.Duration) (*os.File, error) {
	f, err := lockFile(file+".lock", like)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(deadline) {
			f.Close()
			return nil, errors.Join(errors.New("somebody else is writing it; try again"), err)
		}
	}
}

// lockFile opens the file, or makes it for the owner of another. What is there is given
// to nobody: it may be a link to something else.
func lockFile(name string, like os.FileInfo) (*os.File, error) {
	const how = os.O_RDWR | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(name, how|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(name, how, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := giveTo(f, like); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
