package oracle

import (
	"strings"
	"testing"
)

func TestRehashKeepsEverythingButTheDigest(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for name, c := range map[string]struct{ text, want string }{
		"in place": {
			"schema = 1\n# why\n[[invariant]] # first\nid = \"x\"\nblob = \"oracles/b.json\" # cases\nblob_sha256 = \"" + a + "\" # pinned\n",
			"schema = 1\n# why\n[[invariant]] # first\nid = \"x\"\nblob = \"oracles/b.json\" # cases\nblob_sha256 = \"" + b + "\" # pinned\n",
		},
		"literal string": {
			"[[invariant]]\nid = 'x'\nblob = 'oracles/b.json'\n\tblob_sha256='" + a + "'",
			"[[invariant]]\nid = 'x'\nblob = 'oracles/b.json'\n\tblob_sha256='" + b + "'",
		},
		"none yet": {
			"[[invariant]]\nid = \"x\"\nblob = \"oracles/b.json\"\nkind = \"bound\"\n",
			"[[invariant]]\nid = \"x\"\nblob = \"oracles/b.json\"\nblob_sha256 = \"" + b + "\"\nkind = \"bound\"\n",
		},
		"none yet at the end": {
			"[[invariant]]\nid = \"x\"\nblob = \"oracles/b.json\"",
			"[[invariant]]\nid = \"x\"\nblob = \"oracles/b.json\"\nblob_sha256 = \"" + b + "\"\n",
		},
		"placeholder": {
			"[[invariant]]\nid = \"x\"\nblob_sha256 = \"...\"\nblob = \"oracles/b.json\"\n",
			"[[invariant]]\nid = \"x\"\nblob_sha256 = \"" + b + "\"\nblob = \"oracles/b.json\"\n",
		},
		"line ends of another system": {
			"[[invariant]]\r\nid = \"x\"\r\nblob = \"oracles/b.json\"\r\n",
			"[[invariant]]\r\nid = \"x\"\r\nblob = \"oracles/b.json\"\r\nblob_sha256 = \"" + b + "\"\r\n",
		},
		"another table ends the row": {
			"[[invariant]]\nid = \"x\"\n[other]\nblob = \"oracles/b.json\"\n",
			"[[invariant]]\nid = \"x\"\n[other]\nblob = \"oracles/b.json\"\n",
		},
		"a comment is no row": {
			"# [[invariant]]\n# id = \"x\"\n# blob = \"oracles/b.json\"\n",
			"# [[invariant]]\n# id = \"x\"\n# blob = \"oracles/b.json\"\n",
		},
	} {
		got, done := Rehash([]byte(c.text), func(id, blob string) (string, bool) {
			if id != "x" || blob != "oracles/b.json" {
				t.Errorf("%s: asked for %q, %q", name, id, blob)
			}
			return b, true
		})
		if string(got) != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
		if (len(done) == 1) != (c.text != c.want) {
			t.Errorf("%s: done %v", name, done)
		}
	}
}

func TestRehashTouchesOnlyTheRowsAskedFor(t *testing.T) {
	text := "[[invariant]]\nid = \"x\"\nblob = \"oracles/b.json\"\nblob_sha256 = \"old\"\n\n[[invariant]]\nid = \"y\"\nblob = \"oracles/b.json\"\nblob_sha256 = \"old\"\n"
	got, done := Rehash([]byte(text), func(id, _ string) (string, bool) { return "new", id == "y" })
	if want := text[:strings.LastIndex(text, "old")] + "new\"\n"; string(got) != want {
		t.Errorf("got\n%s", got)
	}
	if len(done) != 1 || done[0] != (Rehashed{ID: "y", Blob: "oracles/b.json", Old: "old", New: "new"}) {
		t.Errorf("done %v", done)
	}
}

func FuzzRehash(f *testing.F) {
	f.Add([]byte("[[invariant]]\nid = \"x\"\nblob = \"oracles/b.json\"\nblob_sha256 = \"old\"\n"))
	f.Add([]byte("[[invariant]]\nid = 'x'\nblob = 'oracles/b.json'"))
	f.Fuzz(func(t *testing.T, text []byte) {
		none, _ := Rehash(text, func(string, string) (string, bool) { return "", false })
		if string(none) != string(text) {
			t.Fatalf("nothing asked for, and %q became %q", text, none)
		}
		sum := strings.Repeat("0", 64)
		put := func(string, string) (string, bool) { return sum, true }
		once, _ := Rehash(text, put)
		twice, done := Rehash(once, put)
		if string(twice) != string(once) {
			t.Fatalf("%q became %q the second time", once, twice)
		}
		for _, row := range done {
			if row.Old != sum {
				t.Fatalf("%q kept %q", once, row.Old)
			}
		}
	})
}
