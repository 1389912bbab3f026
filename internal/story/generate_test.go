package story

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// teller makes stories up. It asks the sound model how the story stands, so that
// much of what it makes up is nearly lawful: a gate that refuses everything would
// agree with a model on noise.
type teller struct {
	*rand.Rand
	s *story
	w *model
	// calm: approvals are sound, mostly.
	calm bool
}

// The refs of a story, beside the protected ones.
var otherRefs = []string{
	"refs/heads/topic", "refs/heads/fix/one", "refs/heads/oracle-change/fees", "refs/tags/v1", "refs/notes/commits", "refs/for/main/topic",
	"refs/pull/7/head", "refs/heads/old",
}

func newRand(seed int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 4)) }

// tell makes up the story of a seed.
func tell(seed int64, how how) *story {
	t := &teller{Rand: newRand(seed), s: &story{seed: seed, how: how, baseline: map[string]int{}, refs: map[string]int{}}}
	s := t.s
	s.sha256 = t.chance(6)
	s.protected = []string{"refs/heads/main"}
	if t.chance(35) {
		s.protected = append(s.protected, "refs/heads/stable")
	}
	t.graph()
	t.start()
	t.w = s.begin(unbroken)
	for n := 3 + t.IntN(6); len(s.events) < n; {
		t.next()
	}
	return s
}

// chance is true so many times in a hundred.
func (t *teller) chance(percent int) bool { return t.IntN(100) < percent }

func pick[T any](t *teller, list []T) T { return list[t.IntN(len(list))] }

// graph makes commits up: lines, forks, merges of two and more, criss-cross,
// roots, histories that start without protected files, clocks that run backwards.
func (t *teller) graph() {
	n := 6 + t.IntN(10)
	skewed := t.chance(15)
	for i := range n {
		o := object{date: i}
		if skewed {
			o.date = t.IntN(40)
		}
		o.parents = t.parents(i)
		o.tree = t.content(o.parents)
		t.s.objects = append(t.s.objects, o)
		t.inMessage(i)
	}
	if t.chance(30) {
		t.s.objects = append(t.s.objects, object{kind: tagKind, parents: []int{t.IntN(n)}})
	}
	if t.chance(10) {
		t.s.objects = append(t.s.objects, object{kind: treeKind, parents: []int{t.IntN(n)}})
	}
}

func (t *teller) parents(i int) []int {
	if i == 0 || t.chance(4) {
		return nil
	}
	near := func() int {
		if t.chance(60) {
			return i - 1
		}
		return t.IntN(i)
	}
	count := 1
	if t.chance(30) {
		count = 2
	}
	if t.chance(5) {
		count = 3
	}
	if i > 3 && count == 2 && t.chance(30) { // a branch without protected files, merged
		for p := range i {
			if t.s.state(p) == "" {
				return []int{i - 1, p}[:1+min(1, i-1-p)]
			}
		}
	}
	// Criss-cross: the merge of what the last merge merged, the other way round.
	if last := t.s.objects[i-1]; len(last.parents) == 2 && t.chance(25) {
		return []int{last.parents[1], last.parents[0]}
	}
	var out []int
	for range count {
		if p := near(); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

var bodies = []string{"1\n", "2\n", "3\n"}

// content is that of a parent, with some things changed: often none that count.
func (t *teller) content(parents []int) tree {
	out := tree{}
	if len(parents) > 0 {
		out = maps.Clone(t.s.objects[pick(t, parents)].tree)
		for _, p := range parents {
			other := t.s.objects[p].tree
			if len(parents) > 1 && t.chance(30) { // one side's file
				t.take(out, other)
			}
		}
	} else if t.chance(75) {
		out["rules/fees.txt"] = file{"100644", "1\n"}
	}
	out["src/app.txt"] = file{"100644", fmt.Sprintf("%d\n", t.IntN(1000))}
	if t.chance(60) {
		return out
	}
	for n := 1 + t.IntN(2); n > 0; n-- {
		t.change(out)
	}
	return out
}

func (t *teller) take(out, other tree) {
	for _, path := range []string{"rules/fees.txt", "freeze.json", "rules/deep/table.txt"} {
		if f, ok := other[path]; ok {
			t.put(out, path, f)
		}
	}
}

// put keeps a tree one that git can have: "rules" is a directory or something
// else.
func (t *teller) put(out tree, path string, f file) {
	if path == "rules" {
		delete(out, "rules/fees.txt")
		delete(out, "rules/deep/table.txt")
	} else if strings.HasPrefix(path, "rules/") {
		delete(out, "rules")
	}
	out[path] = f
}

func (t *teller) change(out tree) {
	paths := []string{"rules/fees.txt", "rules/fees.txt", "rules/deep/table.txt", "freeze.json"}
	path := pick(t, paths)
	switch t.IntN(14) {
	case 0:
		delete(out, path)
	case 1: // rename out
		if f, ok := out[path]; ok {
			delete(out, path)
			out["src/moved.txt"] = f
		}
	case 2: // rename in
		if f, ok := out["src/moved.txt"]; ok {
			delete(out, "src/moved.txt")
			t.put(out, path, f)
		}
	case 3: // mode only
		if f, ok := out[path]; ok && f.mode == "100644" {
			out[path] = file{"100755", f.body}
		}
	case 4: // another type at the root, or below
		f := pick(t, []file{{"120000", "src"}, {"100644", "1\n"}, {"160000", "m"}})
		t.put(out, pick(t, []string{"rules", "rules/fees.txt"}), f)
	case 5, 12: // everything goes
		for _, p := range append(paths, "rules") {
			delete(out, p)
		}
	case 6: // what only looks protected
		out[pick(t, []string{"src/rules/fees.txt", "rules.txt"})] = file{"100644", pick(t, bodies)}
	default:
		t.put(out, path, file{"100644", pick(t, bodies)})
	}
}

// inMessage puts an approval of what a commit does into its message, sometimes.
func (t *teller) inMessage(i int) {
	o := &t.s.objects[i]
	before := state("")
	if len(o.parents) > 0 {
		before = t.s.state(pick(t, o.parents))
	}
	if after := t.s.state(i); before != after && t.chance(20) {
		o.tokens = append(o.tokens, t.grant(t.guarded(), before, after))
	}
	if i > 0 && t.chance(2) && len(t.s.grants) > 0 {
		o.tokens = append(o.tokens, t.IntN(len(t.s.grants)))
	}
}

func (t *teller) guarded() string {
	switch {
	case t.chance(70):
		return "refs/heads/main"
	case t.chance(50):
		return t.s.protected[len(t.s.protected)-1]
	default:
		return pattern + "1"
	}
}

// grant makes an approval up, mostly a sound one.
func (t *teller) grant(ref string, before, after state) int {
	g := grant{ref: ref, before: before, after: after, issued: -600, life: 14 * 86400, nonce: len(t.s.grants)}
	if t.w != nil {
		g.issued = t.w.now
	}
	if !t.s.how.clocked() {
		g.issued = pick(t, []int{-600, -600, 200})
	}
	trouble := t.IntN(24)
	if t.calm && t.chance(80) {
		trouble = none
	}
	switch trouble {
	case 0:
		g.fault = stranger
	case 1:
		g.fault = otherRepo
	case 2:
		g.fault = otherPaths
	case 3:
		g.fault = badSignature
	case 4:
		g.issued, g.life = -86400, 3600 // expired, and older than the record
	case 5:
		g.issued = longAgo - 60 // older than the record
	case 6:
		g.issued, g.life = -3600, 1800 // expired
	case 7:
		g.issued = 86400 // not yet
	case 8:
		if t.s.how.clocked() {
			g.life = 300 // expires in the middle of the story
		}
	}
	t.s.grants = append(t.s.grants, g)
	return len(t.s.grants) - 1
}

// start says where refs stand when the gate comes.
func (t *teller) start() {
	s := t.s
	commits := t.commits()
	for i, ref := range s.protected {
		if t.chance(8) {
			s.baseline[ref] = none
			if i == 0 && t.chance(50) {
				continue
			}
		} else {
			s.baseline[ref] = commits[t.IntN(1+len(commits)/2)]
			s.refs[ref] = s.baseline[ref]
		}
	}
	// Branches that are older than the gate have what nobody approved.
	for _, ref := range []string{"refs/heads/old", "refs/heads/topic", "refs/tags/v1", "refs/notes/commits"} {
		if t.chance(20) {
			s.refs[ref] = pick(t, commits)
		}
	}
	if t.chance(6) {
		s.refs[pattern+"1"] = pick(t, commits) // protected, and nobody adopted it
	}
}

func (t *teller) commits() []int {
	var out []int
	for i, o := range t.s.objects {
		if o.kind == commitKind {
			out = append(out, i)
		}
	}
	return out
}

// tell adds an event, unless the model says that it cannot be told this way.
func (t *teller) tell(e event) *verdict {
	e.id = len(t.s.events)
	t.s.events = append(t.s.events, e)
	return t.w.happen(e)
}

func (t *teller) next() {
	switch n := t.IntN(100); {
	case n < 26:
		t.scene()
	case n < 62:
		t.push()
	case n < 72:
		t.publish()
	case n < 80:
		t.hand()
	case n < 88:
		t.land()
	case n < 91:
		if t.s.how.clocked() {
			t.tell(event{deed: waits, seconds: pick(t, []int{60, 400, 700, 2000})})
		}
	case n < 93:
		t.tell(event{deed: adopts, ref: t.guarded()})
	case n < 95:
		t.withdraw()
	default:
		t.again()
	}
}

// push is a push of one ref, or of several; where no approval leads there, one
// may be published and the same pushed again.
func (t *teller) push() {
	var list []update
	for n := 1 + max(0, t.IntN(7)-4); n > 0; n-- {
		if u := t.update(); !slices.ContainsFunc(list, func(o update) bool { return o.ref == u.ref }) {
			list = append(list, u)
		}
	}
	e := event{deed: pushes, updates: list, stays: t.stays()}
	t.landing(&e)
	v := t.tell(e)
	if v.accepted() || !t.chance(55) {
		return
	}
	for _, u := range list {
		if t.w.class(u.ref) == protectedRef && (v.reasons[u.ref+": unapproved"] || v.reasons[u.ref+": stale"] || v.reasons[u.ref+": used"]) {
			t.approve(u)
			e.updates = slices.Clone(e.updates)
			t.tell(e)
			return
		}
	}
}

// stays says whether the gate will see how long a push runs; real ones end at once.
func (t *teller) stays() bool { return t.s.how != gitPush && t.chance(25) }

// landing says what becomes of an accepted push: mostly all of it moves and is
// settled.
func (t *teller) landing(e *event) {
	e.land = make([]bool, len(e.updates))
	all := t.chance(78)
	for i := range e.land {
		e.land[i] = all || t.chance(35)
	}
	e.settle = t.chance(65)
}

// approve publishes what a push lacked: one step, or two.
func (t *teller) approve(u update) {
	before := state("")
	if r := t.w.records[u.ref]; r != nil && r.good != none {
		before = t.s.state(r.good)
	} else if r := t.w.records["refs/heads/main"]; r.good != none && t.chance(60) {
		before = t.s.state(r.good)
	}
	after := t.s.state(t.s.commitOf(u.new))
	if before == after {
		return
	}
	if middle := t.s.state(pick(t, t.commits())); middle != before && middle != after && t.chance(20) {
		t.announce(t.grant(u.ref, before, middle))
		before = middle
	}
	t.announce(t.grant(u.ref, before, after))
	if t.chance(15) { // a spare one
		t.announce(t.grant(u.ref, before, after))
	}
}

// announce publishes an approval, by a push or by hand.
func (t *teller) announce(n int) {
	ref := fmt.Sprintf("%s%d", approvalRef, n)
	if t.chance(15) {
		t.tell(event{deed: byHand, ref: ref, to: 0})
		return
	}
	e := event{deed: pushes, updates: []update{{ref: ref, new: 0}}, land: []bool{true}}
	if t.chance(10) { // an approval and other refs in one push
		if u := t.update(); u.ref != ref {
			e.updates, e.land = append(e.updates, u), append(e.land, true)
		}
	}
	t.tell(e)
}

// publish is an approval that nobody asked for, or the end of one.
func (t *teller) publish() {
	if len(t.w.granted) > 0 && t.chance(25) {
		t.tell(event{deed: pushes, updates: []update{{ref: fmt.Sprintf("%s%d", approvalRef, pick(t, t.w.granted)), new: none}}, land: []bool{true}})
		return
	}
	ref := t.guarded()
	before := t.s.state(pick(t, t.commits()))
	if r := t.w.records[ref]; r != nil && r.good != none && t.chance(70) {
		before = t.s.state(r.good)
	}
	after := t.s.state(pick(t, t.commits()))
	if before == after {
		return
	}
	if t.chance(5) {
		ref = "refs/heads/topic" // not protected
	}
	t.announce(t.grant(ref, before, after))
}

// withdraw takes an approval back, in a push of its own or beside a move.
func (t *teller) withdraw() {
	if len(t.s.grants) == 0 {
		return
	}
	n := t.IntN(len(t.s.grants))
	e := event{deed: pushes, updates: []update{{ref: fmt.Sprint(withdrawRef, n), new: 0}}, land: []bool{true}}
	if t.chance(8) {
		e.updates[0].new = none
	}
	if t.chance(40) {
		e.updates, e.land = append(e.updates, t.update()), append(e.land, true)
	}
	t.tell(e)
}

// update is a ref and where it shall go.
func (t *teller) update() update {
	ref := pick(t, otherRefs)
	if t.chance(60) {
		ref = t.guarded()
	}
	if t.chance(1) {
		ref = pick(t, []string{"refs/replace/x", "refs/oracle/x"})
	}
	u := update{ref: ref, new: t.target(ref)}
	if t.chance(4) && t.w.value(ref) != none {
		u.new = none
	}
	if there := t.there(); t.chance(3) && t.s.how != gitPush && len(there) > 0 {
		old := pick(t, there)
		u.old = &old
	}
	return u
}

// there are the commits that the repository has: an old value that it lacks excuses
// nothing, which the model does not know.
func (t *teller) there() []int {
	var all uint64
	for ref, obj := range t.w.at {
		if !paper(ref) {
			all |= t.w.reach(obj)
		}
	}
	return slices.DeleteFunc(t.commits(), func(c int) bool { return all>>c&1 == 0 })
}

// target is where a ref may well go: on, back, or to where its state is allowed.
func (t *teller) target(ref string) int {
	commits := t.commits()
	at := t.w.value(ref)
	if t.chance(4) {
		return t.IntN(len(t.s.objects))
	}
	like := func(want func(int) bool) int {
		return t.like(func(c int) bool { return c != at && want(c) })
	}
	switch t.IntN(5) {
	case 0:
		return like(func(c int) bool { return t.w.reaches(c, at) })
	case 1:
		return like(func(c int) bool {
			r := t.w.records[ref]
			return r != nil && r.good != none && t.s.state(c) == t.s.state(r.good)
		})
	case 2:
		return like(func(c int) bool {
			return slices.ContainsFunc(t.s.grants, func(g grant) bool { return g.ref == ref && g.after == t.s.state(c) })
		})
	case 3: // back to where it was, or its parents
		return like(func(c int) bool { return t.w.reaches(at, c) })
	default:
		return pick(t, commits)
	}
}

// like is a commit that is wanted; any, where none is.
func (t *teller) like(want func(int) bool) int {
	commits := t.commits()
	list := slices.DeleteFunc(slices.Clone(commits), func(c int) bool { return !want(c) })
	if len(list) == 0 {
		return pick(t, commits)
	}
	return pick(t, list)
}

// hand moves a ref behind the gate's back.
func (t *teller) hand() {
	ref := t.guarded()
	if t.chance(25) {
		ref = pick(t, otherRefs)
	}
	to := pick(t, t.commits())
	switch {
	case t.chance(20):
		to = none
	case t.chance(30): // restored to what it was
		if r := t.w.records[ref]; r != nil && r.good != none {
			to = r.good
		}
	}
	t.tell(event{deed: byHand, ref: ref, to: to})
}

// land lets something land late that was accepted before, or settles it late.
func (t *teller) land() {
	if len(t.w.flight) == 0 {
		return
	}
	id := pick(t, slices.Sorted(maps.Keys(t.w.flight)))
	f := t.w.flight[id]
	if f.seen && t.chance(30) {
		t.tell(event{deed: ends, push: id})
		return
	}
	for i := range f.updates {
		if f.may(i) {
			t.tell(event{deed: lands, push: id, only: i})
			return
		}
	}
	t.tell(event{deed: settles, push: id})
}

// scene is a few events that belong together: chance alone would hardly ever tell
// them in this order.
func (t *teller) scene() {
	ref := t.guarded()
	r := t.w.records[ref]
	if r == nil || r.good == none {
		return
	}
	t.calm = true
	defer func() { t.calm = false }()
	from := r.good
	away := t.like(func(c int) bool { return t.s.state(c) != t.s.state(from) })
	same := t.like(func(c int) bool { return c != from && t.s.state(c) == t.s.state(from) })
	twin := t.like(func(c int) bool { return t.s.state(c) == t.s.state(away) && c != away })
	switch t.IntN(20) {
	case 17, 18: // an accepted push that runs for hours, and its approval taken back meanwhile
		t.step(ref, from, away)
		first := t.held(ref, away)
		if t.chance(25) {
			t.tell(event{deed: ends, push: first})
			t.pass(100)
		} else {
			t.pass(pick(t, []int{700, 4000}))
		}
		if n := len(t.s.grants) - 1; n >= 0 && t.chance(40) {
			t.tell(event{deed: pushes, updates: []update{{ref: fmt.Sprint(withdrawRef, n), new: 0}}, land: []bool{true}})
		}
		t.move(ref, twin, t.chance(70))
		if t.chance(60) {
			t.tell(event{deed: lands, push: first})
		}
		if t.chance(70) {
			t.tell(event{deed: ends, push: first})
		}
		t.move(ref, pick(t, []int{away, twin}), true)
	case 19: // the same, let in twice, and the ref goes back between
		to := pick(t, []int{away, same})
		t.step(ref, from, to)
		first := t.held(ref, to)
		t.move(ref, to, true)
		t.step(ref, to, from)
		t.pass(pick(t, []int{100, 700}))
		if t.chance(40) {
			t.tell(event{deed: ends, push: first})
		}
		t.move(ref, from, true)
		t.tell(event{deed: lands, push: first})
		t.move(ref, pick(t, []int{to, twin}), true)
	case 0: // there, back, and there again by what was used, or is as old
		spare := t.grant(ref, t.s.state(from), t.s.state(away))
		t.step(ref, from, away)
		t.move(ref, away, true)
		t.step(ref, away, from)
		t.move(ref, pick(t, []int{from, same}), true)
		if t.s.state(from) != t.s.state(away) && t.chance(50) {
			t.announce(spare)
		}
		t.move(ref, pick(t, []int{away, twin}), true)
	case 1: // two that want the same approval, the first under way
		t.step(ref, from, away)
		first := t.move(ref, away, false)
		if t.chance(30) {
			t.step(ref, from, away) // a spare one
		}
		t.move(ref, twin, t.chance(50))
		t.pass(700)
		t.move(ref, twin, true)
		t.tell(event{deed: lands, push: first})
	case 2: // accepted twice, and back before the second lands
		to := pick(t, []int{away, same})
		t.step(ref, from, to)
		t.move(ref, to, false)
		second := t.move(ref, to, true)
		t.step(ref, to, from)
		if t.chance(30) {
			t.pass(700)
		}
		if t.chance(70) {
			t.move(ref, from, true)
		} else {
			t.tell(event{deed: byHand, ref: ref, to: from})
		}
		t.tell(event{deed: lands, push: second - 1})
		t.move(ref, twin, true)
	case 3: // a chain
		middle := pick(t, t.commits())
		t.step(ref, from, middle)
		t.step(ref, middle, away)
		if t.chance(40) {
			t.step(ref, from, away)
		}
		t.move(ref, away, true)
		t.move(ref, middle, true)
	case 4: // moved by hand, and built upon
		t.tell(event{deed: byHand, ref: ref, to: away})
		t.move(ref, twin, true)
		t.move(ref, same, true)
	case 5: // landed, moved on by hand, and never settled
		t.step(ref, from, away)
		t.move(ref, away, false)
		last := t.s.events[len(t.s.events)-1].id
		t.tell(event{deed: lands, push: last})
		t.tell(event{deed: byHand, ref: ref, to: t.like(func(c int) bool { return t.w.reaches(c, away) })})
		t.move(ref, twin, true)
	case 6: // what lands on a protected ref counts for what is pushed beside it
		t.step(ref, from, away)
		topic := pick(t, otherRefs)
		t.tell(event{deed: pushes, updates: []update{{ref: topic, new: pick(t, []int{away, twin})}, {ref: ref, new: away}}, land: []bool{true, true}, settle: true})
		t.tell(event{deed: pushes, updates: []update{{ref: topic, new: twin}}, land: []bool{true}, settle: true})
	case 7: // two ways of the same length, and what is left of the other
		one := t.like(func(c int) bool { return t.s.state(c) != t.s.state(from) && t.s.state(c) != t.s.state(away) })
		two := t.like(func(c int) bool {
			return t.s.state(c) != t.s.state(from) && t.s.state(c) != t.s.state(away) && t.s.state(c) != t.s.state(one)
		})
		for _, middle := range []int{one, two} {
			t.step(ref, from, middle)
			t.step(ref, middle, away)
		}
		t.move(ref, away, true)
		t.step(ref, away, from)
		t.move(ref, from, true)
		t.move(ref, pick(t, []int{one, two}), true)
	case 8: // a step that two moves have in common, each taking another after it
		middle := t.like(func(c int) bool { return t.s.state(c) != t.s.state(from) && t.s.state(c) != t.s.state(away) })
		end := t.like(func(c int) bool {
			return t.s.state(c) != t.s.state(away) && t.s.state(c) != t.s.state(middle) && t.s.state(c) != t.s.state(from)
		})
		t.step(ref, from, middle)
		t.step(ref, middle, away)
		first := t.move(ref, away, false)
		t.pass(700)
		t.step(ref, middle, end)
		t.move(ref, end, true)
		t.tell(event{deed: byHand, ref: ref, to: from})
		t.tell(event{deed: lands, push: first})
		t.tell(event{deed: settles, push: first})
		t.move(ref, twin, true)
	case 9, 13: // used long ago, and left since; adopted meanwhile, perhaps
		if !t.s.how.clocked() || t.s.state(from) == t.s.state(away) {
			return
		}
		n := t.grant(ref, t.s.state(from), t.s.state(away))
		t.s.grants[n].life = 300
		t.announce(n)
		if t.chance(50) {
			t.move(ref, away, true)
		} else {
			t.tell(event{deed: pushes, updates: []update{{ref: ref, new: away}}, land: []bool{true}})
			t.tell(event{deed: adopts, ref: ref})
		}
		t.step(ref, away, from)
		t.move(ref, from, true)
		t.pass(2000)
		t.tell(event{deed: pushes, updates: []update{{ref: pick(t, otherRefs), new: twin}}, land: []bool{true}})
	case 10: // taken back, before or beside its use
		t.step(ref, from, away)
		n := len(t.s.grants) - 1
		if n < 0 {
			return
		}
		back := update{ref: fmt.Sprint(withdrawRef, n), new: 0}
		if t.chance(50) {
			t.tell(event{deed: pushes, updates: []update{back}, land: []bool{true}})
			t.move(ref, away, true)
			return
		}
		t.tell(event{deed: pushes, updates: []update{{ref: ref, new: away}, back}, land: []bool{true, true}, settle: true})
		t.tell(event{deed: pushes, updates: []update{{ref: "refs/heads/topic", new: twin}}, land: []bool{true}})
	case 11: // an admin opens the ref for one push
		if !t.s.how.clocked() {
			return
		}
		t.tell(event{deed: opens, ref: ref, to: pick(t, []int{away, away, same}), seconds: pick(t, []int{300, 900})})
		if t.chance(20) {
			t.pass(400)
		}
		first := t.move(ref, away, t.chance(50))
		t.move(ref, twin, t.chance(50))
		t.tell(event{deed: lands, push: first})
		t.move(ref, pick(t, []int{from, same, twin}), true)
		t.move(ref, away, true)
	case 12, 14, 15: // one ref's message speaks for it alone
		var speaking []int
		for _, c := range t.commits() {
			same := func(n int) bool { return t.s.grants[n].after == t.s.state(c) && t.s.grants[n].fault == sound }
			twins := slices.ContainsFunc(t.commits(), func(d int) bool { return d != c && t.s.state(d) == t.s.state(c) && !t.w.reaches(d, c) })
			if twins && slices.ContainsFunc(t.s.objects[c].tokens, same) {
				speaking = append(speaking, c)
			}
		}
		if len(speaking) == 0 {
			return
		}
		c := pick(t, speaking)
		like := t.like(func(d int) bool { return t.s.state(d) == t.s.state(c) && !t.w.reaches(d, c) })
		list := []update{{ref: "refs/heads/topic", new: c}, {ref: "refs/heads/fix/one", new: like}}
		if t.chance(20) {
			slices.Reverse(list)
		}
		t.tell(event{deed: pushes, updates: list, land: []bool{true, true}})
	default: // another ref takes the state over
		t.step(ref, from, away)
		t.move(ref, away, true)
		t.move(t.guarded(), twin, true)
	}
}

// step publishes an approval of the step between two commits' states.
func (t *teller) step(ref string, from, to int) {
	if before, after := t.s.state(from), t.s.state(to); before != after {
		t.announce(t.grant(ref, before, after))
	}
}

// move pushes one ref; one that does not land stays under way. It answers the
// event's number.
func (t *teller) move(ref string, to int, lands bool) int {
	e := event{deed: pushes, updates: []update{{ref: ref, new: to}}, land: []bool{lands}, settle: lands && t.chance(70)}
	t.tell(e)
	return len(t.s.events) - 1
}

// held pushes one ref, which does not land as long as the push runs that the gate sees.
func (t *teller) held(ref string, to int) int {
	t.tell(event{deed: pushes, updates: []update{{ref: ref, new: to}}, stays: t.s.how != gitPush})
	return len(t.s.events) - 1
}

func (t *teller) pass(seconds int) {
	if t.s.how.clocked() {
		t.tell(event{deed: waits, seconds: seconds})
	}
}

// again pushes once more what was pushed before.
func (t *teller) again() {
	var before []event
	for _, e := range t.s.events {
		if e.deed == pushes {
			before = append(before, e)
		}
	}
	if len(before) == 0 {
		return
	}
	e := pick(t, before)
	t.landing(&e)
	t.tell(e)
}
