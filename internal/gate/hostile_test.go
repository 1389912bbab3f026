package gate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/gitrepo"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

const none = "0000000000000000000000000000000000000000"

func codesOf(out Outcome) string {
	var codes []string
	for _, f := range out.Findings {
		codes = append(codes, string(f.Code))
	}
	return strings.Join(codes, " ")
}

// A proposal is no ref of the repository's: the old value is the client's word
// alone, and must not excuse what it reaches.
func TestAProposalsOldValueExcusesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Recorded})
	loose := b.commit("loose", b.base(), "max = 900\n", "1")
	next := b.commit("next", loose, "max = 900\n", "2")
	honest := b.commit("honest", b.base(), "max = 500\n", "2")
	for _, ref := range []string{"refs/for/main", "refs/for/main/topic"} {
		out := b.receive(push.Update{Old: loose, New: next, Ref: ref})
		if out.Result != Refused || !strings.Contains(codesOf(out), string(finding.HistoryUnapproved)) {
			t.Errorf("%s from an unapproved commit: result %v, %s", ref, out.Result, codesOf(out))
		}
		for _, old := range []string{none, b.base()} {
			if out := b.receive(push.Update{Old: old, New: honest, Ref: ref}); out.Result != Accepted {
				t.Errorf("%s: an honest proposal: result %v, %s", ref, out.Result, codesOf(out))
			}
		}
	}
}

// A ref whose full name is also the tail of another's ("refs/heads/refs/heads/x")
// is another ref: where there is no x, git's short names would answer with it.
func TestARefIsNeverTakenForOneWithALongerName(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	loose := b.commit("loose", b.base(), "max = 900\n", "1")
	for _, name := range []string{"refs/heads/refs/heads/topic", "refs/tags/refs/heads/topic", "refs/refs/heads/topic", "refs/remotes/refs/heads/topic",
		"refs/heads/refs/heads/release/1"} {
		b.git("", "update-ref", name, loose)
	}
	for _, packed := range []bool{false, true} {
		if packed {
			b.git("", "pack-refs", "--all")
		}
		honest := b.commit(fmt.Sprint("honest", packed), b.base(), "max = 500\n", "2")
		for _, ref := range []string{"refs/heads/topic", "refs/heads/release/1"} {
			if out := b.receive(push.Update{Old: none, New: honest, Ref: ref}); out.Result != Accepted {
				t.Errorf("%s (packed %v): result %v, %s", ref, packed, out.Result, codesOf(out))
			}
		}
		if tip, err := b.gate.Adopt(ctx, "refs/heads/release/1", false, By{}); err == nil {
			t.Errorf("adopted what does not exist: %+v", tip)
		}
		// The honest twin: main is found, loose or packed.
		if out := b.receive(push.Update{Old: b.base(), New: honest, Ref: mainRef}); out.Result != Accepted {
			t.Errorf("main (packed %v): result %v, %s", packed, out.Result, codesOf(out))
		}
	}
}

// No failure to decide lets a ref pass that is enforced, wherever it stands in
// the push; a push that is cut off passes in no mode.
func TestAFailureBeforeAllRefsAreKnownDoesNotPass(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	b.gate.TopicModes = Modes{Paths: policy.Record, Replay: policy.Off}
	honest := b.commit("honest", b.base(), "max = 500\n", "2")
	topic := push.Update{Old: none, New: honest, Ref: "refs/heads/topic"}
	updates := []push.Update{topic, {Old: none, New: honest, Ref: "refs/for/main"}, {Old: b.base(), New: honest, Ref: mainRef}}

	gone, stop := context.WithCancel(ctx)
	stop()
	for _, list := range [][]push.Update{updates, updates[:1]} {
		if out, err := b.gate.Receive(gone, list); err == nil || out.Result == Accepted {
			t.Errorf("cut off, %d refs: %v, result %v, %s", len(list), err, out.Result, codesOf(out))
		}
	}

	broken, err := gitrepo.Open(ctx, gitrepo.Options{GitDir: b.dir, Git: "/bin/false"})
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	b.gate.Repo = broken
	if out, err := b.gate.Receive(ctx, updates); err == nil || out.Result == Accepted {
		t.Errorf("git fails: %v, result %v, %s", err, out.Result, codesOf(out))
	}
	// The honest twin: where nothing is enforced, a failure of the gate's own keeps
	// nobody from working.
	if out, err := b.gate.Receive(ctx, []push.Update{topic}); err != nil || out.Result != Accepted {
		t.Errorf("nothing is enforced: %v, result %v, %s", err, out.Result, codesOf(out))
	}
}

// What a push costs grows with its size and not with the product of its refs and
// its approvals.
func TestManyRefsOfOneBadCommitAreRefusedSoon(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Recorded})
	loose := b.commit("loose", b.base(), "max = 900\n", "1")
	var updates []push.Update
	for i := range 4000 {
		updates = append(updates, push.Update{Old: none, New: loose, Ref: fmt.Sprintf("refs/heads/t%d", i)})
	}
	began := time.Now()
	out := b.receive(updates...)
	if out.Result != Refused || len(out.Findings) > 2*maxRefused {
		t.Errorf("result %v, %d findings", out.Result, len(out.Findings))
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if out := b.receive(push.Update{Old: none, New: b.base(), Ref: "refs/heads/honest"}); out.Result != Accepted {
		t.Errorf("honest: %v, %s", out.Result, codesOf(out))
	}
}

// mergeOf makes a merge commit whose files are those of tree.
func (b *bench) mergeOf(tree string, parents ...string) string {
	b.t.Helper()
	args := []string{"-c", "user.name=a", "-c", "user.email=a@example.org", "commit-tree", "-m", "m", tree + "^{tree}"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return b.git("", args...)
}

// Merges of many parents, and of merges with each other, are judged like any
// other: by whether the state is that of a parent, and of the good tip.
func TestOctopusAndCrissCrossMerges(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	one := b.commit("one", b.base(), "max = 500\n", "2")
	two := b.commit("two", b.base(), "max = 500\n", "3")
	three := b.commit("three", b.base(), "max = 500\n", "4")
	loose := b.commit("loose", b.base(), "max = 900\n", "4")
	back := b.commit("back", loose, "max = 500\n", "4")
	cross1, cross2 := b.mergeOf(one, one, two), b.mergeOf(two, two, one)
	for name, c := range map[string]struct {
		new  string
		want Result
	}{
		"octopus":                                {b.mergeOf(three, one, two, three), Accepted},
		"octopus with the change made in it":     {b.mergeOf(loose, one, two, three), Refused},
		"octopus that takes an unapproved side":  {b.mergeOf(loose, one, two, loose), Refused},
		"octopus over a side that took it back":  {b.mergeOf(one, one, two, back), Refused},
		"octopus that drops an unapproved side":  {b.mergeOf(one, one, two, loose), Refused},
		"criss-cross":                            {b.mergeOf(three, cross1, cross2), Accepted},
		"criss-cross with the change made in it": {b.mergeOf(loose, cross1, cross2), Refused},
		"criss-cross over an unapproved side":    {b.mergeOf(one, b.mergeOf(one, one, loose), b.mergeOf(one, loose, one)), Refused},
	} {
		for _, u := range []push.Update{{Old: b.base(), New: c.new, Ref: mainRef}, {Old: none, New: c.new, Ref: "refs/heads/topic"}} {
			if out := b.receive(u); out.Result != c.want {
				t.Errorf("%s to %s: result %v, %s", name, u.Ref, out.Result, codesOf(out))
			}
		}
	}
}

// A protected ref that was deleted by hand, and whose good tip is gone, keeps
// nobody else from being judged.
func TestAGoodTipThatIsGoneHindersOnlyItsOwnRef(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	b.gate.Baselines["refs/heads/release/1"] = strings.Repeat("1", 40)
	there := b.commit("there", b.base(), "max = 900\n", "2")
	back := b.commit("back", there, "max = 500\n", "2")
	honest := b.commit("honest", b.base(), "max = 500\n", "3")
	for _, c := range []struct {
		ref, old, new string
		want          Result
	}{
		{mainRef, b.base(), back, Refused},
		{"refs/heads/topic", none, back, Refused},
		{"refs/heads/release/2", none, honest, Accepted},
		{mainRef, b.base(), honest, Accepted},
	} {
		if out := b.receive(push.Update{Old: c.old, New: c.new, Ref: c.ref}); out.Result != c.want {
			t.Errorf("%s: result %v, %s", c.ref, out.Result, codesOf(out))
		}
	}
	if out, err := b.gate.Receive(ctx, []push.Update{{Old: none, New: honest, Ref: "refs/heads/release/1"}}); err == nil && out.Result == Accepted {
		t.Error("a ref whose good state nobody knows was taken")
	}
}

// Why a replay gave no verdict is for the admin: it is in the spool, and in
// nothing that is shown.
func TestAReplayThatFailsIsSpooledForTheAdmin(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Cause: replay.Unreachable})
	honest := b.commit("honest", b.base(), "max = 500\n", "2")
	for _, u := range []push.Update{{Old: b.base(), New: honest, Ref: mainRef}, {Old: none, New: honest, Ref: "refs/heads/topic"}} {
		out := b.receive(u)
		data, err := os.ReadFile(filepath.Join(b.gate.Store.Dir(), "spool", out.Decision+".json"))
		if err != nil || !strings.Contains(string(data), "a cause for the log") || !strings.Contains(string(data), u.Ref) {
			t.Errorf("%s: %v\n%s", u.Ref, err, data)
		}
		if strings.Contains(fmt.Sprint(out.Findings), "a cause for the log") {
			t.Errorf("%s: the pusher is told: %v", u.Ref, out.Findings)
		}
	}
	passing := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	honest = passing.commit("honest", passing.base(), "max = 500\n", "2")
	if out := passing.receive(push.Update{Old: passing.base(), New: honest, Ref: mainRef}); out.Decision != "" || out.Result != Accepted {
		t.Errorf("a verdict is spooled: %+v", out)
	}
}
