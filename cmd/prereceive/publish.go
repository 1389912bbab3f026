package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sealgate/sealgate/internal/config"
	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/policy"
)

// publish prints the content of refs/oracle/gate for a repository.
func (c *call) publish() int {
	if len(c.args) > 0 || c.repo == "" {
		fmt.Fprintf(c.stderr, "error: publish needs --repo ID\n%s", usage)
		return exitUsage
	}
	conf, err := config.LoadGate(c.config)
	if err != nil {
		return c.say(err)
	}
	repo, ok := conf.Repository(c.repo)
	if !ok {
		return c.say(fmt.Errorf("repository %s is not listed", c.repo))
	}
	text, err := publication(repo)
	if err != nil {
		return c.say(err)
	}
	if _, err := c.stdout.Write(text); err != nil {
		return c.say(fmt.Errorf("publish the gate: %w", err))
	}
	return exitAccepted
}

// publication is what refs/oracle/gate says of a repository.
func publication(repo config.Repository) ([]byte, error) {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	var authors *bool
	if !repo.AuthorsMayApprove {
		authors = &repo.AuthorsMayApprove
	}
	err := out.Encode(gate.Published{
		Schema: gate.PublishedSchema, Repo: repo.ID, ProtectedPaths: listed(repo.Protected), ForbiddenPaths: listed(repo.Forbidden),
		Refs: repo.Refs.Entries(), Harness: repo.Harness, Changelog: listed(repo.Changelog), Contact: repo.Contact,
		AuthorsMayApprove: authors,
	})
	if err != nil {
		return nil, fmt.Errorf("publish the gate: %w", err)
	}
	return text.Bytes(), nil
}

// listed are the patterns, sorted; an empty list where there are none.
func listed(p policy.Patterns) []string {
	if p.Empty() {
		return []string{}
	}
	return p.Sorted()
}
