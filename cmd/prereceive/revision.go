package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/trailer"
)

// named is the commit that an admin's word stood for when he said it.
type named struct {
	id      string
	subject string
	by      string // author and time
	ref     string // the ref whose name it was, which may move later; empty for an id
}

// commitOf resolves a revision at once, so that what is recorded is a commit and no
// name that moves. Where git would warn and choose, it refuses.
func commitOf(ctx context.Context, g *gate.Gate, rev string) (named, error) {
	base, rest, _ := cutAny(rev, "~^")
	if base == "" || base[0] == '-' || strings.ContainsAny(base, "@:{}*?[\\") || strings.ContainsFunc(base, func(r rune) bool { return r <= ' ' || r == 0x7f }) || strings.Trim(rest, "~^0123456789") != "" {
		return named{}, fmt.Errorf("%q: want a commit's id, or the name of a ref, with ~ and ^ behind it", rev)
	}
	refs, err := namesakes(ctx, g.Repo, base)
	if err != nil {
		return named{}, err
	}
	full := hexadecimal(base) && (len(base) == 40 || len(base) == 64)
	switch {
	case full:
		refs = nil // as git does: an id is an id, whatever is named like it
	case len(refs) > 1 || len(refs) == 1 && hexadecimal(base) && len(base) >= 4:
		return named{}, fmt.Errorf("%q is ambiguous: %s; name one in full, or a commit by its id", base, strings.Join(append(refs, hexToo(base)...), ", "))
	case len(refs) == 0 && !(hexadecimal(base) && len(base) >= 4):
		return named{}, fmt.Errorf("%q is no ref here, and no commit's id", base)
	case len(refs) == 1:
		base = refs[0]
	}
	objects, err := g.Repo.Info(ctx, base+rest+"^{commit}")
	if err != nil {
		return named{}, err
	}
	if objects[0].Type != gitrepo.Commit {
		return named{}, fmt.Errorf("%q names no commit here, or several", rev)
	}
	n := named{id: objects[0].ID}
	if len(refs) == 1 {
		n.ref = refs[0]
	}
	return n, n.describe(ctx, g)
}

func hexToo(base string) []string {
	if hexadecimal(base) {
		return []string{"perhaps an object"}
	}
	return nil
}

func hexadecimal(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }

// namesakes are the refs that a name may stand for, by the rules of gitrevisions(7).
func namesakes(ctx context.Context, repo *gitrepo.Repo, name string) ([]string, error) {
	list, err := repo.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, full := range []string{name, "refs/" + name, "refs/tags/" + name, "refs/heads/" + name, "refs/remotes/" + name} {
		if slices.ContainsFunc(list, func(r gitrepo.Ref) bool { return r.Name == full }) {
			out = append(out, full)
		}
	}
	if name == "HEAD" {
		out = append(out, name)
	}
	return out, nil
}

// describe reads what a commit says of itself.
func (n *named) describe(ctx context.Context, g *gate.Gate) error {
	_, data, err := g.Repo.Read(ctx, n.id, 6<<20)
	if err != nil {
		return err
	}
	subject, _, _ := bytes.Cut(bytes.TrimLeft(trailer.Message(data), "\n"), []byte("\n"))
	n.subject = string(subject[:min(len(subject), 100)])
	head, _, _ := bytes.Cut(data, []byte("\n\n"))
	for line := range bytes.Lines(head) {
		if author, ok := bytes.CutPrefix(line, []byte("author ")); ok {
			if at := bytes.LastIndexByte(author, '>'); at >= 0 {
				n.by = string(author[:min(at+1, 200)])
			}
			break
		}
	}
	return nil
}

// shown are the lines that tell an admin what he named; none where he named none.
func (n *named) shown(lead string) string {
	if n == nil {
		return ""
	}
	text := fmt.Sprintf("%scommit %s\n    \"%s\", by %s\n", lead, n.id, printable(n.subject), printable(n.by))
	if n.ref != "" {
		text += fmt.Sprintf("    %s stands there now; this commit is meant, wherever that goes\n", printable(n.ref))
	}
	return text
}

// shortRef adds the full name to an error about a ref that was named in short.
func shortRef(ref string, g *gate.Gate, err error) error {
	if full := "refs/heads/" + ref; !strings.HasPrefix(ref, "refs/") && g.Refs.Protects(full) {
		return fmt.Errorf("%w; refs are named in full: %s", err, full)
	}
	return err
}
