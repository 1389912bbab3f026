package state

import (
	"slices"
	"time"
)

// HoldTime is how long an accepted move that has not landed keeps its approvals
// from other moves where nobody sees whether its push has ended.
const HoldTime = 10 * time.Minute

// maxPending bounds a record; older moves without approvals go first.
const maxPending = 256

// Tip is a commit that a protected ref stood at rightfully.
type Tip struct {
	// Commit is empty where the ref came under the gate unborn.
	Commit string `json:"commit"`
	// State is the state of its protected paths, under the patterns that Paths
	// identifies; Mark is the View's. Both are empty until they were computed.
	State string `json:"state,omitempty"`
	Paths string `json:"paths,omitempty"`
	Mark  string `json:"mark,omitempty"`
	// At is when it was accepted, or came under the gate.
	At time.Time `json:"at"`
}

// Step is a signed step from one state to another, and what it uses up: every
// approval of its ref with these states, issued until then. One that an admin's
// opening allowed has its Mark for a statement, and no Before where the ref had no
// good tip.
type Step struct {
	Before string   `json:"before"`
	After  string   `json:"after"`
	Hashes []string `json:"statements"`
}

// Move is a move of the ref that was accepted and is not known to have landed.
type Move struct {
	Old   string `json:"old"` // zeros where the ref did not exist
	New   string `json:"new"`
	State string `json:"state"`
	Paths string `json:"paths"`
	Mark  string `json:"mark"`
	Steps []Step `json:"steps,omitempty"`
	// Accepted are its acceptances, oldest first.
	Accepted []Acceptance `json:"accepted"`
}

// Acceptance is a push that was let in with the move.
type Acceptance struct {
	At  time.Time `json:"at"`
	Way Way       `json:"way,omitzero"`
}

func (m Move) last() time.Time {
	if len(m.Accepted) == 0 {
		return time.Time{}
	}
	return m.Accepted[len(m.Accepted)-1].At
}

// UnderWay are the acceptances that may still land.
func (m Move) UnderWay(p Present) []Acceptance {
	return slices.DeleteFunc(slices.Clone(m.Accepted), func(a Acceptance) bool { return !p.underWay(a) })
}

func (m Move) underWay(p Present) bool { return slices.ContainsFunc(m.Accepted, p.underWay) }

// Use is a step that was taken.
type Use struct {
	Step
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
}

// Record is what the git host knows of one protected ref.
type Record struct {
	Version int    `json:"version"`
	Ref     string `json:"ref"`
	// Begun is when the record was begun; it accepts no approval issued before.
	Begun time.Time `json:"begun"`
	// Good is the good tip.
	Good Tip `json:"good"`
	// Repeated are landed moves that may land once more; see Bounces.
	Repeated []Move `json:"repeated,omitempty"`
	// Pending are accepted moves in order of their last acceptance.
	Pending []Move `json:"pending,omitempty"`
	Used    []Use  `json:"used,omitempty"`
	// Opening is an admin's leave for one push; nil for none.
	Opening *Opening `json:"opening,omitempty"`
}

// Reaches says whether the commit from reaches the commit to. It must answer for
// commits that are gone, with false.
type Reaches func(from, to string) (bool, error)

// Settle looks at where the ref stands (actual; empty where it does not exist)
// and takes over what has landed: a pending move whose new value the ref has, or
// reaches where it did not reach it before, unless another one used its
// approvals. It says whether the record changed.
func (r *Record) Settle(actual string, reaches Reaches) (bool, error) {
	if actual == "" || len(r.Pending) == 0 {
		return false, nil
	}
	var landed, kept []Move
	for _, m := range r.Pending {
		yes, err := m.landed(actual, reaches)
		switch {
		case err != nil:
			return false, err
		case yes:
			landed = append(landed, m)
		default:
			kept = append(kept, m)
		}
	}
	if len(landed) == 0 {
		return false, nil
	}
	slices.SortStableFunc(landed, func(a, b Move) int { return a.claim(b, actual) })
	r.Pending = kept
	for _, m := range landed {
		if r.usedByAnother(m) {
			continue
		}
		r.take(m, actual)
	}
	return true, nil
}

// landed: a move that takes the ref back is reached from where it started, so
// being reached proves nothing there.
func (m Move) landed(actual string, reaches Reaches) (bool, error) {
	if m.New == actual {
		return true, nil
	}
	if yes, err := reaches(actual, m.New); err != nil || !yes {
		return false, err
	}
	before, err := reaches(m.Old, m.New)
	return !before, err
}

// claim orders landed moves: the one that ends where the ref stands comes first,
// then the latest.
func (m Move) claim(other Move, actual string) int {
	if (m.New == actual) != (other.New == actual) {
		if m.New == actual {
			return -1
		}
		return 1
	}
	return other.last().Compare(m.last())
}

func (r *Record) take(m Move, actual string) {
	for _, step := range m.Steps {
		r.Used = append(r.Used, Use{Step: step, Commit: m.New, At: m.last()})
		r.spend(step)
	}
	if len(m.Accepted) > 1 {
		r.Repeated = append(r.Repeated, m)
	}
	if r.Good.Commit == actual && m.New != actual {
		return
	}
	if m.New == actual || m.last().After(r.Good.At) {
		r.Good = Tip{Commit: m.New, State: m.State, Paths: m.Paths, Mark: m.Mark, At: m.last()}
	}
}

func (r *Record) usedByAnother(m Move) bool {
	for _, step := range m.Steps {
		for _, hash := range step.Hashes {
			for _, use := range r.Used {
				if use.Commit != m.New && slices.Contains(use.Hashes, hash) {
					return true
				}
			}
		}
	}
	return false
}

// UsedUp says that an approval with these facts was used, or was issued before a
// like one was used.
func (r *Record) UsedUp(hash, before, after string, issued time.Time) bool {
	return slices.ContainsFunc(r.Used, func(u Use) bool {
		return slices.Contains(u.Hashes, hash) || u.Before == before && u.After == after && !issued.After(u.At)
	})
}

// Spent says that an approval was used for a move that landed.
func (r *Record) Spent(hash string) bool {
	return slices.ContainsFunc(r.Used, func(u Use) bool { return slices.Contains(u.Hashes, hash) })
}

// Held says that an accepted move other than old to new, which is under way, will use
// up the approval when it lands.
func (r *Record) Held(hash, before, after string, issued time.Time, old, new string, p Present) bool {
	return slices.ContainsFunc(r.Pending, func(m Move) bool {
		if m.Old == old && m.New == new {
			return false
		}
		takes := slices.ContainsFunc(m.Steps, func(s Step) bool {
			return slices.Contains(s.Hashes, hash) || s.Before == before && s.After == after && !issued.After(m.last())
		})
		return takes && m.underWay(p)
	})
}

// Takes says that a move which is under way will use up one of these when it lands.
func (r *Record) Takes(p Present, hashes ...string) bool {
	return slices.ContainsFunc(r.Pending, func(m Move) bool {
		takes := slices.ContainsFunc(m.Steps, func(s Step) bool {
			return slices.ContainsFunc(hashes, func(hash string) bool { return slices.Contains(s.Hashes, hash) })
		})
		return takes && m.underWay(p)
	})
}

// Bounces says that new is where a move started that may land a second time: it was
// accepted more than once, and is under way. Whichever of the acceptances landed,
// another may still land.
func (r *Record) Bounces(new string, p Present) bool {
	again := func(m Move) bool { return m.Old == new && m.repeated(p) }
	return slices.ContainsFunc(r.Pending, again) || slices.ContainsFunc(r.Repeated, again)
}

func (m Move) repeated(p Present) bool { return len(m.Accepted) > 1 && m.underWay(p) }

// Accept notes a move that comes by way; the same move again is noted as one more
// acceptance. Acceptances that cannot land any more are dropped, so that a record
// does not grow.
func (r *Record) Accept(m Move, way Way, p Present) {
	this := Acceptance{At: p.Now.UTC(), Way: way}
	m.Accepted = []Acceptance{this}
	if i := slices.IndexFunc(r.Pending, func(p Move) bool { return p.Old == m.Old && p.New == m.New }); i >= 0 {
		before := r.Pending[i]
		m.Accepted = append(before.UnderWay(p), this)
		m.Steps = union(before.Steps, m.Steps)
		r.Pending = slices.Delete(r.Pending, i, i+1)
	}
	r.Pending = append(r.Pending, m)
	r.Repeated = slices.DeleteFunc(r.Repeated, func(m Move) bool { return !m.repeated(p) })
	r.prune(p)
}

// union: either acceptance may be the one that lands.
func union(a, b []Step) []Step {
	out := slices.Clone(a)
	for _, step := range b {
		i := slices.IndexFunc(out, func(s Step) bool { return s.Before == step.Before && s.After == step.After })
		if i < 0 {
			out = append(out, step)
			continue
		}
		hashes := append(slices.Clone(out[i].Hashes), step.Hashes...)
		slices.Sort(hashes)
		out[i].Hashes = slices.Compact(hashes)
	}
	return out
}

// prune drops moves without approvals that are not under way any more. What took an
// approval stays, for who may have used it.
func (r *Record) prune(p Present) {
	r.Pending = slices.DeleteFunc(r.Pending, func(m Move) bool { return len(m.Steps) == 0 && !m.underWay(p) })
	for i := 0; len(r.Pending) > maxPending && i < len(r.Pending)-1; {
		if len(r.Pending[i].Steps) == 0 {
			r.Pending = slices.Delete(r.Pending, i, i+1)
			continue
		}
		i++
	}
}
