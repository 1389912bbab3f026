package gate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

func patternsOf(t *testing.T, list ...string) policy.Patterns {
	t.Helper()
	p, err := policy.ParsePatterns(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lostTip makes main's good tip one whose object is gone, in the state of the commit
// that is given, with history: oracles that came and changed before the gate did.
func lostTip(t *testing.T, b *bench, like string) {
	t.Helper()
	j := b.gate.judgement()
	r := &state.Record{Ref: mainRef, Good: state.Tip{Commit: like}}
	if err := j.goodState(ctx, r); err != nil {
		t.Fatal(err)
	}
	r.Begun = time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	r.Good.Commit, r.Good.At = strings.Repeat("1", len(like)), r.Begun
	locked, err := b.gate.Store.Lock(mainRef)
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Unlock()
	if err := locked.Save(r); err != nil {
		t.Fatal(err)
	}
}

// The history of a push has no end where the good tip is gone. The host says that it
// lacks it, and asks nobody to drop the start of the repository.
func TestAGoodTipThatIsGoneIsAnAdminsBusiness(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	b.gate.Forbidden = patternsOf(t, "sealed/")
	first := b.put(b.base(), tree{"oracles/fees.txt": "max = 500\n", "sealed/x": "before the gate\n"})
	mid := b.put(first, tree{"oracles/fees.txt": "max = 700\n"})
	old := b.put(mid, tree{"oracles/fees.txt": "max = 800\n"})
	b.git("", "update-ref", mainRef, old)
	lostTip(t, b, old)

	same := b.put(old, tree{"oracles/fees.txt": "max = 800\n", "app": "2\n"})
	changed := b.put(old, tree{"oracles/fees.txt": "max = 900\n"})
	back := b.put(changed, tree{"oracles/fees.txt": "max = 800\n"})
	sealed := b.put(old, tree{"oracles/fees.txt": "max = 800\n", "sealed/y": "a copy\n"})
	for name, c := range map[string]struct {
		ref, old, new string
		want          Result
		codes         []finding.Code // that stand in the way
		named         []string       // commits
	}{
		"the same state":                   {mainRef, old, same, Undecided, []finding.Code{finding.GoodTipGone}, nil},
		"another state":                    {mainRef, old, changed, Refused, []finding.Code{finding.GoodTipGone, finding.ProtectedChangeUnapproved}, nil},
		"a topic":                          {"refs/heads/topic", none, same, Undecided, []finding.Code{finding.GoodTipGone}, nil},
		"a topic with a change of its own": {"refs/heads/topic", none, back, Refused, []finding.Code{finding.GoodTipGone, finding.HistoryUnapproved}, []string{changed}},
		"a topic with a forbidden file":    {"refs/heads/topic", none, sealed, Refused, []finding.Code{finding.ForbiddenPath, finding.GoodTipGone}, nil},
	} {
		out := b.receive(push.Update{Old: c.old, New: c.new, Ref: c.ref})
		var codes []finding.Code
		for _, f := range out.Findings {
			if f.Severity == finding.Warn || f.Severity == finding.Note {
				continue
			}
			codes = append(codes, f.Code)
			if f.Code == finding.HistoryUnapproved && len(f.Items) != len(c.named) {
				t.Errorf("%s: to drop: %q", name, f.Items)
			}
			if f.Code == finding.ProtectedChangeUnapproved && f.Args["gone"] == "" {
				t.Errorf("%s: no word of the good tip: %+v", name, f)
			}
		}
		slices.Sort(codes)
		if out.Result != c.want || !slices.Equal(codes, c.codes) {
			t.Errorf("%s: result %v, %s", name, out.Result, codesOf(out))
		}
	}

	// The honest twin: the tip comes back, and the same push passes.
	lostTip(t, b, old)
	r, err := b.gate.Store.All()
	if err != nil {
		t.Fatal(err)
	}
	r[0].Good.Commit = old
	locked, err := b.gate.Store.Lock(mainRef)
	if err != nil {
		t.Fatal(err)
	}
	err = locked.Save(r[0])
	locked.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if out := b.receive(push.Update{Old: old, New: same, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("with the tip: result %v, %s", out.Result, codesOf(out))
	}
}

// A tip and the commit that brought what is wrong with it are one cause: one block.
func TestOneCauseIsToldOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	b.gate.Forbidden = patternsOf(t, "sealed/")
	blob := b.git("x", "hash-object", "-w", "--stdin")
	oracles := b.git("100600 blob "+blob+"\tfees.txt\n", "mktree")
	odd := b.mergeOf(b.git("040000 tree "+oracles+"\toracles\n", "mktree"), b.base())
	sealed := b.put(b.base(), tree{"oracles/fees.txt": "max = 500\n\n", "sealed/y": "a copy\n"})
	next := b.put(sealed, tree{"oracles/fees.txt": "max = 500\n\n", "sealed/y": "another\n"})
	last := b.put(next, tree{"oracles/fees.txt": "max = 500\n\n", "sealed/y": "another\n", "app": "3\n"})
	for name, c := range map[string]struct {
		new     string
		code    finding.Code
		commits int
	}{
		"a malformed tree": {odd, finding.MalformedTree, 0},
		"a forbidden file": {sealed, finding.ForbiddenPath, 0},
		"one that goes on": {last, finding.ForbiddenPath, 2},
	} {
		out := b.receive(push.Update{Old: b.base(), New: c.new, Ref: mainRef})
		if out.Result != Refused || len(out.Findings) != 1 || out.Findings[0].Code != c.code || len(out.Findings[0].Items) != c.commits {
			t.Errorf("%s: %+v", name, out.Findings)
		}
	}
}
