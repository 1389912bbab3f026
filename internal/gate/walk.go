package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
)

// walk is the commits of some ranges, and what the tree of each, and of each
// commit at the border, has at the paths that count.
type walk struct {
	graph   *gitrepo.Graph
	views   []*state.View
	exclude []string
}

// walk lets git name the commits that tips reach and exclude do not, and looks
// at their trees meanwhile.
func (j *judgement) walk(ctx context.Context, tips, exclude []string) (*walk, error) {
	w := &walk{exclude: exclude}
	var err error
	w.graph, err = j.Repo.History(ctx, tips, exclude, func(g *gitrepo.Graph, run []gitrepo.Node) error {
		trees := make([]string, len(run))
		for i, n := range run {
			trees[i] = g.Tree(n)
		}
		return w.look(ctx, j.scanner, g, run, trees)
	})
	if err != nil {
		return nil, err
	}
	return w, w.border(ctx, j.scanner)
}

func (w *walk) look(ctx context.Context, s *state.Scanner, g *gitrepo.Graph, nodes []gitrepo.Node, trees []string) error {
	views, err := s.Views(ctx, trees)
	if err != nil {
		return err
	}
	if more := g.Len() - len(w.views); more > 0 {
		if cap(w.views) < g.Len() {
			w.views = slices.Grow(w.views, g.Len())
		}
		w.views = w.views[:g.Len()]
	}
	for i, n := range nodes {
		w.views[n] = views[i]
	}
	return nil
}

func (w *walk) border(ctx context.Context, s *state.Scanner) error {
	var (
		nodes []gitrepo.Node
		trees []string
	)
	for n := gitrepo.Node(0); int(n) < w.graph.Len(); n++ {
		if !w.graph.Inside(n) {
			nodes, trees = append(nodes, n), append(trees, w.graph.ID(n)+"^{tree}")
		}
	}
	return w.look(ctx, s, w.graph, nodes, trees)
}

// view is the view of a commit; nil where the walk did not come there.
func (w *walk) view(commit string) *state.View {
	if n := w.graph.Find(commit); n != gitrepo.None {
		return w.views[n]
	}
	return nil
}

func (w *walk) parents(n gitrepo.Node) []*state.View {
	nodes := w.graph.Parents(n)
	views := make([]*state.View, len(nodes))
	for i, p := range nodes {
		views[i] = w.views[p]
	}
	return views
}

// moved are the commits that moved the protected paths: their state differs from
// that of each parent. An empty parent counts only where all are; a root comes
// from the empty state.
func (w *walk) moved() []gitrepo.Node {
	return w.where(func(n gitrepo.Node) bool {
		full := false
		for _, p := range w.graph.Parents(n) {
			v := w.views[p]
			if v.Empty() {
				continue
			}
			if v.Mark == w.views[n].Mark {
				return false
			}
			full = true
		}
		if !full {
			return !w.views[n].Empty()
		}
		return true
	})
}

func (w *walk) where(is func(gitrepo.Node) bool) []gitrepo.Node {
	var nodes []gitrepo.Node
	for n := gitrepo.Node(0); int(n) < w.graph.Len(); n++ {
		if w.graph.Inside(n) && is(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// aliases are the commits that add or alter an entry that aliases a path that
// counts.
func (w *walk) aliases() map[gitrepo.Node]state.Entry {
	found := map[gitrepo.Node]state.Entry{}
	for _, n := range w.where(func(n gitrepo.Node) bool { return len(w.views[n].Aliases) > 0 }) {
		if e, ok := fresh(w.views[n].Aliases, w.parents(n), func(v *state.View) []state.Entry { return v.Aliases }); ok {
			found[n] = e
		}
	}
	return found
}

// fresh is the first entry that none of the parents has.
func fresh(entries []state.Entry, parents []*state.View, of func(*state.View) []state.Entry) (state.Entry, bool) {
	had := map[state.Entry]bool{}
	for _, p := range parents {
		for _, e := range of(p) {
			had[e] = true
		}
	}
	for _, e := range entries {
		if !had[e] {
			return e, true
		}
	}
	return state.Entry{}, false
}

// broken are the commits whose trees are not what git would write, with what no
// parent's have wrong as well.
func (w *walk) broken() map[gitrepo.Node]*state.Broken {
	found := map[gitrepo.Node]*state.Broken{}
	for _, n := range w.where(func(n gitrepo.Node) bool { return w.views[n].Broken != nil }) {
		if broken := w.views[n].Flaw(w.parents(n)...); broken != nil {
			found[n] = broken
		}
	}
	return found
}

// forbidden are the commits with a forbidden entry that none of their parents
// has.
func (w *walk) forbidden(ctx context.Context, s *state.Scanner) (map[gitrepo.Node]state.Entry, error) {
	found := map[gitrepo.Node]state.Entry{}
	for _, n := range w.where(func(n gitrepo.Node) bool { return len(w.views[n].Forbidden) > 0 }) {
		if w.carried(n) {
			continue
		}
		e, ok, err := freshBelow(ctx, s, w.views[n], w.parents(n))
		if err != nil {
			return nil, err
		}
		if ok {
			found[n] = e
		}
	}
	return found, nil
}

// carried: one parent has every topmost forbidden entry as it is.
func (w *walk) carried(n gitrepo.Node) bool {
	for _, p := range w.parents(n) {
		if _, differs := fresh(w.views[n].Forbidden, []*state.View{p}, func(v *state.View) []state.Entry { return v.Forbidden }); !differs {
			return true
		}
	}
	return false
}

// freshBelow is a forbidden file of v that none of the others has; what is there,
// where there is too much of it to tell.
func freshBelow(ctx context.Context, s *state.Scanner, v *state.View, others []*state.View) (state.Entry, bool, error) {
	if len(v.Forbidden) == 0 {
		return state.Entry{}, false, nil
	}
	had := make([][]state.Entry, len(others))
	for i, other := range others {
		had[i] = other.Forbidden
	}
	e, ok, err := s.Fresh(ctx, v.Forbidden, had)
	var broken *state.Broken
	if errors.As(err, &broken) {
		return v.Forbidden[0], true, nil
	}
	return e, ok, err
}
