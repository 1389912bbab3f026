package gate

import (
	"context"
	"fmt"
	"strings"
	"testing"

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
		if tip, err := b.gate.Adopt(ctx, "refs/heads/release/1"); err == nil {
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
