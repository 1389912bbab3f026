package runner

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sealgate/sealgate/policy"
)

// Bounds of a tree that is laid out.
const (
	maxTreeFiles  = 1_000_000
	maxTreeBytes  = 8 << 30
	maxPath       = 4000 // bytes, below the kernel's 4096 with room for a prefix
	maxName       = 255
	keptTrees     = 3 // a repository
	bootFile      = ".boot"
	bootIDFile    = "/proc/sys/kernel/random/boot_id"
	maxLinkTarget = 4000
	maxNotes      = 20
)

// refusal says why a pushed tree cannot be laid out. It is the push's fault,
// never the daemon's.
type refusal struct{ why string }

func (r *refusal) Error() string { return "lay out tree: " + r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// paths are the patterns that a laid out tree leaves out: what only a
// maintainer may change (pushed code that reads it would answer from it), and
// what has no business in a repository.
type paths struct {
	protected, forbidden policy.Patterns
	digest               string // of both lists
}

func newPaths(protected, forbidden []string) (paths, error) {
	var p paths
	var err error
	if len(protected) > 0 {
		if p.protected, err = policy.ParsePatterns(protected); err != nil {
			return p, fmt.Errorf("read protected patterns: %w", err)
		}
	}
	if len(forbidden) > 0 {
		if p.forbidden, err = policy.ParsePatterns(forbidden); err != nil {
			return p, fmt.Errorf("read forbidden patterns: %w", err)
		}
	}
	sum := sha256.Sum256([]byte(p.protected.Digest() + " " + p.forbidden.Digest()))
	p.digest = hex.EncodeToString(sum[:6])
	return p, nil
}

// entry is one entry of a tree that is no directory.
type entry struct {
	mode, id, path string
}

const (
	modeFile       = "100644"
	modeExecutable = "100755"
	modeLegacy     = "100664" // written by very old tools; git reads it as a file
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

// fate of an entry.
type fate uint8

const (
	leaveOut fate = iota // the zero value lays nothing out
	layFile
	layLink
)

// judge says what becomes of an entry, by its path and mode alone. An error
// refuses the whole tree.
func (p paths) judge(e entry) (fate, error) {
	if len(e.path) > maxPath {
		return leaveOut, refuse("a path has %d bytes; at most %d", len(e.path), maxPath)
	}
	for name := range strings.SplitSeq(e.path, "/") {
		switch {
		case name == "" || name == "." || name == "..":
			return leaveOut, refuse("path %q is malformed", clip(e.path))
		case len(name) > maxName:
			return leaveOut, refuse("a name has %d bytes; at most %d", len(name), maxName)
		case gitName(name), name == "__pycache__":
			return leaveOut, nil
		}
	}
	if bytecode(e.path) || p.protected.Match([]byte(e.path)) || p.forbidden.Match([]byte(e.path)) {
		return leaveOut, nil
	}
	switch e.mode {
	case modeFile, modeExecutable, modeLegacy:
		return layFile, nil
	case modeLink:
		return layLink, nil
	case modeSubmodule:
		return leaveOut, nil
	default:
		return leaveOut, refuse("path %q has mode %s", clip(e.path), e.mode)
	}
}

// bytecode that was committed would be run in place of the source beside it.
func bytecode(p string) bool {
	switch path.Ext(p) {
	case ".pyc", ".pyo":
		return true
	default:
		return false
	}
}

// gitName says whether some file system takes the name for ".git": by case, by
// code points that HFS+ ignores, by trailing dots, spaces and streams that NTFS
// drops, or by the short name that it gives.
func gitName(name string) bool {
	if name[0] != '.' && name[0] != 'g' && name[0] != 'G' && name[0] < 0x80 {
		return false // the common case, quickly
	}
	s, _, _ := strings.Cut(strings.Map(dropIgnored, name), ":")
	s = strings.ToLower(strings.TrimRight(s, ". "))
	number, short := strings.CutPrefix(s, "git~")
	return s == ".git" || short && number != "" && strings.Trim(number, "0123456789") == ""
}

func dropIgnored(c rune) rune {
	switch {
	case c >= 0x200c && c <= 0x200f, c >= 0x202a && c <= 0x202e, c >= 0x206a && c <= 0x206f, c == 0xfeff:
		return -1
	default:
		return c
	}
}

// harmlessLink says whether a symbolic link at linkPath stays inside the tree
// whatever other links there are: relative, its "..", if any, all in front (so
// that they leave real directories, not the ends of other links), and not more
// of them than the link is deep.
func harmlessLink(linkPath, target string) bool {
	if target == "" || len(target) > maxLinkTarget || target[0] == '/' || strings.IndexByte(target, 0) >= 0 {
		return false
	}
	ups, below := 0, false
	for name := range strings.SplitSeq(target, "/") {
		switch {
		case name == "" || name == ".":
		case name == ".." && below:
			return false
		case name == "..":
			ups++
		default:
			below = true
		}
	}
	return ups <= strings.Count(linkPath, "/")
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// trees are all trees that are laid out below <root>/<repository id>/. Those of
// one repository share a directory that every candidate of it has mounted, so
// that it can start before its tree is there. A candidate must not find the
// other trees, or wrong code would answer through right code of another push:
// the directory cannot be listed, and a tree has a name that nobody can guess
// and that is another one the next time it is used. What is being made or
// deleted is in <root>/.new-*.
type trees struct {
	root  string
	share func(dir string) error // makes a new, empty directory readable for candidates

	mu    sync.Mutex
	repos map[string]*shelf
	sweep sync.WaitGroup
}

// shelf is one repository's trees.
type shelf struct {
	dir    string
	making sync.Mutex // one tree at a time is made a repository

	mu   sync.Mutex
	tree map[string]*laid // by key
}

// unlisted is the mode of a shelf: candidates enter by name, and hookd too.
const unlisted = 0o310

// laid is one tree on disk. It stays where it is while users is not zero.
type laid struct {
	key   string // <digest of patterns>-<tree id>
	name  string // of the directory: <key>-<random>
	users int
	used  time.Time
	files int // 0: not counted, found on disk
	bytes int64
	notes []string // what was left out of the ordinary, for maintainers
}

// Tree is a tree in use. Release must be called once.
type Tree struct {
	Parent string // directory that is mounted for candidates
	Name   string // of the tree below Parent
	Notes  []string
	done   func()
}

// Release lets the tree go; it may then be brought forward to another.
func (t Tree) Release() { t.done() }

// newTrees opens the directory and drops everything that may not be whole:
// what a crash left, and all of it after the machine went down, because nothing
// here is fsynced.
func newTrees(root string, share func(string) error) (*trees, error) {
	ts := &trees{root: root, share: share, repos: map[string]*shelf{}}
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, fmt.Errorf("open trees: %w", err)
	}
	if err := os.Chmod(root, 0o711); err != nil { // slots pass through
		return nil, fmt.Errorf("open trees: %w", err)
	}
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return nil, fmt.Errorf("open trees: %w", err)
	}
	before, err := os.ReadFile(filepath.Join(root, bootFile))
	fresh := err != nil || !bytes.Equal(boot, before)
	repos, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("open trees: %w", err)
	}
	for _, repo := range repos {
		if !repo.IsDir() {
			continue
		}
		if strings.HasPrefix(repo.Name(), ".") {
			if err := os.RemoveAll(filepath.Join(root, repo.Name())); err != nil {
				return nil, fmt.Errorf("open trees: %w", err)
			}
			continue
		}
		if err := dropStale(filepath.Join(root, repo.Name()), fresh); err != nil {
			return nil, fmt.Errorf("open trees: %w", err)
		}
	}
	if err := writeAside(filepath.Join(root, bootFile), boot, 0o600); err != nil {
		return nil, fmt.Errorf("open trees: %w", err)
	}
	return ts, nil
}

func dropStale(dir string, all bool) error {
	if err := addMode(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !all && !strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// addMode gives the owner more rights on a directory and keeps the rest.
func addMode(dir string, more os.FileMode) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return os.Chmod(dir, info.Mode()&(os.ModePerm|os.ModeSetgid)|more)
}

// shelf opens the directory of a repository.
func (ts *trees) shelf(repo string) (*shelf, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if s := ts.repos[repo]; s != nil {
		return s, nil
	}
	s := &shelf{dir: filepath.Join(ts.root, repo), tree: map[string]*laid{}}
	err := os.Mkdir(s.dir, 0o700)
	if os.IsExist(err) {
		err = addMode(s.dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	if len(entries) == 0 {
		if err := ts.share(s.dir); err != nil {
			return nil, fmt.Errorf("lay out tree: %w", err)
		}
	}
	for _, e := range entries {
		if i := strings.LastIndexByte(e.Name(), '-'); i > 0 && e.Name()[0] != '.' {
			s.tree[e.Name()[:i]] = &laid{key: e.Name()[:i], name: e.Name()}
		}
	}
	info, err := os.Stat(s.dir)
	if err == nil {
		err = os.Chmod(s.dir, info.Mode()&os.ModeSetgid|unlisted)
	}
	if err != nil {
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	ts.repos[repo] = s
	return s, nil
}

// parent is the directory that holds a repository's trees, for candidates that
// start before their tree is there.
func (ts *trees) parent(repo string) (string, error) {
	s, err := ts.shelf(repo)
	if err != nil {
		return "", err
	}
	return s.dir, nil
}

// layOut makes a tree be there and holds it until it is released.
func (ts *trees) layOut(ctx context.Context, m *mirror, repo, tree string, p paths) (Tree, error) {
	s, err := ts.shelf(repo)
	if err != nil {
		return Tree{}, err
	}
	key := p.digest + "-" + tree
	if t, ok := s.take(key); ok {
		return t, nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if t, ok := s.take(key); ok {
		return t, nil
	}
	b := &builder{git: m.git, paths: p}
	aside, err := os.MkdirTemp(ts.root, ".new-")
	if err != nil {
		return Tree{}, fmt.Errorf("lay out tree: %w", err)
	}
	defer ts.discard(aside)
	if err := ts.share(aside); err != nil { // what is made in it belongs to the candidates' group
		return Tree{}, fmt.Errorf("lay out tree: %w", err)
	}
	work := filepath.Join(aside, "tree")
	if err := s.build(ctx, b, work, tree); err != nil {
		return Tree{}, err
	}
	name := unguessable(key)
	if err := os.Rename(work, filepath.Join(s.dir, name)); err != nil {
		return Tree{}, fmt.Errorf("lay out tree: %w", err)
	}
	s.put(&laid{key: key, name: name, notes: b.notes, used: time.Now(), files: b.files, bytes: b.bytes})
	ts.trim(s)
	t, _ := s.take(key)
	return t, nil
}

func unguessable(key string) string { return key + "-" + rand.Text() }

// build fills work: by the difference to a tree that nobody uses, else anew.
func (s *shelf) build(ctx context.Context, b *builder, work, tree string) error {
	old := s.claim(b.paths.digest)
	if old != nil && os.Rename(filepath.Join(s.dir, old.name), work) == nil {
		err := b.bringForward(ctx, work, old, tree)
		var refused *refusal
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		// A difference that does not fit (files altered by hand): make it anew.
		*b = builder{git: b.git, paths: b.paths}
		if err := os.Rename(work, work+".bad"); err != nil {
			return fmt.Errorf("lay out tree: %w", err)
		}
	}
	if err := os.Mkdir(work, 0o750); err != nil {
		return fmt.Errorf("lay out tree: %w", err)
	}
	return b.anew(ctx, work, tree)
}

// claim takes the tree out of the shelf that was used last and that nobody uses
// now: it is likely the nearest.
func (s *shelf) claim(digest string) *laid {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *laid
	for _, t := range s.tree {
		if t.users == 0 && strings.HasPrefix(t.key, digest+"-") && (best == nil || t.used.After(best.used)) {
			best = t
		}
	}
	if best != nil {
		delete(s.tree, best.key)
	}
	return best
}

func (s *shelf) put(t *laid) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree[t.key] = t
}

func (s *shelf) take(key string) (Tree, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tree[key]
	if t == nil || t.users == 0 && !s.rename(t) {
		return Tree{}, false
	}
	t.users++
	t.used = time.Now()
	return Tree{Parent: s.dir, Name: t.name, Notes: t.notes, done: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			_ = s.rename(t) // its own code may have told its name; take tries again
		}
	}}, true
}

// rename gives a tree that nobody uses a name that nobody knows. One that is
// gone is dropped. mu is held.
func (s *shelf) rename(t *laid) bool {
	name := unguessable(t.key)
	if err := os.Rename(filepath.Join(s.dir, t.name), filepath.Join(s.dir, name)); err != nil {
		delete(s.tree, t.key)
		return false
	}
	t.name = name
	return true
}

// trim drops the oldest trees that nobody uses.
func (ts *trees) trim(s *shelf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.tree) > keptTrees {
		var oldest *laid
		for _, t := range s.tree {
			if t.users == 0 && (oldest == nil || t.used.Before(oldest.used)) {
				oldest = t
			}
		}
		if oldest == nil {
			return
		}
		aside, err := os.MkdirTemp(ts.root, ".new-")
		if err != nil {
			return // it stays; the next one tries again
		}
		if err := os.Rename(filepath.Join(s.dir, oldest.name), filepath.Join(aside, "tree")); err != nil {
			return
		}
		delete(s.tree, oldest.key)
		ts.discard(aside)
	}
}

// discard deletes a directory beside the work: a large one takes a while.
func (ts *trees) discard(dir string) {
	ts.sweep.Go(func() { _ = os.RemoveAll(dir) })
}

// close waits for what is being deleted, and lets the owner list what is left.
func (ts *trees) close() {
	ts.sweep.Wait()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, s := range ts.repos {
		_ = addMode(s.dir, 0o700) // newTrees does it too
	}
}

// builder lays one tree out.
type builder struct {
	git   git
	paths paths
	files int
	bytes int64
	notes []string
	drops int
}

func (b *builder) note(format string, args ...any) {
	b.drops++
	if len(b.notes) < maxNotes {
		b.notes = append(b.notes, fmt.Sprintf(format, args...))
	}
}

// anew lays out a whole tree in an empty directory.
func (b *builder) anew(ctx context.Context, dir, tree string) error {
	var list []laying
	err := b.git.records(ctx, func(record []byte) error {
		e, err := treeRecord(record)
		if err != nil {
			return err
		}
		return b.plan(e, &list)
	}, b.git.spec("ls-tree", "-r", "-z", "--full-tree", tree))
	if err != nil {
		return outcome(err)
	}
	return b.write(ctx, dir, list)
}

// outcome keeps refusals as they are.
func outcome(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return fmt.Errorf("lay out tree: %w", err)
}

// laying is an entry that is to be written.
type laying struct {
	entry
	fate fate
}

func (b *builder) plan(e entry, list *[]laying) error {
	f, err := b.paths.judge(e)
	if err != nil {
		return err
	}
	switch f {
	case layFile, layLink:
		if b.files++; b.files > maxTreeFiles {
			return refuse("more than %d files", maxTreeFiles)
		}
		*list = append(*list, laying{e, f})
		return nil
	case leaveOut:
		if e.mode == modeSubmodule {
			b.note("submodule %q is not laid out", clip(e.path))
		}
		return nil
	default:
		return refuse("path %q: unknown fate", clip(e.path))
	}
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

// bringForward turns an old tree, now at dir, into the tree to by what differs.
func (b *builder) bringForward(ctx context.Context, dir string, old *laid, to string) error {
	if err := b.count(dir, old); err != nil {
		return err
	}
	from := strings.TrimPrefix(old.key, b.paths.digest+"-")
	var list []laying
	var gone []string
	var change []string // ":old new id id status", waiting for its path
	err := b.git.records(ctx, func(record []byte) error {
		if change == nil {
			change = strings.Split(strings.TrimPrefix(string(record), ":"), " ")
			if len(change) != 5 {
				return fmt.Errorf("git diff-tree prints %.200q", record)
			}
			return nil
		}
		e := entry{mode: change[1], id: change[3], path: string(record)}
		added := change[4] == "A"
		change = nil
		if !added {
			gone = append(gone, e.path)
		}
		if strings.Trim(e.mode, "0") == "" {
			return nil
		}
		return b.plan(e, &list)
	}, b.git.spec("diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", "--full-index", from, to))
	if err != nil {
		return outcome(err)
	}
	if err := b.remove(dir, gone); err != nil {
		return err
	}
	return b.write(ctx, dir, list)
}

// count takes over what an old tree weighs, so that the limits hold for the sum.
func (b *builder) count(dir string, old *laid) error {
	b.files, b.bytes, b.notes = old.files, old.bytes, old.notes
	if b.files > 0 {
		return nil
	}
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b.files, b.bytes = b.files+1, b.bytes+info.Size()
		return nil
	})
	if err != nil {
		return fmt.Errorf("lay out tree: %w", err)
	}
	return nil
}

// remove deletes files, and the directories that they leave empty.
func (b *builder) remove(dir string, gone []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("lay out tree: %w", err)
	}
	defer root.Close()
	for _, p := range gone {
		info, err := root.Lstat(p)
		if os.IsNotExist(err) || notADirectory(err) {
			continue // it was left out
		}
		if err == nil {
			err = root.Remove(p)
		}
		if err != nil {
			return fmt.Errorf("lay out tree: %w", err)
		}
		b.files, b.bytes = b.files-1, b.bytes-info.Size()
		for up := path.Dir(p); up != "."; up = path.Dir(up) {
			if root.Remove(up) != nil {
				break
			}
		}
	}
	return nil
}

// write fetches the blobs and writes them.
func (b *builder) write(ctx context.Context, dir string, list []laying) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("lay out tree: %w", err)
	}
	w := &writer{root: root, at: root}
	defer w.close()
	ids := make([]string, len(list))
	for i, l := range list {
		ids[i] = l.id
	}
	err = b.git.blobs(ctx, ids, func(i int, size int64, content io.Reader) error {
		if b.bytes += size; b.bytes > maxTreeBytes {
			return refuse("more than %d bytes", int64(maxTreeBytes))
		}
		return b.lay(w, list[i], size, content)
	})
	if err != nil {
		return outcome(err)
	}
	if b.drops > len(b.notes) {
		b.notes = append(b.notes, fmt.Sprintf("%d more were left out", b.drops-len(b.notes)))
	}
	return nil
}

func (b *builder) lay(w *writer, l laying, size int64, content io.Reader) error {
	if l.fate == layFile {
		return w.file(l.path, l.mode == modeExecutable, content)
	}
	if size > maxLinkTarget {
		b.note("symbolic link %q is not laid out: its target is too long", clip(l.path))
		return nil
	}
	target, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if !harmlessLink(l.path, string(target)) {
		b.note("symbolic link %q is not laid out: it leaves the tree", clip(l.path))
		return nil
	}
	return w.link(l.path, string(target))
}

// writer writes files below a root, holding the directory it was in last.
type writer struct {
	root *os.Root
	at   *os.Root
	dir  string // of at; empty is the root
}

func (w *writer) close() {
	if w.at != w.root {
		_ = w.at.Close()
	}
	_ = w.root.Close()
}

// enter goes to a directory, making what is missing. A name that is anything
// but a directory refuses the tree: git allows no such two entries.
func (w *writer) enter(dir string) error {
	if dir == "." {
		dir = ""
	}
	if dir == w.dir {
		return nil
	}
	if w.at != w.root {
		_ = w.at.Close()
		w.at, w.dir = w.root, ""
	}
	if dir == "" {
		return nil
	}
	at, err := w.descend(dir)
	if err != nil {
		return err
	}
	w.at, w.dir = at, dir
	return nil
}

// descend goes down step by step: by whole paths a tree of two thousand levels
// would take millions of look-ups a file. It never goes through a link.
func (w *writer) descend(dir string) (*os.Root, error) {
	at := w.root
	made := ""
	for name := range strings.SplitSeq(dir, "/") {
		made += name
		next, err := step(at, name, made)
		if at != w.root {
			_ = at.Close()
		}
		if err != nil {
			return nil, err
		}
		at, made = next, made+"/"
	}
	return at, nil
}

func step(at *os.Root, name, made string) (*os.Root, error) {
	if err := at.Mkdir(name, 0o750); err != nil && !os.IsExist(err) {
		return nil, err
	}
	info, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, refuse("path %q is a directory and something else", clip(made))
	}
	return at.OpenRoot(name)
}

func (w *writer) file(p string, executable bool, content io.Reader) error {
	if err := w.enter(path.Dir(p)); err != nil {
		return err
	}
	mode := os.FileMode(0o640)
	if executable {
		mode = 0o750
	}
	f, err := w.at.OpenFile(path.Base(p), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if os.IsExist(err) {
		return refuse("path %q stands twice in the tree", clip(p))
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

func (w *writer) link(p, target string) error {
	if err := w.enter(path.Dir(p)); err != nil {
		return err
	}
	err := w.at.Symlink(target, path.Base(p))
	if os.IsExist(err) {
		return refuse("path %q stands twice in the tree", clip(p))
	}
	return err
}
