package story

import (
	"maps"
	"slices"
	"strconv"
)

// judgement is one push before the model's rules.
type judgement struct {
	*model
	push    int // the event's id
	v       verdict
	updates []update
	records map[string]*record // settled by what the refs stand at now
	good    uint64             // what the good tips reach
	offered []int              // approvals that the push itself publishes
	taken   map[int]bool       // approvals that are withdrawn, by this push too
	opened  map[string]opening // by ref: the openings that are taken
	account map[state]bool
	own     map[state]bool // what messages account for
}

// judge adds the reasons against a push, and writes down what it accepts.
func (w *model) judge(push int, updates []update, v verdict) {
	j := &judgement{model: w, push: push, v: v, updates: updates, records: map[string]*record{}, taken: maps.Clone(w.taken), opened: map[string]opening{}, own: map[state]bool{}}
	for ref, r := range w.records {
		j.records[ref] = w.settle(r, w.value(ref))
		if w.mutation != mainOnly || ref == "refs/heads/main" {
			j.good |= w.reach(j.records[ref].good)
		}
	}
	j.names()
	j.offers()
	j.accounts()
	chains := map[string][]step{}
	var fresh uint64
	for _, u := range updates {
		if w.class(u.ref) != protectedRef || w.commitOf(u.new) == none {
			continue
		}
		if w.mutation != notBeside {
			fresh |= w.reach(u.new)
		}
		chains[u.ref] = j.protected(u)
	}
	for _, u := range updates {
		if c := w.class(u.ref); c == protectedRef || c == tagRef && w.mutation == tagsPass || !c.judged() || w.commitOf(u.new) == none {
			continue
		}
		except := j.good | fresh
		if w.class(u.ref).stored() && w.mutation != oldAgain {
			except |= w.reach(*u.old)
		}
		j.history(u, except, *u.old)
	}
	if v.accepted() {
		j.write(chains)
	}
}

// names are the reasons that lie in the update itself.
func (j *judgement) names() {
	for _, u := range j.updates {
		c := j.class(u.ref)
		switch {
		case c == replaceRef || c == junkRef:
			j.v.add(u.ref, "refused name")
		case c.stored() && *u.old != j.value(u.ref):
			j.v.add(u.ref, "moved")
		case u.new == none && c == protectedRef && j.mutation != deletes:
			j.v.add(u.ref, "deleted")
		case u.new != none && c.branchy() && j.objects[u.new].kind != commitKind:
			j.v.add(u.ref, "no commit")
		}
	}
}

// offers are approvals that the push publishes, or takes away.
func (j *judgement) offers() {
	for _, u := range j.updates {
		n, ok := withdrawalOf(u.ref)
		switch {
		case !ok || *u.old != j.value(u.ref):
		case u.new == none:
			j.v.add(u.ref, "kept")
		case *u.old != none:
			j.v.add(u.ref, "exists")
		case j.mutation != late:
			j.taken[n] = true
		}
	}
	for _, u := range j.updates {
		n, ok := approvalOf(u.ref)
		if !ok || *u.old != j.value(u.ref) {
			continue
		}
		g := j.grants[n]
		switch {
		case u.new == none && j.now < g.issued+g.life:
			j.v.add(u.ref, "kept")
		case u.new == none:
		case *u.old != none:
			j.v.add(u.ref, "exists")
		case g.fault == otherRepo || j.class(g.ref) != protectedRef:
			j.v.add(u.ref, "junk")
		default:
			if word := j.invalid(g); word != "" && word != "other patterns" {
				j.v.add(u.ref, word)
				continue
			}
			j.offered = append(j.offered, n)
		}
	}
}

// invalid is why an approval counts for nothing now, whatever the ref.
func (j *judgement) invalid(g grant) string {
	switch {
	case g.fault == otherRepo:
		return "other repository"
	case g.fault == otherPaths:
		return "other patterns"
	case g.fault == stranger:
		return "unknown signer"
	case g.fault == badSignature:
		return "bad signature"
	case g.issued > j.now+skew:
		return "not yet valid"
	case j.now >= g.issued+g.life && j.mutation != everlasting:
		return "expired"
	default:
		return ""
	}
}

// counts is invalid, for a ref and its record.
func (j *judgement) counts(n int, ref string) string {
	g := j.grants[n]
	begun := longAgo
	if r := j.records[ref]; r != nil {
		begun = r.begun
	}
	switch {
	case g.fault == otherRepo:
		return "other repository"
	case g.ref != ref && j.mutation != anyRef:
		return "wrong ref"
	case g.fault == otherPaths:
		return "other patterns"
	case j.taken[n] && j.mutation != kept:
		return "withdrawn"
	case g.issued < begun && j.mutation != olderThanRecord:
		return "before the record"
	default:
		return j.invalid(g)
	}
}

// published are the approvals that have a ref, or get one in this push.
func (j *judgement) published() []int { return append(slices.Clone(j.offered), j.granted...) }

// carried are those in the messages of the commits of a set.
func (j *judgement) carried(set uint64) []int {
	var out []int
	for i, o := range j.objects {
		if set>>i&1 == 1 {
			out = append(out, o.tokens...)
		}
	}
	return out
}

// origin is the commit that an update of a protected ref is judged from; none
// where the ref has no good tip.
func (j *judgement) origin(u update) int {
	if j.mutation == foundValue {
		return *u.old
	}
	if r := j.records[u.ref]; r != nil {
		return r.good
	}
	return none
}

// protected is the state rule, and the history rule where no chain was needed.
// It answers the chain.
func (j *judgement) protected(u update) []step {
	r := j.records[u.ref]
	target := j.state(j.commitOf(u.new))
	if (r == nil || !r.known) && j.value(u.ref) != none && j.mutation != unadopted {
		if !r.opening0().inTime(j.now) || !j.open(u, r, noState, target) {
			j.v.add(u.ref, "not adopted")
		}
		return nil
	}
	from := j.origin(u)
	before := noState
	if from != none {
		before = j.state(from)
	}
	starts := []state{}
	if from != none {
		starts = append(starts, j.state(from))
	} else if j.mutation != fromEmpty {
		for _, other := range j.records {
			if other.good != none {
				starts = append(starts, j.state(other.good))
			}
		}
	}
	if len(starts) == 0 || j.mutation == emptyToo && from == none {
		starts = append(starts, "")
	}
	if slices.Contains(starts, target) {
		if j.mutation == noRewinds && from != none && !j.reaches(u.new, from) {
			j.v.add(u.ref, "unapproved")
		}
		if !j.clean(u, j.good, from) && !j.open(u, r, before, target) {
			j.v.add(u.ref, "history")
		}
		return nil
	}
	if from == none {
		starts = append(starts, "")
	}
	except := j.good
	if from != none {
		except = j.reach(from)
	}
	found := append(j.published(), j.carried(j.reach(u.new)&^except)...)
	if j.mutation == noMessages {
		found = j.published()
	}
	free, why := j.sift(u, r, found, target)
	if why == "unapproved" && overtaken(free, r, starts) {
		why = "stale"
	}
	chain := j.shortest(free, starts, target)
	if chain == nil && !j.open(u, r, before, target) {
		j.v.add(u.ref, why)
	}
	return chain
}

// overtaken: a free approval starts where the ref was until another step was taken.
func overtaken(free []step, r *record, starts []state) bool {
	return r != nil && slices.ContainsFunc(free, func(s step) bool {
		return !slices.Contains(starts, s.before) && slices.ContainsFunc(r.used, func(u use) bool { return u.before == s.before })
	})
}

func (r *record) opening0() *opening {
	if r == nil {
		return nil
	}
	return r.opening
}

// open says that an opening has something to say about the move: it allows it, or
// is held by another.
func (j *judgement) open(u update, r *record, before, target state) bool {
	o := r.opening0()
	if !o.inTime(j.now) || o.after != target || j.mutation == closed {
		return false
	}
	for _, s := range r.used {
		if slices.Contains(s.grants, o.number) {
			return false
		}
	}
	for _, e := range r.pending {
		taken := slices.ContainsFunc(e.steps, func(s step) bool { return slices.Contains(s.grants, o.number) })
		if taken && (e.old != *u.old || e.new != u.new) && j.onWay(e) && j.mutation != openTwice {
			j.v.add(u.ref, "opening held")
			return true
		}
	}
	taken := *o
	taken.after = before // what the step starts from; where it ends is known
	j.opened[u.ref] = taken
	return true
}

// sift answers the steps that free approvals make, and what to say where they do
// not lead to the target.
func (j *judgement) sift(u update, r *record, found []int, target state) (free []step, why string) {
	var used, held, failed bool
	seen := map[int]bool{}
	stale := false
	for _, n := range found {
		g := j.grants[n]
		if seen[n] {
			continue
		}
		seen[n] = true
		word := j.counts(n, u.ref)
		leads := g.after == target
		switch {
		case word != "":
			failed = failed || leads || word != "wrong ref" && !slices.Contains(j.granted, n)
		case r != nil && r.spent(n, g, j.mutation == spares) && j.mutation != reusable:
			used = used || leads
		case r != nil && j.holds(r, n, g, *u.old, u.new) && j.mutation != notHeld:
			held = held || leads
		default:
			free = add(free, g, n)
			stale = stale || leads
		}
	}
	switch {
	case stale:
		return free, "stale"
	case held:
		return free, "held"
	case used:
		return free, "used"
	case failed:
		return free, "failed"
	default:
		return free, "unapproved"
	}
}

func add(steps []step, g grant, n int) []step {
	for i := range steps {
		if steps[i].before == g.before && steps[i].after == g.after {
			steps[i].grants = append(slices.Clone(steps[i].grants), n)
			return steps
		}
	}
	return append(steps, step{g.before, g.after, []int{n}})
}

// spent: the approval was used, or it is like one that was and no younger.
func (r *record) spent(n int, g grant, itself bool) bool {
	return slices.ContainsFunc(r.used, func(u use) bool {
		return slices.Contains(u.grants, n) || !itself && u.before == g.before && u.after == g.after && g.issued <= u.at
	})
}

// holds: another move, which is under way, will use it.
func (j *judgement) holds(r *record, n int, g grant, old, new int) bool {
	return slices.ContainsFunc(r.pending, func(e entry) bool {
		if e.old == old && e.new == new || !j.onWay(e) && j.mutation != heldForEver {
			return false
		}
		return slices.ContainsFunc(e.steps, func(s step) bool {
			return slices.Contains(s.grants, n) || s.before == g.before && s.after == g.after && g.issued <= e.last()
		})
	})
}

// shortest tries all ways, shorter ones first; of equally long ones, it is the
// one with the smallest hash at the first step where they differ.
func (j *judgement) shortest(steps []step, starts []state, target state) []step {
	order := slices.Clone(steps)
	greatest := j.mutation == greatestHash
	least := func(s step) string {
		best := j.grants[s.grants[0]].hash
		for _, g := range s.grants {
			best = min(best, j.grants[g].hash)
		}
		return best
	}
	slices.SortFunc(order, func(a, b step) int {
		if (least(a) < least(b)) != greatest {
			return -1
		}
		return 1
	})
	var try func(at []state, left int) []step
	try = func(at []state, left int) []step {
		for _, s := range order {
			if !slices.Contains(at, s.before) {
				continue
			}
			if left == 1 {
				if s.after == target {
					return []step{s}
				}
				continue
			}
			if rest := try([]state{s.after}, left-1); rest != nil {
				return append([]step{s}, rest...)
			}
		}
		return nil
	}
	most := len(order)
	if j.mutation == singleSteps {
		most = min(most, 1)
	}
	for n := 1; n <= most; n++ {
		if j.mutation == longChains {
			if chain := try(starts, most+1-n); chain != nil {
				return chain
			}
			continue
		}
		if chain := try(starts, n); chain != nil {
			return chain
		}
	}
	return nil
}

// accounts are the states that any commit may have: those of good tips, and those
// that an approval leads to which was used, may be by now, or is valid and
// published.
func (j *judgement) accounts() {
	j.account = map[state]bool{}
	for _, r := range j.records {
		if r.good != none {
			j.account[j.state(r.good)] = true
		}
		for _, u := range r.used {
			j.account[u.after] = j.mutation != usedForgotten || j.account[u.after]
		}
		for _, e := range r.pending {
			for _, s := range e.steps {
				gone := slices.ContainsFunc(s.grants, func(n int) bool { return n >= 0 && j.taken[n] })
				j.account[s.after] = j.account[s.after] || !gone
			}
		}
	}
	for _, n := range j.published() {
		j.admit(j.account, n)
	}
}

func (j *judgement) admit(to map[state]bool, n int) {
	g := j.grants[n]
	if j.class(g.ref) == protectedRef && j.counts(n, g.ref) == "" {
		to[g.after] = true
	}
}

// history is the history rule for a ref that is not protected.
func (j *judgement) history(u update, except uint64, from int) {
	if (j.class(u.ref) != changeRef || j.mutation == changesHeld) && !j.clean(u, except, from) {
		j.v.add(u.ref, "history")
	}
}

// clean: every commit that the ref takes in and that moved the protected paths has
// a state that is accounted for.
func (j *judgement) clean(u update, except uint64, from int) bool {
	if j.mutation == noHistory {
		return true
	}
	// Messages speak from where the ref comes from.
	speak := j.reach(u.new)
	switch c := j.class(u.ref); {
	case from != none && c.stored():
		speak &^= j.reach(from)
	default:
		speak &^= j.good
	}
	if j.mutation != sharedMessages {
		clear(j.own)
	}
	for _, n := range j.carried(speak) {
		j.admit(j.own, n)
	}
	for i := range j.objects {
		if (j.reach(u.new)&^except)>>i&1 == 0 || !j.moved(i) {
			continue
		}
		s := j.state(i)
		if !j.account[s] && !j.own[s] {
			return false
		}
	}
	return true
}

// moved: the commit's state is not that of any parent; an empty parent counts
// only where all are empty, and a root comes from the empty state.
func (j *judgement) moved(commit int) bool {
	s := j.state(commit)
	parents := j.objects[commit].parents
	if j.mutation == firstParent && len(parents) > 1 {
		parents = parents[:1]
	}
	full := false
	for _, p := range parents {
		if j.state(p) == "" && j.mutation != emptyParents {
			continue
		}
		if j.state(p) == s {
			return false
		}
		full = true
	}
	return full || s != ""
}

// write enters the accepted moves of protected refs.
func (j *judgement) write(chains map[string][]step) {
	next := map[string]*record{}
	for _, u := range j.updates {
		chain, ok := chains[u.ref]
		if !ok {
			continue
		}
		r := j.records[u.ref]
		if r == nil {
			r = &record{good: none, goodAt: longAgo - 1, begun: longAgo}
		}
		if j.bounces(r, u.new) && j.mutation != bounces {
			j.v.add(u.ref, "bounce")
		}
		steps := slices.Clone(chain)
		if o, ok := j.opened[u.ref]; ok {
			steps = append(steps, step{o.after, j.state(u.new), []int{o.number}})
		}
		next[u.ref] = j.accept(r, entry{old: *u.old, new: u.new, steps: steps})
	}
	if !j.v.accepted() {
		return
	}
	for ref, r := range next {
		j.model.records[ref] = r
	}
}

// bounces: a move that started at new was accepted more than once, and with the ref
// back there it might land again.
func (j *judgement) bounces(r *record, new int) bool {
	again := func(e entry) bool { return e.old == new && j.again(e) }
	return slices.ContainsFunc(r.pending, again) || slices.ContainsFunc(r.repeated, again)
}

func (j *judgement) accept(r *record, e entry) *record {
	n := *r
	n.pending = nil
	e.accepted = []acceptance{{j.now, j.push}}
	for _, p := range r.pending {
		if p.old != e.old || p.new != e.new {
			if len(p.steps) > 0 || j.onWay(p) {
				n.pending = append(n.pending, p)
			}
			continue
		}
		before := slices.DeleteFunc(slices.Clone(p.accepted), func(a acceptance) bool { return !j.underWay(a) })
		e.accepted = append(before, e.accepted...)
		e.steps = union(p.steps, e.steps)
	}
	n.pending = append(n.pending, e)
	n.repeated = slices.DeleteFunc(slices.Clone(r.repeated), func(p entry) bool { return !j.again(p) })
	return &n
}

// union: whichever acceptance lands, its approvals are used.
func union(a, b []step) []step {
	out := slices.Clone(a)
	for _, s := range b {
		i := slices.IndexFunc(out, func(t step) bool { return t.before == s.before && t.after == s.after })
		if i < 0 {
			out = append(out, s)
			continue
		}
		grants := slices.Concat(out[i].grants, s.grants)
		slices.Sort(grants)
		out[i].grants = slices.Compact(grants)
	}
	return out
}

// spell names a commit in scripts and messages.
func spell(obj int) string {
	if obj == none {
		return "nothing"
	}
	return "c" + strconv.Itoa(obj)
}
