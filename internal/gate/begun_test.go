package gate

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
)

const releaseRef = "refs/heads/release/1"

// releasing is a release whose one approved change has landed and was taken back.
type releasing struct {
	*approving
	back, again string // where the release stands, and the change once more
}

func newReleasing(t *testing.T) *releasing {
	t.Helper()
	b := &releasing{approving: newApproving(t, anna)}
	b.receive(push.Update{Old: none, New: b.base(), Ref: "refs/heads/topic"}) // main's record begins
	one := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	b.back = b.write(made{author: bot, parents: []string{one}, oracle: "max = 500\n\n"})
	b.again = b.write(made{author: bot, parents: []string{b.back}, oracle: loosened})
	b.publish(b.base(), one) // before there is a release, and a record of it
	b.publish(one, b.back)
	b.lands(none, one)
	b.lands(one, b.back)
	return b
}

// publish publishes an approval for the release.
func (b *releasing) publish(from, to string) {
	b.t.Helper()
	s := b.statement(from, to)
	s.Ref = releaseRef
	b.git("", "update-ref", approvalRoot+"/"+s.Hash(), b.git(b.token(anna, s)+"\n", "hash-object", "-w", "--stdin"))
}

func (b *releasing) lands(from, to string) {
	b.t.Helper()
	if out := b.receive(push.Update{Old: from, New: to, Ref: releaseRef}); out.Result != Accepted {
		b.t.Fatalf("%v, %s", out.Result, codesOf(out))
	}
	b.git("", "update-ref", releaseRef, to)
	if err := b.gate.Settle(ctx, []push.Update{{Old: from, New: to, Ref: releaseRef}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *releasing) loseRecord() {
	b.t.Helper()
	if err := os.Remove(filepath.Join(b.gate.Store.Dir(), "refs", fmt.Sprintf("%x.json", sha256.Sum256([]byte(releaseRef))))); err != nil {
		b.t.Fatal(err)
	}
}

// refused pushes the change once more, by the approval that was used for it.
func (b *releasing) refused(old string, want finding.Code) {
	b.t.Helper()
	if out := b.receive(push.Update{Old: old, New: b.again, Ref: releaseRef}); out.Result == Accepted || codesOf(out) != string(want) {
		b.t.Errorf("%v, %s, want %s", out.Result, codesOf(out), want)
	}
}

// A record that is begun for a ref of a pattern takes no approval that another record of
// the ref may have used, as long as the ref or its record is there.
func TestARecordBegunAnewTakesNoApprovalThatWasUsed(t *testing.T) {
	t.Parallel()
	t.Run("the ref was renamed", func(t *testing.T) {
		t.Parallel()
		b := newReleasing(t)
		b.refused(b.back, finding.ApprovalUsed)
		b.git("", "update-ref", "refs/heads/release/2", b.back)
		b.git("", "update-ref", "-d", releaseRef)
		b.refused(none, finding.ApprovalUsed)
	})
	t.Run("the record was lost", func(t *testing.T) {
		t.Parallel()
		b := newReleasing(t)
		b.loseRecord()
		b.refused(b.back, finding.RefNotAdopted)
		later := time.Now().Add(5 * time.Second)
		b.gate.Now = func() time.Time { return later }
		if _, err := b.gate.Adopt(ctx, releaseRef, false, By{Reason: "restored"}); err != nil {
			t.Fatal(err)
		}
		b.refused(b.back, finding.ApprovalBeforeRecord)
	})
	t.Run("the record was lost, and an opening begins another", func(t *testing.T) {
		t.Parallel()
		b := newReleasing(t)
		b.loseRecord()
		later := time.Now().Add(5 * time.Second)
		b.gate.Now = func() time.Time { return later }
		next := b.write(made{author: bot, parents: []string{b.back}, oracle: "max = 500\n\n", message: "next"})
		if _, err := b.gate.Open(ctx, releaseRef, b.stateOf(next), time.Minute, By{Reason: "in a hurry"}); err != nil {
			t.Fatal(err)
		}
		b.lands(b.back, next)
		b.refused(next, finding.ApprovalBeforeRecord)
	})
}
