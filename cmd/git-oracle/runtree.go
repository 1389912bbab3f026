package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/policy"
)

const (
	gateLookUp = 10 * time.Second
	maxLaid    = 1 << 30 // bytes of a file that is checked out
)

// subject is what is run: the working tree as it is, or the files of a commit.
type subject struct {
	dir     string // the tree that the code runs in
	owned   string // the directory with the oracle files
	commit  string // empty: there is none yet
	tree    string // of commit
	clean   bool   // dir has the files of commit and nothing else
	scratch string // what the run makes is below

	fill func(ctx context.Context) error // brings into dir what was held back
}

func (s *subject) close() { _ = os.RemoveAll(s.scratch) } // the system clears what code of another hand locked

func (s *subject) describe() string {
	if s.clean {
		return "commit " + short(s.commit)
	}
	return "this working tree"
}

// oracles reads the oracle files.
func (s *subject) oracles(ctx context.Context) (oracle.Set, error) {
	tree, err := oracle.DirTree(s.owned)
	if err != nil {
		return oracle.Set{}, undecided("list the oracle files", err)
	}
	set, err := oracle.Load(ctx, tree)
	if err != nil {
		return oracle.Set{}, undecided("read the oracle files", err)
	}
	return set, nil
}

// subject finds out what is to be run. A report names a tree, so that what is
// run for one must be that tree's files: tracked files as they are committed.
// Files that are not tracked may lie about; finding out what depends on them is
// what the clean run is for.
func (c *clone) subject(ctx context.Context, opts runOptions, sight *gateSight) (*subject, error) {
	s := &subject{fill: func(context.Context) error { return nil }}
	rev := opts.commit
	if rev == "" {
		rev = "HEAD"
	}
	var err error
	if s.commit, err = c.commit(ctx, rev); err != nil && (opts.commit != "" || opts.reports()) {
		return nil, refused(fmt.Sprintf("%s names no commit here", quoted(rev)))
	}
	if s.commit != "" {
		if s.tree, err = c.line(ctx, "rev-parse", "--verify", "--end-of-options", s.commit+"^{tree}"); err != nil {
			return nil, undecided("find the tree of "+short(s.commit), err)
		}
	}
	if opts.commit == "" {
		if s.dir, err = c.top(ctx); err != nil {
			return nil, refused("there is no working tree here", "name the commit to run:  git oracle run --commit REV")
		}
		s.owned = s.dir
		if opts.reports() {
			if err := c.asCommitted(ctx); err != nil {
				return nil, err
			}
		}
	}
	if err := s.makeScratch(); err != nil {
		return nil, err
	}
	if opts.commit != "" {
		err = c.checkOut(ctx, s, sight)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *subject) makeScratch() error {
	dir, err := os.MkdirTemp("", "git-oracle-run-")
	if err == nil {
		s.scratch = dir
		s.scratch, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return undecided("make a temporary directory", err)
	}
	return nil
}

// asCommitted wants tracked files, and everything below oracles/, to be as HEAD
// has them.
func (c *clone) asCommitted(ctx context.Context) error {
	tracked, err := c.out(ctx, "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames")
	if err != nil {
		return undecided("compare the working tree with HEAD", err)
	}
	owned, err := c.out(ctx, "status", "--porcelain", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames", "--", ":(top)"+oracle.Dir)
	if err != nil {
		return undecided("compare the working tree with HEAD", err)
	}
	var names []string
	for entry := range strings.SplitSeq(string(tracked)+string(owned), "\x00") {
		if len(entry) > 3 && !slices.Contains(names, entry[3:]) {
			names = append(names, entry[3:])
		}
	}
	if len(names) == 0 {
		return nil
	}
	more := ""
	if len(names) > 1 {
		more = fmt.Sprintf(" and %d more", len(names)-1)
	}
	return refused(fmt.Sprintf("a report names the tree of a commit, and the working tree differs from HEAD in %s%s", quoted(names[0]), more),
		"commit or stash that first, or run what is committed:  git oracle run --commit HEAD --push")
}

// checkOut lays out the files of the commit as the replay host does: raw bytes,
// no submodules, no compiled Python, and what only a maintainer may change apart
// from the code, until the harness needs it.
func (c *clone) checkOut(ctx context.Context, s *subject, sight *gateSight) error {
	held, dropped, err := sight.patterns()
	if err != nil {
		return err
	}
	s.dir, s.owned, s.clean = filepath.Join(s.scratch, "tree"), filepath.Join(s.scratch, "owned"), true
	if err := errors.Join(os.Mkdir(s.dir, 0o755), os.Mkdir(s.owned, 0o755)); err != nil {
		return undecided("check out "+short(s.commit), err)
	}
	if err := c.bringFiles(ctx, s.tree); err != nil {
		return err
	}
	files, err := c.files(ctx, s.tree)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f laidFile) bool { return dropped.Match([]byte(f.path)) || !f.laid() })
	isHeld := func(f laidFile) bool { return held.Match([]byte(f.path)) }
	owned := slices.DeleteFunc(slices.Clone(files), func(f laidFile) bool { return !isHeld(f) && !strings.HasPrefix(f.path, oracle.Dir+"/") })
	code := slices.DeleteFunc(slices.Clone(files), isHeld)
	s.fill = func(ctx context.Context) error {
		return c.lay(ctx, s.dir, slices.DeleteFunc(slices.Clone(files), func(f laidFile) bool { return !isHeld(f) }))
	}
	if err := c.lay(ctx, s.dir, code); err != nil {
		return err
	}
	return c.lay(ctx, s.owned, owned)
}

// laidFile is an entry of a tree that is no directory.
type laidFile struct {
	mode, id, path string
}

// laid is false for what does not come along.
func (f laidFile) laid() bool {
	for name := range strings.SplitSeq(f.path, "/") {
		if strings.EqualFold(name, ".git") || name == "__pycache__" {
			return false
		}
	}
	ext := path.Ext(f.path)
	return f.mode != "160000" && ext != ".pyc" && ext != ".pyo" && filepath.IsLocal(filepath.FromSlash(f.path))
}

func (c *clone) files(ctx context.Context, tree string) ([]laidFile, error) {
	out, err := c.out(ctx, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return nil, undecided("list the files of "+short(tree), err)
	}
	var files []laidFile
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, name, _ := strings.Cut(entry, "\t")
		if fields := strings.Fields(meta); len(fields) == 3 {
			files = append(files, laidFile{fields[0], fields[2], name})
		}
	}
	return files, nil
}

// lay writes files below a directory, never through a link that one of them is.
func (c *clone) lay(ctx context.Context, dir string, files []laidFile) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return undecided("check out", err)
	}
	defer root.Close()
	repo, err := c.openRepo(ctx)
	if err != nil {
		return err
	}
	defer repo.Close()
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.id
	}
	err = repo.ReadAll(ctx, ids, maxLaid, func(i int, o gitrepo.Object, data []byte) error {
		switch {
		case o.Missing():
			return fmt.Errorf("%s: the object is not here", quoted(files[i].path))
		case data == nil:
			return fmt.Errorf("%s: %d bytes are too many", quoted(files[i].path), o.Size)
		}
		return files[i].write(root, data)
	})
	if err != nil {
		return undecided("check out", err)
	}
	return nil
}

func (f laidFile) write(root *os.Root, data []byte) error {
	if dir := path.Dir(f.path); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	switch f.mode {
	case "120000":
		target := string(data)
		if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(f.path), target)) {
			return nil // the replay host leaves it out as well
		}
		return root.Symlink(target, f.path)
	case "100755":
		return root.WriteFile(f.path, data, 0o755)
	default:
		return root.WriteFile(f.path, data, 0o644)
	}
}

// localDir says whether dir names a directory at or below the top of a tree.
func localDir(dir string) bool { return dir == "." || filepath.IsLocal(filepath.FromSlash(dir)) }

// gateSight is the remote's gate, while it is being looked for: what it says is
// needed late or never.
type gateSight struct {
	cancel context.CancelFunc
	done   chan struct{}
	gate   *postedGate // nil: none is known
}

// lookForGate asks the remote without asking the user for anything. A run needs
// neither remote nor gate: where there is no answer the defaults hold.
func (c *clone) lookForGate(ctx context.Context, named string) *gateSight {
	ctx, cancel := context.WithTimeout(ctx, gateLookUp)
	sight := &gateSight{cancel: cancel, done: make(chan struct{})}
	quiet := *c
	go func() {
		defer close(sight.done)
		if names, err := quiet.remotes(ctx); named == "" && (err != nil || len(names) == 0) {
			return
		}
		quiet.unattended(ctx)
		name, err := quiet.pickRemote(ctx, named)
		if err != nil {
			return
		}
		r, err := quiet.askRemote(ctx, name)
		if err != nil {
			return
		}
		if found, err := quiet.readGate(ctx, r); err == nil {
			sight.gate = found
		}
	}()
	return sight
}

// unattended has the clone's commands ask for no passphrase and say nothing.
func (c *clone) unattended(ctx context.Context) {
	c.stderr = io.Discard
	c.env = append(slices.Clone(c.env), "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "SSH_ASKPASS_REQUIRE=never")
	if own, err := c.config(ctx, "core.sshCommand"); err == nil && own == "" && c.variable("GIT_SSH_COMMAND") == "" && c.variable("GIT_SSH") == "" {
		c.env = append(c.env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=5")
	}
}

// end stops looking.
func (s *gateSight) end() {
	s.cancel()
	<-s.done
}

func (s *gateSight) found() *postedGate {
	<-s.done
	return s.gate
}

// harness is the directory; empty is none.
func (s *gateSight) harness() string {
	if found := s.found(); found != nil {
		return found.Harness
	}
	return gate.DefaultHarness
}

// patterns are those of the paths that only a maintainer may change, and of
// those that have no business in a repository.
func (s *gateSight) patterns() (held, dropped policy.Patterns, err error) {
	if found := s.found(); found != nil {
		return found.protected, found.forbidden, nil
	}
	held, err1 := policy.ParsePatterns([]string{"freeze.json", oracle.Dir + "/"})
	dropped, err2 := policy.ParsePatterns([]string{"sealed/"})
	return held, dropped, errors.Join(err1, err2)
}
