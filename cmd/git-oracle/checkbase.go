package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// checkBase is what a change is compared with. Without a commit there is nothing.
type checkBase struct {
	rev    string // as it was named
	commit string // where the tip parts from it
	ref    string // the protected ref that it stands for; without a gate, empty
}

// base is BASE, else ORACLE_DIFF_BASE, else what is found.
func (k *checking) base(ctx context.Context, tip checkTip) (checkBase, error) {
	b := checkBase{rev: k.opts.base, ref: k.firstRef()}
	if b.rev == "" {
		b.rev = os.Getenv("ORACLE_DIFF_BASE")
	}
	if b.rev == "" {
		var err error
		if b.rev, err = k.found(ctx); err != nil || b.rev == "" {
			return checkBase{ref: b.ref}, err
		}
	}
	if ref := k.protectedRef(ctx, b.rev); ref != "" {
		b.ref = ref
	}
	commit, err := k.resolve(ctx, b.rev)
	if err != nil {
		return checkBase{}, err
	}
	if tip.head == "" { // an unborn branch shares nothing with anything
		b.commit = commit
		return b, nil
	}
	b.commit, err = k.line(ctx, "merge-base", "--end-of-options", commit, tip.head)
	if exitedWith(err, 1) {
		return checkBase{}, undecided(fmt.Sprintf("%s and %s have no commit in common here", quoted(b.rev), short(tip.head)), nil,
			"a shallow clone may lack it:  git fetch --unshallow", "to compare with something else:  git oracle check BASE")
	}
	if err != nil {
		return checkBase{}, undecided("find where "+short(tip.head)+" parts from "+quoted(b.rev), err)
	}
	return b, nil
}

// found looks for a base that nobody named. Nothing, without an error, where
// there is no remote.
func (k *checking) found(ctx context.Context) (string, error) {
	upstream, own := k.upstream(ctx)
	if k.gated != nil {
		if upstream != "" && k.protectedRef(ctx, upstream) != "" {
			return upstream, nil
		}
		if present := k.gated.gate.present(k.remote); len(present) > 0 {
			return k.name + "/" + strings.TrimPrefix(present[0], branchRoot), nil
		}
		return "", nil // a gate before anything has been pushed
	}
	if upstream != "" && !own {
		return upstream, nil
	}
	if k.name == "" {
		return upstream, nil
	}
	if main := k.mainBranch(ctx); main != "" {
		return main, nil
	}
	switch {
	case upstream != "":
		return upstream, nil
	case k.remote != nil && len(k.remote.branches()) == 0:
		return "", nil // the remote is empty
	}
	return "", undecided("find what to compare with: the branch has no upstream, and the main branch of "+quoted(k.name)+" is not known here", nil,
		"name it:  git oracle check BASE", "or let this clone know it:  git remote set-head "+word(k.name)+" --auto")
}

// mainBranch is the remote's, as far as this clone knows: what its HEAD was, else
// the seed's default.
func (k *checking) mainBranch(ctx context.Context) string {
	head, err := k.line(ctx, "symbolic-ref", "--quiet", "--short", "refs/remotes/"+k.name+"/HEAD")
	if err == nil {
		return head
	}
	if _, err := k.commit(ctx, "refs/remotes/"+k.name+"/main"); err != nil {
		return ""
	}
	return k.name + "/main"
}

// upstream is the branch that the checked out one follows; own says that it is
// its own copy on the remote, which a push of the branch moves along.
func (k *checking) upstream(ctx context.Context) (name string, own bool) {
	full, err := k.line(ctx, "rev-parse", "--quiet", "--verify", "--symbolic-full-name", "--end-of-options", "@{upstream}")
	if err != nil {
		return "", false
	}
	full = strings.TrimSpace(strings.TrimPrefix(full, "--end-of-options"))
	branch, err := k.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return "", false
	}
	short := strings.TrimPrefix(strings.TrimPrefix(full, "refs/remotes/"), branchRoot)
	_, behind, _ := strings.Cut(short, "/")
	return short, strings.HasPrefix(full, "refs/remotes/") && behind == branch
}

// firstRef is the gate's first protected ref.
func (k *checking) firstRef() string {
	if k.gated == nil {
		return ""
	}
	return k.gated.gate.refs.Entries()[0]
}

// protectedRef is the protected ref that a revision names, where it names one.
func (k *checking) protectedRef(ctx context.Context, rev string) string {
	if k.gated == nil {
		return ""
	}
	ref, ok := k.remoteRef(ctx, k.remote, rev)
	if !ok {
		ref = branchRoot + rev
	}
	if !k.gated.gate.refs.Protects(ref) {
		return ""
	}
	return ref
}

// resolve reads a revision as the other verbs do, and without the remote as git
// does.
func (k *checking) resolve(ctx context.Context, rev string) (string, error) {
	if k.remote != nil {
		return k.revision(ctx, k.remote, rev)
	}
	id, err := k.commit(ctx, rev)
	if err != nil {
		return "", undecided(fmt.Sprintf("%s names no commit here", quoted(rev)), nil)
	}
	return id, nil
}

func asConflict(err error, clash **conflict) bool { return errors.As(err, clash) }
