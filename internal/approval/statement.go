// Package approval reads and checks what a maintainer signed: the statement that
// a protected ref may go from one state to another, that such a statement is
// withdrawn, or that a refused decision is overridden; the token that carries a
// statement, the OpenSSH signature, and the files that say who may sign.
package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sealgate/sealgate/policy"
)

const (
	// MaxStatement is the largest statement, in bytes.
	MaxStatement = 2000
	// MaxLife is an approval's longest time from issue to expiry, DefaultLife the
	// usual one.
	MaxLife     = 30 * 24 * time.Hour
	DefaultLife = 14 * 24 * time.Hour

	minReason = 8
	maxReason = 400
)

var changeForm = form{"statement", "oracle-change approval v1",
	[]string{"repo", "ref", "paths", "before", "after", "reason", "issued", "expires", "nonce"}}

// Statement is an approval statement v1: the ref Ref of the repository Repo may
// go from state Before to state After. Digests have the form "sha256:<hex>".
type Statement struct {
	Repo    string // repository id, a lower-case UUID
	Ref     string // full name
	Paths   string // digest of the protected patterns
	Before  string // state
	After   string // another state
	Reason  string
	Issued  time.Time // whole seconds, UTC
	Expires time.Time
	Nonce   string // 16 bytes, base64url
}

// NewStatement makes a statement with a fresh nonce. A life of zero is
// DefaultLife.
func NewStatement(repo, ref, paths, before, after, reason string, issued time.Time, life time.Duration) (Statement, error) {
	nonce, err := newNonce()
	if err != nil {
		return Statement{}, err
	}
	if life == 0 {
		life = DefaultLife
	}
	issued = issued.UTC().Truncate(time.Second)
	s := Statement{
		Repo: repo, Ref: ref, Paths: paths, Before: before, After: after, Reason: reason,
		Issued: issued, Expires: issued.Add(life).Truncate(time.Second),
		Nonce: nonce,
	}
	return ParseStatement(s.Bytes())
}

// Bytes is the one serialisation: what is signed and hashed.
func (s Statement) Bytes() []byte {
	return changeForm.write(s.Repo, s.Ref, s.Paths, s.Before, s.After, s.Reason,
		formatTime(s.Issued), formatTime(s.Expires), s.Nonce)
}

// Hash is the SHA-256 of Bytes in hexadecimal; it names the approval.
func (s Statement) Hash() string { return hashOf(s.Bytes()) }

func hashOf(statement []byte) string {
	sum := sha256.Sum256(statement)
	return hex.EncodeToString(sum[:])
}

// ParseStatement reads a statement and accepts one spelling only: Bytes of the
// result are raw.
func ParseStatement(raw []byte) (Statement, error) {
	values, err := changeForm.read(raw)
	if err != nil {
		return Statement{}, changeForm.fault(err)
	}
	s := Statement{
		Repo: values[0], Ref: values[1], Paths: values[2], Before: values[3], After: values[4],
		Reason: values[5], Nonce: values[8],
	}
	if s.Issued, err = parseTime("issued", values[6]); err != nil {
		return Statement{}, changeForm.fault(err)
	}
	if s.Expires, err = parseTime("expires", values[7]); err != nil {
		return Statement{}, changeForm.fault(err)
	}
	if err := s.check(); err != nil {
		return Statement{}, changeForm.fault(err)
	}
	if !bytes.Equal(s.Bytes(), raw) {
		return Statement{}, changeForm.otherSpelling()
	}
	return s, nil
}

func (s Statement) check() error {
	switch {
	case !ValidRepo(s.Repo):
		return fmt.Errorf("repo %q: want a lower-case UUID", s.Repo)
	case !policy.ValidRef(s.Ref) || !shownSafely(s.Ref):
		return fmt.Errorf("ref %q: want a full ref name", s.Ref)
	case !ValidDigest(s.Paths):
		return fmt.Errorf("paths %q: want sha256:<64 hexadecimal digits>", s.Paths)
	case !ValidDigest(s.Before):
		return fmt.Errorf("before %q: want sha256:<64 hexadecimal digits>", s.Before)
	case !ValidDigest(s.After):
		return fmt.Errorf("after %q: want sha256:<64 hexadecimal digits>", s.After)
	case s.Before == s.After:
		return errors.New("before and after are the same state")
	}
	if err := checkLife(s.Issued, s.Expires, MaxLife); err != nil {
		return err
	}
	if err := checkNonce(s.Nonce); err != nil {
		return err
	}
	return CheckReason(s.Reason)
}

// CheckReason says what keeps text from being the reason of a statement.
func CheckReason(text string) error {
	switch {
	case len(text) < minReason || len(text) > maxReason:
		return fmt.Errorf("reason: %d bytes, want %d to %d", len(text), minReason, maxReason)
	case !utf8.ValidString(text):
		return errors.New("reason: not UTF-8")
	case strings.TrimSpace(text) != text:
		return errors.New("reason: it starts or ends with a space")
	case !norm.NFC.IsNormalString(text):
		return errors.New("reason: not in Unicode normalisation form C")
	case !shownSafely(text):
		return errors.New("reason: it has a control, bidirectional or invisible character")
	}
	return nil
}

// shownSafely is false for text whose appearance can differ from its content:
// control characters, line separators, bidirectional controls, tag characters,
// byte-order marks, and what shows nothing at all. Joiners are part of some
// scripts and of emoji.
func shownSafely(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), unicode.In(r, unicode.Zl, unicode.Zp):
			return true
		case strings.ContainsRune(invisible, r):
			return true
		case r == 0xfeff, r == utf8.RuneError, r >= 0x2060 && r <= 0x206f, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
			return true
		default:
			return false
		}
	})
}

// invisible are a soft hyphen, Hangul fillers, a Mongolian vowel separator, a zero
// width space and a blank braille pattern.
const invisible = "\u00ad\u115f\u1160\u180e\u200b\u2800\u3164\uffa0"

// ValidRepo says whether id is a repository id: a UUID in lower case.
func ValidRepo(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (id[i] == '-') || !dash && !isLowerHex(id[i]) {
			return false
		}
	}
	return true
}

// ValidDigest says whether s is "sha256:" and 64 lower-case hexadecimal digits.
func ValidDigest(s string) bool {
	rest, ok := strings.CutPrefix(s, "sha256:")
	return ok && ValidHash(rest)
}

// ValidHash says whether s is 64 lower-case hexadecimal digits.
func ValidHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if !isLowerHex(s[i]) {
			return false
		}
	}
	return true
}

func isLowerHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
