package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

// git takes a symbolic ref and the ref it stands for as one update where both are
// asked for alike, and refuses two different ones.
func TestARefAndItsSymbolicNameInOnePush(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	b.git("", "symbolic-ref", "refs/heads/trunk", mainRef)
	b.git("", "symbolic-ref", "refs/heads/next", "refs/heads/release/1")
	honest := b.commit("honest", b.base(), "max = 500\n", "2")
	other := b.commit("other", b.base(), "max = 500\n", "3")
	loose := b.commit("loose", b.base(), "max = 900\n", "1")
	for _, c := range []struct {
		name    string
		updates []push.Update
		want    Result
	}{
		{"two values", []push.Update{{Old: b.base(), New: honest, Ref: mainRef}, {Old: b.base(), New: other, Ref: "refs/heads/trunk"}}, Refused},
		{"the bad one by its other name", []push.Update{{Old: b.base(), New: honest, Ref: mainRef}, {Old: b.base(), New: loose, Ref: "refs/heads/trunk"}}, Refused},
		{"both bad", []push.Update{{Old: b.base(), New: loose, Ref: mainRef}, {Old: b.base(), New: loose, Ref: "refs/heads/trunk"}}, Refused},
		{"a release that is not born yet", []push.Update{{Old: none, New: loose, Ref: "refs/heads/next"}}, Refused},
		{"deleted by its other name", []push.Update{{Old: b.base(), New: none, Ref: "refs/heads/trunk"}}, Refused},
		{"both honest", []push.Update{{Old: b.base(), New: honest, Ref: "refs/heads/trunk"}, {Old: b.base(), New: honest, Ref: mainRef}}, Accepted},
	} {
		if out := b.receive(c.updates...); out.Result != c.want {
			t.Errorf("%s: result %v, %s", c.name, out.Result, codesOf(out))
		}
	}
}

// Names of proposals have many parts, each of which may be a branch: what it costs
// to find the longest does not multiply.
func TestManyDeepProposalsAreAnsweredSoon(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Recorded})
	honest := b.commit("honest", b.base(), "max = 500\n", "2")
	loose := b.commit("loose", b.base(), "max = 900\n", "1")
	b.git("", "update-ref", "refs/heads/feature/x", b.base())
	updates := []push.Update{{Old: none, New: loose, Ref: "refs/for/feature/x/oracle-change/fees"}}
	for i := range 500 {
		updates = append(updates, push.Update{Old: none, New: honest, Ref: fmt.Sprintf("refs/for/main/%s%d", strings.Repeat("a/", 1900), i)})
	}
	began := time.Now()
	if out := b.receive(updates...); out.Result != Accepted {
		t.Errorf("honest: result %v, %s", out.Result, codesOf(out))
	}
	updates[7].New = loose
	if out := b.receive(updates...); out.Result != Refused {
		t.Errorf("one of them bad: result %v, %s", out.Result, codesOf(out))
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Where the disk folds case, refs/heads/Main is the file of refs/heads/main.
func TestNamesThatTheDiskTakesForAProtectedRef(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	honest := b.commit("honest", b.base(), "max = 500\n", "2")
	ask := func(want Result, refs ...string) {
		t.Helper()
		for _, ref := range refs {
			if out := b.receive(push.Update{Old: none, New: honest, Ref: ref}); out.Result != want {
				t.Errorf("%s: result %v, %s", ref, out.Result, codesOf(out))
			}
		}
	}
	ask(Accepted, "refs/heads/Main", "refs/heads/Release/1", "refs/heads/topic")
	if err := os.Symlink("HEAD", filepath.Join(b.dir, "hEAD")); err != nil { // as such a disk answers
		t.Fatal(err)
	}
	ask(Refused, "refs/heads/Main", "refs/heads/MAIN", "refs/heads/Release/1", "refs/Heads/main")
	ask(Accepted, "refs/heads/topic", "refs/heads/Maine", "refs/heads/release/1")
}

// A mode that only warns or records lets no replacement in: what is read through it
// stays another when the gate is enforced.
func TestNoModeLetsAReplacementIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible})
	loose := b.commit("loose", b.base(), "max = 900\n", "1")
	for _, c := range []struct {
		protected, topic policy.Mode
		want             Result
	}{
		{policy.Enforce, policy.Enforce, Refused}, {policy.Warn, policy.Warn, Refused}, {policy.Record, policy.Record, Refused},
		{policy.Enforce, policy.Off, Refused}, {policy.Off, policy.Record, Refused}, {policy.Off, policy.Off, Accepted},
	} {
		b.gate.ProtectedModes.Paths, b.gate.TopicModes.Paths = c.protected, c.topic
		out := b.receive(push.Update{Old: none, New: loose, Ref: "refs/replace/" + b.base()})
		if out.Result != c.want || c.want == Refused && !strings.Contains(codesOf(out), string(finding.ReplaceRef)) {
			t.Errorf("protected %v, topic %v: %v, %s", c.protected, c.topic, out.Result, codesOf(out))
		}
	}
}
