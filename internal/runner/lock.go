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
	file *os.File
}

// Lock takes a data directory, which it makes where there is none. A second daemon
// on the same one is refused.
func Lock(data string) (*DataLock, error) {
	for _, dir := range []string{data, filepath.Join(data, "run")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("lock data directory: %w", err)
		}
	}
	file, err := os.OpenFile(filepath.Join(data, "run", "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock data directory %q: another hookd works on it", data)
		}
		return nil, fmt.Errorf("lock data directory %q: %w", data, err)
	}
	return &DataLock{data, file}, nil
}

// Close gives the directory back. It may be called on nil. It unlocks before it
// closes: a child that was forked a moment ago and has not yet become its program
// holds the file open, too.
func (l *DataLock) Close() error {
	if l == nil {
		return nil
	}
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
