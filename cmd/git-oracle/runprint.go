package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/sealgate/sealgate/internal/report"
)

const runSchema = "oracle-run-v1"

// runResult is what `git oracle run` found, in the form of --json.
type runResult struct {
	Schema     string         `json:"schema"`
	Commit     string         `json:"commit"` // what HEAD is, or --commit; empty where there is none
	Tree       string         `json:"tree"`
	Invariants []ranInvariant `json:"invariants"`
	Harness    harnessResult  `json:"harness"`
}

// ranInvariant is one invariant after two passes, or the name of a file from
// which not every id could be read.
type ranInvariant struct {
	ID      string         `json:"id"`
	Kind    string         `json:"kind"` // empty: not known, the row has a fault
	Outcome report.Outcome `json:"outcome"`
	First   report.Outcome `json:"first"`  // in the one environment
	Second  report.Outcome `json:"second"` // and in the other
	Coupled bool           `json:"environment"`
	By      []string       `json:"coupled_by"` // what it depends on; empty where it does not, or nothing was found out
	Row     int            `json:"row"`        // the first bad one, from 1; 0 is none
	Detail  string         `json:"detail"`
	Output  string         `json:"output"` // of code that did not load
}

// harnessResult is how the repository's own harness ended. Outcome is empty
// where none was run, as asked or because there is none.
type harnessResult struct {
	Directory string         `json:"directory"`
	Command   []string       `json:"command"`
	Outcome   report.Outcome `json:"outcome"`
	Exit      int            `json:"exit"`
	Detail    string         `json:"detail"`

	hints []string
}

type runTally struct{ passed, failed, didNotRun, coupled int }

func (r *runResult) tally() runTally {
	var t runTally
	for _, one := range r.Invariants {
		switch one.Outcome {
		case report.Passed:
			t.passed++
		case report.Failed:
			t.failed++
		default:
			t.didNotRun++
		}
		if one.Coupled {
			t.coupled++
		}
	}
	return t
}

func (r *runResult) printJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// printInvariants prints a line for each: first the word that scripts cut out.
func (r *runResult) printInvariants(w io.Writer) {
	for _, one := range r.Invariants {
		fmt.Fprintf(w, "%-11s  %s\n", one.Outcome, one.words())
		for line := range strings.Lines(one.Output) {
			fmt.Fprintf(w, "  | %s\n", visible(strings.TrimRight(line, "\r\n")))
		}
	}
}

func (one ranInvariant) words() string {
	words := quoted(one.ID)
	if one.Coupled {
		words += ": depends on its environment"
		if len(one.By) > 0 {
			words += ": " + strings.Join(one.By, ", ")
		}
		if one.First != one.Second {
			words += fmt.Sprintf(" (first run: %s, second: %s)", one.First, one.Second)
		}
	}
	if one.Detail != "" {
		words += ": " + visible(one.Detail)
	}
	return words
}

func (r *runResult) printEnd(w io.Writer) {
	t := r.tally()
	parts := []string{fmt.Sprintf("%d passed", t.passed)}
	if t.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", t.failed))
	}
	if t.didNotRun > 0 {
		parts = append(parts, fmt.Sprintf("%d did not run", t.didNotRun))
	}
	if t.coupled > 0 {
		parts = append(parts, fmt.Sprintf("%d dependent on the environment", t.coupled))
	}
	sum := "no invariants"
	if n := len(r.Invariants); n > 0 {
		sum = "invariants: " + strings.Join(parts, ", ")
	}
	fmt.Fprintf(w, "%s; harness: %s\n", sum, r.Harness.words())
}

func (h harnessResult) words() string {
	words := string(h.Outcome)
	if h.Outcome == report.Unknown {
		words = "none"
	}
	if h.Detail != "" {
		words += " (" + visible(h.Detail) + ")"
	}
	return words
}
