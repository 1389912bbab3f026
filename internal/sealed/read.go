package sealed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// reader reads the files of a tree through an os.Root: regular files only, each
// once, no symbolic link on the way, owned by who may own them.
type reader struct {
	root   *os.Root
	c      *collector
	owners map[uint32]bool
	files  map[string]*file
	total  int64
	mode   fs.FileMode // of the top directory
}

// openTree opens the top directory of a tree. Who may own what is in it: the
// running user, root, and for root the owner of the top directory.
func openTree(dir string, c *collector) (*reader, error) {
	dir = filepath.Clean(dir) // "link/" would follow the link
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("open sealed tree: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open sealed tree %q: not a directory (symbolic links are not followed)", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open sealed tree: %w", err)
	}
	opened, err := root.Stat(".")
	if err != nil || !os.SameFile(info, opened) {
		root.Close()
		return nil, fmt.Errorf("open sealed tree %q: it was exchanged while being opened", dir)
	}
	r := &reader{root: root, c: c, owners: map[uint32]bool{0: true, uint32(os.Geteuid()): true}, files: map[string]*file{}, mode: info.Mode().Perm()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		r.owners[st.Uid] = true
	}
	r.permissions("", info)
	return r, nil
}

func (r *reader) fault(file, format string, args ...any) {
	r.c.add(Fault{File: file, What: fmt.Sprintf(format, args...)})
}

// permissions refuses what others than the owner could write.
func (r *reader) permissions(name string, info fs.FileInfo) {
	shown := name
	if shown == "" {
		shown = "."
	}
	if info.Mode().Perm()&0o022 != 0 {
		r.fault(shown, "group or others may write it (mode %04o)", info.Mode().Perm())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && !r.owners[st.Uid] {
		r.fault(shown, "belongs to user %d, not to the user who reads it or root", st.Uid)
	}
}

var errMissing = errors.New("missing")

// file reads one file. A missing one is errMissing; everything else that is wrong
// is noted as a fault and returned as nil, nil.
func (r *reader) file(name string, limit int64) (*file, error) {
	if f := r.files[name]; f != nil {
		return f, nil
	}
	info, err := r.lstat(name)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, nil
	}
	if !info.Mode().IsRegular() {
		r.fault(name, "%s, not a regular file", kindOf(info.Mode()))
		return nil, nil
	}
	r.permissions(name, info)
	data, err := r.read(name, info, min(limit, maxTree-r.total))
	if err != nil {
		r.fault(name, "%v", err)
		return nil, nil
	}
	if len(r.files) >= maxFiles {
		r.fault(name, "more than %d files", maxFiles)
		return nil, nil
	}
	r.total += int64(len(data))
	f := &file{path: name, data: data, sum: digestBytes(data)}
	r.files[name] = f
	return f, nil
}

// lstat looks at every element of the path: a directory that is a symbolic link
// is a fault as well.
func (r *reader) lstat(name string) (fs.FileInfo, error) {
	parts := strings.Split(name, "/")
	for i := range parts[:len(parts)-1] {
		dir := strings.Join(parts[:i+1], "/")
		info, err := r.root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errMissing
		}
		if err != nil {
			r.fault(dir, "%v", cause(err))
			return nil, nil
		}
		if !info.IsDir() {
			r.fault(dir, "%s, not a directory", kindOf(info.Mode()))
			return nil, nil
		}
	}
	info, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errMissing
	}
	if err != nil {
		r.fault(name, "%v", cause(err))
		return nil, nil
	}
	return info, nil
}

// read opens what lstat saw, and nothing else that was put in its place since.
func (r *reader) read(name string, seen fs.FileInfo, limit int64) ([]byte, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, cause(err)
	}
	if !os.SameFile(seen, info) || !info.Mode().IsRegular() {
		return nil, errors.New("exchanged while it was read")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, cause(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("larger than %d bytes (a file may have %d, a tree %d)", limit, maxFile, maxTree)
	}
	return data, nil
}

// walk visits every file below dir in order. What Python leaves behind
// (__pycache__, *.pyc) is no part of a tree. It reports whether dir is there.
func (r *reader) walk(dir string, depth int, visit func(name string)) bool {
	info, err := r.lstat(dir)
	if err != nil || info == nil {
		return false
	}
	if !info.IsDir() {
		r.fault(dir, "%s, not a directory", kindOf(info.Mode()))
		return false
	}
	r.permissions(dir, info)
	if depth > maxDepth {
		r.fault(dir, "deeper than %d directories", maxDepth)
		return true
	}
	entries, err := r.list(dir)
	if err != nil {
		r.fault(dir, "%v", cause(err))
		return true
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Name() == "__pycache__" || strings.HasSuffix(e.Name(), ".pyc"):
		case e.IsDir():
			r.walk(name, depth+1, visit)
		default:
			visit(name)
		}
	}
	return true
}

func (r *reader) list(dir string) ([]fs.DirEntry, error) {
	d, err := r.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("more than %d entries", maxFiles)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func digestBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// digest of everything read so far: sha256 over "<path>\0<sha256>\n", sorted.
func (r *reader) digest() string { return digestOf(r.files) }

func digestOf(files map[string]*file) string {
	names := make([]string, 0, len(files))
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%s\x00%s\n", n, files[n].sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	default:
		return "something else"
	}
}

// cause drops the path that package os puts into its errors: the fault names it.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
