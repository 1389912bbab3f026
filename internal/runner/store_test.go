package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func testMirrors(t testing.TB) *mirrors {
	t.Helper()
	path, err := findGit()
	must(t, err)
	ms := &mirrors{git: path, root: filepath.Join(t.TempDir(), "mirrors"), open: map[string]*mirror{}}
	t.Cleanup(ms.close)
	return ms
}

func (s source) sent(t testing.TB, m *mirror, base, commit string) {
	t.Helper()
	must(t, m.receive(context.Background(), s.request(base, commit), 1<<30, s.fetch(commit)))
}

func testMirror(t testing.TB, s source, commits ...string) *mirror {
	t.Helper()
	m, err := testMirrors(t).at(context.Background(), shop, len(commits[0]))
	must(t, err)
	for _, c := range commits {
		s.sent(t, m, "", c)
	}
	return m
}

func TestMirrorTakesThinPacksAndKnowsWhatItHas(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			s := newSource(t, "--object-format="+format)
			first := s.commit(map[string]string{"a": strings.Repeat("a line\n", 1000)})
			second := s.commit(map[string]string{"a": strings.Repeat("a line\n", 1000) + "more\n"})
			m := testMirror(t, s, first, second)
			if got := m.haves(nil); !slices.Equal(got, []string{second, first}) {
				t.Errorf("haves %v", got)
			}
			none := func(context.Context, []string) (io.Reader, error) { return nil, errors.New("asked again") }
			if err := m.receive(context.Background(), s.request(first, second), 1<<30, none); err != nil {
				t.Errorf("known commits: %v", err)
			}
			if ok, err := m.isAncestor(context.Background(), first, second); !ok || err != nil {
				t.Errorf("ancestor: %v, %v", ok, err)
			}
		})
	}
}

func TestMirrorRefusesWhatIsNotWhole(t *testing.T) {
	s := newSource(t)
	first := s.commit(map[string]string{"a": "one\n", "dir/b": "two\n"})
	second := s.commit(map[string]string{"a": "three\n"})
	blob := s.git("rev-parse", first+":a")
	whole := s.pack(first + "\n")
	lone := func(objects string) string {
		return s.gitIn(objects+"\n", "pack-objects", "--stdout", "-q") + ""
	}
	for name, pack := range map[string]string{
		"nothing":         "",
		"junk":            "PACKjunkjunkjunkjunkjunkjunk",
		"cut":             whole[:len(whole)/2],
		"flipped":         whole[:len(whole)-3] + "x" + whole[len(whole)-2:],
		"without parent":  s.pack(second + "\n^" + first + "\n"),
		"only the commit": lone(first),
		"no blob":         lone(first + "\n" + s.tree(first)),
		"only a blob":     lone(blob),
	} {
		t.Run(name, func(t *testing.T) {
			m, err := testMirrors(t).at(context.Background(), shop, 40)
			must(t, err)
			want := first
			if name == "without parent" {
				want = second
			}
			err = m.receive(context.Background(), s.request("", want), 1<<30, func(context.Context, []string) (io.Reader, error) {
				return strings.NewReader(pack), nil
			})
			if err == nil {
				t.Fatal("taken")
			}
			if ok, _ := m.isCommit(context.Background(), want); ok {
				t.Error("the commit is in the mirror")
			}
			if left, _ := filepath.Glob(filepath.Join(m.dir, "incoming-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			s.sent(t, m, "", want) // honest twin: the same mirror takes the whole pack
		})
	}
}

func TestMirrorRefusesAPackBeyondTheLimitAndAnotherTree(t *testing.T) {
	s := newSource(t)
	c := s.commit(map[string]string{"a": "one\n"})
	m, err := testMirrors(t).at(context.Background(), shop, 40)
	must(t, err)
	if err := m.receive(context.Background(), s.request("", c), 10, s.fetch(c)); err == nil {
		t.Error("a pack of more than 10 bytes was taken")
	}
	r := s.request("", c)
	r.Tree = strings.Repeat("a", 40)
	if err := m.receive(context.Background(), r, 1<<30, s.fetch(c)); err == nil || !strings.Contains(err.Error(), "its tree is") {
		t.Errorf("another tree: %v", err)
	}
}

func TestMirrorIsFilledAheadAndTidied(t *testing.T) {
	s := newSource(t)
	var commits []string
	for i := range 6 {
		commits = append(commits, s.commit(map[string]string{"a": fmt.Sprintf("%d\n", i)}))
	}
	m := testMirror(t, s, commits...)
	must(t, m.tidy(context.Background(), 3))
	packs, _ := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.idx"))
	if len(packs) > 3 {
		t.Errorf("%d packs after tidying", len(packs))
	}
	for _, c := range commits {
		if ok, err := m.isCommit(context.Background(), c); !ok || err != nil {
			t.Fatalf("lost %s: %v", c, err)
		}
	}
	fresh, err := testMirrors(t).at(context.Background(), shop, 40)
	must(t, err)
	n, err := fresh.add(context.Background(), filepath.Join(s.dir, ".git"), filepath.Join(t.TempDir(), "gitconfig"))
	if err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if ok, _ := fresh.isCommit(context.Background(), commits[0]); !ok {
		t.Error("history is not there")
	}
}

func TestMirrorChildrenSeeNothingOfOurEnvironment(t *testing.T) {
	for name, value := range map[string]string{"GIT_DIR": "/nonexistent", "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_QUARANTINE_PATH": "/nonexistent",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.bare", "GIT_CONFIG_VALUE_0": "maybe", "GIT_INDEX_FILE": "/nonexistent"} {
		t.Setenv(name, value)
	}
	s := source{t, t.TempDir()}
	s.git("init", "--quiet", "--initial-branch=main")
	c := s.commit(map[string]string{"a": "one\n"})
	for _, name := range []string{"GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_COUNT", "GIT_INDEX_FILE"} {
		os.Unsetenv(name) // the test's own pack-objects needs a clean one
	}
	pack := s.pack(c + "\n")
	t.Setenv("GIT_OBJECT_DIRECTORY", "/nonexistent")
	m, err := testMirrors(t).at(context.Background(), shop, 40)
	must(t, err)
	must(t, m.receive(context.Background(), s.request("", c), 1<<30, func(context.Context, []string) (io.Reader, error) { return strings.NewReader(pack), nil }))
}

// layout answers the files of a tree that was laid out, and their contents.
func layout(t testing.TB, tree Tree) map[string]string {
	t.Helper()
	root := filepath.Join(tree.Parent, tree.Name)
	got := map[string]string{}
	must(t, filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			got[rel] = "-> " + target
			return err
		}
		data, err := os.ReadFile(p)
		got[rel] = string(data)
		if info.Mode()&0o100 != 0 {
			got[rel] += " (x)"
		}
		return err
	}))
	return got
}

func testTrees(t testing.TB) *trees {
	t.Helper()
	ts, err := newTrees(filepath.Join(t.TempDir(), "trees"), 0, func(string) error { return nil })
	must(t, err)
	t.Cleanup(ts.close)
	return ts
}

func testPaths(t testing.TB) paths {
	t.Helper()
	p, err := newPaths([]string{"oracles/", "freeze.json"}, []string{"sealed/"})
	must(t, err)
	return p
}

func TestTreeIsLaidOutWithoutWhatCandidatesMustNotRead(t *testing.T) {
	s := newSource(t)
	link := func(target, name string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o755))
		must(t, os.Symlink(target, filepath.Join(s.dir, name)))
	}
	link("run.sh", "inside")
	link("../run.sh", "pkg/up")
	link("/etc/passwd", "absolute")
	link("../../etc/passwd", "pkg/out")
	link("pkg/../../x", "sneaky")
	s.commit(map[string]string{"run.sh": "#!/bin/sh\n", ".gitattributes": "* export-ignore text=auto eol=crlf ident\n", "pkg/a.py": "a\n$Id$\n",
		"oracles/fees.toml": "x", "freeze.json": "{}", "pkg/freeze.json": "kept", "sealed/MANIFEST.json": "{}", "pkg/a.pyc": "bytecode",
		"pkg/__pycache__/a.cpython-311.pyc": "bytecode", "pkg/__pycache__/data": "x", "with space\nand newline": "odd", "\xff\xfe": "not UTF-8"})
	s.git("update-index", "--chmod=+x", "run.sh")
	s.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("a", 40)+",submodule")
	s.git("commit", "--quiet", "-m", "modes")
	c := s.git("rev-parse", "HEAD")
	m := testMirror(t, s, c)
	tree, err := testTrees(t).layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(c), paths: testPaths(t)})
	must(t, err)
	defer tree.Release()
	got := layout(t, tree)
	want := map[string]string{"run.sh": "#!/bin/sh\n (x)", ".gitattributes": "* export-ignore text=auto eol=crlf ident\n", "pkg/a.py": "a\n$Id$\n",
		"pkg/freeze.json": "kept", "with space\nand newline": "odd", "\xff\xfe": "not UTF-8", "inside": "-> run.sh", "pkg/up": "-> ../run.sh"}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%q = %q, want %q", name, got[name], content)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("also laid out: %q", got)
	}
	if len(tree.Notes) != 4 {
		t.Errorf("notes %q", tree.Notes)
	}
}

// malformed makes a commit whose tree git itself would not make.
func (s source) malformed(entries ...string) string {
	s.t.Helper()
	blob := s.gitIn("content\n", "hash-object", "-w", "--stdin")
	sub := s.gitIn("100644 blob "+blob+"\tx\n", "mktree")
	var raw strings.Builder
	for _, e := range entries {
		mode, name, _ := strings.Cut(e, " ")
		id := blob
		if mode == "40000" {
			id = sub
		}
		raw.WriteString(mode + " " + name + "\x00")
		for i := 0; i < len(id); i += 2 {
			var b byte
			_, _ = fmt.Sscanf(id[i:i+2], "%02x", &b)
			raw.WriteByte(b)
		}
	}
	tree := s.gitIn(raw.String(), "hash-object", "-w", "-t", "tree", "--stdin", "--literally")
	return s.git("commit-tree", tree, "-m", "malformed")
}

func TestMalformedTreesAreRefusedOrDropped(t *testing.T) {
	for name, c := range map[string]struct {
		entries []string
		refused bool
	}{
		"dot dot":          {[]string{"100644 .."}, true},
		"dot":              {[]string{"100644 ."}, true},
		"slash in name":    {[]string{"100644 ../../x"}, true},
		"twice":            {[]string{"100644 a", "100644 a"}, true},
		"file and folder":  {[]string{"100644 a", "40000 a"}, true},
		"link and folder":  {[]string{"120000 a", "40000 a"}, true},
		"git folder":       {[]string{"40000 .git", "100644 ok"}, false},
		"GIT folder":       {[]string{"40000 .GIT", "100644 ok"}, false},
		"short name":       {[]string{"40000 git~1", "100644 ok"}, false},
		"ignorable points": {[]string{"40000 .g\u200cit", "100644 ok"}, false},
		"long name":        {[]string{"100644 " + strings.Repeat("n", 300)}, true},
		"odd mode":         {[]string{"100600 a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			commit := s.malformed(c.entries...)
			m := testMirror(t, s, commit)
			tree, err := testTrees(t).layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(commit), paths: testPaths(t)})
			var refused *refusal
			if c.refused {
				if !errors.As(err, &refused) {
					t.Fatalf("not refused: %v", err)
				}
				return
			}
			must(t, err)
			defer tree.Release()
			for got := range layout(t, tree) {
				if got != "ok" && got != "a" {
					t.Errorf("laid out %q", got)
				}
			}
		})
	}
}

func TestLinksThatLeaveTheTree(t *testing.T) {
	for _, c := range []struct {
		at, target string
		want       bool
	}{
		{"a", "b", true}, {"a", "d/e", true}, {"d/a", "../b", true}, {"d/e/a", "../../b", true}, {"a", ".", true},
		{"a", "/etc", false}, {"a", "..", false}, {"d/a", "../..", false}, {"a", "d/../x", false}, {"a", "", false},
		{"d/a", "../d/../../x", false}, {"a", "x\x00y", false}, {"a", strings.Repeat("x", 5000), false},
	} {
		if harmlessLink(c.at, c.target) != c.want {
			t.Errorf("%q -> %q: want %v", c.at, c.target, c.want)
		}
	}
}

func TestWarmTreeIsBroughtForwardExactly(t *testing.T) {
	s := newSource(t)
	first := s.commit(map[string]string{"keep": "same\n", "edit": "old\n", "gone/deep/er": "x\n", "swap": "file\n", "oracles/x": "1\n", "dir/a": "1\n", "dir/b": "2\n"})
	must(t, os.RemoveAll(filepath.Join(s.dir, "dir")))
	must(t, os.Symlink("keep", filepath.Join(s.dir, "dir"))) // a directory becomes a link
	second := s.commit(map[string]string{"edit": "new\n", "gone/deep/er": "", "swap": "", "oracles/x": "2\n", "added/x": "y\n"})
	third := s.commit(map[string]string{"swap/now/a": "folder\n"}) // a file becomes a folder
	s.git("update-index", "--chmod=+x", "keep")
	s.git("commit", "--quiet", "-m", "mode")
	fourth := s.git("rev-parse", "HEAD")
	m := testMirror(t, s, fourth)
	warm := testTrees(t)
	for _, c := range []string{first, second, third, fourth, first, fourth, second} {
		a, err := warm.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(c), paths: testPaths(t)})
		must(t, err)
		b, err := testTrees(t).layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(c), paths: testPaths(t)})
		must(t, err)
		got, want := layout(t, a), layout(t, b)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("brought forward to %s:\n%q\nwant\n%q", c, got, want)
		}
		for _, l := range warm.repos[shop].tree {
			if l.name != a.Name {
				continue
			}
			if there, err := weigh(filepath.Join(a.Parent, a.Name), weight{}); err != nil || l.weight != there {
				t.Errorf("%+v counted, %+v is there, %v", l.weight, there, err)
			}
		}
		a.Release()
		b.Release()
	}
}

func TestTreeInUseStaysAndATreeIsMadeOnce(t *testing.T) {
	s := newSource(t)
	first := s.commit(map[string]string{"a": "1\n"})
	second := s.commit(map[string]string{"a": "2\n"})
	m := testMirror(t, s, second)
	ts := testTrees(t)
	one, err := ts.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(first), paths: testPaths(t)})
	must(t, err)
	again, err := ts.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(first), paths: testPaths(t)})
	must(t, err)
	two, err := ts.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(second), paths: testPaths(t)})
	must(t, err)
	if one.Name != again.Name || layout(t, one)["a"] != "1\n" || layout(t, two)["a"] != "2\n" {
		t.Errorf("%+v %+v %+v", one, again, two)
	}
	for _, x := range []Tree{one, again, two} {
		x.Release()
	}
	reopened, err := newTrees(ts.root, 0, func(string) error { return nil })
	must(t, err)
	three, err := reopened.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(second), paths: testPaths(t)})
	must(t, err)
	defer three.Release()
	if layout(t, three)["a"] != "2\n" {
		t.Error("not there after reopening")
	}
}

func TestTreesAreDroppedAfterTheMachineWentDown(t *testing.T) {
	s := newSource(t)
	c := s.commit(map[string]string{"a": "1\n"})
	m := testMirror(t, s, c)
	ts := testTrees(t)
	tree, err := ts.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(c), paths: testPaths(t)})
	must(t, err)
	tree.Release()
	for _, l := range ts.repos[shop].tree {
		must(t, os.WriteFile(filepath.Join(tree.Parent, l.name, "a"), nil, 0o640)) // what a lost page cache leaves
	}
	must(t, os.WriteFile(filepath.Join(ts.root, bootFile), []byte("another boot\n"), 0o600))
	reopened, err := newTrees(ts.root, 0, func(string) error { return nil })
	must(t, err)
	fresh, err := reopened.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(c), paths: testPaths(t)})
	must(t, err)
	defer fresh.Release()
	if layout(t, fresh)["a"] != "1\n" {
		t.Error("a tree of before was believed")
	}
}

func TestNewBlobsAreThoseOfThePush(t *testing.T) {
	s := newSource(t)
	base := s.commit(map[string]string{"old": "old\n"})
	s.git("checkout", "--quiet", "-b", "side")
	s.commit(map[string]string{"side": "side\n"})
	s.commit(map[string]string{"secret": "added, then taken back\n"})
	s.commit(map[string]string{"secret": ""})
	s.git("checkout", "--quiet", "main")
	s.commit(map[string]string{"main": "main\n"})
	s.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
	must(t, os.WriteFile(filepath.Join(s.dir, "evil"), []byte("only in the merge\n"), 0o644))
	tip := s.commit(nil)
	m := testMirror(t, s, tip)
	pushed := []string{"side\n", "added, then taken back\n", "main\n", "only in the merge\n"}
	for from, want := range map[string][]string{base: pushed, "": append(slices.Clip(pushed), "old\n")} {
		ids, at, err := m.newBlobs(context.Background(), from, tip)
		must(t, err)
		var got []string
		for _, id := range ids {
			got = append(got, s.git("cat-file", "blob", id)+"\n")
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(at) != len(ids) {
			t.Errorf("from %q: %q at %q, want %q", from, got, at, want)
		}
	}
}

func TestNeedlesAreFoundWhereverTheyStand(t *testing.T) {
	n := &needles{byWindow: map[uint64][]needle{}}
	n.add("text", []byte("a fixture nobody may see\n"))
	n.add("zeros first", append(make([]byte, 64), "then something else"...))
	n.add("exactly", []byte("0123456789abcdef"))
	n.add("too short", []byte("short"))
	for _, c := range []struct{ data, want string }{
		{"a fixture nobody may see\n", "text"},
		{"xx a fixture nobody may see\n yy", "text"},
		{"0123456789abcdef", "exactly"},
		{"00123456789abcdef0", "exactly"},
		{strings.Repeat("\x00", 100) + "then something else", "zeros first"},
		{"a fixture nobody may se", ""}, {"short", ""}, {"", ""}, {strings.Repeat("\x00", 500), ""},
	} {
		if got := strings.Join(n.in([]byte(c.data)), ","); got != c.want {
			t.Errorf("%q: %q, want %q", c.data, got, c.want)
		}
	}
}

func FuzzNeedles(f *testing.F) {
	f.Add([]byte("before a fixture nobody may see after"), 7, 20)
	f.Fuzz(func(t *testing.T, data []byte, from, length int) {
		if from < 0 || length < minVisible || from > len(data) || length > len(data)-from {
			return
		}
		n := &needles{byWindow: map[uint64][]needle{}}
		n.add("x", data[from:from+length])
		if len(n.in(data)) == 0 {
			t.Fatalf("%q is not found in %q", data[from:from+length], data)
		}
	})
}

func TestKeptResultsAreBelievedOnlyWhole(t *testing.T) {
	k := kept{root: t.TempDir()}
	key := laneKey{Repository: shop, Code: "t", Seal: "s"}
	digest, err := key.digest()
	must(t, err)
	must(t, k.put(key, digest, green()))
	got := newEvidence()
	data, ok := k.get(key, digest)
	if !ok || got.read(properties, data) != nil || got.properties.Properties[0].ID != "length" || !got.properties.Complete {
		t.Fatalf("%s %v", data, ok)
	}
	if got.read(publicInvariants, data) == nil {
		t.Error("a result of one lane is taken for one of another")
	}
	incomplete := green()
	incomplete.Complete = false
	other := laneKey{Repository: shop, Code: "u"}
	otherDigest, _ := other.digest()
	must(t, k.put(other, otherDigest, incomplete))
	if _, ok := k.get(other, otherDigest); ok {
		t.Error("an incomplete result was kept")
	}
	file := k.file(key, digest)
	whole, err := os.ReadFile(file)
	must(t, err)
	for name, data := range map[string][]byte{"torn": whole[:len(whole)/2], "empty": {}, "altered": []byte(strings.Replace(string(whole), `"ok":true`, `"ok":false`, 1)),
		"of another key": []byte(strings.Replace(string(whole), `"code":"t"`, `"code":"x"`, 1))} {
		must(t, os.WriteFile(file, data, 0o600))
		if _, ok := k.get(key, digest); ok {
			t.Errorf("%s: believed", name)
		}
	}
	must(t, os.WriteFile(file, whole, 0o600))
	if _, ok := k.get(key, digest); !ok {
		t.Error("honest twin: not believed")
	}
}

// A candidate has the directory of all its repository's trees mounted. It must
// not find another tree in it: not by listing, and not by a name that an earlier
// run of that tree has learned and told.
func TestATreeIsFoundByItsOwnCandidatesAlone(t *testing.T) {
	s := newSource(t)
	first := s.commit(map[string]string{"a": "1\n"})
	second := s.commit(map[string]string{"a": "2\n"})
	m := testMirror(t, s, second)
	ts := testTrees(t)
	one, err := ts.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(first), paths: testPaths(t)})
	must(t, err)
	two, err := ts.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(second), paths: testPaths(t)})
	must(t, err)
	info, err := os.Stat(one.Parent)
	must(t, err)
	if one.Parent != two.Parent || info.Mode().Perm() != unlisted {
		t.Errorf("%s and %s, mode %s", one.Parent, two.Parent, info.Mode())
	}
	if asides, _ := filepath.Glob(filepath.Join(one.Parent, ".*")); len(asides) > 0 {
		t.Errorf("unfinished trees beside the others: %q", asides)
	}
	one.Release()
	again, err := ts.layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(first), paths: testPaths(t)})
	must(t, err)
	if _, err := os.Stat(filepath.Join(one.Parent, one.Name)); !os.IsNotExist(err) || again.Name == one.Name || layout(t, again)["a"] != "1\n" {
		t.Errorf("%s, then %s: %v", one.Name, again.Name, err)
	}
	again.Release()
	two.Release()
}

func TestALibraryThatIsAlteredInPlaceIsAnother(t *testing.T) {
	root := t.TempDir()
	module := filepath.Join(root, "lib", "python3.11", "site-packages", "dep", "core.py")
	must(t, os.MkdirAll(filepath.Dir(module), 0o755))
	must(t, os.WriteFile(module, []byte("RATE = 1\n"), 0o644))
	before, err := libraryIdentity(root)
	must(t, err)
	if same, err := libraryIdentity(root); err != nil || same != before {
		t.Errorf("%q, then %q, %v", before, same, err)
	}
	must(t, os.WriteFile(module, []byte("RATE = 2\n"), 0o644))
	must(t, os.Chtimes(module, time.Now(), time.Now().Add(time.Second)))
	if after, err := libraryIdentity(root); err != nil || after == before {
		t.Errorf("%q is what it was, %v", after, err)
	}
}

// By whole paths these two files would take millions of look-ups.
func TestDeepTreesAreLaidOutInOneDescentAFile(t *testing.T) {
	s := newSource(t)
	deep := strings.Repeat("a/", 1000) + "f"
	s.gitIn("commit refs/heads/deep\ncommitter A <a@example.org> 1 +0000\ndata 1\nx\n"+
		"M 100644 inline b/"+deep+"\ndata 2\n1\n\nM 100644 inline c/"+deep+"\ndata 2\n2\n\n", "fast-import", "--quiet")
	c := s.git("rev-parse", "deep")
	m := testMirror(t, s, c)
	got, err := testTrees(t).layOut(context.Background(), shop, wanted{mirror: m, tree: s.tree(c), paths: testPaths(t)})
	must(t, err)
	defer got.Release()
	if files := layout(t, got); len(files) != 2 || files["b/"+deep] != "1\n" || files["c/"+deep] != "2\n" {
		t.Errorf("%d files", len(files))
	}
}
