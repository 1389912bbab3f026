package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/policy"
)

// version is set by the build.
var version = "development"

// app is one run of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	tty            *terminal
	remote         string
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) exit {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, tty: userTerminal()}
	defer a.tty.close()
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var known *problem
	if err != nil && !errors.As(err, &known) && ctx.Err() != nil {
		err = undecided("interrupted; nothing was signed after that", nil)
	}
	return tell(stderr, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:         "git-oracle",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "git oracle"},
		Short:       "see, approve and check changes of the paths that a Sealgate gate protects",
		Long: `git oracle works in any clone of a gated repository. What is protected, and
where, it reads from refs/oracle/gate of the remote: that of the branch that is
checked out, the only one, or origin; --remote names another. The verbs that
write oracle files, check and run need no gate.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%q is no verb of git oracle", args[0])
			}
			return usage("name a verb: %s", verbs(cmd))
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.AddGroup(&cobra.Group{ID: forAll, Title: "Before you push:"}, &cobra.Group{ID: forOwners, Title: "For those who own the oracles:"})
	addTo(root, forAll, a.statusVerb(), a.checkVerb(), a.runVerb(), a.verifyVerb(), a.logVerb())
	addTo(root, forOwners, a.approveVerb(), a.withdrawVerb(), a.requestVerb(), a.attachVerb(), a.acceptVerb(), a.keysVerb(), a.initVerb(), a.addVerb(), a.rehashVerb(), a.manifestVerb())
	addTo(root, "", a.completionVerb(), a.versionVerb())
	completing(root)
	return root
}

// The groups of the list of verbs.
const (
	forAll    = "all"
	forOwners = "owners"
)

func addTo(root *cobra.Command, group string, verbs ...*cobra.Command) {
	for _, verb := range verbs {
		verb.GroupID = group
		root.AddCommand(verb)
	}
}

// verbs lists what there is.
func verbs(root *cobra.Command) string {
	var names []string
	for _, verb := range root.Commands() {
		if verb.Name() != "help" {
			names = append(names, verb.Name())
		}
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument, and there is %q", cmd.Name(), args[0])
	}
	return nil
}

// atMostOne wants at most one REV.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("one revision at a time, and there are %d: %s", len(args), strings.Join(args, " "))
	}
	return nil
}

func revision(args []string) string {
	if len(args) == 0 {
		return "HEAD"
	}
	return args[0]
}

func (a *app) remoteFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.remote, "remote", "", "the gated remote, a name or a `URL`")
}

// open finds the clone and asks its gated remote.
func (a *app) open(ctx context.Context) (*oracleClone, error) {
	c, err := openClone(ctx, os.Environ(), a.stdin, a.stderr)
	if err != nil {
		return nil, err
	}
	return openOracle(ctx, c, a.remote)
}

func (a *app) statusVerb() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status [REV]",
		Short: "what is protected here, what REV changes of it, and whether that is approved",
		Long: `Shows the protected refs and paths, and for each protected ref of the remote
what becomes of the protected paths when REV (default: HEAD) gets there: the
entries that change, the step from one state to the next, the approvals that
exist for that step, and what to do next.`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			return a.status(cmd.Context(), o, revision(args), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print "+statusSchema+" as JSON")
	a.remoteFlag(cmd)
	return cmd
}

func (a *app) status(ctx context.Context, o *oracleClone, rev string, asJSON bool) error {
	commit, err := o.revision(ctx, o.remote, rev)
	if err != nil {
		return err
	}
	s, err := o.status(ctx, rev, commit)
	if err != nil {
		return err
	}
	if asJSON {
		return s.printJSON(a.stdout)
	}
	s.print(a.stdout, o.changeName(ctx))
	return nil
}

// changeName is how a proposed change is called: by the branch that is checked
// out; empty where that is a protected one.
func (o *oracleClone) changeName(ctx context.Context) string {
	branch, err := o.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil || o.gate.refs.Protects(branchRoot+branch) || !policy.ValidRef(branchRoot+branch) {
		return ""
	}
	return strings.TrimPrefix(branch, "oracle-change/")
}

func (a *app) approveVerb() *cobra.Command {
	var opts approveOptions
	cmd := &cobra.Command{
		Use:   "approve REV",
		Short: "sign that a protected ref may go from its state to the one with REV in it",
		Long: `Fetches, works out what becomes of the protected paths of each ref when REV is
merged into it, shows the change, asks, signs it with ssh-keygen and pushes the
approval to refs/oracle/approvals/. A branch that has fallen behind is merged
for this: what landed meanwhile is kept. Where the commits of REV form a line
and several of them change protected paths, each step is signed.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withHints(usage("approve wants one revision, and there are %d", len(args)), "for instance:  git oracle approve origin/oracle-change/fees")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.check(cmd.Flags().Changed("reason")); err != nil {
				return err
			}
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			return o.approve(cmd.Context(), args[0], opts, a.tty, a.stdout)
		},
	}
	flags := cmd.Flags()
	a.stepFlags(cmd, &opts)
	flags.StringVar(&opts.key, "key", "", "sign with this key `FILE` (default: user.signingkey, then ~/.ssh/id_ed25519)")
	flags.BoolVar(&opts.yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&opts.again, "again", false, "sign also what this key has a valid approval for")
	flags.BoolVar(&opts.amend, "amend", false, "put the approval into HEAD's message instead of pushing it")
	flags.BoolVar(&opts.print, "print", false, "print the approval as trailer lines instead of pushing it")
	a.remoteFlag(cmd)
	return cmd
}

func (opts *approveOptions) check(reasonGiven bool) error {
	switch {
	case opts.amend && opts.print:
		return usage("--amend and --print exclude each other")
	case opts.days < 1 || opts.days > maxDays:
		return usage("--days is %d, and an approval is valid for 1 to %d days", opts.days, maxDays)
	case reasonGiven:
		return checkReason(opts.reason)
	}
	return nil
}

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "git-oracle %s\n", version)
			return err
		},
	}
}
