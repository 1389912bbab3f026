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
	"time"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/proc"
	"github.com/sealgate/sealgate/internal/replay"
)

// Bounds of a mirror.
const (
	maxHavesSent  = 128
	packsBeforeGC = 40
	refsBeforeGC  = 500
	havePrefix    = "refs/sealgate/have/"
	addedPrefix   = "refs/sealgate/added/"
)

// mirror is hookd's own bare copy of one repository. What lies in it is closed:
// an object comes in only together with everything it refers to, so a commit
// that exists is there with its whole history and every tree of it.
type mirror struct {
	git
	gc sync.RWMutex // read: work that must not be disturbed; write: repacking

	mu    sync.Mutex
	repo  *gitrepo.Repo
	haves []string // newest last
	ended bool
}

// errLacking says that a commit is not in the mirror and nobody brings it.
var errLacking = errors.New("the mirror lacks it")

// mirrors are all of a daemon.
type mirrors struct {
	git  string
	root string

	mu   sync.Mutex
	open map[string]*mirror
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
	m := &mirror{git: git{path: ms.git, dir: ms.dir(id)}}
	if err := m.create(ctx, idLength); err != nil {
		return nil, fmt.Errorf("open mirror of %s: %w", id, err)
	}
	if err := m.load(ctx); err != nil {
		return nil, fmt.Errorf("open mirror of %s: %w", id, err)
	}
	ms.open[id] = m
	return m, m.sameFormat(ctx, idLength)
}

func (ms *mirrors) close() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.open {
		m.mu.Lock()
		m.ended = true
		if m.repo != nil {
			_ = m.repo.Close()
		}
		m.mu.Unlock()
	}
}

// create makes the repository aside, so that a crash leaves no half one.
func (m *mirror) create(ctx context.Context, idLength int) error {
	if _, err := os.Stat(filepath.Join(m.dir, "HEAD")); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(m.dir), 0o700); err != nil {
		return err
	}
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
	init := proc.Spec{Path: m.path, Env: made.env(), Timeout: gitTime,
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
	return os.Rename(aside, m.dir)
}

// clean drops what a crash left behind in all mirrors. Nobody else may be at work.
func (ms *mirrors) clean() error {
	for _, pattern := range []string{"*.git/incoming-*", ".new-*"} {
		stale, err := filepath.Glob(filepath.Join(ms.root, pattern))
		if err != nil {
			return err
		}
		for _, dir := range stale {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("clean mirrors: %w", err)
			}
		}
	}
	return nil
}

// load reads which commits were received, oldest first. m.mu is held, or nobody
// else has the mirror yet.
func (m *mirror) load(ctx context.Context) error {
	spec := m.spec("for-each-ref", "--sort=committerdate", "--format=%(objectname)", havePrefix, addedPrefix)
	spec.Limit = 64 << 20
	got, err := m.run(ctx, 0, spec)
	if err != nil {
		return err
	}
	m.haves = strings.Fields(string(got.Stdout))
	return nil
}

func (m *mirror) sameFormat(ctx context.Context, idLength int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.haves) > 0 && len(m.haves[0]) != idLength {
		return fmt.Errorf("open mirror: object ids have %d digits, its own have %d", idLength, len(m.haves[0]))
	}
	return nil
}

// reader is the shared way to look things up. A git that died is replaced.
func (m *mirror) reader(ctx context.Context) (*gitrepo.Repo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil, errors.New("the daemon is stopping")
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
	repo, err := m.reader(ctx)
	if err != nil {
		return gitrepo.Object{}, nil, err
	}
	o, data, err := repo.Read(ctx, name, most)
	if err != nil && !errors.Is(err, gitrepo.ErrMissing) && !errors.Is(err, gitrepo.ErrTooLarge) {
		m.dropReader(repo)
	}
	return o, data, err
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

// newest are the commits that a hook need not send again.
func (m *mirror) newest() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	tail := m.haves[max(0, len(m.haves)-maxHavesSent):]
	list := slices.Clone(tail)
	slices.Reverse(list)
	return list
}

// receive brings the commits in, through fetch where the mirror lacks one. It
// checks that the request's commit has the request's tree. A base that does not
// come along (a hook packs what the commit reaches) is for the caller to miss.
func (m *mirror) receive(ctx context.Context, r replay.Request, limit int64, fetch func(ctx context.Context, haves []string) (io.Reader, error)) error {
	whole, err := m.has(ctx, r)
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
		pack, err := fetch(ctx, m.newest())
		if err != nil {
			return err
		}
		if err := m.take(ctx, pack, limit); err != nil {
			return err
		}
		r.Base = ""
		if whole, err = m.has(ctx, r); err != nil {
			return err
		}
		if !whole {
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
	return m.keep(r.New)
}

func (m *mirror) has(ctx context.Context, r replay.Request) (bool, error) {
	names := []string{r.New, r.Authorised}
	if r.Base != "" {
		names = append(names, r.Base)
	}
	objects, err := m.info(ctx, names...)
	if err != nil {
		return false, err
	}
	for i, o := range objects {
		if o.Type != gitrepo.Commit || o.ID != names[i] {
			return false, nil
		}
	}
	return true, nil
}

// take indexes a thin pack in a directory of its own and moves it into the
// mirror when every object that it refers to is there. What the mirror had is
// closed, so looking at the links of the new objects is enough.
func (m *mirror) take(ctx context.Context, pack io.Reader, limit int64) error {
	m.gc.RLock()
	defer m.gc.RUnlock()
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
	spec.Stdin = first
	// Exit status 1 says that links lead out of the pack, into the mirror: it is thin.
	if _, err := m.run(ctx, 1, spec); err != nil {
		return fmt.Errorf("receive objects: %w", errors.Join(first.err, err))
	}
	if first.err != nil {
		return fmt.Errorf("receive objects: %w", first.err)
	}
	return m.migrate(quarantine)
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

// keep writes the ref that protects a received commit from pruning and offers
// it as a have.
func (m *mirror) keep(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.haves[max(0, len(m.haves)-maxHavesSent):], id) {
		return nil
	}
	dir := filepath.Join(m.dir, filepath.FromSlash(havePrefix))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep commit %s: %w", id, err)
	}
	if err := writeAside(filepath.Join(dir, id), []byte(id+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep commit %s: %w", id, err)
	}
	m.haves = append(m.haves, id)
	return nil
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
	m.gc.RLock()
	defer m.gc.RUnlock()
	if err := os.WriteFile(safe, []byte("[safe]\n\tdirectory = *\n"), 0o600); err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	spec := m.spec("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", from,
		"+refs/heads/*:"+addedPrefix+"*")
	// The other side runs in the repository's own folder, which belongs to
	// somebody else; nothing but this file lets git read it.
	spec.Env = append(m.env(), "GIT_CONFIG_GLOBAL="+safe)
	spec.Env = slices.DeleteFunc(spec.Env, func(s string) bool { return s == "GIT_CONFIG_GLOBAL="+os.DevNull })
	if _, err := m.run(ctx, 0, spec); err != nil {
		return 0, fmt.Errorf("fill mirror from %q: %w", from, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(ctx); err != nil {
		return 0, fmt.Errorf("fill mirror: %w", err)
	}
	return len(m.haves), nil
}

// tidy repacks when there are more packs than most. It never drops an object.
func (m *mirror) tidy(ctx context.Context, most int) error {
	packs, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.idx"))
	if err != nil {
		return err
	}
	if len(packs) > most {
		m.gc.Lock()
		defer m.gc.Unlock()
		spec := m.spec("repack", "-d", "-q", "--geometric=2", "--no-write-bitmap-index")
		spec.Timeout = 10 * time.Minute
		if _, err := m.run(ctx, 0, spec); err != nil {
			return fmt.Errorf("repack mirror: %w", err)
		}
	}
	refs, err := os.ReadDir(filepath.Join(m.dir, filepath.FromSlash(havePrefix)))
	if err != nil || len(refs) <= refsBeforeGC {
		return nil // no refs yet, or few
	}
	if _, err := m.run(ctx, 0, m.spec("pack-refs", "--all")); err != nil {
		return fmt.Errorf("pack refs of mirror: %w", err)
	}
	return nil
}

// patchID is git's stable patch id of the change from a to b; empty where there
// is no change.
func (m *mirror) patchID(ctx context.Context, a, b string) (string, error) {
	diff, err := proc.Start(ctx, m.spec("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", a, b))
	if err != nil {
		return "", err
	}
	_ = diff.Stdin.Close()
	spec := m.spec("patch-id", "--stable")
	spec.Stdin = io.LimitReader(diff.Stdout, 256<<20)
	got, err := m.run(ctx, 0, spec)
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
