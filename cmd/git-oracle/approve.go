package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
)

// maxDays is the longest life of an approval.
const maxDays = int(approval.MaxLife / (24 * time.Hour))

// approveOptions are the flags of `git oracle approve`.
type approveOptions struct {
	refs    []string
	from    string
	reason  string
	days    int
	key     string
	yes     bool
	squash  bool
	replace bool
	again   bool
	amend   bool
	print   bool
	diff    bool
}

// signedStep is a step with the approval that was made for it.
type signedStep struct {
	plan  plan
	step  step
	token approval.Token
}

// approve shows what rev changes in the protected paths of each ref, asks, signs
// and publishes.
func (o *oracleClone) approve(ctx context.Context, rev string, opts approveOptions, tty *terminal, stdout io.Writer) error {
	commit, err := o.revision(ctx, o.remote, rev)
	if err != nil {
		return err
	}
	if opts.amend {
		if err := o.amendable(ctx, commit); err != nil {
			return err
		}
	}
	key, err := o.findKey(ctx, opts.key)
	if err != nil {
		return err
	}
	shown := stdout
	if opts.print {
		shown = o.stderr // what is signed is seen all the same
	}
	plans, err := o.plansToSign(ctx, commit, opts, key, shown)
	if err != nil {
		return err
	}
	expires := o.now.Add(time.Duration(opts.days) * 24 * time.Hour)
	if err := o.show(ctx, shown, plans, expires, opts); err != nil {
		return err
	}
	fmt.Fprintf(shown, "signed with %s, %s\n", key.describe(), key.origin)
	reason, err := askReason(opts, tty)
	if err != nil {
		return err
	}
	if err := confirm(opts, tty, plans, key); err != nil {
		return err
	}
	signed, err := o.signAll(ctx, plans, reason, expires, key)
	if err != nil {
		return err
	}
	switch {
	case opts.print:
		printAll(stdout, "", trailerLines(signed))
		return nil
	case opts.amend:
		return o.amend(ctx, commit, signed, stdout)
	}
	return o.publish(ctx, signed, rev, stdout)
}

// plansToSign are the plans that have steps. A conflict in one of them signs
// nothing at all; no steps in any is an answer of its own.
func (o *oracleClone) plansToSign(ctx context.Context, commit string, opts approveOptions, key *signingKey, w io.Writer) ([]plan, error) {
	refs, err := o.gate.named(opts.refs)
	if err != nil {
		return nil, err
	}
	how := planning{squash: opts.squash, replace: opts.replace}
	if opts.from != "" {
		if how.from, err = o.revision(ctx, o.remote, opts.from); err != nil {
			return nil, err
		}
	}
	var plans []plan
	var idle []string
	for _, ref := range refs {
		p, err := o.plan(ctx, ref, commit, how)
		if err != nil {
			return nil, o.explain(err, opts)
		}
		published := !opts.print && !opts.amend && !opts.again
		if why := o.nothing(&p, published, key); why != "" {
			idle = append(idle, fmt.Sprintf("%s: %s", quoted(ref), why))
			continue
		}
		plans = append(plans, p)
	}
	if len(plans) == 0 {
		return nil, &problem{code: exitNothing, what: strings.Join(idle, "\n")}
	}
	printAll(w, "", idle)
	return plans, nil
}

// nothing says why a plan has nothing to sign; empty where it has. Steps that
// this key approved already, and whose approvals are still valid, are dropped.
func (o *oracleClone) nothing(p *plan, published bool, key *signingKey) string {
	switch {
	case p.Borrowed != "":
		return fmt.Sprintf("a new ref may begin where %s stands, and %s does", quoted(p.Borrowed), short(p.Rev))
	case len(p.Steps) == 0 && p.Relation == contained:
		return fmt.Sprintf("%s is in it already (to set the ref back to it: --replace)", short(p.Rev))
	case len(p.Steps) == 0:
		return fmt.Sprintf("%s does not change the protected paths", short(p.Rev))
	case !published:
		return ""
	}
	var until time.Time
	var open []step
	for _, s := range p.Steps {
		mine, expires := o.mine(p.Ref, s, key)
		if !mine {
			open = append(open, s)
			continue
		}
		if until.IsZero() || expires.Before(until) {
			until = expires
		}
	}
	p.Steps = open
	if len(open) == 0 {
		return fmt.Sprintf("this key approved it already, until %s (to sign once more, for instance where that approval is used up: --again)", instant(until))
	}
	return ""
}

// mine tells whether this key approved the step, and until when.
func (o *oracleClone) mine(ref string, s step, key *signingKey) (bool, time.Time) {
	for _, token := range o.approving(ref, s) {
		if by, err := token.VerifyKey(); err == nil && key.public != nil && by == ssh.FingerprintSHA256(key.public) {
			return true, token.Statement.Expires
		}
	}
	return false, time.Time{}
}

func (o *oracleClone) explain(err error, opts approveOptions) error {
	var clash *conflict
	if !errors.As(err, &clash) {
		return err
	}
	hints := []string{fmt.Sprintf("merge or rebase it first: git merge %s; then approve the result", short(clash.tip))}
	if !opts.squash {
		hints = append(hints, "where only a step on the way conflicts and the whole does not: --squash")
	}
	return &problem{code: exitRefused, what: clash.Error() + "; nothing was signed", hints: hints}
}

// show is what the maintainer reads before he signs.
func (o *oracleClone) show(ctx context.Context, w io.Writer, plans []plan, expires time.Time, opts approveOptions) error {
	for _, p := range plans {
		fmt.Fprintf(w, "%s, %s:\n", o.describeTip(p), p.coming())
		for i, s := range p.Steps {
			if err := o.showStep(ctx, w, p, i, s, opts.diff); err != nil {
				return err
			}
		}
		hopeless, err := o.hopeless(ctx, p)
		if err != nil {
			return err
		}
		whole, err := o.meaning(ctx, p.trees[0], p.trees[1])
		if err != nil {
			return err
		}
		printAll(w, "  ", hookSays(whole.Findings(true)))
		printAll(w, "  note: ", hopeless)
		own, err := o.ownChange(ctx, p)
		if err != nil {
			return err
		}
		printAll(w, "  note: ", own)
		if p.Before == p.After {
			fmt.Fprintln(w, "  note: what these commits change, they take back")
		}
		if p.Relation == replacing {
			fmt.Fprintln(w, "  note: what is on the ref and not in this commit is given up")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "repository %s, valid until %s (%d days)\n", o.gate.Repo, instant(expires), opts.days)
	return nil
}

func (o *oracleClone) showStep(ctx context.Context, w io.Writer, p plan, i int, s step, diff bool) error {
	title, err := o.subject(ctx, s.Commit)
	if err != nil {
		return undecided("read commit "+short(s.Commit), err)
	}
	label := ""
	if len(p.Steps) > 1 {
		label = fmt.Sprintf("step %d of %d, ", i+1, len(p.Steps))
	}
	fmt.Fprintf(w, "  %s%s %s\n", label, short(s.Commit), visible(title))
	files, err := o.changes(ctx, s.BeforeTree, s.AfterTree)
	if err != nil {
		return err
	}
	means, err := o.meaning(ctx, s.BeforeTree, s.AfterTree)
	if err != nil {
		return err
	}
	printAll(w, "  ", meaningLines(means.Meanings))
	printFiles(w, files)
	if err := o.showText(ctx, w, s, files, means, diff); err != nil {
		return err
	}
	fmt.Fprintf(w, "  from %s\n  to   %s\n", s.Before, s.After)
	return nil
}

// askReason is the reason given, or the one that the maintainer types.
func askReason(opts approveOptions, tty *terminal) (string, error) {
	if opts.reason != "" {
		return opts.reason, checkReason(opts.reason)
	}
	for range 3 {
		reason, err := tty.ask("reason (one line, 8 to 400 bytes): ")
		if err != nil {
			return "", usage("no reason was given, and %v: --reason TEXT", err)
		}
		if err = checkReason(reason); err == nil {
			return reason, nil
		}
		fmt.Fprintf(tty.device, "%s\n", visible(err.Error()))
	}
	return "", refused("no reason that can be signed; nothing was signed")
}

func checkReason(reason string) error {
	if err := approval.CheckReason(reason); err != nil {
		return refused(fmt.Sprintf("the reason cannot be signed: %v", err), "one line of 8 to 400 bytes that a later reader understands")
	}
	return nil
}

func confirm(opts approveOptions, tty *terminal, plans []plan, key *signingKey) error {
	if opts.yes {
		return nil
	}
	count, refs := 0, []string{}
	for _, p := range plans {
		count += len(p.Steps)
		refs = append(refs, quoted(p.Ref))
	}
	what := "this step"
	if count > 1 {
		what = fmt.Sprintf("these %d steps", count)
	}
	answer, err := tty.ask(fmt.Sprintf("approve %s for %s? [y/N] ", what, strings.Join(refs, ", ")))
	if err != nil {
		return usage("nobody can confirm: %v; to sign without being asked: --yes", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return refused("not confirmed; nothing was signed")
}

func (o *oracleClone) signAll(ctx context.Context, plans []plan, reason string, expires time.Time, key *signingKey) ([]signedStep, error) {
	if key.touched() {
		fmt.Fprintln(o.stderr, "touch the security key when it blinks")
	}
	var signed []signedStep
	for _, p := range plans {
		for _, s := range p.Steps {
			statement, err := approval.NewStatement(o.gate.Repo, p.Ref, o.gate.protected.Digest(), s.Before, s.After, reason, o.now, expires.Sub(o.now))
			if err != nil {
				return nil, undecided("write the statement", err)
			}
			token, err := o.sign(ctx, key, statement)
			if err != nil {
				return nil, err
			}
			signed = append(signed, signedStep{p, s, token})
		}
	}
	return signed, nil
}

// publish pushes each approval to a ref named by its statement.
func (o *oracleClone) publish(ctx context.Context, signed []signedStep, rev string, w io.Writer) error {
	var list []offer
	signed, list = o.offers(signed, w)
	if len(list) == 0 {
		return nil
	}
	if err := o.pushOffers(ctx, "the approval", list); err != nil {
		return withHints(err, "to hand over the lines by hand: --print")
	}
	for i, one := range signed {
		fmt.Fprintf(w, "approved until %s: %s from %s to %s\n", instant(one.token.Statement.Expires), quoted(one.plan.Ref), shortState(one.step.Before), shortState(one.step.After))
		fmt.Fprintf(w, "  %s\n", list[i].ref)
	}
	for i, one := range signed {
		if i == 0 || signed[i-1].plan.Ref != one.plan.Ref {
			fmt.Fprintf(w, "hint: %s\n", o.next(one.plan, rev))
		}
	}
	return nil
}

// offers are the refs of the approvals that are not there yet. Where the statement's
// own name is taken by another's signature, a signature goes beside it.
func (o *oracleClone) offers(signed []signedStep, w io.Writer) ([]signedStep, []offer) {
	var fresh []signedStep
	var list []offer
	taken := map[string]bool{}
	for _, one := range signed {
		if slices.ContainsFunc(o.published, func(t approval.Token) bool { return t.Another() == one.token.Another() }) {
			fmt.Fprintf(w, "%s: approval %s is there already, with this signature\n", quoted(one.plan.Ref), one.token.Hash[:8])
			continue
		}
		name := one.token.Hash
		if _, there := o.remote.refs[approvalRoot+name]; there || taken[name] {
			name = one.token.Another()
		}
		taken[name] = true
		fresh, list = append(fresh, one), append(list, offer{approvalRoot + name, one.token.Raw})
	}
	return fresh, list
}

// next is what the contributor does once the approval is there.
func (o *oracleClone) next(p plan, rev string) string {
	if rev == "" {
		return "the change may be pushed to " + quoted(p.Ref) + " now"
	}
	push := fmt.Sprintf("git push %s %s:%s", word(o.remote.name), word(rev), word(p.Ref))
	switch p.Relation {
	case merging:
		return fmt.Sprintf("the contributor merges or rebases %s onto %s and pushes, or uses the server's merge button", quoted(rev), quoted(p.Ref))
	case replacing:
		return "set the ref:  " + strings.Replace(push, "git push ", "git push --force-with-lease ", 1)
	default:
		return "the contributor pushes again:  " + push
	}
}

// trailerLines are the lines for a commit message or a pull request.
func trailerLines(signed []signedStep) []string {
	var lines []string
	for i, one := range signed {
		if i == 0 || signed[i-1].token.Hash != one.token.Hash {
			lines = append(lines, approval.ReasonKey+": "+one.token.Statement.Reason)
		}
		lines = append(lines, approval.TrailerKey+": "+one.token.Raw)
	}
	return lines
}
