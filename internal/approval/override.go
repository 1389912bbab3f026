package approval

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sealgate/sealgate/policy"
)

const (
	// MaxOverrideLife is an override's longest time from issue to expiry,
	// DefaultOverrideLife the usual one.
	MaxOverrideLife     = 7 * 24 * time.Hour
	DefaultOverrideLife = 24 * time.Hour
)

var overrideForm = form{"override", "oracle-change override v1",
	[]string{"repo", "ref", "old", "new", "decision", "reason", "issued", "expires", "nonce"}}

// Override is an override statement v1: a maintainer releases the decision
// Decision, which refused that Ref of the repository Repo goes from Old to New.
type Override struct {
	Repo     string // repository id
	Ref      string // full name
	Old      string // commit id; zeros where the ref did not exist
	New      string // commit id, another
	Decision string // the packet's SHA-256: 64 hexadecimal digits
	Reason   string
	Issued   time.Time // whole seconds, UTC
	Expires  time.Time
	Nonce    string
}

// SignedOverride is an override and its signature, as they travel: a token.
type SignedOverride struct {
	Raw       string
	Hash      string // of the statement
	Statement Override
	Signature []byte // SSHSIG, raw
}

// NewOverride makes an override with a fresh nonce. A life of zero is
// DefaultOverrideLife.
func NewOverride(repo, ref, from, to, decision, reason string, issued time.Time, life time.Duration) (Override, error) {
	nonce, err := newNonce()
	if err != nil {
		return Override{}, err
	}
	if life == 0 {
		life = DefaultOverrideLife
	}
	issued = issued.UTC().Truncate(time.Second)
	o := Override{
		Repo: repo, Ref: ref, Old: from, New: to, Decision: decision, Reason: reason,
		Issued: issued, Expires: issued.Add(life).Truncate(time.Second), Nonce: nonce,
	}
	return ParseOverride(o.text())
}

// Bytes is the one serialisation: what is signed and hashed. The error says why
// there is none: a value that no override may have.
func (o Override) Bytes() ([]byte, error) {
	raw := o.text()
	if _, err := ParseOverride(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// Hash is the SHA-256 of Bytes in hexadecimal; it names the override.
func (o Override) Hash() string { return hashOf(o.text()) }

func (o Override) text() []byte {
	return overrideForm.write(o.Repo, o.Ref, o.Old, o.New, "sha256:"+o.Decision, o.Reason,
		formatTime(o.Issued), formatTime(o.Expires), o.Nonce)
}

// ParseOverride reads an override and accepts one spelling only.
func ParseOverride(raw []byte) (Override, error) {
	values, err := overrideForm.read(raw)
	if err != nil {
		return Override{}, overrideForm.fault(err)
	}
	o := Override{Repo: values[0], Ref: values[1], Old: values[2], New: values[3], Reason: values[5], Nonce: values[8]}
	if o.Decision, err = digestHex("decision", values[4]); err != nil {
		return Override{}, overrideForm.fault(err)
	}
	if o.Issued, err = parseTime("issued", values[6]); err != nil {
		return Override{}, overrideForm.fault(err)
	}
	if o.Expires, err = parseTime("expires", values[7]); err != nil {
		return Override{}, overrideForm.fault(err)
	}
	if err := o.check(); err != nil {
		return Override{}, overrideForm.fault(err)
	}
	if !bytes.Equal(o.text(), raw) {
		return Override{}, overrideForm.otherSpelling()
	}
	return o, nil
}

func (o Override) check() error {
	switch {
	case !ValidRepo(o.Repo):
		return fmt.Errorf("repo %q: want a lower-case UUID", o.Repo)
	case !policy.ValidRef(o.Ref) || !shownSafely(o.Ref):
		return fmt.Errorf("ref %q: want a full ref name", o.Ref)
	case !commitID(o.Old):
		return fmt.Errorf("old %q: want a full commit id, or zeros", o.Old)
	case !commitID(o.New) || strings.Trim(o.New, "0") == "":
		return fmt.Errorf("new %q: want a full commit id", o.New)
	case len(o.Old) != len(o.New):
		return errors.New("old and new are ids of two kinds of repository")
	case o.Old == o.New:
		return errors.New("old and new are the same commit")
	}
	if err := checkLife(o.Issued, o.Expires, MaxOverrideLife); err != nil {
		return err
	}
	if err := checkNonce(o.Nonce); err != nil {
		return err
	}
	return CheckReason(o.Reason)
}

// commitID says whether id is an object id in full, SHA-1 or SHA-256.
func commitID(id string) bool {
	if len(id) != 40 && len(id) != 64 {
		return false
	}
	return strings.Trim(id, "0123456789abcdef") == ""
}

// ParseOverrideBlob reads the content of a blob below refs/oracle/overrides/: an
// override's token and one line feed. It checks forms, no signature.
func ParseOverrideBlob(content []byte) (SignedOverride, error) {
	raw, err := oneLine(content)
	if err != nil {
		return SignedOverride{}, fmt.Errorf("read override blob: %w", err)
	}
	statement, sig, err := splitToken(raw)
	if err != nil {
		return SignedOverride{}, fmt.Errorf("read override blob: %w", err)
	}
	o, err := ParseOverride(statement)
	if err != nil {
		return SignedOverride{}, fmt.Errorf("read override blob: %w", err)
	}
	return SignedOverride{Raw: raw, Hash: o.Hash(), Statement: o, Signature: sig}, nil
}

// VerifyOverride says who signed the override, if it counts at the time now,
// which is the server's clock. Errors are those of Verify.
func (s Signers) VerifyOverride(t SignedOverride, now time.Time) (Signed, error) {
	signed, err := s.verifyStatement(NamespaceOverride, t.Statement.text(), t.Signature, t.Statement.Issued, t.Statement.Expires, now)
	if err != nil {
		return Signed{}, fmt.Errorf("check override %s: %w", t.Hash, err)
	}
	return signed, nil
}
