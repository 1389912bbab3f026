package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the man page")

// The man page is made from the verbs; `go test ./cmd/git-oracle -run ManPage
// -update` writes it.
func TestManPageSaysWhatTheVerbsSay(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "man", "git-oracle.1")
	page := manPage((&app{}).root())
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page {
		t.Error("docs/man/git-oracle.1 is not what the verbs say: go test ./cmd/git-oracle -run ManPage -update")
	}
}

// manPage writes man(7) for a tree of verbs.
func manPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(".\\\" Made from the verbs by cmd/git-oracle/man_test.go.\n.TH GIT\\-ORACLE 1 \"\" Sealgate \"Sealgate\"\n.SH NAME\n")
	fmt.Fprintf(&b, "git\\-oracle \\- %s\n.SH SYNOPSIS\n", roff(root.Short))
	each(root, func(verb *cobra.Command) {
		fmt.Fprintf(&b, ".B git %s\n.br\n", roff(useLine(verb)))
	})
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(root.Long) + ".SH VERBS\n")
	each(root, func(verb *cobra.Command) {
		text := verb.Long
		if text == "" {
			text = strings.ToUpper(verb.Short[:1]) + verb.Short[1:] + "."
		}
		fmt.Fprintf(&b, ".SS git %s\n%s", roff(useLine(verb)), paragraphs(text))
		verb.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				b.WriteString(option(f))
			}
		})
		if verb.Example != "" {
			fmt.Fprintf(&b, ".PP\nFor instance:\n.PP\n.nf\n%s\n.fi\n", roff(verb.Example))
		}
	})
	b.WriteString(`.SH EXIT STATUS
0: done. 1: no (refused, a conflict, a fault, not confirmed, a bad key or reason).
2: nothing to sign. 3: not found out. 64: the command line makes no sense.
.B check
and
.B run
have codes of their own: docs/git\-oracle.md.
.SH SEE ALSO
.BR git (1),
.BR ssh\-keygen (1)
`)
	return b.String()
}

// each visits the verbs that do something, in order of name.
func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, verb := range cmd.Commands() {
		switch {
		case verb.HasSubCommands():
			each(verb, visit)
		case verb.Name() != "help" && !verb.Hidden:
			visit(verb)
		}
	}
}

func useLine(verb *cobra.Command) string {
	line := verb.Use
	for at := verb.Parent(); at != nil && at.HasParent(); at = at.Parent() {
		line = at.Name() + " " + line
	}
	return "oracle " + line
}

func option(f *pflag.Flag) string {
	name, text := pflag.UnquoteUsage(f)
	words := "\\-\\-" + roff(f.Name)
	if f.Shorthand != "" {
		words = "\\-" + f.Shorthand + ", " + words
	}
	if name != "" {
		words += " " + roff(name)
	}
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
		text += " (default " + f.DefValue + ")"
	}
	return ".TP\n.B " + words + "\n" + roff(text) + "\n"
}

// paragraphs keeps indented lines as they are.
func paragraphs(text string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.Contains("\n"+part, "\n ") {
			b.WriteString(".PP\n.nf\n" + roff(part) + "\n.fi\n")
			continue
		}
		b.WriteString(".PP\n" + roff(part) + "\n")
	}
	return b.String()
}

// roff escapes what means something to troff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
