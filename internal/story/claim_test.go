package story

import (
	"fmt"
	"maps"
	"slices"
)

// claim is what the gate promises, said without its rules: where protected refs may
// stand, whatever the model thinks of the way there.
type claim struct {
	*story
	void  map[string]bool // refs that an admin, or somebody by hand, has moved or freed
	gated map[string]bool // refs that came under the gate, or were made through it
	at    map[string]int
	stood map[string]map[state]bool
}

func (s *story) claim() *claim {
	c := &claim{story: s, void: map[string]bool{}, gated: map[string]bool{}, at: s.refs, stood: map[string]map[state]bool{}}
	for ref, obj := range s.baseline {
		c.gated[ref] = obj != none
	}
	for ref, obj := range s.refs {
		if s.class(ref) == protectedRef {
			c.stand(ref, s.state(obj))
		}
	}
	return c
}

func (c *claim) stand(ref string, s state) {
	if c.stood[ref] == nil {
		c.stood[ref] = map[state]bool{}
	}
	c.stood[ref][s] = true
}

// after says how an event broke the promise; empty where it did not.
func (c *claim) after(e event, refs map[string]int) string {
	if e.deed == byHand || e.deed == adopts || e.deed == opens {
		c.void[e.ref] = true
	}
	broken := ""
	for ref, obj := range refs {
		if c.class(ref) == protectedRef && !c.void[ref] && !c.rightful(ref, c.state(obj)) {
			broken = fmt.Sprintf("the claim is broken: %s stands at %s, in a state that nobody signed for it", ref, spell(obj))
		}
	}
	for ref, obj := range refs {
		if c.class(ref) != protectedRef {
			continue
		}
		was, stood := c.at[ref]
		if e.deed != byHand && (e.ref == ref || !stood || was != obj) {
			c.gated[ref] = true
		}
		c.stand(ref, c.state(obj))
	}
	c.at = maps.Clone(refs)
	return broken
}

// rightful: signed for the ref by a maintainer, or stood there; for a ref that did not
// exist, in another protected ref, or nowhere at all where none is under the gate.
func (c *claim) rightful(ref string, s state) bool {
	if c.stood[ref][s] {
		return true
	}
	for _, g := range c.grants {
		if g.ref == ref && g.after == s && g.fault == sound {
			return true
		}
	}
	if c.stood[ref] != nil {
		return false
	}
	for _, other := range c.stood {
		if other[s] {
			return true
		}
	}
	return s == "" && !slices.Contains(slices.Collect(maps.Values(c.gated)), true)
}
