package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// checkOptions are the flags of `git oracle check`.
type checkOptions struct {
	base    string // as named; empty: found
	commit  string // what is checked; empty: the working tree
	offline bool
	json    bool
}

func (a *app) checkVerb() *cobra.Command {
	var opts checkOptions
	worktree := false
	cmd := &cobra.Command{
		Use:   "check [BASE]",
		Short: "check the oracle files, as the hook does",
		Long: `Checks what a commit of the working tree would bring: that the oracle files, their
blobs and the manifest fit together, that no invariant of BASE is gone, that the
harness names every one, and whether a change of the oracles is approved. The
code and the words are the hook's. Every fault is told, with its file and line.

The change is compared with BASE, from where the two part: by default the
environment's ORACLE_DIFF_BASE, else the upstream branch where it is a protected
one, else the first protected ref of the remote. It works without a remote, and
without a gate: oracles/ and harness/ are assumed then.

Exit codes, the first that applies:
  2   protected files changed, and no approval was found (passed over where the
      list PR_LABELS has oracle-change; an approval that is not)
  1   a fault in the oracle files
  3   an invariant of BASE is gone, without an approval
  4   an invariant is not named in the harness
  1   an oracle was loosened, and the changelog does not say so
  0   fine
  5   not found out
  64  the command line makes no sense`,
		Example: `  git oracle check
  git oracle check origin/main --commit HEAD
  ORACLE_DIFF_BASE=origin/main git oracle check --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("check compares with one BASE, and there are %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if worktree && opts.commit != "" {
				return usage("--worktree and --commit exclude each other")
			}
			if len(args) > 0 {
				opts.base = args[0]
			}
			return uncheckedError(cmd.Context(), a.check(cmd.Context(), opts))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&worktree, "worktree", false, "check the files on disk, committed or not, but for ignored ones (the default)")
	flags.StringVar(&opts.commit, "commit", "", "check the commit `REV`, for instance HEAD, instead of the files on disk")
	flags.BoolVar(&opts.offline, "offline", false, "do not ask the remote: its gate and approvals are not known then")
	flags.BoolVar(&opts.json, "json", false, "print "+checkSchema+" as JSON")
	a.remoteFlag(cmd)
	return cmd
}

func (a *app) check(ctx context.Context, opts checkOptions) (err error) {
	defer func() {
		if p := recover(); p != nil { // a panic would exit with 2, which has a meaning here
			err = fmt.Errorf("check: %v\n%s", p, debug.Stack())
		}
	}()
	c, err := openClone(ctx, os.Environ(), a.stdin, a.stderr)
	if err != nil {
		return err
	}
	k, err := c.checking(ctx, a.remote, opts)
	if err != nil {
		return err
	}
	defer k.close()
	result, err := k.run(ctx)
	if err != nil {
		return err
	}
	if opts.json {
		err = result.printJSON(a.stdout)
	} else {
		err = result.print(a.stdout)
	}
	if err != nil || result.Exit == exitDone {
		return err
	}
	return said(result.Exit)
}

// uncheckedError gives every failure to find out the code that stands for nothing
// else.
func uncheckedError(ctx context.Context, err error) error {
	var p *problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p) && (p.said || p.code == exitUsage):
		return err
	case ctx.Err() != nil:
		return &problem{code: exitUnchecked, what: "interrupted; nothing was found out"}
	case p == nil:
		return &problem{code: exitUnchecked, what: err.Error()}
	}
	return &problem{code: exitUnchecked, what: err.Error(), hints: p.hints}
}
