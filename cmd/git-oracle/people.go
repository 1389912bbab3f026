package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// maxNames bounds a file of allowed signers that is looked into for names.
const maxNames = 1 << 20

// names are whose keys are, by the key as a line, as far as the clone knows: by
// git's gpg.ssh.allowedSignersFile, and your own. The server has a list of its own,
// and does not tell it.
func (c *clone) names(ctx context.Context) map[string]string {
	out := map[string]string{}
	if key, err := c.findKey(ctx, ""); err == nil && key.public != nil {
		if mine := c.address(ctx); mine != "" {
			out[string(ssh.MarshalAuthorizedKey(key.public))] = mine
		}
	}
	path, err := c.configPath(ctx, "gpg.ssh.allowedSignersFile")
	if err != nil || path == "" {
		return out
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) > maxNames {
		return out
	}
	for line := range bytes.Lines(data) {
		principals, rest, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !ok || len(principals) == 0 || principals[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(string(principals), ",")
		public, _, _, _, err := ssh.ParseAuthorizedKey(rest)
		if err == nil && isAddress(name) {
			out[string(ssh.MarshalAuthorizedKey(public))] = strings.ToLower(name)
		}
	}
	return out
}

// address is what git writes into your commits, in lower case; empty for none.
func (c *clone) address(ctx context.Context) string {
	ident, err := c.line(ctx, "var", "GIT_AUTHOR_IDENT")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(ident, "<")
	address, _, _ := strings.Cut(rest, ">")
	if !isAddress(address) {
		return ""
	}
	return strings.ToLower(address)
}

// isAddress: a name that a signers file may have, and that can be an author's.
func isAddress(name string) bool {
	local, domain, ok := strings.Cut(name, "@")
	return ok && local != "" && domain != "" && len(name) <= 200 && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`*?!,"'\<>`, r)
	})
}

// ownChange warns who is about to approve what he wrote himself, where the server
// does not count that. The rule itself, which knows more, is the server's.
func (o *oracleClone) ownChange(ctx context.Context, p plan) ([]string, error) {
	mine := o.address(ctx)
	if o.gate.authorsMayApprove() || mine == "" {
		return nil, nil
	}
	commits, err := o.touching(ctx, p, maxSteps+1)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	out, err := o.out(ctx, append([]string{"log", "--no-walk", "--format=%ae%n%ce%n%(trailers:key=Co-authored-by,valueonly)"}, commits...)...)
	if err != nil {
		return nil, undecided("read who wrote "+short(p.Rev), err)
	}
	wrote := func(line string) bool {
		line = strings.ToLower(strings.TrimSpace(line))
		return line == mine || strings.Contains(line, "<"+mine+">")
	}
	if !slices.ContainsFunc(strings.Split(string(out), "\n"), wrote) {
		return nil, nil
	}
	return []string{fmt.Sprintf("who wrote a change may not approve it here, and %s wrote some of this: another maintainer must sign", quoted(mine))}, nil
}
