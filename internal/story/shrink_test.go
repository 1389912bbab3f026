package story

import (
	"maps"
	"slices"
)

// shrinker makes a story short that a model and the world differ about.
type shrinker struct {
	differs func(*story) (*difference, error)
	left    int // tries
	best    *story
	diff    *difference
}

// shrink answers the shortest story found, and what it differs in.
func shrink(s *story, d *difference, tries int, differs func(*story) (*difference, error)) (*story, *difference) {
	k := &shrinker{differs: differs, left: tries, best: s, diff: d}
	for changed := true; changed && k.left > 0; {
		changed = k.pass()
	}
	return k.best, k.diff
}

// try takes a candidate over where it still differs.
func (k *shrinker) try(change func(*story) bool) bool {
	if k.left <= 0 {
		return false
	}
	c := k.best.clone()
	if !change(c) {
		return false
	}
	k.left--
	d, err := k.differs(c)
	if err != nil || d == nil {
		return false
	}
	c.events = c.events[:min(len(c.events), d.event+1)]
	k.best, k.diff = c, d
	return true
}

// pass tries every way to make the story smaller once.
func (k *shrinker) pass() bool {
	changed := k.try(func(s *story) bool {
		n := k.diff.event + 1
		ok := n < len(s.events)
		s.events = s.events[:min(n, len(s.events))]
		return ok
	})
	for i := len(k.best.events) - 1; i >= 0; i-- {
		changed = k.try(func(s *story) bool {
			if i >= len(s.events) {
				return false
			}
			s.events = slices.Delete(s.events, i, i+1)
			return true
		}) || changed
	}
	for i := range k.best.events {
		changed = k.event(i) || changed
	}
	for _, ref := range slices.Sorted(maps.Keys(k.best.refs)) {
		changed = k.try(func(s *story) bool {
			_, ok := s.baseline[ref]
			delete(s.refs, ref)
			return !ok
		}) || changed
	}
	changed = k.try(func(s *story) bool { was := s.sha256; s.sha256 = false; return was }) || changed
	changed = k.try(func(s *story) bool { was := len(s.protected); s.protected = s.protected[:1]; return was > 1 }) || changed
	for i := len(k.best.objects) - 1; i >= 0; i-- {
		changed = k.object(i) || changed
	}
	return changed
}

// event makes one event plainer: fewer refs, and all of them move and are settled.
func (k *shrinker) event(i int) bool {
	changed := false
	for n := 8; n >= 0; n-- {
		changed = k.try(func(s *story) bool {
			if i >= len(s.events) || n >= len(s.events[i].updates) || len(s.events[i].updates) == 1 {
				return false
			}
			e := &s.events[i]
			e.updates = slices.Delete(slices.Clone(e.updates), n, n+1)
			if n < len(e.land) {
				e.land = slices.Delete(slices.Clone(e.land), n, n+1)
			}
			return true
		}) || changed
	}
	changed = k.try(func(s *story) bool {
		if i >= len(s.events) || !s.events[i].stays {
			return false
		}
		s.events[i].stays = false
		return true
	}) || changed
	return k.try(func(s *story) bool {
		if i >= len(s.events) || s.events[i].deed != pushes || s.events[i].settle && !slices.Contains(s.events[i].land, false) {
			return false
		}
		e := &s.events[i]
		e.settle, e.land = true, slices.Repeat([]bool{true}, len(e.updates))
		return true
	}) || changed
}

// object makes one object plainer: no tokens, fewer parents, fewer files.
func (k *shrinker) object(i int) bool {
	if !k.best.needed()[i] {
		return false
	}
	changed := k.try(func(s *story) bool {
		was := len(s.objects[i].tokens)
		s.objects[i].tokens = nil
		return was > 0
	})
	for n := len(k.best.objects[i].parents) - 1; n >= 0; n-- {
		changed = k.try(func(s *story) bool {
			o := &s.objects[i]
			if o.kind != commitKind || n >= len(o.parents) {
				return false
			}
			o.parents = slices.Delete(slices.Clone(o.parents), n, n+1)
			return true
		}) || changed
		changed = k.try(func(s *story) bool { // past a parent, to where it comes from
			o := &s.objects[i]
			if o.kind != commitKind || n >= len(o.parents) || len(s.objects[o.parents[n]].parents) != 1 {
				return false
			}
			o.parents = slices.Clone(o.parents)
			o.parents[n] = s.objects[o.parents[n]].parents[0]
			return len(slices.Compact(slices.Sorted(slices.Values(o.parents)))) == len(o.parents)
		}) || changed
	}
	for _, path := range slices.Sorted(maps.Keys(k.best.objects[i].tree)) {
		changed = k.try(func(s *story) bool {
			t := maps.Clone(s.objects[i].tree)
			_, ok := t[path]
			delete(t, path)
			s.objects[i].tree = t
			return ok
		}) || changed
	}
	return changed
}

// needed are the objects that the story names, and what they need.
func (s *story) needed() map[int]bool {
	out := map[int]bool{}
	var need func(obj int)
	need = func(obj int) {
		if obj == none || out[obj] {
			return
		}
		out[obj] = true
		for _, p := range s.objects[obj].parents {
			need(p)
		}
	}
	for _, obj := range s.refs {
		need(obj)
	}
	for _, obj := range s.baseline {
		need(obj)
	}
	for _, e := range s.events {
		for _, u := range e.updates {
			if paper(u.ref) {
				continue
			}
			need(u.new)
			if u.old != nil {
				need(*u.old)
			}
		}
		if (e.deed == byHand || e.deed == opens) && !paper(e.ref) {
			need(e.to)
		}
	}
	return out
}
