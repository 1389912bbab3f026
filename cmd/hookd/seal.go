package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealgate/sealgate/internal/sealed"
)

// sealCommand is "hookd seal": an admin's work on a sealed tree.
func sealCommand(a *app) *cobra.Command {
	var ch choice
	c := group("seal", "make, lock and check a sealed tree",
		sealInit(a, &ch), sealNewProperty(a, &ch), sealAddFixture(a, &ch), sealTry(a, &ch), sealLock(a, &ch), sealVerify(a, &ch))
	c.Example = `  hookd seal new-property adds_up --repo shop - <adds_up.py
  hookd seal add-fixture dinner dinner.json --repo shop
  hookd seal lock --repo shop --parent COMMIT
  hookd seal try COMMIT --repo shop`
	ch.sealFlags(c)
	return c
}

func sealInit(a *app, ch *choice) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "make the skeleton of a sealed tree",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("seal init takes one directory, not %q", args)
			}
			if len(args) == 1 {
				if ch.seal != "" || ch.repo != "" {
					return usage("give DIR, --seal or --repo, not two of them")
				}
				ch.seal = args[0]
			}
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			if _, err := os.Lstat(filepath.Join(p.seal, sealed.ManifestName)); err == nil {
				return fail(exitError, "hookd seal verify says what it lacks", "there is a sealed tree in %q already", p.seal)
			}
			if err := sealed.Init(p.seal); err != nil {
				return err
			}
			a.say("sealed tree made in %s", p.seal)
			a.say("next: hookd seal new-property ID, hookd seal add-fixture ID FILE, hookd seal lock --parent COMMIT")
			return nil
		},
	}
}

func sealNewProperty(a *app, ch *choice) *cobra.Command {
	var fixtures []string
	c := &cobra.Command{
		Use:   "new-property ID [FILE|-]",
		Short: "add a property: FILE, or standard input, or a template that fails until it is written",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("hookd seal new-property takes ID, and FILE where the property is written already")
			}
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return a.addProperty(p.seal, args[0], fixtures, args[1])
			}
			name, err := sealed.NewProperty(p.seal, args[0], fixtures)
			if err != nil {
				return editFault(err)
			}
			a.say("property %s: write holds() in %s", args[0], filepath.Join(p.seal, name))
			a.say("until then it refuses every change; run hookd seal lock when it is written")
			return nil
		},
	}
	c.Flags().StringSliceVar(&fixtures, "fixture", nil, "ask it about this fixture only (may be given again; default: all)")
	return c
}

// addProperty adds a property that is written already.
func (a *app) addProperty(dir, id string, fixtures []string, from string) error {
	in, err := a.input("property", from)
	if err != nil {
		return err
	}
	defer in.Close()
	name, err := sealed.AddProperty(dir, id, fixtures, in)
	if err != nil {
		return editFault(err)
	}
	a.say("property %s: %s", id, name)
	return nil
}

func sealAddFixture(a *app, ch *choice) *cobra.Command {
	return &cobra.Command{
		Use:   "add-fixture ID FILE|-",
		Short: "copy a file, or standard input, into the tree as a fixture",
		Args:  exactly("ID", "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			in, err := a.input("fixture", args[1])
			if err != nil {
				return err
			}
			defer in.Close()
			name, sum, err := sealed.AddFixture(p.seal, args[0], args[1], in)
			if err != nil {
				return editFault(err)
			}
			a.say("fixture %s: %s, sha256 %s", args[0], name, sum)
			return nil
		},
	}
}

func (a *app) input(what, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return f, nil
}

func sealTry(a *app, ch *choice) *cobra.Command {
	return &cobra.Command{
		Use:   "try COMMIT",
		Short: "judge one commit by the tree, and store nothing",
		Long: "Judge one commit by the tree as it is now, as a push of it would be judged, and store nothing.\n" +
			"Exit codes: 0 ok, 2 not ok, 3 not judged, 64 usage.",
		Args: exactly("COMMIT"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			if p.gitDir == "" {
				return usage("which git repository? give --git-dir DIR")
			}
			id, err := ch.commit(c.Context(), p, args[0])
			if err != nil {
				return err
			}
			if a.try == nil {
				return fail(exitNotJudged, "", "this build of hookd cannot replay")
			}
			if _, err := sealed.Load(p.seal); err != nil {
				return sealFault(err)
			}
			code := a.try(c.Context(), p, id, a.stdout)
			if code == exitOK || code == exitNotOK {
				a.say("(only tried: this decision is not stored)")
			}
			if code != exitOK {
				return errSilent{code}
			}
			return nil
		},
	}
}

func sealLock(a *app, ch *choice) *cobra.Command {
	var parent string
	c := &cobra.Command{
		Use:   "lock",
		Short: "bind the manifest to the files as they are now",
		Long: "Bind the manifest to the files as they are now: digests of properties and fixtures, and the parent commit.\n" +
			"Where the tree has invariants (oracles/*.toml), their blob_sha256 and oracles/MANIFEST.sha256 as well.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			id, err := ch.parent(c.Context(), p, parent)
			if err != nil {
				return err
			}
			changed, err := sealed.Lock(p.seal, id)
			if lacksParent(err) {
				return fail(exitNotOK, "give --parent: the full id of a commit, or its name in the repository that --git-dir names", "%w", err)
			}
			if err != nil {
				return sealFault(err)
			}
			for _, line := range changed {
				a.say("  %s", line)
			}
			return a.verified(p.seal, "locked")
		},
	}
	c.Flags().StringVar(&parent, "parent", "", "commit the tree is locked for (default: HEAD of --git-dir, else the one that is there)")
	return c
}

func lacksParent(err error) bool {
	var faults sealed.Faults
	return errors.As(err, &faults) && slices.ContainsFunc(faults, func(f sealed.Fault) bool {
		return f.File == sealed.ManifestName && f.Field == "parent_sha_at_lock"
	})
}

// commit resolves a revision. hookd's mirror, which is asked unless --git-dir
// names another repository, has commits and no branches.
func (ch *choice) commit(ctx context.Context, p place, rev string) (string, error) {
	id, err := commit(ctx, p.gitDir, rev)
	var told *failure
	if err != nil && ch.gitDir == "" && !errors.As(err, &told) {
		return "", fail(exitError, "hookd's mirror knows no branch names: give the full id, or --git-dir DIR", "%w", err)
	}
	return id, err
}

// parent is the commit to lock for; empty keeps the one that is there.
func (ch *choice) parent(ctx context.Context, p place, rev string) (string, error) {
	if rev != "" {
		return ch.commit(ctx, p, rev)
	}
	if p.gitDir == "" {
		return "", nil
	}
	id, err := commit(ctx, p.gitDir, "HEAD")
	if err != nil {
		return "", nil // an empty mirror: Lock says so where it needs a commit
	}
	return id, nil
}

func sealVerify(a *app, ch *choice) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "name everything that is wrong with the tree; exit 2 if anything is",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			p, err := ch.resolve()
			if err != nil {
				return err
			}
			if asJSON {
				return a.verifyJSON(p.seal)
			}
			return a.verified(p.seal, "ok")
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the result as JSON")
	return c
}

// verified verifies a tree and sums it up.
func (a *app) verified(dir, word string) error {
	t, err := sealed.Verify(dir)
	if err != nil {
		return sealFault(err)
	}
	a.say("%s: %s, %s, %s, %s; seal %s", word,
		count(len(t.Properties), "property", "properties"), count(len(t.Fixtures), "fixture", "fixtures"),
		count(len(t.Invariants()), "invariant", "invariants"), count(len(t.Freezes.Entries()), "freeze", "freezes"), t.Digest[:12])
	for _, w := range a.warnings(t) {
		fmt.Fprintf(a.stderr, "hint: %s\n", w)
	}
	return nil
}

// warnings are those of the tree, and the freezes that refuse every change today.
func (a *app) warnings(t *sealed.Tree) []string {
	all := t.Warnings()
	for _, e := range t.Freezes.Entries() {
		switch {
		case e.Expired(a.now()):
			all = append(all, fmt.Sprintf("freeze %s has expired and refuses every change: hookd freeze prune removes it", printable(e.TestID())))
		case strings.TrimSpace(e.Owner()) == "":
			all = append(all, fmt.Sprintf("freeze %s has no owner and refuses every change", printable(e.TestID())))
		}
	}
	return all
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func (a *app) verifyJSON(dir string) error {
	result := struct {
		OK       bool          `json:"ok"`
		Digest   string        `json:"seal_digest"`
		Faults   sealed.Faults `json:"faults"`
		Warnings []string      `json:"warnings"`
	}{Faults: sealed.Faults{}, Warnings: []string{}}
	t, err := sealed.Verify(dir)
	switch {
	case err == nil:
		result.OK, result.Digest = true, t.Digest
		result.Warnings = append(result.Warnings, a.warnings(t)...)
	case !errors.As(err, &result.Faults):
		return err
	}
	if err := a.json(result); err != nil {
		return err
	}
	if !result.OK {
		return errSilent{exitNotOK}
	}
	return nil
}

// editFault is for a verb that adds to a tree: it did nothing.
func editFault(err error) error {
	var faults sealed.Faults
	switch {
	case errors.Is(err, sealed.ErrBadID):
		return fail(exitUsage, "", "%w", err)
	case errors.Is(err, sealed.ErrTaken):
		return fail(exitError, "to change it, write its file in the sealed tree and run hookd seal lock", "%w", err)
	case errors.As(err, &faults):
		return fail(exitNotOK, "nothing was changed", "%w", err)
	}
	return err
}

// sealFault gives faults of a tree their exit code and a next step.
func sealFault(err error) error {
	var faults sealed.Faults
	if !errors.As(err, &faults) {
		return err
	}
	return fail(exitNotOK, "mend these, then run hookd seal lock (its --parent fills the parent commit)", "%w", err)
}
