package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/policy"
)

func paths(entries []Entry) string {
	var list []string
	for _, e := range entries {
		list = append(list, e.Path)
	}
	return strings.Join(list, " ")
}

func TestEntriesAreFoundByPath(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	file := r.blob("x")
	inner := r.tree(Entry{"h", "100644", file})
	outer := r.tree(Entry{"a", "100644", file}, Entry{"t", "40000", inner})
	link := r.tree(Entry{"t", "120000", file})
	odd := r.tree(Entry{"t", "40755", inner})
	unsorted := r.tree(Entry{"z", "100644", file}, Entry{"a", "100644", file})
	cut := r.git("100644 a", "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
	for _, c := range []struct{ treeish, path, mode string }{
		{outer, "a", "100644"}, {outer, "t", "40000"}, {outer, "t/h", "100644"}, {outer, "t/h/x", ""}, {outer, "a/h", ""},
		{outer, "b", ""}, {outer, "t/g", ""}, {link, "t", "120000"}, {link, "t/h", ""}, {odd, "t/h", "100644"}, {"", "a", ""},
		{unsorted, "a", "100644"}, {cut, "a", ""},
	} {
		found, err := Lookup(ctx, r.Repo, []string{outer, c.treeish}, "none", c.path)
		if err != nil {
			t.Fatal(err)
		}
		got := found[1][1]
		if got.Mode != c.mode || (got == Entry{}) != (c.mode == "") || c.mode != "" && got.Path != c.path || found[0][0] != (Entry{}) {
			t.Errorf("%q in %q: %+v, want mode %q", c.path, c.treeish, got, c.mode)
		}
	}
	if _, err := Lookup(ctx, r.Repo, []string{strings.Repeat("1", 40)}, "a"); err == nil {
		t.Error("a tree that is not there has entries")
	}
}

func TestLeavesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	file := r.blob("x")
	var many []Entry
	for i := range 50 {
		many = append(many, Entry{fmt.Sprintf("f%02d", i), "100644", file})
	}
	wide := r.tree(many...)
	var wider []Entry
	for i := range 50 {
		wider = append(wider, Entry{fmt.Sprintf("d%02d", i), "40000", wide})
	}
	top := Entry{Path: "h", Mode: "40000", ID: r.tree(wider...)}
	got, err := Leaves(ctx, r.Repo, top, 3000)
	if err != nil || len(got) != 2500 || got[0].Path != "h/d00/f00" {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	if _, err := Leaves(ctx, r.Repo, top, 1000); !errors.Is(err, ErrTooMany) {
		t.Errorf("2500 files, 1000 are read: %v", err)
	}
	if got, err := Leaves(ctx, r.Repo, Entry{Path: "h", Mode: "120000", ID: file}, 10); err != nil || paths(got) != "h" {
		t.Errorf("a link: %q, %v", paths(got), err)
	}
	if got, err := Leaves(ctx, r.Repo, Entry{}, 10); err != nil || got != nil {
		t.Errorf("nothing: %q, %v", paths(got), err)
	}
}

func TestPatternsFindTheirFilesWithoutReadingAllTrees(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	file := r.blob("x")
	gone := Entry{"src", "40000", strings.Repeat("2", 40)} // read by nobody: it is not there
	deep := r.tree(Entry{"news.md", "100644", file}, Entry{"other.md", "100644", file})
	docs := r.tree(Entry{"de", "40000", deep}, Entry{"en", "40000", deep}, Entry{"news.md", "100644", file})
	log := r.tree(Entry{"1", "100644", file}, Entry{"2", "120000", file})
	tree := r.tree(Entry{"CHANGELOG.d", "40000", log}, Entry{"CHANGELOG.md", "100644", file}, Entry{"changelog", "40000", log}, Entry{"docs", "40000", docs}, gone)
	for _, c := range []struct{ patterns, want string }{
		{"CHANGELOG*", "CHANGELOG.d/1 CHANGELOG.d/2 CHANGELOG.md"},
		{"changelog/**", "changelog/1 changelog/2"},
		{"docs/*/news.md", "docs/de/news.md docs/en/news.md"},
		{"docs/**/news.md", "docs/de/news.md docs/en/news.md docs/news.md"},
		{"NEWS", ""},
	} {
		p, err := policy.ParsePatterns([]string{c.patterns})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Matching(ctx, r.Repo, tree, p, 100)
		if err != nil || paths(got) != c.want {
			t.Errorf("%s: %q, want %q, %v", c.patterns, paths(got), c.want, err)
		}
		if _, err := Matching(ctx, r.Repo, tree, p, 1); c.want != "" && !errors.Is(err, ErrTooMany) {
			t.Errorf("%s: more than one is read: %v", c.patterns, err)
		}
	}
}
