package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of a directory on disk.
const (
	maxEntries  = 200_000
	maxDirDepth = 100
)

// DirTree is the tree of a directory on disk: a working tree, or a sealed tree.
// Nothing outside it is read, and no link is followed. No oracles: no entries.
// Files are read when Tree.Read is called, each by a way that has no link in it.
func DirTree(root string) (Tree, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return Tree{}, fmt.Errorf("read oracle files: %w", err)
	}
	defer r.Close()
	w := &dirWalk{root: r}
	if err := w.entry(Dir, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Tree{}, fmt.Errorf("read oracle files below %q: %w", root, err)
	}
	slices.SortFunc(w.entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return Tree{Entries: w.entries, Read: dirReader(root)}, nil
}

type dirWalk struct {
	root    *os.Root
	entries []Entry
}

// entry lists what is at a path, whose directories are no links.
func (w *dirWalk) entry(name string, depth int) error {
	info, err := w.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if len(w.entries) >= maxEntries {
			return fmt.Errorf("more than %d files", maxEntries)
		}
		w.entries = append(w.entries, Entry{Path: name, Mode: gitMode(info.Mode()), Size: info.Size()})
		return nil
	}
	if depth >= maxDirDepth {
		return fmt.Errorf("%q lies deeper than %d", clip(name, maxShown), maxDirDepth)
	}
	names, err := w.list(name, info)
	if err != nil {
		return err
	}
	for _, n := range names {
		err := w.entry(path.Join(name, n), depth+1)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // gone since it was listed
			return err
		}
	}
	return nil
}

func (w *dirWalk) list(name string, seen fs.FileInfo) ([]string, error) {
	d, err := w.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := same(d, seen); err != nil {
		return nil, err
	}
	return d.Readdirnames(-1)
}

func gitMode(m fs.FileMode) uint32 {
	switch {
	case m.IsRegular() && m.Perm()&0o111 != 0:
		return modeProgram
	case m.IsRegular():
		return modeFile
	case m&fs.ModeSymlink != 0:
		return modeLink
	default:
		return 0
	}
}

// dirReader reads files below root. Os.Root follows links that stay inside it, so
// every part of the way is looked at.
func dirReader(root string) func(context.Context, Entry, int64) ([]byte, error) {
	return func(_ context.Context, e Entry, limit int64) ([]byte, error) {
		r, err := os.OpenRoot(root)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		info, err := lstatPlain(r, e.Path)
		if err != nil {
			return nil, err
		}
		f, err := r.Open(filepath.FromSlash(e.Path))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := same(f, info); err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(f, limit+1))
		if err != nil {
			return nil, err
		}
		if int64(len(data)) > limit {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		return data, nil
	}
}

// lstatPlain is a regular file's own entry, when there is no link on the way.
func lstatPlain(r *os.Root, name string) (fs.FileInfo, error) {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		info, err := r.Lstat(filepath.FromSlash(name[:i]))
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%q is no directory", name[:i])
		}
	}
	info, err := r.Lstat(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return info, nil
}

// same says that what was opened is what was looked at.
func same(f *os.File, seen fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(now, seen) {
		return errors.New("replaced while it was read")
	}
	return nil
}
