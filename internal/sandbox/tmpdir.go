//go:build linux

package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// entriesKept is how many files and directories a command of tier 2 may have in
// its /tmp.
const entriesKept = 64 << 10

// gauge looks at how much of a file system is used, which costs nothing, and
// counts a directory only when that could have put it over its limits.
type gauge struct {
	size
	usedBytes, usedEntries   int64 // of the whole file system, when the directory was counted
	firstBytes, firstEntries int64 // of the whole file system, before the command
	ticks                    int
}

// countAnyway is after how many looks the directory is counted whatever the
// file system says: others may have made room meanwhile.
const countAnyway = 20

// The least that is free of the file system with the directories of commands while
// one runs: it is hookd's own too.
const (
	leastFree        = 16 << 20
	leastFreeEntries = 1024
)

var errNoRoom = errors.New("the disk with the temporary files of commands is full")

// look returns errTooMuch when the command has taken more than it may, and errNoRoom
// when there is no room left, whoever took it.
func (g *gauge) look(o orders) error {
	if !o.hasRoom() {
		return errNoRoom
	}
	if !g.within(o) {
		return errTooMuch
	}
	return nil
}

var errTooMuch = errors.New("the command has too much in its /tmp")

func (o orders) hasRoom() bool {
	var fs unix.Statfs_t
	if unix.Statfs(o.Tmp, &fs) != nil {
		return true
	}
	// A file system that does not count entries says 0 of 0.
	return int64(fs.Bavail)*fs.Bsize >= o.TmpFree && (fs.Files == 0 || fs.Ffree >= leastFreeEntries)
}

func (g *gauge) within(o orders) bool {
	bytes, entries, ok := usedOf(o.Tmp)
	if !ok {
		return true
	}
	if g.ticks == 0 {
		g.firstBytes, g.firstEntries = bytes, entries
		g.usedBytes, g.usedEntries = bytes, entries
	}
	g.ticks++
	if g.bytes+bytes-g.usedBytes <= o.TmpBytes && g.entries+entries-g.usedEntries <= o.TmpEntries && g.ticks%countAnyway != 0 {
		return true
	}
	g.usedBytes, g.usedEntries = bytes, entries
	g.size = sizeOf(o.Tmp, o.TmpEntries)
	if g.hidden {
		// What cannot be looked at is all that has come since.
		g.bytes, g.entries = max(g.bytes, bytes-g.firstBytes), max(g.entries, entries-g.firstEntries)
	}
	return g.bytes <= o.TmpBytes && g.entries <= o.TmpEntries
}

// usedOf is what is used of the file system of a directory.
func usedOf(dir string) (bytes, entries int64, ok bool) {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return 0, 0, false
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, int64(fs.Files - fs.Ffree), true
}

// size is what lies below a directory.
type size struct {
	bytes, entries int64
	hidden         bool // not all of it could be looked at
}

const (
	// deepest is how many directories are held open at once, one in the other.
	deepest = 400
	// namesAtOnce are read of a directory at once: what a command makes does not
	// become memory of its warden.
	namesAtOnce = 64
)

// sizeOf counts what is below dir, up to one more than the limit of entries.
// What is in use while its name is gone is not seen.
func sizeOf(dir string, limit int64) size {
	s := size{entries: 1}
	top, err := openToList(unix.AT_FDCWD, dir)
	if err != nil {
		return size{entries: 1, hidden: true}
	}
	s.add(top, limit, 1)
	return s
}

// add counts what is in an open directory, which it leaves.
func (s *size) add(d listed, limit int64, depth int) {
	defer d.leave()
	for s.entries <= limit {
		names, err := d.Readdirnames(namesAtOnce)
		for _, name := range names {
			s.addOne(int(d.Fd()), name, limit, depth)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			s.hidden = true
		}
		return
	}
}

func (s *size) addOne(dir int, name string, limit int64, depth int) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		s.hidden = s.hidden || !errors.Is(err, unix.ENOENT) // gone meanwhile
		return
	}
	s.entries++
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		s.bytes += st.Blocks * 512 / max(1, int64(st.Nlink))
		return
	}
	s.bytes += st.Blocks * 512
	if depth >= deepest {
		s.hidden = true
		return
	}
	sub, err := openToList(dir, name)
	if err != nil {
		s.hidden = s.hidden || !errors.Is(err, unix.ENOENT)
		return
	}
	s.add(sub, limit, depth+1)
}

// listed is a directory that is open to be looked into.
type listed struct {
	*os.File
	mode, was uint32
}

// openToList opens a directory to list and look into it. One that its owner, who is
// the warden too, has closed is opened until it is left.
func openToList(dir int, name string) (listed, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return listed{}, err
	}
	l := listed{was: st.Mode & 0o7777, mode: st.Mode&0o7777 | 0o500}
	if l.mode != l.was && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := unix.Fchmodat(dir, name, l.mode, 0); err != nil {
			return listed{}, err
		}
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return listed{}, err
	}
	l.File = os.NewFile(uintptr(fd), "directory")
	return l, nil
}

// leave closes a directory, as its owner had it unless he has changed it meanwhile.
func (l listed) leave() {
	var st unix.Stat_t
	if fd := int(l.Fd()); l.mode != l.was && unix.Fstat(fd, &st) == nil && st.Mode&0o7777 == l.mode {
		_ = unix.Fchmod(fd, l.was)
	}
	_ = l.Close()
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
