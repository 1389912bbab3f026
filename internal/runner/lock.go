package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// DataLock says that its holder alone runs a daemon on a data directory.
type DataLock struct {
	data string
	lock *FileLock
}

// Lock takes a data directory, which it makes where there is none. A second daemon
// on the same one is refused.
func Lock(data string) (*DataLock, error) {
	for _, dir := range []string{data, filepath.Join(data, "run")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("lock data directory: %w", err)
		}
	}
	lock, err := LockFile(filepath.Join(data, "run", "lock"))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("lock data directory %q: another hookd works on it", data)
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory %q: %w", data, err)
	}
	return &DataLock{data, lock}, nil
}

// Close gives the directory back. It may be called on nil.
func (l *DataLock) Close() error {
	if l == nil {
		return nil
	}
	return l.lock.Close()
}

// ErrLocked says that another process has locked the file.
var ErrLocked = errors.New("another process has locked it")

// FileLock is a file that one process at a time has locked, until it ends.
type FileLock struct{ file *os.File }

// LockFile locks a file, which it makes where it is not there. It does not wait.
func LockFile(path string) (*FileLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &FileLock{file}, nil
}

// Close unlocks before it closes: a child that was forked a moment ago and has not
// yet become its program holds the file open, too.
func (l *FileLock) Close() error {
	return errors.Join(flock(l.file, syscall.LOCK_UN), l.file.Close())
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
