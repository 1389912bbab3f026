package gate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/policy"
)

// during has something happen while hookd is at work, which then lets the move pass.
func (b *approving) during(what func()) {
	b.gate.Ask = func(context.Context, replay.Request, Packer, func(time.Duration)) (replay.Verdict, error) {
		what()
		return replay.Verdict{Outcome: replay.Eligible, Decision: inspected}, nil
	}
}

// What holds when judging begins must hold when the move is written down.
func TestTheLastActLooksAtTheTimeAndTheRecordOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		during func(b *approving)
		want   finding.Code
	}{
		"an approval that expires": {func(b *approving) {
			b.gate.Now = func() time.Time { return time.Now().Add(approval.DefaultLife + time.Minute) }
		}, finding.ApprovalExpired},
		"a record that is begun anew": {func(b *approving) {
			b.gate.Now = func() time.Time { return time.Now().Add(2 * time.Second) } // records have whole seconds
			if _, err := b.gate.Adopt(ctx, mainRef, false, By{}); err != nil {
				b.t.Error(err)
			}
		}, finding.RefMoved},
		"nothing": {func(*approving) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newApproving(t, anna)
			tip := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
			b.approve(anna, b.base(), tip)
			b.during(func() { c.during(b) })
			out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef})
			if c.want == "" {
				if out.Result != Accepted || b.pending(mainRef) != 1 {
					t.Fatalf("%v, %s", out.Result, codesOf(out))
				}
				return
			}
			last := out.Findings[len(out.Findings)-1].Code
			if out.Result != Refused || last != c.want || b.pending(mainRef) != 0 {
				t.Fatalf("%v, %s, %d pending", out.Result, codesOf(out), b.pending(mainRef))
			}
		})
	}
}

// How long judging took shortens no hold: it begins when the move is written down.
func TestAHoldBeginsWhereTheMoveIsWrittenDown(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna)
	tip := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	b.approve(anna, b.base(), tip)
	later := time.Now().Add(time.Hour)
	b.during(func() { b.gate.Now = func() time.Time { return later } })
	if out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef}); out.Result != Accepted {
		t.Fatalf("%v, %s", out.Result, codesOf(out))
	}
	other := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened, message: "the same state"})
	if out := b.receive(push.Update{Old: b.base(), New: other, Ref: mainRef}); out.Result != Refused || codesOf(out) != string(finding.ApprovalHeld) {
		t.Fatalf("%v, %s", out.Result, codesOf(out))
	}
}

// A mode that lets a push pass makes nothing lawful: what fails in the last act is
// no move of the record.
func TestWhatFailsInTheLastActIsInNoModeWrittenDown(t *testing.T) {
	for _, mode := range []policy.Mode{policy.Enforce, policy.Warn, policy.Record} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			b := newApproving(t, anna)
			b.gate.ProtectedModes.Paths = mode
			tip := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
			b.approve(anna, b.base(), tip)
			b.during(func() {
				s := b.git("", "for-each-ref", "--format=%(refname:lstrip=3)", approvalRoot)
				b.git("", "update-ref", withdrawalRoot+"/"+s, b.git("x", "hash-object", "-w", "--stdin"))
			})
			out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef})
			if want := map[bool]Result{true: Refused, false: Accepted}[mode.Enforces()]; out.Result != want || b.pending(mainRef) != 0 {
				t.Fatalf("%v, %s, %d pending", out.Result, codesOf(out), b.pending(mainRef))
			}
		})
	}
}

// Approvals that were overtaken stay until they expire, and hinder nobody.
func TestOvertakenApprovalsHinderNobody(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna)
	if err := b.gate.judgement().load(); err != nil { // what is issued from here on is not older than the record
		t.Fatal(err)
	}
	tip := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	for i := range maxValid + 1 {
		old := b.statement(b.base(), tip)
		old.Before = fmt.Sprintf("sha256:%064x", i) // some state that nothing leads to
		blob := b.git(b.token(anna, old)+"\n", "hash-object", "-w", "--stdin")
		b.git("", "update-ref", approvalRoot+"/"+old.Hash(), blob)
	}
	b.approve(anna, b.base(), tip)
	if out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef}); out.Result != Accepted {
		t.Fatalf("%v, %s", out.Result, codesOf(out))
	}
}

// Where no record would note that an override was used, none is handed over.
func TestAnOverrideThatNoRecordWouldNoteIsNotHandedOver(t *testing.T) {
	t.Parallel()
	for mode, handed := range map[policy.Mode]int{policy.Enforce: 1, policy.Warn: 1, policy.Off: 0} {
		o := newOverridden(t)
		o.gate.ProtectedModes.Paths = mode
		o.publish(o.statement())
		out := o.push()
		if want := map[bool]Result{true: Accepted, false: Refused}[handed == 1]; out.Result != want || len(o.asked) != 1 || len(o.asked[0].Overrides) != handed {
			t.Errorf("%s: %v, asked %+v", mode, out.Result, o.asked)
		}
	}
}
