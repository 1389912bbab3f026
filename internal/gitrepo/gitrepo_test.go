package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var ctx = context.Background()

// randomGraph has roots, merges and octopus merges.
func randomGraph(rng *rand.Rand, n int) [][]int {
	parents := make([][]int, n)
	for i := range parents {
		if i == 0 || rng.Intn(12) == 0 {
			continue
		}
		count := []int{1, 1, 1, 1, 2, 2, 3, 5}[rng.Intn(8)]
		used := map[int]bool{}
		for range count {
			lo := max(0, i-1-rng.Intn(8))
			p := lo + rng.Intn(i-lo)
			if !used[p] {
				used[p] = true
				parents[i] = append(parents[i], p)
			}
		}
	}
	return parents
}

func naiveReach(parents [][]int, from ...int) map[int]bool {
	seen := map[int]bool{}
	var visit func(int)
	visit = func(n int) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, p := range parents[n] {
			visit(p)
		}
	}
	for _, n := range from {
		visit(n)
	}
	return seen
}

// The walk must name exactly the commits that a naive walk names. Where clocks
// run backwards git may name excluded commits as well (its walk stops looking
// a few commits too early); never fewer, and ReachedBy finds the ones too many.
func TestHistoryAgreesWithANaiveModelOnRandomGraphs(t *testing.T) {
	const graphs, ranges, size = 9, 14, 40
	for seed := range graphs {
		rng := rand.New(rand.NewSource(int64(seed)))
		parents := randomGraph(rng, size)
		h := newHost(t)
		clock := func(i int) int { return 1_700_000_000 + i*60 }
		if seed%3 == 1 {
			clock = func(i int) int { return 1_700_000_000 - i*60 }
		}
		if seed%3 == 2 {
			clock = func(int) int { return 1_600_000_000 + rng.Intn(100_000_000) }
		}
		ids := h.commits(parents, clock)
		r := h.open()
		for range ranges {
			tips := pick(rng, size, 1+rng.Intn(3))
			exclude := pick(rng, size, rng.Intn(4))
			checkRange(t, r, parents, ids, tips, exclude, seed%3 != 0)
		}
	}
}

func pick(rng *rand.Rand, n, k int) []int {
	return rng.Perm(n)[:k]
}

func names(ids []string, of []int) []string {
	out := make([]string, len(of))
	for i, n := range of {
		out[i] = ids[n]
	}
	return out
}

func checkRange(t *testing.T, r *Repo, parents [][]int, ids []string, tips, exclude []int, skewed bool) {
	t.Helper()
	streamed := 0
	g, err := r.History(ctx, names(ids, tips), names(ids, exclude), func(_ *Graph, run []Node) error {
		streamed += len(run)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	reached, without := naiveReach(parents, tips...), naiveReach(parents, exclude...)
	inside := 0
	for n := range ids {
		want := reached[n] && !without[n]
		at := g.Find(ids[n])
		got := g.Inside(at)
		if got && !want && skewed && reached[n] {
			excluded, err := r.ReachedBy(ctx, ids[n], names(ids, exclude))
			if err != nil {
				t.Fatal(err)
			}
			if excluded {
				inside++
				continue
			}
		}
		if got != want {
			t.Fatalf("%v without %v: commit %d inside is %v, want %v", tips, exclude, n, got, want)
		}
		if !want {
			continue
		}
		inside++
		for i, p := range g.Parents(at) {
			if g.ID(p) != ids[parents[n][i]] {
				t.Fatalf("parent %d of commit %d is %s", i, n, g.ID(p))
			}
		}
	}
	if streamed != inside {
		t.Fatalf("%d commits were streamed, %d are inside", streamed, inside)
	}
	for _, tip := range tips {
		got, want := g.Reach(g.Find(ids[tip])), naiveReach(parents, tip)
		for n := range ids {
			at := g.Find(ids[n])
			if g.Inside(at) && !without[n] && got[at] != want[n] {
				t.Fatalf("Reach of %d without %v at %d is %v", tip, exclude, n, got[at])
			}
			if g.Inside(at) && !without[n] && g.Inside(g.Find(ids[tip])) && g.Above(nil, at)[g.Find(ids[tip])] != want[n] {
				t.Fatalf("Above of %d without %v at %d is not %v", n, exclude, tip, want[n])
			}
		}
	}
}

func TestHistoryIgnoresAnExcludedCommitThatIsGone(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}, {1}}, func(i int) int { return 1_700_000_000 + i })
	g, err := h.open().History(ctx, []string{ids[2]}, []string{strings.Repeat("1", 40), ids[0]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !g.Inside(g.Find(ids[2])) || !g.Inside(g.Find(ids[1])) || g.Inside(g.Find(ids[0])) {
		t.Fatal("the range is wrong")
	}
}

// Replacements, grafts and log settings of the repository must not hide a commit.
func TestHistoryIsNotRewritten(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}, {1}, {2}}, func(i int) int { return 1_700_000_000 + i })
	h.git("replace", ids[2], ids[0])
	if err := os.WriteFile(filepath.Join(h.dir, "info", "grafts"), []byte(ids[3]+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kv := range []string{"log.showSignature=true", "log.diffMerges=off", "format.pretty=oneline", "log.decorate=full", "color.ui=always", "log.follow=true"} {
		name, value, _ := strings.Cut(kv, "=")
		h.git("config", name, value)
	}
	t.Setenv("GIT_TRACE2_EVENT", filepath.Join(t.TempDir(), "trace"))
	g, err := h.open().History(ctx, []string{ids[3]}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, id := range ids {
		if !g.Inside(g.Find(id)) {
			t.Errorf("commit %d is missing", n)
		}
	}
	if _, err := os.Stat(os.Getenv("GIT_TRACE2_EVENT")); err == nil {
		t.Error("a tracing variable went through to git")
	}
}

func TestHistoryOfABrokenRepositoryIsAnError(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}}, func(i int) int { return 1_700_000_000 + i })
	loose := newHost(t)
	raw := h.git("cat-file", "commit", ids[1])
	id := loose.run(raw+"\n", "--git-dir="+loose.dir, "hash-object", "-t", "commit", "--literally", "-w", "--stdin")
	if g, err := loose.open().History(ctx, []string{id}, nil, nil); err == nil {
		t.Fatalf("a commit whose parent is gone gives %d nodes and no error", g.Len())
	}
}

func TestObjects(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}}, func(i int) int { return 1_700_000_000 + i })
	h.git("tag", "-m", "x", "v1", ids[1])
	r := h.open()
	got, err := r.Info(ctx, ids[0], "refs/heads/c1", strings.Repeat("1", 40), "refs/tags/v1", "refs/tags/v1^{commit}", ids[0]+"^{tree}")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{Commit, Commit, "", Tag, Commit, Tree} {
		if got[i].Type != want {
			t.Errorf("%d is a %q, want %q", i, got[i].Type, want)
		}
	}
	if got[1].ID != ids[1] || got[4].ID != ids[1] {
		t.Errorf("wrong ids: %v", got)
	}
	if _, data, err := r.Read(ctx, ids[0]+":f0", 10); err != nil || string(data) != "x" {
		t.Errorf("blob is %q, %v", data, err)
	}
	if _, _, err := r.Read(ctx, ids[0]+":f0", 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("err = %v, want too large", err)
	}
	if _, _, err := r.Read(ctx, ids[0]+":nothing", 10); !errors.Is(err, ErrMissing) {
		t.Errorf("err = %v, want missing", err)
	}
	if _, _, err := r.Read(ctx, "a\nb", 10); err == nil {
		t.Error("a name with a line feed is asked")
	}
	if _, data, err := r.Read(ctx, ids[0], 1<<20); err != nil || !bytes.HasPrefix(data, []byte("tree ")) {
		t.Errorf("the child did not survive the refusals: %q, %v", data, err)
	}
}

func TestManyObjectsInOneRequest(t *testing.T) {
	h := newHost(t)
	ids := h.commits(randomGraph(rand.New(rand.NewSource(1)), 300), func(i int) int { return 1_700_000_000 + i })
	var ask []string
	for range 10 {
		ask = append(ask, ids...)
	}
	seen := 0
	err := h.open().ReadAll(ctx, ask, 1<<20, func(i int, o Object, data []byte) error {
		if i != seen || o.ID != ask[i] || int64(len(data)) != o.Size {
			return fmt.Errorf("answer %d is %v", i, o)
		}
		seen++
		return nil
	})
	if err != nil || seen != len(ask) {
		t.Fatalf("%d of %d, %v", seen, len(ask), err)
	}
}

func TestARequestEndsWithItsContextAndTheChildOutlivesIt(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}}, func(int) int { return 1_700_000_000 })
	r := h.open()
	first, cancel := context.WithCancel(ctx)
	if _, err := r.Info(first, ids[0]); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.Info(first, ids[0]); err == nil {
		t.Error("a request goes on after its context")
	}
	if _, err := r.Info(ctx, ids[0]); err != nil {
		t.Errorf("the child ended with the context of another request: %v", err)
	}
}

func TestRefValues(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}}, func(i int) int { return 1_700_000_000 + i })
	h.git("update-ref", "refs/heads/x-g"+ids[0][:8], ids[1])
	h.git("pack-refs", "--all")
	h.git("symbolic-ref", "refs/heads/sym", "refs/heads/c1")
	h.git("symbolic-ref", "refs/heads/unborn", "refs/heads/later")
	r := h.open()
	ask := []string{"refs/heads/c0", "refs/heads/none", "refs/heads/none-g" + ids[0][:8], "refs/heads/x-g" + ids[0][:8], "refs/heads/sym"}
	got, err := r.Values(ctx, ask...)
	want := []string{ids[0], "", "", ids[1], ids[1]}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("Values = %v, %v; want %v", got, err, want)
	}
	sym, err := r.Symbolic(ctx, append(ask, "refs/heads/unborn", "refs/heads/c0/below")...)
	if err != nil || len(sym) != 2 || sym["refs/heads/sym"] != "refs/heads/c1" || sym["refs/heads/unborn"] != "refs/heads/later" {
		t.Fatalf("Symbolic = %v, %v", sym, err)
	}
	h.git("update-ref", "refs/heads/c0", ids[1])
	if got, err := r.Values(ctx, "refs/heads/c0"); err != nil || got[0] != ids[1] {
		t.Fatalf("a moved ref reads as %v, %v", got, err)
	}
}

func TestObjectsOfAQuarantine(t *testing.T) {
	h := newHost(t)
	h.commits([][]int{{}}, func(int) int { return 1_700_000_000 })
	other := newHost(t)
	ids := other.commits([][]int{{}, {0}, {1}}, func(i int) int { return 1_700_000_100 + i })
	r, err := Open(ctx, Options{GitDir: h.dir, ObjectDirectory: filepath.Join(other.dir, "objects"), Alternates: filepath.Join(h.dir, "objects")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := r.History(ctx, []string{ids[2]}, nil, nil)
	if err != nil || g.Len() != 3 {
		t.Fatalf("%v", err)
	}
	values, err := r.Values(ctx, "refs/heads/c0")
	if err != nil || values[0] == "" || values[0] == ids[0] {
		t.Fatalf("refs are not the repository's own: %v, %v", values, err)
	}
	if g, err := h.open().History(ctx, []string{ids[2]}, nil, nil); err == nil && g.Find(ids[2]) != None {
		t.Fatal("the quarantine is visible without its variables")
	}
}

func TestThinPackFillsAnotherRepository(t *testing.T) {
	h := newHost(t)
	ids := h.commits(randomGraph(rand.New(rand.NewSource(4)), 30), func(i int) int { return 1_700_000_000 + i })
	r := h.open()
	mirror := newHost(t)
	fill := func(tip string, have []string) int {
		t.Helper()
		var pack bytes.Buffer
		if err := r.ThinPack(ctx, tip, have, &pack); err != nil {
			t.Fatal(err)
		}
		mirror.run(pack.String(), "--git-dir="+mirror.dir, "index-pack", "--stdin", "--fix-thin")
		mirror.git("rev-list", "--objects", tip)
		return pack.Len()
	}
	full := fill(ids[20], nil)
	more := fill(ids[29], []string{strings.Repeat("2", 40), ids[20]})
	if more >= full {
		t.Errorf("the second pack has %d bytes, the first %d", more, full)
	}
}

func TestMergeBaseAndAncestry(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}, {0}, {}}, func(i int) int { return 1_700_000_000 + i })
	r := h.open()
	if base, err := r.MergeBase(ctx, ids[1], ids[2]); err != nil || base != ids[0] {
		t.Errorf("MergeBase = %q, %v", base, err)
	}
	if base, err := r.MergeBase(ctx, ids[1], ids[3]); err != nil || base != "" {
		t.Errorf("MergeBase = %q, %v", base, err)
	}
	for _, c := range []struct {
		a, b int
		want bool
	}{{0, 1, true}, {1, 0, false}, {1, 1, true}, {3, 1, false}} {
		if got, err := r.IsAncestor(ctx, ids[c.a], ids[c.b]); err != nil || got != c.want {
			t.Errorf("IsAncestor(%d, %d) = %v, %v", c.a, c.b, got, err)
		}
	}
}

func TestSHA256RepositoriesAreRead(t *testing.T) {
	h := newHost(t, "--object-format=sha256")
	ids := h.commits([][]int{{}, {0}}, func(i int) int { return 1_700_000_000 + i })
	if len(ids[0]) != 64 {
		t.Fatalf("id %q", ids[0])
	}
	g, err := h.open().History(ctx, []string{ids[1]}, []string{ids[0]}, nil)
	if err != nil || !g.Inside(g.Find(ids[1])) || g.Inside(g.Find(ids[0])) || len(g.Tree(g.Find(ids[1]))) != 64 {
		t.Fatalf("%v", err)
	}
}

// A short walk over cat-file must name exactly what a naive walk names, whatever
// the clocks say, or leave it to git.
func TestShortWalksAreExact(t *testing.T) {
	const size = 14
	taken := 0
	for seed := range 4 {
		rng := rand.New(rand.NewSource(int64(100 + seed)))
		parents := randomGraph(rng, size)
		h := newHost(t)
		ids := h.commits(parents, func(int) int { return 1_600_000_000 + rng.Intn(100_000_000) })
		r := h.open()
		for tip := range size {
			for stop := range size {
				g, err := r.few(ctx, []string{ids[tip], ids[rng.Intn(size)], ids[tip]}[:1+rng.Intn(3)], ids[stop])
				if err != nil {
					t.Fatal(err)
				}
				if g == nil {
					continue
				}
				taken++
				checkFew(t, g, parents, ids, stop)
			}
		}
	}
	if taken < 40 {
		t.Fatalf("only %d short walks were taken", taken)
	}
}

func checkFew(t *testing.T, g *Graph, parents [][]int, ids []string, stop int) {
	t.Helper()
	without := naiveReach(parents, stop)
	for n := range ids {
		at := g.Find(ids[n])
		if !g.Inside(at) {
			continue
		}
		if without[n] {
			t.Fatalf("without %d: commit %d is inside", stop, n)
		}
		if len(g.Parents(at)) != len(parents[n]) {
			t.Fatalf("commit %d has %d parents", n, len(g.Parents(at)))
		}
		for i, p := range g.Parents(at) {
			if g.ID(p) != ids[parents[n][i]] {
				t.Fatalf("parent %d of commit %d is %s", i, n, g.ID(p))
			}
			if !g.Inside(p) && !without[parents[n][i]] {
				t.Fatalf("without %d: parent %d of commit %d is left out", stop, i, n)
			}
		}
	}
}

func TestRawCommitHeadersAreReadAsGitReadsThem(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	for name, one := range map[string]struct {
		raw  string
		want []string
	}{
		"two parents":         {"tree " + b + "\nparent " + c + "\nparent " + a + "\nauthor x\n", []string{c, a}},
		"a root":              {"tree " + b + "\nauthor x\n", nil},
		"a parent further on": {"tree " + b + "\nauthor x\nparent " + c + "\n", nil},
		"a short parent":      {"tree " + b + "\nparent " + c[:39] + "\n", nil},
		"capitals":            {"tree " + b + "\nparent " + strings.ToUpper(c) + "\n", nil},
		"another first line":  {"author x\ntree " + b + "\nparent " + c + "\n", nil},
		"nothing":             {"", nil},
	} {
		if _, got := header(a, []byte(one.raw)); !slices.Equal(got, one.want) {
			t.Errorf("%s: parents %q, want %q", name, got, one.want)
		}
	}
}

// tryReftable makes a host whose refs are in a reftable, where git knows how to.
func tryReftable(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: filepath.Join(t.TempDir(), "r.git")}
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", "--ref-format=reftable", h.dir).CombinedOutput(); err != nil {
		t.Skipf("this git has no reftable: %s", out)
	}
	return h
}

func TestRefsInAReftable(t *testing.T) {
	h := tryReftable(t)
	ids := h.commits([][]int{{}, {0}}, func(i int) int { return 1_700_000_000 + i })
	h.git("symbolic-ref", "refs/heads/sym", "refs/heads/c1")
	h.git("symbolic-ref", "refs/heads/unborn", "refs/heads/next")
	h.git("symbolic-ref", "refs/heads/next", "refs/heads/later")
	h.git("update-ref", "refs/tags/refs/heads/none", ids[1])
	r := h.open()
	ask := []string{"refs/heads/c0", "refs/heads/none", "refs/heads/sym", "refs/heads/unborn"}
	got, err := r.Values(ctx, ask...)
	if want := []string{ids[0], "", ids[1], ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("values %q, %v; want %q", got, err, want)
	}
	sym, err := r.Symbolic(ctx, ask...)
	if err != nil || len(sym) != 2 || sym["refs/heads/sym"] != "refs/heads/c1" || sym["refs/heads/unborn"] != "refs/heads/later" {
		t.Errorf("symbolic %v, %v", sym, err)
	}
}

// A name that no file can have costs nothing, however many there are; a chain that
// git does not follow to its end is an error.
func TestSymbolicRefsAtTheirLimits(t *testing.T) {
	h := newHost(t)
	h.commits([][]int{{}}, func(int) int { return 1_700_000_000 })
	for i := range 8 {
		h.git("symbolic-ref", fmt.Sprintf("refs/heads/s%d", i), fmt.Sprintf("refs/heads/s%d", i+1))
	}
	r := h.open()
	var long []string
	for i := range 300 {
		long = append(long, fmt.Sprintf("refs/heads/%s%d", strings.Repeat("x", 300), i))
	}
	began := time.Now()
	if sym, err := r.Symbolic(ctx, long...); err != nil || len(sym) > 0 {
		t.Errorf("long names: %v, %v", sym, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("300 names take %s", took)
	}
	if sym, err := r.Symbolic(ctx, "refs/heads/s6"); err != nil || sym["refs/heads/s6"] != "refs/heads/s8" {
		t.Errorf("a short chain: %v, %v", sym, err)
	}
	if sym, err := r.Symbolic(ctx, "refs/heads/s0"); err == nil {
		t.Errorf("a chain that git does not follow: %v", sym)
	}
}

// A packed ref is read where it stands; a tag whose name ends in the ref's is not
// taken for it.
func TestValuesOfPackedRefs(t *testing.T) {
	h := newHost(t)
	ids := h.commits([][]int{{}, {0}}, func(i int) int { return 1_700_000_000 + i })
	h.git("update-ref", "refs/heads/packed", ids[0])
	h.git("update-ref", "refs/heads/over", ids[0])
	h.git("update-ref", "refs/tags/refs/heads/none", ids[1])
	h.git("pack-refs", "--all")
	h.git("update-ref", "refs/heads/over", ids[1])
	got, err := h.open().Values(ctx, "refs/heads/packed", "refs/heads/over", "refs/heads/none")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{ids[0], ids[1], ""}; !slices.Equal(got, want) {
		t.Fatalf("values %q, want %q", got, want)
	}
}
