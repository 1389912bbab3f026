package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Bash itself is asked, alone and by way of git's completion, which calls
// _git_oracle with its words.
func TestBashCompletesVerbsAndRefs(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "git-oracle")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "fees", dir + "/w"}, {"-C", dir + "/w", "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "x"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v %s", args, err, out)
		}
	}
	complete := func(words ...string) []string {
		quoted := ""
		for _, w := range words {
			quoted += " '" + w + "'"
		}
		script := bashCompletion + "\nwords=(" + quoted + "); cword=$((${#words[@]} - 1)); cur=${words[cword]}; _git_oracle\n" +
			"printf '%s\\n' \"${COMPREPLY[@]}\"\nCOMP_WORDS=(git-oracle \"${words[@]:2}\"); COMP_CWORD=$((cword - 1)); __git_oracle_alone\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
		cmd := exec.Command("bash", "--norc", "-c", script)
		cmd.Dir = dir + "/w"
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v %s", words, err, out)
		}
		lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		return lines
	}
	for _, c := range []struct{ words, want []string }{
		{[]string{"git", "oracle", "with"}, []string{"withdraw", "withdraw"}},
		{[]string{"git", "oracle", "ver"}, []string{"verify", "version", "verify", "version"}},
		{[]string{"git", "oracle", "approve", "f"}, []string{"fees", "fees"}},
		{[]string{"git", "oracle", "verify", "--for", "f"}, []string{"fees", "fees"}},
		{[]string{"git", "oracle", "completion", "z"}, []string{"zsh", "zsh"}},
		{[]string{"git", "oracle", "withdraw", "--rea"}, []string{"--reason", "--reason"}},
	} {
		if got := complete(c.words...); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}

func TestEveryOptionForARefCompletesRefs(t *testing.T) {
	seen := 0
	each((&app{}).root(), func(verb *cobra.Command) {
		for _, name := range []string{"for", "from"} {
			if verb.Flags().Lookup(name) == nil {
				continue
			}
			seen++
			if _, ok := verb.GetFlagCompletionFunc(name); !ok {
				t.Errorf("%s --%s completes nothing", verb.Name(), name)
			}
		}
	})
	if seen < 6 {
		t.Errorf("%d options", seen)
	}
}
