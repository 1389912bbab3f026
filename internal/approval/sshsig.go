package approval

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// The namespaces of Sealgate's signatures.
const (
	NamespaceChange   = "oracle-change-v1@sealgate"
	NamespaceOverride = "oracle-override-v1@sealgate"
	NamespaceWithdraw = "oracle-withdraw-v1@sealgate"
)

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----\n"
	armorEnd   = "-----END SSH SIGNATURE-----\n"
	armorWidth = 70 // as ssh-keygen writes it

	sigMagic   = "SSHSIG"
	sigVersion = 1
	sigHash    = "sha512"

	minRSABits = 3072
	maxRSABits = 16384

	flagUserPresence = 0x01
)

// Signature is an SSHSIG (OpenSSH PROTOCOL.sshsig) that was read, not verified.
type Signature struct {
	Key       ssh.PublicKey
	Namespace string
	sig       *ssh.Signature
}

// Fingerprint is the key's "SHA256:…" form.
func (s Signature) Fingerprint() string { return ssh.FingerprintSHA256(s.Key) }

// ParseArmored reads one armored signature, exactly as ssh-keygen writes it:
// nothing before or after, line feeds only, lines of 70 characters. It returns
// the raw SSHSIG.
func ParseArmored(armored []byte) ([]byte, error) {
	if len(armored) > 2*maxSignature {
		return nil, errors.New("read armored signature: too long")
	}
	body, begins := bytes.CutPrefix(armored, []byte(armorBegin))
	body, ends := bytes.CutSuffix(body, []byte(armorEnd))
	if !begins || !ends {
		return nil, errors.New("read armored signature: want one SSH SIGNATURE armor, nothing before or after")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(body))
	if err != nil {
		return nil, fmt.Errorf("read armored signature: %w", err)
	}
	if !bytes.Equal(Armor(raw), armored) {
		return nil, errors.New("read armored signature: not in the one spelling of ssh-keygen")
	}
	if _, err := ParseSignature(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// Armor is the form that ssh-keygen reads and writes.
func Armor(raw []byte) []byte {
	text := base64.StdEncoding.EncodeToString(raw)
	var b bytes.Buffer
	b.WriteString(armorBegin)
	for len(text) > armorWidth {
		b.WriteString(text[:armorWidth] + "\n")
		text = text[armorWidth:]
	}
	b.WriteString(text + "\n" + armorEnd)
	return b.Bytes()
}

// ParseSignature reads a raw SSHSIG strictly: version 1, an allowed key, one of
// Sealgate's namespaces, nothing reserved, sha512, nothing after.
func ParseSignature(raw []byte) (Signature, error) {
	fault := func(what string) (Signature, error) {
		return Signature{}, errors.New("read signature: " + what)
	}
	if len(raw) > maxSignature {
		return fault("too long")
	}
	rest, ok := bytes.CutPrefix(raw, []byte(sigMagic))
	if !ok || len(rest) < 4 || binary.BigEndian.Uint32(rest) != sigVersion {
		return fault("want SSHSIG version 1")
	}
	var fields [5][]byte
	rest = rest[4:]
	for i := range fields {
		if fields[i], rest, ok = cutString(rest); !ok {
			return fault("it ends early")
		}
	}
	if len(rest) != 0 {
		return fault("bytes after its end")
	}
	namespace := string(fields[1])
	switch {
	case !ownNamespace(namespace):
		return Signature{}, fmt.Errorf("read signature: namespace %q is none of Sealgate's", namespace)
	case len(fields[2]) != 0:
		return fault("the reserved field is in use")
	case string(fields[3]) != sigHash:
		return Signature{}, fmt.Errorf("read signature: hash %q, want sha512", fields[3])
	}
	key, err := parseKey(fields[0])
	if err != nil {
		return Signature{}, fmt.Errorf("read signature: %w", err)
	}
	sig, err := parseInner(key, fields[4])
	if err != nil {
		return Signature{}, fmt.Errorf("read signature: %w", err)
	}
	return Signature{Key: key, Namespace: namespace, sig: sig}, nil
}

func ownNamespace(ns string) bool {
	return ns == NamespaceChange || ns == NamespaceOverride || ns == NamespaceWithdraw
}

// cutString takes an SSH string off b.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, false
	}
	return b[4 : 4+n], b[4+n:], true
}

// parseKey reads a public key of an allowed kind in its one spelling.
func parseKey(blob []byte) (ssh.PublicKey, error) {
	name, _, ok := cutString(blob)
	if !ok {
		return nil, errors.New("read key: it ends early")
	}
	switch string(name) {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA:
	default:
		return nil, fmt.Errorf("read key: type %q may not sign; use ed25519, ecdsa, rsa of 3072 bits or more, or a FIDO key", name)
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if !bytes.Equal(key.Marshal(), blob) {
		return nil, errors.New("read key: not in its one spelling")
	}
	return key, checkStrength(key)
}

func checkStrength(key ssh.PublicKey) error {
	if key.Type() != ssh.KeyAlgoRSA {
		return nil
	}
	bits := rsaSize(key)
	if bits < minRSABits || bits > maxRSABits {
		return fmt.Errorf("read key: RSA of %d bits, want %d to %d", bits, minRSABits, maxRSABits)
	}
	return nil
}

func rsaSize(key ssh.PublicKey) int {
	holder, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return 0
	}
	public, ok := holder.CryptoPublicKey().(*rsa.PublicKey)
	if !ok {
		return 0
	}
	return public.N.BitLen()
}

// parseInner reads the signature proper and checks that its algorithm fits key.
func parseInner(key ssh.PublicKey, blob []byte) (*ssh.Signature, error) {
	format, rest, ok := cutString(blob)
	if !ok {
		return nil, errors.New("its inner part ends early")
	}
	body, rest, ok := cutString(rest)
	if !ok {
		return nil, errors.New("its inner part ends early")
	}
	if want, ok := formatFits(key.Type(), string(format)); !ok {
		return nil, fmt.Errorf("algorithm %q, want %s for this key", format, want)
	}
	switch key.Type() {
	case ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		if len(rest) != 5 {
			return nil, errors.New("a FIDO signature ends with flags and counter")
		}
		if rest[0]&flagUserPresence == 0 {
			return nil, errors.New("made by a FIDO key without touch")
		}
	default:
		if len(rest) != 0 {
			return nil, errors.New("bytes after its inner part")
		}
	}
	if key.Type() == ssh.KeyAlgoRSA && len(body) != (rsaSize(key)+7)/8 {
		return nil, errors.New("its length is not that of the RSA key")
	}
	return &ssh.Signature{Format: string(format), Blob: body, Rest: rest}, nil
}

func formatFits(keyType, format string) (want string, ok bool) {
	if keyType == ssh.KeyAlgoRSA {
		return "rsa-sha2-512 or rsa-sha2-256", format == ssh.KeyAlgoRSASHA512 || format == ssh.KeyAlgoRSASHA256
	}
	return keyType, format == keyType
}

// VerifyKey checks that the token's own key signed its statement as an approval,
// and says nothing about whose key it is or whether it counts now.
func (t Token) VerifyKey() (fingerprint string, err error) {
	return VerifyKey(NamespaceChange, t.Statement.Bytes(), t.Signature)
}

// VerifyKey checks that the key in a raw SSHSIG signed message in namespace, and
// says nothing about whose key it is.
func VerifyKey(namespace string, message, raw []byte) (fingerprint string, err error) {
	sig, err := ParseSignature(raw)
	if err != nil {
		return "", err
	}
	if err := sig.verify(namespace, message); err != nil {
		return "", fmt.Errorf("check signature by %s: %w: %w", sig.Fingerprint(), ErrBadSignature, err)
	}
	return sig.Fingerprint(), nil
}

// verify checks the signature over message in namespace.
func (s Signature) verify(namespace string, message []byte) error {
	if s.sig == nil || s.Namespace != namespace {
		return fmt.Errorf("namespace %q, want %q", s.Namespace, namespace)
	}
	digest := sha512.Sum512(message)
	signed := append([]byte(sigMagic), ssh.Marshal(struct {
		Namespace string
		Reserved  string
		Hash      string
		Digest    []byte
	}{namespace, "", sigHash, digest[:]})...)
	return s.Key.Verify(signed, s.sig)
}
