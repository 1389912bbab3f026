//go:build unix

package state

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockFile takes an exclusive flock, which ends with the process. The file
// stays: a removed one would give two holders.
func lockFile(file string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(patience)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, errors.New("another push holds it")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// noFollow keeps a link from taking a record's place.
const noFollow = syscall.O_NOFOLLOW

// unsyncable: some file systems cannot sync a directory.
func unsyncable(err error) bool { return errors.Is(err, syscall.EINVAL) }
