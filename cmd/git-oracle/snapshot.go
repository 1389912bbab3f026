package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// worktree is how the working tree is called where a revision may stand.
const worktree = "worktree"

// checkTip is what is checked.
type checkTip struct {
	name   string
	commit string
	head   string // the commit it comes from; empty on an unborn branch
}

func (k *checking) tip(ctx context.Context) (checkTip, error) {
	rev := k.opts.commit
	bare, err := k.line(ctx, "rev-parse", "--is-bare-repository")
	if err != nil {
		return checkTip{}, undecided("find the working tree", err)
	}
	if rev == "" && bare == "true" {
		rev = "HEAD"
	}
	if rev != "" {
		id, err := k.resolve(ctx, rev)
		return checkTip{name: rev, commit: id, head: id}, err
	}
	head, err := k.commit(ctx, "HEAD")
	if err != nil {
		head = ""
	}
	id, err := k.snapshot(ctx, head, k.specs())
	if err != nil {
		return checkTip{}, err
	}
	if err := k.noteUncommitted(ctx, head, id); err != nil {
		return checkTip{}, err
	}
	return checkTip{name: worktree, commit: id, head: head}, nil
}

// specs name all that a check reads.
func (k *checking) specs() []string {
	rules := k.rules()
	specs := append([]string{":(top,literal)oracles"}, rules.Changelog.Pathspecs()...)
	if rules.Harness != "" {
		specs = append(specs, ":(top,literal)"+rules.Harness)
	}
	if k.gated != nil {
		specs = append(specs, k.gated.gate.protected.Pathspecs()...)
	}
	return specs
}

func (k *checking) noteUncommitted(ctx context.Context, head, id string) error {
	if head == "" || head == id {
		return nil
	}
	out, err := k.out(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-relative", "--end-of-options", head, id)
	if err != nil {
		return undecided("compare the files on disk with HEAD", err)
	}
	if n := strings.Count(string(out), "\x00"); n > 0 {
		k.note(fmt.Sprintf("%s not committed yet, and a push brings what is committed:  git oracle check --commit HEAD", have(n)))
	}
	return nil
}

func have(n int) string {
	if n == 1 {
		return "1 of these files is"
	}
	return fmt.Sprintf("%d of these files are", n)
}

// snapshot is the commit that `git add` of what the specs name, and `git commit`,
// would make. Neither the index nor a ref changes; the objects stay behind, and
// git gc removes them.
func (c *clone) snapshot(ctx context.Context, head string, specs []string) (string, error) {
	tree, err := c.diskTree(ctx, specs)
	if err != nil {
		return "", undecided("read the files on disk", err)
	}
	args := []string{"commit-tree", "-m", "files on disk", tree}
	if head != "" {
		same, err := c.line(ctx, "rev-parse", "--verify", "--end-of-options", head+"^{tree}")
		if err != nil {
			return "", undecided("read HEAD", err)
		}
		if same == tree {
			return head, nil
		}
		args = append(args, "-p", head)
	}
	nobody := *c
	nobody.env = append(slices.Clone(c.env), "GIT_AUTHOR_NAME=git oracle", "GIT_AUTHOR_EMAIL=<>", "GIT_COMMITTER_NAME=git oracle", "GIT_COMMITTER_EMAIL=<>",
		"GIT_AUTHOR_DATE=@0 +0000", "GIT_COMMITTER_DATE=@0 +0000")
	commit, err := nobody.line(ctx, append([]string{"-c", "commit.gpgSign=false"}, args...)...)
	if err != nil {
		return "", undecided("read the files on disk", err)
	}
	return commit, nil
}

// diskTree brings the files on disk into a copy of the index and writes its tree.
func (c *clone) diskTree(ctx context.Context, specs []string) (string, error) {
	top, err := c.top(ctx)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "git-oracle-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	aside := *c
	if aside.env, err = c.indexAside(ctx, filepath.Join(dir, "index")); err != nil {
		return "", err
	}
	if err := aside.dropGone(ctx, top, specs); err != nil {
		return "", err
	}
	differ, err := aside.out(ctx, append([]string{"-C", top, "ls-files", "-z", "--modified", "--others", "--exclude-standard", "--"}, specs...)...)
	if err != nil {
		return "", err
	}
	differ = []byte(strings.ReplaceAll(string(differ), "/\x00", "\x00")) // a repository of its own is one entry
	if _, err := aside.feed(ctx, differ, "-C", top, "update-index", "-z", "--add", "--replace", "--stdin"); err != nil {
		return "", err
	}
	return aside.line(ctx, "-C", top, "write-tree")
}

// dropGone takes from the index what is not on disk, or behind a link there: git
// itself looks through links in a path that it knows.
func (c *clone) dropGone(ctx context.Context, top string, specs []string) error {
	out, err := c.out(ctx, append([]string{"-C", top, "ls-files", "-z", "-t", "--cached", "--"}, specs...)...)
	if err != nil {
		return err
	}
	var gone strings.Builder
	seen := map[string]bool{".": true}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		tag, path, _ := strings.Cut(entry, " ")
		if tag == "S" {
			continue // a sparse checkout leaves it out
		}
		if _, err := os.Lstat(filepath.Join(top, path)); err != nil || !realDirectory(top, filepath.Dir(path), seen) {
			gone.WriteString(path + "\x00")
		}
	}
	if len(out) == 0 || gone.Len() == 0 {
		return nil
	}
	_, err = c.feed(ctx, []byte(gone.String()), "-C", top, "update-index", "-z", "--force-remove", "--stdin")
	return err
}

// realDirectory tells whether no part of the path is a link.
func realDirectory(top, dir string, seen map[string]bool) bool {
	is, known := seen[dir]
	if !known {
		info, err := os.Lstat(filepath.Join(top, dir))
		is = err == nil && info.IsDir() && realDirectory(top, filepath.Dir(dir), seen)
		seen[dir] = is
	}
	return is
}

// indexAside copies the index, whose times spare reading files that did not
// change, and answers the environment that has git use the copy.
func (c *clone) indexAside(ctx context.Context, file string) ([]string, error) {
	index, err := c.gitPath(ctx, "index")
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(index)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if err == nil {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return nil, err
		}
	}
	return append(slices.Clone(c.env), "GIT_INDEX_FILE="+file), nil
}
