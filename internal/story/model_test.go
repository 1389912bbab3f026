package story

import (
	"maps"
	"slices"
	"strings"
)

// What the model knows of a push, by what the ref is held to.
type class uint8

const (
	protectedRef class = iota
	topicRef
	changeRef   // refs/heads/oracle-change/: unapproved changes live there
	proposalRef // refs/for/: what it replaces is nobody's word
	tagRef
	otherRef
	serverRef // the forge's own: never refused
	replaceRef
	junkRef // below refs/oracle/
	grantRef
	withdrawnRef
)

// branchy says that the ref may only stand at commits.
func (c class) branchy() bool { return c <= proposalRef }

// judged says that the history rule looks at what the ref brings.
func (c class) judged() bool { return c <= otherRef }

// stored says that the ref's value is a value that clients are held to.
func (c class) stored() bool {
	return c != proposalRef && c != serverRef && c != replaceRef && c != junkRef
}

func (s *story) class(ref string) class {
	switch {
	case slices.Contains(s.protected, ref) || strings.HasPrefix(ref, pattern):
		return protectedRef
	case strings.HasPrefix(ref, "refs/heads/oracle-change/"):
		return changeRef
	case strings.HasPrefix(ref, "refs/heads/"):
		return topicRef
	case strings.HasPrefix(ref, "refs/tags/"):
		return tagRef
	case strings.HasPrefix(ref, "refs/for/"):
		return proposalRef
	case strings.HasPrefix(ref, "refs/pull/"):
		return serverRef
	case strings.HasPrefix(ref, "refs/replace/"):
		return replaceRef
	case strings.HasPrefix(ref, "refs/oracle/"):
		return junkRef
	case strings.HasPrefix(ref, approvalRef):
		return grantRef
	case strings.HasPrefix(ref, withdrawRef):
		return withdrawnRef
	default:
		return otherRef
	}
}

// Seconds that matter.
const (
	hold = 600
	skew = 300
)

// mutation is a rule that a broken model leaves out or bends; the sound model has
// none. See mutants_test.go.
type mutation uint8

// record is what the gate must remember of a protected ref.
type record struct {
	known    bool // it came under the gate, or moved through it
	good     int  // commit, or none
	goodAt   int
	begun    int
	pending  []entry
	repeated []entry
	used     []use
	opening  *opening
}

// opening is an admin's leave for one move to a state. In steps it stands among
// the approvals, by its number, which is negative.
type opening struct {
	after         state
	opened, until int
	number        int
}

// noState is where an opening's step starts that has no good tip.
const noState = state("none")

// entry is a move that was accepted and may not have landed.
type entry struct {
	old, new int
	steps    []step
	accepted []acceptance
}

// acceptance is a push that was let in with a move.
type acceptance struct{ at, push int }

func (e entry) last() int { return e.accepted[len(e.accepted)-1].at }

// underWay says that the push of an acceptance is seen to run, or that it is young where
// nobody sees.
func (w *model) underWay(a acceptance) bool {
	f, young := w.flight[a.push], w.now-a.at < hold
	switch {
	case f == nil || !f.seen || f.ended && w.how == program:
		return young // of a quarantine that is gone, nobody knows where the refs are
	case f.ended:
		return w.mutation == endUnseen && young
	default:
		return w.mutation != forgotten || young
	}
}

func (w *model) onWay(e entry) bool { return slices.ContainsFunc(e.accepted, w.underWay) }

// again says that one acceptance may have landed, and another may yet.
func (w *model) again(e entry) bool { return len(e.accepted) > 1 && w.onWay(e) }

// step is an approved change of state and the approvals that it takes.
type step struct {
	before, after state
	grants        []int
}

type use struct {
	step
	commit, at int
}

// model is the world as it must be.
type model struct {
	*story
	mutation mutation
	at       map[string]int     // where refs stand; those that exist
	records  map[string]*record // by protected ref
	granted  []int              // published approvals
	taken    map[int]bool       // withdrawn ones
	flight   map[int]*flying    // accepted pushes, by the event's id
	now      int
	reached  []uint64 // by commit: what it reaches, itself included
}

// flying is a push after the hook.
type flying struct {
	updates []update // old is never nil
	landed  []bool
	seen    bool // the gate sees whether it runs
	ended   bool // nothing of it lands any more
}

// may says that an update can still land.
func (f *flying) may(only int) bool {
	return f != nil && !f.ended && only < len(f.updates) && !f.landed[only]
}

// verdict is what must come of a push: accepted where there is no reason against
// it. Reasons are "<ref>: <word>".
type verdict struct {
	reasons map[string]bool
}

func (v verdict) accepted() bool { return len(v.reasons) == 0 }

func (v verdict) String() string {
	if v.accepted() {
		return "accepted"
	}
	return strings.Join(slices.Sorted(maps.Keys(v.reasons)), ", ")
}

func (v verdict) add(ref, word string) { v.reasons[ref+": "+word] = true }

// begin is the world before the first event.
func (s *story) begin(m mutation) *model {
	w := &model{story: s, mutation: m, at: maps.Clone(s.refs), records: map[string]*record{}, flight: map[int]*flying{}, taken: map[int]bool{}}
	for _, ref := range s.protected {
		w.records[ref] = &record{known: true, good: s.baseline[ref], goodAt: longAgo, begun: longAgo}
	}
	w.reached = make([]uint64, len(s.objects))
	for i, o := range s.objects {
		if o.kind != commitKind {
			continue
		}
		w.reached[i] = 1 << i
		for n, p := range o.parents {
			if n > 0 && m == firstParentReach {
				break
			}
			w.reached[i] |= w.reached[p]
		}
	}
	return w
}

// longAgo is when the gate began, in seconds of the story.
const longAgo = -7200

func (w *model) value(ref string) int {
	if obj, ok := w.at[ref]; ok {
		return obj
	}
	return none
}

func (w *model) set(ref string, obj int) {
	if n, ok := approvalOf(ref); ok {
		w.granted = slices.DeleteFunc(slices.Clone(w.granted), func(g int) bool { return g == n })
		if obj != none {
			w.granted = append(w.granted, n)
		}
	}
	if n, ok := withdrawalOf(ref); ok {
		w.taken[n] = obj != none
	}
	if obj == none {
		delete(w.at, ref)
		return
	}
	w.at[ref] = obj
}

func (w *model) reach(obj int) uint64 {
	if c := w.commitOf(obj); c != none {
		return w.reached[c]
	}
	return 0
}

func (w *model) reaches(from, to int) bool {
	return from != none && to != none && w.reach(from)>>to&1 == 1
}

// happen lets one event happen, and answers what the hook must say where it is a
// push.
func (w *model) happen(e event) *verdict {
	w.now++
	switch e.deed {
	case pushes:
		return w.push(e)
	case lands:
		if f := w.flight[e.push]; f.may(e.only) {
			w.land(f, e.only)
		}
	case ends:
		if f := w.flight[e.push]; f != nil {
			f.ended = true
		}
	case settles:
		if f := w.flight[e.push]; f != nil {
			w.settled(f)
		}
	case byHand:
		w.set(e.ref, e.to)
	case adopts:
		w.adopt(e.ref)
	case opens:
		w.open(e)
	case waits:
		w.now += e.seconds
	}
	return nil
}

// adopt does nothing to a ref that stands nowhere.
func (w *model) adopt(ref string) {
	if w.value(ref) == none {
		return
	}
	r := &record{known: true, good: w.value(ref), goodAt: w.now, begun: w.now}
	if old := w.records[ref]; old != nil {
		if w.mutation != adoptForgets {
			old = w.settle(old, w.value(ref))
		}
		r.used = old.used
	}
	w.records[ref] = r
}

// open does nothing where an opening is in force.
func (w *model) open(e event) {
	r := w.records[e.ref]
	if r == nil {
		r = &record{good: none, goodAt: longAgo - 1, begun: longAgo}
	}
	r = w.settle(r, w.value(e.ref))
	if !r.opening.inTime(w.now) {
		r.opening = &opening{after: w.state(e.to), opened: w.now, until: w.now + e.seconds, number: -2 - e.id}
		w.records[e.ref] = r
	}
}

func (o *opening) inTime(now int) bool { return o != nil && o.opened <= now && now < o.until }

func (w *model) push(e event) *verdict {
	v := verdict{reasons: map[string]bool{}}
	f := &flying{landed: make([]bool, len(e.updates)), seen: e.stays || w.how == gitPush, ended: w.how == gitPush && !e.stays}
	for _, u := range e.updates {
		if u.old == nil {
			old := w.value(u.ref)
			u.old = &old
		}
		f.updates = append(f.updates, u)
	}
	w.judge(e.id, f.updates, v)
	if !v.accepted() {
		return &v
	}
	w.flight[e.id] = f
	for i := range f.updates {
		if i < len(e.land) && e.land[i] {
			w.land(f, i)
		}
	}
	if e.settle {
		w.settled(f)
	}
	return &v
}

// land moves a ref as git does: from the value that the client saw, or not at all.
func (w *model) land(f *flying, i int) {
	u := f.updates[i]
	if w.value(u.ref) == *u.old {
		w.set(u.ref, u.new)
		f.landed[i] = true
	}
}

func (w *model) settled(f *flying) {
	for i, u := range f.updates {
		if r := w.records[u.ref]; r != nil && f.landed[i] {
			w.records[u.ref] = w.settle(r, w.value(u.ref))
		}
	}
}

// settle is the record once what has landed is known to have: the ref stands at
// the new value of an entry, or reaches it and the entry did not take the ref
// back to where it came from.
func (w *model) settle(r *record, at int) *record {
	n := *r
	if at == none {
		return &n
	}
	n.pending = nil
	var landed []entry
	for _, e := range r.pending {
		reached := w.reaches(at, e.new) && !w.reaches(e.old, e.new)
		switch w.mutation {
		case standsOnly:
			reached = false
		case rewindsReached:
			reached = w.reaches(at, e.new)
		default:
		}
		if e.new == at || reached {
			landed = append(landed, e)
		} else {
			n.pending = append(n.pending, e)
		}
	}
	// Where the ref stands says more than what it reaches, and later more than earlier.
	slices.SortStableFunc(landed, func(a, b entry) int {
		if (a.new == at) != (b.new == at) {
			if a.new == at {
				return -1
			}
			return 1
		}
		return b.last() - a.last()
	})
	n.used, n.repeated = slices.Clone(r.used), slices.Clone(r.repeated)
	for _, e := range landed {
		if n.tookElsewhere(e) && w.mutation != takesTwice {
			continue
		}
		for _, s := range e.steps {
			n.used = append(n.used, use{s, e.new, e.last()})
			if n.opening != nil && slices.Contains(s.grants, n.opening.number) {
				n.opening = nil
			}
		}
		if len(e.accepted) > 1 {
			n.repeated = append(n.repeated, e)
		}
		if e.new == at || n.good != at && e.last() > n.goodAt {
			n.good, n.goodAt, n.known = e.new, e.last(), true
		}
	}
	return &n
}

// tookElsewhere says that another move has used an approval of the entry.
func (r *record) tookElsewhere(e entry) bool {
	for _, s := range e.steps {
		for _, g := range s.grants {
			for _, u := range r.used {
				if u.commit != e.new && slices.Contains(u.grants, g) {
					return true
				}
			}
		}
	}
	return false
}
