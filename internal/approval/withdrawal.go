package approval

import (
	"bytes"
	"fmt"
	"time"
)

var withdrawalForm = form{"withdrawal", "oracle-change withdrawal v1",
	[]string{"repo", "approval", "reason", "issued", "nonce"}}

// Withdrawal is a withdrawal statement v1: an approval of the repository Repo
// counts no more. Any maintainer may withdraw any approval, whoever gave it and
// wherever it travels.
type Withdrawal struct {
	Repo     string // repository id
	Approval string // hash of the approval's statement: 64 hexadecimal digits
	Reason   string
	Issued   time.Time // whole seconds, UTC
	Nonce    string
}

// SignedWithdrawal is a withdrawal and its signature, as they travel: a token.
type SignedWithdrawal struct {
	Raw       string
	Hash      string // of the statement
	Statement Withdrawal
	Signature []byte // SSHSIG, raw
}

// NewWithdrawal makes a withdrawal with a fresh nonce.
func NewWithdrawal(repo, approval, reason string, issued time.Time) (Withdrawal, error) {
	nonce, err := newNonce()
	if err != nil {
		return Withdrawal{}, err
	}
	w := Withdrawal{Repo: repo, Approval: approval, Reason: reason, Issued: issued.UTC().Truncate(time.Second), Nonce: nonce}
	return ParseWithdrawal(w.text())
}

// Bytes is the one serialisation: what is signed and hashed. The error says why
// there is none: a value that no withdrawal may have.
func (w Withdrawal) Bytes() ([]byte, error) {
	raw := w.text()
	if _, err := ParseWithdrawal(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// Hash is the SHA-256 of Bytes in hexadecimal.
func (w Withdrawal) Hash() string { return hashOf(w.text()) }

func (w Withdrawal) text() []byte {
	return withdrawalForm.write(w.Repo, "sha256:"+w.Approval, w.Reason, formatTime(w.Issued), w.Nonce)
}

// ParseWithdrawal reads a withdrawal and accepts one spelling only.
func ParseWithdrawal(raw []byte) (Withdrawal, error) {
	values, err := withdrawalForm.read(raw)
	if err != nil {
		return Withdrawal{}, withdrawalForm.fault(err)
	}
	w := Withdrawal{Repo: values[0], Reason: values[2], Nonce: values[4]}
	if w.Approval, err = digestHex("approval", values[1]); err != nil {
		return Withdrawal{}, withdrawalForm.fault(err)
	}
	if w.Issued, err = parseTime("issued", values[3]); err != nil {
		return Withdrawal{}, withdrawalForm.fault(err)
	}
	if err := w.check(); err != nil {
		return Withdrawal{}, withdrawalForm.fault(err)
	}
	if !bytes.Equal(w.text(), raw) {
		return Withdrawal{}, withdrawalForm.otherSpelling()
	}
	return w, nil
}

func (w Withdrawal) check() error {
	if !ValidRepo(w.Repo) {
		return fmt.Errorf("repo %q: want a lower-case UUID", w.Repo)
	}
	if err := checkNonce(w.Nonce); err != nil {
		return err
	}
	return CheckReason(w.Reason)
}

// ParseWithdrawalBlob reads the content of a blob below refs/oracle/withdrawals/:
// a withdrawal's token and one line feed. It checks forms, no signature.
func ParseWithdrawalBlob(content []byte) (SignedWithdrawal, error) {
	raw, err := oneLine(content)
	if err != nil {
		return SignedWithdrawal{}, fmt.Errorf("read withdrawal blob: %w", err)
	}
	statement, sig, err := splitToken(raw)
	if err != nil {
		return SignedWithdrawal{}, fmt.Errorf("read withdrawal blob: %w", err)
	}
	w, err := ParseWithdrawal(statement)
	if err != nil {
		return SignedWithdrawal{}, fmt.Errorf("read withdrawal blob: %w", err)
	}
	return SignedWithdrawal{Raw: raw, Hash: w.Hash(), Statement: w, Signature: sig}, nil
}

// VerifyWithdrawal says who signed the withdrawal, if it counts at the time now,
// which is the server's clock. Errors are those of Verify. A withdrawal does not
// expire.
func (s Signers) VerifyWithdrawal(t SignedWithdrawal, now time.Time) (Signed, error) {
	signed, err := s.verifyStatement(NamespaceWithdraw, t.Statement.text(), t.Signature, t.Statement.Issued, time.Time{}, now)
	if err != nil {
		return Signed{}, fmt.Errorf("check withdrawal %s: %w", t.Hash, err)
	}
	return signed, nil
}

// digestHex takes "sha256:" off a digest.
func digestHex(key, value string) (string, error) {
	if !ValidDigest(value) {
		return "", fmt.Errorf("%s %q: want sha256:<64 hexadecimal digits>", key, value)
	}
	return value[len("sha256:"):], nil
}
