package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/policy"
)

const (
	gateRef        = "refs/oracle/gate"
	approvalRoot   = "refs/oracle/approvals/"
	withdrawalRoot = "refs/oracle/withdrawals/"
	branchRoot     = "refs/heads/"
	maxGateBytes   = 64 << 10
	maxTokenBytes  = 16 << 10
)

// remote is one remote and the refs it has now.
type remote struct {
	name string
	refs map[string]string
}

// pickRemote is the remote that was named, else the one of the branch that is
// checked out, else the only one, else origin.
func (c *clone) pickRemote(ctx context.Context, named string) (string, error) {
	if strings.HasPrefix(named, "-") {
		return "", usage("a remote has no name like %q", named)
	}
	if named != "" {
		return named, nil
	}
	if branch, err := c.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
		upstream, err := c.config(ctx, "branch."+branch+".remote")
		if err != nil {
			return "", undecided("read the configuration", err)
		}
		if upstream != "" && upstream != "." && !strings.HasPrefix(upstream, "-") {
			return upstream, nil
		}
	}
	names, err := c.remotes(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", undecided("this repository has no remote", nil, "name the gated repository: --remote URL")
	}
	return "origin", nil
}

func (c *clone) remotes(ctx context.Context) ([]string, error) {
	out, err := c.line(ctx, "remote")
	if err != nil {
		return nil, undecided("list the remotes", err)
	}
	return strings.Fields(out), nil
}

// askRemote lists the remote's refs.
func (c *clone) askRemote(ctx context.Context, name string) (*remote, error) {
	out, err := c.out(ctx, "ls-remote", "--quiet", name)
	if err != nil {
		return nil, undecided(fmt.Sprintf("list the refs of %s", quoted(name)), err)
	}
	refs, err := parseRefs(string(out))
	if err != nil {
		return nil, undecided(fmt.Sprintf("list the refs of %s", quoted(name)), err)
	}
	return &remote{name: name, refs: refs}, nil
}

// parseRefs reads git-ls-remote(1). HEAD, peeled tags and names that git itself
// would not accept are left out: names go back to git as refspecs, and a remote
// that lists "refs/x:refs/heads/main" must not write a branch here.
func parseRefs(out string) (map[string]string, error) {
	refs := map[string]string{}
	for line := range strings.Lines(out) {
		id, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || !hexID(id) {
			return nil, fmt.Errorf("a line makes no sense: %q", line)
		}
		if policy.ValidRef(ref) {
			refs[ref] = id
		}
	}
	return refs, nil
}

func hexID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}

// branches are the remote's branch refs in byte order.
func (r *remote) branches() []string {
	var names []string
	for ref := range r.refs {
		if strings.HasPrefix(ref, branchRoot) {
			names = append(names, ref)
		}
	}
	slices.Sort(names)
	return names
}

// fetch brings the objects of the named refs. No ref of the clone moves and
// FETCH_HEAD stays: what a command needs it has by id.
func (c *clone) fetch(ctx context.Context, r *remote, refs []string) error {
	wanted := map[string]string{}
	for _, ref := range refs {
		if id, ok := r.refs[ref]; ok {
			wanted[id] = ref
		}
	}
	gone, err := c.missing(ctx, slices.Sorted(maps.Keys(wanted)))
	if err != nil {
		return undecided("look for objects", err)
	}
	if len(gone) == 0 {
		return nil
	}
	var input strings.Builder
	for _, id := range gone {
		input.WriteString(wanted[id] + "\n")
	}
	err = c.talk(ctx, []byte(input.String()), "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
		"--no-recurse-submodules", "--no-auto-maintenance", "--no-prune", "--refmap=", "--stdin", r.name)
	if err != nil {
		return undecided(fmt.Sprintf("fetch from %s", quoted(r.name)), err)
	}
	gone, err = c.missing(ctx, gone)
	if err != nil {
		return undecided("look for objects", err)
	}
	if promisor, err := c.promisor(ctx); err != nil || promisor != "" {
		return err
	}
	if len(gone) > 0 {
		return undecided(fmt.Sprintf("fetch from %s: %s moved meanwhile", quoted(r.name), quoted(wanted[gone[0]])), nil, "run the command again")
	}
	return nil
}

// revision resolves REV. A name that begins with the remote's ("origin/…") and
// a ref that only the remote has mean what the remote has now, not what was
// fetched last.
func (c *clone) revision(ctx context.Context, r *remote, rev string) (string, error) {
	base, rest := rev, ""
	if i := strings.IndexAny(rev, "~^@:"); i > 0 {
		base, rest = rev[:i], rev[i:]
	}
	if ref, ok := c.remoteRef(ctx, r, base); ok {
		id, known := r.refs[ref]
		if !known {
			return "", refused(fmt.Sprintf("%s has no %s", quoted(r.name), quoted(ref)), "git ls-remote "+word(r.name))
		}
		if err := c.fetch(ctx, r, []string{ref}); err != nil {
			return "", err
		}
		rev = id + rest
	}
	id, err := c.commit(ctx, rev)
	if err != nil {
		return "", refused(fmt.Sprintf("%s names no commit here", quoted(rev)))
	}
	return id, nil
}

// remoteRef is the remote's ref that a name means, where it means one. What the remote
// has goes before a branch or tag of that name here; "refs/remotes/…" is always its own.
func (c *clone) remoteRef(ctx context.Context, r *remote, name string) (string, bool) {
	for _, prefix := range []string{r.name + "/", "refs/remotes/" + r.name + "/", "remotes/" + r.name + "/"} {
		branch, ok := strings.CutPrefix(name, prefix)
		if !ok || branch == "HEAD" || !policy.ValidRef(branchRoot+branch) {
			continue
		}
		if _, known := r.refs[branchRoot+branch]; known || prefix != r.name+"/" || !c.has(ctx, branchRoot+name) {
			return branchRoot + branch, true
		}
		return "", false
	}
	if _, known := r.refs[name]; !known || !strings.HasPrefix(name, "refs/") || c.has(ctx, name) {
		return "", false
	}
	return name, true
}

func (c *clone) has(ctx context.Context, rev string) bool {
	_, err := c.out(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", rev)
	return err == nil
}
