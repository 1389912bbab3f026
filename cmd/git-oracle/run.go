package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/oracle"
	"github.com/sealgate/sealgate/internal/report"
)

// What `git oracle run` answers to scripts, beside 3 and 64.
const (
	exitFailed    exit = 1 // an invariant or the harness failed, or an outcome depends on the environment
	exitDidNotRun exit = 2 // an invariant did not run, or there was nothing to run
	exitNoHarness exit = 4 // the invariants passed, and the harness could not be run
)

type runOptions struct {
	ids       []string
	commit    string
	asJSON    bool
	python    string
	node      string
	sources   []string
	noHarness bool
	harness   string
	report    string
	push      bool
	pushTo    string
}

func (a *app) runVerb() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run the invariants and the harness here, as a clean run would",
		Long: `Runs the invariants of oracles/ against the files of the working tree (or of a
commit), each in two environments, with the drivers and the judge that the
server's replay host uses, and then the repository's own harness. Says for each
invariant whether it passed, failed or did not run, and why.

This runs the code on this machine with your rights, WITHOUT a sandbox.

With --report or --push it writes down what it found, for servers that compare
a contributor's own run with a clean one.`,
		Args: func(_ *cobra.Command, args []string) error { return opts.check(args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), terminating...)
			defer stop()
			err := a.runOracles(ctx, opts)
			if err != nil && ctx.Err() != nil {
				return undecided("interrupted; what was started has been ended", nil)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&opts.ids, "id", nil, "only this invariant (again for more), and no harness unless its command is given")
	flags.StringVar(&opts.commit, "commit", "", "run the files of `REV`, checked out into a temporary directory")
	flags.BoolVar(&opts.asJSON, "json", false, "print "+runSchema+" as JSON")
	flags.StringVar(&opts.node, "node", "", "the Node `PATH` for entries node:… (default: node)")
	flags.StringVar(&opts.python, "python", "", "the interpreter `PATH` (default: python3)")
	flags.StringArrayVar(&opts.sources, "source", nil, "a `DIR` that modules are imported from (again for more; default: git config oracle.source, else the top)")
	flags.BoolVar(&opts.noHarness, "no-harness", false, "leave the harness out")
	flags.StringVar(&opts.harness, "harness-command", "", "run the harness with this shell `COMMAND` (default: git config oracle.harness, else pytest)")
	flags.StringVar(&opts.report, "report", "", "write "+report.Schema+" to `FILE`")
	flags.BoolVar(&opts.push, "push", false, "push the report to the gated remote, or to the REMOTE that follows")
	a.remoteFlag(cmd)
	return cmd
}

// check reads the one argument that may follow: run --push [REMOTE].
func (opts *runOptions) check(args []string) error {
	switch {
	case len(args) > 1 || len(args) == 1 && !opts.push:
		return usage("run takes no argument but the remote of --push, and there is %q", args[0])
	case len(args) == 1 && (args[0] == "" || strings.HasPrefix(args[0], "-")):
		return usage("a remote has no name like %q", args[0])
	case len(opts.ids) > 0 && opts.reports():
		return usage("a report is about all invariants: leave out --id, or --report and --push")
	case opts.noHarness && opts.harness != "":
		return usage("--no-harness and --harness-command exclude each other")
	}
	opts.pushTo = strings.Join(args, "")
	for _, dir := range opts.sources {
		if !localDir(dir) {
			return usage("--source %q: want a directory below the top of the tree", dir)
		}
	}
	return nil
}

func (opts *runOptions) reports() bool { return opts.report != "" || opts.push }

// runOracles is the verb.
func (a *app) runOracles(ctx context.Context, opts runOptions) error {
	c, err := openClone(ctx, os.Environ(), a.stdin, a.stderr)
	if err != nil {
		return err
	}
	sight := c.lookForGate(ctx, a.remote)
	defer sight.end()
	s, err := c.subject(ctx, opts, sight)
	if err != nil {
		return err
	}
	defer s.close()
	set, err := s.oracles(ctx)
	if err != nil {
		return err
	}
	wanted, err := selected(set, opts.ids)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "note: this runs the code of %s on this machine, with your rights and without a sandbox\n", s.describe())
	for _, f := range loose(set) {
		fmt.Fprintf(a.stderr, "note: %s\n", faultLine(f))
	}
	out := &runResult{Schema: runSchema, Commit: s.commit, Tree: s.tree, Invariants: []ranInvariant{}}
	if out.Invariants, err = c.judgeHere(ctx, s, wanted, opts); err != nil {
		return err
	}
	out.Invariants = append(out.Invariants, broken(set, opts.ids)...)
	if !opts.asJSON {
		out.printInvariants(a.stdout)
	}
	if out.Harness, err = a.runHarness(ctx, c, s, opts, sight); err != nil {
		return err
	}
	if opts.asJSON {
		err = out.printJSON(a.stdout)
	} else {
		out.printEnd(a.stdout)
	}
	for _, hint := range out.Harness.hints {
		fmt.Fprintf(a.stderr, "hint: %s\n", visible(hint))
	}
	if err == nil && opts.reports() {
		err = a.writeReport(ctx, c, s, out, opts)
	}
	if err != nil {
		return err
	}
	return out.end()
}

// selected are the invariants to run: all that can be judged, or those named.
func selected(set oracle.Set, ids []string) ([]oracle.Invariant, error) {
	for _, id := range ids {
		if !slices.Contains(set.IDs, id) {
			return nil, usage("no invariant is called %q: there are %s", id, listed(set.IDs))
		}
	}
	var wanted []oracle.Invariant
	for _, inv := range set.Invariants {
		if len(ids) == 0 || slices.Contains(ids, inv.ID) {
			wanted = append(wanted, inv)
		}
	}
	return wanted, nil
}

func listed(ids []string) string {
	const shown = 20
	switch {
	case len(ids) == 0:
		return "none"
	case len(ids) > shown:
		return strings.Join(ids[:shown], ", ") + fmt.Sprintf(" and %d more", len(ids)-shown)
	default:
		return strings.Join(ids, ", ")
	}
}

// broken are the invariants, and files, that have a fault and cannot be judged.
func broken(set oracle.Set, ids []string) []ranInvariant {
	var out []ranInvariant
	for _, name := range set.Broken {
		if len(ids) > 0 && !slices.Contains(ids, name) {
			continue
		}
		one := ranInvariant{ID: name, Outcome: report.DidNotRun, First: report.DidNotRun, Second: report.DidNotRun, Detail: "the oracle files have a fault: git oracle check"}
		for _, f := range set.Faults {
			if f.ID == name || f.File == name {
				one.Detail = faultLine(f)
				break
			}
		}
		out = append(out, one)
	}
	return out
}

// loose are the first faults that keep no invariant from being judged, the
// manifest's for one; git oracle check has them all.
func loose(set oracle.Set) []oracle.Fault {
	const shown = 5
	var out []oracle.Fault
	for _, f := range set.Faults {
		if len(out) < shown && !slices.Contains(set.Broken, f.ID) && !slices.Contains(set.Broken, f.File) {
			out = append(out, f)
		}
	}
	return out
}

func faultLine(f oracle.Fault) string {
	if f.Line == 0 {
		return quoted(f.File) + ": " + f.What
	}
	return fmt.Sprintf("%s:%d: %s", quoted(f.File), f.Line, f.What)
}

// end is the exit code: the gravest of what happened.
func (r *runResult) end() error {
	code := exitDone
	switch t := r.tally(); {
	case t.failed > 0 || t.coupled > 0 || r.Harness.Outcome == report.Failed:
		code = exitFailed
	case t.didNotRun > 0 || len(r.Invariants) == 0 && r.Harness.Outcome == report.Unknown:
		code = exitDidNotRun
	case r.Harness.Outcome == report.DidNotRun:
		code = exitNoHarness
	}
	if code == exitDone {
		return nil
	}
	return said(code)
}
