package approval

import (
	"bytes"
	"crypto/dsa" //nolint:staticcheck // a kind that must be refused
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// packSignature packs an SSHSIG from its parts.
func packSignature(key []byte, namespace, reserved, hash string, inner []byte) []byte {
	return append([]byte(sigMagic), ssh.Marshal(struct {
		Version   uint32
		Key       []byte
		Namespace string
		Reserved  string
		Hash      string
		Inner     []byte
	}{sigVersion, key, namespace, reserved, hash, inner})...)
}

func signedData(namespace, hash string, message []byte) []byte {
	digest := sha512.Sum512(message)
	sum := digest[:]
	if hash == "sha256" {
		short := sha256.Sum256(message)
		sum = short[:]
	}
	return append([]byte(sigMagic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Digest                    []byte
	}{namespace, "", hash, sum})...)
}

func softSigner(t testing.TB, key any) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// sign makes a raw SSHSIG; algorithm "" is the key's usual one.
func sign(t testing.TB, signer ssh.Signer, namespace string, message []byte, algorithm string) []byte {
	t.Helper()
	if algorithm == "" && signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512
	}
	sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signedData(namespace, sigHash, message), algorithm)
	if err != nil {
		t.Fatal(err)
	}
	return packSignature(signer.PublicKey().Marshal(), namespace, "", sigHash, ssh.Marshal(*sig))
}

// fido signs as a security key does, with the flags given. PROTOCOL.u2f.
func fido(private any, namespace string, message []byte, flags byte) (key, raw []byte) {
	const application = "ssh:"
	app, data := sha256.Sum256([]byte(application)), sha256.Sum256(signedData(namespace, sigHash, message))
	signed := append(append(append([]byte{}, app[:]...), flags, 0, 0, 0, 7), data[:]...)
	var kind string
	var blob []byte
	switch p := private.(type) {
	case ed25519.PrivateKey:
		kind = ssh.KeyAlgoSKED25519
		key = ssh.Marshal(struct{ Kind, Public, App string }{kind, string(p.Public().(ed25519.PublicKey)), application})
		blob = ed25519.Sign(p, signed)
	case *ecdsa.PrivateKey:
		kind = ssh.KeyAlgoSKECDSA256
		point := elliptic.Marshal(p.Curve, p.X, p.Y) //nolint:staticcheck // the wire form
		key = ssh.Marshal(struct{ Kind, Curve, Public, App string }{kind, "nistp256", string(point), application})
		sum := sha256.Sum256(signed)
		r, s, err := ecdsa.Sign(rand.Reader, p, sum[:])
		if err != nil {
			panic(err)
		}
		blob = ssh.Marshal(struct{ R, S *big.Int }{r, s})
	}
	inner := append(ssh.Marshal(struct {
		Kind string
		Blob []byte
	}{kind, blob}), flags, 0, 0, 0, 7)
	return key, packSignature(key, namespace, "", sigHash, inner)
}

func newEd25519(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newECDSA(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRSA(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func blobLine(t testing.TB, blob []byte) string {
	t.Helper()
	kind, _, _ := cutString(blob)
	return string(kind) + " " + base64.StdEncoding.EncodeToString(blob)
}

func TestEveryAllowedKeyVerifies(t *testing.T) {
	v := vector(t)
	statement := []byte(v.Statement)
	rsaKey := softSigner(t, newRSA(t, 3072))
	edFido, edFidoSig := fido(newEd25519(t), NamespaceChange, statement, flagUserPresence)
	ecFido, ecFidoSig := fido(newECDSA(t, elliptic.P256()), NamespaceChange, statement, flagUserPresence|4)
	ed := softSigner(t, newEd25519(t))
	lines := map[string]string{"sk-ed25519": blobLine(t, edFido), "sk-ecdsa": blobLine(t, ecFido), "ed25519": keyLine(ed.PublicKey()), "rsa-sha2-512": keyLine(rsaKey.PublicKey())}
	sigs := map[string][]byte{
		"sk-ed25519": edFidoSig, "sk-ecdsa": ecFidoSig, "ed25519": sign(t, ed, NamespaceChange, statement, ""),
		"rsa-sha2-512": sign(t, rsaKey, NamespaceChange, statement, ssh.KeyAlgoRSASHA512),
		"rsa-sha2-256": sign(t, rsaKey, NamespaceChange, statement, ssh.KeyAlgoRSASHA256),
	}
	for name, curve := range map[string]elliptic.Curve{"ecdsa-256": elliptic.P256(), "ecdsa-384": elliptic.P384(), "ecdsa-521": elliptic.P521()} {
		signer := softSigner(t, newECDSA(t, curve))
		lines[name], sigs[name] = keyLine(signer.PublicKey()), sign(t, signer, NamespaceChange, statement, "")
	}
	var file strings.Builder
	for name, line := range lines {
		fmt.Fprintf(&file, "%s@example.org %s\n", name, line) // sk-ecdsa@example.org is no key type
	}
	signers := load(t, file.String())
	for name, sig := range sigs {
		tok, err := ParseToken(FormatToken(statement, sig))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		signed, err := signers.Verify(tok, vectorTime)
		if want := strings.Replace(name, "-256", "-512", 1) + "@example.org"; err != nil || signed.Person != want && signed.Person != name+"@example.org" {
			t.Errorf("%s: %+v %v", name, signed, err)
		}
	}
}

func TestSignatureRefusals(t *testing.T) {
	statement := []byte(vector(t).Statement)
	signer := softSigner(t, newEd25519(t))
	key := signer.PublicKey().Marshal()
	good := sign(t, signer, NamespaceChange, statement, "")
	inner := func(hash string) []byte {
		sig, err := signer.Sign(rand.Reader, signedData(NamespaceChange, hash, statement))
		if err != nil {
			t.Fatal(err)
		}
		return ssh.Marshal(*sig)
	}
	weak := softSigner(t, newRSA(t, 2048))
	rsaKey := softSigner(t, newRSA(t, 3072))
	sha1, err := rsaKey.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signedData(NamespaceChange, sigHash, statement), ssh.KeyAlgoRSA)
	if err != nil {
		t.Fatal(err)
	}
	edFido, untouched := fido(newEd25519(t), NamespaceChange, statement, 0)
	ecFido, ecUntouched := fido(newECDSA(t, elliptic.P256()), NamespaceChange, statement, 4)
	truncated := good[:len(good)-1]
	swapped := softSigner(t, newEd25519(t)).PublicKey().Marshal()
	for name, c := range map[string]struct{ key, sig []byte }{
		"other namespace of ours": {key, sign(t, signer, NamespaceOverride, statement, "")},
		"git's namespace":         {key, sign(t, signer, "git", statement, "")},
		"empty namespace":         {key, sign(t, signer, "", statement, "")},
		"namespace swapped in":    {key, bytes.Replace(sign(t, signer, NamespaceOverride, statement, ""), []byte(NamespaceOverride), []byte("oracle-change-v1@sealgate\x00\x00")[:len(NamespaceOverride)], 1)},
		"other hash":              {key, packSignature(key, NamespaceChange, "", "sha256", inner("sha256"))},
		"hash named in capitals":  {key, packSignature(key, NamespaceChange, "", "SHA512", inner(sigHash))},
		"reserved in use":         {key, packSignature(key, NamespaceChange, "x", sigHash, inner(sigHash))},
		"bytes after":             {key, append(bytes.Clone(good), 0)},
		"bytes after the inner":   {key, packSignature(key, NamespaceChange, "", sigHash, append(inner(sigHash), 0))},
		"cut off":                 {key, truncated},
		"version 2":               {key, bytes.Replace(good, []byte("SSHSIG\x00\x00\x00\x01"), []byte("SSHSIG\x00\x00\x00\x02"), 1)},
		"no magic":                {key, good[6:]},
		"empty":                   {key, nil},
		"other message":           {key, sign(t, signer, NamespaceChange, append(statement, '\n'), "")},
		"not over an SSHSIG":      {key, packSignature(key, NamespaceChange, "", sigHash, plainSign(t, signer, statement))},
		"key swapped":             {swapped, packSignature(swapped, NamespaceChange, "", sigHash, inner(sigHash))},
		"RSA of 2048":             {weak.PublicKey().Marshal(), sign(t, weak, NamespaceChange, statement, "")},
		"RSA with SHA-1":          {rsaKey.PublicKey().Marshal(), packSignature(rsaKey.PublicKey().Marshal(), NamespaceChange, "", sigHash, ssh.Marshal(*sha1))},
		"FIDO without touch":      {edFido, untouched},
		"FIDO ecdsa, no touch":    {ecFido, ecUntouched},
		"DSA":                     {dsaKey(t), packSignature(dsaKey(t), NamespaceChange, "", sigHash, inner(sigHash))},
		"certificate":             {certificate(t, signer), packSignature(certificate(t, signer), NamespaceChange, "", sigHash, inner(sigHash))},
		"unknown key type":        {key, packSignature(ssh.Marshal(struct{ A, B string }{"ssh-moon", "x"}), NamespaceChange, "", sigHash, inner(sigHash))},
		"huge":                    {key, append(bytes.Clone(good), make([]byte, maxSignature)...)},
	} {
		signers := Signers{keys: map[string]signer_{}, revoked: nil}
		signers.keys[string(c.key)] = signer_{person: "alice"}
		if signed, err := signers.VerifyBytes(NamespaceChange, statement, c.sig, vectorTime); err == nil || !errors.Is(err, ErrBadSignature) || signed != (Signed{}) {
			t.Errorf("%s: %+v %v", name, signed, err)
		}
	}
	honest := Signers{keys: map[string]signer_{string(key): {person: "alice"}}}
	if _, err := honest.VerifyBytes(NamespaceChange, statement, good, vectorTime); err != nil {
		t.Errorf("the honest twin: %v", err)
	}
	override := sign(t, signer, NamespaceOverride, statement, "")
	if _, err := honest.VerifyBytes(NamespaceOverride, statement, override, vectorTime); err != nil {
		t.Errorf("an override as such: %v", err)
	}
}

// signer_ spares the tests the clash with ssh.Signer variables named signer.
type signer_ = signer

func plainSign(t testing.TB, s ssh.Signer, message []byte) []byte {
	t.Helper()
	sig, err := s.Sign(rand.Reader, message)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Marshal(*sig)
}

func dsaKey(t testing.TB) []byte {
	t.Helper()
	public := dsa.PublicKey{Parameters: dsa.Parameters{P: new(big.Int).Lsh(big.NewInt(1), 1023), Q: new(big.Int).Lsh(big.NewInt(1), 159), G: big.NewInt(2)}, Y: big.NewInt(3)}
	return ssh.Marshal(struct {
		Kind       string
		P, Q, G, Y *big.Int
	}{"ssh-dss", public.P, public.Q, public.G, public.Y})
}

func certificate(t testing.TB, s ssh.Signer) []byte {
	t.Helper()
	cert := &ssh.Certificate{Key: s.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity, ValidPrincipals: []string{"alice"}, Nonce: make([]byte, 32)}
	if err := cert.SignCert(zeroReader{}, s); err != nil {
		t.Fatal(err)
	}
	return cert.Marshal()
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestNoBitMayFlip(t *testing.T) {
	v := vector(t)
	signers := load(t, "alice@example.org "+v.PublicKey+"\n")
	tok, err := ParseToken(v.token())
	if err != nil {
		t.Fatal(err)
	}
	statement := tok.Statement.Bytes()
	for i := range len(tok.Signature) * 8 {
		sig := bytes.Clone(tok.Signature)
		sig[i/8] ^= 1 << (i % 8)
		if _, err := signers.VerifyBytes(NamespaceChange, statement, sig, vectorTime); err == nil {
			t.Errorf("signature bit %d may flip", i)
		}
	}
	for i := range len(statement) * 8 {
		other := bytes.Clone(statement)
		other[i/8] ^= 1 << (i % 8)
		if _, err := signers.VerifyBytes(NamespaceChange, other, tok.Signature, vectorTime); err == nil {
			t.Errorf("statement bit %d may flip", i)
		}
	}
}

func TestArmorRefusals(t *testing.T) {
	good := vector(t).Armored
	body := strings.TrimSuffix(strings.TrimPrefix(good, armorBegin), armorEnd)
	for name, text := range map[string]string{
		"empty":            "",
		"text before":      "x\n" + good,
		"line before":      "\n" + good,
		"text after":       good + "x",
		"line after":       good + "\n",
		"two":              good + good,
		"no final line":    strings.TrimSuffix(good, "\n"),
		"CRLF":             strings.ReplaceAll(good, "\n", "\r\n"),
		"header":           strings.Replace(good, armorBegin, armorBegin+"Comment: x\n\n", 1),
		"PEM of another":   strings.ReplaceAll(good, "SSH SIGNATURE", "PGP SIGNATURE"),
		"one long line":    armorBegin + strings.ReplaceAll(body, "\n", "") + "\n" + armorEnd,
		"shorter lines":    armorBegin + body[:20] + "\n" + body[20:] + armorEnd,
		"space in a line":  armorBegin + " " + body + armorEnd,
		"empty line":       armorBegin + "\n" + body + armorEnd,
		"other alphabet":   armorBegin + strings.ReplaceAll(strings.ReplaceAll(body, "/", "_"), "+", "-") + armorEnd,
		"nothing inside":   armorBegin + armorEnd,
		"begin alone":      armorBegin,
		"overlapping ends": "-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----",
		"too long":         armorBegin + strings.Repeat(body, 40) + armorEnd,
	} {
		if text == good {
			continue
		}
		if _, err := ParseArmored([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
