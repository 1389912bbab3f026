package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
)

// openRepo opens the clone's objects for reading as the server reads its own.
func (c *clone) openRepo(ctx context.Context) (*gitrepo.Repo, error) {
	repo, err := gitrepo.Open(ctx, gitrepo.Options{
		GitDir:          c.gitDir,
		ObjectDirectory: c.variable("GIT_OBJECT_DIRECTORY"),
		Alternates:      c.variable("GIT_ALTERNATE_OBJECT_DIRECTORIES"),
	})
	if err != nil {
		return nil, undecided("open the repository", err)
	}
	return repo, nil
}

func (c *clone) variable(name string) string {
	for _, entry := range slices.Backward(c.env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// view is what a commit or tree has at the protected paths.
func (o *oracleClone) view(ctx context.Context, tree string) (*state.View, error) {
	if err := o.complete(ctx, tree); err != nil {
		return nil, err
	}
	view, err := o.scanner.View(ctx, tree+"^{tree}")
	if err != nil {
		return nil, undecided("read the protected paths of "+short(tree), err)
	}
	return view, nil
}

// stands is the state in which the protected paths of a commit or tree stand, whatever
// git would have written: as on the server.
func (o *oracleClone) stands(ctx context.Context, tree string) (string, error) {
	view, err := o.view(ctx, tree)
	if err != nil {
		return "", err
	}
	digest, err := o.scanner.AsFound(ctx, view)
	if err != nil {
		return "", undecided("read the protected paths of "+short(tree), err)
	}
	return digest, nil
}

// state is the state of the protected paths of a commit or tree that a ref at base may
// be brought to, by the code that the server uses. What is wrong with a tree, and is
// so at base already, hinders nothing.
func (o *oracleClone) state(ctx context.Context, tree, base string) (string, error) {
	view, err := o.view(ctx, tree)
	if err != nil {
		return "", err
	}
	had, err := o.view(ctx, base)
	if err != nil {
		return "", err
	}
	var broken *state.Broken
	if broken = view.Flaw(had); broken == nil {
		digest, err := o.scanner.State(ctx, view)
		if err == nil {
			return digest, nil
		}
		if !errors.As(err, &broken) {
			return "", undecided("read the protected paths of "+short(tree), err)
		}
	}
	return "", refused(fmt.Sprintf("%s has no state that could be signed: %v", short(tree), broken))
}

// complete fetches the protected files that a partial clone lacks: git as the
// server runs it asks no remote.
func (o *oracleClone) complete(ctx context.Context, tree string) error {
	promisor, err := o.promisor(ctx)
	if err != nil || promisor == "" {
		return err
	}
	empty, err := o.emptyTree(ctx)
	if err != nil {
		return undecided("name the empty tree", err)
	}
	files, err := o.changes(ctx, empty, tree)
	if err != nil {
		return err
	}
	var ids []string
	for _, file := range files {
		if kind(file.NewMode) != "submodule" && !slices.Contains(ids, file.New) {
			ids = append(ids, file.New)
		}
	}
	return o.bringObjects(ctx, promisor, ids)
}

// bringFiles fetches the files at or below some paths that a partial clone
// lacks.
func (c *clone) bringFiles(ctx context.Context, tree string, specs ...string) error {
	promisor, err := c.promisor(ctx)
	if err != nil || promisor == "" {
		return err
	}
	out, err := c.out(ctx, append([]string{"ls-tree", "-r", "-z", "--full-tree", tree, "--"}, specs...)...)
	if err != nil {
		return undecided("list the files of "+short(tree), err)
	}
	var ids []string
	for entry := range strings.SplitSeq(string(out), "\x00") {
		meta, _, _ := strings.Cut(entry, "\t")
		if fields := strings.Fields(meta); len(fields) == 3 && fields[1] == "blob" {
			ids = append(ids, fields[2])
		}
	}
	slices.Sort(ids)
	return c.bringObjects(ctx, promisor, slices.Compact(ids))
}

func (c *clone) bringObjects(ctx context.Context, promisor string, ids []string) error {
	gone, err := c.missing(ctx, ids)
	if err != nil {
		return undecided("look for objects", err)
	}
	if len(gone) == 0 {
		return nil
	}
	err = c.talk(ctx, []byte(strings.Join(gone, "\n")+"\n"), "-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
		"--no-recurse-submodules", "--no-auto-maintenance", "--refmap=", "--filter=blob:none", "--stdin", promisor)
	if err != nil {
		return undecided("fetch the files that this partial clone lacks", err)
	}
	return nil
}

// promisor is the remote that a partial clone takes its objects from; empty for
// a whole clone.
func (c *clone) promisor(ctx context.Context) (string, error) {
	if c.lends == nil {
		name, err := c.findPromisor(ctx)
		if err != nil {
			return "", err
		}
		c.lends = &name
	}
	return *c.lends, nil
}

func (c *clone) findPromisor(ctx context.Context) (string, error) {
	out, err := c.out(ctx, "config", "-z", "--type=bool", "--get-regexp", `^remote\..*\.promisor$`)
	if exitedWith(err, 1) {
		return "", nil
	}
	if err != nil {
		return "", undecided("read the configuration", err)
	}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "\n")
		if value == "true" {
			return strings.TrimSuffix(strings.TrimPrefix(name, "remote."), ".promisor"), nil
		}
	}
	return "", nil
}
