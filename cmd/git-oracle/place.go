package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/oracle"
)

// place is the directory that oracles/ stands in: the top of the working tree,
// or the one that --root names.
type place struct {
	dir   string
	root  *os.Root
	clone *clone // nil: the directory was named, and need not be in one
}

// openPlace needs no git where a directory is named: hidden invariants stand in
// a sealed tree, which is no repository.
func (a *app) openPlace(ctx context.Context, named string) (*place, error) {
	dir := named
	var c *clone
	if dir == "" {
		var err error
		if c, err = openClone(ctx, os.Environ(), a.stdin, a.stderr); err != nil {
			return nil, err
		}
		if dir, err = c.top(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, undecided("find the directory", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, refused(fmt.Sprintf("open the directory %s: %v", quoted(dir), err))
	}
	return &place{dir: dir, root: root, clone: c}, nil
}

// top is the top of the working tree.
func (c *clone) top(ctx context.Context) (string, error) {
	dir, err := c.line(ctx, "rev-parse", "--show-toplevel")
	if err != nil || dir == "" {
		return "", refused("there is no working tree here", "run it in a clone with its files checked out, or name the directory that oracles/ is in: --root DIR")
	}
	return filepath.FromSlash(dir), nil
}

func (p *place) close() { p.root.Close() }

// storedAsIs refuses files of which git keeps other bytes than those on disk: the
// digest that the hook asks for is that of the former.
func (p *place) storedAsIs(ctx context.Context, names []string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "\n") }) // the reader refuses it
	if p.clone == nil || len(names) == 0 {
		return nil
	}
	list := []byte(strings.Join(names, "\n") + "\n")
	kept, err := p.clone.feed(ctx, list, "-C", p.dir, "hash-object", "--stdin-paths")
	var here []byte
	if err == nil {
		here, err = p.clone.feed(ctx, list, "-C", p.dir, "hash-object", "--no-filters", "--stdin-paths")
	}
	if err != nil {
		return undecided("compare the blobs with what git would store", err)
	}
	a, b := strings.Fields(string(kept)), strings.Fields(string(here))
	for i, name := range names {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return refused(fmt.Sprintf("git stores other bytes of %s than are on disk, so that no digest fits both; nothing was written", quoted(name)),
				".gitattributes or core.autocrlf converts line ends or the like; have git leave the blobs as they are:",
				"  echo 'oracles/** -text -filter -ident -working-tree-encoding' >>.gitattributes",
				"then:  git add --renormalize .gitattributes oracles")
		}
	}
	return nil
}

// inside is the path below the place of a file that the user named: as seen from
// where the command runs, or else from the place itself.
func (p *place) inside(name string) string {
	fromPlace := path.Clean(filepath.ToSlash(name))
	fromHere, ok := p.relative(name)
	if !ok || filepath.IsAbs(name) {
		return fromHere
	}
	for _, one := range []string{fromHere, fromPlace} {
		if _, err := p.root.Lstat(filepath.FromSlash(one)); err == nil {
			return one
		}
	}
	if strings.HasPrefix(fromHere, oracle.Dir+"/") {
		return fromHere
	}
	return fromPlace
}

// relative is a path as seen from the place, through links in the directories
// above it.
func (p *place) relative(name string) (string, bool) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name, false
	}
	rel, err := filepath.Rel(unlinked(p.dir), filepath.Join(unlinked(filepath.Dir(abs)), filepath.Base(abs)))
	if err != nil {
		return name, false
	}
	return filepath.ToSlash(rel), true
}

func unlinked(dir string) string {
	if at, err := filepath.EvalSymlinks(dir); err == nil {
		return at
	}
	return dir
}

// draft is the place's oracle files with some of them as they are to become.
type draft struct {
	base  oracle.Tree
	files map[string][]byte
	names []string // in the order they are written
}

func (p *place) draft() (*draft, error) {
	tree, err := oracle.DirTree(p.dir)
	if err != nil {
		return nil, undecided("list the oracle files", err)
	}
	return &draft{base: tree, files: map[string][]byte{}}, nil
}

func (d *draft) put(name string, data []byte) {
	if _, known := d.files[name]; !known {
		d.names = append(d.names, name)
	}
	d.files[name] = data
}

// entry is a file as it is in the place; false where it is none there.
func (d *draft) entry(name string) (oracle.Entry, bool) {
	i := slices.IndexFunc(d.base.Entries, func(e oracle.Entry) bool { return e.Path == name })
	if i < 0 {
		return oracle.Entry{}, false
	}
	return d.base.Entries[i], true
}

// read is the content of an ordinary file of the place.
func (d *draft) read(ctx context.Context, name string, most int64) ([]byte, error) {
	e, ok := d.entry(name)
	if !ok {
		return nil, fmt.Errorf("read %s: %w", quoted(name), fs.ErrNotExist)
	}
	if e.Mode != 0o100644 && e.Mode != 0o100755 {
		return nil, fmt.Errorf("read %s: it is no ordinary file", quoted(name))
	}
	return d.base.Read(ctx, e, most)
}

// tree is the draft as the reader of oracle files sees it.
func (d *draft) tree() oracle.Tree {
	entries := slices.DeleteFunc(slices.Clone(d.base.Entries), func(e oracle.Entry) bool { return d.files[e.Path] != nil })
	for name, data := range d.files {
		entries = append(entries, oracle.Entry{Path: name, Mode: 0o100644, Size: int64(len(data))})
	}
	slices.SortFunc(entries, func(a, b oracle.Entry) int { return strings.Compare(a.Path, b.Path) })
	return oracle.Tree{Entries: entries, Read: func(ctx context.Context, e oracle.Entry, most int64) ([]byte, error) {
		data, ours := d.files[e.Path]
		switch {
		case !ours:
			return d.base.Read(ctx, e, most)
		case int64(len(data)) > most:
			return nil, fmt.Errorf("%s has %d bytes, and %d are read", quoted(e.Path), len(data), most)
		}
		return data, nil
	}}
}

func (d *draft) load(ctx context.Context) (oracle.Set, error) {
	set, err := oracle.Load(ctx, d.tree())
	if err != nil {
		return oracle.Set{}, undecided("read the oracle files", err)
	}
	return set, nil
}

// errInTheWay is something that is written neither over nor through.
var errInTheWay = errors.New("links are not followed")

// write puts the draft's files into the place: all of them are written aside
// before the first one takes its name.
func (p *place) write(d *draft) error {
	var staged []stagedFile
	defer func() {
		for _, s := range staged {
			s.close()
		}
	}()
	for _, name := range d.names {
		s, err := p.stage(name, d.files[name])
		if errors.Is(err, errInTheWay) {
			return refused(fmt.Sprintf("write %s: %v; nothing was written", quoted(name), err))
		}
		if err != nil {
			return undecided("write "+quoted(name), err)
		}
		staged = append(staged, s)
	}
	for _, s := range staged {
		if err := s.dir.Rename(s.temp, s.base); err != nil {
			return undecided("write "+quoted(s.base), err)
		}
	}
	return nil
}

// stagedFile is a file written beside its name.
type stagedFile struct {
	dir        *os.Root
	temp, base string
}

func (s stagedFile) close() {
	_ = s.dir.Remove(s.temp) // gone where it took its name
	s.dir.Close()
}

func (p *place) stage(name string, data []byte) (stagedFile, error) {
	dir, err := p.directory(path.Dir(name))
	if err != nil {
		return stagedFile{}, err
	}
	s := stagedFile{dir: dir, temp: ".git-oracle-" + rand.Text(), base: path.Base(name)}
	if err := s.fill(data); err != nil {
		s.close()
		return stagedFile{}, err
	}
	return s, nil
}

func (s stagedFile) fill(data []byte) error {
	old, err := s.dir.Lstat(s.base)
	if err == nil && !old.Mode().IsRegular() {
		return fmt.Errorf("it is no ordinary file, and %w", errInTheWay)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.dir.OpenFile(s.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// directory opens, and where it is missing makes, a directory below the place,
// never through a link.
func (p *place) directory(name string) (*os.Root, error) {
	at, err := p.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(name, "/") {
		next, err := enter(at, part)
		at.Close()
		if err != nil {
			return nil, fmt.Errorf("open directory %s: %w", quoted(name), err)
		}
		at = next
	}
	return at, nil
}

func enter(at *os.Root, part string) (*os.Root, error) {
	if err := at.Mkdir(part, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	seen, err := at.Lstat(part)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, fmt.Errorf("it is no directory, and %w", errInTheWay)
	}
	next, err := at.OpenRoot(part)
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(seen, opened) {
		next.Close()
		return nil, fmt.Errorf("it was replaced meanwhile, and %w", errInTheWay)
	}
	return next, nil
}
