package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/proc"
)

// maxOutput bounds what is kept of one git command's standard output.
const maxOutput = 256 << 20

// noFile can never be opened. A graft file that is there, even an empty one, has
// git explain grafts on every command's standard error.
const noFile = os.DevNull + "/none"

// clone is the repository that the command runs in. Git runs with the user's
// own environment and configuration, which say how remotes are reached; what
// would change the meaning of objects or paths is switched off.
type clone struct {
	gitDir string // absolute; that of a linked worktree is its own
	zero   string // the null object id of this repository's hash
	env    []string
	lends  *string // what promisor found
	stdin  io.Reader
	stderr io.Writer // of commands that talk to the user
}

// openClone finds the repository around the working directory.
func openClone(ctx context.Context, environ []string, stdin io.Reader, stderr io.Writer) (*clone, error) {
	c := &clone{env: meaningfulEnv(environ), stdin: stdin, stderr: stderr}
	if err := c.checkVersion(ctx); err != nil {
		return nil, err
	}
	dir, err := c.line(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, undecided("find the repository", err, "run git oracle inside a clone")
	}
	format, err := c.line(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return nil, undecided("read the repository's object format", err)
	}
	c.gitDir = filepath.FromSlash(dir)
	c.zero = strings.Repeat("0", 40)
	if format == "sha256" {
		c.zero = strings.Repeat("0", 64)
	}
	return c, nil
}

// meaningfulEnv drops the variables that make git read other objects or paths
// than the ones it is asked for, and pins those that matter.
func meaningfulEnv(environ []string) []string {
	dropped := []string{
		"GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_GRAFT_FILE",
		"GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
		"GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH",
	}
	kept := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(dropped, name)
	})
	return append(kept, "GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE="+noFile)
}

// checkVersion wants the git that has merge-tree --write-tree.
func (c *clone) checkVersion(ctx context.Context) error {
	text, err := c.line(ctx, "version")
	if err != nil {
		return undecided("run git", err)
	}
	if !recentGit(text) {
		return undecided(fmt.Sprintf("git oracle needs git 2.38 or newer (for git merge-tree --write-tree), and this is %q", text), nil)
	}
	return nil
}

// recentGit reads "git version 2.39.5 (Apple Git-154)".
func recentGit(text string) bool {
	number, _, _ := strings.Cut(strings.TrimPrefix(text, "git version "), " ")
	parts := strings.Split(number, ".")
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > 2 || major == 2 && minor >= 38)
}

// gitFailed is a git command that ran and said no.
type gitFailed struct {
	verb   string
	code   int
	stderr string
}

func (e *gitFailed) Error() string {
	text := strings.TrimSpace(e.stderr)
	if text == "" {
		return fmt.Sprintf("git %s: exit status %d", e.verb, e.code)
	}
	return fmt.Sprintf("git %s: %s", e.verb, text)
}

func exitedWith(err error, code int) bool {
	var failed *gitFailed
	return errors.As(err, &failed) && failed.code == code
}

// out runs git for its standard output.
func (c *clone) out(ctx context.Context, args ...string) ([]byte, error) {
	return c.feed(ctx, nil, args...)
}

// feed runs git with input for its standard output.
func (c *clone) feed(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	result, err := proc.Run(ctx, c.spec(input, args))
	if err != nil {
		return nil, err
	}
	return result.Stdout, failure(args, result)
}

// line runs git for one line.
func (c *clone) line(ctx context.Context, args ...string) (string, error) {
	out, err := c.out(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// talk runs git for its effect; what it writes is shown as it comes.
func (c *clone) talk(ctx context.Context, input []byte, args ...string) error {
	spec := c.spec(input, args)
	spec.Stdout, spec.Stderr = c.stderr, c.stderr
	result, err := proc.Run(ctx, spec)
	if err != nil {
		return err
	}
	return failure(args, result)
}

// spec stays in the terminal's foreground process group: ssh and credential
// helpers read passphrases from the terminal itself, and a background group
// would be stopped.
func (c *clone) spec(input []byte, args []string) proc.Spec {
	return proc.Spec{Path: "git", Args: args, Env: c.env, Stdin: bytes.NewReader(input), Limit: maxOutput, Foreground: true}
}

func failure(args []string, result proc.Result) error {
	if result.Code == 0 {
		return nil
	}
	return &gitFailed{verb: verb(args), code: result.Code, stderr: string(result.Stderr)}
}

// verb is the word of a git command line that says what it does.
func verb(args []string) string {
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" {
			i++
			continue
		}
		if !strings.HasPrefix(args[i], "-") {
			return args[i]
		}
	}
	return ""
}

// config is one configuration value; empty where it is not set.
func (c *clone) config(ctx context.Context, name string) (string, error) {
	out, err := c.out(ctx, "config", "-z", "--get", name)
	if exitedWith(err, 1) {
		return "", nil
	}
	return strings.TrimSuffix(string(out), "\x00"), err
}

// configPath is a configuration value that names a file; ~ is resolved.
func (c *clone) configPath(ctx context.Context, name string) (string, error) {
	out, err := c.out(ctx, "config", "-z", "--type=path", "--get", name)
	if exitedWith(err, 1) {
		return "", nil
	}
	return strings.TrimSuffix(string(out), "\x00"), err
}

// commit resolves a revision to a commit id.
func (c *clone) commit(ctx context.Context, rev string) (string, error) {
	return c.line(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", rev+"^{commit}")
}

// missing are those of the ids that the repository does not have, as far as git
// can tell: in a partial clone it gives up at the first one that it lacks, and
// all are taken for missing. Nothing is fetched for the question.
func (c *clone) missing(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	quiet := *c
	quiet.env = append(slices.Clone(c.env), "GIT_NO_LAZY_FETCH=1")
	out, err := quiet.feed(ctx, []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		if promisor, perr := c.promisor(ctx); perr == nil && promisor != "" {
			return ids, nil
		}
		return nil, err
	}
	var gone []string
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), " missing"); ok {
			gone = append(gone, id)
		}
	}
	return gone, nil
}

// ancestor tells whether a is reachable from b.
func (c *clone) ancestor(ctx context.Context, a, b string) (bool, error) {
	_, err := c.out(ctx, "merge-base", "--is-ancestor", a, b)
	if exitedWith(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// blob is the content of a blob, up to limit bytes.
func (c *clone) blob(ctx context.Context, id string, limit int) ([]byte, error) {
	size, err := c.line(ctx, "cat-file", "-s", id)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(size); err != nil || n > limit {
		return nil, fmt.Errorf("object %s has %s bytes, more than the %d that are read", short(id), size, limit)
	}
	return c.out(ctx, "cat-file", "blob", id)
}

// emptyTree is the id of the tree without entries.
func (c *clone) emptyTree(ctx context.Context) (string, error) {
	return c.line(ctx, "hash-object", "-t", "tree", "--stdin")
}

func short(id string) string {
	return id[:min(len(id), 10)]
}
