package policy

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func mustPatterns(t testing.TB, texts ...string) Patterns {
	t.Helper()
	p, err := ParsePatterns(texts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, nay []string
	}{
		{"oracles/", []string{"oracles", "oracles/a", "oracles/a/b"}, []string{"", "oracle", "oracles2", "oracles2/a", "x/oracles/a", "Oracles/a", "oracle/s"}},
		{"oracles/**", []string{"oracles", "oracles/a"}, []string{"x/oracles"}},
		{"freeze.json", []string{"freeze.json", "freeze.json/x"}, []string{"freeze.jso", "freeze.json2", "a/freeze.json"}},
		{"app/oracles/", []string{"app/oracles", "app/oracles/x"}, []string{"app", "app/oracle", "app/x"}},
		{"**/oracles/", []string{"oracles", "oracles/a", "x/oracles", "x/y/oracles/z"}, []string{"xoracles", "x/oracles2"}},
		{"a/**/z", []string{"a/z", "a/b/z", "a/b/c/z", "a/b/c/z/d"}, []string{"a", "a/b", "z", "b/z"}},
		{"*.toml", []string{"x.toml", ".toml", "x.toml/y"}, []string{"a/x.toml", "x.tom"}},
		{"spec/*.md", []string{"spec/a.md", "spec/a.md/b"}, []string{"spec/a/b.md", "spec"}},
		{"v?/x", []string{"v1/x", "v1/x/y"}, []string{"v/x", "v12/x"}},
		{"app/[id]/o/", []string{"app/[id]/o/x"}, []string{"app/i/o/x"}},
		{"ö/", []string{"ö", "ö/\xff"}, []string{"o\u0308"}},
		{"a b", []string{"a b"}, []string{"a  b"}},
	} {
		p := mustPatterns(t, c.pattern)
		for _, path := range c.yes {
			if !p.Match([]byte(path)) {
				t.Errorf("%q does not match %q", c.pattern, path)
			}
		}
		for _, path := range c.nay {
			if p.Match([]byte(path)) {
				t.Errorf("%q matches %q", c.pattern, path)
			}
		}
	}
	if (Patterns{}).Match([]byte("oracles/a")) || !(Patterns{}).Empty() {
		t.Error("the zero value names something")
	}
}

func TestDirectoriesThatLeadToAMatch(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, nay []string
	}{
		{"CHANGELOG*", []string{"CHANGELOG", "CHANGELOG.d", "CHANGELOG.d/x"}, []string{"src", "src/CHANGELOG"}},
		{"changelog/**", []string{"changelog", "changelog/x/y"}, []string{"change", "changelog2", "x/changelog"}},
		{"docs/*/news.md", []string{"docs", "docs/a", "docs/a/news.md"}, []string{"doc", "docs/a/b"}},
		{"docs/**/news.md", []string{"docs", "docs/a", "docs/a/b/c"}, []string{"x"}},
		{"**/news.md", []string{"a", "a/b"}, nil},
	} {
		p := mustPatterns(t, c.pattern)
		for _, dir := range c.yes {
			if !p.Leads([]byte(dir)) {
				t.Errorf("%q does not lead to %q", dir, c.pattern)
			}
		}
		for _, dir := range c.nay {
			if p.Leads([]byte(dir)) {
				t.Errorf("%q leads to %q", dir, c.pattern)
			}
		}
	}
	if (Patterns{}).Leads([]byte("a")) {
		t.Error("the zero value leads somewhere")
	}
}

// Whatever matches is found by a search that follows Leads.
func FuzzLeadsToAllThatMatches(f *testing.F) {
	f.Add("CHANGELOG*", "CHANGELOG.md")
	f.Add("a/**/b?", "a/x/y/bc/d")
	f.Add("**/z", "z")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := ParsePatterns([]string{pattern})
		if err != nil || !p.Match([]byte(path)) {
			return
		}
		for i := range len(path) {
			if path[i] == '/' && !p.Leads([]byte(path[:i])) {
				t.Errorf("%q matches %q, and %q does not lead there", pattern, path, path[:i])
			}
		}
	})
}

func TestOddPathsAreBytes(t *testing.T) {
	p := mustPatterns(t, "oracles/", "**/deep.json")
	deep := strings.Repeat("d/", 4000)
	for _, path := range []string{"oracles/a\nb", "oracles/\t\"", "oracles/\xff\xfe", "oracles/" + strings.Repeat("x", 4096), deep + "deep.json"} {
		if !p.Match([]byte(path)) {
			t.Errorf("does not match %.40q", path)
		}
	}
	if p.Match([]byte("\noracles/a")) || p.Match([]byte(deep+"deep")) {
		t.Error("matches another path")
	}
}

func TestParsePatternsRefuses(t *testing.T) {
	for name, texts := range map[string][]string{
		"no pattern":       {},
		"empty":            {""},
		"slash":            {"/"},
		"absolute":         {"/oracles"},
		"dot dot":          {"a/../oracles"},
		"dot":              {"./oracles"},
		"double slash":     {"a//b"},
		"two at end":       {"a//"},
		"magic":            {":(icase)oracles"},
		"negation":         {"!oracles"},
		"backslash":        {`oracles\a`},
		"git":              {"a/.Git/x"},
		"glued stars":      {"a**"},
		"all":              {"**"},
		"all files":        {"*"},
		"all but by depth": {"**/*"},
		"newline":          {"a\nb"},
		"not UTF-8":        {"\xff"},
		"long":             {strings.Repeat("a", 1001)},
		"same text":        {"oracles/", "oracles/"},
		"same meaning":     {"oracles/", "oracles/**"},
		"many":             slices.Repeat([]string{"x"}, 257),
	} {
		if _, err := ParsePatterns(texts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	_, err := ParsePatterns([]string{"/a", "b", "../c"})
	if err == nil || !strings.Contains(err.Error(), `"/a"`) || !strings.Contains(err.Error(), `"../c"`) {
		t.Errorf("does not name every fault: %v", err)
	}
}

func TestDigestIsTheGoldenVector(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "approval-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vector struct {
		Protected []string `json:"protected_paths"`
		Paths     string
	}
	if err := json.Unmarshal(data, &vector); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(vector.Protected)
	p := mustPatterns(t, vector.Protected...)
	if got := p.Digest(); got != vector.Paths || vector.Paths == "" {
		t.Errorf("got %s, want %s", got, vector.Paths)
	}
	if got := p.Sorted(); !slices.Equal(got, []string{"freeze.json", "oracles/"}) {
		t.Errorf("sorted: %q", got)
	}
}

// TestGitNamesAllThatMatches holds the pathspecs against real git: whatever Match
// matches in a random tree, git names.
func TestGitNamesAllThatMatches(t *testing.T) {
	dir := t.TempDir()
	git := func(stdin string, args ...string) []byte {
		cmd := exec.Command("git", append([]string{"--git-dir", dir}, args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
		cmd.Stdin = strings.NewReader(stdin)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, errs.String())
		}
		return out
	}
	git("", "init", "-q", "--bare", dir)
	names := []string{"a", "b", "oracles", "x.toml", "[id]", "spec", "Oracles", "a b", "q\"\n", "\xff"}
	rnd := rand.New(rand.NewPCG(3, 4))
	matched := 0
	for range 4 {
		git(randomTree(rnd, names), "fast-import", "--quiet", "--force")
		all := bytes.Split(git("", "ls-tree", "-r", "-z", "--name-only", "main"), []byte{0})
		for _, pattern := range []string{"oracles/", "a/b/", "*.toml", "**/oracles/", "a/**/b", "a/*/b", "**/*.toml", "[id]", "**/[id]/", "a/?", "spec/**", "a/**/x.toml/", "a*", "*/oracles", "a b/"} {
			p := mustPatterns(t, pattern)
			args := append([]string{"log", "-1", "--format=", "--raw", "-r", "--root", "-z", "--name-only", "main", "--"}, p.Pathspecs()...)
			named := map[string]bool{}
			for _, path := range bytes.Split(git("", args...), []byte{0}) {
				named[string(path)] = true
			}
			for _, path := range all {
				if len(path) == 0 || !p.Match(path) {
					continue
				}
				matched++
				if !named[string(path)] {
					t.Errorf("pattern %q: git does not name %q when asked for %q", pattern, path, p.Pathspecs())
				}
			}
		}
	}
	if matched < 100 {
		t.Fatalf("only %d matches: the test proves little", matched)
	}
}

// randomTree is a fast-import stream of one root commit.
func randomTree(rnd *rand.Rand, names []string) string {
	var stream strings.Builder
	stream.WriteString("reset refs/heads/main\ncommit refs/heads/main\ncommitter A <a@x> 1700000000 +0000\ndata 0\n")
	for range 100 {
		var comps []string
		for range 1 + rnd.IntN(4) {
			comps = append(comps, names[rnd.IntN(len(names))])
		}
		quoted := strings.NewReplacer("\"", "\\\"", "\n", "\\n").Replace(strings.Join(comps, "/"))
		stream.WriteString("M 100644 inline \"" + quoted + "\"\ndata 1\nx\n")
	}
	return stream.String()
}

func TestPlainRoots(t *testing.T) {
	p := mustPatterns(t, "oracles/", "freeze.json", "spec/**")
	if !p.Plain() || !slices.Equal(p.Roots(), []string{"freeze.json", "oracles", "spec"}) {
		t.Errorf("%v %q", p.Plain(), p.Roots())
	}
	if p := mustPatterns(t, "oracles/", "*.toml"); p.Plain() || !slices.Equal(p.Roots(), []string{"oracles"}) {
		t.Errorf("%v %q", p.Plain(), p.Roots())
	}
}

func TestAlias(t *testing.T) {
	p := mustPatterns(t, "oracles/", "freeze.json", "sealed/", "app/oracles/", "**/deep/", "Stra\u00dfe/", "caf\u00e9/", "conf/*.toml", "spec/mid/**/x", "limits/")
	for class, paths := range map[string][]string{
		"case":                   {"Oracles/a", "ORACLES", "FREEZE.JSON", "freeze.Json", "App/oracles/x", "app/ORACLES/x", "APP/ORACLES", "x/Deep/y", "conf/A.TOML", "Conf/a.toml"},
		"normalisation":          {"cafe\u0301/x", "CAFE\u0301/x", "\uff4fracles/x"},
		"full folding":           {"strasse/x", "STRASSE/x", "STRA\u1e9eE/x"},
		"other case forms":       {"oracle\u017f/x", "\u017fealed/x"},
		"ignorable":              {"ora\u200ccles/a", "oracles\ufeff", "\u2060oracles/x", "or\u00adacles", "freeze\u200d.json", "oracles\ufe0f/x", "\U000e0041oracles"},
		"trailing dot":           {"oracles./a", "oracles.../a", "freeze.json."},
		"trailing space":         {"oracles /a", "freeze.json ", "oracles. . /a"},
		"stream":                 {"oracles:x", "oracles::$INDEX_ALLOCATION/a", "freeze.json::$DATA", "freeze.json:x"},
		"backslash":              {`oracles\a`, `app\oracles\x`, `x\..\oracles\a`, `.\oracles`},
		"short name":             {"oracle~1/a", "ORACLE~1", "ORACLE~2/a", "ORACL~10/a", "FREEZE~1.JSO", "freeze~1.jso", "or1a2b~1/x", "fr00ff~1.jso", "x/DEEP~1/y"},
		"together":               {"O\u200cRACLES. /x", "ORACLE~1./x", "ORACLES.:x"},
		"a directory on the way": {"App", "APP:x", "CONF", "Spec", "spec/MID", "SPEC~1"},
		"dots and spaces":        {"... /oracles/x", ".../oracles", "app/. ./oracles/x", " /freeze.json", "..\u200b/oracles"},
		"an i without its dot":   {"l\u0131mits/x", "L\u0130M\u0131TS"},
	} {
		for _, path := range paths {
			if !Alias([]byte(path), p) {
				t.Errorf("%s: %q is no alias", class, path)
			}
		}
	}
	for _, path := range []string{
		"", "oracles", "oracles/a", "oracles/Oracles/x", "oracles/A.", "freeze.json", "app/oracles/x", "x/deep/y", "conf/a.toml",
		"oracle", "oracle/s", "oracles2/a", "oracles-old/a", "my-oracles/a", "docs/oracles.md", "docs/Oracles/a", "x/freeze.json", "x/FREEZE.JSON",
		"freeze.jsonl", "freeze_json", "oracle~", "oracle~/x", "oracles~", "oracle~x/a", "oracle~0/a", "oracle~1.txt", "freeze~1.json", "freez~1.jso",
		"app", "application/oracles", "apps", "or~1", "~1", "a:b", "notes: oracles", "\u043eracles/a", "orac1es/a", "caf\u00e9/x", "cafe/x",
		"spec", "spec/mid", "spec/mid/x", "spec/midst", "spec/Other", "mid", "conf", "configs", ".../x", "app/...", " ", "a /b", "x/... /y",
		"stra\u00dfen/x", "README.", "x\\y", `\`, "conf/a.txt", "Conf/x", "\xff\xfe", "oracles\xff", "unsealed/x", "...", " ", "App/x", "deeper/x",
	} {
		if Alias([]byte(path), p) {
			t.Errorf("%q is taken for an alias", path)
		}
	}
	if Alias([]byte("ORACLES"), Patterns{}) {
		t.Error("the zero value has aliases")
	}
}

func FuzzAliasNeverNamesWhatMatches(f *testing.F) {
	p := mustPatterns(f, "oracles/", "freeze.json", "**/deep/", "conf/*.toml")
	for _, s := range []string{"oracles/a", "ORACLE~1", "a\\b", "oracles:", "\xff", "~1.", "e\u0301"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, path []byte) {
		if Alias(path, p) && p.Match(path) {
			t.Errorf("%q is both", path)
		}
	})
}

func FuzzParsePatterns(f *testing.F) {
	for _, s := range []string{"oracles/", "**/a", "a/**", "*", "[x]/?", ":(x)", "a//b"} {
		f.Add(s, []byte("oracles/a"))
	}
	f.Fuzz(func(t *testing.T, text string, path []byte) {
		p, err := ParsePatterns([]string{text})
		if err != nil {
			return
		}
		p.Match(path)
		Alias(path, p)
		again := mustPatterns(t, p.Sorted()...)
		if again.Digest() != p.Digest() {
			t.Errorf("%q does not read back", text)
		}
	})
}

func TestThrough(t *testing.T) {
	for _, c := range []struct {
		patterns string
		yes, no  []string
	}{
		{"oracles/", nil, []string{"oracles", "oracles/x", "x", "x/oracles"}},
		{"cfg/oracles/", []string{"cfg"}, []string{"cfg/oracles", "cfg/oracles/x", "cfg/x", "x", "x/cfg"}},
		{"a/b/c", []string{"a", "a/b"}, []string{"a/b/c", "a/x", "b"}},
		{"conf/**/freeze.json", []string{"conf", "conf/a", "conf/a/b"}, []string{"conf/freeze.json", "conf/a/freeze.json", "x", "x/conf"}},
		{"conf/*/freeze.json", []string{"conf", "conf/a"}, []string{"conf/a/freeze.json", "conf/a/b", "x"}},
		{"**/freeze.json", nil, []string{"a", "a/b", "freeze.json", "a/freeze.json"}},
		{"**/conf/oracles", []string{"conf", "a/conf", "a/b/conf"}, []string{"a", "a/x", "conf/oracles", "conf/x"}},
	} {
		p, err := ParsePatterns([]string{c.patterns})
		if err != nil {
			t.Fatal(err)
		}
		for want, list := range map[bool][]string{true: c.yes, false: c.no} {
			for _, path := range list {
				if got := p.Through([]byte(path)); got != want {
					t.Errorf("%s leads through %s: %v", c.patterns, path, got)
				}
			}
		}
	}
}
