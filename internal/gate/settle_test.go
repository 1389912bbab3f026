package gate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
)

// children has every child of git that the gate starts written down by its verb.
func (b *bench) children() func() string {
	b.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		b.t.Fatal(err)
	}
	dir := b.t.TempDir()
	log, wrapper := filepath.Join(dir, "log"), filepath.Join(dir, "git")
	script := fmt.Sprintf("#!/bin/sh\nfor a; do case $a in -*|*=*|*.*=*) ;; *) echo $a >>%s; break;; esac; done\nexec %s \"$@\"\n", log, git)
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		b.t.Fatal(err)
	}
	return func() string {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
		_ = os.Remove(log) // there is none where nothing was started
		repo, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: b.dir, Git: wrapper})
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { repo.Close() })
		b.gate.Repo.Close()
		b.gate.Repo = repo
		return strings.Join(strings.Fields(string(data)), " ")
	}
}

// line makes commits in a line from a parent, and beside makes as many that each have
// that parent.
func (b *bench) line(parent string, n int) []string   { return b.row(parent, n, true) }
func (b *bench) beside(parent string, n int) []string { return b.row(parent, n, false) }

func (b *bench) row(parent string, n int, line bool) []string {
	b.t.Helper()
	var in strings.Builder
	for i := range n {
		from := parent
		if line && i > 0 {
			from = fmt.Sprintf(":%d", i)
		}
		fmt.Fprintf(&in, "commit refs/scratch/row\nmark :%d\ncommitter a <a@example.org> %d +0000\ndata 0\nfrom %s\nM 100644 inline app.py\ndata %d\n%d\n", i+1, 1_700_000_001+i, from, len(fmt.Sprint(i)), i)
	}
	marks := filepath.Join(b.t.TempDir(), "marks")
	b.git(in.String(), "fast-import", "--quiet", "--force", "--export-marks="+marks)
	b.git("", "update-ref", "-d", "refs/scratch/row")
	data, err := os.ReadFile(marks)
	if err != nil {
		b.t.Fatal(err)
	}
	ids := make([]string, n)
	for text := range strings.Lines(string(data)) {
		var i int
		var id string
		if _, err := fmt.Sscanf(text, ":%d %s", &i, &id); err != nil {
			b.t.Fatal(err)
		}
		ids[i-1] = id
	}
	return ids
}

// attempts gives main's record a move from old to each of these, as if it had been
// accepted and had never landed.
func (b *bench) attempts(old string, ids []string) {
	b.t.Helper()
	if out := b.receive(push.Update{Old: old, New: ids[0], Ref: mainRef}); out.Result != Accepted {
		b.t.Fatalf("%v, %s", out.Result, codesOf(out))
	}
	locked, err := b.gate.Store.Lock(mainRef)
	if err != nil {
		b.t.Fatal(err)
	}
	defer locked.Unlock()
	r, err := locked.Load(mainRef)
	if err != nil || len(r.Pending) == 0 {
		b.t.Fatalf("%v, %v", r, err)
	}
	for _, id := range ids[1:] {
		m := r.Pending[len(r.Pending)-1]
		m.New = id
		r.Pending = append(r.Pending, m)
	}
	if err := locked.Save(r); err != nil {
		b.t.Fatal(err)
	}
}

// However many accepted moves have not landed, a push starts one child of git for the
// question which of them has, and none where they are near: every update hook that
// refuses, and every client that goes away, leaves one.
func TestMovesThatNeverLandedCostOneChildTogether(t *testing.T) {
	t.Parallel()
	const many = 150
	gone := make([]string, many)
	for i := range gone {
		gone[i] = fmt.Sprintf("%040x", i+1)
	}
	for _, c := range []struct {
		name  string
		trunk int // commits between the moves and where the ref stands now
		ids   func(b *bench) []string
		want  string
	}{
		{"beside the tip", 0, func(b *bench) []string { return b.beside(b.base(), many) }, "cat-file"},
		{"a little behind", 4, func(b *bench) []string { return b.beside(b.base(), many) }, "cat-file"},
		{"far behind", 40, func(b *bench) []string { return b.beside(b.base(), many) }, "cat-file rev-parse"},
		{"whose objects are gone", 40, func(b *bench) []string {
			return append(b.beside(b.base(), 1), gone...)
		}, "cat-file rev-parse"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
			b.gate.Ask = nil
			children := b.children()
			b.attempts(b.base(), c.ids(b))
			tip := b.base()
			if c.trunk > 0 {
				trunk := b.line(tip, c.trunk)
				tip = trunk[len(trunk)-1]
				b.git("", "update-ref", mainRef, tip)
			}
			next := b.line(tip, 1)[0]
			children()
			out := b.receive(push.Update{Old: tip, New: next, Ref: mainRef})
			if out.Result != Accepted || b.pending(mainRef) < many {
				t.Errorf("%v, %s, %d pending", out.Result, codesOf(out), b.pending(mainRef))
			}
			got := children()
			if c.trunk >= 40 { // of the push itself: what it brings over the good tip is a walk of its own
				got = strings.Replace(got, " log", "", 1)
			}
			if got != c.want {
				t.Errorf("children: %q, want %q", got, c.want)
			}
		})
	}
}

// Of moves whose new tips the ref reaches, those that came first have landed as well,
// however far behind they are.
func TestAMoveThatLandedLongAgoIsSettled(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	b.gate.Ask = nil
	trunk := b.line(b.base(), 60)
	b.attempts(b.base(), trunk[:30])
	b.git("", "update-ref", mainRef, trunk[50])
	children := b.children()
	children()
	if out := b.receive(push.Update{Old: trunk[50], New: trunk[51], Ref: mainRef}); out.Result != Accepted {
		t.Fatalf("%v, %s", out.Result, codesOf(out))
	}
	if got := b.pending(mainRef); got != 1 {
		t.Errorf("%d pending", got)
	}
	if got := strings.Count(children(), "rev-parse"); got != 1 {
		t.Errorf("%d children of git to settle", got)
	}
}
