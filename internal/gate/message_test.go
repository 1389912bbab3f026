package gate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
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
)

const messageSize = 5 << 20

// raw makes a commit with any bytes for a message, and what an ordinary commit
// has before it.
func (b *approving) raw(tree, parent, message string) string {
	b.t.Helper()
	id := b.git("", "rev-parse", tree+"^{tree}")
	text := "tree " + id + "\nparent " + parent + "\nauthor w <bot@forge.example> 1700000000 +0000\ncommitter w <bot@forge.example> 1700000000 +0000\n" + message
	return b.git(text, "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
}

// slowest lists a maintainer whose key takes longest to check.
func (b *approving) slowest() ssh.Signer {
	b.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		b.t.Fatal(err)
	}
	dir := b.t.TempDir()
	for name, text := range map[string]string{"m": "slow@example.org " + string(ssh.MarshalAuthorizedKey(signer.PublicKey())), "r": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	if b.gate.Signers, err = approval.LoadSigners(filepath.Join(dir, "m"), filepath.Join(dir, "r"), ""); err != nil {
		b.t.Fatal(err)
	}
	b.keys["slow@example.org"] = signer
	return signer
}

func fill(piece string) string { return strings.Repeat(piece, messageSize/len(piece)) }

// sameForAll leaves a test that takes long out of the second run, as another account:
// nothing in it depends on who runs it.
func sameForAll(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the first run had it")
	}
}

// TestNoMessageKeepsTheGate pushes messages of five megabytes that are made to be
// slow to read. Each is refused like any other, and soon: the bound is generous,
// and what is quadratic takes minutes.
func TestNoMessageKeepsTheGate(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	b := newApproving(t, anna)
	slow := b.slowest()
	loose := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	// The first push begins the record, and what was issued before that is void.
	b.receive(push.Update{Old: b.base(), New: loose, Ref: mainRef})
	statement := b.statement(b.base(), loose)
	good := b.token("slow@example.org", statement)
	forged := func() string {
		var s strings.Builder
		key := slow.PublicKey().Marshal()
		for i := 0; s.Len() < messageSize; i++ {
			inner := ssh.Marshal(struct{ Kind, Blob string }{slow.PublicKey().Type(), string(ssh.Marshal(struct{ R, S string }{fmt.Sprintf("\x01%065d", i), "\x01" + strings.Repeat("s", 65)}))})
			sig := append([]byte("SSHSIG\x00\x00\x00\x01"), ssh.Marshal(struct{ Key, Namespace, Reserved, Hash, Sig string }{string(key), approval.NamespaceChange, "", "sha512", string(inner)})...)
			s.WriteString(approval.TrailerKey + ": " + approval.FormatToken(statement.Bytes(), sig) + "\n")
		}
		return s.String()
	}
	var distinct strings.Builder
	for i := 0; distinct.Len() < messageSize; i++ {
		fmt.Fprintf(&distinct, "%s: v1.%s.b.\n", approval.TrailerKey, base64.RawURLEncoding.EncodeToString(fmt.Append(nil, i)))
	}
	for name, message := range map[string]string{
		"forged signatures of a maintainer's": "\ns\n\n" + forged(),
		"junk candidates":                     "\ns\n\n" + distinct.String(),
		"one token again and again":           "\ns\n\n" + fill(approval.TrailerKey+": "+strings.Replace(good, "v1.", "v1.A", 1)+"\n"),
		"keys without tokens":                 "\ns\n\n" + fill(approval.TrailerKey+":"),
		"reasons":                             "\ns\n\n" + fill("Oracle-Change: x\n") + approval.TrailerKey + ": v1.a.b.\n",
		"trailers":                            "\ns\n\n" + fill("a: b\n"),
		"continued trailers":                  "\ns\n\na: b\n" + fill(" c\n"),
		"continued by blanks":                 "\ns\n\na: b\n" + fill(" \n"),
		"empty lines":                         "\n" + fill("\n"),
		"comments":                            "\ns\n\n" + fill("# c\n"),
		"conflicts":                           "\ns\n\n" + fill("Conflicts:\n\ta\nx\n"),
		"one line":                            "\n" + fill("o"),
		"NULs":                                "\n" + fill("\x00"),
		"no empty line":                       fill("gpgsig x\n"),
		"a header without end":                "gpgsig " + fill("x"),
	} {
		tip := b.raw(loose, b.base(), message)
		began := time.Now()
		out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef})
		took := time.Since(began)
		if out.Result != Refused {
			t.Errorf("%s: result %v, %s", name, out.Result, codesOf(out))
		}
		if took > time.Minute {
			t.Errorf("%s: it took %s", name, took)
		}
		t.Logf("%6d ms  %s: %s", took.Milliseconds(), name, codesOf(out))
	}
	// The honest twin: as long a message, and the approval at its end.
	tip := b.raw(loose, b.base(), "\ns\n\n"+fill("a: b\n")+approval.TrailerKey+": "+good+"\n")
	if out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("honest: %v, %s", out.Result, codesOf(out))
	}
}

// Forged signatures do not use up what an honest approval needs: what is
// published is looked at first.
func TestForgedSignaturesDoNotHideAPublishedApproval(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna)
	loose := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	var message strings.Builder
	statement := b.statement(b.base(), loose)
	for i := range 2 * maxForged {
		message.WriteString(approval.TrailerKey + ": " + approval.FormatToken(statement.Bytes(), sshsig(t, b.keys[anna], approval.NamespaceChange, fmt.Append(nil, i))) + "\n")
	}
	tip := b.raw(loose, b.base(), "\ns\n\n"+message.String())
	move := push.Update{Old: b.base(), New: tip, Ref: mainRef}
	if out := b.receive(move); out.Result != Refused || codesOf(out) != string(finding.ApprovalBadSignature) {
		t.Errorf("forged: %v, %s", out.Result, codesOf(out))
	}
	b.approve(anna, b.base(), loose)
	if out := b.receive(move); out.Result != Accepted {
		t.Errorf("honest: %v, %s", out.Result, codesOf(out))
	}
}

// However signatures of any kind come, and whoever made them, so many are checked that
// count for nothing, and no more; what was checked is not checked again.
func TestSignaturesThatCountForNothingAreCheckedSoOften(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna)
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"forged": {approval.ErrBadSignature, maxForged + 1}, "by a revoked key": {approval.ErrRevoked, maxForged + 1}, "by a key for something else": {approval.ErrKeyNotValid, maxForged + 1},
		"by a stranger, whose are not checked": {approval.ErrUnknownSigner, 3 * maxForged}, "good": {nil, 3 * maxForged},
	} {
		j := b.gate.judgement()
		n := 0
		for i := range 6 * maxForged {
			_, err := j.checked(fmt.Sprint(i/2), func() (approval.Signed, error) { n++; return approval.Signed{}, c.err })
			if c.err == nil && err != nil || c.err != nil && err == nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n != c.want {
			t.Errorf("%s: %d are checked, want %d", name, n, c.want)
		}
	}
}

// Approvals that have expired lie in old messages by the hundred. They cost no check,
// and keep no good one from being looked at.
func TestExpiredApprovalsDoNotHideAGoodOne(t *testing.T) {
	t.Parallel()
	b := newApproving(t, anna)
	loose := b.write(made{author: bot, parents: []string{b.base()}, oracle: loosened})
	b.receive(push.Update{Old: none, New: b.base(), Ref: "refs/heads/topic"}) // the record begins
	var message strings.Builder
	for i := range maxForged + 50 {
		s := b.statement(b.base(), loose)
		s.Expires = s.Issued.Add(time.Duration(i+1) * time.Second)
		message.WriteString(approval.TrailerKey + ": " + b.token(anna, s) + "\n")
	}
	good := b.statement(b.base(), loose)
	message.WriteString(approval.TrailerKey + ": " + b.token(anna, good) + "\n")
	tip := b.raw(loose, b.base(), "\ns\n\n"+message.String())
	later := time.Now().Add(time.Hour)
	b.gate.Now = func() time.Time { return later }
	if out := b.receive(push.Update{Old: b.base(), New: tip, Ref: mainRef}); out.Result != Accepted {
		t.Errorf("%v, %.300s", out.Result, codesOf(out))
	}
}
