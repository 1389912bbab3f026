package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/internal/trailer"
)

// maxShown bounds the rows of one finding, and the commits that are looked at
// once more before they are named.
const maxShown = 50

const (
	maxRefused  = 100 // refusals after which a push is not judged further
	maxAncestry = 200 // questions about one ref's commits, once one is known to count
	maxStates   = 500 // commits of a ref that are known to count, before the rest goes by them
)

// stateRule: a protected ref moves to the state of its good tip, or to one that
// a chain of unused approvals leads to.
func (j *judgement) stateRule(ctx context.Context, m *move, w *walk) error {
	if m.view = w.view(m.commit); m.view == nil {
		var err error
		if m.view, err = j.scanner.View(ctx, m.commit+"^{tree}"); err != nil {
			return err
		}
	}
	starts, marks, err := j.starts(ctx, m)
	if errors.Is(err, gitrepo.ErrMissing) {
		if lost, lerr := j.lost(ctx); lerr == nil && len(lost) > 0 {
			j.tipGone(m, lost)
			return nil
		}
	}
	if err != nil {
		return err
	}
	broken, err := j.newFlaw(ctx, m)
	if err != nil {
		return err
	}
	if broken != nil {
		j.malformed(m, broken)
		return nil
	}
	for i, mark := range marks {
		if mark == m.view.Mark {
			m.lawful, m.authorised, m.state = true, true, starts[i]
			return nil
		}
	}
	if m.state, err = j.scanner.State(ctx, m.view); errors.As(err, &broken) {
		j.malformed(m, broken)
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Contains(starts, m.state) {
		m.lawful, m.authorised = true, true
		return nil
	}
	return j.approve(ctx, m, starts)
}

// malformed refuses a move's own tree, unless blame has named it.
func (j *judgement) malformed(m *move, b *state.Broken) {
	if !j.blamed(m, finding.MalformedTree, b.Path) {
		j.note(m, malformedTree(m.commit, b))
	}
}

func malformedTree(commit string, b *state.Broken) finding.Finding {
	return finding.Finding{Code: finding.MalformedTree, Commit: commit, Path: b.Path, Args: map[string]string{"detail": b.Error(), "fault": b.Kind.String()}}
}

// blamed says that a move's commits are told of with this path already.
func (j *judgement) blamed(m *move, code finding.Code, path string) bool {
	is := func(f finding.Finding) bool { return f.Ref == m.Ref && f.Code == code && f.Path == path }
	return slices.ContainsFunc(j.findings, is) || slices.ContainsFunc(j.silent, is)
}

// starts are the states that a protected ref may have without an approval, and
// that a chain may start from; marks go with the first of them. A ref without a
// good tip may start from that of any enforced protected ref, and a chain of its
// own from the empty state as well.
func (j *judgement) starts(ctx context.Context, m *move) (states, marks []string, err error) {
	tips := j.tips()
	if r := j.records[m.name]; r != nil && r.Good.Commit != "" {
		m.good = r.Good.Commit
		tips = []*state.Record{r}
	}
	for _, r := range tips {
		err := j.goodState(ctx, r)
		if errors.Is(err, gitrepo.ErrMissing) && m.good == "" {
			continue // another ref's, and no state that anybody knows
		}
		if err != nil {
			return nil, nil, err
		}
		states, marks = append(states, r.Good.State), append(marks, r.Good.Mark)
	}
	if len(states) == 0 && len(tips) > 0 {
		return nil, nil, fmt.Errorf("judge %q: no state of a good tip is known: %w", m.name, gitrepo.ErrMissing)
	}
	if len(states) == 0 {
		states = []string{state.Empty()}
	}
	return states, marks, nil
}

// approve looks for a chain, and says what is missing where there is none.
func (j *judgement) approve(ctx context.Context, m *move, starts []string) error {
	from := starts
	if m.good == "" && !slices.Contains(from, state.Empty()) {
		from = append(slices.Clone(from), state.Empty())
	}
	found, err := j.tokens(ctx, m)
	if err != nil {
		return err
	}
	offer := j.sift(m, found)
	leading := onTheWay(offer.free, from, m.state)
	if len(leading) > maxValid {
		j.note(m, finding.Finding{Code: finding.LimitExceeded, Severity: finding.NotJudged,
			Args: map[string]string{"what": "the valid approvals that lead to this state are", "limit": strconv.Itoa(maxValid)}})
		return nil
	}
	var own *approved
	if m.chain, own, err = j.chainOf(ctx, m, leading, from); err != nil {
		return err
	}
	if m.chain == nil {
		if j.open(m) {
			return nil
		}
		lost, err := j.ownLost(ctx, m)
		if err != nil {
			return err
		}
		if own != nil && lost != nil {
			j.tipGone(m, lost) // whose commits these are is not known
			return nil
		}
		if own != nil {
			j.note(m, finding.Finding{Code: finding.ApprovalAuthor, Args: map[string]string{"approval": own.Hash, "person": own.Person, "topic": m.topicName()}})
			return nil
		}
		f, err := j.missing(ctx, m, offer, from)
		if err != nil {
			return err
		}
		j.note(m, f)
		return nil
	}
	m.lawful, m.authorised = true, true
	for _, s := range m.chain {
		for _, a := range s.approvals {
			j.note(m, finding.Finding{Code: finding.OracleChangeApproved, Severity: finding.Note,
				Args: map[string]string{"approval": a.Hash, "person": a.Person, "reason": a.Statement.Reason}})
		}
	}
	j.compareReasons(m, found)
	return nil
}

// newFlaw is what is wrong with the trees that lead to the protected paths of a
// protected ref, and is not wrong where it stands: what a good tip reaches is judged by
// nothing else. What was wrong before, and nobody touches, keeps nobody from pushing.
func (j *judgement) newFlaw(ctx context.Context, m *move) (*state.Broken, error) {
	if m.view.Broken == nil {
		return nil, nil
	}
	views, err := j.standings(ctx, m)
	return m.view.Flaw(views...), err
}

// standings are the views of what a protected ref is compared with: its good tip, or
// where it has none those of all. Good tips that are gone are left out.
func (j *judgement) standings(ctx context.Context, m *move) ([]*state.View, error) {
	tips := j.tips()
	if r := j.records[m.name]; r != nil && r.Good.Commit != "" {
		tips = []*state.Record{r}
	}
	var views []*state.View
	for _, r := range tips {
		v, err := j.scanner.View(ctx, r.Good.Commit+"^{tree}")
		if errors.Is(err, gitrepo.ErrMissing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// takesOn: a protected ref takes on no forbidden file that its good tip lacks,
// however its commits came to be.
func (j *judgement) takesOn(ctx context.Context, m *move) error {
	if m.view == nil || len(m.view.Forbidden) == 0 {
		return nil
	}
	if lost, err := j.ownLost(ctx, m); err != nil || lost != nil {
		j.tipGone(m, lost)
		return err
	}
	views, err := j.standings(ctx, m)
	if err != nil {
		return err
	}
	e, ok, err := freshBelow(ctx, j.scanner, m.view, views)
	if err == nil && ok && !j.blamed(m, finding.ForbiddenPath, e.Path) {
		j.note(m, finding.Finding{Code: finding.ForbiddenPath, Commit: m.commit, Path: e.Path})
	}
	return err
}

// historyRule: each commit that moved the protected paths has a state that an
// enforced protected ref stands in, or that an approval for one leads to.
func (j *judgement) historyRule(ctx context.Context, m *move, judged scope) error {
	loose, own, err := j.loose(ctx, m, judged)
	if err != nil {
		return err
	}
	loose, err = j.outside(ctx, m, judged, loose)
	if err != nil || len(loose) == 0 {
		return err
	}
	if m.protected() && j.open(m) {
		return nil
	}
	m.authorised = false
	if loose, err = j.sure(ctx, m, judged, loose); err != nil || len(loose) == 0 {
		return err
	}
	if m.change() {
		f, err := j.shows(ctx, m, judged.views[loose[0]], finding.Finding{Code: finding.OracleChangePending, Severity: finding.Warn, Args: args("topic", m.topicName())})
		j.note(m, f)
		return err
	}
	if by, ok := own[loose[0]]; ok {
		j.note(m, finding.Finding{Code: finding.ApprovalAuthor, Commit: judged.graph.ID(loose[0]),
			Args: map[string]string{"approval": by.Hash, "person": by.Person, "topic": m.topicName()}})
		return nil
	}
	items, err := j.subjects(ctx, judged.graph, loose)
	j.note(m, finding.Finding{Code: finding.HistoryUnapproved, Items: items, Args: args("topic", m.topicName())})
	return err
}

// loose are the commits that moved the protected paths to a state that nobody
// accounts for. Of many such states the rest goes by what is known of them. Own are the
// approvals of those that were approved by who wrote them.
func (j *judgement) loose(ctx context.Context, m *move, judged scope) (nodes []gitrepo.Node, own map[gitrepo.Node]approved, err error) {
	known := map[string]account{} // by mark
	own = map[gitrepo.Node]approved{}
	strange := 0
	for _, n := range judged.bad.moved {
		if !judged.set[n] {
			continue
		}
		v := judged.views[n]
		a, seen := known[v.Mark]
		if !seen && strange < maxStates {
			a, err = j.accounted(ctx, m, v, judged.graph.ID(n))
			var broken *state.Broken
			if err != nil && !errors.As(err, &broken) {
				return nil, nil, err
			}
			if !a.personal {
				known[v.Mark] = a
			}
		}
		if a.ok {
			continue
		}
		nodes = append(nodes, n)
		strange++
		if a.own != nil {
			own[n] = *a.own
		}
	}
	return nodes, own, nil
}

func args(name, value string) map[string]string {
	if value == "" {
		return nil
	}
	return map[string]string{name: value}
}

// outside drops the commits that an excluded one does reach: where commit clocks
// run backwards, git's walk may name some.
func (j *judgement) outside(ctx context.Context, m *move, judged scope, nodes []gitrepo.Node) ([]gitrepo.Node, error) {
	exclude := judged.exclude
	if m.before() != "" && !m.protected() && !slices.Contains(exclude, m.Old) {
		exclude = append(slices.Clone(exclude), m.Old)
	}
	var (
		out   []gitrepo.Node
		free  gitrepo.Set // not reached, and so is nothing above
		asked int
	)
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if free != nil && (free[n] || asked*len(exclude) >= maxAncestry) {
			out = append(out, n)
			continue
		}
		asked++
		reached, err := j.Repo.ReachedBy(ctx, judged.graph.ID(n), exclude)
		if err != nil {
			return nil, err
		}
		if !reached {
			out = append(out, n)
			free = judged.graph.Above(free, n)
		}
	}
	slices.Reverse(out)
	return out, nil
}

// subjects are the commits as a person knows them: short id and first line.
func (j *judgement) subjects(ctx context.Context, g *gitrepo.Graph, nodes []gitrepo.Node) ([]string, error) {
	var ids []string
	for _, n := range nodes[:min(len(nodes), maxShown)] {
		ids = append(ids, g.ID(n))
	}
	items := make([]string, len(ids))
	err := j.Repo.ReadAll(ctx, ids, maxCommit, func(i int, _ gitrepo.Object, data []byte) error {
		first, _, _ := bytes.Cut(bytes.TrimLeft(trailer.Message(data), "\n"), []byte("\n"))
		items[i] = ids[i][:10] + "  " + string(first[:min(len(first), 80)])
		return nil
	})
	for range len(nodes) - len(ids) {
		items = append(items, "")
	}
	return items, err
}

// changed are the protected files in which a view differs from a commit; from
// none, all of them. A commit that is gone is gitrepo.ErrMissing.
func (j *judgement) changed(ctx context.Context, from string, v *state.View) ([]string, error) {
	base := &state.View{}
	if from != "" {
		var err error
		if base, err = j.scanner.View(ctx, from+"^{tree}"); err != nil {
			return nil, err
		}
	}
	before, err := j.scanner.Below(ctx, base.Protected)
	if err == nil {
		after, aerr := j.scanner.Below(ctx, v.Protected)
		if aerr == nil {
			return differing(before, after), nil
		}
		err = aerr
	}
	var broken *state.Broken
	if errors.As(err, &broken) {
		return nil, nil // too much to name
	}
	return nil, err
}

func differing(before, after []state.Entry) []string {
	had := map[string]state.Entry{}
	for _, e := range before {
		had[e.Path] = e
	}
	var paths []string
	for _, e := range after {
		if had[e.Path] != e {
			paths = append(paths, e.Path)
		}
		delete(had, e.Path)
	}
	for path := range had {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// baseTip is the good tip that a ref is compared with.
func (j *judgement) baseTip(m *move) string {
	if m.good != "" {
		return m.good
	}
	if r := j.records[j.sealRef(m)]; r != nil {
		return r.Good.Commit
	}
	return ""
}
