package approval

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/sealgate/sealgate/policy"
)

// Skew is how far an approval may be issued in the future: the maintainer's
// clock and the server's are two.
const Skew = 5 * time.Minute

// Why a token does not count. Verify's errors wrap one of these.
var (
	ErrBadSignature  = errors.New("the signature does not verify")
	ErrUnknownSigner = errors.New("the key is no maintainer's")
	ErrRevoked       = errors.New("the key is revoked")
	ErrKeyNotValid   = errors.New("the key is not valid now, or not for this purpose")
	ErrNotYetValid   = errors.New("it is issued in the future")
	ErrExpired       = errors.New("it has expired")
)

const (
	maxSignersFile = 1 << 20
	maxSignersLine = 16 << 10
	maxPrincipal   = 200
)

// Signers are the people who may sign for one repository. The zero value is
// nobody.
type Signers struct {
	keys    map[string]signer // by wire form
	revoked map[string]bool
}

type signer struct {
	person      string
	line        int
	namespaces  []string // nil: all
	after       time.Time
	before      time.Time
	fingerprint string
}

// Signed says who signed.
type Signed struct {
	Person      string
	Fingerprint string // SHA256:…
}

// LoadSigners reads the maintainers (OpenSSH allowed_signers, ssh-keygen(1)),
// the revoked keys (public keys, one a line) and the agents: public keys, and
// lines "account NAME", that may never approve. Each file must be a regular file
// that belongs to root or to this process's user and that nobody else may write.
// agentsFile may be empty: none. serverKeys are public keys ("ssh-ed25519 AAAA…")
// of the server's own, of any kind and size, which may not approve either. The
// error is policy.Faults: every fault of every file.
func LoadSigners(maintainersFile, revokedFile, agentsFile string, serverKeys ...string) (Signers, error) {
	var r signersReader
	s := Signers{
		keys:    r.maintainers(maintainersFile),
		revoked: map[string]bool{},
	}
	for blob := range r.keyList(revokedFile, nil) {
		s.revoked[blob] = true
	}
	accounts, agents := map[string]int{}, map[string]int{}
	if agentsFile != "" {
		agents = r.keyList(agentsFile, accounts)
	}
	own := r.ownKeys(maintainersFile, serverKeys)
	for blob, one := range s.keys {
		lower := strings.ToLower(one.person)
		if at, ok := agents[blob]; ok {
			r.fault(maintainersFile, one.line, fmt.Sprintf("the key of %q is an agent's: %s:%d", one.person, agentsFile, at))
		}
		if own[blob] {
			r.fault(maintainersFile, one.line, fmt.Sprintf("the key of %q is the server's own", one.person))
		}
		if at, ok := accounts[lower]; ok {
			r.fault(maintainersFile, one.line, fmt.Sprintf("%q may never approve: %s:%d", one.person, agentsFile, at))
		}
	}
	if err := r.faults.Err(); err != nil {
		return Signers{}, err
	}
	return s, nil
}

// People are the persons who may sign, sorted.
func (s Signers) People() []string {
	var out []string
	for _, one := range s.keys {
		out = append(out, one.person)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Verify says who signed the token, if it counts at the time now, which is the
// server's clock. The error wraps one of the Err values above.
func (s Signers) Verify(tok Token, now time.Time) (Signed, error) {
	signed, err := s.verifyStatement(NamespaceChange, tok.Statement.Bytes(), tok.Signature, tok.Statement.Issued, tok.Statement.Expires, now)
	if err != nil {
		return Signed{}, fmt.Errorf("check approval %s: %w", tok.Hash, err)
	}
	return signed, nil
}

// verifyStatement checks a signed statement of any kind. Where expires is zero it
// does not expire.
func (s Signers) verifyStatement(namespace string, statement, sig []byte, issued, expires, now time.Time) (Signed, error) {
	signed, err := s.VerifyBytes(namespace, statement, sig, now)
	if err == nil {
		err = current(issued, expires, now)
	}
	if err != nil {
		return Signed{}, err
	}
	return signed, nil
}

// Current is an error, ErrNotYetValid or ErrExpired, where a statement does not count at
// the time now, whoever signed it.
func (s Statement) Current(now time.Time) error { return current(s.Issued, s.Expires, now) }

func current(issued, expires, now time.Time) error {
	switch {
	case issued.After(now.Add(Skew)):
		return fmt.Errorf("%w: %s", ErrNotYetValid, formatTime(issued))
	case !expires.IsZero() && !now.Before(expires):
		return fmt.Errorf("%w: %s", ErrExpired, formatTime(expires))
	default:
		return nil
	}
}

// VerifyBytes says who signed message in a namespace with the raw SSHSIG sig, if
// that key may at the time now.
func (s Signers) VerifyBytes(namespace string, message, sig []byte, now time.Time) (Signed, error) {
	parsed, err := ParseSignature(sig)
	if err != nil {
		return Signed{}, fmt.Errorf("check signature: %w: %w", ErrBadSignature, err)
	}
	// Whose key it is comes first: a push may carry thousands of signatures by large
	// keys of its own making.
	blob := parsed.Key.Marshal()
	one, ok := s.keys[string(blob)]
	if revoked := s.revoked[string(blob)]; !ok && !revoked {
		return Signed{}, fmt.Errorf("check signature by %s: %w", parsed.Fingerprint(), ErrUnknownSigner)
	}
	if err := parsed.verify(namespace, message); err != nil {
		return Signed{}, fmt.Errorf("check signature by %s: %w: %w", parsed.Fingerprint(), ErrBadSignature, err)
	}
	if s.revoked[string(blob)] {
		return Signed{}, fmt.Errorf("check signature by %s: %w", parsed.Fingerprint(), ErrRevoked)
	}
	if !one.allows(namespace, now) {
		return Signed{}, fmt.Errorf("check signature by %s (%s): %w", parsed.Fingerprint(), one.person, ErrKeyNotValid)
	}
	return Signed{Person: one.person, Fingerprint: one.fingerprint}, nil
}

func (one signer) allows(namespace string, now time.Time) bool {
	switch {
	case one.namespaces != nil && !slices.Contains(one.namespaces, namespace):
		return false
	case !one.after.IsZero() && now.Before(one.after):
		return false
	case !one.before.IsZero() && !now.Before(one.before):
		return false
	default:
		return true
	}
}

// Persons counts persons, not keys and not signatures.
func Persons(signed []Signed) int {
	seen := map[string]bool{}
	for _, s := range signed {
		if s.Person != "" {
			seen[strings.ToLower(s.Person)] = true
		}
	}
	return len(seen)
}

// Met says whether at least threshold persons signed. A threshold below one is
// never met.
func Met(signed []Signed, threshold int) bool {
	return threshold >= 1 && Persons(signed) >= threshold
}

// ParsePublicKey reads "<type> <base64> [comment]", a key of an allowed kind, with
// any white space between and around.
func ParsePublicKey(line string) (ssh.PublicKey, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return nil, errors.New("want a public key: <type> <base64> [comment]")
	}
	return parseKeyFields(fields[0], fields[1])
}

func parseKeyFields(kind, text string) (ssh.PublicKey, error) {
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("the key after %q is not base64", kind)
	}
	key, err := parseKey(blob)
	if err != nil {
		return nil, err
	}
	if key.Type() != kind {
		return nil, fmt.Errorf("the key says type %q and is of type %q", kind, key.Type())
	}
	return key, nil
}

type signersReader struct {
	faults policy.Faults
}

func (r *signersReader) fault(file string, line int, what string) {
	r.faults = append(r.faults, policy.Fault{File: file, Line: line, What: what})
}

// lines calls each for every line that is neither blank nor a comment.
func (r *signersReader) lines(file string, each func(n int, line string)) {
	text, err := readOwned(file)
	if err != nil {
		r.fault(file, 0, err.Error())
		return
	}
	for i, line := range strings.Split(text, "\n") {
		switch what := oddLine(line); {
		case what != "":
			r.fault(file, i+1, what)
		case strings.TrimLeft(line, " \t") == "" || strings.TrimLeft(line, " \t")[0] == '#':
		default:
			each(i+1, line)
		}
	}
}

// words splits a line as OpenSSH does: no other blank than these two separates.
func words(line string) []string {
	return strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
}

func oddLine(line string) string {
	switch {
	case len(line) > maxSignersLine:
		return fmt.Sprintf("longer than %d bytes", maxSignersLine)
	case !utf8.ValidString(line):
		return "not UTF-8"
	case strings.ContainsFunc(line, func(c rune) bool {
		return c != '\t' && unicode.IsControl(c) || unicode.In(c, unicode.Zl, unicode.Zp) || c == 0xfeff
	}):
		return "it has a control character (lines end with a line feed only)"
	default:
		return ""
	}
}

// keyList reads public keys, one a line; with accounts not nil also
// "account NAME".
func (r *signersReader) keyList(file string, accounts map[string]int) (lines map[string]int) {
	out := map[string]int{}
	r.lines(file, func(n int, line string) {
		if strings.HasPrefix(line, "SSHKRL") {
			r.fault(file, n, "a binary revocation list; want public keys, one a line")
			return
		}
		fields := words(line)
		if accounts != nil && fields[0] == "account" {
			if len(fields) != 2 {
				r.fault(file, n, "want: account NAME")
				return
			}
			accounts[strings.ToLower(fields[1])] = n
			return
		}
		key, err := listedKey(fields)
		if err != nil {
			r.fault(file, n, err.Error())
			return
		}
		out[string(key)] = n
	})
	return out
}

// ownKeys are the keys that a server proves to be itself with.
func (r *signersReader) ownKeys(file string, lines []string) map[string]bool {
	out := map[string]bool{}
	for _, line := range lines {
		key, err := listedKey(words(strings.TrimSuffix(line, "\n")))
		if err != nil {
			r.fault(file, 0, fmt.Sprintf("a key of the server's own: %v", err))
			continue
		}
		out[string(key)] = true
	}
	return out
}

// listedKey is the wire form of a listed key. Keys that are too weak to sign may
// be listed; a line that is no key may not.
func listedKey(fields []string) ([]byte, error) {
	if len(fields) < 2 {
		return nil, errors.New("want a public key: <type> <base64> [comment]")
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(fields[1])
	if err != nil {
		return nil, fmt.Errorf("the key after %q is not base64", fields[0])
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if key.Type() != fields[0] {
		return nil, fmt.Errorf("the key says type %q and is of type %q", fields[0], key.Type())
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key // what is certified is the key that signs
	}
	return key.Marshal(), nil
}

func (r *signersReader) maintainers(file string) map[string]signer {
	out := map[string]signer{}
	spelled := map[string]string{} // lower case: as written first
	r.lines(file, func(n int, line string) {
		blob, one, err := parseSigner(line)
		if err != nil {
			r.fault(file, n, err.Error())
			return
		}
		one.line = n
		if first, ok := out[blob]; ok {
			r.fault(file, n, sameKey(first, one))
			return
		}
		lower := strings.ToLower(one.person)
		if first, ok := spelled[lower]; ok && first != one.person {
			r.fault(file, n, fmt.Sprintf("%q and %q differ only in case: one person has one name", first, one.person))
			return
		}
		spelled[lower] = one.person
		out[blob] = one
	})
	return out
}

func sameKey(first, second signer) string {
	if first.person == second.person {
		return fmt.Sprintf("the key stands twice, first in line %d", first.line)
	}
	return fmt.Sprintf("the key is that of %q (line %d): a key belongs to one person", first.person, first.line)
}

// parseSigner reads "person [options] type base64 [comment]".
func parseSigner(line string) (blob string, one signer, err error) {
	fields := words(line)
	if one.person = fields[0]; len(fields) < 3 {
		return "", one, errors.New("want: person [options] <type> <base64> [comment]")
	}
	if err := checkPerson(one.person); err != nil {
		return "", one, err
	}
	rest := fields[1:]
	if !isKeyType(rest[0]) {
		if err := one.options(rest[0]); err != nil {
			return "", one, err
		}
		rest = rest[1:]
	}
	if len(rest) < 2 {
		return "", one, errors.New("want: person [options] <type> <base64> [comment]")
	}
	key, err := parseKeyFields(rest[0], rest[1])
	if err != nil {
		return "", one, err
	}
	one.fingerprint = ssh.FingerprintSHA256(key)
	return string(key.Marshal()), one, nil
}

func checkPerson(person string) error {
	switch {
	case len(person) > maxPrincipal:
		return fmt.Errorf("the name is longer than %d bytes", maxPrincipal)
	case strings.ContainsAny(person, "*?!"):
		return fmt.Errorf("%q is a pattern: name one person", person)
	case strings.Contains(person, ","):
		return fmt.Errorf("%q is a list: a key belongs to one person", person)
	case strings.ContainsAny(person, "\"'\\="), strings.ContainsFunc(person, func(c rune) bool { return c > '~' }):
		return fmt.Errorf("%q: want a name of plain ASCII characters, an address for instance", person)
	case isKeyType(person):
		return errors.New("the person is missing: want: person [options] <type> <base64> [comment]")
	default:
		return nil
	}
}

// isKeyType knows every type that OpenSSH could list, so that a key which may not
// sign is told from an option.
func isKeyType(s string) bool {
	s = strings.Replace(s, "-cert-v01@openssh.com", "", 1)
	switch strings.TrimSuffix(s, "@openssh.com") {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, "ssh-dss", "ssh-xmss", "sk-ssh-ed25519", "sk-ecdsa-sha2-nistp256",
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return true
	default:
		return false
	}
}

// options reads a comma-separated list of name="value", values quoted as OpenSSH
// wants them.
func (one *signer) options(text string) error {
	seen := map[string]bool{}
	for text != "" {
		name, rest, ok := strings.Cut(text, "=\"")
		if first, _, _ := strings.Cut(text, ","); first == "cert-authority" {
			return errors.New("cert-authority: certificates cannot approve; list the person's key")
		}
		value, rest, closed := strings.Cut(rest, "\"")
		if !ok || !closed || strings.ContainsAny(name, ",\"") {
			return fmt.Errorf("options %q: want name=\"value\", comma-separated", text)
		}
		if seen[name] {
			return fmt.Errorf("option %q stands twice", name)
		}
		seen[name] = true
		if err := one.option(name, value); err != nil {
			return err
		}
		if text, ok = strings.CutPrefix(rest, ","); rest != "" && (!ok || text == "") {
			return fmt.Errorf("options: %q after option %q", rest, name)
		}
	}
	if !one.after.IsZero() && !one.before.IsZero() && !one.before.After(one.after) {
		return errors.New("valid-before is not after valid-after")
	}
	return nil
}

func (one *signer) option(name, value string) (err error) {
	switch name {
	case "namespaces":
		one.namespaces = strings.Split(value, ",")
		for _, ns := range one.namespaces {
			if ns == "" || strings.ContainsAny(ns, "*?! ") {
				return fmt.Errorf("namespaces %q: want names, no patterns", value)
			}
		}
	case "valid-after":
		one.after, err = validityTime(name, value)
	case "valid-before":
		one.before, err = validityTime(name, value)
	default:
		err = fmt.Errorf("unknown option %q; known: namespaces, valid-after, valid-before", name)
	}
	return err
}

func validityTime(name, value string) (time.Time, error) {
	for _, form := range [...]string{"20060102Z", "200601021504Z", "20060102150405Z"} {
		t, err := time.Parse(form, value)
		if err == nil && t.Format(form) == value {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s %q: want YYYYMMDD, YYYYMMDDhhmm or YYYYMMDDhhmmss, and Z at the end", name, value)
}
