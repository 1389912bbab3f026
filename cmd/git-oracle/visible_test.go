package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestForeignTextIsShownForWhatItIs(t *testing.T) {
	for _, c := range []struct{ in, line, name, shell string }{
		{"plain/path", "plain/path", "plain/path", "plain/path"},
		{"", "", `""`, "''"},
		{"a b", "a b", `"a b"`, "'a b'"},
		{"a\tb", "a\tb", `"a\tb"`, "'a\tb'"},
		{"it's", "it's", "it's", `'it'\''s'`},
		{"$(rm)", "$(rm)", "$(rm)", "'$(rm)'"},
		{"a\x1b[2Kb", `a\x1b[2Kb`, `"a\x1b[2Kb"`, `"a\x1b[2Kb"`},
		{"\u202eabc", `\u202eabc`, `"\u202eabc"`, `"\u202eabc"`},
		{"x\u200by\u3164", `x\u200by\u3164`, `"x\u200by\u3164"`, `"x\u200by\u3164"`},
		{"\U000e0041", `\U000e0041`, `"\U000e0041"`, `"\U000e0041"`},
		{"\xff", `\xff`, `"\xff"`, `"\xff"`},
		{"café", "café", `"café"`, `"café"`},
		{`a"b\c`, `a"b\c`, `"a\"b\\c"`, `'a"b\c'`},
		{"a\nb", `a\x0ab`, `"a\nb"`, `"a\nb"`},
		{"\u009b2K", `\u009b2K`, `"\u009b2K"`, `"\u009b2K"`},
	} {
		if got := visible(c.in); got != c.line {
			t.Errorf("visible(%q) = %q, want %q", c.in, got, c.line)
		}
		if got := quoted(c.in); got != c.name {
			t.Errorf("quoted(%q) = %q, want %q", c.in, got, c.name)
		}
		if got := word(c.in); got != c.shell {
			t.Errorf("word(%q) = %q, want %q", c.in, got, c.shell)
		}
	}
}

func FuzzVisibleLeavesNothingThatSteers(f *testing.F) {
	for _, seed := range []string{"a", "\x1b]0;x\x07", "\u202e", "\xff\xfe", "\r\n", "é\u0301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, out := range []string{visible(in), quoted(in), word(in)} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool { return !shows(r) }) {
				t.Fatalf("%q becomes %q", in, out)
			}
		}
	})
}
