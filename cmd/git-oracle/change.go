package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

const (
	maxDiffLines = 2000
	maxDiffWidth = 1000
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

// showDiff writes the textual difference of the protected paths. Attributes
// and configuration that would hide text are switched off, and what could
// steer a terminal is escaped. Each line is indented: none can pass for ours.
func (o *oracleClone) showDiff(ctx context.Context, w io.Writer, from, to string) error {
	args := append([]string{"diff-tree", "-r", "-p", "--text", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative",
		"--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=none", "--submodule=short", "--end-of-options", from, to, "--"},
		o.gate.protected.Pathspecs()...)
	out, err := o.out(ctx, args...)
	if err != nil {
		return undecided("compare the protected paths", err)
	}
	shown := 0
	for line := range bytes.Lines(out) {
		if shown == maxDiffLines {
			fmt.Fprintf(w, "    (%d more lines: git diff %s %s)\n", bytes.Count(out, []byte("\n"))-shown, short(from), short(to))
			break
		}
		shown++
		text := strings.TrimSuffix(string(line), "\n")
		if len(text) > maxDiffWidth {
			text = text[:maxDiffWidth] + fmt.Sprintf(" (%d more bytes)", len(text)-maxDiffWidth)
		}
		fmt.Fprintf(w, "    %s\n", visible(text))
	}
	return nil
}
