package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/state"
)

// oracleClone is a clone together with the gate of one remote, as it is now.
type oracleClone struct {
	*clone
	remote    *remote
	gate      *postedGate
	repo      *gitrepo.Repo
	scanner   *state.Scanner
	published []approval.Token // at the remote, with a good signature of somebody's
	approvals []approval.Token // those for this repository and its paths that have not expired
	recalled  []approval.Token // and those that would count, were they not withdrawn
	now       time.Time
}

// openOracle asks the remote and fetches what every verb reads: the gate, the
// published approvals, and the tips of the protected refs.
func openOracle(ctx context.Context, c *clone, remoteName string) (*oracleClone, error) {
	name, err := c.pickRemote(ctx, remoteName)
	if err != nil {
		return nil, err
	}
	r, err := c.askRemote(ctx, name)
	if err != nil {
		return nil, err
	}
	return openGated(ctx, c, r)
}

// openGated is openOracle for a remote that has been asked.
func openGated(ctx context.Context, c *clone, r *remote) (*oracleClone, error) {
	g, err := c.readGate(ctx, r)
	if err != nil {
		return nil, err
	}
	repo, err := c.openRepo(ctx)
	if err != nil {
		return nil, err
	}
	o := &oracleClone{
		clone: c, remote: r, gate: g, repo: repo, scanner: state.NewScanner(repo, g.protected, g.forbidden),
		now: time.Now().UTC().Truncate(time.Second),
	}
	refs := r.approvals()
	if err := c.fetch(ctx, r, append(g.present(r), refs...)); err != nil {
		o.close()
		return nil, err
	}
	if err := o.readApprovals(ctx, refs); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *oracleClone) close() { o.repo.Close() }

// approvals are the remote's approval refs in byte order.
func (r *remote) approvals() []string {
	var refs []string
	for ref := range r.refs {
		if strings.HasPrefix(ref, approvalRoot) {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// readApprovals keeps the approvals that could count. The server took each of
// them in because a maintainer signed it; who is one is not known here. What
// cannot be read is left out: it approves nothing.
func (o *oracleClone) readApprovals(ctx context.Context, refs []string) error {
	ids := make([]string, len(refs))
	for i, ref := range refs {
		ids[i] = o.remote.refs[ref]
	}
	err := o.repo.ReadAll(ctx, ids, maxTokenBytes, func(i int, _ gitrepo.Object, data []byte) error {
		token, err := approval.ParseTokenBlob(data)
		if err != nil || !token.Goes(strings.TrimPrefix(refs[i], approvalRoot)) {
			return nil
		}
		if _, err := token.VerifyKey(); err != nil {
			return nil
		}
		o.published = append(o.published, token)
		o.consider(token)
		return nil
	})
	if err != nil {
		return undecided("read the approvals", err)
	}
	return nil
}

// withdrawals are the remote's withdrawal refs in byte order.
func (r *remote) withdrawals() []string {
	var refs []string
	for ref := range r.refs {
		if strings.HasPrefix(ref, withdrawalRoot) {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// withdrawn tells whether a withdrawal of the approval is there; as on the server
// its name says it all.
func (r *remote) withdrawn(hash string) bool {
	_, is := r.refs[withdrawalRoot+hash]
	return is
}

// consider keeps an approval that could count here.
func (o *oracleClone) consider(token approval.Token) {
	s := token.Statement
	switch {
	case s.Repo != o.gate.Repo || s.Paths != o.gate.protected.Digest() || !s.Expires.After(o.now):
	case o.remote.withdrawn(token.Hash):
		o.recalled = append(o.recalled, token)
	default:
		o.approvals = append(o.approvals, token)
	}
}

// considerCarried adds the approvals that travel in commit messages.
func (o *oracleClone) considerCarried(ctx context.Context, rev string) error {
	tokens, err := o.carried(ctx, rev)
	if err != nil {
		return undecided("read the approvals in commit messages", err)
	}
	for _, token := range tokens {
		if _, err := token.VerifyKey(); err == nil {
			o.consider(token)
		}
	}
	return nil
}

// approving are the approvals of one step.
func (o *oracleClone) approving(ref string, s step) []approval.Token {
	return ofStep(o.approvals, ref, s)
}

func ofStep(list []approval.Token, ref string, s step) []approval.Token {
	var out []approval.Token
	for _, token := range list {
		if st := token.Statement; st.Ref == ref && st.Before == s.Before && st.After == s.After {
			out = append(out, token)
		}
	}
	return out
}

// approved tells whether every step has an approval, or a chain of others leads
// from the plan's first state to its last.
func (o *oracleClone) approved(p plan) bool {
	if !slices.ContainsFunc(p.Steps, func(s step) bool { return len(o.approving(p.Ref, s)) == 0 }) {
		return true
	}
	return p.Before != p.After && o.leads(p.Ref, p.Before, p.After)
}

func (o *oracleClone) leads(ref, from, to string) bool {
	reached, queue := map[string]bool{from: true}, []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, token := range o.approvals {
			if st := token.Statement; st.Ref == ref && st.Before == at && !reached[st.After] {
				reached[st.After] = true
				queue = append(queue, st.After)
			}
		}
	}
	return reached[to]
}

// stale are approvals of what the plan brings, or of a commit of it, that begin
// elsewhere: what they began from is no longer the ref's state.
func (o *oracleClone) stale(ctx context.Context, p plan) ([]approval.Token, error) {
	var elsewhere []approval.Token
	for _, token := range o.approvals {
		if st := token.Statement; st.Ref == p.Ref && st.Before != p.Before {
			elsewhere = append(elsewhere, token)
		}
	}
	if len(elsewhere) == 0 {
		return nil, nil
	}
	ends := map[string]bool{p.After: true}
	commits, err := o.touching(ctx, p, maxSteps)
	if err != nil {
		return nil, err
	}
	for _, commit := range commits {
		digest, err := o.stands(ctx, commit)
		if err != nil {
			return nil, err
		}
		ends[digest] = true
	}
	return slices.DeleteFunc(elsewhere, func(t approval.Token) bool { return !ends[t.Statement.After] }), nil
}

// hopeless are the entries that a plan brings and that no approval helps:
// forbidden ones, and those that pass for a protected or forbidden path.
func (o *oracleClone) hopeless(ctx context.Context, p plan) ([]string, error) {
	before, err := o.scanner.View(ctx, p.trees[0]+"^{tree}")
	if err != nil {
		return nil, undecided("read the forbidden paths of "+short(p.trees[0]), err)
	}
	after, err := o.scanner.View(ctx, p.trees[1]+"^{tree}")
	if err != nil {
		return nil, undecided("read the forbidden paths of "+short(p.trees[1]), err)
	}
	out := []string{}
	for _, e := range after.Forbidden {
		if !slices.Contains(before.Forbidden, e) {
			out = append(out, quoted(e.Path)+" is forbidden here, and no approval helps")
		}
	}
	for _, e := range after.Aliases {
		if !slices.Contains(before.Aliases, e) {
			out = append(out, quoted(e.Path)+" passes for a protected or forbidden path, and no approval helps")
		}
	}
	return out, nil
}

// subject is the first line of a commit's message.
func (o *oracleClone) subject(ctx context.Context, commit string) (string, error) {
	text, err := o.line(ctx, "-c", "i18n.logOutputEncoding=UTF-8", "show", "--no-patch", "--no-color", "--no-show-signature", "--no-notes", "--format=%s", "--end-of-options", commit)
	if len(text) > 100 {
		text = text[:97] + "..."
	}
	return text, err
}

// describeTip: "refs/heads/main (origin at 1a2b3c4d5e)".
func (o *oracleClone) describeTip(p plan) string {
	if p.Tip == "" {
		return fmt.Sprintf("%s (not at %s yet)", quoted(p.Ref), quoted(o.remote.name))
	}
	if p.Tip != o.remote.refs[p.Ref] {
		return fmt.Sprintf("%s (from %s)", quoted(p.Ref), short(p.Tip))
	}
	return fmt.Sprintf("%s (%s at %s)", quoted(p.Ref), quoted(o.remote.name), short(p.Tip))
}

// coming says how REV comes to the ref.
func (p plan) coming() string {
	switch p.Relation {
	case contained:
		return short(p.Rev) + " is in it already"
	case fastForward:
		return short(p.Rev) + " is ahead of it"
	case merging:
		return short(p.Rev) + " merged into it"
	case creating:
		return "created at " + short(p.Rev)
	case replacing:
		return "replaced by " + short(p.Rev)
	}
	return short(p.Rev)
}

func printAll(w io.Writer, indent string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s%s\n", indent, line)
	}
}
