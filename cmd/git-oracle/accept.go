package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/approval"
)

const (
	overrideRoot = "refs/oracle/overrides/"
	maxCommits   = 20 // of a list that a maintainer reads before he signs
	// maxHours is the longest life of an override.
	maxHours = int(approval.MaxOverrideLife / time.Hour)
)

// acceptOptions are the flags of `git oracle accept`.
type acceptOptions struct {
	ref    string
	reason string
	days   int
	hours  int
	key    string
	yes    bool
	print  bool
}

func (a *app) acceptVerb() *cobra.Command {
	var opts acceptOptions
	cmd := &cobra.Command{
		Use:   "accept DECISION [REV]",
		Short: "sign that a push which a decision wants a person to look at may pass",
		Long: `Releases one push that was refused because a person must look at it: by an
override that binds the repository, the ref, the commit that the ref has now, REV
(default: HEAD) and the decision, and that is pushed to refs/oracle/overrides/.
DECISION is the decision's id in full, 64 digits, as the refusal shows it or
hookd packet show. REV is the commit that was pushed: have it pushed to a topic
branch, and look at it. Then the same push passes, once, until the override
expires. It stands in for no approval, and releases nothing that blocks, was not
judged, or is said on top of that decision.`,
		Example: `  git oracle accept 5c01d2e8f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b origin/fees`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("accept wants a decision and at most one revision, and there are %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			decision, err := opts.check(args[0], cmd.Flags().Changed)
			if err != nil {
				return err
			}
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			return o.accept(cmd.Context(), decision, revision(args[1:]), opts, a.tty, a.stdout)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.ref, "for", "", "release a push to this protected `REF` (default: the first one)")
	flags.StringVar(&opts.reason, "reason", "", "why, in one line of 8 to 400 bytes (asked for where it is missing)")
	flags.IntVar(&opts.days, "days", 1, "how long the override is valid, 1 to 7")
	flags.IntVar(&opts.hours, "hours", 0, "the same in hours, 1 to 168")
	flags.StringVar(&opts.key, "key", "", "sign with this key `FILE` (default: user.signingkey, then ~/.ssh/id_ed25519)")
	flags.BoolVar(&opts.yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&opts.print, "print", false, "print the override instead of pushing it")
	a.remoteFlag(cmd)
	return cmd
}

// check reads the decision and looks at the flags.
func (opts *acceptOptions) check(decision string, given func(string) bool) (string, error) {
	id := strings.TrimPrefix(decision, "sha256:")
	switch {
	case onlyOf(id, "0123456789abcdef") && len(id) >= 4 && len(id) < 64:
		return "", &problem{code: exitUsage, what: fmt.Sprintf("%s is the beginning of a decision, and an override binds the whole of it", visible(id)),
			hints: []string{"the refusal of the push shows all 64 digits; so does, on the replay host:  hookd packet show " + id}}
	case !approval.ValidHash(id):
		return "", usage("%s is no decision: want 64 lower-case hexadecimal digits", quoted(decision))
	case given("days") && given("hours"):
		return "", usage("--days and --hours exclude each other")
	case !given("hours"):
		if opts.hours = opts.days * 24; opts.hours < 24 || opts.hours > maxHours {
			return "", usage("--days is %d, and an override is valid for 1 to %d days", opts.days, maxHours/24)
		}
	case opts.hours < 1 || opts.hours > maxHours:
		return "", usage("--hours is %d, and an override is valid for 1 to %d hours", opts.hours, maxHours)
	}
	if given("reason") {
		return id, checkReason(opts.reason)
	}
	return id, nil
}

// release is one move that an override would let pass.
type release struct {
	decision string
	ref      string
	old      string // zeros where the ref does not exist
	new      string
	commits  []string // ids that the move brings, newest first, as far as they are shown
	more     int
	lost     int // commits that the ref would give up
}

// accept shows what would be released, asks, signs and publishes.
func (o *oracleClone) accept(ctx context.Context, decision, rev string, opts acceptOptions, tty *terminal, stdout io.Writer) error {
	commit, err := o.revision(ctx, o.remote, rev)
	if err != nil {
		return withHints(err, "the commit that was pushed must be here: have it pushed to a topic branch, and name that:  "+word(o.remote.name)+"/<topic>")
	}
	move, err := o.releaseOf(ctx, decision, commit, opts)
	if err != nil {
		return err
	}
	key, err := o.findKey(ctx, opts.key)
	if err != nil {
		return err
	}
	life := time.Duration(opts.hours) * time.Hour
	out := stdout
	if opts.print {
		out = o.stderr
	}
	if err := o.showRelease(ctx, out, move, life, key); err != nil {
		return err
	}
	reason, err := askReason(approveOptions{reason: opts.reason}, tty)
	if err != nil {
		return err
	}
	if err := confirmRelease(opts, tty, move); err != nil {
		return err
	}
	signed, err := o.signOverride(ctx, key, move, reason, life)
	if err != nil {
		return err
	}
	if opts.print {
		fmt.Fprintln(stdout, signed.Raw)
		return nil
	}
	return o.publishOverride(ctx, signed, rev, stdout)
}

// withHints adds next steps to a refusal.
func withHints(err error, hints ...string) error {
	var p *problem
	if errors.As(err, &p) && p.code == exitRefused {
		p.hints = append(p.hints, hints...)
	}
	return err
}

// releaseOf is the move of the ref to the commit, from where the remote has it.
func (o *oracleClone) releaseOf(ctx context.Context, decision, commit string, opts acceptOptions) (release, error) {
	var names []string
	if opts.ref != "" {
		names = []string{opts.ref}
	}
	refs, err := o.gate.named(names)
	if err != nil {
		return release{}, err
	}
	m := release{decision: decision, ref: refs[0], old: o.remote.refs[refs[0]], new: commit}
	if m.old == m.new {
		return release{}, &problem{code: exitNothing, what: fmt.Sprintf("%s stands at %s already", quoted(m.ref), short(m.new))}
	}
	span := []string{m.new}
	if m.old != "" {
		span = append(span, "^"+m.old)
	}
	if m.commits, m.more, err = o.commitsOf(ctx, span); err != nil {
		return release{}, err
	}
	if m.old == "" {
		m.old = o.zero
		return m, nil
	}
	lost, more, err := o.commitsOf(ctx, []string{m.old, "^" + m.new})
	m.lost = len(lost) + more
	return m, err
}

// commitsOf lists commits, the newest first, and how many more there are.
func (o *oracleClone) commitsOf(ctx context.Context, span []string) ([]string, int, error) {
	out, err := o.out(ctx, append([]string{"rev-list", "--end-of-options"}, span...)...)
	if err != nil {
		return nil, 0, undecided("list the commits", err)
	}
	ids := strings.Fields(string(out))
	shown := min(len(ids), maxCommits)
	return ids[:shown], len(ids) - shown, nil
}

// showRelease is what the maintainer reads before he signs.
func (o *oracleClone) showRelease(ctx context.Context, w io.Writer, m release, life time.Duration, key *signingKey) error {
	from := short(m.old)
	if strings.Trim(m.old, "0") == "" {
		from = "created"
	}
	fmt.Fprintf(w, "%s at %s: %s -> %s\n", quoted(m.ref), quoted(o.remote.name), from, short(m.new))
	for _, id := range m.commits {
		title, err := o.subject(ctx, id)
		if err != nil {
			return undecided("read commit "+short(id), err)
		}
		fmt.Fprintf(w, "  %s %s\n", short(id), visible(title))
	}
	if m.more > 0 {
		fmt.Fprintf(w, "  and %d more\n", m.more)
	}
	if m.lost > 0 {
		fmt.Fprintf(w, "  note: the ref has %s that %s does not have: they are given up\n", plural(m.lost, "commit"), short(m.new))
	}
	stat, err := o.diffstat(ctx, m)
	if err != nil {
		return err
	}
	printAll(w, "  ", stat)
	fmt.Fprintf(w, "\nreleases decision %s\n", m.decision)
	fmt.Fprintf(w, "repository %s, valid until %s (%s), for this move alone, once\n", o.gate.Repo, instant(o.now.Add(life)), plural(int(life/time.Hour), "hour"))
	fmt.Fprintf(w, "signed with %s, %s\n", key.describe(), key.origin)
	return nil
}

// diffstat is what the move changes, file by file.
func (o *oracleClone) diffstat(ctx context.Context, m release) ([]string, error) {
	from := m.old
	if strings.Trim(from, "0") == "" {
		var err error
		if from, err = o.emptyTree(ctx); err != nil {
			return nil, undecided("name the empty tree", err)
		}
	}
	out, err := o.out(ctx, "-c", "core.quotePath=true", "diff", "--stat=72", "--stat-count=40", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames",
		"--ignore-submodules=none", "--end-of-options", from, m.new)
	if err != nil {
		return nil, undecided("compare "+short(m.old)+" and "+short(m.new), err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, visible(strings.TrimSpace(line)))
	}
	return lines, nil
}

func confirmRelease(opts acceptOptions, tty *terminal, m release) error {
	if opts.yes {
		return nil
	}
	answer, err := tty.ask(fmt.Sprintf("release decision %s and let %s move to %s? [y/N] ", short(m.decision)[:8], quoted(m.ref), short(m.new)))
	if err != nil {
		return usage("nobody can confirm: %v; to sign without being asked: --yes", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return refused("not confirmed; nothing was signed")
}

func (o *oracleClone) signOverride(ctx context.Context, key *signingKey, m release, reason string, life time.Duration) (approval.SignedOverride, error) {
	statement, err := approval.NewOverride(o.gate.Repo, m.ref, m.old, m.new, m.decision, reason, o.now, life)
	if err != nil {
		return approval.SignedOverride{}, undecided("write the override", err)
	}
	data, err := statement.Bytes()
	if err != nil {
		return approval.SignedOverride{}, undecided("write the override", err)
	}
	if key.touched() {
		fmt.Fprintln(o.stderr, "touch the security key when it blinks")
	}
	raw, err := o.signature(ctx, key, approval.NamespaceOverride, data)
	if err != nil {
		return approval.SignedOverride{}, err
	}
	signed, err := approval.ParseOverrideBlob([]byte(approval.FormatToken(data, raw) + "\n"))
	if err != nil {
		return approval.SignedOverride{}, refused(fmt.Sprintf("what %s signed cannot release anything: %v", key.describe(), err))
	}
	return signed, nil
}

func (o *oracleClone) publishOverride(ctx context.Context, signed approval.SignedOverride, rev string, w io.Writer) error {
	blob, err := o.feed(ctx, []byte(signed.Raw+"\n"), "hash-object", "-t", "blob", "-w", "--stdin")
	if err != nil {
		return undecided("store the override", err)
	}
	err = o.talk(ctx, nil, "-c", "remote."+o.remote.name+".mirror=false", "push", "--quiet", "--no-verify", "--no-follow-tags", "--no-thin",
		"--recurse-submodules=no", "--end-of-options", o.remote.name, strings.TrimSpace(string(blob))+":"+overrideRoot+signed.Hash)
	if err != nil {
		return &problem{code: exitRefused, what: quoted(o.remote.name) + " did not take the override", cause: err,
			hints: []string{"the server takes overrides by the maintainers' keys that its admin listed", "to hand it over otherwise: --print"}}
	}
	s := signed.Statement
	fmt.Fprintf(w, "accepted until %s: %s to %s, decision %s\n", instant(s.Expires), quoted(s.Ref), short(s.New), s.Decision[:8])
	fmt.Fprintf(w, "  %s%s\n", overrideRoot, signed.Hash)
	fmt.Fprintf(w, "hint: push it again, exactly that commit:  git push %s %s:%s\n", word(o.remote.name), word(rev), word(s.Ref))
	return nil
}
