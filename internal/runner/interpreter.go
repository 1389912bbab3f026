package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/judge"
	"github.com/sealgate/sealgate/internal/sandbox"
)

// identity says what runs the lanes of a repository, for keys of kept results.
type identity struct {
	Python, Library, Version string
	Node, Judge              string // of what the repository names besides; empty: nothing
	Roots                    []string
	Materialised             string // how trees are made here
	Tools                    string // what a build may run; empty where there is none
}

// prepared is a driver made for one interpreter as it was.
type prepared struct {
	interpreter
	kit      candidate.Kit
	version  string // of the scripts
	named    string // identity of the interpreter and of the way to it
	identity string // of the interpreter
	seen     time.Time
}

// interpreters are those that the repositories name, with the drivers made for
// them. One that was replaced under a running daemon is another.
type interpreters struct {
	sandbox Sandbox
	dir     string // drivers are below
	data    string
	show    func(dir string) error
	log     zerolog.Logger

	mu        sync.Mutex
	turns     map[string]chan struct{} // whoever asks or makes one thing does it alone
	failed    map[string]failure       // interpreters, by language and path
	kits      map[string]*prepared     // by directory
	made      map[string]*prepared     // by language and path
	checked   map[string]bool          // libraries, by the interpreter beside them
	libraries map[string]seen          // by directory
}

func newInterpreters(c Config, work string) *interpreters {
	data, err := filepath.EvalSymlinks(c.Data)
	if err != nil {
		data = c.Data
	}
	in := &interpreters{
		sandbox: c.Sandbox, dir: filepath.Join(work, "run", "kits"), data: data, show: c.MayShow, log: c.Log,
		turns: map[string]chan struct{}{}, failed: map[string]failure{}, kits: map[string]*prepared{},
		made: map[string]*prepared{}, checked: map[string]bool{}, libraries: map[string]seen{},
	}
	_ = os.RemoveAll(in.dir) // what is left of it is written over, or is in nobody's way
	return in
}

// Identity implements laneRunner.
func (p *python) Identity(ctx context.Context, repo Repository) (identity, error) {
	repo, made, err := p.ready(ctx, repo)
	if err != nil {
		return identity{}, err
	}
	id := identity{Version: p.Version + " " + made.version, Materialised: p.materialised()}
	if id.Python, err = p.whole(made); err != nil {
		return id, err
	}
	if id.Library, err = p.contents(repo.Library); err != nil {
		return id, err
	}
	for _, root := range repo.Roots {
		seen, err := p.contents(root)
		if err != nil {
			return id, err
		}
		id.Roots = append(id.Roots, seen)
	}
	if id.Judge, err = p.contents(repo.JudgeLibrary); err != nil {
		return id, err
	}
	id.Tools = repo.Build.tools()
	if repo.Node == "" {
		return id, nil
	}
	node, err := p.node(ctx, repo)
	if err != nil {
		return id, err
	}
	whole, err := p.whole(node)
	id.Node = node.version + " " + whole
	return id, err
}

// whole names an interpreter with everything in the directories that it needs
// besides those that every command sees: pushed code imports from them.
func (in *interpreters) whole(made *prepared) (string, error) {
	parts := []string{made.identity}
	for _, root := range made.roots {
		one, err := in.contents(root)
		if err != nil {
			return "", err
		}
		parts = append(parts, one)
	}
	return strings.Join(parts, "; "), nil
}

// forget has everything looked at again that was looked at before now.
func (in *interpreters) forget() {
	in.mu.Lock()
	defer in.mu.Unlock()
	clear(in.libraries)
	for _, one := range in.made {
		one.seen = time.Time{}
	}
}

// fresh is how long an interpreter or a library that was looked at is taken to be
// the same: looking at ten thousand files takes longer than a known verdict may.
const fresh = 5 * time.Second

// seen is a library as it was at a time.
type seen struct {
	identity string
	at       time.Time
}

func (in *interpreters) contents(root string) (string, error) {
	in.mu.Lock()
	last := in.libraries[root]
	in.mu.Unlock()
	if !last.at.IsZero() && time.Since(last.at) < fresh {
		return last.identity, nil
	}
	at := time.Now()
	identity, err := libraryIdentity(root)
	if err != nil {
		return "", fmt.Errorf("look at library: %w", err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.libraries[root] = seen{identity, at}
	return identity, nil
}

// ready answers what a repository's code runs on. Where its Python is that of a
// virtual environment, that is its library, unless it names another.
func (in *interpreters) ready(ctx context.Context, repo Repository) (Repository, *prepared, error) {
	made, err := in.prepare(ctx, "python", repo.Python, findPython, judge.Prepare)
	if err != nil {
		return repo, nil, err
	}
	if repo.Library == "" {
		repo.Library = made.venv
	}
	return repo, made, in.checkLibraries(ctx, made, repo)
}

// node answers what a repository's entries for Node run on.
func (in *interpreters) node(ctx context.Context, repo Repository) (*prepared, error) {
	return in.prepare(ctx, "node", repo.Node, findNode, candidate.PrepareNode)
}

// nodeKit is the driver for invariants that ask Node, and for properties, of which any
// may; or none.
func (in *interpreters) nodeKit(ctx context.Context, repo Repository, w work) (candidate.Kit, error) {
	asked := w.seal != nil
	for _, list := range w.invariants {
		asked = asked || asksNode(list)
	}
	if repo.Node == "" || !asked {
		return candidate.Kit{}, nil
	}
	made, err := in.node(ctx, repo)
	if err != nil {
		return candidate.Kit{}, err
	}
	return made.kit, nil
}

func asksNode(list []judge.Invariant) bool {
	return slices.ContainsFunc(list, func(v judge.Invariant) bool { return v.Node })
}

type (
	finder   func(ctx context.Context, named string) (interpreter, error)
	preparer func(ctx context.Context, starter sandbox.Starter, path, dir string, roots ...string) (candidate.Kit, error)
)

// failure is why an interpreter could not be asked, for a while: it may take its
// time to fail.
type failure struct {
	err error
	way string
	at  time.Time
}

// turn waits for whoever does the same; the answer lets the next one in.
func (in *interpreters) turn(ctx context.Context, what string) (done func(), err error) {
	in.mu.Lock()
	ch := in.turns[what]
	if ch == nil {
		ch = make(chan struct{}, 1)
		in.turns[what] = ch
	}
	in.mu.Unlock()
	select {
	case ch <- struct{}{}:
		return func() { <-ch }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// prepare makes the driver for an interpreter, once for each that stands there. One
// that hangs is waited for by those alone who need it.
func (in *interpreters) prepare(ctx context.Context, language, named string, find finder, make preparer) (*prepared, error) {
	key := language + " " + named
	done, err := in.turn(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("ask %q what it is: %w", named, err)
	}
	defer done()
	if last := in.known(key, named); last != nil {
		return last, nil
	}
	at := time.Now()
	found, err := in.find(ctx, key, named, find)
	if err != nil {
		return nil, err
	}
	if err := found.mayShow(in.data, in.show); err != nil {
		return nil, err
	}
	one := &prepared{interpreter: found, seen: at}
	if one.identity, err = found.identity(); err != nil {
		return nil, err
	}
	if one.named, err = one.way(named); err != nil {
		return nil, err
	}
	if err := in.drive(ctx, language, one, make); err != nil {
		return nil, err
	}
	in.mu.Lock()
	in.made[key] = one
	in.mu.Unlock()
	if len(found.roots) > 0 {
		in.log.Info().Str("interpreter", found.path).Str("version", found.full()).Strs("shown_to_commands", found.roots).Msg("interpreter")
	}
	return one, nil
}

// known is what was made for a name, where that still leads to the same.
func (in *interpreters) known(key, named string) *prepared {
	in.mu.Lock()
	defer in.mu.Unlock()
	last := in.made[key]
	if last == nil || time.Since(last.seen) < fresh {
		return last
	}
	at := time.Now()
	if same, err := last.way(named); err != nil || same != last.named {
		return nil
	}
	last.seen = at
	return last
}

// find asks an interpreter. One that failed is not asked again at once, unless it
// was replaced.
func (in *interpreters) find(ctx context.Context, key, named string, find finder) (interpreter, error) {
	way, err := new(prepared).way(named)
	if err != nil {
		return interpreter{}, err
	}
	in.mu.Lock()
	last := in.failed[key]
	in.mu.Unlock()
	if last.err != nil && last.way == way && time.Since(last.at) < fresh {
		return interpreter{}, last.err
	}
	found, err := find(ctx, named)
	if err != nil && ctx.Err() == nil {
		in.mu.Lock()
		in.failed[key] = failure{err, way, time.Now()}
		in.mu.Unlock()
	}
	return found, err
}

// drive gives an interpreter its driver: that of another name of it, or one that is
// made.
func (in *interpreters) drive(ctx context.Context, language string, one *prepared, make preparer) (err error) {
	dir := filepath.Join(in.dir, digestOf(language, one.identity, strings.Join(one.roots, "\x00"))[:16])
	done, err := in.turn(ctx, dir)
	if err != nil {
		return fmt.Errorf("prepare driver: %w", err)
	}
	defer done()
	in.mu.Lock()
	same := in.kits[dir]
	in.mu.Unlock()
	if same != nil {
		one.kit, one.version = same.kit, same.version
		return nil
	}
	if err := in.room(dir); err != nil {
		return fmt.Errorf("prepare driver: %w", err)
	}
	if one.kit, err = make(ctx, in.sandbox, one.path, dir, one.roots...); err != nil {
		return errors.Join(in.unreachable(one.interpreter), err)
	}
	if one.version, err = scriptsDigest(dir); err != nil {
		return fmt.Errorf("prepare driver: %w", err)
	}
	in.mu.Lock()
	in.kits[dir] = one
	in.mu.Unlock()
	return nil
}

// way is the interpreter as it is now, and where its name leads.
func (p *prepared) way(named string) (string, error) {
	real, err := filepath.EvalSymlinks(named)
	if err != nil {
		return "", fmt.Errorf("find interpreter: %w", err)
	}
	first, err := statIdentity(real)
	if err != nil {
		return "", fmt.Errorf("look at interpreter: %w", err)
	}
	rest, err := p.interpreter.identity()
	return first + "; " + rest, err
}

// room makes an empty directory for a driver.
func (in *interpreters) room(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := dir; d != filepath.Dir(filepath.Dir(in.dir)); d = filepath.Dir(d) { // nothing secret, and slots must read it
		if err := os.Chmod(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// unreachable says which directory on the way to an interpreter is closed to those
// whom commands run as, or nothing.
func (in *interpreters) unreachable(found interpreter) error {
	if in.sandbox.SingleUID() {
		return nil
	}
	for _, root := range found.roots {
		for dir := root; dir != "/"; dir = filepath.Dir(dir) {
			info, err := os.Stat(dir)
			if err == nil && info.Mode().Perm()&0o001 == 0 {
				return fmt.Errorf("commands run as users who cannot pass %q (mode %#o), which is on the way to %q: open it to them (chmod o+x), or name an interpreter that lies somewhere else",
					dir, info.Mode().Perm(), found.path)
			}
		}
	}
	return nil
}

// checkLibraries refuses libraries that could not be used as they are meant.
func (in *interpreters) checkLibraries(ctx context.Context, made *prepared, repo Repository) error {
	key := strings.Join([]string{made.identity, repo.Library, repo.JudgeLibrary}, "\x00")
	done, err := in.turn(ctx, key)
	if err != nil {
		return fmt.Errorf("look at libraries: %w", err)
	}
	defer done()
	in.mu.Lock()
	checked := in.checked[key]
	in.mu.Unlock()
	if checked {
		return nil
	}
	err = in.checkLibrary(ctx, made, sandbox.Candidate, repo.Library)
	if err == nil {
		err = in.checkLibrary(ctx, made, sandbox.Judge, repo.JudgeLibrary)
	}
	in.mu.Lock()
	in.checked[key] = err == nil
	in.mu.Unlock()
	return err
}

const askReadable = `import os, sys; sys.exit(0 if os.access(sys.argv[1], os.R_OK | os.X_OK) else 7)`

func (in *interpreters) checkLibrary(ctx context.Context, made *prepared, role sandbox.Role, root string) error {
	if root == "" {
		return nil
	}
	if err := checkDirectory(made.interpreter, root, in.data, in.show); err != nil {
		return err
	}
	for _, fact := range made.unread(root) {
		in.log.Warn().Msg(fact)
	}
	spec := sandbox.Spec{
		Role:   role,
		Argv:   []string{made.path, "-I", "-S", "-B", "-c", askReadable, candidate.LibraryDir},
		Binds:  []sandbox.Bind{{Source: root, Target: candidate.LibraryDir}},
		Limits: sandbox.Limits{Wall: 30 * time.Second},
	}
	for _, dir := range made.roots {
		spec.Binds = append(spec.Binds, sandbox.Bind{Source: dir, Target: dir})
	}
	process, err := in.sandbox.Start(ctx, spec)
	if err != nil {
		return fmt.Errorf("look at library %q: %w", root, err)
	}
	res, err := process.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("look at library %q: %w", root, err)
	case res.Exit == 7:
		return fmt.Errorf("library %q cannot be read by those whom commands run as: open it to them (chmod -R o+rX)", root)
	case res.Exit != 0:
		return errors.Join(in.unreachable(interpreter{path: root, roots: []string{root}}), fmt.Errorf("look at library %q: exit status %d %s: %.300q", root, res.Exit, res.Signal, res.Stderr))
	default:
		return nil
	}
}

// checkDirectory looks at a library from outside of the sandbox.
func checkDirectory(i interpreter, root, data string, show func(dir string) error) error {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("find library: %w", err)
	}
	if err := showable(real, data, show); err != nil {
		return fmt.Errorf("library %q, which pushed code then sees: %w", root, err)
	}
	return i.fits(root)
}

// Look asks the interpreters that a repository names, outside of any sandbox, and
// answers what an admin should know about them. data and show say what pushed code
// must not see; both may be missing.
func Look(ctx context.Context, repo Repository, data string, show func(dir string) error) (facts []string, err error) {
	python, err := findPython(ctx, repo.Python)
	if err != nil {
		return nil, err
	}
	found := []interpreter{python}
	facts = append(facts, python.fact("Python"))
	var faults []error
	if repo.Node != "" {
		node, err := findNode(ctx, repo.Node)
		if err != nil {
			faults = append(faults, err)
		} else {
			facts, found = append(facts, node.fact("Node")), append(found, node)
		}
	}
	for _, i := range found {
		faults = append(faults, i.mayShow(data, show))
	}
	library := repo.Library
	if library == "" {
		library = python.venv
	}
	for _, root := range []string{library, repo.JudgeLibrary} {
		if root == "" {
			continue
		}
		faults = append(faults, checkDirectory(python, root, data, show))
		facts = append(facts, python.unread(root)...)
	}
	return facts, errors.Join(faults...)
}

func (i interpreter) fact(language string) string {
	text := fmt.Sprintf("%s %s, %s", language, i.full(), i.path)
	if i.venv != "" {
		text += ", with the library " + i.venv
	}
	if len(i.roots) > 0 {
		text += "; commands see " + strings.Join(i.roots, ", ")
	}
	return text
}

// scriptsDigest names the drivers: another one may judge differently.
func scriptsDigest(dir string) (string, error) {
	var files []string
	for _, pattern := range []string{"*.py", "*.cjs"} {
		some, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		files = append(files, some...)
	}
	slices.Sort(files)
	h := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\x00", filepath.Base(file), len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
