package main

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/policy"
)

// label is what a human puts on a pull request that means to change the oracles.
const label = "oracle-change"

// checking is one run of `git oracle check`.
type checking struct {
	*clone
	opts   checkOptions
	repo   *gitrepo.Repo
	remote *remote      // nil: none, or it was not asked
	gated  *oracleClone // nil: no gate is known
	name   string       // of the remote; empty: none
	notes  []string
}

// checking finds out what there is to check with: a remote and its gate, or
// neither.
func (c *clone) checking(ctx context.Context, named string, opts checkOptions) (*checking, error) {
	k := &checking{clone: c, opts: opts}
	if err := k.connect(ctx, named); err != nil {
		return nil, err
	}
	if k.gated != nil {
		k.repo = k.gated.repo
		return k, nil
	}
	repo, err := c.openRepo(ctx)
	k.repo = repo
	return k, err
}

func (k *checking) close() { k.repo.Close() }

// connect: a remote that does not answer, or has no gate, is no obstacle; a gate
// that makes no sense is one.
func (k *checking) connect(ctx context.Context, named string) error {
	remotes, err := k.remotes(ctx)
	if err != nil {
		return err
	}
	if named == "" && len(remotes) == 0 {
		return nil
	}
	if k.name, err = k.pickRemote(ctx, named); err != nil {
		return err
	}
	if k.opts.offline {
		k.note(quoted(k.name) + " was not asked: its gate and its approvals are not known")
		return nil
	}
	r, err := k.askRemote(ctx, k.name)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		k.note(first + ": its gate and its approvals are not known")
		return ctx.Err()
	}
	k.remote = r
	if _, ok := r.refs[gateRef]; !ok {
		k.note(quoted(k.name) + " has no gate: oracles/ and harness/ are assumed, and there are no approvals")
		return nil
	}
	if k.gated, err = openGated(ctx, k.clone, r); err != nil {
		return err
	}
	if !k.gated.gate.protected.Match([]byte(oracle.Dir)) {
		k.note("oracles/ is not protected here: the hook does not check it")
	}
	return nil
}

func (k *checking) note(text string) { k.notes = append(k.notes, text) }

// rules are the gate's, else the defaults.
func (k *checking) rules() gate.OracleRules {
	if k.gated == nil {
		return gate.OracleRules{Harness: gate.DefaultHarness, Changelog: gate.DefaultChangelog()}
	}
	rules := k.gated.gate.oracleRules()
	rules.Protected = policy.Patterns{} // checked whether the hook does or not
	return rules
}

// run checks the tip against the base.
func (k *checking) run(ctx context.Context) (*checkResult, error) {
	tip, err := k.tip(ctx)
	if err != nil {
		return nil, err
	}
	base, err := k.base(ctx, tip)
	if err != nil {
		return nil, err
	}
	change, err := k.change(ctx, base, tip)
	if err != nil {
		return nil, err
	}
	r := &checkResult{
		Schema: checkSchema, Base: base.rev, BaseCommit: base.commit, Tip: tip.name, Commit: tip.commit, Remote: k.name,
		Gate: k.gated != nil, Harness: k.rules().Harness, Invariants: len(change.Tip.IDs),
		Touched: []string{}, Meanings: []meaning{}, Label: labelled(os.Getenv("PR_LABELS")),
	}
	if k.gated != nil {
		r.contact = k.gated.gate.Contact
	}
	if base.commit == "" {
		k.note("there is nothing to compare with: whether an invariant is gone or the oracles changed is not known")
	} else {
		r.Meanings = meanings(change.Meanings)
		if r.Touched, err = k.touched(ctx, base, tip, change); err != nil {
			return nil, err
		}
	}
	if r.Approved, err = k.approved(ctx, base, tip, r.Touched); err != nil {
		return nil, err
	}
	r.findings = k.findings(ctx, change, r)
	r.Notes = append([]string{}, k.notes...)
	r.settle()
	return r, nil
}

// change reads both sides. The seed checks the files whether they changed or not,
// and so does this.
func (k *checking) change(ctx context.Context, base checkBase, tip checkTip) (*gate.OracleChange, error) {
	rules := k.rules()
	specs := []string{oracle.Dir}
	if rules.Harness != "" {
		specs = append(specs, rules.Harness)
	}
	for _, tree := range []string{base.commit, tip.commit} {
		if tree == "" {
			continue
		}
		if err := k.bringFiles(ctx, tree, specs...); err != nil {
			return nil, err
		}
	}
	change, err := gate.ReadOracleChange(ctx, k.repo, base.commit, tip.commit, rules)
	if err != nil {
		return nil, undecided("read the oracle files", err)
	}
	if change.OraclesChanged || change.HarnessChanged {
		return change, nil
	}
	change, err = gate.ReadOracleChange(ctx, k.repo, "", tip.commit, rules)
	if err != nil {
		return nil, undecided("read the oracle files", err)
	}
	change.Base, change.HadHarness, change.Meanings, change.Files = change.Tip, change.HasHarness, nil, nil
	change.OraclesChanged, change.HarnessChanged = false, false
	return change, nil
}

// touched are the protected files that differ.
func (k *checking) touched(ctx context.Context, base checkBase, tip checkTip, change *gate.OracleChange) ([]string, error) {
	if k.gated == nil {
		return append([]string{}, change.Files...), nil
	}
	files, err := k.gated.changes(ctx, base.commit, tip.commit)
	paths := []string{}
	for _, file := range files {
		paths = append(paths, file.Path)
	}
	return paths, err
}

// approved: nothing was touched, or approvals that the remote has, or that travel
// in the messages of the commits, lead from the ref's state to the tip's.
func (k *checking) approved(ctx context.Context, base checkBase, tip checkTip, touched []string) (bool, error) {
	if len(touched) == 0 {
		return true, nil
	}
	if k.gated == nil {
		return false, nil
	}
	p, err := k.gated.plan(ctx, base.ref, tip.commit, planning{})
	if clash := (*conflict)(nil); asConflict(err, &clash) {
		k.note(clash.Error() + ": merge or rebase first; an approval could not be looked for")
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := k.gated.considerCarried(ctx, tip.commit); err != nil {
		return false, err
	}
	if k.gated.approved(p) {
		return true, nil
	}
	stale, err := k.gated.stale(ctx, p)
	if len(stale) > 0 {
		k.note("approval " + short(stale[0].Hash) + " is stale, " + quoted(p.Ref) + " has moved on since: it must be approved again")
	}
	return false, err
}

// findings are the hook's, and before them that of the seed: oracles that were
// touched.
func (k *checking) findings(ctx context.Context, change *gate.OracleChange, r *checkResult) []finding.Finding {
	spec := change.OraclesChanged && change.HarnessChanged && r.BaseCommit != ""
	change.OraclesChanged, change.HarnessChanged = true, true
	list := slices.DeleteFunc(change.Findings(r.Approved), func(f finding.Finding) bool { return f.Code == finding.SpecMoved && !spec })
	if r.Approved {
		return list
	}
	first := finding.Finding{Code: finding.ProtectedChangeUnapproved, Args: map[string]string{"topic": k.topic(ctx)}}
	if r.Label {
		first.Code, first.Severity = finding.OracleChangePending, finding.Warn
	}
	first.Path, first.Items = shownChange(r.Touched, change.Meanings)
	first.Args["files"] = strconv.Itoa(len(r.Touched))
	return append([]finding.Finding{first}, list...)
}

// shownChange is the file that a change is named by, and its rows: what it means,
// and the files that have no meaning of their own.
func shownChange(files []string, list []oracle.Meaning) (path string, rows []string) {
	switch {
	case len(list) == 0 && len(files) == 1:
		return files[0], nil
	case len(list) == 0:
		return files[0], files
	}
	path = files[0]
	if i := slices.IndexFunc(files, func(file string) bool { return strings.HasSuffix(file, ".toml") }); i >= 0 {
		path = files[i]
	}
	rows = oracle.Lines(list, screenful)
	for _, file := range files {
		if !strings.HasPrefix(file, oracle.Dir+"/") && file != oracle.Dir {
			rows = append(rows, file)
		}
	}
	return path, rows
}

// topic is how the change would be proposed; empty: by the name of its file.
func (k *checking) topic(ctx context.Context) string {
	if k.gated != nil {
		return k.gated.changeName(ctx)
	}
	branch, err := k.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil || branch == "main" || branch == "master" {
		return ""
	}
	return strings.TrimPrefix(branch, "oracle-change/")
}

// labelled reads the seed's comma list.
func labelled(list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(one string) bool { return strings.TrimSpace(one) == label })
}
