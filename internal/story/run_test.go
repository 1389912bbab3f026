package story

import (
	"fmt"
	"maps"
	"slices"
)

// difference is where a model and the world part.
type difference struct {
	event int // index; of the start, -1
	what  string
}

// sendable drops what no push can carry, of the model's push and the host's alike.
func sendable(e event, how how, value func(string) int) event {
	if e.deed != pushes {
		return e
	}
	out := e
	out.updates, out.land = nil, nil
	for i, u := range e.updates {
		old := value(u.ref)
		if u.old != nil {
			old = *u.old
		}
		if old == none && u.new == none || how == gitPush && old == u.new {
			continue
		}
		out.updates = append(out.updates, u)
		out.land = append(out.land, i < len(e.land) && e.land[i])
	}
	return out
}

// play tells the story to both; nil says that they agree. hooks is how often the
// hook was asked.
func (g *stage) play(s *story, m mutation) (diff *difference, hooks int, err error) {
	h, err := g.host(s)
	if err != nil {
		return nil, 0, fmt.Errorf("lay out the story: %w", err)
	}
	defer func() { err = h.leave(err) }()
	c := s.claim()
	w := s.begin(m) // after the host: it fills in the hashes
	for i, e := range s.events {
		e = sendable(e, s.how, w.value)
		if e.deed == pushes && len(e.updates) == 0 {
			continue
		}
		got, err := h.happen(e)
		if err != nil {
			return nil, h.hooks, fmt.Errorf("event %d: %w", i, err)
		}
		want := w.happen(e)
		if want != nil && want.String() != got.String() {
			return &difference{i, fmt.Sprintf("the model says %q, the hook %q", want, got)}, h.hooks, nil
		}
		refs, err := h.refsNow()
		if err != nil {
			return nil, h.hooks, err
		}
		if what := c.after(e, refs); what != "" {
			return &difference{i, what}, h.hooks, nil
		}
		if what := compare(w.at, refs); what != "" {
			return &difference{i, what}, h.hooks, nil
		}
	}
	return h.last(w)
}

// last looks at the files of all refs.
func (h *host) last(w *model) (*difference, int, error) {
	refs, err := h.refsRead()
	if err != nil {
		return nil, h.hooks, err
	}
	if what := compare(w.at, refs); what != "" {
		return &difference{len(h.events) - 1, what}, h.hooks, nil
	}
	return nil, h.hooks, nil
}

// compare says where refs stand elsewhere than they should.
func compare(want, got map[string]int) string {
	for _, ref := range slices.Sorted(maps.Keys(union2(want, got))) {
		a, aok := want[ref]
		b, bok := got[ref]
		if paper(ref) {
			a, b = 0, 0
		}
		if a != b || aok != bok {
			return fmt.Sprintf("%s: the model has it at %s, git at %s", ref, place(a, aok), place(b, bok))
		}
	}
	return ""
}

func place(obj int, ok bool) string {
	if !ok {
		return "nothing"
	}
	return spell(obj)
}

func union2(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
