package state

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/policy"
)

var ctx = context.Background()

type repo struct {
	t   *testing.T
	dir string
	*gitrepo.Repo
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t: t, dir: filepath.Join(t.TempDir(), "r.git")}
	r.git("", "init", "-q", "--bare", r.dir)
	open, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: r.dir})
	if err != nil {
		t.Fatal(err)
	}
	r.Repo = open
	t.Cleanup(func() { open.Close() })
	return r
}

func (r *repo) git(stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + r.dir}
	cmd.Stdin = strings.NewReader(stdin)
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, diag.String())
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) blob(content string) string {
	r.t.Helper()
	return r.git(content, "hash-object", "-w", "--stdin")
}

// tree writes a tree object byte by byte, whatever git thinks of it.
func (r *repo) tree(entries ...Entry) string {
	r.t.Helper()
	var raw strings.Builder
	for _, e := range entries {
		id, err := hex.DecodeString(e.ID)
		if err != nil {
			r.t.Fatal(err)
		}
		raw.WriteString(e.Mode + " " + e.Path + "\x00" + string(id))
	}
	return r.git(raw.String(), "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
}

func protected(t *testing.T, list ...string) policy.Patterns {
	t.Helper()
	if len(list) == 0 {
		list = []string{"oracles/", "freeze.json"}
	}
	p, err := policy.ParsePatterns(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type vector struct {
	Before    string        `json:"before"`
	After     string        `json:"after"`
	EmptyTree string        `json:"empty_tree"`
	Paths     string        `json:"paths"`
	Patterns  []string      `json:"protected_paths"`
	BeforeIn  []vectorEntry `json:"before_entries"`
	AfterIn   []vectorEntry `json:"after_entries"`
}

type vectorEntry struct{ Mode, Type, Content, Path string }

func TestStatesOfTheGoldenVector(t *testing.T) {
	data, err := os.ReadFile("testdata/approval-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	p := protected(t, v.Patterns...)
	if p.Digest() != v.Paths {
		t.Errorf("paths are %s, want %s", p.Digest(), v.Paths)
	}
	if Empty() != v.EmptyTree {
		t.Errorf("the empty state is %s, want %s", Empty(), v.EmptyTree)
	}
	r := newRepo(t)
	for want, entries := range map[string][]vectorEntry{v.Before: v.BeforeIn, v.After: v.AfterIn} {
		var in strings.Builder
		for _, e := range entries {
			fmt.Fprintf(&in, "M %s inline %s\ndata %d\n%s\n", e.Mode, e.Path, len(e.Content), e.Content)
		}
		in.WriteString("M 100644 inline other\ndata 1\nx\n")
		r.git("commit refs/heads/x\ncommitter a <a@example.org> 1700000000 +0000\ndata 0\ndeleteall\n"+in.String(), "fast-import", "--quiet", "--force")
		if got, err := Of(ctx, r.Repo, "refs/heads/x", p); err != nil || got != want {
			t.Errorf("state is %s, %v; want %s", got, err, want)
		}
	}
}

func TestEveryDifferenceAtAProtectedPathIsAnotherState(t *testing.T) {
	r := newRepo(t)
	a, b := r.blob("a"), r.blob("b")
	sub := func(entries ...Entry) Entry { return Entry{"oracles", modeDir, r.tree(entries...)} }
	trees := map[string]string{
		"base":              r.tree(sub(Entry{"x", modeFile, a}), Entry{"z", modeFile, a}),
		"content":           r.tree(sub(Entry{"x", modeFile, b}), Entry{"z", modeFile, a}),
		"mode":              r.tree(sub(Entry{"x", modeExec, a}), Entry{"z", modeFile, a}),
		"symlink":           r.tree(sub(Entry{"x", modeSymlink, a}), Entry{"z", modeFile, a}),
		"submodule":         r.tree(sub(Entry{"x", modeModule, a}), Entry{"z", modeFile, a}),
		"renamed":           r.tree(sub(Entry{"y", modeFile, a}), Entry{"z", modeFile, a}),
		"added":             r.tree(sub(Entry{"x", modeFile, a}, Entry{"y", modeFile, a}), Entry{"z", modeFile, a}),
		"deeper":            r.tree(sub(Entry{"x", modeDir, r.tree(Entry{"x", modeFile, a})}), Entry{"z", modeFile, a}),
		"a file for it":     r.tree(Entry{"oracles", modeFile, a}, Entry{"z", modeFile, a}),
		"a symlink for it":  r.tree(Entry{"oracles", modeSymlink, a}, Entry{"z", modeFile, a}),
		"a module for it":   r.tree(Entry{"oracles", modeModule, a}, Entry{"z", modeFile, a}),
		"gone":              r.tree(Entry{"z", modeFile, a}),
		"with a freeze":     r.tree(Entry{"freeze.json", modeFile, a}, sub(Entry{"x", modeFile, a})),
		"with a directory":  r.tree(Entry{"freeze.json", modeDir, r.tree(Entry{"x", modeFile, a})}, sub(Entry{"x", modeFile, a})),
		"odd bytes in name": r.tree(sub(Entry{"x\n\xff\t\"", modeFile, a})),
	}
	seen := map[string]string{}
	for name, tree := range trees {
		sum, err := Of(ctx, r.Repo, tree, protected(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if other, ok := seen[sum]; ok {
			t.Errorf("%s has the state of %s", name, other)
		}
		seen[sum] = name
	}
	if seen[Empty()] != "gone" {
		t.Errorf("the empty state is %q's", seen[Empty()])
	}
	same := r.tree(sub(Entry{"x", modeFile, a}), Entry{"zz", modeExec, b})
	if sum, err := Of(ctx, r.Repo, same, protected(t)); err != nil || seen[sum] != "base" {
		t.Errorf("what lies elsewhere changes the state: %v", err)
	}
}

func TestTreesThatGitWouldNotWriteHaveNoState(t *testing.T) {
	r := newRepo(t)
	a := r.blob("a")
	dir := r.tree(Entry{"x", modeFile, a})
	empty := r.tree()
	for name, tree := range map[string]string{
		"two entries of a name":         r.tree(Entry{"oracles", modeDir, dir}, Entry{"oracles", modeDir, dir}),
		"a file and a directory":        r.tree(Entry{"oracles", modeFile, a}, Entry{"oracles.x", modeFile, a}, Entry{"oracles", modeDir, dir}),
		"out of order":                  r.tree(Entry{"z", modeFile, a}, Entry{"oracles", modeDir, dir}),
		"a slash in a name":             r.tree(Entry{"oracles/x", modeFile, a}),
		"a dot":                         r.tree(Entry{".", modeDir, dir}, Entry{"oracles", modeDir, dir}),
		"two dots":                      r.tree(Entry{"..", modeDir, dir}),
		".git":                          r.tree(Entry{".git", modeDir, dir}),
		".git in HFS+":                  r.tree(Entry{".g\u200cit", modeDir, dir}),
		"git~1":                         r.tree(Entry{"GIT~1", modeDir, dir}),
		"an empty name":                 r.tree(Entry{"", modeFile, a}),
		"below: two entries of a name":  r.tree(Entry{"oracles", modeDir, r.tree(Entry{"x", modeFile, a}, Entry{"x", modeFile, a})}),
		"below: a slash":                r.tree(Entry{"oracles", modeDir, r.tree(Entry{"x/y", modeFile, a})}),
		"below: .git":                   r.tree(Entry{"oracles", modeDir, r.tree(Entry{".git", modeFile, a})}),
		"below: an old mode":            r.tree(Entry{"oracles", modeDir, r.tree(Entry{"x", "100664", a})}),
		"below: a padded mode":          r.tree(Entry{"oracles", "040000", dir}),
		"below: a zero id":              r.tree(Entry{"oracles", modeDir, r.tree(Entry{"x", modeFile, strings.Repeat("0", 40)})}),
		"below: an empty directory":     r.tree(Entry{"oracles", modeDir, empty}),
		"below: deeper empty directory": r.tree(Entry{"oracles", modeDir, r.tree(Entry{"x", modeDir, empty})}),
	} {
		var broken *Broken
		if sum, err := Of(ctx, r.Repo, tree, protected(t)); !errors.As(err, &broken) {
			t.Errorf("%s: state %q, error %v", name, sum, err)
		}
	}
	odd := r.tree(Entry{"a", "100664", a}, Entry{"b", modeDir, empty}, Entry{"oracles.x", modeFile, a}, Entry{"oracles", modeDir, dir})
	if _, err := Of(ctx, r.Repo, odd, protected(t)); err != nil {
		t.Errorf("an old mode elsewhere: %v", err)
	}
}

// git reads "040000", "40755" and "1040000" as directories and checks out what is
// in them, so a protected path cannot be hidden behind such a mode.
func TestADirectoryOfAnOddModeHidesNothing(t *testing.T) {
	r := newRepo(t)
	a := r.blob("a")
	oracles := r.tree(Entry{"x", modeFile, a})
	app := r.tree(Entry{"oracles", modeDir, oracles})
	for _, pattern := range []string{"app/oracles/", "**/oracles/", "a*/oracles"} {
		p := protected(t, pattern)
		want, err := Of(ctx, r.Repo, r.tree(Entry{"app", modeDir, app}), p)
		if err != nil || want == Empty() {
			t.Fatal(want, err)
		}
		for _, mode := range []string{"040000", "40755", "1040000", "40040000"} {
			if sum, err := Of(ctx, r.Repo, r.tree(Entry{"app", mode, app}), p); err == nil && sum != want {
				t.Errorf("%s: mode %s hides the oracles", pattern, mode)
			}
		}
		var broken *Broken
		if sum, err := Of(ctx, r.Repo, r.tree(Entry{"app", "4000x", app}), p); !errors.As(err, &broken) {
			t.Errorf("%s: a mode that is no number: %s, %v", pattern, sum, err)
		}
		if sum, err := Of(ctx, r.Repo, r.tree(Entry{"app", "100664", a}), p); err != nil || sum != Empty() {
			t.Errorf("%s: a file of an old mode: %s, %v", pattern, sum, err)
		}
	}
}

// Four small trees that name each other 100 times over spell out to 10^8 files:
// they are refused before they are spelled out.
func TestTreesThatSpellOutWithoutBoundAreRefused(t *testing.T) {
	r := newRepo(t)
	wide := func(id, mode string, n int) string {
		var list []Entry
		for i := range n {
			list = append(list, Entry{fmt.Sprintf("%05d", i), mode, id})
		}
		return r.tree(list...)
	}
	a := r.blob("a")
	bomb, deep := wide(a, modeFile, 100), wide(a, modeFile, 100)
	for range 3 {
		bomb = wide(bomb, modeDir, 100)
	}
	for range 10 {
		deep = r.tree(Entry{strings.Repeat("n", 4000), modeDir, deep})
	}
	state := func(tree string, pattern string) error {
		s := NewScanner(r.Repo, protected(t, pattern), policy.Patterns{})
		s.limits = limits{leaves: room{20_000, 1 << 20}, dirs: room{20_000, 1 << 20}, looks: 2 << 20, spelled: 40_000}
		v, err := s.View(ctx, r.tree(Entry{"oracles", modeDir, tree}))
		if err == nil {
			_, err = s.State(ctx, v)
		}
		return err
	}
	for _, pattern := range []string{"oracles/", "**/oracles/x"} {
		for name, tree := range map[string]string{"wide": bomb, "deep": deep} {
			var broken *Broken
			if err := state(tree, pattern); !errors.As(err, &broken) {
				t.Errorf("%s, %s: error %v", name, pattern, err)
			}
		}
		// The honest twin: much, yet countable.
		if err := state(wide(wide(a, modeFile, 100), modeDir, 100), pattern); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// A flaw is the same flaw while its entry is the same; one behind it is another.
func TestEveryFlawOfATreeIsToldApart(t *testing.T) {
	r := newRepo(t)
	a, b := r.blob("a"), r.blob("b")
	dir := r.tree(Entry{"fees", modeFile, a})
	view := func(entries ...Entry) *View {
		t.Helper()
		s := NewScanner(r.Repo, protected(t), policy.Patterns{})
		v, err := s.View(ctx, r.tree(entries...))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	twice := []Entry{{"app", modeFile, a}, {"app", modeFile, a}, {"oracles", modeDir, dir}}
	old := view(twice...)
	for name, c := range map[string]struct {
		tree []Entry
		want string // path of the new flaw
	}{
		"the same":        {append(slices.Clone(twice), Entry{"z", modeFile, b}), ""},
		"none":            {twice[1:], ""},
		"other content":   {[]Entry{twice[0], {"app", modeFile, b}, twice[2]}, "app"},
		"another mode":    {[]Entry{twice[0], {"app", modeExec, a}, twice[2]}, "app"},
		"one behind it":   {append(slices.Clone(twice), Entry{"b", modeFile, a}), "b"},
		"one before it":   {append([]Entry{{".git", modeFile, a}}, twice...), ".git"},
		"a shadowing one": {append(slices.Clone(twice), Entry{"oracles/fees", modeFile, b}), "oracles/fees"},
	} {
		v := view(c.tree...)
		broken := v.Flaw(old)
		if (broken == nil) != (c.want == "") || broken != nil && broken.Path != c.want {
			t.Errorf("%s: %v, want one at %q", name, broken, c.want)
		}
		if shadows := v.Mark != old.Mark; shadows != (name == "a shadowing one") {
			t.Errorf("%s: the protected entries are others: %v", name, shadows)
		}
	}
	var many []Entry
	for i := range maxFlaws + 20 {
		many = append(many, Entry{fmt.Sprintf(".git/%d", i), modeFile, a})
	}
	most := view(many...)
	if n := len(most.flaws); n != maxFlaws+1 {
		t.Errorf("%d flaws are kept", n)
	}
	many[len(many)-1].ID = b
	if most.Flaw(view(many...)) == nil {
		t.Error("what is behind the last flaw that is told apart may change")
	}
}

// What is to be done about a broken tree depends on what is wrong: git's own check
// has nothing against some of them. Sound, which reads each tree once, and State say
// the same of each.
func TestFaultsOfTreesAreToldApart(t *testing.T) {
	r := newRepo(t)
	a := r.blob("a")
	long := r.tree(Entry{"x", modeFile, a})
	for range 20 {
		long = r.tree(Entry{strings.Repeat("n", 4000), modeDir, long})
	}
	wide := r.tree(Entry{"x", modeFile, a}, Entry{"y", modeFile, a})
	for name, c := range map[string]struct {
		tree string
		kind Fault
		path string // its beginning
	}{
		"a mode of its own":  {r.tree(Entry{"fees", "100600", a}), Malformed, "oracles/fees"},
		"an empty directory": {r.tree(Entry{"sub", modeDir, r.tree()}), EmptyDirectory, "oracles/sub"},
		"a long path":        {long, LongPath, "oracles"},
		"too many files":     {wide, TooMany, "oracles"},
	} {
		s := NewScanner(r.Repo, protected(t), policy.Patterns{})
		if c.kind == TooMany {
			s.limits.leaves.entries = 1
		}
		v, err := s.View(ctx, r.tree(Entry{"oracles", modeDir, c.tree}))
		if err != nil {
			t.Fatal(err)
		}
		sound, err := s.Sound(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.State(ctx, v)
		var broken *Broken
		if !errors.As(err, &broken) || sound == nil {
			t.Errorf("%s: error %v, sound says %v", name, err, sound)
			continue
		}
		for _, b := range []*Broken{sound, broken} {
			if b.Kind != c.kind || !strings.HasPrefix(b.Path, c.path) || len(b.Path) > 100 {
				t.Errorf("%s: %v, %+v", name, b.Kind, b)
			}
		}
	}
}

func TestACutOffTreeHasNoState(t *testing.T) {
	r := newRepo(t)
	for _, raw := range []string{"100644 oracles", "100644 oracles\x00abc", "100644oracles\x00" + strings.Repeat("x", 20), " oracles\x00" + strings.Repeat("x", 20)} {
		tree := r.git(raw, "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
		if sum, err := Of(ctx, r.Repo, tree, protected(t)); err == nil {
			t.Errorf("%q has state %s", raw, sum)
		}
	}
}

func TestDeepAndLongPaths(t *testing.T) {
	r := newRepo(t)
	tree := r.tree(Entry{strings.Repeat("f", 4000), modeFile, r.blob("a")})
	for range 60 {
		tree = r.tree(Entry{"d", modeDir, tree})
	}
	if _, err := Of(ctx, r.Repo, r.tree(Entry{"oracles", modeDir, tree}), protected(t)); err != nil {
		t.Fatal(err)
	}
}

func TestPatternsBelowTheRootAndWithWildcards(t *testing.T) {
	r := newRepo(t)
	a, b := r.blob("a"), r.blob("b")
	build := func(oracle, other string) string {
		oracles := r.tree(Entry{"x", modeFile, oracle})
		app := r.tree(Entry{"main", modeFile, other}, Entry{"oracles", modeDir, oracles})
		return r.tree(Entry{"app", modeDir, app}, Entry{"lib", modeDir, r.tree(Entry{"main", modeFile, other})})
	}
	for _, pattern := range []string{"app/oracles/", "**/oracles/", "a*/oracles"} {
		p := protected(t, pattern)
		state := func(tree string) string {
			t.Helper()
			sum, err := Of(ctx, r.Repo, tree, p)
			if err != nil {
				t.Fatalf("%s: %v", pattern, err)
			}
			return sum
		}
		if state(build(a, a)) == state(build(b, a)) {
			t.Errorf("%s: a change goes unseen", pattern)
		}
		if state(build(a, a)) != state(build(a, b)) || state(build(a, a)) == Empty() {
			t.Errorf("%s: a change elsewhere counts", pattern)
		}
	}
}

func TestViewsNameAliasesAndForbiddenEntries(t *testing.T) {
	r := newRepo(t)
	a := r.blob("a")
	dir := r.tree(Entry{"x", modeFile, a})
	s := NewScanner(r.Repo, protected(t), protected(t, "sealed/"))
	v, err := s.View(ctx, r.tree(Entry{"Oracles", modeDir, dir}, Entry{"freeze.json", modeFile, a}, Entry{"sealed", modeDir, dir}))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Protected) != 1 || len(v.Forbidden) != 1 || len(v.Aliases) != 1 || v.Aliases[0].Path != "Oracles" || v.Broken != nil {
		t.Errorf("view: %+v", v)
	}
	again, err := s.View(ctx, r.tree(Entry{"Oracles", modeDir, dir}, Entry{"freeze.json", modeFile, a}, Entry{"other", modeFile, a}, Entry{"sealed", modeDir, dir}))
	if err != nil || again != v {
		t.Errorf("an equal view is another: %v", err)
	}
	if _, err := s.View(ctx, strings.Repeat("1", 40)); !errors.Is(err, gitrepo.ErrMissing) {
		t.Errorf("a missing tree: %v", err)
	}
}

// What is protected is in the state wherever it lies, also below an entry that is
// an alias or forbidden, and each list of a view has its topmost entries only.
func TestWhatIsProtectedBelowAliasesAndForbiddenEntries(t *testing.T) {
	r := newRepo(t)
	a := r.blob("a")
	spec := r.tree(Entry{"x", modeFile, a})
	inner := r.tree(Entry{"sealed", modeDir, r.tree(Entry{"k", modeFile, a})}, Entry{"spec", modeDir, spec})
	s := NewScanner(r.Repo, protected(t, "**/spec/"), protected(t, "**/sealed/"))
	v, err := s.View(ctx, r.tree(Entry{"Spec", modeDir, inner}, Entry{"sealed", modeDir, inner}, Entry{"spec", modeDir, inner}))
	if err != nil || v.Broken != nil {
		t.Fatal(err, v)
	}
	for what, c := range map[string]struct {
		got  []Entry
		want string
	}{
		"protected": {v.Protected, "Spec/spec sealed/spec spec"},
		"forbidden": {v.Forbidden, "Spec/sealed sealed spec/sealed"},
		"aliases":   {v.Aliases, "Spec"},
	} {
		if got := paths(c.got); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func FuzzTree(f *testing.F) {
	f.Add([]byte("100644 a\x00" + strings.Repeat("x", 20)))
	f.Add([]byte("40000 a\x00" + strings.Repeat("x", 20) + "100644 a.b\x00" + strings.Repeat("y", 20)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var back bytes.Buffer
		tree := treeReader{rest: raw, width: 20}
		for {
			e, ok, what := tree.next()
			if what != "" {
				return
			}
			if !ok {
				break
			}
			fmt.Fprintf(&back, "%s %s\x00%s", e.mode, e.name, e.id)
		}
		if !bytes.Equal(back.Bytes(), raw) {
			t.Fatalf("%q reads as %q", raw, back.Bytes())
		}
	})
}

// A link or a submodule where a protected path needs a directory puts other files
// there: it is an alias, also where the tree before had a directory of that name.
func TestALinkOnTheWayIsAnAlias(t *testing.T) {
	r := newRepo(t)
	target := r.blob("stuff")
	dir := r.tree(Entry{"readme", modeFile, target})
	for _, c := range []struct {
		pattern, mode, id string
		want              int
	}{
		{"cfg/oracles/", modeSymlink, target, 1}, {"cfg/oracles/", modeModule, strings.Repeat("1", 40), 1}, {"cfg/oracles/", "120777", target, 1},
		{"cfg/oracles/", modeFile, target, 0}, {"cfg/oracles/", modeDir, dir, 0}, {"oracles/", modeSymlink, target, 0},
		{"cfg/**/x", modeSymlink, target, 1}, {"**/x", modeSymlink, target, 0}, {"**/cfg/x", modeSymlink, target, 1},
	} {
		s := NewScanner(r.Repo, protected(t, c.pattern), policy.Patterns{})
		if _, err := s.View(ctx, r.tree(Entry{"cfg", modeDir, dir})); err != nil {
			t.Fatal(err)
		}
		v, err := s.View(ctx, r.tree(Entry{"cfg", c.mode, c.id}))
		if err != nil || len(v.Aliases) != c.want || !v.Empty() {
			t.Errorf("%s, mode %s: %+v, %v", c.pattern, c.mode, v, err)
		}
	}
	// Below a directory as well, and below a protected one nothing is on the way.
	s := NewScanner(r.Repo, protected(t, "a/b/c", "sub/"), policy.Patterns{})
	link := r.tree(Entry{"b", modeSymlink, target})
	v, err := s.View(ctx, r.tree(Entry{"a", modeDir, link}, Entry{"sub", modeDir, link}))
	if err != nil || len(v.Aliases) != 1 || v.Aliases[0].Path != "a/b" {
		t.Errorf("%+v, %v", v, err)
	}
}
