package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/approval"
)

// withdrawOptions are the flags of `git oracle withdraw`.
type withdrawOptions struct {
	refs   []string
	reason string
	key    string
	yes    bool
	print  bool
}

func (a *app) withdrawVerb() *cobra.Command {
	var opts withdrawOptions
	cmd := &cobra.Command{
		Use:   "withdraw APPROVAL | REV",
		Short: "take back an approval, or an override, that was not used yet",
		Long: `Signs that an approval counts no more, wherever it travels, and pushes that to
refs/oracle/withdrawals/. Any maintainer may withdraw any approval. It is named by
its hash (the beginning is enough where it is published, or in the message of a
commit of HEAD), or by the revision that would use it. What landed by an approval
stays; a change that landed is taken back by an oracle change of its own. An
override that was not used is withdrawn by its hash.`,
		Example: `  git oracle withdraw 80972dab --reason 'the tariff board took it back'
  git oracle withdraw origin/oracle-change/fees`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("withdraw wants one approval or revision, and there are %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("reason") {
				if err := checkReason(opts.reason); err != nil {
					return err
				}
			}
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			return o.withdraw(cmd.Context(), args[0], opts, a.tty, a.stdout)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&opts.refs, "for", nil, "of a revision: what it would use for this protected `REF` (again for more; default: each)")
	flags.StringVar(&opts.reason, "reason", "", "why, in one line of 8 to 400 bytes (asked for where it is missing)")
	flags.StringVar(&opts.key, "key", "", "sign with this key `FILE` (default: user.signingkey, then ~/.ssh/id_ed25519)")
	flags.BoolVar(&opts.yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&opts.print, "print", false, "print each withdrawal, after the name of its ref, instead of pushing it")
	a.remoteFlag(cmd)
	return cmd
}

// withdraw shows what would count no more, asks, signs and publishes.
func (o *oracleClone) withdraw(ctx context.Context, what string, opts withdrawOptions, tty *terminal, stdout io.Writer) error {
	targets, err := o.toWithdraw(ctx, what, opts)
	if err != nil {
		return err
	}
	key, err := o.findKey(ctx, opts.key)
	if err != nil {
		return err
	}
	out := stdout
	if opts.print {
		out = o.stderr
	}
	for _, t := range targets {
		printAll(out, "", t.lines)
	}
	fmt.Fprintf(out, "signed with %s, %s\n", key.describe(), key.origin)
	reason, err := askReason(approveOptions{reason: opts.reason}, tty)
	if err != nil {
		return err
	}
	if err := confirmWithdrawal(opts, tty, len(targets)); err != nil {
		return err
	}
	if key.touched() {
		fmt.Fprintln(o.stderr, "touch the security key when it blinks")
	}
	var pushed []offer
	for _, t := range targets {
		token, err := o.signWithdrawal(ctx, key, t.hash, reason)
		if err != nil {
			return err
		}
		pushed = append(pushed, offer{withdrawalRoot + t.hash, token})
	}
	if opts.print {
		for _, one := range pushed {
			fmt.Fprintf(stdout, "%s %s\n", one.ref, one.token)
		}
		return nil
	}
	if err := o.pushOffers(ctx, "the withdrawal", pushed); err != nil {
		return err
	}
	for _, t := range targets {
		fmt.Fprintf(stdout, "withdrawn: %s\n", t.hash)
	}
	return nil
}

func confirmWithdrawal(opts withdrawOptions, tty *terminal, n int) error {
	if opts.yes {
		return nil
	}
	what := "it"
	if n > 1 {
		what = "these " + fmt.Sprint(n)
	}
	answer, err := tty.ask(fmt.Sprintf("withdraw %s? [y/N] ", what))
	if err != nil {
		return usage("nobody can confirm: %v; to sign without being asked: --yes", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return refused("not confirmed; nothing was signed")
}

func (o *oracleClone) signWithdrawal(ctx context.Context, key *signingKey, hash, reason string) (string, error) {
	statement, err := approval.NewWithdrawal(o.gate.Repo, hash, reason, o.now)
	if err != nil {
		return "", undecided("write the withdrawal", err)
	}
	data, err := statement.Bytes()
	if err != nil {
		return "", undecided("write the withdrawal", err)
	}
	raw, err := o.signature(ctx, key, approval.NamespaceWithdraw, data)
	if err != nil {
		return "", err
	}
	return approval.FormatToken(data, raw), nil
}

// target is something that is withdrawn, and what is shown of it.
type target struct {
	hash  string
	lines []string
}

// toWithdraw finds what is meant: by hash, else by the revision that would use it.
func (o *oracleClone) toWithdraw(ctx context.Context, what string, opts withdrawOptions) ([]target, error) {
	hash := strings.TrimPrefix(what, "sha256:")
	if len(hash) >= minPrefix && onlyOf(hash, "0123456789abcdef") {
		found, err := o.byHash(ctx, hash)
		if err != nil {
			return nil, err
		}
		if len(found) == 1 {
			return o.notWithdrawn(found)
		}
		if len(found) > 1 {
			var lines []string
			for _, t := range found {
				lines = append(lines, t.hash)
			}
			return nil, refused(fmt.Sprintf("%s is the beginning of %d hashes", hash, len(found)), lines...)
		}
	}
	return o.byRevision(ctx, what, opts.refs)
}

// minPrefix is the shortest beginning of a hash that is taken for one.
const minPrefix = 6

func (o *oracleClone) byHash(ctx context.Context, prefix string) ([]target, error) {
	var found []target
	add := func(hash string, lines ...string) {
		if strings.HasPrefix(hash, prefix) && !slices.ContainsFunc(found, func(t target) bool { return t.hash == hash }) {
			found = append(found, target{hash, lines})
		}
	}
	tokens := slices.Clone(o.published)
	if head, err := o.commit(ctx, "HEAD"); err == nil {
		carried, err := o.carried(ctx, head)
		if err != nil {
			return nil, undecided("read the approvals in commit messages", err)
		}
		tokens = append(tokens, carried...)
	}
	for _, t := range tokens {
		if t.Statement.Repo == o.gate.Repo {
			add(t.Hash, o.describeApproval(t)...)
		}
	}
	for ref := range o.remote.refs {
		if hash, ok := strings.CutPrefix(ref, overrideRoot); ok {
			add(hash, "override "+hash[:min(len(hash), 8)])
		}
	}
	if len(found) == 0 && approval.ValidHash(prefix) {
		add(prefix, "approval "+prefix[:8]+", which is neither published nor in a message of HEAD")
	}
	return found, nil
}

// byRevision are the approvals that a push of rev would use.
func (o *oracleClone) byRevision(ctx context.Context, rev string, names []string) ([]target, error) {
	commit, err := o.revision(ctx, o.remote, rev)
	if err != nil {
		return nil, withHints(err, "or name an approval by the beginning of its hash, six digits or more:  git oracle log")
	}
	if err := o.considerCarried(ctx, commit); err != nil {
		return nil, err
	}
	refs := o.gate.present(o.remote)
	if len(names) > 0 || len(refs) == 0 {
		if refs, err = o.gate.named(names); err != nil {
			return nil, err
		}
	}
	var found []target
	for _, ref := range refs {
		p, err := o.plan(ctx, ref, commit, planning{})
		if err != nil {
			return nil, o.explain(err, approveOptions{squash: true})
		}
		for _, t := range o.forPlan(p) {
			if !slices.ContainsFunc(found, func(f target) bool { return f.hash == t.Hash }) {
				found = append(found, target{t.Hash, o.describeApproval(t)})
			}
		}
	}
	if len(found) == 0 {
		return nil, &problem{code: exitNothing, what: fmt.Sprintf("no approval that counts is there for %s", quoted(rev)), hints: []string{"git oracle log"}}
	}
	return found, nil
}

// forPlan are the approvals of the plan's steps, and of the whole.
func (o *oracleClone) forPlan(p plan) []approval.Token {
	var out []approval.Token
	for _, s := range append(slices.Clone(p.Steps), step{Before: p.Before, After: p.After}) {
		out = append(out, o.approving(p.Ref, s)...)
	}
	return out
}

func (o *oracleClone) notWithdrawn(found []target) ([]target, error) {
	for _, t := range found {
		if o.remote.withdrawn(t.hash) {
			return nil, &problem{code: exitNothing, what: fmt.Sprintf("%s is withdrawn already", t.hash)}
		}
	}
	return found, nil
}

func (o *oracleClone) describeApproval(t approval.Token) []string {
	s := t.Statement
	lines := []string{
		fmt.Sprintf("approval %s for %s: %s -> %s", t.Hash[:8], quoted(s.Ref), shortState(s.Before), shortState(s.After)),
		"  " + visible(s.Reason),
	}
	if key, err := t.VerifyKey(); err == nil {
		lines = append(lines, fmt.Sprintf("  with %s until %s", key, instant(s.Expires)))
	}
	return lines
}

// offer is a token for a ref below refs/oracle/.
type offer struct{ ref, token string }

// pushOffers pushes tokens as blobs, all or none.
func (o *oracleClone) pushOffers(ctx context.Context, what string, list []offer) error {
	args := []string{"-c", "remote." + o.remote.name + ".mirror=false", "push", "--quiet", "--no-verify", "--no-follow-tags", "--no-thin",
		"--recurse-submodules=no", "--end-of-options", o.remote.name}
	for _, one := range list {
		blob, err := o.feed(ctx, []byte(one.token+"\n"), "hash-object", "-t", "blob", "-w", "--stdin")
		if err != nil {
			return undecided("store "+what, err)
		}
		args = append(args, strings.TrimSpace(string(blob))+":"+one.ref)
	}
	if err := o.talk(ctx, nil, args...); err != nil {
		return &problem{code: exitRefused, what: quoted(o.remote.name) + " did not take " + what, cause: err,
			hints: []string{"the server takes what is signed by the maintainers' keys that its admin listed"}}
	}
	return nil
}
