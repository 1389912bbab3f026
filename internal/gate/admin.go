package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
)

// Adoption is what became of a record that was begun anew.
type Adoption struct {
	Tip state.Tip
	// Was is the good tip before; nil where there was none.
	Was *state.Tip
	// Files are the protected files in which Tip differs from Was; from none, all of
	// its files. Gone: the object of Was is not there, so nothing can be compared.
	Files []string
	Gone  bool
	Contents
	// Dropped counts accepted moves that had not landed; Closed is an opening that
	// went with them.
	Dropped int
	Closed  *state.Opening
	// UnderWay are pushes of such moves that may still land, without the gate.
	UnderWay []state.Acceptance
}

// Contents are what a tip has and should not have.
type Contents struct {
	Forbidden, Aliases []string // paths
	Broken             string   // what is wrong with its trees; empty for nothing
}

// ErrForbidden says that a tip has forbidden files that its good tip lacks.
var ErrForbidden = errors.New("it has forbidden files that its good tip lacks")

// Adopt takes a protected ref's present tip as its good tip, and begins its
// record anew: no approval issued before counts. What was used stays used. A tip
// with forbidden files that the good tip lacks is ErrForbidden, unless despite.
func (g *Gate) Adopt(ctx context.Context, ref string, despite bool, by By) (Adoption, error) {
	j := g.judgement()
	fail := func(a Adoption, err error) (Adoption, error) { return a, fmt.Errorf("adopt %q: %w", ref, err) }
	if !g.Refs.Protects(ref) {
		return fail(Adoption{}, errors.New("it is not protected"))
	}
	locked, err := g.Store.Lock(ref)
	if err != nil {
		return Adoption{}, err
	}
	defer locked.Unlock()
	tip, err := g.tip(ctx, ref)
	if err != nil {
		return fail(Adoption{}, err)
	}
	before, err := j.former(locked, ref)
	if err != nil {
		return Adoption{}, err
	}
	// What has landed used its approvals, whether or not anybody looked since.
	if err := j.landed(ctx, before, tip); err != nil {
		return fail(Adoption{}, err)
	}
	if err := g.Store.Append(j.acts...); err != nil {
		return Adoption{}, err
	}
	r := &state.Record{Ref: ref, Begun: j.now.Truncate(time.Second), Good: state.Tip{Commit: tip, At: j.now}, Used: before.Used}
	if err := j.goodState(ctx, r); err != nil {
		return Adoption{}, err
	}
	a, fresh, err := j.compare(ctx, before, r.Good)
	if err != nil {
		return fail(a, err)
	}
	if fresh && !despite {
		return fail(a, ErrForbidden)
	}
	act := by.act(g, state.ActAdopt, ref, j.now)
	act.Old, act.New, act.Before, act.After, act.Rows = before.Good.Commit, tip, before.Good.State, r.Good.State, a.Files
	if a.Closed != nil {
		act.Opening = a.Closed.ID
	}
	return a, g.commit(locked, r, act)
}

// tip is the commit at which a ref stands.
func (g *Gate) tip(ctx context.Context, ref string) (string, error) {
	values, err := g.Repo.Values(ctx, ref)
	if err != nil {
		return "", err
	}
	if values[0] == "" {
		return "", errors.New("it does not exist")
	}
	objects, err := g.Repo.Info(ctx, values[0])
	if err != nil {
		return "", err
	}
	if objects[0].Type != gitrepo.Commit {
		return "", fmt.Errorf("%s is no commit", values[0])
	}
	return objects[0].ID, nil
}

// former is the record that a ref has, or would have from its baseline.
func (j *judgement) former(locked *state.Locked, ref string) (*state.Record, error) {
	r, err := locked.Load(ref)
	if err != nil || r != nil {
		return r, err
	}
	r = &state.Record{Ref: ref}
	if base := j.Baselines[ref]; base != NoBaseline {
		r.Good.Commit = base
	}
	return r, nil
}

// compare looks at a tip that takes the place of a record's; fresh says that it
// has forbidden files which the one before lacks.
func (j *judgement) compare(ctx context.Context, before *state.Record, tip state.Tip) (a Adoption, fresh bool, err error) {
	a = Adoption{Tip: tip, Dropped: len(before.Pending), Closed: before.Opening}
	for _, m := range before.Pending {
		a.UnderWay = append(a.UnderWay, m.UnderWay(j.moment())...)
	}
	view, err := j.scanner.View(ctx, tip.Commit+"^{tree}")
	if err != nil {
		return a, false, err
	}
	if a.Contents, err = j.contents(ctx, view); err != nil {
		return a, false, err
	}
	base := &state.View{}
	if before.Good.Commit != "" {
		good := before.Good
		a.Was = &good
		base, err = j.scanner.View(ctx, good.Commit+"^{tree}")
		if a.Gone = errors.Is(err, gitrepo.ErrMissing); a.Gone {
			base, err = &state.View{}, nil
		}
	}
	if err != nil {
		return a, false, err
	}
	if !a.Gone {
		if a.Files, err = j.changed(ctx, before.Good.Commit, view); err != nil {
			return a, false, err
		}
	}
	_, fresh, err = freshBelow(ctx, j.scanner, view, []*state.View{base})
	return a, fresh, err
}

// Contents looks at what a commit's tree has and should not have.
func (g *Gate) Contents(ctx context.Context, commit string) (Contents, error) {
	j := g.judgement()
	view, err := j.scanner.View(ctx, commit+"^{tree}")
	if err != nil {
		return Contents{}, err
	}
	return j.contents(ctx, view)
}

func (j *judgement) contents(ctx context.Context, v *state.View) (Contents, error) {
	var c Contents
	broken, err := v.Broken, error(nil)
	if broken == nil {
		broken, err = j.scanner.Sound(ctx, v)
	}
	if err != nil {
		return c, err
	}
	if broken != nil {
		c.Broken = broken.Error()
	}
	below, err := j.scanner.Below(ctx, v.Forbidden)
	if err != nil {
		return c, err
	}
	for _, e := range below {
		c.Forbidden = append(c.Forbidden, e.Path)
	}
	for _, e := range v.Aliases {
		c.Aliases = append(c.Aliases, e.Path)
	}
	return c, nil
}

// State is the state of a commit's protected paths. What is wrong with the trees that
// lead there is no part of it: every push is held to that.
func (g *Gate) State(ctx context.Context, rev string) (string, error) {
	j := g.judgement()
	view, err := j.scanner.View(ctx, rev+"^{tree}")
	if err != nil {
		return "", err
	}
	return j.scanner.State(ctx, view)
}

// Standing is a protected ref as the records and the repository have it.
type Standing struct {
	Ref    string
	Actual string // empty: it does not exist
	Record *state.Record
}

// Status answers every protected ref that is listed, exists, or has a record.
func (g *Gate) Status(ctx context.Context) ([]Standing, error) {
	j := g.judgement()
	records, err := g.Store.All()
	if err != nil {
		return nil, err
	}
	by := map[string]*Standing{}
	at := func(ref string) *Standing {
		if by[ref] == nil {
			by[ref] = &Standing{Ref: ref}
		}
		return by[ref]
	}
	for _, r := range records {
		if g.Refs.Protects(r.Ref) {
			at(r.Ref).Record = r
		}
	}
	for ref := range g.Baselines {
		at(ref)
	}
	heads, err := g.Repo.List(ctx, "refs/heads")
	if err != nil {
		return nil, err
	}
	for _, head := range heads {
		if g.Refs.Protects(head.Name) {
			at(head.Name).Actual = head.ID
		}
	}
	var list []Standing
	for _, s := range by {
		if s.Record != nil {
			if _, err := s.Record.Settle(s.Actual, j.reaches(ctx, stand{s.Record, s.Actual})); err != nil {
				return nil, err
			}
		}
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Standing) int { return compare(a.Ref, b.Ref) })
	return list, nil
}
