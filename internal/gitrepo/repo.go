// Package gitrepo reads a repository through git itself: objects by one
// cat-file child, the commits that newly reach a ref by one log child, ref
// values as git resolves them, thin packs. What git reads with the hook's
// quarantine is the truth; replacements, grafts and configuration that changes
// meaning are switched off. Its nouns are Repo, Object, Graph; go-git's object
// model sits on top in package gitrepo/storage, which a hook need not link.
package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sealgate/sealgate/internal/proc"
)

// Options say which repository is read, and through which object directories.
type Options struct {
	// GitDir is the repository itself (bare, or the .git directory).
	GitDir string
	// ObjectDirectory and Alternates are GIT_OBJECT_DIRECTORY and
	// GIT_ALTERNATE_OBJECT_DIRECTORIES of a quarantine, as git wrote them.
	ObjectDirectory, Alternates string
	// Git is the program; empty is git in Path.
	Git string
	// Path is PATH of the children; empty is the caller's.
	Path string
	// LazyFetch lets git fetch the objects that a partial clone lacks; never on a server.
	LazyFetch bool
	// Start starts the children; nil is proc.Start. It is for tests that tell so many
	// stories that a child for each question would be most of the time.
	Start func(context.Context, proc.Spec) (Child, error)
}

// Repo is an open repository. Its methods may be called at the same time; they
// share one cat-file child, which Close ends.
type Repo struct {
	git    string
	gitDir string
	env    []string
	starts func(context.Context, proc.Spec) (Child, error)

	mu    sync.Mutex
	batch *batch
}

// Open looks for git and the repository; it starts nothing.
func Open(_ context.Context, o Options) (*Repo, error) {
	if o.GitDir == "" {
		return nil, errors.New("open repository: no directory is given")
	}
	dir, err := filepath.Abs(o.GitDir)
	if err != nil {
		return nil, fmt.Errorf("open repository %q: %w", o.GitDir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		if _, lerr := os.Lstat(filepath.Join(dir, "HEAD")); lerr != nil {
			return nil, fmt.Errorf("open repository %q: %w", o.GitDir, errors.Unwrap(err))
		}
	}
	git, err := findGit(o)
	if err != nil {
		return nil, fmt.Errorf("open repository %q: %w", o.GitDir, err)
	}
	return &Repo{git: git, gitDir: dir, env: childEnv(o), starts: o.Start}, nil
}

// GitDir is the repository's absolute path.
func (r *Repo) GitDir() string { return r.gitDir }

func findGit(o Options) (string, error) {
	if o.Git != "" {
		return o.Git, nil
	}
	if o.Path == "" {
		return exec.LookPath("git")
	}
	for dir := range strings.SplitSeq(o.Path, string(os.PathListSeparator)) {
		file := filepath.Join(dir, "git")
		if !filepath.IsAbs(file) {
			continue
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", errors.New("git is not in PATH")
}

// childEnv is the whole environment of every git child: nothing else of the
// hook's own goes through, so no GIT_TRACE2, GIT_CONFIG_COUNT or
// GIT_REPLACE_REF_BASE does.
func childEnv(o Options) []string {
	path := o.Path
	if path == "" {
		path = os.Getenv("PATH")
	}
	env := []string{
		"PATH=" + path,
		"LC_ALL=C",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_GRAFT_FILE=" + os.DevNull,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_FLUSH=0", // else git log writes each commit by itself
	}
	if !o.LazyFetch {
		env = append(env, "GIT_NO_LAZY_FETCH=1")
	}
	if o.ObjectDirectory != "" {
		env = append(env, "GIT_OBJECT_DIRECTORY="+o.ObjectDirectory)
	}
	if o.Alternates != "" {
		env = append(env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+o.Alternates)
	}
	return env
}

// neutral are the repository's own settings that would change what a child
// prints or starts.
var neutral = []string{
	"-c", "log.showSignature=false",
	"-c", "log.mailmap=false",
	"-c", "core.fsmonitor=false",
	"-c", "core.warnAmbiguousRefs=false",
	"-c", "core.logAllRefUpdates=false",
	"-c", "advice.graftFileDeprecated=false",
}

// spec is a git child with its settings and arguments.
func (r *Repo) spec(settings []string, args ...string) proc.Spec {
	all := append([]string{"--no-pager", "--git-dir=" + r.gitDir}, neutral...)
	all = append(all, settings...)
	return proc.Spec{Path: r.git, Args: append(all, args...), Env: r.env}
}

// output runs a git child to its end; an exit status above most is an error.
func (r *Repo) output(ctx context.Context, spec proc.Spec, most int) (proc.Result, error) {
	got, err := r.run(ctx, spec)
	if err != nil {
		return proc.Result{}, err
	}
	if got.Code > most {
		return proc.Result{}, fmt.Errorf("run %s: exit status %d: %s", spec, got.Code, firstLines(got.Stderr))
	}
	return got, nil
}

func firstLines(b []byte) string {
	const most = 400
	text := strings.TrimSpace(string(b))
	if len(text) > most {
		text = text[:most]
	}
	return text
}

// Close ends the cat-file child.
func (r *Repo) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batch == nil {
		return nil
	}
	r.batch.end()
	r.batch = nil
	return nil
}

// ThinPack writes a pack with everything that tip reaches and the commits of
// have do not; what have reaches may be a delta base. Commits of have that are
// not in this repository are ignored. Without have, it is everything.
func (r *Repo) ThinPack(ctx context.Context, tip string, have []string, w io.Writer) error {
	known, err := r.commitsHere(ctx, have)
	if err != nil {
		return err
	}
	var in strings.Builder
	in.WriteString(tip + "\n")
	for _, id := range known {
		in.WriteString("^" + id + "\n")
	}
	spec := r.spec([]string{"-c", "pack.useSparse=true", "-c", "pack.useBitmaps=false"},
		"pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q")
	spec.Stdin = strings.NewReader(in.String())
	spec.Stdout = w
	_, err = r.output(ctx, spec, 0)
	return err
}

func (r *Repo) commitsHere(ctx context.Context, ids []string) ([]string, error) {
	objects, err := r.Info(ctx, ids...)
	if err != nil {
		return nil, err
	}
	var here []string
	for i, o := range objects {
		if o.Type == Commit && o.ID == ids[i] {
			here = append(here, o.ID)
		}
	}
	return here, nil
}

// MergeBase is a best common ancestor of two commits; empty where they have none.
func (r *Repo) MergeBase(ctx context.Context, a, b string) (string, error) {
	got, err := r.output(ctx, r.spec(nil, "merge-base", "--end-of-options", a, b), 1)
	if err != nil || got.Code == 1 {
		return "", err
	}
	return strings.TrimSpace(string(got.Stdout)), nil
}

// IsAncestor says whether b reaches a; a commit reaches itself.
func (r *Repo) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	got, err := r.output(ctx, r.spec(nil, "merge-base", "--is-ancestor", "--end-of-options", a, b), 1)
	return err == nil && got.Code == 0, err
}

// ReachedBy says whether one of the commits reaches id. Commits that are not
// here reach nothing.
func (r *Repo) ReachedBy(ctx context.Context, id string, commits []string) (bool, error) {
	pairs := make([]Pair, len(commits))
	for i, from := range commits {
		pairs[i] = Pair{From: from, To: id}
	}
	answers, err := r.Reach(ctx, pairs)
	return slices.Contains(answers, true), err
}
