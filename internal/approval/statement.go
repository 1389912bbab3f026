// Package approval reads and checks what a maintainer signed: the statement that
// a protected ref may go from one state to another, the token that carries it,
// the OpenSSH signature, and the files that say who may sign.
package approval

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
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
	// MaxLife is the longest time from issue to expiry, DefaultLife the usual one.
	MaxLife     = 30 * 24 * time.Hour
	DefaultLife = 14 * 24 * time.Hour

	header     = "oracle-change approval v1"
	timeForm   = "2006-01-02T15:04:05Z"
	minReason  = 8
	maxReason  = 400
	nonceBytes = 16
)

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
	nonce := make([]byte, nonceBytes)
	if _, err := rand.Read(nonce); err != nil {
		return Statement{}, fmt.Errorf("make nonce: %w", err)
	}
	if life == 0 {
		life = DefaultLife
	}
	issued = issued.UTC().Truncate(time.Second)
	s := Statement{
		Repo: repo, Ref: ref, Paths: paths, Before: before, After: after, Reason: reason,
		Issued: issued, Expires: issued.Add(life).Truncate(time.Second),
		Nonce: base64.RawURLEncoding.EncodeToString(nonce),
	}
	return ParseStatement(s.Bytes())
}

// Bytes is the one serialisation: what is signed and hashed.
func (s Statement) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(header + "\n")
	for _, line := range [...]struct{ key, value string }{
		{"repo", s.Repo}, {"ref", s.Ref}, {"paths", s.Paths}, {"before", s.Before}, {"after", s.After},
		{"reason", s.Reason}, {"issued", s.Issued.UTC().Format(timeForm)},
		{"expires", s.Expires.UTC().Format(timeForm)}, {"nonce", s.Nonce},
	} {
		b.WriteString(line.key + ": " + line.value + "\n")
	}
	return b.Bytes()
}

// Hash is the SHA-256 of Bytes in hexadecimal; it names the approval.
func (s Statement) Hash() string {
	sum := sha256.Sum256(s.Bytes())
	return hex.EncodeToString(sum[:])
}

// ParseStatement reads a statement and accepts one spelling only: Bytes of the
// result are raw.
func ParseStatement(raw []byte) (Statement, error) {
	if len(raw) > MaxStatement {
		return Statement{}, fmt.Errorf("read statement: %d bytes, more than %d", len(raw), MaxStatement)
	}
	if !utf8.Valid(raw) {
		return Statement{}, errors.New("read statement: not UTF-8")
	}
	values, err := statementLines(string(raw))
	if err != nil {
		return Statement{}, err
	}
	s := Statement{
		Repo: values[0], Ref: values[1], Paths: values[2], Before: values[3], After: values[4],
		Reason: values[5], Nonce: values[8],
	}
	if s.Issued, err = parseTime("issued", values[6]); err != nil {
		return Statement{}, err
	}
	if s.Expires, err = parseTime("expires", values[7]); err != nil {
		return Statement{}, err
	}
	if err := s.check(); err != nil {
		return Statement{}, fmt.Errorf("read statement: %w", err)
	}
	if !bytes.Equal(s.Bytes(), raw) {
		return Statement{}, errors.New("read statement: not in its one spelling")
	}
	return s, nil
}

var statementKeys = [...]string{"repo", "ref", "paths", "before", "after", "reason", "issued", "expires", "nonce"}

func statementLines(raw string) (values [len(statementKeys)]string, err error) {
	lines := strings.Split(raw, "\n")
	if lines[0] != header {
		return values, fmt.Errorf("read statement: line 1: want %q", header)
	}
	if len(lines) != len(statementKeys)+2 || lines[len(lines)-1] != "" {
		return values, fmt.Errorf("read statement: want %d lines, each ended by a line feed", len(statementKeys)+1)
	}
	for i, key := range statementKeys {
		value, ok := strings.CutPrefix(lines[i+1], key+": ")
		if !ok {
			return values, fmt.Errorf("read statement: line %d: want %q", i+2, key+": ")
		}
		values[i] = value
	}
	return values, nil
}

func parseTime(key, value string) (time.Time, error) {
	t, err := time.Parse(timeForm, value)
	if err != nil || t.Format(timeForm) != value {
		return time.Time{}, fmt.Errorf("read statement: %s %q: want YYYY-MM-DDThh:mm:ssZ", key, value)
	}
	return t, nil
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
	case !s.Expires.After(s.Issued):
		return errors.New("it expires before it is issued")
	case s.Expires.Sub(s.Issued) > MaxLife:
		return errors.New("it is valid for more than 30 days")
	}
	if nonce, err := decodeBase64URL(s.Nonce); err != nil || len(nonce) != nonceBytes {
		return fmt.Errorf("nonce %q: want 22 characters of base64url", s.Nonce)
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
// byte-order marks.
func shownSafely(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), unicode.In(r, unicode.Zl, unicode.Zp):
			return true
		case r == 0xfeff, r == utf8.RuneError, r >= 0x2060 && r <= 0x206f, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
			return true
		default:
			return false
		}
	})
}

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
