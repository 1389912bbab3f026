package gitrepo

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// counting is a git that writes down what it is started for.
func (h *host) counting() (r *Repo, started func() []string) {
	h.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		h.t.Fatal(err)
	}
	dir := h.t.TempDir()
	log, wrapper := filepath.Join(dir, "log"), filepath.Join(dir, "git")
	script := fmt.Sprintf("#!/bin/sh\nfor a; do case $a in cat-file|rev-parse|log|merge-base) echo $a >>%s; break;; esac; done\nexec %s \"$@\"\n", log, git)
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if r, err = Open(ctx, Options{GitDir: h.dir, Git: wrapper}); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { r.Close() })
	return r, func() []string {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			h.t.Fatal(err)
		}
		_ = os.Remove(log) // there is none where nothing was started
		return strings.Fields(string(data))
	}
}

// Every pair of a graph is answered as a naive walk answers it, over the cat-file
// child and by git, whatever the clocks say.
func TestReachAgreesWithANaiveModel(t *testing.T) {
	const size = 30
	for seed := range 3 {
		rng := rand.New(rand.NewSource(int64(seed)))
		parents := randomGraph(rng, size)
		h := newHost(t)
		clock := []func(int) int{
			func(i int) int { return 1_700_000_000 + i*60 }, func(i int) int { return 1_700_000_000 - i*60 },
			func(int) int { return 1_600_000_000 + rng.Intn(100_000_000) },
		}[seed%3]
		ids := h.commits(parents, clock)
		r := h.open()
		var pairs []Pair
		for a := range ids {
			for b := range ids {
				pairs = append(pairs, Pair{ids[a], ids[b]})
			}
		}
		got, err := r.Reach(ctx, pairs)
		if err != nil {
			t.Fatal(err)
		}
		byGit := make([]bool, len(pairs))
		var all []int
		for i, w := range pairs {
			if w.From != w.To {
				all = append(all, i)
			}
		}
		if err := r.far(ctx, pairs, all, byGit); err != nil {
			t.Fatal(err)
		}
		for i, w := range pairs {
			want := naiveReach(parents, i/size)[i%size]
			if got[i] != want || byGit[i] != want && w.From != w.To {
				t.Fatalf("seed %d: %d reaches %d: %v, by git %v, want %v", seed, i/size, i%size, got[i], byGit[i], want)
			}
		}
	}
}

// However many pairs are asked for, at most one child of git's is started for them;
// none where they are short, or where an end is not there.
func TestReachStartsOneChildForAllThatIsFar(t *testing.T) {
	const trunk, tries = 60, 40
	var parents [][]int
	for i := range trunk {
		parents = append(parents, []int{max(0, i-1)}[:min(i, 1)])
	}
	for i := range tries {
		parents = append(parents, []int{i / 2})
	}
	h := newHost(t)
	ids := h.commits(parents, func(i int) int { return 1_700_000_000 + i })
	tip := ids[trunk-1]
	h.git("tag", "-a", "-m", "t", "v1", tip)
	tag := h.git("rev-parse", "refs/tags/v1")
	gone := strings.Repeat("1", 40)
	r, started := h.counting()
	for _, c := range []struct {
		name  string
		pairs []Pair
		want  []bool
		child string
	}{
		{"itself", []Pair{{tip, tip}}, []bool{true}, ""},
		{"the commit before it, and back", []Pair{{tip, ids[trunk-2]}, {ids[trunk-2], tip}}, []bool{true, false}, ""},
		{"side by side", []Pair{{ids[20], ids[trunk+39]}, {ids[19], ids[trunk+39]}, {ids[trunk+38], ids[trunk+39]}}, []bool{false, false, false}, ""},
		{"what is not there", []Pair{{tip, gone}, {gone, ids[0]}, {gone, gone}}, []bool{false, false, false}, ""},
		{"what is no commit", []Pair{{tag, tip}, {tip, tag}}, []bool{false, false}, ""},
		{"far", []Pair{{tip, ids[0]}, {ids[0], tip}, {tip, ids[trunk]}}, []bool{true, false, false}, "rev-parse"},
	} {
		got, err := r.Reach(ctx, c.pairs)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if child := strings.TrimSpace(strings.ReplaceAll(strings.Join(started(), " "), "cat-file", "")); child != c.child {
			t.Errorf("%s starts %q, want %q", c.name, child, c.child)
		}
	}
	var many []Pair
	for i := range tries {
		many = append(many, Pair{tip, ids[trunk+i]}, Pair{ids[trunk+i], ids[i/2]})
	}
	got, err := r.Reach(ctx, many)
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if got[i] != (i%2 == 1) {
			t.Fatalf("pair %d: %v", i, got[i])
		}
	}
	if child := started(); len(child) != 1 || child[0] != "rev-parse" {
		t.Errorf("%d pairs start %q", len(many), child)
	}
}

// In a shallow repository git's word on a commit's parents is asked for.
func TestReachInAShallowRepositoryIsGits(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}, {1}}, func(i int) int { return 1_700_000_000 + i })
	if err := os.WriteFile(filepath.Join(h.dir, "shallow"), []byte(ids[1]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := h.open().Reach(ctx, []Pair{{ids[2], ids[1]}, {ids[2], ids[0]}})
	if err != nil || !got[0] || got[1] {
		t.Errorf("%v, %v", got, err)
	}
}
