package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/oracle"
)

const (
	maxDiffLines = 2000
	maxDiffWidth = 1000
	shortDiff    = 40 // lines of a difference whose meaning has been said
)

// change is one entry of the protected paths that differs between two trees.
type change struct {
	Status  string `json:"status"` // A, D, M (content or mode), T (type)
	OldMode string `json:"old_mode"`
	NewMode string `json:"new_mode"`
	Old     string `json:"old"`
	New     string `json:"new"`
	Path    string `json:"path"`
}

// changes are the protected entries that differ between two trees, in byte
// order of path. A rename is a deletion and an addition.
func (o *oracleClone) changes(ctx context.Context, from, to string) ([]change, error) {
	args := append([]string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-relative",
		"--ignore-submodules=none", "--end-of-options", from, to, "--"}, o.gate.protected.Pathspecs()...)
	out, err := o.out(ctx, args...)
	if err != nil {
		return nil, undecided("compare the protected paths", err)
	}
	all, err := parseRaw(out)
	if err != nil {
		return nil, undecided("compare the protected paths", err)
	}
	var ours []change
	for _, one := range all {
		if o.gate.protected.Match([]byte(one.Path)) {
			ours = append(ours, one)
		}
	}
	return ours, nil
}

// parseRaw reads git-diff-tree(1)'s -z --raw form without renames.
func parseRaw(out []byte) ([]change, error) {
	var list []change
	for len(out) > 0 {
		meta, rest, ok1 := bytes.Cut(out, []byte{0})
		path, rest, ok2 := bytes.Cut(rest, []byte{0})
		fields := strings.Fields(strings.TrimPrefix(string(meta), ":"))
		if !ok1 || !ok2 || len(fields) != 5 || meta[0] != ':' {
			return nil, errors.New("git diff-tree: a record makes no sense")
		}
		list = append(list, change{OldMode: fields[0], NewMode: fields[1], Old: fields[2], New: fields[3], Status: fields[4][:1], Path: string(path)})
		out = rest
	}
	return list, nil
}

// line is the change in one line: "M oracles/fees.toml", with what git's
// letter leaves out.
func (c change) line() string {
	text := c.Status + " " + quoted(c.Path)
	switch {
	case c.Status == "A" && c.NewMode != "100644":
		return text + " (" + kind(c.NewMode) + ")"
	case c.Status == "D" && c.OldMode != "100644":
		return text + " (" + kind(c.OldMode) + ")"
	case c.Status != "A" && c.Status != "D" && c.OldMode != c.NewMode:
		return fmt.Sprintf("%s (%s -> %s)", text, kind(c.OldMode), kind(c.NewMode))
	}
	return text
}

// kind names what a mode stands for; a spelling that git does not write is shown
// as it is.
func kind(mode string) string {
	m, err := filemode.New(mode)
	if err != nil {
		return "mode " + mode
	}
	switch m {
	case filemode.Regular:
		return "file"
	case filemode.Executable:
		return "executable"
	case filemode.Symlink:
		return "symlink"
	case filemode.Submodule:
		return "submodule"
	case filemode.Dir:
		return "directory"
	default:
		return "mode " + mode
	}
}

// showText writes the textual difference. Of what the meaning has been said, long text
// is left out unless it is asked for; all other text is shown.
func (o *oracleClone) showText(ctx context.Context, w io.Writer, s step, files []change, means *gate.OracleChange, all bool) error {
	told := o.told(files, means)
	if all || len(told) == 0 {
		return o.showDiff(ctx, w, s, maxDiffLines, o.gate.protected.Pathspecs()...)
	}
	others, ours := o.gate.protected.Pathspecs(), []string{}
	for _, path := range told {
		others, ours = append(others, ":(top,exclude,literal)"+path), append(ours, ":(top,literal)"+path)
	}
	if err := o.showDiff(ctx, w, s, maxDiffLines, others...); err != nil {
		return err
	}
	out, err := o.diff(ctx, s, ours...)
	if err != nil {
		return err
	}
	if n := bytes.Count(out, []byte("\n")); n > shortDiff {
		fmt.Fprintf(w, "    (the text of the oracles above differs in %d lines: --diff shows them, or  %s -- oracles)\n", n, byHand(s))
		return nil
	}
	printDiff(w, s, out, shortDiff)
	return nil
}

// told are the files of which the meaning says what changes: those that the oracles are
// read from, on each side where they are. Beyond so many, none is left out.
func (o *oracleClone) told(files []change, means *gate.OracleChange) []string {
	if len(means.Meanings) == 0 || len(means.Base.Faults) > 0 || len(means.Tip.Faults) > 0 || !o.gate.protected.Match([]byte(oracle.Dir)) {
		return nil
	}
	before, after := readFrom(means.Base), readFrom(means.Tip)
	var paths []string
	for _, c := range files {
		was := c.OldMode == noMode || isFile(c.OldMode) && before(c.Path)
		is := c.NewMode == noMode || isFile(c.NewMode) && after(c.Path)
		if was && is {
			paths = append(paths, c.Path)
		}
	}
	if len(paths) > maxTold {
		return nil
	}
	return paths
}

const (
	noMode  = "000000" // of an entry that is not there
	maxTold = 1000
)

func isFile(mode string) bool { return mode == "100644" || mode == "100755" }

// readFrom tells which files a set of oracles was read from.
func readFrom(set oracle.Set) func(path string) bool {
	blobs := map[string]bool{}
	for _, one := range set.Invariants {
		blobs[one.Blob] = true
	}
	return func(path string) bool {
		name, below := strings.CutPrefix(path, oracle.Dir+"/")
		return below && (blobs[path] || path == oracle.ManifestPath || strings.HasSuffix(name, ".toml") && !strings.Contains(name, "/"))
	}
}

// byHand is a command that shows a difference by git's own means, whatever attributes
// and configuration would hide of it.
func byHand(s step) string {
	return fmt.Sprintf("git diff --text --no-textconv --no-ext-diff --no-renames %s %s", short(s.BeforeTree), short(s.AfterTree))
}

// showDiff writes the textual difference of some paths.
func (o *oracleClone) showDiff(ctx context.Context, w io.Writer, s step, most int, specs ...string) error {
	out, err := o.diff(ctx, s, specs...)
	if err != nil {
		return err
	}
	printDiff(w, s, out, most)
	return nil
}

// diff is the textual difference. Attributes and configuration that would hide
// text are switched off.
func (o *oracleClone) diff(ctx context.Context, s step, specs ...string) ([]byte, error) {
	args := append([]string{"diff-tree", "-r", "-p", "--text", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative",
		"--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=none", "--submodule=short", "--end-of-options", s.BeforeTree, s.AfterTree, "--"}, specs...)
	out, err := o.out(ctx, args...)
	if err != nil {
		return nil, undecided("compare the protected paths", err)
	}
	return out, nil
}

// printDiff escapes what could steer a terminal, and indents each line: none can
// pass for ours.
func printDiff(w io.Writer, s step, out []byte, most int) {
	shown := 0
	for line := range bytes.Lines(out) {
		if shown == most {
			fmt.Fprintf(w, "    (%d more lines:  %s)\n", bytes.Count(out, []byte("\n"))-shown, byHand(s))
			break
		}
		shown++
		text := strings.TrimSuffix(string(line), "\n")
		if len(text) > maxDiffWidth {
			text = text[:maxDiffWidth] + fmt.Sprintf(" (%d more bytes)", len(text)-maxDiffWidth)
		}
		fmt.Fprintf(w, "    %s\n", visible(text))
	}
}
