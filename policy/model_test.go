package policy

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// The models here are written from the words of docs/formats.md, by other means
// than the code: expressions of package regexp, Unicode's own tables, git itself.

// latin spells bytes as runes, one each, so that an expression works on bytes.
func latin(s string) string {
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = rune(s[i])
	}
	return string(out)
}

// modelPattern is a path pattern as an expression.
func modelPattern(text string) *regexp.Regexp {
	text = strings.TrimSuffix(text, "/")
	for strings.HasSuffix(text, "/**") {
		text = strings.TrimSuffix(text, "/**")
	}
	var b strings.Builder
	b.WriteString("(?s)^")
	comps := strings.Split(text, "/")
	for i, comp := range comps {
		if comp == "**" {
			b.WriteString("(?:[^/]+/)*")
			continue
		}
		for _, r := range latin(comp) {
			switch r {
			case '*':
				b.WriteString("[^/]*")
			case '?':
				b.WriteString("[^/]")
			default:
				b.WriteString(regexp.QuoteMeta(string(r)))
			}
		}
		if i < len(comps)-1 {
			b.WriteString("/")
		}
	}
	b.WriteString("(?:/.*)?$")
	return regexp.MustCompile(b.String())
}

func randomComps(rnd *rand.Rand, words []string, most int) string {
	comps := make([]string, 1+rnd.IntN(most))
	for i := range comps {
		comps[i] = words[rnd.IntN(len(words))]
	}
	return strings.Join(comps, "/")
}

func TestPatternsAgainstAModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 4))
	inPattern := []string{"a", "b", "ab", "**", "**", "*", "a*", "?b", "*b", "a?", "[a]", "ä", "a.b", "(a)", "a b", "?*?"}
	inPath := []string{"a", "b", "ab", "aab", "abb", "[a]", "\xff", "a\nb", "ä", "a.b", "axb", "(a)", "a b", "\""}
	tried, matched := 0, 0
	for range 3000 {
		text := randomComps(rnd, inPattern, 5)
		if rnd.IntN(3) == 0 {
			text += "/"
		}
		p, err := ParsePatterns([]string{text})
		if err != nil {
			continue
		}
		model := modelPattern(text)
		for range 20 {
			path := randomComps(rnd, inPath, 6)
			tried++
			want := model.MatchString(latin(path))
			if want {
				matched++
			}
			if got := p.Match([]byte(path)); got != want {
				t.Fatalf("pattern %q, path %q: %v, the model says %v", text, path, got, want)
			}
			if want && Alias([]byte(path), p) {
				t.Fatalf("pattern %q: %q matches and is an alias", text, path)
			}
			checkLeads(t, p, path, want)
			checkSpoiled(t, rnd, p, path, want)
		}
	}
	fmt.Printf("tried: patterns: %d pairs of pattern and path, %d match\n", tried, matched)
	if tried < 20_000 || matched < 2000 {
		t.Errorf("%d pairs, %d match: the test proves little", tried, matched)
	}
}

func checkLeads(t *testing.T, p Patterns, path string, matches bool) {
	t.Helper()
	for i := range path {
		if matches && path[i] == '/' && !p.Leads([]byte(path[:i])) {
			t.Fatalf("%q is named, and %q does not lead there", path, path[:i])
		}
	}
}

// checkSpoiled: a path that is named, spelled as another file system would read it,
// is named or an alias, itself or in a directory on the way.
func checkSpoiled(t *testing.T, rnd *rand.Rand, p Patterns, path string, matches bool) {
	t.Helper()
	if !matches || !utf8.ValidString(path) || strings.ContainsAny(path, "\n\"") {
		return
	}
	comps := strings.Split(path, "/")
	i := rnd.IntN(len(comps))
	spoil := []func(string) string{
		strings.ToUpper,
		norm.NFD.String,
		func(s string) string { return s + "." },
		func(s string) string { return s + "  " },
		func(s string) string { return s + "::$INDEX_ALLOCATION" },
		func(s string) string { return s[:1] + "\u200d" + s[1:] },
		func(s string) string { return `.\` + s },
		func(s string) string { return `x\..\` + s },
		func(s string) string { return "... /" + s },
	}
	if comps[i][0] >= 0x80 {
		return // no place between the bytes of a letter
	}
	comps[i] = spoil[rnd.IntN(len(spoil))](comps[i])
	spoiled := strings.Join(comps, "/")
	if p.Match([]byte(spoiled)) {
		return
	}
	for at := range len(spoiled) + 1 {
		if (at == len(spoiled) || spoiled[at] == '/') && Alias([]byte(spoiled[:at]), p) {
			return
		}
	}
	t.Fatalf("patterns %q name %q; %q is neither named nor an alias", p.Sorted(), path, spoiled)
}

// allRunes are those of the planes that have letters, marks and ignorable ones.
func allRunes(each func(rune)) (n int) {
	for r := rune(1); r < 0xe1000; r++ {
		if r == 0x20000 {
			r = 0xe0000
		}
		if r < 0xd800 || r > 0xdfff {
			each(r)
			n++
		}
	}
	return n
}

// Unicode derives Default_Ignorable_Code_Point from other properties
// (DerivedCoreProperties.txt).
func TestIgnorableIsUnicodesOwnProperty(t *testing.T) {
	n := allRunes(func(r rune) {
		want := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector) &&
			!unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark) &&
			(r < 0xfff9 || r > 0xfffb) && (r < 0x13430 || r > 0x13440)
		if got := ignorable(r); got != want {
			t.Errorf("%U: ignorable is %v, by Unicode's tables %v", r, got, want)
		}
	})
	fmt.Printf("tried: ignorable code points: %d runes\n", n)
}

// Every form that some file system takes for the same name folds to one: simple
// and full case folding, capitals, and the four normal forms.
func TestFoldingJoinsAllFormsOfARune(t *testing.T) {
	full := cases.Fold()
	n := allRunes(func(r rune) {
		name := "x" + string(r)
		if r < 0x80 {
			return
		}
		want := fold(name)
		forms := []string{full.String(name), "x" + string(unicode.ToUpper(r)), "x" + string(unicode.ToLower(r)), "x" + string(unicode.ToTitle(r)), want}
		if !norm.NFKD.IsNormalString(name) || !norm.NFC.IsNormalString(name) {
			forms = append(forms, norm.NFC.String(name), norm.NFD.String(name), norm.NFKC.String(name), norm.NFKD.String(name), full.String(norm.NFKD.String(name)))
		}
		for _, form := range forms {
			if form != want && fold(form) != want {
				t.Errorf("%U folds to %q, its form %q to %q", r, want, form, fold(form))
			}
		}
	})
	fmt.Printf("tried: folding: %d runes\n", n)
}

// modelClasses is the table of docs/formats.md, top to bottom; the first row counts.
var modelClasses = []struct {
	row   string
	class Class
}{
	{`refs/heads/oracle-change/.+`, OracleChange},
	{`refs/heads/main`, Protected},
	{`refs/heads/release/.+`, Protected},
	{`refs/heads/env-[^/]*`, Protected},
	{`refs/heads/.+`, Topic},
	{`refs/tags/.+`, Tag},
	{`refs/for/(main|main/x)/oracle-change/.+`, ProposalChange},
	{`refs/for/.+`, Proposal},
	{`refs/replace(/.+)?`, Replace},
	{`refs/oracle/gate`, GateRef},
	{`refs/oracle/approvals/[0-9a-f]{64}(-[0-9a-f]{64})?`, Approval},
	{`refs/oracle/withdrawals/[0-9a-f]{64}`, Withdrawal},
	{`refs/oracle/reports/([0-9a-f]{40}|[0-9a-f]{64})`, Report},
	{`refs/oracle(/.+)?`, OracleJunk},
	{`refs/pull/[0-9]+/head`, Server},
	{`refs/merge-requests/[0-9]+/.+`, Server},
	{`refs/.+`, Other},
}

func TestClassesAgainstATable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	refs := mustRefs(t, "refs/heads/main", "refs/heads/release/**", "refs/heads/env-*")
	branches := map[string]bool{"main": true, "main/x": true}
	rows := make([]*regexp.Regexp, len(modelClasses))
	for i, c := range modelClasses {
		rows[i] = regexp.MustCompile("^(?s:" + c.row + ")$")
	}
	hash := strings.Repeat("0a", 32)
	words := []string{"heads", "tags", "for", "replace", "oracle", "pull", "merge-requests", "notes", "remotes", "main", "Main", "release", "env-", "env-x",
		"oracle-change", "x", "1", "12", "head", "merge", "gate", "approvals", "withdrawals", "reports", hash, hash[:40], hash[:39], "HEAD", "\xff", "ä"}
	seen := map[Class]int{}
	const tries = 40_000
	for range tries {
		ref := "refs/" + randomComps(rnd, words, 5)
		if rnd.IntN(3) == 0 {
			ref = "refs/" + []string{"heads", "for/main", "for/main/x", "oracle", "pull", "merge-requests", "heads/oracle-change", "oracle/approvals", "oracle/withdrawals", "oracle/reports"}[rnd.IntN(10)] +
				"/" + randomComps(rnd, words, 3)
		}
		want := Refused
		for i, row := range rows {
			if row.MatchString(ref) {
				want = modelClasses[i].class
				break
			}
		}
		seen[want]++
		if got := refs.Classify(ref, func(b string) bool { return branches[b] }); got != want {
			t.Fatalf("%q is %s, by the table %s", ref, got, want)
		}
	}
	for _, c := range modelClasses {
		if seen[c.class] == 0 {
			t.Errorf("no ref is %s: the test proves little", c.class)
		}
	}
	fmt.Printf("tried: ref classes: %d names\n", tries)
}

// What is a ref name is git's word.
func TestRefNamesAsGitReadsThem(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 9))
	parts := []string{"a", "b", ".", "..", "/", "/", "~", "^", ":", "?", "*", "[", "\\", "@", "{", "@{", ".lock", " ", "\t", "\x7f", "\x01", "ä", "\xff", "-", "HEAD", "]", "$", "'"}
	names := []string{"refs/@", "refs/heads/@", "refs/heads/-x", "refs/a.lock/b", "refs/heads/a.", "refs/heads/.a", "refs/heads/a/", "refs/heads//a"}
	for len(names) < 150 {
		var b strings.Builder
		for range 1 + rnd.IntN(5) {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		names = append(names, "refs/heads/"+b.String())
	}
	cmd := exec.Command("sh", append([]string{"-c", `for r; do if git check-ref-format "$r"; then echo y; else echo n; fi; done`, "sh"}, names...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Fields(string(out))
	valid := 0
	for i, name := range names {
		if (said[i] == "y") != ValidRef(name) {
			t.Errorf("%q: git says %s, ValidRef %v", name, said[i], ValidRef(name))
		}
		if said[i] == "y" {
			valid++
		}
	}
	fmt.Printf("tried: ref names: %d asked of git, %d valid\n", len(names), valid)
}
