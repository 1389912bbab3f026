package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/message"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

// longAgo is when the rehearsal's records begin: before any approval.
var longAgo = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (a *app) verifyVerb() *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   "verify [REV]",
		Short: "say what the hook would say if REV were pushed",
		Long: `Runs the hook's own static judgement, in a scratch repository, for a push of REV
(default: HEAD) to REF (default: the first protected ref), and prints the hook's
words. Nothing is pushed. What only the server knows is assumed in your favour
and listed. Sealed checks are not run.`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			return o.verify(cmd.Context(), revision(args), ref, a.stdout)
		},
	}
	cmd.Flags().StringVar(&ref, "for", "", "the `REF` it would be pushed to, any ref of the server")
	a.remoteFlag(cmd)
	return cmd
}

// verify rehearses one push and says what came of it.
func (o *oracleClone) verify(ctx context.Context, rev, name string, w io.Writer) error {
	commit, err := o.revision(ctx, o.remote, rev)
	if err != nil {
		return err
	}
	ref, err := o.target(name)
	if err != nil {
		return err
	}
	if err := o.fetch(ctx, o.remote, []string{ref}); err != nil {
		return err
	}
	update := push.Update{Old: o.remote.refs[ref], New: commit, Ref: ref}
	if update.Old == "" {
		update.Old = o.zero
	}
	if update.Old == update.New {
		fmt.Fprintf(w, "%s is at %s already; there is nothing to push\n", quoted(ref), short(commit))
		return nil
	}
	outcome, err := o.rehearse(ctx, update)
	if err != nil {
		return err
	}
	if err := message.Render(w, message.Report{Findings: outcome.Findings, Contact: o.gate.Contact}); err != nil {
		return err
	}
	return o.conclude(ctx, w, update, outcome.Result)
}

// target is the full name of the ref of --for.
func (o *oracleClone) target(name string) (string, error) {
	if name == "" {
		return o.gate.refs.Entries()[0], nil
	}
	if !strings.HasPrefix(name, "refs/") {
		name = branchRoot + name
	}
	if !policy.ValidRef(name) {
		return "", usage("%q is no ref name", name)
	}
	return name, nil
}

func (o *oracleClone) conclude(ctx context.Context, w io.Writer, update push.Update, result gate.Result) error {
	if update.Old != o.zero {
		forward, err := o.ancestor(ctx, update.Old, update.New)
		if err == nil && !forward {
			fmt.Fprintf(w, "note: %s is not ahead of %s: this would be a forced push; git oracle status shows what a merge would do\n", short(update.New), quoted(update.Ref))
		}
	}
	printAll(w, "", []string{
		"not known here: whether the keys that signed are maintainers' and how many of them must sign, which approvals were used before,",
		"  the server's own record of the ref's good tip, its modes and its sealed checks",
	})
	if !o.gate.authorsMayApprove() {
		printAll(w, "", []string{
			"who wrote a change may not approve it here; whose keys are known: yours, and those of git's gpg.ssh.allowedSignersFile",
		})
	}
	switch result {
	case gate.Accepted:
		fmt.Fprintf(w, "%s: the static rules would accept %s\n", quoted(update.Ref), short(update.New))
		return nil
	case gate.Refused:
		return refused(fmt.Sprintf("%s: the hook would refuse %s", quoted(update.Ref), short(update.New)))
	default:
		return undecided(fmt.Sprintf("%s: the hook could not decide about %s", quoted(update.Ref), short(update.New)), nil)
	}
}

// rehearse lets the gate judge the update in a scratch repository that has the
// clone's objects and the remote's refs: the same code, on what is known here.
func (o *oracleClone) rehearse(ctx context.Context, update push.Update) (gate.Outcome, error) {
	dir, err := os.MkdirTemp("", "git-oracle-")
	if err != nil {
		return gate.Outcome{}, undecided("make a scratch repository", err)
	}
	defer os.RemoveAll(dir)
	if err := o.completeRange(ctx, update); err != nil {
		return gate.Outcome{}, err
	}
	if err := o.scratch(ctx, filepath.Join(dir, "repository"), update); err != nil {
		return gate.Outcome{}, undecided("make a scratch repository", err)
	}
	rules, err := o.rules(ctx, dir, update)
	if err != nil {
		return gate.Outcome{}, undecided("make the rules of a rehearsal", err)
	}
	store, err := o.records(filepath.Join(dir, "records"))
	if err != nil {
		return gate.Outcome{}, undecided("make the records of a rehearsal", err)
	}
	repo, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: filepath.Join(dir, "repository")})
	if err != nil {
		return gate.Outcome{}, undecided("open the scratch repository", err)
	}
	defer repo.Close()
	g := &gate.Gate{Rules: rules, Repo: repo, Store: store, Push: "rehearsal"}
	outcome, err := g.Receive(ctx, []push.Update{update})
	if err != nil {
		return gate.Outcome{}, undecided("judge "+short(update.New), err)
	}
	for _, f := range outcome.Findings {
		delete(f.Args, "decision") // nobody can look a rehearsal up
	}
	return outcome, nil
}

// scratch makes a bare repository that borrows the clone's objects and has the
// protected refs, the approvals and the ref itself as the remote has them.
func (o *oracleClone) scratch(ctx context.Context, dir string, update push.Update) error {
	format := "sha1"
	if len(o.zero) == 64 {
		format = "sha256"
	}
	if _, err := o.out(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+format, "--", dir); err != nil {
		return err
	}
	objects, err := o.gitPath(ctx, "objects")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "objects", "info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte(objects+"\n"), 0o600); err != nil {
		return err
	}
	if err := o.copyShallow(ctx, dir); err != nil {
		return err
	}
	withdrawals := o.remote.withdrawals()
	if err := o.fetch(ctx, o.remote, withdrawals); err != nil {
		return err
	}
	refs := slices.Concat(o.gate.present(o.remote), o.remote.approvals(), withdrawals)
	if update.Old != o.zero && !slices.Contains(refs, update.Ref) {
		refs = append(refs, update.Ref)
	}
	var input strings.Builder
	for _, ref := range refs {
		fmt.Fprintf(&input, "create %s %s\n", ref, o.remote.refs[ref])
	}
	_, err = o.feed(ctx, []byte(input.String()), "--git-dir="+dir, "update-ref", "--stdin")
	return err
}

// gitPath is the absolute path of something in the clone's git directory.
func (c *clone) gitPath(ctx context.Context, name string) (string, error) {
	path, err := c.line(ctx, "rev-parse", "--git-path", name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

func (o *oracleClone) copyShallow(ctx context.Context, dir string) error {
	path, err := o.gitPath(ctx, "shallow")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil // the clone is whole
	}
	return os.WriteFile(filepath.Join(dir, "shallow"), data, 0o600)
}

// completeRange fetches what a partial clone lacks of the commits that would be
// judged.
func (o *oracleClone) completeRange(ctx context.Context, update push.Update) error {
	promisor, err := o.promisor(ctx)
	if err != nil || promisor == "" {
		return err
	}
	commits := []string{update.New}
	args := []string{"rev-list", "--full-history", update.New}
	for _, ref := range o.gate.present(o.remote) {
		commits = append(commits, o.remote.refs[ref])
		args = append(args, "^"+o.remote.refs[ref])
	}
	out, err := o.line(ctx, append(append(args, "--"), o.gate.protected.Pathspecs()...)...)
	if err != nil {
		return undecided("list the commits of "+short(update.New), err)
	}
	for _, commit := range append(commits, strings.Fields(out)...) {
		if err := o.complete(ctx, commit); err != nil {
			return err
		}
	}
	return nil
}

// rules are the published ones. Who the maintainers are is not published: every
// key that signed an approval in sight stands for one, under the name that the clone
// knows for it where names are compared with authors.
func (o *oracleClone) rules(ctx context.Context, dir string, update push.Update) (gate.Rules, error) {
	signers, err := o.assumedSigners(ctx, dir, update)
	return gate.Rules{
		ID: o.gate.Repo, Refs: o.gate.refs, Signers: signers, Threshold: 1, AuthorsMayApprove: o.gate.authorsMayApprove(),
		Protected: o.gate.protected, Forbidden: o.gate.forbidden,
		Harness: o.gate.Harness, Changelog: o.gate.changelog,
		ProtectedModes: gate.Modes{Paths: policy.Enforce, Replay: policy.Off},
		TopicModes:     gate.Modes{Paths: policy.Enforce, Replay: policy.Off},
	}, err
}

func (o *oracleClone) assumedSigners(ctx context.Context, dir string, update push.Update) (approval.Signers, error) {
	keys, err := o.keysInSight(ctx, update)
	if err != nil {
		return approval.Signers{}, err
	}
	var lines strings.Builder
	names := map[string]string{}
	if !o.gate.authorsMayApprove() {
		names = o.names(ctx)
	}
	for _, key := range keys {
		public, err := approval.ParsePublicKey(key)
		if err != nil {
			return approval.Signers{}, err
		}
		name := names[key]
		if name == "" {
			name = ssh.FingerprintSHA256(public)
		}
		fmt.Fprintf(&lines, "%s %s", name, key)
	}
	files := map[string]string{"maintainers": lines.String(), "revoked_keys": ""}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return approval.Signers{}, err
		}
	}
	if len(keys) == 0 {
		return approval.Signers{}, nil
	}
	return approval.LoadSigners(filepath.Join(dir, "maintainers"), filepath.Join(dir, "revoked_keys"), "")
}

// keysInSight are the keys of the published approvals and of those in the
// messages of the commits that would be pushed, as lines of a signers file.
func (o *oracleClone) keysInSight(ctx context.Context, update push.Update) ([]string, error) {
	exclude := []string{}
	if update.Old != o.zero {
		exclude = append(exclude, "^"+update.Old)
	}
	carried, err := o.carried(ctx, update.New, exclude...)
	if err != nil {
		return nil, err
	}
	tokens := append(slices.Clone(o.published), carried...)
	var keys []string
	for _, token := range tokens {
		if _, err := token.VerifyKey(); err != nil {
			continue
		}
		signature, err := approval.ParseSignature(token.Signature)
		if err != nil {
			continue
		}
		if line := string(ssh.MarshalAuthorizedKey(signature.Key)); !slices.Contains(keys, line) {
			keys = append(keys, line)
		}
	}
	return keys, nil
}

// carried are the approvals in the messages of the commits that rev has and no
// protected ref does.
func (o *oracleClone) carried(ctx context.Context, rev string, exclude ...string) ([]approval.Token, error) {
	args := append([]string{"rev-list", "--max-count=10000", rev}, exclude...)
	for _, ref := range o.gate.present(o.remote) {
		args = append(args, "^"+o.remote.refs[ref])
	}
	out, err := o.out(ctx, args...)
	if err != nil {
		return nil, err
	}
	var tokens []approval.Token
	err = o.repo.ReadAll(ctx, strings.Fields(string(out)), 5<<20, func(_ int, _ gitrepo.Object, data []byte) error {
		for _, raw := range approval.FindTokens(data) {
			if token, err := approval.ParseToken(raw); err == nil {
				tokens = append(tokens, token)
			}
		}
		return nil
	})
	return tokens, err
}

// records say that every protected ref stands at its good tip.
func (o *oracleClone) records(dir string) (*state.Store, error) {
	store, err := state.Open(dir, longAgo)
	if err != nil {
		return nil, err
	}
	refs := o.gate.present(o.remote)
	if !slices.Contains(refs, o.gate.refs.Entries()[0]) {
		refs = append(refs, o.gate.refs.Entries()[0])
	}
	locked, err := store.Lock(refs...)
	if err != nil {
		return nil, err
	}
	defer locked.Unlock()
	var records []*state.Record
	for _, ref := range refs {
		records = append(records, &state.Record{Version: 1, Ref: ref, Begun: longAgo, Good: state.Tip{Commit: o.remote.refs[ref], At: longAgo}})
	}
	return store, locked.Save(records...)
}
