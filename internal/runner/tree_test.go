package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// unsent is a mirror that is the source itself.
func (s source) unsent() *mirror {
	s.t.Helper()
	path, err := findGit()
	must(s.t, err)
	return &mirror{git: git{path: path, dir: filepath.Join(s.dir, ".git")}}
}

// lay lays a tree out on a source without a mirror.
func (s source) lay(ts *trees, tree string) (Tree, error) {
	s.t.Helper()
	return ts.layOut(context.Background(), shop, wanted{mirror: s.unsent(), tree: tree, paths: testPaths(s.t)})
}

// planted makes a tree of blobs and trees, by name.
func (s source) planted(entries map[string]string) string {
	s.t.Helper()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		kind, mode := s.git("cat-file", "-t", entries[name]), "100644"
		if kind == "tree" {
			mode = "040000"
		}
		fmt.Fprintf(&list, "%s %s %s\t%s\n", mode, kind, entries[name], name)
	}
	return s.gitIn(list.String(), "mktree")
}

// bomb is a tree of wide to the power of deep files, in very few objects.
func (s source) bomb(wide, deep int, name string) string {
	s.t.Helper()
	at := s.gitIn("x\n", "hash-object", "-w", "--stdin")
	for range deep {
		entries := map[string]string{}
		for i := range wide {
			entries[fmt.Sprintf("%s%d", name, i)] = at
		}
		at = s.planted(entries)
	}
	return at
}

// inventory is everything below a directory: modes, contents, links.
func inventory(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what += " " + string(data)
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			what += " " + target
		}
		rel, err := filepath.Rel(dir, name)
		got[rel] = what
		return err
	}))
	return got
}

func TestATreeHasLimitsOfFilesDirectoriesBytesAndPaths(t *testing.T) {
	s := newSource(t)
	blob := s.gitIn("0123456789", "hash-object", "-w", "--stdin")
	base := s.planted(map[string]string{"keep": blob})
	wide := s.planted(map[string]string{"a": blob, "b": blob, "c": blob, "keep": blob}) // 4 entries, 40 bytes, 7 of paths
	deep := blob
	for range 3 {
		deep = s.planted(map[string]string{"d": deep})
	}
	deep = s.planted(map[string]string{"d": deep, "keep": blob})                    // 5 entries, 3 of them directories, 20 bytes, 11 of paths
	out := s.planted(map[string]string{"oracles": s.bomb(3, 3, "x"), "keep": blob}) // 27 files below 13 directories, and one
	empty := s.planted(map[string]string{"d": s.nested(2), "keep": blob})           // 111 directories that hold no file, and one
	roomy := bounds{entries: 200, bytes: 1000, names: 1000, batch: 2, changes: 100}
	for name, c := range map[string]struct {
		tree string
		most func(*bounds)
		twin func(*bounds)
		says string
	}{
		"files":       {wide, func(b *bounds) { b.entries = 3 }, func(b *bounds) { b.entries = 4 }, "more than 3 files"},
		"directories": {deep, func(b *bounds) { b.entries = 4 }, func(b *bounds) { b.entries = 5 }, "more than 4 files"},
		"bytes":       {wide, func(b *bounds) { b.bytes = 39 }, func(b *bounds) { b.bytes = 40 }, "more than 39 bytes"},
		"paths":       {deep, func(b *bounds) { b.names = 10 }, func(b *bounds) { b.names = 11 }, "more than 10 bytes of paths"},
		"left out":    {out, func(b *bounds) { b.entries = 40 }, func(b *bounds) { b.entries = 41 }, "more than 40 files"},
		"empty":       {empty, func(b *bounds) { b.entries = 111 }, func(b *bounds) { b.entries = 112 }, "more than 111 files"},
	} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, warm %v", name, warm), func(t *testing.T) {
				ts := testTrees(t)
				ts.most = roomy
				if warm {
					first, err := s.lay(ts, base)
					must(t, err)
					first.Release()
				}
				c.most(&ts.most)
				if _, err := s.lay(ts, c.tree); !refused(err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				ts.most = roomy
				c.twin(&ts.most)
				got, err := s.lay(ts, c.tree)
				if err != nil {
					t.Fatalf("honest twin: %v", err)
				}
				got.Release()
			})
		}
	}
}

// Ten objects can spell out ten million paths. Memory follows neither those that
// are refused nor those that are laid out.
func TestMemoryDoesNotFollowTheEntriesOfATree(t *testing.T) {
	s := newSource(t)
	far := s.bomb(2, 11, strings.Repeat("n", 240))
	for range 4 {
		far = s.planted(map[string]string{strings.Repeat("d", 240): far})
	}
	for name, c := range map[string]struct {
		tree    string
		refused bool
	}{
		"refused":  {s.bomb(10, 7, "x"), true},
		"laid out": {far, false}, // 2,048 files: 7 MB of paths
	} {
		t.Run(name, func(t *testing.T) {
			ts := testTrees(t)
			ts.most.batch = 256
			peak, stop := heapPeak()
			tree, err := s.lay(ts, c.tree)
			grown := stop() - peak
			if refused(err) != c.refused || (err != nil) != c.refused {
				t.Fatalf("%v", err)
			}
			if err == nil {
				tree.Release()
			}
			if grown > 4<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
}

// heapPeak watches the heap; stop answers its largest size.
func heapPeak() (before int64, stop func() int64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before = int64(m.HeapAlloc)
	done, peak := make(chan struct{}), make(chan int64)
	go func() {
		var most uint64
		var m runtime.MemStats
		for {
			select {
			case <-done:
				peak <- int64(most)
				return
			case <-time.After(20 * time.Millisecond):
				runtime.GC() // what is held, not what is left lying about
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	return before, func() int64 { close(done); return <-peak }
}

// A refused push must not make the next one cold: the tree that was to be brought
// forward is as it was, byte for byte, whenever the refusal came.
func TestARefusalGivesTheWarmTreeBack(t *testing.T) {
	s := newSource(t)
	base := s.tree(s.commit(map[string]string{"keep": "same\n", "edit": "old\n", "gone/deep/er": "x\n", "swap": "file\n", "dir/a": "1\n", "run": "#!\n"}))
	keep, other := s.git("rev-parse", base+":keep"), s.gitIn("other\n", "hash-object", "-w", "--stdin")
	sub := s.planted(map[string]string{"a": other})
	big := s.gitIn(strings.Repeat("big", 1000), "hash-object", "-w", "--stdin")
	for name, entries := range map[string][]string{
		"malformed name":        {"100644 blob " + other + "\t..", "100644 blob " + other + "\tedit"},
		"twice":                 {"100644 blob " + other + "\tdouble", "100644 blob " + other + "\tdouble", "100644 blob " + other + "\tedit"},
		"file and folder":       {"100644 blob " + other + "\tboth", "040000 tree " + sub + "\tboth", "100644 blob " + other + "\tedit"},
		"a folder in its place": {"100644 blob " + other + "\tedit", "100644 blob " + keep + "\tkeep", "040000 tree " + sub + "\tkeep"},
		"too many bytes":        {"100644 blob " + other + "\tedit", "040000 tree " + sub + "\tswap", "100644 blob " + big + "\tzz"},
	} {
		t.Run(name, func(t *testing.T) {
			ts := testTrees(t)
			ts.most.bytes = 2000
			first, err := s.lay(ts, base)
			must(t, err)
			first.Release()
			shelf := ts.repos[shop]
			place := func() string { return filepath.Join(shelf.dir, shelf.tree[keyOf(testPaths(t), base)].name) }
			before := inventory(t, place())
			if _, err := s.lay(ts, s.literal(entries)); !refused(err) {
				t.Fatalf("%v", err)
			}
			if shelf.tree[keyOf(testPaths(t), base)] == nil {
				t.Fatal("the warm tree is gone")
			}
			if after := inventory(t, place()); !maps.Equal(before, after) {
				t.Errorf("it was %q, and is %q", before, after)
			}
			if there, err := weigh(place(), weight{}); err != nil || there != shelf.tree[keyOf(testPaths(t), base)].weight {
				t.Errorf("%+v is there, %v", there, err)
			}
			twin, err := s.lay(ts, s.planted(map[string]string{"edit": other, "keep": keep, "swap": sub}))
			must(t, err)
			defer twin.Release()
			if now := inventory(t, filepath.Join(twin.Parent, twin.Name)); now["edit"] != "-rw-r----- other\n" {
				t.Errorf("honest twin: %q", now)
			}
		})
	}
}

// literal makes a tree that git itself would not make.
func (s source) literal(entries []string) string {
	s.t.Helper()
	var raw strings.Builder
	for _, e := range entries {
		head, name, _ := strings.Cut(e, "\t")
		words := strings.Fields(head)
		raw.WriteString(strings.TrimPrefix(words[0], "0") + " " + name + "\x00")
		for i := 0; i < len(words[2]); i += 2 {
			var b byte
			_, _ = fmt.Sscanf(words[2][i:i+2], "%02x", &b)
			raw.WriteByte(b)
		}
	}
	return s.gitIn(raw.String(), "hash-object", "-w", "-t", "tree", "--stdin", "--literally")
}

func TestTheNearTreeIsBroughtForwardAndALargeDifferenceIsNot(t *testing.T) {
	s := newSource(t)
	base := s.tree(s.commit(map[string]string{"a": "1\n", "b": "1\n", "c": "1\n"}))
	next := s.tree(s.commit(map[string]string{"a": "2\n"}))
	elsewhere := s.tree(s.commit(map[string]string{"a": "3\n", "b": "3\n", "c": "3\n", "d": "3\n"}))
	has := func(ts *trees, tree string) bool { return ts.repos[shop].tree[keyOf(testPaths(t), tree)] != nil }
	for name, c := range map[string]struct {
		changes int
		near    string
		used    string // that of both which is brought forward; empty is none
	}{
		"the one that was used last": {100, "", elsewhere},
		"the near one":               {100, base, base},
		"near, and gone":             {100, next, elsewhere},
		"near, and too different":    {0, base, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ts := testTrees(t)
			var held []Tree
			for _, tree := range []string{base, elsewhere} {
				laid, err := s.lay(ts, tree)
				must(t, err)
				held = append(held, laid)
			}
			for _, h := range held {
				h.Release()
			}
			ts.most.changes = c.changes
			got, err := ts.layOut(context.Background(), shop, wanted{mirror: s.unsent(), tree: next, near: c.near, paths: testPaths(t)})
			must(t, err)
			defer got.Release()
			if layout(t, got)["a"] != "2\n" || has(ts, base) != (c.used != base) || has(ts, elsewhere) != (c.used != elsewhere) {
				t.Errorf("%q, base %v, elsewhere %v", layout(t, got), has(ts, base), has(ts, elsewhere))
			}
		})
	}
}

func TestATreeThatIsCutShortIsNeverOnTheShelf(t *testing.T) {
	s := newSource(t)
	base := s.tree(s.commit(map[string]string{"a": "1\n", "b/c": "1\n"}))
	next := s.tree(s.commit(map[string]string{"b/c": ""}))
	ts := testTrees(t)
	first, err := s.lay(ts, base)
	must(t, err)
	first.Release()
	place := filepath.Join(ts.repos[shop].dir, ts.repos[shop].tree[keyOf(testPaths(t), base)].name)
	b := &builder{git: s.unsent().git, paths: testPaths(t), most: ts.most}
	d, err := b.difference(context.Background(), base, next)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.apply(ctx, place, d); !errors.Is(err, context.Canceled) {
		t.Errorf("removed after the end: %v", err)
	}
	if _, err := ts.layOut(ctx, shop, wanted{mirror: s.unsent(), tree: next, paths: testPaths(t)}); err == nil {
		t.Error("laid out after the end")
	}
	if ts.repos[shop].tree[keyOf(testPaths(t), next)] != nil {
		t.Error("what was cut short is on the shelf")
	}
	got, err := s.lay(ts, next)
	must(t, err)
	defer got.Release()
	if files := layout(t, got); len(files) != 1 {
		t.Errorf("honest twin: %q", files)
	}
}

// Every worker may hold a tree of one repository.
func TestMoreTreesInUseThanAreKept(t *testing.T) {
	s := newSource(t)
	ts := testTrees(t)
	var held []Tree
	for i := range keptTrees + 2 {
		tree, err := s.lay(ts, s.tree(s.commit(map[string]string{"a": fmt.Sprintf("%d\n", i)})))
		must(t, err)
		held = append(held, tree)
	}
	for i, h := range held {
		if got := layout(t, h)["a"]; got != fmt.Sprintf("%d\n", i) {
			t.Errorf("tree %d: %q", i, got)
		}
		h.Release()
	}
}

func TestNotesOfATreeFollowWhatItHas(t *testing.T) {
	s := newSource(t)
	must(t, os.Symlink("/etc", filepath.Join(s.dir, "away")))
	must(t, os.Symlink("/etc", filepath.Join(s.dir, "too")))
	first := s.tree(s.commit(map[string]string{"a": "1\n"}))
	second := s.tree(s.commit(map[string]string{"away": "", "a": "2\n"}))
	ts := testTrees(t)
	for _, c := range []struct {
		tree string
		want int
	}{{first, 2}, {second, 1}, {first, 2}} {
		got, err := s.lay(ts, c.tree)
		must(t, err)
		if len(got.Notes) != c.want {
			t.Errorf("notes %q", got.Notes)
		}
		got.Release()
	}
}

// FuzzForward: a tree that is brought forward is the tree that is made anew, byte
// for byte and mode for mode, there and back.
func FuzzForward(f *testing.F) {
	for _, seed := range []string{"", "\x01d/e\x00d\x02x\x03d/f", "\x04s\x00s/x\x03l\x05l", "\x02a\x02b\x02a/x\x01b/y\x06o"} {
		f.Add([]byte("\x00a\x00b/c\x03l\x01x/y/z"), []byte(seed))
	}
	f.Add([]byte("\x00a/b/c\x01a\x02a/b\x00z"), []byte("\x01q\x02a/b/c"))
	s := newSource(f)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		s := source{t, s.dir}
		first, second := s.grown(one), s.grown(two)
		warm := testTrees(t)
		for _, tree := range []string{first, second, first} {
			a, err := s.lay(warm, tree)
			must(t, err)
			b, err := s.lay(testTrees(t), tree)
			must(t, err)
			got, want := inventory(t, filepath.Join(a.Parent, a.Name)), inventory(t, filepath.Join(b.Parent, b.Name))
			if !maps.Equal(got, want) {
				t.Errorf("brought forward: %q\nanew: %q", got, want)
			}
			if !slices.Equal(a.Notes, b.Notes) {
				t.Errorf("notes %q, anew %q", a.Notes, b.Notes)
			}
			there, err := weigh(filepath.Join(a.Parent, a.Name), weight{})
			if counted := warm.repos[shop].tree[keyOf(testPaths(t), tree)].weight; err != nil || counted != there {
				t.Errorf("%+v counted, %+v is there, %v", counted, there, err)
			}
			a.Release()
			b.Release()
		}
	})
}

// grown makes a tree of bytes: one says what, those up to the next say where.
func (s source) grown(data []byte) string {
	s.t.Helper()
	var in strings.Builder
	in.WriteString("commit refs/heads/grown\ncommitter A <a@example.org> 1 +0000\ndata 1\nx\ndeleteall\n")
	for i := 0; i < len(data) && i < 400; {
		what, start := data[i], i+1
		for i = start; i < len(data) && data[i] >= ' '; i++ {
		}
		if name := grownName(string(data[start:i])); name != "" {
			mode, body := "100644", fmt.Sprintf("%d\n", what)
			switch what % 8 {
			case 1:
				mode = "100755"
			case 2:
				mode, body = "120000", "../"+strings.Repeat("x", int(what)%5+1)
			case 3:
				mode, body = "120000", "a/b"
			case 4:
				fmt.Fprintf(&in, "M 160000 %040d %s\n", int(what)+1, name)
				continue
			case 5:
				name = "oracles/" + name
			case 6:
				name += "/__pycache__/x"
			}
			fmt.Fprintf(&in, "M %s inline %s\ndata %d\n%s\n", mode, name, len(body), body)
		}
	}
	s.gitIn(in.String()+"\n", "fast-import", "--quiet", "--force")
	return s.git("rev-parse", "refs/heads/grown^{tree}")
}

// grownName is a path of few names, so that trees have much in common.
func grownName(raw string) string {
	var parts []string
	for _, c := range raw {
		if len(parts) == 6 {
			break
		}
		if c != '/' {
			parts = append(parts, string('a'+c%5))
		}
	}
	return strings.Join(parts, "/")
}

// nested is a tree of directories without a file: ten in each, so many levels deep.
func (s source) nested(levels int) string {
	s.t.Helper()
	tree := s.gitIn("", "mktree")
	for range levels {
		var in strings.Builder
		for _, name := range "abcdefghij" {
			fmt.Fprintf(&in, "040000 tree %s\t%c\n", tree, name)
		}
		tree = s.gitIn(in.String(), "mktree")
	}
	return tree
}

// A push of ten objects names a hundred million directories: they are counted,
// although none is laid out, and whoever lists a pushed tree comes to an end.
func TestDirectoriesWithoutFilesAreCounted(t *testing.T) {
	s := newSource(t)
	few := s.commit(map[string]string{"a": "1"})
	many := s.nested(8)
	tip := s.git("commit-tree", "-m", "x", "-p", few, many)
	m := testMirror(t, s, few, tip)
	b := &builder{git: m.git, most: treeBounds}
	if err := b.survey(t.Context(), many); !refused(err) {
		t.Errorf("laid out anew: %v", err)
	}
	if _, err := b.difference(t.Context(), s.tree(few), many); !refused(err) {
		t.Errorf("brought forward: %v", err)
	}
	if _, _, err := m.oracleTree(t.Context(), entry{mode: modeTree, id: many, path: "oracles"}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("oracles: %v", err)
	}
	if _, err := m.moved(t.Context(), few, tip, testPaths(t).protected); !refused(err) {
		t.Errorf("protected paths: %v", err)
	}
	if err := m.bounded(t.Context(), tip); !refused(err) {
		t.Errorf("for its patch id: %v", err)
	}
	// In the middle of a push it is in nobody's way, and hides nothing.
	last := s.git("commit-tree", "-m", "x", "-p", s.git("commit-tree", "-m", "x", "-p", few, many), "-p", few, s.tree(s.commit(map[string]string{"b": "new"})))
	m = testMirror(t, s, few, last)
	if ids, at, err := m.newBlobs(t.Context(), few, last); err != nil || len(ids) != 1 || !slices.Equal(at, []string{"b"}) {
		t.Errorf("new blobs: %q at %q, %v", ids, at, err)
	}
}

// Some are in nobody's way.
func TestSomeDirectoriesWithoutFilesAreNoHarm(t *testing.T) {
	s := newSource(t)
	file := s.gitIn("1", "hash-object", "-w", "--stdin")
	empty := s.nested(2)
	first := s.gitIn("100644 blob "+file+"\ta\n", "mktree")
	second := s.gitIn("100644 blob "+file+"\ta\n040000 tree "+empty+"\tb\n", "mktree")
	ts := testTrees(t)
	for _, tree := range []string{first, second, first} {
		got, err := s.lay(ts, tree)
		must(t, err)
		if list := inventory(t, filepath.Join(got.Parent, got.Name)); len(list) != 2 { // itself and the file
			t.Errorf("laid out: %v", list)
		}
		got.Release()
	}
}
