package gate

import (
	"slices"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/state"
)

// approved is a token whose signature counts.
type approved struct {
	approval.Token
	approval.Signed
}

// step is a change of state that enough maintainers approved, with every
// approval of it: they are used together.
type step struct {
	before, after string
	approvals     []approved // in order of hash
}

// least is the smallest statement hash.
func (s step) least() string { return s.approvals[0].Hash }

func (s step) record() state.Step {
	out := state.Step{Before: s.before, After: s.after}
	for _, a := range s.approvals {
		out.Hashes = append(out.Hashes, a.Hash)
	}
	return out
}

// persons counts who approved the step.
func (s step) persons() int {
	var signed []approval.Signed
	for _, a := range s.approvals {
		signed = append(signed, a.Signed)
	}
	return approval.Persons(signed)
}

// steps groups approvals of one ref by their states, in order of least hash.
func steps(list []approved) []step {
	type states struct{ before, after string }
	by := map[states]*step{}
	for _, a := range list {
		key := states{a.Statement.Before, a.Statement.After}
		if by[key] == nil {
			by[key] = &step{before: key.before, after: key.after}
		}
		by[key].approvals = append(by[key].approvals, a)
	}
	var out []step
	for _, s := range by {
		slices.SortFunc(s.approvals, func(a, b approved) int {
			if a.Hash != b.Hash {
				return compare(a.Hash, b.Hash)
			}
			return compare(a.Fingerprint, b.Fingerprint)
		})
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b step) int { return compare(a.least(), b.least()) })
	return out
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// enough keeps the steps that threshold persons approved.
func enough(all []step, threshold int) []step {
	return slices.DeleteFunc(slices.Clone(all), func(s step) bool {
		return threshold < 1 || s.persons() < threshold
	})
}

// shortest is the shortest chain of steps from one of the starts to target; of
// several, the one whose first step has the smallest hash, then the second, and
// so on. Nil where there is none.
func shortest(all []step, starts []string, target string) []step {
	const far = 1 << 30
	distance := map[string]int{target: 0}
	for queue := []string{target}; len(queue) > 0; queue = queue[1:] {
		for _, s := range all {
			if s.after != queue[0] {
				continue
			}
			if _, seen := distance[s.before]; !seen {
				distance[s.before] = distance[queue[0]] + 1
				queue = append(queue, s.before)
			}
		}
	}
	best := far
	for _, start := range starts {
		if d, ok := distance[start]; ok && d > 0 {
			best = min(best, d)
		}
	}
	if best == far {
		return nil
	}
	at := slices.DeleteFunc(slices.Clone(starts), func(s string) bool { d, ok := distance[s]; return !ok || d != best })
	var chain []step
	for left := best - 1; left >= 0; left-- {
		i := slices.IndexFunc(all, func(s step) bool {
			d, ok := distance[s.after]
			return ok && d == left && slices.Contains(at, s.before)
		})
		chain = append(chain, all[i])
		at = []string{all[i].after}
	}
	return chain
}

// onTheWay keeps the approvals of steps that lie on some way from one of the starts
// to target. What other changes overtook is on none, however much of it there is.
func onTheWay(list []approved, starts []string, target string) []approved {
	next, prior := map[string][]string{}, map[string][]string{}
	for _, a := range list {
		st := a.Statement
		next[st.Before], prior[st.After] = append(next[st.Before], st.After), append(prior[st.After], st.Before)
	}
	ahead, behind := reached(next, starts), reached(prior, []string{target})
	return slices.DeleteFunc(slices.Clone(list), func(a approved) bool {
		return !ahead[a.Statement.Before] || !behind[a.Statement.After]
	})
}

// reached are the states that ways lead to from others, those included.
func reached(ways map[string][]string, from []string) map[string]bool {
	seen := map[string]bool{}
	for queue := slices.Clone(from); len(queue) > 0; queue = queue[1:] {
		if at := queue[0]; !seen[at] {
			seen[at] = true
			queue = append(queue, ways[at]...)
		}
	}
	return seen
}
