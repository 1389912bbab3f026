package main

import (
	"slices"
	"strings"
	"testing"
)

func TestGitVersionsThatMergeTrees(t *testing.T) {
	for text, want := range map[string]bool{
		"git version 2.38.0":                 true,
		"git version 2.39.5 (Apple Git-154)": true,
		"git version 3.0":                    true,
		"git version 2.50.0.windows.1":       true,
		"git version 2.37.9":                 false,
		"git version 1.99":                   false,
		"git version 2":                      false,
		"":                                   false,
	} {
		if got := recentGit(text); got != want {
			t.Errorf("recentGit(%q) = %v", text, got)
		}
	}
}

func TestMergeTreeAnswersAreRead(t *testing.T) {
	tree := strings.Repeat("a", 40)
	blob := strings.Repeat("b", 40)
	entry := "100644 " + blob + " 2\t"
	for name, c := range map[string]struct {
		out  string
		want []string
		bad  bool
	}{
		"clean":           {out: tree + "\x00\x00"},
		"clean, messages": {out: tree + "\x00\x001\x00a\x00Auto-merging\x00Auto-merging a\n\x00"},
		"conflict":        {out: tree + "\x00" + entry + "oracles/a\tb\x00\x001\x00oracles/a\tb\x00CONFLICT (contents)\x00text\n\x00", want: []string{"oracles/a\tb", "oracles/a\tb"}},
		"only told":       {out: tree + "\x00" + entry + "x~main\x00\x002\x00x~main\x00x\x00CONFLICT (file/directory)\x00text\n\x00", want: []string{"x~main", "x~main", "x"}},
		"empty":           {out: "", bad: true},
		"no tree":         {out: "hello\x00\x00", bad: true},
		"no tab":          {out: tree + "\x00entry\x00\x00", bad: true},
		"short message":   {out: tree + "\x00\x009\x00a\x00b\x00c\x00", bad: true},
	} {
		got, conflicts, err := parseMergeTree([]byte(c.out))
		if (err != nil) != c.bad || !c.bad && got != tree || !slices.Equal(conflicts, c.want) {
			t.Errorf("%s: %q %q %v", name, got, conflicts, err)
		}
	}
}

func TestVariablesThatChangeMeaningAreDropped(t *testing.T) {
	env := meaningfulEnv([]string{"HOME=/h", "GIT_LITERAL_PATHSPECS=1", "GIT_REPLACE_REF_BASE=refs/x/", "GIT_DIR=/d", "SSH_AUTH_SOCK=/s"})
	for _, want := range []string{"HOME=/h", "GIT_DIR=/d", "SSH_AUTH_SOCK=/s", "GIT_NO_REPLACE_OBJECTS=1"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is gone: %q", want, env)
		}
	}
	for _, entry := range env {
		if strings.HasPrefix(entry, "GIT_LITERAL") || strings.HasPrefix(entry, "GIT_REPLACE_REF_BASE") {
			t.Errorf("%s is still there", entry)
		}
	}
}
