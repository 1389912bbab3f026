package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealgate/sealgate/internal/gate"
	"github.com/sealgate/sealgate/internal/state"
)

// maxListed bounds the rows of one list that an admin is shown.
const maxListed = 20

// adopt takes a protected ref's tip as its good tip, on an admin's word.
func (c *call) adopt(ctx context.Context) int {
	if len(c.args) != 1 || c.repo == "" {
		return c.usage("adopt needs --repo ID and one REF")
	}
	by, err := c.by(false)
	if err != nil {
		return c.usage(err.Error())
	}
	g, err := c.target(ctx)
	if err != nil {
		return c.say(err)
	}
	defer g.Repo.Close()
	ref := c.args[0]
	a, err := g.Adopt(ctx, ref, c.switches["--despite-forbidden"], by)
	if err != nil {
		code := c.say(shortRef(ref, g, err))
		if errors.Is(err, gate.ErrForbidden) {
			list(c.stderr, "  ", a.Forbidden)
			fmt.Fprintf(c.stderr, "hint: take them out of the tip, or adopt it with --despite-forbidden: what it has then stays\n")
		}
		return code
	}
	fmt.Fprintf(c.stdout, "%s: good tip %s, state %s\n", printable(ref), a.Tip.Commit, a.Tip.State)
	tip := named{id: a.Tip.Commit}
	if err := tip.describe(ctx, g); err == nil {
		fmt.Fprintf(c.stdout, "  that is \"%s\", by %s\n", printable(tip.subject), printable(tip.by))
	}
	c.adopted(a)
	return exitAccepted
}

// adopted says what is other than before.
func (c *call) adopted(a gate.Adoption) {
	out := c.stdout
	switch {
	case a.Was == nil:
		fmt.Fprintf(out, "  it had no good tip; it has %s below the protected paths\n", count(len(a.Files), "file"))
	case a.Gone && a.Was.State == a.Tip.State && a.Was.Paths == a.Tip.Paths:
		fmt.Fprintf(out, "  the good tip before was %s, whose object is gone; by its state no protected file differs\n", a.Was.Commit)
	case a.Gone && a.Was.State != "" && a.Was.Paths == a.Tip.Paths:
		fmt.Fprintf(out, "  %s\n", c.paint(fmt.Sprintf("the good tip before was %s, whose object is gone: protected files differ from there, which ones is not known, and nobody approved it", a.Was.Commit)))
	case a.Gone:
		fmt.Fprintf(out, "  the good tip before was %s, whose object is gone: what differs is not known\n", a.Was.Commit)
	case len(a.Files) == 0:
		fmt.Fprintf(out, "  the good tip before was %s; no protected file differs\n", a.Was.Commit)
	default:
		fmt.Fprintf(out, "  %s\n", c.paint(fmt.Sprintf("the good tip before was %s; %s other than there, and nobody approved it:", a.Was.Commit, are(len(a.Files), "protected file"))))
		list(out, "    ", a.Files)
	}
	tell := func(what string, paths []string) {
		if len(paths) > 0 {
			fmt.Fprintf(out, "  %s\n", c.paint(what))
			list(out, "    ", paths)
		}
	}
	tell("forbidden files that it has, and may keep:", a.Forbidden)
	tell("entries that alias a protected or forbidden path:", a.Aliases)
	if a.Broken != "" {
		fmt.Fprintf(out, "  its trees are not what git would write: %s\n", printable(a.Broken))
	}
	if a.Dropped > 0 {
		fmt.Fprintf(out, "  %s accepted and had not landed: forgotten\n", was(a.Dropped, "move"))
	}
	for _, p := range a.UnderWay {
		if p.Way.Fate() == state.FateOpen {
			fmt.Fprintf(out, "  %s\n", c.paint("a push that was let in at "+stamp(p.At)+" has not ended, and may still land"+process(p.Way)+": end it and look again"))
		}
	}
	if a.Closed != nil {
		fmt.Fprintf(out, "  opening %s is closed\n", a.Closed.ID)
	}
	fmt.Fprintf(out, "  approvals issued before now count no more for it\n")
}

func list(w io.Writer, indent string, rows []string) {
	for i, row := range rows {
		if i == maxListed {
			fmt.Fprintf(w, "%sand %d more\n", indent, len(rows)-i)
			return
		}
		fmt.Fprintf(w, "%s%s\n", indent, printable(row))
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func are(n int, what string) string {
	if n == 1 {
		return count(n, what) + " is"
	}
	return count(n, what) + " are"
}

func was(n int, what string) string {
	if n == 1 {
		return count(n, what) + " was"
	}
	return count(n, what) + " were"
}
