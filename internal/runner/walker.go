package runner

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"
)

// maxHeld is how many directories a walker keeps open. Whoever leaves more than
// that at once comes back from the top.
const maxHeld = 64

// walker writes and deletes below a directory, and holds the directories that it
// came through last: by whole paths a tree of two thousand levels would take
// millions of look-ups a file. It never goes through a link.
type walker struct {
	top   *os.Root
	names []string   // of the directories from top to where it is
	open  []*os.Root // of each; nil below low
	low   int
	dir   string       // where it is; empty is top
	made  func() error // hears of each directory that is going to be made
}

func newWalker(dir string, made func() error) (*walker, error) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &walker{top: top, made: made}, nil
}

func (w *walker) close() {
	w.leave(0)
	_ = w.top.Close()
}

// at is the directory it is in.
func (w *walker) at() *os.Root {
	if len(w.open) == 0 {
		return w.top
	}
	return w.open[len(w.open)-1]
}

// enter goes to a directory. What is missing is made where make says so; a name
// that is anything but a directory then refuses the tree: git allows no such two
// entries. Without make it goes as far as there are directories.
func (w *walker) enter(dir string, make bool) (there bool, err error) {
	if dir == "." {
		dir = ""
	}
	if dir == w.dir {
		return true, nil
	}
	var want []string
	if dir != "" {
		want = strings.Split(dir, "/")
	}
	same := 0
	for same < min(len(want), len(w.names)) && want[same] == w.names[same] {
		same++
	}
	if err := w.back(same); err != nil {
		return false, err
	}
	for _, name := range want[same:] {
		next, err := w.step(name, make)
		if err != nil || next == nil {
			return false, err
		}
		w.push(name, next)
	}
	return true, nil
}

// back goes up until n directories are left.
func (w *walker) back(n int) error {
	w.leave(n)
	if n == 0 || w.open[n-1] != nil {
		return nil
	}
	names := w.names
	w.leave(0)
	for _, name := range names {
		next, err := w.step(name, false)
		if err != nil {
			return err
		}
		if next == nil {
			return os.ErrNotExist
		}
		w.push(name, next)
	}
	return nil
}

func (w *walker) leave(n int) {
	for len(w.names) > n {
		last := len(w.names) - 1
		if w.open[last] != nil {
			_ = w.open[last].Close()
		}
		w.names, w.open = w.names[:last], w.open[:last]
	}
	w.low = min(w.low, n)
	w.dir = strings.Join(w.names, "/")
}

func (w *walker) push(name string, r *os.Root) {
	w.names, w.open = append(w.names, name), append(w.open, r)
	if w.dir != "" {
		name = "/" + name
	}
	w.dir += name
	if len(w.open)-w.low > maxHeld {
		_ = w.open[w.low].Close()
		w.open[w.low] = nil
		w.low++
	}
}

// step opens a directory of the one it is in. Nil is none of the name.
func (w *walker) step(name string, make bool) (*os.Root, error) {
	if make {
		if err := w.mkdir(name); err != nil {
			return nil, err
		}
	}
	info, err := w.at().Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return w.at().OpenRoot(name)
	case make && err == nil:
		return nil, refuse("path %q is a directory and something else", clip(path.Join(w.dir, name)))
	case err == nil || os.IsNotExist(err):
		return nil, nil
	default:
		return nil, err
	}
}

func (w *walker) mkdir(name string) error {
	err := w.at().Mkdir(name, 0o750)
	if os.IsExist(err) {
		return nil
	}
	return errors.Join(err, w.made())
}

// prune leaves directories as long as they are empty, and deletes them. It says how
// many these were.
func (w *walker) prune() (n int) {
	for len(w.names) > 0 {
		name := w.names[len(w.names)-1]
		if w.back(len(w.names)-1) != nil || w.at().Remove(name) != nil {
			return n
		}
		n++
	}
	return n
}

func (w *walker) file(p string, executable bool, content io.Reader) error {
	if _, err := w.enter(path.Dir(p), true); err != nil {
		return err
	}
	mode := os.FileMode(0o640)
	if executable {
		mode = 0o750
	}
	f, err := w.at().OpenFile(path.Base(p), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if os.IsExist(err) {
		return refuse("path %q stands twice in the tree", clip(p))
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

func (w *walker) link(p, target string) error {
	if _, err := w.enter(path.Dir(p), true); err != nil {
		return err
	}
	err := w.at().Symlink(target, path.Base(p))
	if os.IsExist(err) {
		return refuse("path %q stands twice in the tree", clip(p))
	}
	return err
}
