//go:build unix

package approval

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// readOwned reads a file that only root and this process's user can have
// written. The checks are made on the opened file.
func readOwned(file string) (string, error) {
	if file == "" {
		return "", errors.New("no file is named")
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		if errors.Is(err, syscall.ELOOP) {
			return "", errors.New("it is a symbolic link")
		}
		return "", fmt.Errorf("cannot be opened: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot be looked at: %w", err)
	}
	if err := ownedAlone(info); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSignersFile+1))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	if len(data) > maxSignersFile {
		return "", fmt.Errorf("longer than %d bytes", maxSignersFile)
	}
	return string(data), nil
}

func ownedAlone(info os.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	case !ok:
		return errors.New("its owner is not known")
	case stat.Uid != 0 && int64(stat.Uid) != int64(os.Geteuid()):
		return fmt.Errorf("it belongs to user %d; it must belong to root", stat.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("its mode is %04o: others than its owner may write it", info.Mode().Perm())
	default:
		return nil
	}
}
