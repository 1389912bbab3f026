package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/policy"
)

// postedGate is the published gate, read.
type postedGate struct {
	gate.Published
	protected policy.Patterns
	forbidden policy.Patterns // empty: none
	refs      policy.Refs
	changelog policy.Patterns // empty: no changelog is asked for
}

// readGate fetches and reads the remote's gate.
func (c *clone) readGate(ctx context.Context, r *remote) (*postedGate, error) {
	id, ok := r.refs[gateRef]
	if !ok {
		return nil, undecided(fmt.Sprintf("%s has no gate: it publishes no %s", quoted(r.name), gateRef), nil, c.otherRemotes(ctx, r.name)...)
	}
	if err := c.fetch(ctx, r, []string{gateRef}); err != nil {
		return nil, err
	}
	data, err := c.blob(ctx, id, maxGateBytes)
	if err != nil {
		return nil, undecided(fmt.Sprintf("read %s of %s", gateRef, quoted(r.name)), err)
	}
	g, err := parseGate(data)
	if err != nil {
		return nil, undecided(fmt.Sprintf("read %s of %s", gateRef, quoted(r.name)), err, "the server's admin writes it; tell them")
	}
	return g, nil
}

func (c *clone) otherRemotes(ctx context.Context, tried string) []string {
	names, err := c.remotes(ctx)
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == tried })
	if len(names) == 0 {
		return []string{"where another repository is the gated one, name it: --remote URL"}
	}
	return []string{"name the gated remote: --remote " + strings.Join(names, " or --remote ")}
}

// parseGate reads the blob strictly: one JSON object, each key once, no other
// key, no empty list of refs or protected paths.
func parseGate(data []byte) (*postedGate, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	if err := onceEach(data); err != nil {
		return nil, err
	}
	g := &postedGate{Published: gate.Published{Harness: gate.DefaultHarness}}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&g.Published); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	if g.Schema != gate.PublishedSchema {
		return nil, fmt.Errorf("schema is %q, and this git oracle reads %q", g.Schema, gate.PublishedSchema)
	}
	if !approval.ValidRepo(g.Repo) {
		return nil, fmt.Errorf("repo %q is no lower-case UUID", g.Repo)
	}
	if len(g.Contact) > 400 {
		return nil, errors.New("contact is longer than 400 bytes")
	}
	return g, g.parsePatterns()
}

func (g *postedGate) parsePatterns() (err error) {
	if g.protected, err = policy.ParsePatterns(g.ProtectedPaths); err != nil {
		return fmt.Errorf("protected_paths: %w", err)
	}
	if !slices.IsSorted(g.ProtectedPaths) {
		return errors.New("protected_paths are not sorted")
	}
	if len(g.ForbiddenPaths) > 0 {
		if g.forbidden, err = policy.ParsePatterns(g.ForbiddenPaths); err != nil {
			return fmt.Errorf("forbidden_paths: %w", err)
		}
	}
	if g.refs, err = policy.ParseRefs(g.Refs); err != nil {
		return fmt.Errorf("refs: %w", err)
	}
	g.Harness = strings.TrimSuffix(g.Harness, "/")
	if g.Harness != "" && (!fs.ValidPath(g.Harness) || g.Harness == ".") {
		return fmt.Errorf("harness %q is no directory below the root", g.Harness)
	}
	switch {
	case g.Changelog == nil:
		g.changelog = gate.DefaultChangelog()
	case len(g.Changelog) > 0:
		if g.changelog, err = policy.ParsePatterns(g.Changelog); err != nil {
			return fmt.Errorf("changelog: %w", err)
		}
	}
	return nil
}

// authorsMayApprove: an approval by who wrote the change counts.
func (g *postedGate) authorsMayApprove() bool {
	return g.AuthorsMayApprove == nil || *g.AuthorsMayApprove
}

// oracleRules are what the gate checks oracle files by.
func (g *postedGate) oracleRules() gate.OracleRules {
	return gate.OracleRules{Protected: g.protected, Harness: g.Harness, Changelog: g.changelog}
}

// onceEach refuses an object that is no flat JSON object with distinct keys;
// encoding/json alone takes the last of two and folds case.
func onceEach(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	first, err := decoder.Token()
	if err != nil {
		return err
	}
	if first != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	known := []string{"schema", "repo", "protected_paths", "forbidden_paths", "refs", "harness", "contact", "changelog", "authors_may_approve"}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if seen[key] {
			return fmt.Errorf("key %q stands twice", key)
		}
		if !slices.Contains(known, key) {
			return fmt.Errorf("key %q is unknown", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
	}
	for _, key := range known[:3] {
		if !seen[key] {
			return fmt.Errorf("key %q is missing", key)
		}
	}
	return nil
}

// present are the protected refs that the remote has, in the gate's order and
// then in byte order.
func (g *postedGate) present(r *remote) []string {
	var out []string
	for _, entry := range g.refs.Entries() {
		for _, ref := range r.branches() {
			if by, ok := g.refs.Entry(ref); ok && by == entry {
				out = append(out, ref)
			}
		}
	}
	return out
}

// named reads the refs of --for: full names or short branch names, protected
// ones. None means the first protected ref.
func (g *postedGate) named(names []string) ([]string, error) {
	if len(names) == 0 {
		return g.refs.Entries()[:1], nil
	}
	var out []string
	for _, name := range names {
		ref := name
		if !strings.HasPrefix(ref, "refs/") {
			ref = branchRoot + ref
		}
		if !g.refs.Protects(ref) {
			return nil, refused(fmt.Sprintf("%s is not protected here, so nothing is approved for it", quoted(ref)),
				"protected: "+strings.Join(g.refs.Entries(), ", "))
		}
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out, nil
}
