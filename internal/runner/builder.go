package runner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// builder lays one tree out. What it holds in memory does not follow the size of
// the tree: a push of ten objects can name a million paths.
type builder struct {
	git   git
	paths paths
	most  bounds
	weight
	notes notes
	// replaced are directories that something else than the tree's own comes to.
	replaced []string
}

// laying is an entry and what becomes of it.
type laying struct {
	entry
	fate fate
}

// grow counts what is about to be laid out.
func (b *builder) grow(entries int, bytes, names int64) error {
	b.entries, b.bytes, b.names = b.entries+entries, b.bytes+bytes, b.names+names
	return b.weight.within(b.most)
}

func (w weight) within(most bounds) error {
	switch {
	case w.entries > most.entries:
		return refuse("more than %d files and directories", most.entries)
	case w.bytes > most.bytes:
		return refuse("more than %d bytes", most.bytes)
	case w.names > most.names:
		return refuse("more than %d bytes of paths", most.names)
	default:
		return nil
	}
}

// anew lays out a whole tree in an empty directory. It is gone through twice, so
// that most of what is refused is refused before anything is written.
func (b *builder) anew(ctx context.Context, dir, tree string) error {
	if err := b.survey(ctx, tree); err != nil {
		return outcome(err)
	}
	w, err := newWalker(dir, b.made)
	if err != nil {
		return outcome(err)
	}
	defer w.close()
	batch := make([]laying, 0, b.most.batch)
	err = b.each(ctx, tree, func(l laying) error {
		if batch = append(batch, l); len(batch) < b.most.batch {
			return nil
		}
		_, err := b.write(ctx, w, batch)
		batch = batch[:0]
		return err
	})
	if err == nil {
		_, err = b.write(ctx, w, batch)
	}
	return outcome(err)
}

// outcome keeps refusals as they are.
func outcome(err error) error {
	switch {
	case err == nil || refused(err):
		return err
	case errors.Is(err, bufio.ErrTooLong):
		return refuse("a path has more than %d bytes", maxRecord)
	default:
		return fmt.Errorf("lay out tree: %w", err)
	}
}

// survey judges a whole tree by names alone.
func (b *builder) survey(ctx context.Context, tree string) error {
	var sum weight
	return b.each(ctx, tree, func(l laying) error {
		sum.names += int64(len(l.path))
		return sum.within(b.most)
	})
}

// each goes through the entries of a tree that are laid out.
func (b *builder) each(ctx context.Context, tree string, do func(laying) error) error {
	return b.list(ctx, tree, func(record []byte) error {
		e, err := treeRecord(record)
		if err != nil || e.mode == modeTree {
			return err
		}
		f, err := b.judge(e)
		if err != nil || f == leaveOut || belowAny(e.path, b.replaced) {
			return err
		}
		return do(laying{e, f})
	})
}

// list goes through everything that a tree has, and counts it: also what is left
// out, and directories, which may hold nothing but directories. A tree is refused
// for the number of its entries here, whatever else becomes of it.
func (b *builder) list(ctx context.Context, tree string, do func(record []byte) error) error {
	return b.git.listTree(ctx, tree, b.most.entries, do)
}

func (b *builder) judge(e entry) (fate, error) {
	f, err := b.paths.judge(e)
	if err == nil && f == leaveOut && e.mode == modeSubmodule {
		b.notes.add(e.path, fmt.Sprintf("submodule %q is not laid out", clip(e.path)))
	}
	return f, err
}

// treeRecord reads "<mode> <type> <id>\t<path>".
func treeRecord(record []byte) (entry, error) {
	head, name, found := bytes.Cut(record, []byte("\t"))
	words := strings.Split(string(head), " ")
	if !found || len(words) != 3 {
		return entry{}, fmt.Errorf("git ls-tree prints %.200q", record)
	}
	return entry{mode: words[0], id: words[2], path: string(name)}, nil
}

// difference is what turns one tree into another.
type difference struct {
	gone []laying // as they were
	laid []laying
}

// errLarge: what is made anew is sooner there than what is brought forward.
var errLarge = errors.New("the trees differ in too much")

// count refuses a tree that is refused for the number of its entries. git goes
// through both trees before it prints the first thing in which they differ, and in
// one of directories alone it finds nothing that it could print.
func (b *builder) count(ctx context.Context, tree string) error {
	return b.list(ctx, tree, func([]byte) error { return nil })
}

// difference finds what differs. It writes nothing.
func (b *builder) difference(ctx context.Context, from, to string) (difference, error) {
	var d difference
	var change []string // ":old new id id status", waiting for its path
	if err := b.count(ctx, to); err != nil {
		return difference{}, outcome(err)
	}
	names := 0
	err := b.git.records(ctx, func(record []byte) error {
		if change == nil {
			change = strings.Split(strings.TrimPrefix(string(record), ":"), " ")
			if len(change) != 5 {
				return fmt.Errorf("git diff-tree prints %.200q", record)
			}
			return nil
		}
		before := entry{mode: change[0], id: change[2], path: string(record)}
		after := entry{mode: change[1], id: change[3], path: before.path}
		change = nil
		if names += len(before.path); names > b.most.changes*changePath || len(d.gone)+len(d.laid) >= 2*b.most.changes {
			return errLarge
		}
		return errors.Join(b.add(&d.gone, before), b.add(&d.laid, after))
	}, b.git.spec("diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", "--full-index", from, to))
	if err != nil {
		return difference{}, outcome(err)
	}
	return d, nil
}

// add takes one side of a change, if there is anything on it.
func (b *builder) add(list *[]laying, e entry) error {
	if strings.Trim(e.mode, "0") == "" {
		return nil
	}
	f, err := b.judge(e)
	if err == nil {
		*list = append(*list, laying{e, f})
	}
	return err
}

// apply brings the tree at dir forward, and says how many entries it has written.
func (b *builder) apply(ctx context.Context, dir string, d difference) (done int, err error) {
	w, err := newWalker(dir, b.made)
	if err != nil {
		return 0, outcome(err)
	}
	defer w.close()
	for i, g := range d.gone {
		if i%256 == 0 && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		delete(b.notes.at, g.path)
		if err := b.remove(w, g.path); err != nil {
			return 0, outcome(err)
		}
	}
	for _, l := range d.laid { // a note of what is left out
		if _, err := b.judge(l.entry); err != nil {
			return 0, outcome(err)
		}
	}
	done, err = b.write(ctx, w, d.laid)
	return done, outcome(err)
}

// undo takes back what apply did before it came upon what is refused.
func (b *builder) undo(ctx context.Context, dir string, d difference, done int) error {
	back := &builder{git: b.git, paths: b.paths, most: b.most}
	w, err := newWalker(dir, back.made)
	if err != nil {
		return err
	}
	defer w.close()
	for _, l := range d.laid[:done] {
		if l.fate == leaveOut {
			continue
		}
		if err := back.remove(w, l.path); err != nil {
			return err
		}
	}
	if done < len(d.laid) { // directories on the way to it
		if _, err := w.enter(path.Dir(d.laid[done].path), false); err != nil {
			return err
		}
		w.prune()
	}
	_, err = back.write(ctx, w, d.gone)
	return err
}

// weigh counts a tree, unless that was done.
func weigh(dir string, known weight) (weight, error) {
	if known.entries > 0 {
		return known, nil
	}
	var sum weight
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		sum.entries++
		if e.IsDir() {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		sum.bytes += info.Size()
		sum.names += int64(len(name) - len(dir) - 1)
		return nil
	})
	return sum, err
}

// remove deletes what was laid out at a path, and the directories that are empty
// then. What was left out is not there.
func (b *builder) remove(w *walker, name string) error {
	there, err := w.enter(path.Dir(name), false)
	if err != nil || !there {
		return err
	}
	info, err := w.at().Lstat(path.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%q is a directory", clip(name))
	}
	if err := w.at().Remove(path.Base(name)); err != nil {
		return err
	}
	b.entries, b.bytes, b.names = b.entries-1, b.bytes-info.Size(), b.names-int64(len(name))
	b.entries -= w.prune()
	return nil
}

// made counts a directory.
func (b *builder) made() error { return b.grow(1, 0, 0) }

// write fetches the blobs of what is laid out and writes them. It says how many of
// list are done.
func (b *builder) write(ctx context.Context, w *walker, list []laying) (done int, err error) {
	var ids []string
	var at []int
	for i, l := range list {
		if l.fate != leaveOut {
			ids, at = append(ids, l.id), append(at, i)
		}
	}
	if len(ids) == 0 {
		return len(list), nil
	}
	err = b.git.blobs(ctx, ids, func(i int, size int64, content io.Reader) error {
		done = at[i]
		return b.lay(w, list[at[i]], size, content)
	})
	if err != nil {
		return done, err
	}
	return len(list), nil
}

func (b *builder) lay(w *walker, l laying, size int64, content io.Reader) error {
	switch l.fate {
	case layFile:
		if err := b.grow(1, size, int64(len(l.path))); err != nil {
			return err
		}
		return w.file(l.path, l.mode == modeExecutable, content)
	case layLink:
		return b.layLink(w, l, size, content)
	default:
		return refuse("path %q: unknown fate", clip(l.path))
	}
}

func (b *builder) layLink(w *walker, l laying, size int64, content io.Reader) error {
	if size > maxLinkTarget {
		b.notes.add(l.path, fmt.Sprintf("symbolic link %q is not laid out: its target is too long", clip(l.path)))
		return nil
	}
	target, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if !harmlessLink(l.path, string(target)) {
		b.notes.add(l.path, fmt.Sprintf("symbolic link %q is not laid out: it leaves the tree", clip(l.path)))
		return nil
	}
	if err := b.grow(1, size, int64(len(l.path))); err != nil {
		return err
	}
	return w.link(l.path, string(target))
}
