package gate

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/internal/approval"
	"github.com/sealgate/sealgate/internal/finding"
	"github.com/sealgate/sealgate/internal/push"
	"github.com/sealgate/sealgate/internal/replay"
	"github.com/sealgate/sealgate/internal/state"
	"github.com/sealgate/sealgate/policy"
)

const inspected = "5c01d2e8f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b"

// overridden is a bench whose hookd asks for a look, and releases what an
// override is handed over for.
type overridden struct {
	*bench
	keys map[string]ssh.Signer
	new  string
}

func newOverridden(t *testing.T) *overridden {
	t.Helper()
	o := &overridden{bench: newBench(t, replay.Verdict{}), keys: map[string]ssh.Signer{}}
	for _, name := range []string{"anna", "agent"} {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if o.keys[name], err = ssh.NewSignerFromKey(key); err != nil {
			t.Fatal(err)
		}
	}
	o.trust("")
	if err := o.gate.judgement().load(); err != nil { // what is issued from here on is not older than the record
		t.Fatal(err)
	}
	o.gate.Ask = func(_ context.Context, r replay.Request, _ Packer, _ func(time.Duration)) (replay.Verdict, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asked = append(o.asked, r)
		if len(r.Overrides) > 0 {
			return replay.Verdict{Outcome: replay.Released, Decision: strings.Repeat("a", 64), Override: r.Overrides[0].Statement}, nil
		}
		return replay.Verdict{Outcome: replay.Inspect, Decision: inspected}, nil
	}
	o.new = o.commit("x", o.base(), "max = 500\n", "2")
	return o
}

// trust names anna as the maintainer, and what is revoked.
func (o *overridden) trust(revoked string) {
	o.t.Helper()
	dir := o.t.TempDir()
	for name, text := range map[string]string{"maintainers": "anna@example.org " + o.public("anna"), "revoked_keys": revoked} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			o.t.Fatal(err)
		}
	}
	var err error
	if o.gate.Signers, err = approval.LoadSigners(filepath.Join(dir, "maintainers"), filepath.Join(dir, "revoked_keys"), ""); err != nil {
		o.t.Fatal(err)
	}
}

func (o *overridden) public(name string) string {
	return string(ssh.MarshalAuthorizedKey(o.keys[name].PublicKey()))
}

// statement is an override of the move that the bench makes.
func (o *overridden) statement() approval.Override {
	o.t.Helper()
	s, err := approval.NewOverride(o.gate.ID, mainRef, o.base(), o.new, inspected, "looked at it", time.Now(), 0)
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

// sign makes the blob of an override, and answers its id and its ref.
func (o *overridden) sign(s approval.Override, key, namespace string) (blob, ref string) {
	o.t.Helper()
	text, err := s.Bytes()
	if err != nil {
		o.t.Fatal(err)
	}
	raw := sshsig(o.t, o.keys[key], namespace, text)
	blob = o.git(approval.FormatToken(text, raw)+"\n", "hash-object", "-w", "--stdin")
	return blob, overrideRoot + "/" + s.Hash()
}

// sshsig signs as ssh-keygen -Y sign does (OpenSSH's PROTOCOL.sshsig).
func sshsig(t *testing.T, key ssh.Signer, namespace string, message []byte) []byte {
	t.Helper()
	sum := sha512.Sum512(message)
	sig, err := key.Sign(rand.Reader, append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{namespace, "", "sha512", string(sum[:])})...))
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("SSHSIG"), ssh.Marshal(struct {
		Version                                uint32
		Key, Namespace, Reserved, Hash, Signed string
	}{1, string(key.PublicKey().Marshal()), namespace, "", "sha512", string(ssh.Marshal(sig))})...)
}

// publish puts an override by anna where the server has it.
func (o *overridden) publish(s approval.Override) {
	o.t.Helper()
	blob, ref := o.sign(s, "anna", approval.NamespaceOverride)
	o.git("", "update-ref", ref, blob)
}

func (o *overridden) push() Outcome {
	o.t.Helper()
	return o.receive(push.Update{Old: o.base(), New: o.new, Ref: mainRef})
}

func TestAnOverrideIsHandedOverAndReleasesItsMove(t *testing.T) {
	o := newOverridden(t)
	if out := o.push(); out.Result != Refused || o.asked[0].Overrides != nil || out.Verdicts[0].Unreleased != nil {
		t.Fatalf("without one: %+v", out)
	}
	s := o.statement()
	o.publish(s)
	out := o.push()
	if out.Result != Accepted || o.pending(mainRef) != 1 {
		t.Fatalf("%+v, %d pending", out, o.pending(mainRef))
	}
	want := replay.Override{Statement: s.Hash(), Decision: inspected, Person: "anna@example.org", Reason: "looked at it"}
	got := o.asked[1].Overrides
	if len(got) != 1 || !strings.HasPrefix(got[0].Key, "SHA256:") {
		t.Fatalf("handed over: %+v", got)
	}
	want.Key = got[0].Key
	if got[0] != want || out.Verdicts[0].Released == nil || *out.Verdicts[0].Released != want {
		t.Errorf("%+v, released by %+v", got, out.Verdicts[0].Released)
	}
	if out.Decision == "" {
		t.Error("the git host keeps nothing of it")
	}
}

// The same push again passes after a client died; once the move has landed, the
// override is used up, and a ref that is taken back is released by another one.
func TestAnOverrideReleasesOneMoveThatLands(t *testing.T) {
	o := newOverridden(t)
	s := o.statement()
	o.publish(s)
	for range 2 {
		if out := o.push(); out.Result != Accepted {
			t.Fatalf("%+v", out)
		}
	}
	o.git("", "update-ref", mainRef, o.new)
	if err := o.gate.Settle(ctx, []push.Update{{Old: o.base(), New: o.new, Ref: mainRef}}); err != nil {
		t.Fatal(err)
	}
	r, err := o.gate.Store.Load(mainRef)
	if err != nil || r.Good.Commit != o.new || !r.Spent("override:"+s.Hash()) {
		t.Fatalf("%+v, %v", r, err)
	}
	o.git("", "update-ref", mainRef, o.base()) // taken back, behind the gate's back
	out := o.push()
	if out.Result != Refused || len(out.Verdicts) != 1 || len(out.Verdicts[0].Unreleased) != 1 || out.Verdicts[0].Unreleased[0].Why != replay.UsedUp {
		t.Fatalf("again: %+v", out)
	}
	if n := len(o.asked); o.asked[n-1].Overrides != nil {
		t.Errorf("handed over: %+v", o.asked[n-1].Overrides)
	}
	o.publish(o.statement()) // another nonce
	if out := o.push(); out.Result != Accepted {
		t.Errorf("with a new one: %+v", out)
	}
}

func TestAnOverrideOfAnythingElseIsNotHandedOver(t *testing.T) {
	o := newOverridden(t)
	for name, c := range map[string]struct {
		change func(o *overridden, s *approval.Override)
		want   replay.Obstacle // empty: not a word
	}{
		"another old":        {func(o *overridden, s *approval.Override) { s.Old = o.commit("y", o.base(), "max = 500\n", "3") }, replay.OtherOld},
		"no old":             {func(_ *overridden, s *approval.Override) { s.Old = zeros }, replay.OtherOld},
		"another new":        {func(o *overridden, s *approval.Override) { s.New = o.commit("y", o.base(), "max = 500\n", "3") }, ""},
		"another ref":        {func(_ *overridden, s *approval.Override) { s.Ref = "refs/heads/release/1" }, ""},
		"another repository": {func(_ *overridden, s *approval.Override) { s.Repo = "4f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21" }, ""},
		"expired": {func(_ *overridden, s *approval.Override) {
			s.Issued = s.Issued.Add(-2 * time.Hour)
			s.Expires = s.Issued.Add(time.Hour)
		}, replay.Expired},
		"older than the record": {func(_ *overridden, s *approval.Override) { s.Issued = s.Issued.Add(-time.Hour) }, replay.BeforeRecord},
	} {
		t.Run(name, func(t *testing.T) {
			s := o.statement()
			c.change(o, &s)
			o.publish(s)
			o.denied(t, c.want)
		})
	}
	t.Run("another name", func(t *testing.T) {
		blob, _ := o.sign(o.statement(), "anna", approval.NamespaceOverride)
		o.git("", "update-ref", overrideRoot+"/"+strings.Repeat("0", 64), blob)
		o.denied(t, "")
	})
	t.Run("an agent's key", func(t *testing.T) {
		blob, ref := o.sign(o.statement(), "agent", approval.NamespaceOverride)
		o.git("", "update-ref", ref, blob)
		o.denied(t, replay.KeyRefused)
	})
	t.Run("a key that is revoked now", func(t *testing.T) {
		o.publish(o.statement())
		o.trust(o.public("anna"))
		o.denied(t, replay.KeyRefused)
		o.trust("")
	})
	t.Run("signed for approvals", func(t *testing.T) {
		blob, ref := o.sign(o.statement(), "anna", approval.NamespaceChange)
		o.git("", "update-ref", ref, blob)
		o.denied(t, "")
	})
	t.Run("withdrawn", func(t *testing.T) {
		s := o.statement()
		o.publish(s)
		o.git("", "update-ref", withdrawalRoot+"/"+s.Hash(), o.git("", "rev-parse", overrideRoot+"/"+s.Hash()))
		o.denied(t, replay.Withdrawn)
	})
	t.Run("signed by who wrote the change", func(t *testing.T) {
		o := newOverridden(t)
		o.new = o.git("", "-c", "user.name=b", "-c", "user.email=b@example.org", "commit-tree", "-p", o.base(), "-m", "x\n\nCo-authored-by: Anna <Anna@example.org>", o.new+"^{tree}")
		o.publish(o.statement())
		o.denied(t, replay.OwnChange)
		o.gate.AuthorsMayApprove = true
		o.publish(o.statement())
		if out := o.push(); out.Result != Accepted {
			t.Errorf("where authors may: %+v", out)
		}
	})
	t.Run("a topic ref", func(t *testing.T) {
		o.gate.TopicModes.Replay = policy.Enforce
		s := o.statement()
		s.Ref, s.Old = "refs/heads/topic", zeros
		o.publish(s)
		o.asked = nil
		o.receive(push.Update{Old: zeros, New: o.new, Ref: "refs/heads/topic"})
		if len(o.asked) != 1 || o.asked[0].Overrides != nil {
			t.Errorf("asked %+v", o.asked)
		}
	})
}

// denied pushes: refused, nothing is handed over, and the words are those wanted.
func (o *overridden) denied(t *testing.T, want replay.Obstacle) {
	t.Helper()
	o.asked = nil
	out := o.push()
	for _, ref := range strings.Fields(o.git("", "for-each-ref", "--format=%(refname)", "refs/oracle")) {
		o.git("", "update-ref", "-d", ref)
	}
	if out.Result != Refused || o.pending(mainRef) != 0 || len(o.asked) != 1 || o.asked[0].Overrides != nil {
		t.Fatalf("%+v; asked %+v", out, o.asked)
	}
	var got replay.Obstacle
	for _, u := range out.Verdicts[0].Unreleased {
		got = u.Why
	}
	if got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

// A daemon that releases by what it was not handed over is not believed.
func TestAReleaseThatWasNotHandedOverIsNone(t *testing.T) {
	o := newOverridden(t)
	for name, override := range map[string]string{"nothing": "", "another": strings.Repeat("0", 64)} {
		for _, published := range []bool{false, true} {
			t.Run(fmt.Sprint(name, published), func(t *testing.T) {
				if published {
					o.publish(o.statement())
				}
				o.gate.Ask = func(context.Context, replay.Request, Packer, func(time.Duration)) (replay.Verdict, error) {
					return replay.Verdict{Outcome: replay.Released, Decision: inspected, Override: override}, nil
				}
				out := o.push()
				if out.Result != Undecided || out.Verdicts[0].Verdict.Cause != replay.Protocol || out.Verdicts[0].Released != nil || o.pending(mainRef) != 0 {
					t.Fatalf("%+v", out)
				}
			})
		}
	}
	o.gate.TopicModes.Replay = policy.Enforce
	o.gate.Ask = func(context.Context, replay.Request, Packer, func(time.Duration)) (replay.Verdict, error) {
		return replay.Verdict{Outcome: replay.Released, Decision: inspected, Override: strings.Repeat("0", 64)}, nil
	}
	if out := o.receive(push.Update{Old: zeros, New: o.new, Ref: "refs/heads/topic"}); out.Result != Undecided {
		t.Fatalf("a topic ref: %+v", out)
	}
}

func TestOverridesOfBlocksAndWhatDaemonsSayOfThemAreTold(t *testing.T) {
	for name, v := range map[string]replay.Verdict{
		"blocked":    {Outcome: replay.Blocked, Decision: inspected},
		"inspect":    {Outcome: replay.Inspect, Decision: inspected},
		"eligible":   {Outcome: replay.Eligible, Decision: inspected},
		"not judged": {Cause: replay.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOverridden(t)
			s := o.statement()
			o.publish(s)
			v.Unreleased = map[string]replay.Obstacle{s.Hash(): replay.FurtherRows}
			o.gate.Ask = func(context.Context, replay.Request, Packer, func(time.Duration)) (replay.Verdict, error) {
				return v, nil
			}
			out := o.push()
			told := len(out.Verdicts[0].Unreleased) == 1
			if refused := v.Outcome == replay.Blocked || v.Outcome == replay.Inspect; told != refused || (out.Result == Refused) != refused {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestOverridesArePushedLikeApprovals(t *testing.T) {
	o := newOverridden(t)
	for name, c := range map[string]struct {
		change func(o *overridden, s *approval.Override)
		key    string
		space  string
		ref    func(ref string) string
		want   finding.Code
	}{
		"fine":                {nil, "anna", approval.NamespaceOverride, nil, finding.OverrideRecorded},
		"an agent's":          {nil, "agent", approval.NamespaceOverride, nil, finding.ApprovalUnknownSigner},
		"an approval's space": {nil, "anna", approval.NamespaceChange, nil, finding.ApprovalBadSignature},
		"another name":        {nil, "anna", approval.NamespaceOverride, func(ref string) string { return ref[:len(ref)-64] + strings.Repeat("0", 64) }, finding.OracleRefJunk},
		"where approvals are": {nil, "anna", approval.NamespaceOverride, func(ref string) string { return approvalRoot + "/" + ref[len(ref)-64:] }, finding.OracleRefJunk},
		"expired": {func(_ *overridden, s *approval.Override) {
			s.Issued = s.Issued.Add(-2 * time.Hour)
			s.Expires = s.Issued.Add(time.Hour)
		}, "anna", approval.NamespaceOverride, nil, finding.ApprovalExpired},
		"from the future": {func(_ *overridden, s *approval.Override) {
			s.Issued = s.Issued.Add(time.Hour)
			s.Expires = s.Issued.Add(time.Hour)
		}, "anna", approval.NamespaceOverride, nil, finding.ApprovalNotYetValid},
		"another repository": {func(_ *overridden, s *approval.Override) { s.Repo = "4f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21" }, "anna", approval.NamespaceOverride, nil, finding.OracleRefJunk},
		"a topic ref":        {func(_ *overridden, s *approval.Override) { s.Ref = "refs/heads/topic" }, "anna", approval.NamespaceOverride, nil, finding.OracleRefJunk},
		"ids of SHA-256": {func(_ *overridden, s *approval.Override) {
			s.Old, s.New = strings.Repeat("1", 64), strings.Repeat("2", 64)
		}, "anna", approval.NamespaceOverride, nil, finding.OracleRefJunk},
	} {
		t.Run(name, func(t *testing.T) {
			s := o.statement()
			if c.change != nil {
				c.change(o, &s)
			}
			blob, ref := o.sign(s, c.key, c.space)
			if c.ref != nil {
				ref = c.ref(ref)
			}
			out := o.receive(push.Update{Old: zeros, New: blob, Ref: ref})
			want := Refused
			if c.want == finding.OverrideRecorded {
				want = Accepted
			}
			if out.Result != want || len(out.Findings) != 1 || out.Findings[0].Code != c.want {
				t.Fatalf("%+v", out)
			}
		})
	}
}

func TestAnOverrideStaysUntilItHasExpired(t *testing.T) {
	o := newOverridden(t)
	s := o.statement()
	o.publish(s)
	ref := overrideRoot + "/" + s.Hash()
	blob := o.git("", "rev-parse", ref)
	gone := push.Update{Old: blob, New: zeros, Ref: ref}
	if out := o.receive(gone); out.Result != Refused || out.Findings[0].Code != finding.OracleRefKept {
		t.Fatalf("%+v", out)
	}
	other, _ := o.sign(o.statement(), "anna", approval.NamespaceOverride)
	if out := o.receive(push.Update{Old: blob, New: other, Ref: ref}); out.Result != Refused || out.Findings[0].Code != finding.OracleRefExists {
		t.Fatalf("%+v", out)
	}
	o.gate.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	if out := o.receive(gone); out.Result != Accepted || out.Findings[0].Code != finding.ApprovalDeleted {
		t.Fatalf("%+v", out)
	}
}

// One push may bring the override and what it releases.
func TestAnOverrideCountsInThePushThatBringsIt(t *testing.T) {
	o := newOverridden(t)
	s := o.statement()
	blob, ref := o.sign(s, "anna", approval.NamespaceOverride)
	out := o.receive(push.Update{Old: o.base(), New: o.new, Ref: mainRef}, push.Update{Old: zeros, New: blob, Ref: ref})
	if out.Result != Accepted || len(o.asked) != 1 || len(o.asked[0].Overrides) != 1 {
		t.Fatalf("%+v", out)
	}
}

// An override never stands in for an approval.
func TestAnOverrideApprovesNothing(t *testing.T) {
	o := newOverridden(t)
	o.new = o.commit("x", o.base(), "max = 900\n", "2")
	o.publish(o.statement())
	if out := o.push(); out.Result != Refused || len(o.asked) != 0 || out.Findings[0].Code != finding.ProtectedChangeUnapproved {
		t.Fatalf("%+v, asked %+v", out, o.asked)
	}
}

func TestTheLatestOverridesAreHandedOverFirst(t *testing.T) {
	o := newOverridden(t)
	o.push() // the record begins
	o.gate.Now = func() time.Time { return time.Now().Add(time.Hour) }
	var latest string
	for i := range replay.MaxOverrides + 2 {
		s := o.statement()
		s.Issued = s.Issued.Add(time.Duration(i) * time.Minute)
		latest = s.Hash()
		o.publish(s)
	}
	o.push()
	if got := o.asked[1].Overrides; len(got) != replay.MaxOverrides || got[0].Statement != latest {
		t.Errorf("%d, first %+v", len(got), got[0])
	}
}

// hookd is told by what the static rules let a push pass, for the packet.
func TestAnOpeningIsNamedToHookd(t *testing.T) {
	o := newOverridden(t)
	o.new = o.commit("x", o.base(), "max = 900\n", "2")
	view, err := o.gate.judgement().scanner.View(ctx, o.new+"^{tree}")
	if err != nil {
		t.Fatal(err)
	}
	after, err := o.gate.judgement().scanner.State(ctx, view)
	if err != nil {
		t.Fatal(err)
	}
	opening, err := o.gate.Open(ctx, mainRef, after, time.Minute, By{Actor: state.Actor{UID: 0, User: "root"}, Reason: "keys are lost"})
	if err != nil {
		t.Fatal(err)
	}
	out := o.push()
	if len(o.asked) != 1 || o.asked[0].Opening == nil {
		t.Fatalf("%+v, asked %+v", out, o.asked)
	}
	if got := *o.asked[0].Opening; got != (replay.Opening{ID: opening.ID, By: opening.By, Reason: "keys are lost"}) {
		t.Errorf("%+v", got)
	}
	o.publish(o.statement())
	if out := o.push(); out.Result != Accepted || o.pending(mainRef) != 1 {
		t.Errorf("with an override beside it: %+v", out)
	}
}

// How long a replay takes makes no override live longer: what has expired when the
// move is written down releases nothing.
func TestAnOverrideThatExpiresDuringTheReplayReleasesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		took time.Duration
		want Result
	}{
		"expired":      {approval.DefaultOverrideLife + time.Minute, Refused},
		"a minute ago": {approval.DefaultOverrideLife - time.Minute, Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOverridden(t)
			s := o.statement()
			o.publish(s)
			ask := o.gate.Ask
			o.gate.Ask = func(ctx context.Context, r replay.Request, pack Packer, progress func(time.Duration)) (replay.Verdict, error) {
				o.gate.Now = func() time.Time { return s.Issued.Add(c.took) }
				return ask(ctx, r, pack, progress)
			}
			out := o.push()
			if out.Result != c.want || out.Verdicts[0].Verdict.Outcome != replay.Released {
				t.Fatalf("%v, %s", out.Result, codesOf(out))
			}
			if c.want == Accepted {
				return
			}
			last := out.Findings[len(out.Findings)-1]
			if o.pending(mainRef) != 0 || last.Code != finding.ApprovalExpired || last.Args["override"] != s.Hash() {
				t.Errorf("%d pending, said %+v", o.pending(mainRef), last)
			}
		})
	}
}
