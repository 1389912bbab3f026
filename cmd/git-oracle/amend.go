package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealgate/sealgate/internal/trailer"
)

// amendable wants HEAD to be the commit, and no operation under way that holds
// on to it.
func (c *clone) amendable(ctx context.Context, commit string) error {
	head, err := c.commit(ctx, "HEAD")
	if err != nil {
		return refused("there is no commit at HEAD to amend")
	}
	if head != commit {
		return refused(fmt.Sprintf("--amend changes HEAD (%s), and %s is approved", short(head), short(commit)), "git oracle approve --print "+short(commit))
	}
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG"} {
		path, err := c.line(ctx, "rev-parse", "--git-path", name)
		if err != nil {
			return undecided("look at the working tree", err)
		}
		if _, err := os.Lstat(path); err == nil {
			return refused("a merge, rebase, cherry-pick, revert or bisection is under way; finish it first ("+filepath.Base(path)+")", "git status")
		}
	}
	return nil
}

// amend gives HEAD's message the trailer lines: tree, parents, author, encoding
// and the message's own bytes stay. The index and the working tree are not
// touched.
func (o *oracleClone) amend(ctx context.Context, commit string, signed []signedStep, w io.Writer) error {
	raw, err := o.out(ctx, "cat-file", "commit", commit)
	if err != nil {
		return undecided("read commit "+short(commit), err)
	}
	committer, err := o.line(ctx, "var", "GIT_COMMITTER_IDENT")
	if err != nil {
		return undecided("find out who commits", err)
	}
	amended, dropped, err := withLines(raw, committer, trailerLines(signed))
	if err != nil {
		return undecided("amend commit "+short(commit), err)
	}
	id, err := o.feed(ctx, amended, "hash-object", "-t", "commit", "-w", "--stdin")
	if err != nil {
		return undecided("write the amended commit", err)
	}
	next := strings.TrimSpace(string(id))
	if _, err := o.out(ctx, "update-ref", "-m", "git oracle approve --amend", "HEAD", next, commit); err != nil {
		return undecided("move HEAD", err)
	}
	fmt.Fprintf(w, "HEAD is now %s, with the approval in its message until %s\n", short(next), instant(signed[0].token.Statement.Expires))
	if dropped {
		fmt.Fprintln(w, "note: the signature on the commit itself was dropped; git commit --amend --no-edit -S signs it again")
	}
	fmt.Fprintf(w, "hint: %s\n", o.next(signed[0].plan, "HEAD"))
	return nil
}

// withLines is a raw commit with another committer, without a signature of the
// old content, and with lines at the end of its message: in its trailer block
// where it has one, else in a block of their own.
func withLines(raw []byte, committer string, lines []string) (amended []byte, dropped bool, err error) {
	head, message, ok := bytes.Cut(raw, []byte("\n\n"))
	if !ok {
		return nil, false, errors.New("it has no message")
	}
	var out bytes.Buffer
	skipping := false
	for line := range bytes.Lines(append(head, '\n')) {
		if line[0] == ' ' && skipping {
			continue
		}
		skipping = bytes.HasPrefix(line, []byte("gpgsig ")) || bytes.HasPrefix(line, []byte("gpgsig-sha256 "))
		switch {
		case skipping:
			dropped = true
		case bytes.HasPrefix(line, []byte("committer ")):
			out.WriteString("committer " + committer + "\n")
		default:
			out.Write(line)
		}
	}
	out.WriteByte('\n')
	out.Write(message)
	if len(message) > 0 && !bytes.HasSuffix(message, []byte("\n")) {
		out.WriteByte('\n')
	}
	if len(trailer.Parse(message)) == 0 {
		out.WriteByte('\n')
	}
	out.WriteString(strings.Join(lines, "\n") + "\n")
	return out.Bytes(), dropped, nil
}
