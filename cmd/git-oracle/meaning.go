package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/message"
	"github.com/sealgate/sealgate/internal/oracle"
)

// screenful is how many lines of one list are shown.
const screenful = 20

// fewest is how many lines are kept for what does not loosen, where there is
// much that does.
const fewest = 5

// meaning is one difference between two sets of oracles, in the form of --json.
type meaning struct {
	ID        string `json:"id"`
	Field     string `json:"field"` // empty: the whole invariant
	Old       string `json:"old"`
	New       string `json:"new"`
	Direction string `json:"direction"`
	Loosens   bool   `json:"loosens"`
	Text      string `json:"text"`
}

func meanings(list []oracle.Meaning) []meaning {
	out := []meaning{}
	for _, m := range list {
		out = append(out, meaning{m.ID, m.Field, m.Old, m.New, m.Direction.String(), m.Loosens, m.String()})
	}
	return out
}

// meaning reads what becomes of the oracles between two trees, as the hook does.
func (o *oracleClone) meaning(ctx context.Context, from, to string) (*gate.OracleChange, error) {
	rules := o.gate.oracleRules()
	specs := []string{oracle.Dir}
	if rules.Harness != "" {
		specs = append(specs, rules.Harness)
	}
	for _, tree := range []string{from, to} {
		if err := o.bringFiles(ctx, tree, specs...); err != nil {
			return nil, err
		}
	}
	change, err := gate.ReadOracleChange(ctx, o.repo, from, to, rules)
	if err != nil {
		return nil, undecided("read the oracle files", err)
	}
	return change, nil
}

// meaningLines are at most a screenful: what loosens first, and marked.
func meaningLines(list []oracle.Meaning) []string {
	var loose, rest []oracle.Meaning
	for _, m := range list {
		if m.Loosens {
			loose = append(loose, m)
		} else {
			rest = append(rest, m)
		}
	}
	var lines []string
	for _, line := range oracle.Lines(loose, screenful-min(fewest, len(rest))) {
		lines = append(lines, "loosens: "+line)
	}
	for _, line := range oracle.Lines(rest, screenful-len(lines)) {
		lines = append(lines, "changes: "+line)
	}
	return lines
}

// hookSays are the hook's words about a change that is approved: what an approval
// does not help, and what a maintainer should know.
func hookSays(findings []finding.Finding) []string {
	var b strings.Builder
	_ = message.Render(&b, message.Report{Findings: findings, Local: true}) // a builder takes everything
	return capped(strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' }))
}

// capped keeps a screenful of lines and counts the rest.
func capped(lines []string) []string {
	if len(lines) <= screenful {
		return lines
	}
	return append(lines[:screenful-1:screenful-1], fmt.Sprintf("and %d more lines", len(lines)-screenful+1))
}

// printFiles lists the entries that change, at most a screenful of them.
func printFiles(w io.Writer, files []change) {
	var lines []string
	for _, file := range files {
		lines = append(lines, file.line())
	}
	printAll(w, "  ", capped(lines))
}
