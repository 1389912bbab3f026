package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/message"
)

const checkSchema = "sealgate-check-v1"

// checkResult is what `git oracle check` found, in the form of --json.
type checkResult struct {
	Schema     string    `json:"schema"`
	Exit       exit      `json:"exit"`
	Remote     string    `json:"remote"` // empty: none
	Gate       bool      `json:"gate"`   // the remote's gate was read
	Base       string    `json:"base"`   // as named; empty: nothing to compare with
	BaseCommit string    `json:"base_commit"`
	Tip        string    `json:"tip"` // the revision, or "worktree"
	Commit     string    `json:"commit"`
	Harness    string    `json:"harness"`
	Invariants int       `json:"invariants"`
	Touched    []string  `json:"touched"`
	Approved   bool      `json:"approved"` // true where nothing was touched
	Label      bool      `json:"label"`
	Meanings   []meaning `json:"meanings"`
	Findings   []check   `json:"findings"`
	Notes      []string  `json:"notes"`

	contact  string
	findings []finding.Finding
}

// check is a finding in the form of --json.
type check struct {
	Code     finding.Code `json:"code"`
	Severity string       `json:"severity"` // refuse, not-judged, warn or note
	Path     string       `json:"path"`
	Line     int          `json:"line"` // 0: none
	ID       string       `json:"id"`
	Fault    string       `json:"fault"` // the stable word of a fault in a file
	What     string       `json:"what"`
	Items    []string     `json:"items"`
}

// verdicts is the seed's order, and after it what the seed has no code for.
var verdicts = []struct {
	code finding.Code
	exit exit
}{
	{finding.ProtectedChangeUnapproved, exitTouched},
	{finding.OracleFault, exitRefused},
	{finding.OracleIDDropped, exitDropped},
	{finding.OracleIDUncovered, exitUncovered},
	{finding.ChangelogMissing, exitRefused},
}

// settle works out the exit code and the findings' own form.
func (r *checkResult) settle() {
	r.Exit = exitOf(r.findings)
	r.Findings = checks(r.findings)
}

func checks(findings []finding.Finding) []check {
	out := []check{}
	for _, f := range findings {
		out = append(out, check{
			Code: f.Code, Severity: severity(f.Severity), Path: f.Path, Line: f.Line,
			ID: f.Args["id"], Fault: f.Args["fault"], What: f.Args["what"], Items: append([]string{}, f.Items...),
		})
	}
	return out
}

func exitOf(findings []finding.Finding) exit {
	has := func(match func(finding.Finding) bool) bool { return slices.ContainsFunc(findings, match) }
	for _, v := range verdicts {
		if has(func(f finding.Finding) bool { return f.Code == v.code && f.Severity == finding.Refuse }) {
			return v.exit
		}
	}
	switch {
	case has(func(f finding.Finding) bool { return f.Severity == finding.Refuse }):
		return exitRefused
	case has(func(f finding.Finding) bool { return f.Severity != finding.Warn && f.Severity != finding.Note }):
		return exitUnchecked
	}
	return exitDone
}

func severity(s finding.Severity) string {
	switch s {
	case finding.Warn:
		return "warn"
	case finding.Note:
		return "note"
	case finding.NotJudged:
		return "not-judged"
	default:
		return "refuse"
	}
}

func (r *checkResult) printJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

func (r *checkResult) print(w io.Writer) error {
	if err := message.Render(w, message.Report{Findings: r.findings, Contact: r.contact, Local: true}); err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", visible(note))
	}
	what := "the files on disk"
	if r.Tip != worktree {
		what = quoted(r.Tip) + " (" + short(r.Commit) + ")"
	}
	against := ""
	if r.Base != "" {
		against = fmt.Sprintf(" against %s (%s)", quoted(r.Base), short(r.BaseCommit))
	}
	verdict := "ok"
	if r.Exit != exitDone {
		verdict = fmt.Sprintf("exit %d", r.Exit)
	}
	_, err := fmt.Fprintf(w, "oracle check: %s: %s, %s%s\n", verdict, plural(r.Invariants, "invariant"), what, against)
	return err
}
