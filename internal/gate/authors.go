package gate

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/trailer"
)

const maxAuthors = 1000 // co-authors of a commit that are looked at

// addresses are those of the people who wrote something, in lower case.
type addresses map[string]bool

// authors are the addresses of those who wrote what a move brings to the
// protected paths of its ref; none are looked for where authors may approve.
// They are what the commits say of themselves: whoever pushes may write anything
// there, so the rule keeps people from approving their own changes by habit, and
// nobody from doing it on purpose.
func (j *judgement) authors(ctx context.Context, m *move) (addresses, error) {
	if j.AuthorsMayApprove {
		return nil, nil
	}
	exclude, mark := j.excluded(), ""
	if m.good != "" {
		exclude, mark = []string{m.good}, j.records[m.name].Good.Mark
	}
	w, err := j.walk(ctx, []string{m.commit}, exclude)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range w.written(mark) {
		ids = append(ids, w.graph.ID(n))
	}
	return j.writers(ctx, ids)
}

// written are the commits that gave the protected paths a state which none of
// their parents has. One that only carries a parent's is none; but where the ref
// has left a state, which is not that of mark, a merge with the ref's own past
// that brings it back has written it.
func (w *walk) written(mark string) []gitrepo.Node {
	moved := w.moved()
	return w.where(func(n gitrepo.Node) bool {
		if _, ok := slices.BinarySearch(moved, n); ok || mark == "" || w.views[n].Mark == mark {
			return ok
		}
		return !slices.ContainsFunc(w.graph.Parents(n), func(p gitrepo.Node) bool {
			return w.graph.Inside(p) && w.views[p].Mark == w.views[n].Mark
		})
	})
}

// writers are the addresses of the authors of some commits.
func (j *judgement) writers(ctx context.Context, ids []string) (addresses, error) {
	out := addresses{}
	err := j.Repo.ReadAll(ctx, ids, maxCommit, func(i int, _ gitrepo.Object, data []byte) error {
		if data == nil {
			return fmt.Errorf("read who wrote %s: more than %d bytes, or none", ids[i], maxCommit)
		}
		out.read(data)
		return nil
	})
	return out, err
}

// read adds the author, the committer and the co-authors of a raw commit. Where a
// line names several addresses, each counts.
func (a addresses) read(commit []byte) {
	head, _, _ := bytes.Cut(commit, []byte("\n\n"))
	for line := range bytes.Lines(head) {
		if bytes.HasPrefix(line, []byte("author ")) || bytes.HasPrefix(line, []byte("committer ")) {
			a.add(string(line))
		}
	}
	for _, text := range trailer.Values(trailer.Message(commit), "Co-authored-by", maxAuthors) {
		a.add(text)
	}
}

// add adds what stands between angle brackets.
func (a addresses) add(text string) {
	for {
		_, rest, ok := strings.Cut(text, "<")
		if !ok {
			return
		}
		address, rest, _ := strings.Cut(rest, ">")
		a[strings.ToLower(strings.TrimSpace(address))] = true
		text = rest
	}
}

// others are the approvals of those who wrote nothing of it, and own the rest.
func (a addresses) others(list []approved) (others, own []approved) {
	for _, one := range list {
		if a[strings.ToLower(one.Person)] {
			own = append(own, one)
			continue
		}
		others = append(others, one)
	}
	return others, own
}

// chainOf is the shortest chain from one of the starts to the move's state that
// people who may approve it make. Where there is none only because some of them
// wrote the change, own is an approval of one of these.
func (j *judgement) chainOf(ctx context.Context, m *move, free []approved, starts []string) (chain []step, own *approved, err error) {
	all := shortest(enough(steps(free), j.Threshold), starts, m.state)
	if all == nil {
		return nil, nil, nil
	}
	wrote, err := j.authors(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	others, theirs := wrote.others(free)
	if len(theirs) == 0 {
		return all, nil, nil
	}
	if chain := shortest(enough(steps(others), j.Threshold), starts, m.state); chain != nil {
		return chain, nil, nil
	}
	for _, s := range all {
		if _, own := wrote.others(s.approvals); len(own) > 0 {
			return nil, &own[0], nil
		}
	}
	return nil, &theirs[0], nil
}
