package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/state"
)

// maxSteps bounds the statements of one chain; the server reads at most 64
// approvals a push that name the ref.
const maxSteps = 32

// relation says how REV stands to the tip of a ref.
type relation string

const (
	contained   relation = "contained"    // the tip has REV already
	fastForward relation = "fast-forward" // REV has the tip
	merging     relation = "merge"        // both have commits of their own
	creating    relation = "create"       // there is no such ref yet
	replacing   relation = "replace"      // asked for: the ref is set to REV as it is
)

// step is one signed move of the protected paths: from one state to another.
// The trees are what the states are of.
type step struct {
	Before, After         string
	BeforeTree, AfterTree string
	Commit                string // the commit whose change it is; REV for the whole
}

// plan is what one ref would go through if REV came to it.
type plan struct {
	Ref      string
	Tip      string // empty: the ref does not exist
	Rev      string
	Relation relation
	Before   string
	After    string
	trees    [2]string // of Before and After
	Steps    []step    // empty where nothing changes
	// Borrowed is the protected ref that already stands in the state After; a new
	// ref may start from there without an approval.
	Borrowed string
	// Several says that Steps has one for each commit that changes the protected
	// paths, and the whole change is another way to say it.
	Several bool
}

// planning says how plans are made.
type planning struct {
	from    string // a commit that is taken for every ref's tip; empty: the remote's tip
	squash  bool   // one step, whatever the commits are
	replace bool   // REV replaces the tip, nothing is merged
}

// conflict is a merge that leaves a protected path undecided.
type conflict struct {
	ref, tip, rev string
	paths         []string
}

func (e *conflict) Error() string {
	return fmt.Sprintf("merging %s into %s (%s) conflicts in %s", short(e.rev), quoted(e.ref), short(e.tip), strings.Join(e.paths, ", "))
}

// plan works out the steps of rev for one ref.
func (o *oracleClone) plan(ctx context.Context, ref, rev string, how planning) (plan, error) {
	p := plan{Ref: ref, Tip: o.remote.refs[ref], Rev: rev}
	if how.from != "" {
		p.Tip = how.from
	}
	if err := o.relate(ctx, &p, how); err != nil {
		return plan{}, err
	}
	if err := o.ends(ctx, &p); err != nil {
		return plan{}, err
	}
	whole := step{p.Before, p.After, p.trees[0], p.trees[1], rev}
	if whole.Before != whole.After {
		p.Steps = []step{whole}
	}
	if p.Relation == creating && how.from == "" {
		return p, o.borrow(ctx, &p)
	}
	if how.squash || p.Relation != fastForward && p.Relation != merging {
		return p, nil
	}
	steps, err := o.commitSteps(ctx, p)
	if err != nil {
		return plan{}, err
	}
	if len(steps) > 0 {
		p.Steps, p.Several = steps, len(steps) > 1
	}
	return p, nil
}

func (o *oracleClone) relate(ctx context.Context, p *plan, how planning) error {
	_, exists := o.remote.refs[p.Ref]
	switch {
	case !exists:
		p.Relation = creating
		return nil
	case how.replace:
		p.Relation = replacing
		return nil
	}
	for _, way := range []struct {
		a, b string
		is   relation
	}{{p.Rev, p.Tip, contained}, {p.Tip, p.Rev, fastForward}} {
		yes, err := o.ancestor(ctx, way.a, way.b)
		if err != nil {
			return undecided("compare "+short(p.Rev)+" with "+quoted(p.Ref), err)
		}
		if yes {
			p.Relation = way.is
			return nil
		}
	}
	p.Relation = merging
	return nil
}

// ends fills in the states before and after, and their trees.
func (o *oracleClone) ends(ctx context.Context, p *plan) (err error) {
	if p.trees[0], p.Before, err = o.tipState(ctx, p.Tip); err != nil {
		return err
	}
	if p.Relation == contained {
		p.trees[1], p.After = p.trees[0], p.Before
		return nil
	}
	p.trees[1], p.After, err = o.landed(ctx, *p, p.Rev)
	return err
}

// tipState is the state of a commit; of no commit, the empty state.
func (o *oracleClone) tipState(ctx context.Context, commit string) (tree, digest string, err error) {
	tree = commit
	if commit == "" {
		if tree, err = o.emptyTree(ctx); err != nil {
			return "", "", undecided("name the empty tree", err)
		}
		return tree, state.Empty(), nil
	}
	digest, err = o.stands(ctx, tree)
	return tree, digest, err
}

// landed is the state that the plan's ref has once commit has come to it.
func (o *oracleClone) landed(ctx context.Context, p plan, commit string) (tree, digest string, err error) {
	tree = commit
	if p.Relation == merging {
		if tree, err = o.merged(ctx, p.Ref, p.Tip, commit); err != nil {
			return "", "", err
		}
	}
	digest, err = o.state(ctx, tree, p.trees[0])
	return tree, digest, err
}

// merged is the tree of commit merged into tip.
func (o *oracleClone) merged(ctx context.Context, ref, tip, commit string) (string, error) {
	out, err := o.out(ctx, "merge-tree", "--write-tree", "-z", "--messages", tip, commit)
	if err != nil && !exitedWith(err, 1) {
		return "", undecided(fmt.Sprintf("merge %s into %s", short(commit), quoted(ref)), err, o.mergeHints(ctx)...)
	}
	tree, conflicts, perr := parseMergeTree(out)
	if perr != nil {
		return "", undecided(fmt.Sprintf("merge %s into %s", short(commit), quoted(ref)), perr)
	}
	if err == nil {
		return tree, nil
	}
	var hit []string
	for _, path := range conflicts {
		if o.conflictMatters(path) && !slices.Contains(hit, quoted(path)) {
			hit = append(hit, quoted(path))
		}
	}
	if len(hit) > 0 {
		return "", &conflict{ref: ref, tip: tip, rev: commit, paths: hit}
	}
	return tree, nil
}

// conflictMatters: a path that is protected, or that a merge moved aside from a
// protected one ("oracles~main").
func (o *oracleClone) conflictMatters(path string) bool {
	if o.gate.protected.Match([]byte(path)) {
		return true
	}
	for i := range len(path) {
		if path[i] == '~' && o.gate.protected.Match([]byte(path[:i])) {
			return true
		}
	}
	return false
}

func (o *oracleClone) mergeHints(ctx context.Context) []string {
	if shallow, err := o.line(ctx, "rev-parse", "--is-shallow-repository"); err == nil && shallow == "true" {
		return []string{"this clone is shallow: git fetch --unshallow " + word(o.remote.name)}
	}
	return []string{"where REV is to replace the ref as it is, without a merge: --replace"}
}

// parseMergeTree reads the -z form of git-merge-tree(1): the tree, the entries
// in conflict, and the messages, whose paths count where they tell of a
// conflict.
func parseMergeTree(out []byte) (tree string, conflicts []string, err error) {
	bad := fmt.Errorf("git merge-tree: the answer makes no sense")
	fields := strings.Split(string(out), "\x00")
	tree = fields[0]
	if !hexID(tree) {
		return "", nil, bad
	}
	rest := fields[1:]
	for len(rest) > 0 && rest[0] != "" {
		_, path, ok := strings.Cut(rest[0], "\t")
		if !ok {
			return "", nil, bad
		}
		conflicts = append(conflicts, path)
		rest = rest[1:]
	}
	if len(rest) > 0 {
		rest = rest[1:] // the empty field between the sections
	}
	for len(rest) > 1 {
		var n int
		if _, err := fmt.Sscanf(rest[0], "%d", &n); err != nil || n < 0 || len(rest) < n+3 {
			return "", nil, bad
		}
		if strings.HasPrefix(rest[n+1], "CONFLICT") {
			conflicts = append(conflicts, rest[1:n+1]...)
		}
		rest = rest[n+3:]
	}
	return tree, conflicts, nil
}

// commitSteps answers a step for each commit between the tip and REV that changes the
// protected paths, where these commits form a line; none where they do not.
func (o *oracleClone) commitSteps(ctx context.Context, p plan) ([]step, error) {
	straight, err := o.straight(ctx, p.Tip, p.Rev)
	if err != nil || !straight {
		return nil, err
	}
	commits, err := o.touching(ctx, p, maxSteps+1)
	if err != nil {
		return nil, err
	}
	if len(commits) > maxSteps {
		return nil, refused(fmt.Sprintf("more than %d commits of %s change the protected paths, and a chain has no more steps", maxSteps, short(p.Rev)),
			"sign the whole change as one step: --squash")
	}
	return o.chain(ctx, p, commits)
}

// touching are the last commits that REV has, the tip has not, and that change
// protected paths, oldest first.
func (o *oracleClone) touching(ctx context.Context, p plan, most int) ([]string, error) {
	args := []string{"rev-list", "--topo-order", "--full-history", fmt.Sprintf("--max-count=%d", most), p.Rev}
	if p.Tip != "" {
		args = append(args, "^"+p.Tip)
	}
	out, err := o.line(ctx, append(append(args, "--"), o.gate.protected.Pathspecs()...)...)
	if err != nil {
		return nil, undecided("list the commits of "+short(p.Rev), err)
	}
	commits := strings.Fields(out)
	slices.Reverse(commits)
	return commits, nil
}

func (o *oracleClone) chain(ctx context.Context, p plan, commits []string) ([]step, error) {
	var steps []step
	tree, digest := p.trees[0], p.Before
	add := func(nextTree, next, commit string) {
		if next != digest {
			steps = append(steps, step{digest, next, tree, nextTree, commit})
		}
		tree, digest = nextTree, next
	}
	for _, commit := range commits {
		nextTree, next, err := o.landed(ctx, p, commit)
		if err != nil {
			return nil, err
		}
		add(nextTree, next, commit)
	}
	add(p.trees[1], p.After, p.Rev)
	return once(steps), nil
}

// once drops a step that stands in the list already: A to B to A to B needs
// two statements.
func once(steps []step) []step {
	seen := map[[2]string]bool{}
	return slices.DeleteFunc(steps, func(s step) bool {
		key := [2]string{s.Before, s.After}
		again := seen[key]
		seen[key] = true
		return again
	})
}

// straight tells whether the commits that rev has and tip has not are a line:
// one parent each, and each the parent of the next.
func (o *oracleClone) straight(ctx context.Context, tip, rev string) (bool, error) {
	out, err := o.out(ctx, "rev-list", "--topo-order", "--parents", tip+".."+rev)
	if err != nil {
		return false, undecided("list the commits of "+short(rev), err)
	}
	next := rev
	for line := range strings.Lines(string(out)) {
		ids := strings.Fields(line)
		if len(ids) != 2 || ids[0] != next {
			return false, nil
		}
		next = ids[1]
	}
	return true, nil
}

// borrow looks for a protected ref that already stands in the state that the
// new ref begins with.
func (o *oracleClone) borrow(ctx context.Context, p *plan) error {
	for _, ref := range o.gate.present(o.remote) {
		_, digest, err := o.tipState(ctx, o.remote.refs[ref])
		if err != nil {
			return err
		}
		if digest == p.After {
			p.Borrowed, p.Steps = ref, nil
			return nil
		}
	}
	return nil
}
