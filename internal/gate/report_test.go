package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/report"
)

// report puts a blob with a report of a commit's tree into the repository.
func (b *bench) report(commit string, outcome report.Outcome) (blob, ref, text string) {
	b.t.Helper()
	tree := b.git("", "rev-parse", commit+"^{tree}")
	data, err := report.Report{Tree: tree, Outcomes: map[string]report.Outcome{"a": outcome}, Tool: "test", Made: time.Unix(1_700_000_000, 0)}.Write()
	if err != nil {
		b.t.Fatal(err)
	}
	return b.git(string(data), "hash-object", "-w", "--stdin"), report.Root + tree, string(data)
}

// sent is the report that went along with the only request of a push.
func (b *bench) sent(updates ...push.Update) string {
	b.t.Helper()
	b.asked = nil
	if out := b.receive(updates...); out.Result != Accepted || len(b.asked) != 1 {
		b.t.Fatalf("result %v (%s), %d requests", out.Result, codesOf(out), len(b.asked))
	}
	return string(b.asked[0].Report)
}

func TestTheTipsReportGoesAlongWithTheReplay(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible, Decision: strings.Repeat("5c", 32)})
	b.gate.ProtectedModes = b.gate.TopicModes
	next := b.commit("next", b.base(), "max = 500\n", "2")
	other := b.commit("other", b.base(), "max = 500\n", "3")
	passed, ref, text := b.report(next, report.Passed)
	failed, _, failedText := b.report(next, report.Failed)
	otherBlob, otherRef, _ := b.report(other, report.Passed)
	move := push.Update{Old: b.base(), New: next, Ref: mainRef}

	if got := b.sent(move); got != "" {
		t.Errorf("no report, and %q went along", got)
	}
	if got := b.sent(move, push.Update{Old: none, New: otherBlob, Ref: otherRef}); got != "" {
		t.Errorf("another tree's report went along: %q", got)
	}
	for _, updates := range [][]push.Update{
		{{Old: none, New: passed, Ref: ref}, move},
		{move, {Old: none, New: passed, Ref: ref}},
	} {
		if got := b.sent(updates...); got != text {
			t.Errorf("the report of the same push: %q", got)
		}
	}
	for _, packed := range []bool{false, true} {
		b.git("", "update-ref", ref, passed)
		if packed {
			b.git("", "pack-refs", "--all")
		}
		if got := b.sent(move); got != text {
			t.Errorf("the report that is there (packed: %v): %q", packed, got)
		}
	}
	if got := b.sent(move, push.Update{Old: passed, New: failed, Ref: ref}); got != failedText {
		t.Errorf("the push replaces the report, and %q went along", got)
	}
	if got := b.sent(move, push.Update{Old: passed, New: none, Ref: ref}); got != "" {
		t.Errorf("the push deletes the report, and %q went along", got)
	}
}

func TestWhatIsNoReportCountsForNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible, Decision: strings.Repeat("5c", 32)})
	next := b.commit("next", b.base(), "max = 500\n", "2")
	_, ref, text := b.report(next, report.Passed)
	move := push.Update{Old: b.base(), New: next, Ref: mainRef}
	junk := b.git("hello", "hash-object", "-w", "--stdin")
	huge := b.git(text+strings.Repeat(" ", report.MaxBytes), "hash-object", "-w", "--stdin")
	foreign, _, _ := b.report(b.base(), report.Passed)
	for name, id := range map[string]string{"junk": junk, "huge": huge, "a commit": next, "another tree's": foreign} {
		b.git("", "update-ref", ref, id)
		if got := b.sent(move); got != "" {
			t.Errorf("%s, written there without the gate, went along: %.100q", name, got)
		}
	}
	// A longer name that git's short names would find.
	b.git("", "update-ref", "-d", ref)
	passed, _, _ := b.report(next, report.Passed)
	b.git("", "update-ref", "refs/tags/"+ref, passed)
	if got := b.sent(move); got != "" {
		t.Errorf("another ref's value went along: %q", got)
	}
}

// Thousands of reports in one push: each is read, none is kept.
func TestManyReportsInOnePush(t *testing.T) {
	t.Parallel()
	b := newBench(t, replay.Verdict{Outcome: replay.Eligible, Decision: strings.Repeat("5c", 32)})
	next := b.commit("next", b.base(), "max = 500\n", "2")
	blob, ref, text := b.report(next, report.Passed)
	updates := []push.Update{{Old: b.base(), New: next, Ref: mainRef}, {Old: none, New: blob, Ref: ref}}
	for i := range 1500 {
		updates = append(updates, push.Update{Old: none, New: blob, Ref: fmt.Sprintf("%s%040x", report.Root, i+1)})
	}
	out := b.receive(updates...)
	if out.Result != Refused || strings.Count(codesOf(out), "report-junk") != 1500 {
		t.Fatalf("result %v, %d findings", out.Result, len(out.Findings))
	}
	if got := b.sent(updates[:2]...); got != text {
		t.Errorf("%q went along", got)
	}
}
