package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/replay"
)

// story is a random graph of commits, each with some state of oracles/.
type story struct {
	parents [][]int
	state   []string // contents of oracles/fees.txt; empty: there is none
	ids     []string
}

// tell writes a story with these commit clocks.
func (b *bench) tell(rnd *rand.Rand, n int, clock func(int) int) story {
	b.t.Helper()
	s := story{parents: make([][]int, n), state: make([]string, n)}
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "reset refs/story/%d\ncommit refs/story/%d\nmark :%d\ncommitter a <a@example.org> %d +0000\ndata 1\nc\n", i, i, i+1, clock(i))
		for k := range []int{0, 1, 1, 1, 2, 2, 3}[rnd.IntN(7)] {
			p := max(0, i-1-rnd.IntN(6))
			if i == 0 || slices.Contains(s.parents[i], p) {
				break
			}
			s.parents[i] = append(s.parents[i], p)
			fmt.Fprintf(&in, "%s :%d\n", []string{"from", "merge"}[min(k, 1)], p+1)
		}
		// Mostly what a parent has, sometimes anything.
		s.state[i] = []string{"", "a", "b", "c"}[rnd.IntN(4)]
		if len(s.parents[i]) > 0 && rnd.IntN(4) > 0 {
			s.state[i] = s.state[s.parents[i][rnd.IntN(len(s.parents[i]))]]
		}
		fmt.Fprintf(&in, "deleteall\nM 100644 inline app.py\ndata 2\n%02d\n", i)
		if s.state[i] != "" {
			fmt.Fprintf(&in, "M 100644 inline oracles/fees.txt\ndata 1\n%s\n", s.state[i])
		}
	}
	b.git(in.String(), "fast-import", "--quiet", "--force")
	refs := map[string]string{}
	for line := range strings.Lines(b.git("", "for-each-ref", "--format=%(refname) %(objectname)", "refs/story")) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		refs[name] = id
	}
	for i := range n {
		s.ids = append(s.ids, refs[fmt.Sprintf("refs/story/%d", i)])
	}
	return s
}

func (s story) reach(from []int) map[int]bool {
	seen := map[int]bool{}
	for todo := slices.Clone(from); len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[n] {
			seen[n] = true
			todo = append(todo, s.parents[n]...)
		}
	}
	return seen
}

// moved is the history rule's sentence on moved commits, word for word.
func (s story) moved(n int) bool {
	empty := true
	for _, p := range s.parents[n] {
		if s.state[p] != "" {
			empty = false
		}
	}
	if empty {
		return s.state[n] != ""
	}
	for _, p := range s.parents[n] {
		if s.state[p] != "" && s.state[p] == s.state[n] {
			return false
		}
	}
	return true
}

// The commits that are judged, and those of them that moved the protected paths, are
// those of a plain model, on graphs with merges, octopus merges, several roots and
// clocks that run backwards. Where clocks lie git may name more; what an excluded
// commit reaches is dropped again before it is held against anybody.
func TestMovedCommitsAgainstAModel(t *testing.T) {
	t.Parallel()
	const size, ranges = 45, 14
	walks, moves := 0, 0
	for seed := range 4 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 9))
		b := newBench(t, replay.Verdict{})
		clock := []func(int) int{
			func(i int) int { return 1_700_000_000 + i },
			func(i int) int { return 1_700_000_000 - 60*i },
			func(int) int { return 1_600_000_000 + rnd.IntN(100_000_000) },
			func(i int) int { return []int{0, 1, 1_700_000_000, 4_000_000_000}[rnd.IntN(4)] + i },
		}[seed]
		s := b.tell(rnd, size, clock)
		for range ranges {
			tips, exclude := rnd.Perm(size)[:1+rnd.IntN(3)], rnd.Perm(size)[:rnd.IntN(3)]
			moves += b.compare(s, tips, exclude)
			walks++
		}
	}
	fmt.Printf("tried: %d walks over random graphs against a model, %d moved commits\n", walks, moves)
	if moves < 50 {
		t.Errorf("only %d commits moved: the test proves little", moves)
	}
}

func (b *bench) compare(s story, tips, exclude []int) (moves int) {
	b.t.Helper()
	j := b.gate.judgement()
	w, err := j.walk(ctx, s.names(tips), s.names(exclude))
	if err != nil {
		b.t.Fatal(err)
	}
	f, err := j.inspect(ctx, w)
	if err != nil {
		b.t.Fatal(err)
	}
	nodes, err := j.outside(ctx, &move{}, scope{walk: w, bad: f, set: w.graph.Inner()}, f.moved)
	if err != nil {
		b.t.Fatal(err)
	}
	reached, without := s.reach(tips), s.reach(exclude)
	for n, id := range s.ids {
		judged := reached[n] && !without[n]
		at := w.graph.Find(id)
		if inside := w.graph.Inside(at); judged && !inside || inside && !reached[n] {
			b.t.Fatalf("%v without %v: commit %d is inside: %v", tips, exclude, n, inside)
		}
		want := judged && s.moved(n)
		if want {
			moves++
		}
		got := at != gitrepo.None && slices.Contains(nodes, at)
		if got != want {
			b.t.Fatalf("%v without %v: commit %d (%q, parents %v) has moved: %v, the model says %v", tips, exclude, n, s.state[n], s.parents[n], got, want)
		}
	}
	return moves
}

func (s story) names(nodes []int) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = s.ids[n]
	}
	return out
}
