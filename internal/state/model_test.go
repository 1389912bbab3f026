package state

import (
	"crypto/sha1" //nolint:gosec // git's own ids, to know which blob is which
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/policy"
)

// patternModels say of a path, by components, what a pattern names.
var patternModels = map[string]func(comps []string) bool{
	"oracles/":     func(c []string) bool { return c[0] == "oracles" },
	"freeze.json":  func(c []string) bool { return c[0] == "freeze.json" },
	"a/b/":         func(c []string) bool { return len(c) > 1 && c[0] == "a" && c[1] == "b" },
	"**/spec":      func(c []string) bool { return slices.Contains(c, "spec") },
	"*.toml":       func(c []string) bool { return strings.HasSuffix(c[0], ".toml") },
	"a/*/spec/":    func(c []string) bool { return len(c) > 2 && c[0] == "a" && c[2] == "spec" },
	"a/**/oracles": func(c []string) bool { return len(c) > 1 && c[0] == "a" && slices.Contains(c[1:], "oracles") },
}

// modelStates are the contents of random trees, by ref, in one repository.
func modelTrees(r *repo, rnd *rand.Rand, n int) {
	names := []string{"oracles", "freeze.json", "a", "b", "spec", "x.toml", "Spec", "n\nl", "t\tb", "q\"", "\xff\xfe", "é", strings.Repeat("l", 300), "a b", "-x"}
	modes := []string{modeFile, modeFile, modeExec, modeSymlink, modeModule}
	quote := strings.NewReplacer("\"", "\\\"", "\n", "\\n", "\t", "\\t")
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "reset refs/heads/t%d\ncommit refs/heads/t%d\ncommitter a <a@example.org> 1700000000 +0000\ndata 0\n", i, i)
		for range 1 + rnd.IntN(14) {
			comps := make([]string, 1+rnd.IntN(4))
			for k := range comps {
				comps[k] = names[rnd.IntN(len(names))]
			}
			path := quote.Replace(strings.Join(comps, "/"))
			switch mode := modes[rnd.IntN(len(modes))]; {
			case rnd.IntN(9) == 0:
				fmt.Fprintf(&in, "D \"%s\"\n", path)
			case mode == modeModule:
				fmt.Fprintf(&in, "M %s %040d \"%s\"\n", mode, 1+rnd.IntN(3), path)
			default:
				fmt.Fprintf(&in, "M %s inline \"%s\"\ndata 2\nc%d\n", mode, path, rnd.IntN(4))
			}
		}
		in.WriteString("\n")
	}
	r.git(in.String(), "fast-import", "--quiet", "--force")
}

// modelState computes a state from what git ls-tree lists and nothing else.
func modelState(r *repo, tree string, matches func(comps []string) bool) string {
	contents := map[string]string{}
	for i := range 4 {
		body := fmt.Sprintf("c%d", i)
		id := sha1.Sum([]byte("blob 2\x00" + body)) //nolint:gosec // as above
		contents[hex.EncodeToString(id[:])] = body
	}
	type line struct{ path, text string }
	var lines []line
	for _, one := range strings.Split(r.git("", "ls-tree", "-r", "-z", tree), "\x00") {
		info, path, ok := strings.Cut(one, "\t")
		if !ok || !matches(strings.Split(path, "/")) {
			continue
		}
		f := strings.Fields(info)
		content := f[2]
		if f[1] == "blob" {
			sum := sha256.Sum256([]byte(contents[f[2]]))
			content = hex.EncodeToString(sum[:])
		}
		lines = append(lines, line{path, f[0] + " " + f[1] + " " + content + " " + path + "\x00"})
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.path, b.path) })
	h := sha256.New()
	h.Write([]byte("protected-tree v1\x00"))
	for _, l := range lines {
		h.Write([]byte(l.text))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// States of random trees, with files, directories, symlinks and submodules in one
// another's places under odd names, are those of git ls-tree.
func TestStatesAgainstGitsOwnListing(t *testing.T) {
	t.Parallel()
	const trees = 120
	r := newRepo(t)
	rnd := rand.New(rand.NewPCG(4, 2))
	modelTrees(r, rnd, trees)
	texts := slices.Sorted(func(yield func(string) bool) {
		for text := range patternModels {
			if !yield(text) {
				return
			}
		}
	})
	tried, full := 0, 0
	for i := range trees {
		tree := fmt.Sprintf("refs/heads/t%d^{tree}", i)
		some := []string{texts[rnd.IntN(len(texts))]}
		if other := texts[rnd.IntN(len(texts))]; other != some[0] {
			some = append(some, other)
		}
		want := modelState(r, tree, func(comps []string) bool {
			return slices.ContainsFunc(some, func(text string) bool { return patternModels[text](comps) })
		})
		forbidden := policy.Patterns{}
		if rnd.IntN(2) == 0 {
			forbidden = protected(t, [][]string{{"a/"}, {"**/b/"}, {"oracles/", "**/spec/x"}}[rnd.IntN(3)]...)
		}
		s := NewScanner(r.Repo, protected(t, some...), forbidden)
		v, err := s.View(ctx, tree)
		if err != nil {
			t.Fatal(err)
		}
		if broken, err := s.Sound(ctx, v); err != nil || broken != nil {
			t.Fatalf("%s: %v, %v", tree, broken, err)
		}
		got, err := s.State(ctx, v)
		if err != nil || got != want {
			t.Fatalf("%q of %s: %s, %v; by git ls-tree %s\n%s", some, tree, got, err, want, r.git("", "ls-tree", "-r", tree))
		}
		tried++
		if want != Empty() {
			full++
		}
	}
	fmt.Printf("tried: states of %d random trees against git ls-tree, %d not empty\n", tried, full)
	if full < trees/3 {
		t.Errorf("only %d states are not empty: the test proves little", full)
	}
}

// Sound and State agree on every tree, however it is spoiled; order and doubles are
// what a plain look at all names says.
func TestTreesAreReadAsAModelReadsThem(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(8, 1))
	names := []string{"a", "a.b", "a0", "a-", "ab", "b", "a/b", "", ".", "..", ".git", ".GIT ", "git~1", "\xff", "a\x01"}
	modes := []string{"100644", "40000", "120000", "160000", "100664", "040000", "40755", "9", "100755"}
	const tries = 60_000
	sound := 0
	for range tries {
		var (
			raw  []byte
			keys []string
			good = true
			seen = map[string]bool{}
		)
		for range rnd.IntN(6) {
			name, mode := names[rnd.IntN(6)], modes[rnd.IntN(2)]
			if rnd.IntN(12) == 0 {
				name = names[rnd.IntN(len(names))]
			}
			if rnd.IntN(12) == 0 {
				mode = modes[rnd.IntN(len(modes))]
			}
			raw = append(raw, mode+" "+name+"\x00"+strings.Repeat("i", 20)...)
			key := name
			if mode == "40000" || mode == "040000" || mode == "40755" {
				key += "/"
			}
			keys = append(keys, key+"\x00")
			good = good && !seen[name] && mode != "9" && name != "" && !strings.Contains(name, "/") && name != "." && name != ".." &&
				!strings.EqualFold(strings.TrimRight(name, " "), ".git") && name != "git~1"
			seen[name] = true
		}
		good = good && slices.IsSorted(keys)
		got := shapeOf(raw, 20)
		odd := got.broken != nil && got.broken.What == oddEntry("").What
		if len(raw) == 0 || odd {
			continue // a mode that a protected path may not have says nothing of the rest
		}
		if (got.broken == nil) != good {
			t.Fatalf("%q: %+v, the model says sound is %v", raw, got.broken, good)
		}
		if good {
			sound++
		}
	}
	fmt.Printf("tried: %d raw trees against a model, %d sound\n", tries, sound)
}
