package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/approval"
)

// requestOptions are the flags of `git oracle request`.
type requestOptions struct {
	approve approveOptions
	out     string
}

func (a *app) requestVerb() *cobra.Command {
	opts := requestOptions{approve: approveOptions{again: true}}
	cmd := &cobra.Command{
		Use:   "request REV",
		Short: "write what a maintainer would sign for REV, to be signed somewhere else",
		Long: `Works out the same steps as approve and writes the exact statement of each into a
file of its own, with a description for people beside it. A statement can be signed
by ssh-keygen alone, on a machine that has neither the clone nor git oracle. Then
git oracle attach makes an approval of statement and signature.`,
		Example: `  git oracle request origin/oracle-change/fees --reason 'cap raised by the board' -o fees
  ssh-keygen -Y sign -n oracle-change-v1@sealgate -f KEY fees
  git oracle attach fees fees.sig`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("request wants one revision, and there are %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.approve.check(cmd.Flags().Changed("reason")); err != nil {
				return err
			}
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			return o.request(cmd.Context(), args[0], opts, a.tty, a.stdout)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.out, "output", "o", "oracle-change", "write to `FILE`, or FILE-1, FILE-2 and so on, and FILE.txt; nothing is overwritten")
	a.stepFlags(cmd, &opts.approve)
	a.remoteFlag(cmd)
	return cmd
}

// stepFlags are those that say which steps are signed, and for how long.
func (a *app) stepFlags(cmd *cobra.Command, opts *approveOptions) {
	flags := cmd.Flags()
	flags.StringArrayVar(&opts.refs, "for", nil, "approve for this protected `REF` (again for more; default: the first one)")
	flags.StringVar(&opts.from, "from", "", "start from the state of `REV` instead of the remote's tip of the ref")
	flags.StringVar(&opts.reason, "reason", "", "why, in one line of 8 to 400 bytes (asked for where it is missing)")
	flags.IntVar(&opts.days, "days", 14, "how long the approval is valid, 1 to 30")
	flags.BoolVar(&opts.squash, "squash", false, "sign the whole change as one step")
	flags.BoolVar(&opts.replace, "replace", false, "REV replaces what the ref has (rewind, forced push); nothing is merged")
	flags.BoolVar(&opts.diff, "diff", false, "show the text of the oracles' difference however long it is")
}

// request writes the statements and what they mean.
func (o *oracleClone) request(ctx context.Context, rev string, opts requestOptions, tty *terminal, stdout io.Writer) error {
	commit, err := o.revision(ctx, o.remote, rev)
	if err != nil {
		return err
	}
	plans, err := o.plansToSign(ctx, commit, opts.approve, nil, stdout)
	if err != nil {
		return err
	}
	var shown strings.Builder
	expires := o.now.Add(time.Duration(opts.approve.days) * 24 * time.Hour)
	if err := o.show(ctx, &shown, plans, expires, opts.approve); err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, shown.String()); err != nil {
		return err
	}
	reason, err := askReason(opts.approve, tty)
	if err != nil {
		return err
	}
	statements, err := o.statements(plans, reason, expires)
	if err != nil {
		return err
	}
	files := requestFiles(opts.out, len(statements))
	var sums strings.Builder
	for i, s := range statements {
		fmt.Fprintf(&sums, "%s: sha256 %s, %s from %s to %s\n", files[i], s.Hash(), quoted(s.Ref), shortState(s.Before), shortState(s.After))
	}
	text := shown.String() + "reason: " + reason + "\n\n" + sums.String() + "\n" + strings.Join(signElsewhere(files), "\n") + "\n"
	if err := writeNew(opts.out+".txt", []byte(text)); err != nil {
		return err
	}
	for i, s := range statements {
		if err := writeNew(files[i], s.Bytes()); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "wrote %s\n%s", opts.out+".txt", sums.String())
	printAll(stdout, "hint: ", signElsewhere(files))
	return nil
}

func (o *oracleClone) statements(plans []plan, reason string, expires time.Time) ([]approval.Statement, error) {
	var out []approval.Statement
	for _, p := range plans {
		for _, s := range p.Steps {
			statement, err := approval.NewStatement(o.gate.Repo, p.Ref, o.gate.protected.Digest(), s.Before, s.After, reason, o.now, expires.Sub(o.now))
			if err != nil {
				return nil, undecided("write the statement", err)
			}
			out = append(out, statement)
		}
	}
	return out, nil
}

func requestFiles(name string, n int) []string {
	if n == 1 {
		return []string{name}
	}
	files := make([]string, n)
	for i := range files {
		files[i] = fmt.Sprintf("%s-%d", name, i+1)
	}
	return files
}

func signElsewhere(files []string) []string {
	var names, signed []string
	for _, file := range files {
		names = append(names, word(file))
		signed = append(signed, word(file), word(file+".sig"))
	}
	return []string{
		"a maintainer signs:  ssh-keygen -Y sign -n " + approval.NamespaceChange + " -f KEY " + strings.Join(names, " "),
		"then, in a clone:  git oracle attach " + strings.Join(signed, " "),
	}
}

// writeNew writes a file that must not be there.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return refused(quoted(name)+" is there already, and is not overwritten", "name another:  -o FILE")
	}
	if err != nil {
		return undecided("write the request", err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return undecided("write "+quoted(name), err)
	}
	return nil
}
