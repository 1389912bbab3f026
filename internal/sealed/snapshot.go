package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Access says who besides the owner may read a snapshot. The zero value: nobody.
type Access struct {
	// Group that may read, such as the judge's; 0 is none.
	Group int
}

func (a Access) modes() (dir, file fs.FileMode) {
	if a.Group > 0 {
		return 0o750, 0o640
	}
	return 0o700, 0o600
}

// holds says whether info has the permissions of a snapshot.
func (a Access) holds(info fs.FileInfo) bool {
	dir, file := a.modes()
	want := file
	if info.IsDir() {
		want = dir
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().Perm() == want && (a.Group <= 0 || int(st.Gid) == a.Group)
}

// Snapshot writes the tree, as it was read, to <root>/<digest> and returns that
// directory. The bytes that were hashed are the bytes written: nothing is read
// again from the tree. It is written aside, fsynced and renamed, so that it is
// there whole or not at all; one that is there with the same bytes is used as it
// is, one with others is replaced. Safe for several processes at once.
func (t *Tree) Snapshot(root string, a Access) (string, error) {
	dst := filepath.Join(root, t.Digest)
	if t.isAt(dst, a) {
		now := time.Now()
		if err := os.Chtimes(dst, now, now); err != nil { // PruneSnapshots reads it
			return "", fmt.Errorf("keep sealed tree: %w", err)
		}
		return dst, nil
	}
	if err := makeRoot(root, a); err != nil {
		return "", fmt.Errorf("keep sealed tree: %w", err)
	}
	aside, err := os.MkdirTemp(root, asidePrefix)
	if err != nil {
		return "", fmt.Errorf("keep sealed tree: %w", err)
	}
	defer os.RemoveAll(aside)
	if err := t.writeTo(aside, a); err != nil {
		return "", fmt.Errorf("keep sealed tree: %w", err)
	}
	if err := t.place(aside, dst, root, a); err != nil {
		return "", fmt.Errorf("keep sealed tree: %w", err)
	}
	return dst, nil
}

// makeRoot makes the directory of the snapshots where there is none; whoever may
// read a snapshot may pass through it.
func makeRoot(root string, a Access) error {
	if err := os.MkdirAll(filepath.Dir(root), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(root, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mode, _ := a.modes()
	return allow(root, mode, a.Group)
}

// Pruning says what PruneSnapshots removes.
type Pruning struct {
	// Before is the time since which nobody asked for a snapshot. Choose one that no
	// running replay can be older than.
	Before time.Time
	// Keep are digests that stay all the same; nil is none.
	Keep func(digest string) bool
	// Leftovers of writers go whatever their age: nobody is writing.
	Leftovers bool
}

func (p Pruning) takes(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil || !e.IsDir() {
		return false
	}
	old := info.ModTime().Before(p.Before)
	switch {
	case sha256Form.MatchString(e.Name()):
		return old && (p.Keep == nil || !p.Keep(e.Name()))
	case strings.HasPrefix(e.Name(), asidePrefix), strings.HasPrefix(e.Name(), badPrefix):
		return old || p.Leftovers
	default:
		return false
	}
}

// PruneSnapshots removes the snapshots in root that nobody needs, and what writers
// that died left aside.
func PruneSnapshots(root string, p Pruning) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("prune sealed snapshots: %w", err)
	}
	var faults []error
	for _, e := range entries {
		if !p.takes(e) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
			faults = append(faults, fmt.Errorf("prune sealed snapshots: %w", err))
		}
	}
	return errors.Join(faults...)
}

const (
	asidePrefix = ".new-"
	badPrefix   = ".bad-"
)

// place renames aside to dst. When somebody was faster with the same bytes, that
// is fine; what is at dst with other bytes goes away first.
func (t *Tree) place(aside, dst, root string, a Access) error {
	for range 3 {
		err := os.Rename(aside, dst)
		if err == nil {
			return syncDir(root)
		}
		if t.isAt(dst, a) {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		bad, err := os.MkdirTemp(root, badPrefix)
		if err != nil {
			return err
		}
		if err := os.Rename(dst, filepath.Join(bad, "tree")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		os.RemoveAll(bad)
	}
	return fmt.Errorf("%q keeps changing", dst)
}

// isAt says whether dir holds this tree's files with these bytes and no others,
// readable by whom a says.
func (t *Tree) isAt(dir string, a Access) bool {
	n := 0
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err != nil || !a.holds(info) {
			return errors.New("other permissions")
		}
		if e.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		f := t.b.get().files[filepath.ToSlash(rel)]
		if f == nil || !e.Type().IsRegular() {
			return errors.New("another file")
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if !bytes.Equal(data, f.data) {
			return errors.New("other bytes")
		}
		n++
		return nil
	})
	return err == nil && n == len(t.b.get().files)
}

func (t *Tree) writeTo(dir string, a Access) error {
	dirMode, fileMode := a.modes()
	made := []string{dir}
	names := make([]string, 0, len(t.b.get().files))
	for n := range t.b.get().files {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, name := range names {
		p := filepath.Join(dir, filepath.FromSlash(name))
		parents, err := makeParents(dir, filepath.Dir(p))
		if err != nil {
			return err
		}
		made = append(made, parents...)
		if err := writeFile(p, t.b.get().files[name].data, fileMode, a.Group); err != nil {
			return err
		}
	}
	slices.Reverse(made)
	for _, d := range made {
		if err := allow(d, dirMode, a.Group); err != nil {
			return err
		}
		if err := syncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// makeParents makes the directories from top down to dir and returns those it made.
func makeParents(top, dir string) ([]string, error) {
	if dir == top {
		return nil, nil
	}
	made, err := makeParents(top, filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	err = os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return made, nil
	}
	if err != nil {
		return nil, err
	}
	return append(made, dir), nil
}

func writeFile(p string, data []byte, mode fs.FileMode, group int) error {
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return allow(p, mode, group)
}

func allow(p string, mode fs.FileMode, group int) error {
	if group > 0 {
		if err := os.Chown(p, -1, group); err != nil {
			return err
		}
	}
	return os.Chmod(p, mode)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
