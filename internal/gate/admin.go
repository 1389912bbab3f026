package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
)

// Adopt takes a protected ref's present tip as its good tip, and begins its
// record anew: no approval issued before counts. What was used stays used.
func (g *Gate) Adopt(ctx context.Context, ref string) (state.Tip, error) {
	j := g.judgement()
	if !g.Refs.Protects(ref) {
		return state.Tip{}, fmt.Errorf("adopt %q: it is not protected", ref)
	}
	locked, err := g.Store.Lock(ref)
	if err != nil {
		return state.Tip{}, err
	}
	defer locked.Unlock()
	values, err := g.Repo.Values(ctx, ref)
	if err != nil {
		return state.Tip{}, err
	}
	if values[0] == "" {
		return state.Tip{}, fmt.Errorf("adopt %q: it does not exist", ref)
	}
	objects, err := g.Repo.Info(ctx, values[0])
	if err != nil {
		return state.Tip{}, err
	}
	if objects[0].Type != gitrepo.Commit {
		return state.Tip{}, fmt.Errorf("adopt %q: %s is no commit", ref, values[0])
	}
	before, err := locked.Load(ref)
	if err != nil {
		return state.Tip{}, err
	}
	r := &state.Record{Ref: ref, Begun: j.now.Truncate(time.Second), Good: state.Tip{Commit: objects[0].ID, At: j.now}}
	if before != nil {
		r.Used = before.Used
	}
	if err := j.goodState(ctx, r); err != nil {
		return state.Tip{}, err
	}
	return r.Good, locked.Save(r)
}

// Standing is a protected ref as the records and the repository have it.
type Standing struct {
	Ref    string
	Actual string // empty: it does not exist
	Record *state.Record
}

// Status answers every protected ref that is listed, exists, or has a record.
func (g *Gate) Status(ctx context.Context) ([]Standing, error) {
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
			if _, err := s.Record.Settle(s.Actual, g.reaches(ctx)); err != nil {
				return nil, err
			}
		}
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Standing) int { return compare(a.Ref, b.Ref) })
	return list, nil
}
