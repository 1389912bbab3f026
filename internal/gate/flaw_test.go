package gate

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/policy"
)

// entry is one of a raw tree: mode, name and id.
type entry struct{ mode, name, id string }

// tree writes a tree with exactly these entries, in this order.
func (b *bench) tree(entries ...entry) string {
	b.t.Helper()
	var raw strings.Builder
	for _, e := range entries {
		id, err := hex.DecodeString(e.id)
		if err != nil {
			b.t.Fatal(err)
		}
		raw.WriteString(e.mode + " " + e.name + "\x00" + string(id))
	}
	return b.git(raw.String(), "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
}

func (b *bench) blob(text string) string {
	b.t.Helper()
	return b.git(text, "hash-object", "-w", "--stdin")
}

// on makes a commit of a tree.
func (b *bench) on(tree string, parents ...string) string {
	b.t.Helper()
	args := []string{"-c", "user.name=w", "-c", "user.email=" + bot, "commit-tree", "-m", fmt.Sprint(time.Now().UnixNano()), tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return b.git("", args...)
}

// flawed is a gate over main whose tip has trees that git would not write.
type flawed struct {
	*approving
	app, other, oracles, more, odd string
}

func newFlawed(t *testing.T) *flawed {
	t.Helper()
	b := &flawed{approving: newApproving(t, anna)}
	b.app, b.other = b.blob("1\n"), b.blob("2\n")
	b.oracles = b.tree(entry{"100644", "fees.txt", b.blob("max = 500\n")})
	b.more = b.tree(entry{"100644", "fees.txt", b.blob("max = 900\n")})
	b.odd = b.tree(entry{"100664", "fees.txt", b.blob("max = 500\n")}) // git wrote such modes once
	return b
}

// stands has main stand at a commit, which came there before the gate.
func (b *flawed) stands(tree string) string {
	b.t.Helper()
	tip := b.on(tree)
	b.git("", "update-ref", mainRef, tip)
	b.gate.Baselines[mainRef] = tip
	return tip
}

// root is a tree with a name that stands twice, as an old import may have it.
func (b *flawed) root(app, oracles string, more ...entry) string {
	b.t.Helper()
	return b.tree(append([]entry{{"100644", "app.py", b.app}, {"100644", "app.py", app}, {"40000", "oracles", oracles}}, more...)...)
}

// An old fault of a tree on the way to the protected paths stands in nobody's way while
// nobody touches it, and hides no new one.
func TestAnOldFlawOnTheWayHindersNobodyAndHidesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		tree func(b *flawed) string
		sign bool // the change of state is approved
		want string
	}{
		{"a push that leaves it", func(b *flawed) string {
			return b.root(b.app, b.oracles, entry{"100644", "readme", b.other})
		}, false, ""},
		{"a push that mends it", func(b *flawed) string {
			return b.tree(entry{"100644", "app.py", b.other}, entry{"40000", "oracles", b.oracles})
		}, false, ""},
		{"an approved change that leaves it", func(b *flawed) string { return b.root(b.app, b.more) }, true, ""},
		{"a change that leaves it, and nobody approved", func(b *flawed) string { return b.root(b.app, b.more) }, false, string(finding.ProtectedChangeUnapproved)},
		{"another content of it", func(b *flawed) string { return b.root(b.other, b.oracles) }, false, string(finding.MalformedTree)},
		{"another fault behind it", func(b *flawed) string {
			return b.root(b.app, b.oracles, entry{"100644", "oracles.x", b.app}, entry{"100644", "a", b.app})
		}, false, string(finding.MalformedTree)},
		{"a name that shadows an oracle behind it", func(b *flawed) string {
			return b.root(b.app, b.oracles, entry{"100644", "oracles/fees.txt", b.other})
		}, false, string(finding.MalformedTree)},
		{"the same, approved", func(b *flawed) string {
			return b.root(b.app, b.oracles, entry{"100644", "oracles/fees.txt", b.other})
		}, true, string(finding.MalformedTree)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newFlawed(t)
			base := b.stands(b.root(b.app, b.oracles))
			tip := b.on(c.tree(b), base)
			if c.sign {
				b.approve(anna, base, tip)
			}
			for _, ref := range []string{"refs/heads/topic", mainRef} {
				u := push.Update{Old: base, New: tip, Ref: ref}
				if ref != mainRef {
					u.Old = none
				}
				out := b.receive(u)
				switch {
				case c.want == "" && out.Result != Accepted:
					t.Errorf("%s: %v, %s", ref, out.Result, codesOf(out))
				case c.want == string(finding.ProtectedChangeUnapproved) && ref != mainRef:
				case c.want != "" && (out.Result != Refused || !strings.Contains(codesOf(out), c.want)):
					t.Errorf("%s: %v, %s", ref, out.Result, codesOf(out))
				}
			}
		})
	}
}

// A ref is not taken back to a commit with a fault that its tip has no more, where the
// protected entries are the same: nothing but its good tip is what it is judged from.
func TestARewindBringsNoFlawBack(t *testing.T) {
	t.Parallel()
	b := newFlawed(t)
	old := b.on(b.root(b.app, b.oracles, entry{"100644", "readme", b.other}))
	sound := b.tree(entry{"100644", "app.py", b.app}, entry{"40000", "oracles", b.oracles})
	older := b.on(sound, old)
	tip := b.on(b.tree(entry{"100644", "app.py", b.other}, entry{"40000", "oracles", b.oracles}), older)
	b.git("", "update-ref", mainRef, tip)
	b.gate.Baselines[mainRef] = tip
	if out := b.receive(push.Update{Old: tip, New: old, Ref: mainRef}); out.Result != Refused || codesOf(out) != string(finding.MalformedTree) {
		t.Errorf("to the fault: %v, %s", out.Result, codesOf(out))
	}
	if out := b.receive(push.Update{Old: tip, New: older, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("to a sound commit: %v, %s", out.Result, codesOf(out))
	}
}

// Trees at the protected paths that git would not write have no state that could be
// signed. Where a ref stands at such trees all that leaves them alone passes, and a way
// out of them is signed like any other.
func TestAnOldFlawAtTheProtectedPathsHindersNobody(t *testing.T) {
	t.Parallel()
	plain := func(b *flawed, app, oracles string) string {
		return b.tree(entry{"100644", "app.py", app}, entry{"40000", "oracles", oracles})
	}
	b := newFlawed(t)
	base := b.stands(plain(b, b.app, b.odd))
	next := b.on(plain(b, b.other, b.odd), base)
	mended := b.on(plain(b, b.app, b.oracles), base)
	worse := b.on(plain(b, b.app, b.tree(entry{"100664", "fees.txt", b.blob("max = 900\n")})), base)
	for _, u := range []push.Update{
		{Old: none, New: next, Ref: "refs/heads/topic"}, {Old: none, New: next, Ref: "refs/heads/release/1"}, {Old: base, New: next, Ref: mainRef},
	} {
		if out := b.receive(u); out.Result != Accepted || codesOf(out) != "" && u.Ref != "refs/heads/topic" {
			t.Errorf("%s leaves it alone: %v, %s", u.Ref, out.Result, codesOf(out))
		}
	}
	if b.pending(mainRef) != 1 {
		t.Errorf("%d pending", b.pending(mainRef))
	}
	for name, c := range map[string]struct {
		tip, want string
	}{
		"mended, and nobody signed": {mended, string(finding.ProtectedChangeUnapproved)}, "altered": {worse, string(finding.MalformedTree)},
	} {
		if out := b.receive(push.Update{Old: base, New: c.tip, Ref: mainRef}); out.Result != Refused || codesOf(out) != c.want {
			t.Errorf("%s: %v, %s", name, out.Result, codesOf(out))
		}
	}
	b.approve(anna, base, mended)
	if out := b.receive(push.Update{Old: base, New: mended, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("mended by a signature: %v, %s", out.Result, codesOf(out))
	}
	a, err := b.gate.Adopt(ctx, mainRef, false, By{})
	if err != nil || a.Broken == "" {
		t.Errorf("adoption says %q, %v", a.Broken, err)
	}
}

// An opening to the sound state leads out as well, and to no other malformed one.
func TestAnOpeningLeadsOutOfAFlaw(t *testing.T) {
	t.Parallel()
	b := newFlawed(t)
	plain := func(oracles string) string {
		return b.tree(entry{"100644", "app.py", b.app}, entry{"40000", "oracles", oracles})
	}
	base := b.stands(plain(b.odd))
	mended := b.on(plain(b.oracles), base)
	after, err := b.gate.State(ctx, mended)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.gate.State(ctx, base); err == nil {
		t.Error("a malformed state can be opened to")
	}
	b.gate.ProtectedModes.Paths = policy.Enforce
	if _, err := b.gate.Open(ctx, mainRef, after, time.Minute, By{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	if out := b.receive(push.Update{Old: base, New: mended, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("%v, %s", out.Result, codesOf(out))
	}
}
