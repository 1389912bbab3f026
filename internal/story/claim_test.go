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

	now    int
	pushed map[int]pushed           // by the event's id
	taken  map[string]map[state]int // by ref and new state: how many moves changed the ref's
}

// pushed is when a push met the hook, and whether its receive-pack is known to run.
type pushed struct {
	at   int
	runs bool
}

func (s *story) claim() *claim {
	c := &claim{story: s, void: map[string]bool{}, gated: map[string]bool{}, at: s.refs, stood: map[string]map[state]bool{}, pushed: map[int]pushed{}, taken: map[string]map[state]int{}}
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
	c.tick(e)
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
		if stood && c.state(was) != c.state(obj) && !c.void[ref] && !c.takes(ref, c.state(obj)) {
			broken = fmt.Sprintf("the claim is broken: %s has come to the state of %s more often than it was signed", ref, spell(obj))
		}
		c.stand(ref, c.state(obj))
	}
	c.at = maps.Clone(refs)
	return broken
}

// tick is what an event does to the claim by itself. A push that lands though nobody saw
// it run, ten minutes after it was accepted, is beyond what the gate can know.
func (c *claim) tick(e event) {
	c.now++
	switch e.deed {
	case byHand, adopts, opens:
		c.void[e.ref] = true
	case waits:
		c.now += e.seconds
	case pushes:
		c.pushed[e.id] = pushed{c.now, e.stays}
	case ends:
		c.pushed[e.push] = pushed{c.pushed[e.push].at, false}
	case lands:
		if p := c.pushed[e.push]; !p.runs && c.now-p.at >= hold {
			c.late(e)
		}
	default:
	}
}

// late makes the promise void for the refs of a push.
func (c *claim) late(e event) {
	for _, p := range c.events {
		if p.deed == pushes && p.id == e.push {
			for _, u := range p.updates {
				c.void[u.ref] = true
			}
		}
	}
}

// takes counts a move that changed a ref's state, and says that one more was signed.
func (c *claim) takes(ref string, s state) bool {
	if c.taken[ref] == nil {
		c.taken[ref] = map[state]int{}
	}
	c.taken[ref][s]++
	signed := 0
	for _, g := range c.grants {
		if g.ref == ref && g.after == s && g.fault == sound {
			signed++
		}
	}
	return c.taken[ref][s] <= signed
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
