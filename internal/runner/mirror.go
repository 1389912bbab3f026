package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/proc"
	"github.com/sealgate/sealgate/internal/replay"
)

// mirror is hookd's own bare copy of one repository. What lies in it is closed:
// an object comes in only together with everything it refers to, so a commit
// that exists is there with its whole history and every tree of it.
type mirror struct {
	git
	gc     sync.RWMutex  // read: work that must not be disturbed; write: repacking
	places chan struct{} // bounds packs that come in at the same time; nil: nothing does

	mu       sync.Mutex
	repo     *gitrepo.Repo
	arrivals arrivals
	ended    error // why it is not to be used any more; nil: it is

	taken atomic.Int32 // packs since it was tidied
	doubt atomic.Bool  // git could not read something
}

// errLacking says that a commit is not in the mirror and nobody brings it.
var errLacking = errors.New("the mirror lacks it")

// mirrors are all of a daemon.
type mirrors struct {
	git    string
	root   string
	log    zerolog.Logger
	places chan struct{} // of all mirrors
	want   chan struct{} // somebody has work for tidy; nil where nobody tidies

	mu     sync.Mutex
	open   map[string]*mirror
	mended map[string]time.Time // when one was made anew, or found whole
}

func (ms *mirrors) dir(id string) string { return filepath.Join(ms.root, id+".git") }

// at opens a repository's mirror and makes it where there is none; idLength
// tells SHA-1 from SHA-256.
func (ms *mirrors) at(ctx context.Context, id string, idLength int) (*mirror, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.open[id]; m != nil {
		return m, m.sameFormat(ctx, idLength)
	}
	m, err := ms.openOne(ctx, id, idLength)
	if errors.Is(err, errUnreadable) && ms.mayMend(id) {
		if err = ms.putAside(id, err); err == nil {
			m, err = ms.openOne(ctx, id, idLength)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open mirror of %s: %w", id, err)
	}
	ms.open[id] = m
	return m, m.sameFormat(ctx, idLength)
}

func (ms *mirrors) openOne(ctx context.Context, id string, idLength int) (*mirror, error) {
	m := &mirror{git: git{path: ms.git, dir: ms.dir(id)}, places: ms.places, arrivals: arrivals{file: filepath.Join(ms.dir(id), arrivalsName)}}
	if err := m.create(ctx, idLength, filepath.Join(ms.root, busyName)); err != nil {
		return nil, err
	}
	if err := m.isRepository(ctx); err != nil {
		return nil, err
	}
	return m, m.load(ctx)
}

func (ms *mirrors) close() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.open {
		m.end(errors.New("the daemon is stopping"))
	}
}

// end closes a mirror to all who have it.
func (m *mirror) end(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = why
	if m.repo != nil {
		_ = m.repo.Close()
		m.repo = nil
	}
}

// create makes the repository aside, so that a crash leaves no half one.
func (m *mirror) create(ctx context.Context, idLength int, busy string) error {
	if _, err := os.Lstat(m.dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(m.dir), 0o700); err != nil {
		return err
	}
	work, err := beginWork(ctx, busy)
	if err != nil {
		return err
	}
	defer work.Close()
	aside, err := os.MkdirTemp(filepath.Dir(m.dir), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	format := "sha1"
	if idLength == 64 {
		format = "sha256"
	}
	made := git{path: m.path, dir: aside}
	init := proc.Spec{Path: m.path, Env: made.env(), Timeout: gitTime, Hold: work,
		Args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format, "--initial-branch=sealgate-none", aside}}
	if _, err := made.run(ctx, 0, init); err != nil {
		return err
	}
	for _, setting := range [][2]string{
		{"gc.auto", "0"}, {"receive.denyDeletes", "true"}, {"core.logAllRefUpdates", "false"}, {"transfer.unpackLimit", "1"},
		{"core.hooksPath", "/nonexistent"}, {"core.protectNTFS", "true"}, {"pack.threads", "1"}, {"uploadpack.allowAnySHA1InWant", "false"},
	} {
		if _, err := made.run(ctx, 0, made.spec("config", setting[0], setting[1])); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(m.dir), asideName+strings.TrimSuffix(filepath.Base(m.dir), ".git"))); err == nil {
		if err := os.WriteFile(filepath.Join(aside, anewName), nil, 0o600); err != nil {
			return err
		}
	}
	return os.Rename(aside, m.dir)
}

// clean drops what a crash left behind in all mirrors, but for what somebody
// still works on: a replay by hand, or a git that outlived the daemon.
func (ms *mirrors) clean(ctx context.Context) error {
	stale, err := filepath.Glob(filepath.Join(ms.root, "*.git"))
	if err != nil {
		return err
	}
	for _, dir := range stale {
		if err := ms.drop(ctx, filepath.Join(dir, busyName), leftovers(dir)...); err != nil {
			return err
		}
	}
	return ms.drop(ctx, filepath.Join(ms.root, busyName), filepath.Join(ms.root, ".new-*"))
}

// leftovers are the names of what a push, and a git that was killed, leave behind.
func leftovers(dir string) []string {
	names := []string{"incoming-*", "*.lock", "objects/tmp_*", "objects/??/tmp_*", "objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/pack/*.lock",
		"objects/info/*.lock", "objects/info/commit-graphs/*.lock", "refs/sealgate/*.lock", "refs/sealgate/*/*.lock", "refs/sealgate/*/.new-*.lock"}
	for i, name := range names {
		names[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return names
}

func (ms *mirrors) drop(ctx context.Context, busy string, patterns ...string) error {
	var stale []string
	for _, pattern := range patterns {
		some, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		stale = append(stale, some...)
	}
	if len(stale) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	alone, err := workAlone(ctx, busy)
	if err != nil {
		ms.log.Warn().Err(err).Strs("left", stale).Msg("mirrors: somebody is at work; left as it is")
		return nil
	}
	defer alone.Close()
	for _, dir := range stale {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("clean mirrors: %w", err)
		}
	}
	return nil
}

func (m *mirror) sameFormat(ctx context.Context, idLength int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if own := m.arrivals.newest(1); len(own) > 0 && len(own[0]) != idLength {
		return fmt.Errorf("open mirror: object ids have %d digits, its own have %d", idLength, len(own[0]))
	}
	return nil
}

// reader is the shared way to look things up. A git that died is replaced.
func (m *mirror) reader(ctx context.Context) (*gitrepo.Repo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return nil, m.ended
	}
	if m.repo != nil {
		return m.repo, nil
	}
	repo, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: m.dir, Git: m.path})
	if err != nil {
		return nil, err
	}
	if err := repo.Start(); err != nil {
		return nil, err
	}
	m.repo = repo
	return repo, nil
}

// dropReader is called after an error: the next look-up starts a fresh git.
func (m *mirror) dropReader(repo *gitrepo.Repo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.repo == repo && repo != nil {
		_ = repo.Close()
		m.repo = nil
	}
}

// info looks names up; missing ones are Missing.
func (m *mirror) info(ctx context.Context, names ...string) ([]gitrepo.Object, error) {
	for again := false; ; again = true {
		repo, err := m.reader(ctx)
		if err != nil {
			return nil, err
		}
		objects, err := repo.Info(ctx, names...)
		if err == nil {
			return objects, nil
		}
		m.dropReader(repo)
		if again || ctx.Err() != nil {
			return nil, err
		}
	}
}

// read reads one object; gitrepo.ErrMissing and gitrepo.ErrTooLarge are told apart.
func (m *mirror) read(ctx context.Context, name string, most int64) (gitrepo.Object, []byte, error) {
	for again := false; ; again = true {
		repo, err := m.reader(ctx)
		if err != nil {
			return gitrepo.Object{}, nil, err
		}
		o, data, err := repo.Read(ctx, name, most)
		if err == nil || errors.Is(err, gitrepo.ErrMissing) || errors.Is(err, gitrepo.ErrTooLarge) {
			return o, data, err
		}
		m.dropReader(repo)
		if again || ctx.Err() != nil {
			return o, data, err
		}
	}
}

// isCommit says whether an id is a commit that the mirror has, with everything
// it reaches.
func (m *mirror) isCommit(ctx context.Context, id string) (bool, error) {
	o, err := m.info(ctx, id)
	return err == nil && o[0].Type == gitrepo.Commit && o[0].ID == id, err
}

func (m *mirror) isAncestor(ctx context.Context, a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	spec := m.spec("merge-base", "--is-ancestor", "--end-of-options", a, b)
	spec.Timeout = gitTime
	got, err := m.run(ctx, 1, spec)
	return err == nil && got.Code == 0, err
}

// receive brings the commits in, through fetch where the mirror lacks one. It
// checks that the request's commit has the request's tree. A base that does not
// come along (a hook packs what the commit reaches) is for the caller to miss.
func (m *mirror) receive(ctx context.Context, r replay.Request, limit int64, fetch func(ctx context.Context, haves []string) (io.Reader, error)) error {
	known, whole, err := m.has(ctx, r)
	if err != nil {
		return err
	}
	if !whole {
		if fetch == nil {
			return fmt.Errorf("find commit %s: %w", r.New, errLacking)
		}
		// Another process may have filled the mirror since.
		m.mu.Lock()
		err := m.load(ctx)
		m.mu.Unlock()
		if err != nil {
			return err
		}
		if err := m.bring(ctx, known, limit, fetch); err != nil {
			return err
		}
		whole := r
		whole.Base, whole.Old = "", ""
		_, here, err := m.has(ctx, whole)
		if err != nil {
			return err
		}
		if !here {
			return fmt.Errorf("receive objects: the pack lacks commit %s or %s, whose protected paths count: %w", r.New, r.Authorised, errLacking)
		}
	}
	o, err := m.info(ctx, r.New+"^{tree}")
	if err != nil {
		return err
	}
	if o[0].ID != r.Tree {
		return fmt.Errorf("check commit %s: its tree is %s, the request says %s", r.New, o[0].ID, r.Tree)
	}
	for _, id := range append(known, r.New) {
		if err := m.keep(id); err != nil {
			return err
		}
	}
	return nil
}

// bring has a pack sent and takes it, once the mirror is not being repacked and
// there is a place to receive in.
func (m *mirror) bring(ctx context.Context, known []string, limit int64, fetch fetcher) error {
	if err := await(ctx, m.gc.TryRLock); err != nil {
		return fmt.Errorf("receive objects: %w", err)
	}
	defer m.gc.RUnlock()
	if m.places != nil {
		select {
		case m.places <- struct{}{}:
			defer func() { <-m.places }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	pack, err := fetch(ctx, m.haves(known))
	if err != nil {
		return err
	}
	return m.take(ctx, pack, limit)
}

// has says which of the commits that a request builds on are here, and whether all
// are that it needs.
func (m *mirror) has(ctx context.Context, r replay.Request) (known []string, whole bool, err error) {
	needed := []string{r.New, r.Authorised}
	if r.Base != "" {
		needed = append(needed, r.Base)
	}
	names := needed
	if r.Old != "" {
		names = append(slices.Clip(needed), r.Old)
	}
	objects, err := m.info(ctx, names...)
	if err != nil {
		return nil, false, err
	}
	whole = true
	for i, o := range objects {
		here := o.Type == gitrepo.Commit && o.ID == names[i]
		whole = whole && (here || i >= len(needed))
		if here && names[i] != r.New && !slices.Contains(known, names[i]) {
			known = append(known, names[i])
		}
	}
	return known, whole, nil
}

// take indexes a thin pack in a directory of its own and moves it into the
// mirror when every object that it refers to is there. What the mirror had is
// closed, so looking at the links of the new objects is enough.
func (m *mirror) take(ctx context.Context, pack io.Reader, limit int64) error {
	work, err := beginWork(ctx, filepath.Join(m.dir, busyName))
	if err != nil {
		return fmt.Errorf("receive objects: %w", err)
	}
	defer work.Close()
	quarantine, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return fmt.Errorf("receive objects: %w", err)
	}
	defer os.RemoveAll(quarantine)
	if err := os.Mkdir(filepath.Join(quarantine, "pack"), 0o700); err != nil {
		return fmt.Errorf("receive objects: %w", err)
	}
	first := &firstByte{r: pack}
	spec := m.spec("index-pack", "--stdin", "--fix-thin", "--check-self-contained-and-connected", fmt.Sprintf("--max-input-size=%d", limit))
	spec.Env = m.env("GIT_OBJECT_DIRECTORY="+quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(m.dir, "objects"))
	spec.Stdin, spec.Hold = first, work
	// Exit status 1 says that links lead out of the pack, into the mirror: it is thin.
	_, err = m.run(ctx, 1, spec)
	switch {
	case first.err != nil: // whatever git says of what came: the mirror is as it was
		return fmt.Errorf("receive objects: %w", first.err)
	case err != nil && strings.Contains(err.Error(), "early EOF"):
		return fmt.Errorf("receive objects: the pack ends early: %s", err.Error()) // no doubt about the mirror
	case err != nil:
		return fmt.Errorf("receive objects: %w", err)
	}
	if err := m.migrate(quarantine); err != nil {
		return err
	}
	m.taken.Add(1)
	return nil
}

// firstByte remembers how reading a pack ended: index-pack only says that its
// input was short.
type firstByte struct {
	r   io.Reader
	err error
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// migrate moves packs, the index last: a pack counts from its index on.
func (m *mirror) migrate(quarantine string) error {
	from, to := filepath.Join(quarantine, "pack"), filepath.Join(m.dir, "objects", "pack")
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("receive objects: %w", err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return rank(a.Name()) - rank(b.Name()) })
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "pack-") || strings.HasSuffix(e.Name(), ".keep") {
			continue
		}
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return fmt.Errorf("receive objects: %w", err)
		}
	}
	return syncDir(to)
}

func rank(name string) int {
	if filepath.Ext(name) == ".idx" {
		return 1
	}
	return 0
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeAside writes a file so that it is there whole or not at all.
func writeAside(file string, data []byte, mode fs.FileMode) error {
	// A dot keeps git from taking the file for a ref.
	aside, err := os.CreateTemp(filepath.Dir(file), ".new-*.lock")
	if err != nil {
		return err
	}
	defer os.Remove(aside.Name())
	_, err = aside.Write(data)
	err = errors.Join(err, aside.Chmod(mode), aside.Close())
	if err != nil {
		return err
	}
	return os.Rename(aside.Name(), file)
}

// add fills the mirror from a repository on this host.
func (m *mirror) add(ctx context.Context, from, safe string) (int, error) {
	if err := await(ctx, m.gc.TryRLock); err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	defer m.gc.RUnlock()
	work, err := beginWork(ctx, filepath.Join(m.dir, busyName))
	if err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	defer work.Close()
	if err := os.WriteFile(safe, []byte("[safe]\n\tdirectory = *\n"), 0o600); err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	spec := m.spec("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", from,
		"+refs/heads/*:"+addedPrefix+"*")
	// The other side runs in the repository's own folder, which belongs to
	// somebody else; nothing but this file lets git read it.
	spec.Env = append(m.env(), "GIT_CONFIG_GLOBAL="+safe)
	spec.Hold = work
	spec.Env = slices.DeleteFunc(spec.Env, func(s string) bool { return s == "GIT_CONFIG_GLOBAL="+os.DevNull })
	if _, err := m.run(ctx, 0, spec); err != nil {
		return 0, fmt.Errorf("fill mirror from %q: %w", from, err)
	}
	tips := m.spec("for-each-ref", "--sort=committerdate", "--format=%(objectname)", addedPrefix)
	tips.Limit = 64 << 20
	got, err := m.run(ctx, 0, tips)
	if err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	ids := strings.Fields(string(got.Stdout))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.arrivals.add(ids...); err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	if err := os.Remove(filepath.Join(m.dir, anewName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	slices.Sort(ids)
	return len(slices.Compact(ids)), nil
}

// tidy repacks when there are more packs than most. It never drops an object.
func (m *mirror) tidy(ctx context.Context, most int) error {
	m.taken.Store(0)
	packs, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.idx"))
	if err != nil {
		return err
	}
	if len(packs) > most {
		if err := m.repack(ctx); err != nil {
			return fmt.Errorf("repack mirror: %w", err)
		}
	}
	return m.prune(ctx)
}

func (m *mirror) repack(ctx context.Context) error {
	alone, err := m.quiet(ctx)
	if err != nil {
		return err
	}
	defer m.gc.Unlock()
	defer alone.Close()
	spec := m.spec("repack", "-d", "-q", "--geometric=2", "--no-write-bitmap-index")
	spec.Timeout, spec.Hold = 10*time.Minute, alone
	if _, err := m.run(ctx, 0, spec); err != nil {
		return err
	}
	// The reader has the packs open that are gone now, and their bytes on the disk.
	m.mu.Lock()
	repo := m.repo
	m.mu.Unlock()
	m.dropReader(repo)
	return nil
}

// quiet waits until nobody is at work on the mirror, here or in another process.
// Pushes wait for it in their turn: it does not wait long.
func (m *mirror) quiet(ctx context.Context) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := await(ctx, m.gc.TryLock); err != nil {
		return nil, fmt.Errorf("pushes come in: %w", err)
	}
	alone, err := workAlone(ctx, filepath.Join(m.dir, busyName))
	if err != nil {
		m.gc.Unlock()
	}
	return alone, err
}

// await takes a lock; who waits keeps nobody from it.
func await(ctx context.Context, try func() bool) error {
	for !try() {
		if !sleep(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// bounded refuses a commit that has more entries than any that is judged.
func (m *mirror) bounded(ctx context.Context, commit string) error {
	return m.listTree(ctx, commit, treeBounds.entries, func([]byte) error { return nil })
}

// Bounds of the search for a patch id.
const patchTime = 10 * time.Second

var mostPatch int64 = 256 << 20

// patchID is git's stable patch id of the change from a to b; empty where there
// is no change.
//
// It only helps people: it has a time of its own, so that a decision has the rest. git
// holds the difference in memory; look at bounded first.
func (m *mirror) patchID(ctx context.Context, a, b string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patchTime)
	defer cancel()
	diff, err := proc.Start(ctx, m.spec("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", a, b))
	if err != nil {
		return "", err
	}
	_ = diff.Stdin.Close()
	spec := m.spec("patch-id", "--stable")
	change := &io.LimitedReader{R: diff.Stdout, N: mostPatch}
	spec.Stdin = change
	got, err := m.run(ctx, 0, spec)
	if err == nil && change.N <= 0 { // git waits for somebody to read the rest
		err = fmt.Errorf("the change has more than %d bytes", mostPatch)
	}
	if err != nil {
		diff.Stop()
		return "", err
	}
	if code, err := diff.Wait(); err != nil || code != 0 {
		return "", errors.Join(err, fmt.Errorf("git diff-tree: exit status %d", code))
	}
	id, _, _ := strings.Cut(string(got.Stdout), " ")
	return id, nil
}
