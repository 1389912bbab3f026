package oracle

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/finding"
)

func codesOf(fs []finding.Finding) string {
	var codes []string
	for _, f := range fs {
		code := string(f.Code)
		if f.Severity == finding.Warn {
			code += "?"
		}
		codes = append(codes, code)
	}
	return strings.Join(codes, " ")
}

// TestChecksComeInTheSeedsOrder: faults, dropped ids, uncovered ids; then the
// changelog and the warning.
func TestChecksComeInTheSeedsOrder(t *testing.T) {
	base := shop().load(t)
	widened := shop().edit(t, "oracles/fees.toml", "max = 500", "max = 900").load(t)
	tightened := shop().edit(t, "oracles/fees.toml", "max = 500", "max = 400").load(t)
	renamed := shop().edit(t, "oracles/fees.toml", `"fee_table"`, `"fee_rows"`)
	faulty := renamed.load(t) // the manifest was left behind
	clean := renamed.manifest("fee_cap", "fee_rows", "label", "ship_once").load(t)
	unreadable := shop().edit(t, "oracles/fees.toml", "id = \"fee_cap\"", "id = fee_cap").load(t)
	yes := func(string) bool { return true }
	none := func(string) bool { return false }
	for _, c := range []struct {
		name string
		c    Change
		want string
	}{
		{"nothing changed", Change{Base: base, Tip: faulty, HadHarness: true, HasChangelog: true}, ""},
		{"everything at once", Change{Base: base, Tip: faulty, OraclesChanged: true, HarnessChanged: true, HadHarness: true, HasHarness: true, Mentioned: none, HasChangelog: true},
			"oracle-fault oracle-id-dropped oracle-id-uncovered changelog-missing spec-moved?"},
		{"the same, approved", Change{Base: base, Tip: faulty, OraclesChanged: true, HarnessChanged: true, HadHarness: true, HasHarness: true, Mentioned: none, HasChangelog: true, Approved: true},
			"oracle-fault oracle-id-uncovered changelog-missing spec-moved?"},
		{"only the harness changed, and the oracles were faulty before", Change{Base: faulty, Tip: faulty, HarnessChanged: true, HadHarness: true, HasHarness: true, Mentioned: yes}, ""},
		{"only the harness changed, and covers nothing", Change{Base: base, Tip: base, HarnessChanged: true, HadHarness: true, HasHarness: true, Mentioned: none, HasChangelog: true}, "oracle-id-uncovered"},
		{"oracles and harness, all well", Change{Base: base, Tip: clean, OraclesChanged: true, HarnessChanged: true, HadHarness: true, HasHarness: true, Mentioned: yes, Approved: true}, "spec-moved?"},
		{"no id readable: none is said to be gone", Change{Base: base, Tip: unreadable, OraclesChanged: true}, "oracle-fault"},
		{"widened without a changelog line", Change{Base: base, Tip: widened, OraclesChanged: true, Approved: true, HasChangelog: true}, "changelog-missing"},
		{"widened with one", Change{Base: base, Tip: widened, OraclesChanged: true, Approved: true, HasChangelog: true, ChangelogTouched: true}, ""},
		{"widened where there is no changelog", Change{Base: base, Tip: widened, OraclesChanged: true, Approved: true}, ""},
		{"tightened", Change{Base: base, Tip: tightened, OraclesChanged: true, Approved: true, HasChangelog: true}, ""},
		{"first oracles", Change{Tip: base, OraclesChanged: true, HasChangelog: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := codesOf(Check(c.c)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	fs := Check(Change{Base: base, Tip: widened, OraclesChanged: true, HasChangelog: true, Changelog: []string{"CHANGELOG*", "changelog/**"}})
	if len(fs) != 1 || !slices.Equal(fs[0].Items, []string{"fee_cap: max 500 -> 900 (widened)"}) || fs[0].Args["patterns"] != "CHANGELOG*, changelog/**" {
		t.Errorf("%+v", fs)
	}
}

func TestIDsAreMentionedByThemselves(t *testing.T) {
	for _, c := range []struct {
		id, text string
		want     bool
	}{
		{"fee_cap", "fee_cap", true},
		{"fee_cap", `check("fee_cap")`, true},
		{"fee_cap", "\xff\x00fee_cap\xff", true},
		{"fee_cap", "x-fee_cap.", true},
		{"fee_cap", "def test_fee_cap():", true},
		{"fee.cap", "test_fee.cap", true},
		{"test_fee", "test_fee", true},
		{"fee_cap", "my_fee_cap", false},
		{"fee_cap", "test_my_fee_cap", false},
		{"fee_cap", "my_test_fee_cap", false},
		{"fee_cap", "test_test_fee_cap", false},
		{"fee_cap", "testfee_cap", false},
		{"fee_cap", "test_fee_cap_2", false},
		{"fee_cap", "Test_fee_cap", false},
		{"_", "test__", true},
		{"_", "test_", false},
		{"fee_cap", "fee_cap2", false},
		{"fee_cap", "fee_capfee_cap", false},
		{"fee_cap", "FEE_CAP", false},
		{"fee_cap", "fee cap", false},
		{"fee_cap", "fee_ca", false},
		{"fee_cap", "fee_cap2 fee_cap", true},
		{"fee.cap", "fee.cap", true},
		{"fee.cap", "shop.fee.cap.x", true},
		{"fee.cap", "fee.caps", false},
		{"fee.cap", "xfee.cap", false},
		{"fee.cap", "fee.", false},
		{"fee.cap", "fee\ncap", false},
		{"a-b.c", "(a-b.c)", true},
		{"a.", "a.", true},
		{"a.", "a.b", false},
		{"a.", "a. b", true},
		{"a-", "b-a-", true},
		{"a..b", "a..b", true},
		{"7", "x = 7", true},
		{"7", "x = 77", false},
		{"fee_cap", "", false},
	} {
		m := Mentions([]string{c.id, "other"})
		m.File([]byte(c.text))
		if got := m.Mentioned(c.id); got != c.want {
			t.Errorf("%q in %q: %t", c.id, c.text, got)
		}
		if m.Mentioned("other") || m.Done() || m.Mentioned("never asked for") {
			t.Errorf("%q: something else was found", c.text)
		}
	}
}

func TestMentionsOfManyFiles(t *testing.T) {
	ids := []string{"a", "a.b", "a.b-c", "a.x", "b", "b", "no id", ""}
	m := Mentions(ids)
	m.File([]byte("a.b"))
	m.File([]byte("-c a.x"))
	if !m.Mentioned("a") || !m.Mentioned("a.b") || !m.Mentioned("a.x") || m.Mentioned("a.b-c") || !m.Mentioned("b") {
		t.Error("files run into each other, or prefixes hide each other")
	}
	m.File([]byte("a.b-c; no id"))
	if !m.Mentioned("a.b-c") || m.Mentioned("no id") || m.Mentioned("") || m.Done() {
		t.Error("the last file")
	}
	m = Mentions([]string{"a", "b"})
	m.File([]byte("b a"))
	if !m.Done() || !Mentions(nil).Done() {
		t.Error("not done")
	}
}

// FuzzMentions: the quick search finds what a slow one finds.
func FuzzMentions(f *testing.F) {
	f.Add("fee.cap", "fee", "x fee.cap fee_")
	f.Add("a-", "a.b", "a-a.b")
	f.Add("a", "test_", "test_a test_test_")
	f.Add("1 0", "1.0", "1 0") // no id, as long as one that starts alike
	f.Fuzz(func(t *testing.T, one, two, text string) {
		m := Mentions([]string{one, two})
		m.File([]byte(text))
		for _, id := range []string{one, two} {
			if got, want := m.Mentioned(id), isID(id) && slowly(id, text); got != want {
				t.Errorf("%q in %q: %t", id, text, got)
			}
		}
	})
}

func slowly(id, text string) bool {
	for i := 0; i+len(id) <= len(text); i++ {
		end := i + len(id)
		if text[i:end] == id && startsWord(text, i) && (end == len(text) || !wordByte[text[end]]) {
			return true
		}
	}
	return false
}

func startsWord(text string, i int) bool {
	before, named := strings.CutSuffix(text[:i], "test_")
	return i == 0 || !wordByte[text[i-1]] || named && (before == "" || !wordByte[before[len(before)-1]])
}
