package gate

import (
	"context"
	"slices"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
)

// lost are the records, in order of ref, whose good tips are gone from the objects:
// a backup was restored that is older than the record, or a ref was moved by hand
// and the rest pruned. What such a tip reached is no longer known to be good, so
// the rules find fault with a history that passed long ago. It is asked once, where
// something speaks against a push.
func (j *judgement) lost(ctx context.Context) ([]*state.Record, error) {
	if j.sought {
		return j.gone, nil
	}
	tips := j.tips()
	names := make([]string, len(tips))
	for i, r := range tips {
		names[i] = r.Good.Commit
	}
	objects, err := j.Repo.Info(ctx, names...)
	if err != nil {
		return nil, err
	}
	for i, r := range tips {
		if objects[i].Type != gitrepo.Commit {
			j.gone = append(j.gone, r)
		}
	}
	j.sought = true
	return j.gone, nil
}

// ownLost is the record of a protected ref that is judged from a good tip which is
// gone; nil where it is not.
func (j *judgement) ownLost(ctx context.Context, m *move) ([]*state.Record, error) {
	if m.good == "" {
		return nil, nil
	}
	lost, err := j.lost(ctx)
	if i := slices.IndexFunc(lost, func(r *state.Record) bool { return r.Ref == m.name }); i >= 0 {
		return lost[i : i+1], err
	}
	return nil, err
}

// baseLost is the good tip that what a move changes is told by, where it is gone and
// nothing takes its place; empty where it is there.
func (j *judgement) baseLost(ctx context.Context, m *move, base string) (string, error) {
	good := j.baseTip(m)
	if good == "" || base != "" && base != good {
		return "", nil
	}
	lost, err := j.lost(ctx)
	if slices.ContainsFunc(lost, func(r *state.Record) bool { return r.Good.Commit == good }) {
		return good, err
	}
	return "", err
}

// tipGone says, once a move, that it cannot be judged without a good tip that an
// admin must look for.
func (j *judgement) tipGone(m *move, lost []*state.Record) {
	for _, r := range lost {
		f := finding.Finding{Code: finding.GoodTipGone, Severity: finding.NotJudged, Args: map[string]string{"good": r.Good.Commit, "other": r.Ref}}
		told := func(one finding.Finding) bool {
			return one.Ref == m.Ref && one.Code == f.Code && one.Args["other"] == r.Ref
		}
		if !slices.ContainsFunc(j.findings, told) && !slices.ContainsFunc(j.silent, told) {
			j.note(m, f)
		}
	}
}

// sure keeps the commits that a move brings whatever the good tips that are gone
// had reached. Where that leaves some out, it says why the move is not judged: who
// pushes need not drop the start of the repository.
func (j *judgement) sure(ctx context.Context, m *move, judged scope, nodes []gitrepo.Node) ([]gitrepo.Node, error) {
	lost, err := j.lost(ctx)
	if err != nil || len(lost) == 0 || len(nodes) == 0 {
		return nodes, err
	}
	own := slices.IndexFunc(lost, func(r *state.Record) bool { return r.Ref == m.name })
	if own >= 0 {
		j.tipGone(m, lost[own:own+1])
		return nil, nil
	}
	values, err := j.valuesOf(ctx, lost)
	if err != nil {
		return nil, err
	}
	if len(values) < len(lost) && judged.rooted() {
		j.tipGone(m, lost)
		return nil, nil
	}
	fresh, err := j.Repo.History(ctx, []string{m.commit}, append(slices.Clone(judged.exclude), values...), nil)
	if err != nil {
		return nil, err
	}
	var out []gitrepo.Node
	for _, n := range nodes {
		if at := fresh.Find(judged.graph.ID(n)); at != gitrepo.None && fresh.Inside(at) {
			out = append(out, n)
		}
	}
	if len(out) < len(nodes) {
		j.tipGone(m, lost)
	}
	return out, nil
}

// valuesOf is where the refs of some records stand that are there.
func (j *judgement) valuesOf(ctx context.Context, records []*state.Record) ([]string, error) {
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.Ref
	}
	values, err := j.Repo.Values(ctx, names...)
	return slices.DeleteFunc(values, func(v string) bool { return v == "" }), err
}

// rooted says that a scope goes back to the start of a history.
func (s scope) rooted() bool {
	for n, on := range s.set {
		if on && s.graph.Inside(gitrepo.Node(n)) && len(s.graph.Parents(gitrepo.Node(n))) == 0 {
			return true
		}
	}
	return false
}
