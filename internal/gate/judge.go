package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// walks are the two that a push may need, under way or done.
type walks struct {
	protected, others *walk
	err               error
}

// judge is the static part: everything but the replay.
func (j *judgement) judge(ctx context.Context, updates []push.Update) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	started := make(chan error, 1)
	go func() { started <- j.Repo.Start() }()
	err := j.prepare(ctx, updates)
	if serr := <-started; err == nil {
		err = serr
	}
	if err != nil {
		return err
	}
	walked := make(chan walks, 1)
	go func() { walked <- j.walks(ctx) }()
	err = j.lookUp(ctx)
	if err != nil {
		stop()
	}
	w := <-walked
	if err == nil && w.err != nil {
		err = j.cut(ctx, w.err)
	}
	if err != nil || j.shallow {
		return err
	}
	if err := j.offers(ctx); err != nil {
		return err
	}
	if err := j.judgeProtected(ctx, w.protected); err != nil {
		return err
	}
	j.others = w.others
	if err := j.judgeOthers(ctx, w.others); err != nil {
		return err
	}
	return j.oracleRule(ctx)
}

func (j *judgement) prepare(ctx context.Context, updates []push.Update) error {
	if err := j.load(); err != nil {
		return err
	}
	if err := j.sort(ctx, updates); err != nil {
		return err
	}
	return j.settle(ctx)
}

// cut looks whether a history could not be read because a shallow clone pushed a
// part of it, or because its trees spell out to too much, which is the push's
// fault. Any other failure stays one.
func (j *judgement) cut(ctx context.Context, failed error) error {
	if ctx.Err() != nil || j.lenient() {
		return failed
	}
	var broken *state.Broken
	if errors.As(failed, &broken) {
		for _, m := range j.each(func(*move) bool { return true }) {
			if len(j.findings) < maxShown {
				j.malformed(m, broken)
			}
		}
		if j.shallow = j.refused(); j.shallow {
			return nil
		}
		return failed
	}
	for _, m := range j.each(func(*move) bool { return true }) {
		at, err := j.Repo.Cut(ctx, []string{m.New}, j.excluded())
		if err != nil {
			return failed
		}
		if at != "" {
			j.shallow = true
			j.insist(m, finding.Finding{Code: finding.ShallowPush, Severity: finding.NotJudged, Commit: at})
		}
		if len(j.findings) > maxShown {
			break
		}
	}
	if !j.shallow {
		return failed
	}
	return nil
}

// each are the moves that the history rule holds and that bring a value.
func (j *judgement) each(want func(*move) bool) []*move {
	return slices.DeleteFunc(slices.Clone(j.moves), func(m *move) bool { return !m.gated() || m.Delete() || !want(m) })
}

func guarded(m *move) bool   { return m.protected() }
func unguarded(m *move) bool { return !m.protected() }

// walks starts git's walk while the objects are looked up: new values are given
// as they came, and git peels them.
func (j *judgement) walks(ctx context.Context) walks {
	var w walks
	exclude := j.excluded()
	first, then := news(j.each(guarded)), j.each(unguarded)
	if len(first) > 0 {
		if w.protected, w.err = j.walk(ctx, first, exclude); w.err != nil {
			return w
		}
	}
	if len(then) == 0 {
		return w
	}
	exclude = append(slices.Clone(exclude), first...)
	if len(then) == 1 && then[0].before() != "" {
		exclude = append(exclude, then[0].Old)
	}
	w.others, w.err = j.walk(ctx, news(then), exclude)
	return w
}

func news(moves []*move) []string {
	var ids []string
	for _, m := range moves {
		ids = append(ids, m.New)
	}
	return ids
}

// judgeProtected holds protected refs to the state rule, and the commits that
// they would take in to the history rule.
func (j *judgement) judgeProtected(ctx context.Context, w *walk) error {
	if w == nil {
		return nil
	}
	bad, err := j.inspect(ctx, w)
	if err != nil {
		return err
	}
	for _, m := range j.each(guarded) {
		if m.commit == "" {
			continue
		}
		rule := j.unadopted
		if j.adopted(m) {
			j.movedBehind(m)
			rule = j.stateRule
		}
		// Blame comes first: it knows the commit that brought what the rules, which look
		// at the tip, would name once more.
		judged := scope{w, bad, w.graph.Reach(w.graph.Find(m.commit))}
		if err := j.blame(ctx, m, judged); err != nil {
			return err
		}
		if err := rule(ctx, m, w); err != nil {
			return err
		}
		if err := j.takesOn(ctx, m); err != nil {
			return err
		}
		if !m.lawful || len(m.chain) > 0 || m.opening != nil {
			continue
		}
		if err := j.historyRule(ctx, m, judged); err != nil {
			return err
		}
	}
	return nil
}

func (j *judgement) judgeOthers(ctx context.Context, w *walk) error {
	if w == nil {
		return nil
	}
	bad, err := j.inspect(ctx, w)
	if err != nil {
		return err
	}
	for _, m := range j.each(unguarded) {
		if j.plenty() {
			return nil
		}
		m.authorised = true
		if bad.none() || m.commit == "" {
			continue
		}
		judged, err := j.scope(ctx, m, scope{walk: w, bad: bad})
		if err != nil {
			return err
		}
		if err := j.blame(ctx, m, judged); err != nil {
			return err
		}
		if err := j.historyRule(ctx, m, judged); err != nil {
			return err
		}
	}
	return nil
}

// plenty says that so much is refused that the rest need not be looked at: the
// push is refused whole, and nobody reads on.
func (j *judgement) plenty() bool {
	refused := 0
	for _, f := range j.findings {
		if f.Severity == finding.Refuse {
			refused++
		}
	}
	return refused > maxRefused
}

// scope is what one move is judged by: some commits of a walk.
type scope struct {
	*walk
	bad *faults
	set gitrepo.Set
}

// scope is the part of a shared walk that one ref is judged by. The ref's old
// value is no part of that walk, so where the ref does not simply grow, it gets
// a walk of its own.
func (j *judgement) scope(ctx context.Context, m *move, shared scope) (scope, error) {
	shared.set = shared.graph.Reach(shared.graph.Find(m.commit))
	if m.before() == "" || slices.Contains(shared.exclude, m.Old) || !shared.bad.in(shared.set) {
		return shared, nil
	}
	if old := shared.graph.Find(m.Old); shared.graph.Inside(old) {
		shared.set = shared.set.Less(shared.graph.Reach(old))
		return shared, nil
	}
	own, err := j.walk(ctx, []string{m.New}, append(slices.Clone(shared.exclude), m.Old))
	if err != nil {
		return scope{}, err
	}
	bad, err := j.inspect(ctx, own)
	return scope{own, bad, own.graph.Inner()}, err
}

// faults are the commits of a walk with something to say about.
type faults struct {
	moved     []gitrepo.Node // not accounted for by a good tip
	forbidden map[gitrepo.Node]state.Entry
	aliases   map[gitrepo.Node]state.Entry
	broken    map[gitrepo.Node]*state.Broken
}

func (f *faults) none() bool {
	return len(f.moved) == 0 && len(f.forbidden) == 0 && len(f.aliases) == 0 && len(f.broken) == 0
}

// in says that a commit of the set is among them.
func (f *faults) in(set gitrepo.Set) bool {
	for n, on := range set {
		if on && f.has(gitrepo.Node(n)) {
			return true
		}
	}
	return slices.ContainsFunc(f.moved, func(n gitrepo.Node) bool { return set[n] })
}

// has says that no approval helps the commit.
func (f *faults) has(n gitrepo.Node) bool {
	_, forbidden := f.forbidden[n]
	_, alias := f.aliases[n]
	return forbidden || alias || f.broken[n] != nil
}

// inspect looks at every commit of a walk once, whatever refs they are for.
func (j *judgement) inspect(ctx context.Context, w *walk) (*faults, error) {
	forbidden, err := w.forbidden(ctx, j.scanner)
	if err != nil {
		return nil, err
	}
	f := &faults{forbidden: forbidden, aliases: w.aliases(), broken: w.broken()}
	for _, n := range w.moved() {
		broken, err := j.scanner.Sound(ctx, w.views[n])
		switch {
		case err != nil:
			return nil, err
		case broken != nil:
			f.broken[n] = broken
		default:
			f.moved = append(f.moved, n)
		}
	}
	return f, nil
}

// blame adds what no approval helps against: one finding a cause, however many
// commits have it.
func (j *judgement) blame(ctx context.Context, m *move, judged scope) error {
	bad := judged.bad
	if len(bad.forbidden)+len(bad.aliases)+len(bad.broken) == 0 {
		return nil
	}
	var nodes []gitrepo.Node
	for n := gitrepo.Node(0); int(n) < len(judged.set) && len(nodes) < maxShown; n++ {
		if judged.set[n] && bad.has(n) {
			nodes = append(nodes, n)
		}
	}
	nodes, err := j.sure(ctx, m, judged, nodes)
	if err != nil || len(nodes) == 0 {
		return err
	}
	for _, c := range j.causes(judged, nodes) {
		if len(c.nodes) > 1 {
			if c.Items, err = j.subjects(ctx, judged.graph, c.nodes); err != nil {
				return err
			}
		}
		j.note(m, c.Finding)
	}
	return nil
}

// cause is something to blame commits for, and these commits.
type cause struct {
	finding.Finding
	nodes []gitrepo.Node
}

// causes are those of some commits, in order of the first that has each.
func (j *judgement) causes(judged scope, nodes []gitrepo.Node) []*cause {
	var list []*cause
	add := func(n gitrepo.Node, f finding.Finding) {
		same := func(c *cause) bool {
			return c.Code == f.Code && c.Path == f.Path && c.Args["detail"] == f.Args["detail"]
		}
		if i := slices.IndexFunc(list, same); i >= 0 {
			list[i].nodes = append(list[i].nodes, n)
			return
		}
		list = append(list, &cause{f, []gitrepo.Node{n}})
	}
	for _, n := range nodes {
		commit := judged.graph.ID(n)
		if e, ok := judged.bad.forbidden[n]; ok {
			add(n, finding.Finding{Code: finding.ForbiddenPath, Commit: commit, Path: e.Path})
		}
		if e, ok := judged.bad.aliases[n]; ok {
			add(n, finding.Finding{Code: finding.AliasPath, Commit: commit, Path: e.Path, Args: map[string]string{"target": j.aliased(e.Path)}})
		}
		if b, ok := judged.bad.broken[n]; ok {
			add(n, malformedTree(commit, b))
		}
	}
	return list
}

// aliased is the pattern that a path aliases; the first, where several.
func (j *judgement) aliased(path string) string {
	for _, list := range [][]string{j.Protected.Sorted(), j.Forbidden.Sorted()} {
		for _, text := range list {
			if one, err := policy.ParsePatterns([]string{text}); err == nil && policy.Alias([]byte(path), one) {
				return text
			}
		}
	}
	return path
}
