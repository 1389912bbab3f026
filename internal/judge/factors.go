package judge

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// What stands in place of a factor where none is a cause.
const (
	// ByChance: the outcome differs from run to run.
	ByChance = "chance"
	// Together: no single factor changes the outcome.
	Together = "several at once"
	// Untried: there was no time for all factors, or a limit ended a run.
	Untried = "not all tried"
)

// Bounds of a search for causes. It runs on pushes that are refused in any case.
const (
	maxSearched = 8
	searchTime  = 30 * time.Second
)

// Causes looks for what an outcome depends on, where two passes disagree about it:
// it runs the first pass again, unchanged and then with one thing of the second at
// a time.
type Causes struct {
	First, Second Pass
	// Place gives a pass places of its own before it is run, where no sandbox does;
	// nil changes nothing.
	Place func(Pass) (Pass, error)
	// Time bounds the search; 0 is 30 s.
	Time time.Duration
}

// factor is one thing in which a pass may differ from another.
type factor struct {
	name string
	take func(p, from Pass) Pass // p with this one thing of from
}

// factors are what the second pass changes, each under the name that people read.
var factors = []factor{
	{"order", func(p, from Pass) Pass { p.Reversed = from.Reversed; return p }},
	{"time zone", environmentOf("TZ")},
	{"locale", environmentOf("LANG", "LC_ALL")},
	{"home", environmentOf("HOME")},
	{"user", environmentOf("USER")},
	{"host name", func(p, from Pass) Pass {
		p = environmentOf("HOSTNAME")(p, from)
		p.Host = from.Host
		return p
	}},
	{"hash seed", environmentOf("PYTHONHASHSEED")},
	{"leftover files", func(p, from Pass) Pass { p.Leftovers = from.Leftovers; return p }},
	{"order of directory entries", func(p, from Pass) Pass { p.Root = from.Root; return p }},
}

// environmentOf takes over the values of variables that both passes have.
func environmentOf(names ...string) func(p, from Pass) Pass {
	return func(p, from Pass) Pass {
		env := make([]string, 0, len(p.Env))
		for _, entry := range p.Env {
			name, _, _ := strings.Cut(entry, "=")
			if slices.Contains(names, name) {
				entry = variable(from.Env, name)
			}
			if entry != "" {
				env = append(env, entry)
			}
		}
		p.Env = env
		return p
	}
}

// variable is the entry of a variable; empty where there is none.
func variable(env []string, name string) string {
	i := slices.IndexFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	if i < 0 {
		return ""
	}
	return env[i]
}

// Properties answers what the outcome of each property depends on that the results
// of the two passes disagree about: names of factors, or ByChance, or Together; the
// last is Untried where the search came to no end. One that a limit ended in either
// pass is not searched for, nor what is beyond the bounds. There is no error: where
// nothing can be found out, nothing is said.
func (q Causes) Properties(ctx context.Context, c Config, first, second []Result) map[string][]string {
	c.Workers = max(c.Workers, 2)
	s := q.search(statesOf(first), statesOf(second), Compare(first, second))
	s.run = func(ctx context.Context, p Pass, ids []string) (map[string]string, error) {
		some := c
		some.Properties = slices.DeleteFunc(slices.Clone(c.Properties), func(one Property) bool { return !slices.Contains(ids, one.ID) })
		results, err := Properties(ctx, some, p)
		return statesOf(results), err
	}
	return s.find(ctx)
}

// Invariants is Properties for invariants; ids are unique among them.
func (q Causes) Invariants(ctx context.Context, c InvariantsConfig, first, second []Outcome) map[string][]string {
	c.Workers = max(c.Workers, 2)
	s := q.search(statesOf(first), statesOf(second), CompareOutcomes(first, second))
	s.run = func(ctx context.Context, p Pass, ids []string) (map[string]string, error) {
		some := c
		some.Invariants = slices.DeleteFunc(slices.Clone(c.Invariants), func(one Invariant) bool { return !slices.Contains(ids, one.ID) })
		outcomes, err := Invariants(ctx, some, p)
		return statesOf(outcomes), err
	}
	return s.find(ctx)
}

// stated is an outcome of a pass: its state is what passes are compared by, and
// empty where a limit or a kill ended it.
type stated interface{ stated() (id, state string) }

func (r Result) stated() (id, state string) {
	if r.TimedOut || r.Killed {
		return r.ID, ""
	}
	return r.ID, fmt.Sprintf("%t %t %t %q", r.Ran, r.OK, r.Loaded, r.FailedFixtures)
}

func (o Outcome) stated() (id, state string) {
	if o.TimedOut || o.Killed {
		return o.ID, ""
	}
	return o.ID, fmt.Sprintf("%t %t %t", o.Ran, o.OK, o.Loaded)
}

func statesOf[T stated](list []T) map[string]string {
	states := make(map[string]string, len(list))
	for _, one := range list {
		id, state := one.stated()
		states[id] = state
	}
	return states
}

// search is a search in progress.
type search struct {
	Causes
	suspects []*suspect
	run      func(ctx context.Context, p Pass, ids []string) (map[string]string, error)
	stopped  bool // a run failed: no further one is tried
}

// suspect is one id that the passes disagree about.
type suspect struct {
	id            string
	first, second string            // its states
	moved         map[string]string // by the factor that changed the state: the state it became
	chance        bool
	untried       bool
}

func (q Causes) search(first, second map[string]string, coupled []string) *search {
	s := &search{Causes: q}
	for _, id := range coupled {
		if first[id] != "" && second[id] != "" && len(s.suspects) < maxSearched {
			s.suspects = append(s.suspects, &suspect{id: id, first: first[id], second: second[id], moved: map[string]string{}})
		}
	}
	return s
}

// find searches. What changes the outcome once must do so again, and what nothing
// changes must still be as it was: else it is chance.
func (s *search) find(ctx context.Context) map[string][]string {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Time, searchTime))
	defer cancel()
	everyone := func(*suspect) bool { return true }
	s.round(ctx, s.First, everyone, func(one *suspect, state string) { one.chance = state != one.first })
	for _, f := range factors {
		s.round(ctx, f.take(s.First, s.Second), s.changedBy(f), func(one *suspect, state string) {
			if state != one.first {
				one.moved[f.name] = state
			}
		})
	}
	for _, f := range factors {
		moved := func(one *suspect) bool { return one.moved[f.name] != "" }
		s.round(ctx, f.take(s.First, s.Second), moved, func(one *suspect, state string) {
			one.chance = one.chance || state != one.moved[f.name]
		})
	}
	unmoved := func(one *suspect) bool { return len(one.moved) == 0 }
	s.round(ctx, s.Second, unmoved, func(one *suspect, state string) { one.chance = state != one.second })
	return s.found()
}

// changedBy chooses everyone where the factor makes a difference between the
// passes, and nobody else.
func (s *search) changedBy(f factor) func(*suspect) bool {
	differs := !reflect.DeepEqual(f.take(s.First, s.Second), f.take(s.First, s.First))
	return func(*suspect) bool { return differs }
}

// round runs a pass over those suspects that are chosen and still open, and hands
// out what became of each.
func (s *search) round(ctx context.Context, p Pass, chosen func(*suspect) bool, learn func(one *suspect, state string)) {
	var ids []string
	for _, one := range s.suspects {
		if !one.chance && chosen(one) {
			ids = append(ids, one.id)
		}
	}
	if len(ids) == 0 {
		return
	}
	states := s.states(ctx, p, ids)
	for _, one := range s.suspects {
		switch state := states[one.id]; {
		case !slices.Contains(ids, one.id):
		case state == "":
			one.untried = true
		default:
			learn(one, state)
		}
	}
}

// states are those after one run; none where it failed.
func (s *search) states(ctx context.Context, p Pass, ids []string) map[string]string {
	if s.stopped || ctx.Err() != nil {
		return nil
	}
	var err error
	if s.Place != nil {
		p, err = s.Place(p)
	}
	var states map[string]string
	if err == nil {
		states, err = s.run(ctx, p, ids)
	}
	if err != nil {
		s.stopped = true
		return nil
	}
	return states
}

func (s *search) found() map[string][]string {
	found := make(map[string][]string, len(s.suspects))
	for _, one := range s.suspects {
		found[one.id] = one.causes()
	}
	return found
}

func (one *suspect) causes() []string {
	if one.chance {
		return []string{ByChance}
	}
	var list []string
	for _, f := range factors {
		if one.moved[f.name] != "" {
			list = append(list, f.name)
		}
	}
	switch {
	case one.untried:
		list = append(list, Untried)
	case len(list) == 0:
		list = append(list, Together)
	}
	return list
}
