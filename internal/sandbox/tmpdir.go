//go:build linux

package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// entriesKept is how many files and directories a command of tier 2 may have in
// its /tmp.
const entriesKept = 64 << 10

// gauge looks at how much of a file system is used, which costs nothing, and
// counts a directory only when that could have put it over its limits.
type gauge struct {
	bytes, entries         int64 // of the directory, when it was counted
	usedBytes, usedEntries int64 // of the whole file system, then
	ticks                  int
}

// countAnyway is after how many looks the directory is counted whatever the
// file system says: others may have made room meanwhile.
const countAnyway = 20

func (g *gauge) within(o orders) bool {
	var fs unix.Statfs_t
	if unix.Statfs(o.Tmp, &fs) != nil {
		return true
	}
	bytes, entries := int64(fs.Blocks-fs.Bfree)*fs.Bsize, int64(fs.Files-fs.Ffree)
	g.ticks++
	if g.bytes+bytes-g.usedBytes <= o.TmpBytes && g.entries+entries-g.usedEntries <= o.TmpEntries && g.ticks%countAnyway != 0 {
		return true
	}
	g.usedBytes, g.usedEntries = bytes, entries
	g.bytes, g.entries = sizeOf(o.Tmp, o.TmpEntries)
	return g.bytes <= o.TmpBytes && g.entries <= o.TmpEntries
}

// sizeOf counts what is below dir, up to one more than the limit of entries.
// What is in use while its name is gone is not seen.
func sizeOf(dir string, limit int64) (bytes, entries int64) {
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || unix.Lstat(path, &st) != nil {
			return nil // gone meanwhile, or closed by the command to itself
		}
		entries++
		if st.Nlink == 1 || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			bytes += st.Blocks * 512
		} else {
			bytes += st.Blocks * 512 / int64(st.Nlink)
		}
		if entries > limit {
			return filepath.SkipAll
		}
		return nil
	})
	return bytes, entries
}

// clearAway removes dir and all below it. Directories in it may be as deep as
// their maker liked: each is emptied by moving what it holds up to the top, so
// that neither a path nor the number of open files grows.
func clearAway(dir string) error {
	top, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.EACCES) {
		if err = os.Chmod(dir, 0o700); err == nil {
			top, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
	}
	if err != nil {
		return fmt.Errorf("clear %q: %w", dir, err)
	}
	defer func() { _ = unix.Close(top) }()
	if err := unix.Fchmod(top, 0o700); err != nil {
		return fmt.Errorf("clear %q: %w", dir, err)
	}
	for {
		names, err := namesIn(top)
		if err != nil {
			return fmt.Errorf("clear %q: %w", dir, err)
		}
		if len(names) == 0 {
			break
		}
		for _, name := range names {
			if err := removeOne(top, name); err != nil {
				return fmt.Errorf("clear %q: %w", dir, err)
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil {
		return fmt.Errorf("clear %q: %w", dir, err)
	}
	return nil
}

// removeOne removes a file, or empties a directory into top and removes it.
func removeOne(top int, name string) error {
	err := unix.Unlinkat(top, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("remove a file: %w", err)
	}
	if err := unix.Fchmodat(top, name, 0o700, 0); err != nil {
		return fmt.Errorf("open a directory: %w", err)
	}
	sub, err := unix.Openat(top, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a directory: %w", err)
	}
	defer func() { _ = unix.Close(sub) }()
	names, err := namesIn(sub)
	if err != nil {
		return err
	}
	for _, inner := range names {
		if err := unix.Unlinkat(sub, inner, 0); err == nil {
			continue
		}
		_ = unix.Fchmodat(sub, inner, 0o700, 0) // a directory is moved only by who may write in it
		if err := unix.Renameat(sub, inner, top, rand.Text()); err != nil {
			return fmt.Errorf("move a directory up: %w", err)
		}
	}
	if err := unix.Unlinkat(top, name, unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("remove a directory: %w", err)
	}
	return nil
}

// namesIn lists an open directory from its beginning.
func namesIn(fd int) ([]string, error) {
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("list a directory: %w", err)
	}
	d := os.NewFile(uintptr(again), "directory")
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list a directory: %w", err)
	}
	return names, nil
}
