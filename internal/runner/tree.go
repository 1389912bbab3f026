package runner

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealgate/sealgate/policy"
)

// bounds of a tree that is laid out.
type bounds struct {
	entries int   // files, links and directories
	bytes   int64 // of files
	names   int64 // bytes of the paths of files and links
	batch   int   // entries that are in memory at a time
	changes int   // entries that may differ from a tree that is brought forward
}

var treeBounds = bounds{entries: 1_000_000, bytes: 8 << 30, names: 256 << 20, batch: 4096, changes: 16384}

// changePath is how many bytes a path of a tree that is brought forward may have in
// the mean: changes are held in memory until all of them are known.
const changePath = 256

const (
	maxPath       = 4000 // bytes, below the kernel's 4096 with room for a prefix
	maxName       = 255
	keptTrees     = 3 // a repository
	bootFile      = ".boot"
	trashDir      = ".trash"
	bootIDFile    = "/proc/sys/kernel/random/boot_id"
	maxLinkTarget = 4000
	maxNotes      = 20
	roomTime      = 10 * time.Second // for what is deleted where the disk is full
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
// and that is another one the next time it is used. What is being made is in
// <root>/.new-*, what is to be deleted in <root>/.trash.
type trees struct {
	root  string
	share func(dir string) error // makes a new, empty directory readable for candidates
	most  bounds
	trash *trash

	mu    sync.Mutex
	repos map[string]*shelf
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

// weight is what a tree takes.
type weight struct {
	entries int // files, links and directories; 0: not counted, found on disk
	bytes   int64
	names   int64 // bytes of the paths of files and links
}

// laid is one tree on disk. It stays where it is while users is not zero.
type laid struct {
	key   string // <digest of patterns>-<tree id>, or of what a build made of it
	name  string // of the directory: <key>-<random>
	users int
	used  time.Time
	weight
	notes notes
}

// built says that the tree is what a build made of another one. Such a tree is
// nobody's base: what is in it is not what git says.
func (t *laid) built() bool { return strings.HasPrefix(t.key, builtPrefix) }

// notes say, by path, what was left out of the ordinary, for maintainers.
type notes struct {
	at   map[string]string
	more bool // than are kept
}

func (n *notes) add(path, text string) {
	if n.at == nil {
		n.at = map[string]string{}
	}
	if _, known := n.at[path]; !known && len(n.at) >= maxNotes {
		n.more = true
		return
	}
	n.at[path] = text
}

func (n notes) clone() notes { return notes{maps.Clone(n.at), n.more} }

func (n notes) list() []string {
	list := slices.Sorted(maps.Values(n.at))
	if n.more {
		list = append(list, "more were left out")
	}
	return list
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

// newTrees opens the directory and drops everything that may not be whole or
// readable: what a crash left, and all of it after the machine went down, because
// nothing here is fsynced, or where candidates have another group than before.
func newTrees(root string, group int, share func(string) error) (*trees, error) {
	ts := &trees{root: root, share: share, most: treeBounds, repos: map[string]*shelf{}}
	if err := ts.open(group); err != nil {
		if ts.trash != nil {
			ts.trash.close()
		}
		return nil, fmt.Errorf("open trees: %w", err)
	}
	return ts, nil
}

func (ts *trees) open(group int) error {
	if err := os.MkdirAll(ts.root, 0o711); err != nil {
		return err
	}
	if err := os.Chmod(ts.root, 0o711); err != nil { // slots pass through
		return err
	}
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return err
	}
	state := fmt.Appendf(boot, "group %d\n", group)
	before, err := os.ReadFile(filepath.Join(ts.root, bootFile))
	fresh := err != nil || !bytes.Equal(state, before)
	if ts.trash, err = newTrash(filepath.Join(ts.root, trashDir), slowly); err != nil {
		return err
	}
	repos, err := os.ReadDir(ts.root)
	if err != nil {
		return err
	}
	for _, repo := range repos {
		name := filepath.Join(ts.root, repo.Name())
		switch {
		case !repo.IsDir() || repo.Name() == trashDir:
		case strings.HasPrefix(repo.Name(), "."):
			err = ts.trash.put(name)
		default:
			err = ts.dropStale(name, fresh)
		}
		if err != nil {
			return err
		}
	}
	return writeAside(filepath.Join(ts.root, bootFile), state, 0o600)
}

func (ts *trees) dropStale(dir string, all bool) error {
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
		if err := ts.trash.put(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if all { // shared anew, when it is used
		return os.Remove(dir)
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
	if err := ts.fill(s); err != nil {
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	ts.repos[repo] = s
	return s, nil
}

// fill takes over what is on the disk. Of one tree that is there twice, one stays.
func (ts *trees) fill(s *shelf) error {
	err := os.Mkdir(s.dir, 0o700)
	if os.IsExist(err) {
		err = addMode(s.dir, 0o700)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		if err := ts.share(s.dir); err != nil {
			return err
		}
	}
	for _, e := range entries {
		i := strings.LastIndexByte(e.Name(), '-')
		if i <= 0 || e.Name()[0] == '.' || s.tree[e.Name()[:i]] != nil {
			if err := ts.trash.put(filepath.Join(s.dir, e.Name())); err != nil {
				return err
			}
			continue
		}
		s.tree[e.Name()[:i]] = &laid{key: e.Name()[:i], name: e.Name()}
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return err
	}
	return os.Chmod(s.dir, info.Mode()&os.ModeSetgid|unlisted)
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

// wanted is a tree that is to be laid out.
type wanted struct {
	mirror *mirror
	tree   string
	near   string // a tree that is likely close to it; empty is none
	paths  paths
}

func (w wanted) key() string { return keyOf(w.paths, w.tree) }

func keyOf(p paths, tree string) string { return p.digest + "-" + tree }

// layOut makes a tree be there and holds it until it is released.
func (ts *trees) layOut(ctx context.Context, repo string, w wanted) (Tree, error) {
	s, err := ts.shelf(repo)
	if err != nil {
		return Tree{}, err
	}
	release := ts.trash.hold()
	t, err := ts.hold(ctx, s, w)
	if err != nil {
		release()
		return Tree{}, err
	}
	let := t.done
	t.done = func() { let(); release() }
	return t, nil
}

func (ts *trees) hold(ctx context.Context, s *shelf, w wanted) (Tree, error) {
	if t, ok := s.take(w.key()); ok {
		return t, nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if t, ok := s.take(w.key()); ok {
		return t, nil
	}
	return ts.makeAndHold(ctx, s, w.key(), func(work string) (*builder, error) { return ts.build(ctx, s, w, work) })
}

// makeAndHold makes a tree, once more where the disk was full and there was
// something to delete.
func (ts *trees) makeAndHold(ctx context.Context, s *shelf, key string, fill func(work string) (*builder, error)) (Tree, error) {
	made, err := ts.make(s, key, fill)
	if diskFull(err) && ctx.Err() == nil {
		ts.dropUnused()
		if ts.trash.makeRoom(ctx, roomTime) {
			made, err = ts.make(s, key, fill)
		}
	}
	if err != nil {
		return Tree{}, err
	}
	t := ts.put(s, made)
	ts.trim(s)
	return t, nil
}

// make lays a tree out on a shelf, where nobody finds it before it is put there.
func (ts *trees) make(s *shelf, key string, fill func(work string) (*builder, error)) (*laid, error) {
	aside, err := os.MkdirTemp(ts.root, ".new-")
	if err != nil {
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	defer ts.discard(aside)
	if err := ts.share(aside); err != nil { // what is made in it belongs to the candidates' group
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	work := filepath.Join(aside, "tree")
	b, err := fill(work)
	if err != nil {
		return nil, err
	}
	name := unguessable(key)
	if err := os.Rename(work, filepath.Join(s.dir, name)); err != nil {
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	return &laid{key: key, name: name, notes: b.notes, weight: b.weight}, nil
}

func unguessable(key string) string { return key + "-" + rand.Text() }

// build fills work: by the difference to a tree that nobody uses, else anew. A
// refusal leaves that tree as it was.
func (ts *trees) build(ctx context.Context, s *shelf, w wanted, work string) (*builder, error) {
	b := &builder{git: w.mirror.git, paths: w.paths, most: ts.most}
	old := s.claim(w)
	if old != nil {
		forward, err := s.forward(ctx, b, old, w, work)
		if forward || err != nil {
			return b, err
		}
		// A difference that is large, or does not fit (files altered by hand).
		b = &builder{git: b.git, paths: b.paths, most: b.most}
		if err := os.Rename(work, work+".bad"); err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("lay out tree: %w", err)
		}
	}
	if err := os.Mkdir(work, 0o750); err != nil {
		return nil, fmt.Errorf("lay out tree: %w", err)
	}
	return b, b.anew(ctx, work, w.tree)
}

// forward brings a claimed tree forward at work. It is false where the tree has to
// be made anew.
func (s *shelf) forward(ctx context.Context, b *builder, old *laid, w wanted, work string) (bool, error) {
	home := filepath.Join(s.dir, old.name)
	d, err := b.difference(ctx, strings.TrimPrefix(old.key, keyOf(w.paths, "")), w.tree)
	if err != nil {
		s.giveBack(old)
		if refused(err) || ctx.Err() != nil {
			return false, err
		}
		return false, nil
	}
	if os.Rename(home, work) != nil {
		return false, nil // somebody has taken it away
	}
	b.notes = old.notes.clone()
	if b.weight, err = weigh(work, old.weight); err != nil {
		return false, nil
	}
	old.weight = b.weight
	done, err := b.apply(ctx, work, d)
	switch {
	case err == nil:
		return true, nil
	case refused(err):
		if b.undo(ctx, work, d, done) == nil && os.Rename(work, home) == nil {
			s.giveBack(old)
		}
		return false, err
	case ctx.Err() != nil || diskFull(err):
		return false, err
	default:
		return false, nil
	}
}

func refused(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// claim takes a tree out of the shelf that nobody uses now: the one that is said to
// be near, else the one that was used last.
func (s *shelf) claim(w wanted) *laid {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := s.tree[keyOf(w.paths, w.near)]
	if best == nil || best.users > 0 {
		best = nil
		for _, t := range s.tree {
			if t.users == 0 && !t.built() && strings.HasPrefix(t.key, keyOf(w.paths, "")) && (best == nil || t.used.After(best.used)) {
				best = t
			}
		}
	}
	if best != nil {
		delete(s.tree, best.key)
	}
	return best
}

// giveBack puts a claimed tree back as it was.
func (s *shelf) giveBack(t *laid) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree[t.key] = t
}

// put adds a tree that its maker uses. Where somebody has made the same meanwhile,
// it is that one.
func (ts *trees) put(s *shelf, t *laid) Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.tree[t.key]
	if there != nil && (there.users > 0 || s.rename(there)) {
		ts.discard(filepath.Join(s.dir, t.name))
		return s.use(there)
	}
	s.tree[t.key] = t
	return s.use(t)
}

func (s *shelf) take(key string) (Tree, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tree[key]
	if t == nil || t.users == 0 && !s.rename(t) {
		return Tree{}, false
	}
	return s.use(t), true
}

// use hands a tree out. mu is held.
func (s *shelf) use(t *laid) Tree {
	t.users++
	t.used = time.Now()
	return Tree{Parent: s.dir, Name: t.name, Notes: t.notes.list(), done: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			_ = s.rename(t) // its own code may have told its name; take tries again
		}
	}}
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

// trim drops the oldest trees that nobody uses: so many of either kind are kept.
func (ts *trees) trim(s *shelf) {
	ts.keep(s, false, keptTrees)
	ts.keep(s, true, keptTrees)
}

func (ts *trees) keep(s *shelf, built bool, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var oldest *laid
		there := 0
		for _, t := range s.tree {
			if t.built() != built {
				continue
			}
			there++
			if t.users == 0 && (oldest == nil || t.used.Before(oldest.used)) {
				oldest = t
			}
		}
		if there <= most {
			return
		}
		if oldest == nil || ts.trash.put(filepath.Join(s.dir, oldest.name)) != nil {
			return // it stays; the next one tries again
		}
		delete(s.tree, oldest.key)
	}
}

// dropUnused drops every tree that nobody uses: the disk is full.
func (ts *trees) dropUnused() {
	ts.mu.Lock()
	shelves := slices.Collect(maps.Values(ts.repos))
	ts.mu.Unlock()
	for _, s := range shelves {
		ts.keep(s, false, 0)
		ts.keep(s, true, 0)
	}
}

// discard throws a directory away; what cannot be is dropped at the next start.
func (ts *trees) discard(dir string) {
	if os.Remove(dir) != nil { // it is not empty
		_ = ts.trash.put(dir)
	}
}

// close lets the owner list what is left. Nothing is deleted any more.
func (ts *trees) close() {
	ts.trash.close()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, s := range ts.repos {
		_ = addMode(s.dir, 0o700) // newTrees does it too
	}
}
