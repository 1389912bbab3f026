package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every example of docs/git-oracle.md, an indented block that begins with "$ ",
// shows what a script compares the command's output with.
func TestTheExamplesOfTheDocsAreRealOutput(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "git-oracle.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := examples(string(doc))
	if len(shown) < 8 {
		t.Fatalf("found %d examples", len(shown))
	}
	compared := goldens(t)
	for _, one := range shown {
		if one.output == "\n" || !strings.Contains(compared, "\n"+one.output) {
			t.Errorf("no script has this output of %q:\n%s", one.command, one.output)
		}
	}
}

type example struct{ command, output string }

// examples reads the blocks; a command may go on after a backslash. Those of
// `git oracle run` depend on the machine.
func examples(doc string) []example {
	var found []example
	var at *example
	within := false
	for line := range strings.Lines(doc) {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case !indented && line != "\n":
			at, within = nil, false
		case strings.HasPrefix(text, "$ "):
			found = append(found, example{command: strings.TrimSpace(text[2:])})
			at, within = &found[len(found)-1], strings.HasSuffix(text, "\\\n")
		case within:
			within = strings.HasSuffix(text, "\\\n")
		case at != nil:
			at.output += text
		}
	}
	found = slices.DeleteFunc(found, func(e example) bool { return strings.Contains(e.command, "git oracle run") })
	for i := range found {
		found[i].output = strings.TrimRight(found[i].output, "\n") + "\n"
	}
	return found
}

func goldens(t *testing.T) string {
	t.Helper()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	var b strings.Builder
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n" + string(text))
	}
	return b.String()
}
