package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/report"
)

// writeReport writes what was found to a file, to the remote, or both.
func (a *app) writeReport(ctx context.Context, c *clone, s *subject, found *runResult, opts runOptions) error {
	data, err := contributed(s, found).Write()
	if err != nil {
		return undecided("make the report", err)
	}
	if opts.report != "" {
		if err := os.WriteFile(opts.report, data, 0o644); err != nil {
			return undecided("write the report", err)
		}
		fmt.Fprintf(a.stderr, "report of tree %s: %s\n", short(s.tree), quoted(opts.report))
	}
	if !opts.push {
		return nil
	}
	name := opts.pushTo
	if name == "" {
		if name, err = c.pickRemote(ctx, a.remote); err != nil {
			return err
		}
	}
	blob, err := c.feed(ctx, data, "hash-object", "-t", "blob", "-w", "--stdin")
	if err != nil {
		return undecided("store the report", err)
	}
	ref := report.Root + s.tree
	err = c.talk(ctx, nil, "-c", "remote."+name+".mirror=false", "push", "--quiet", "--no-verify", "--no-follow-tags", "--no-thin",
		"--recurse-submodules=no", "--end-of-options", name, "+"+strings.TrimSpace(string(blob))+":"+ref)
	if err != nil {
		return undecided(quoted(name)+" did not take the report", err)
	}
	fmt.Fprintf(a.stderr, "report of tree %s: %s of %s\n", short(s.tree), ref, quoted(name))
	return nil
}

// contributed is the report of a run.
func contributed(s *subject, found *runResult) report.Report {
	r := report.Report{Tree: s.tree, Outcomes: map[string]report.Outcome{}, Tool: "git-oracle " + version, Made: time.Now()}
	for _, one := range found.Invariants {
		if report.ValidID(one.ID) {
			r.Outcomes[one.ID] = one.Outcome
		}
	}
	if h := found.Harness; h.Outcome == report.Passed || h.Outcome == report.Failed {
		r.Harness = &report.Harness{Command: recordable(h.Command), Exit: h.Exit}
	}
	return r
}

// recordable is a command as a report may have it.
func recordable(command []string) []string {
	const most = 1000
	var out []string
	for _, one := range command {
		one = strings.Map(func(c rune) rune {
			if c < ' ' || c >= 0x7f && c < 0xa0 {
				return ' '
			}
			return c
		}, strings.ToValidUTF8(one, "?"))
		if len(one) > most {
			one = strings.ToValidUTF8(one[:most], "")
		}
		out = append(out, one)
	}
	return out
}
