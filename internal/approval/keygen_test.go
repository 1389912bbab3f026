package approval

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// The tests here put the same input before this package and before ssh-keygen.
// Whatever ssh-keygen refuses must be refused here. Where this package refuses
// more, the reason is one of the list below; a refusal for any other reason is a
// failure, and so is a reason that no input of the run met.

// stricter are the reasons for which this package refuses what ssh-keygen takes,
// and the words of the refusal.
var stricter = map[string]string{
	"one armor and nothing around it":          "nothing before or after",
	"one spelling of the armor":                "not in the one spelling of ssh-keygen",
	"base64 of one spelling in the armor":      "read armored signature: illegal base64",
	"sha512 is the one hash":                   "want sha512",
	"nothing reserved":                         "the reserved field is in use",
	"RSA of 3072 bits or more":                 "RSA of 2048 bits",
	"a FIDO key is touched":                    "without touch",
	"a FIDO signature has no browser around":   "want sk-ecdsa-sha2-nistp256@openssh.com for this key",
	"certificates cannot sign":                 "-cert-v01@openssh.com\" may not sign",
	"a person is no pattern":                   "is a pattern",
	"a key belongs to one person":              "a key belongs to one person",
	"a key stands once":                        "the key stands twice",
	"a person is written in plain ASCII":       "want a name of plain ASCII characters",
	"a person has one spelling":                "one person has one name",
	"a namespace is no pattern":                "want names, no patterns",
	"the namespace is one of Sealgate's":       "is none of Sealgate's",
	"no certificate authorities":               "cert-authority",
	"an option has one spelling":               "unknown option",
	"an option stands once":                    "\" stands twice",
	"options are name=\"value\"":               "want name=\"value\", comma-separated",
	"a validity time says Z":                   "and Z at the end",
	"no control characters":                    "it has a control character",
	"the last second is no longer valid":       "the key is not valid now",
	"a line that is not understood is a fault": "want: person [options] <type> <base64> [comment]",
	"version 1 is the one version":             "want SSHSIG version 1",
}

// input is one question to both.
type input struct {
	what      string // how it was made
	allowed   string // file of signers
	revoked   string
	person    string
	namespace string
	armored   []byte
	message   []byte
	now       time.Time
	honest    bool // both must take it
}

// ours says why the input is refused here; nil: it is taken.
func (in input) ours(f [3]string) error {
	raw, err := ParseArmored(in.armored)
	if err != nil {
		return err
	}
	signers, err := LoadSigners(f[0], f[1], "")
	if err != nil {
		return err
	}
	signed, err := signers.VerifyBytes(in.namespace, in.message, raw, in.now)
	if err == nil && signed.Person != in.person {
		return fmt.Errorf("signed by %q", signed.Person)
	}
	return err
}

// keygen is ssh-keygen in a directory of its own.
type keygen struct {
	program, dir string
}

func newKeygen(t testing.TB) keygen {
	t.Helper()
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Fatalf("this test needs ssh-keygen: %v", err)
	}
	if _, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil {
		t.Skipf("ssh-keygen runs for no user without an entry in passwd: %v; the run as a named user covers this", err)
	}
	return keygen{program, t.TempDir()}
}

func (k keygen) run(stdin []byte, args ...string) (string, error) {
	cmd := exec.Command(k.program, args...)
	cmd.Dir, cmd.Stdin = k.dir, bytes.NewReader(stdin)
	cmd.Env = []string{"HOME=" + k.dir, "PATH=" + os.Getenv("PATH"), "TZ=UTC"}
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ssh-keygen %q: %w: %s%s", args, err, out, says.String())
	}
	return string(out), nil
}

func (k keygen) write(name string, data []byte) (string, error) {
	path := filepath.Join(k.dir, name)
	return path, os.WriteFile(path, data, 0o600)
}

// files writes what both read.
func (k keygen) files(in input) (f [3]string, err error) {
	for i, data := range [3]string{in.allowed, in.revoked, string(in.armored)} {
		if f[i], err = k.write([]string{"maintainers", "revoked_keys", "signature"}[i], []byte(data)); err != nil {
			return f, err
		}
	}
	return f, nil
}

const keygenTime = "20060102150405Z"

func (k keygen) verify(in input, f [3]string) error {
	_, err := k.run(in.message, "-Y", "verify", "-O", "verify-time="+in.now.Format(keygenTime), "-f", f[0], "-r", f[1],
		"-I", in.person, "-n", in.namespace, "-s", f[2])
	return err
}

// finds says whose signature ssh-keygen takes it to be.
func (k keygen) finds(in input, f [3]string) (string, error) {
	out, err := k.run(nil, "-Y", "find-principals", "-O", "verify-time="+in.now.Format(keygenTime), "-f", f[0], "-s", f[2])
	return strings.TrimSpace(out), err
}

// testKey is a key of one kind, and how it signs.
type testKey struct {
	kind string
	line string // public
	blob []byte
	sign func(namespace, hash string, message []byte) []byte // raw SSHSIG
	soft ssh.Signer                                          // nil for FIDO
	fido func(message []byte, flags byte) []byte
	// browser signs as a browser does with a security key.
	browser func(message []byte) []byte
}

func testKeys(t testing.TB) []testKey {
	t.Helper()
	var keys []testKey
	for _, one := range []struct {
		kind    string
		private any
	}{
		{"ed25519", newEd25519(t)}, {"ecdsa-256", newECDSA(t, elliptic.P256())}, {"ecdsa-384", newECDSA(t, elliptic.P384())},
		{"ecdsa-521", newECDSA(t, elliptic.P521())}, {"rsa-2048", newRSA(t, 2048)}, {"rsa-3072", newRSA(t, 3072)}, {"rsa-4096", newRSA(t, 4096)},
	} {
		signer := softSigner(t, one.private)
		blob := signer.PublicKey().Marshal()
		keys = append(keys, testKey{kind: one.kind, line: keyLine(signer.PublicKey()), blob: blob, soft: signer,
			sign: func(namespace, hash string, message []byte) []byte {
				algorithm := signer.PublicKey().Type()
				if algorithm == ssh.KeyAlgoRSA {
					algorithm = ssh.KeyAlgoRSASHA512
				}
				sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(zeroReader{}, signedData(namespace, hash, message), algorithm)
				if err != nil {
					t.Fatal(err)
				}
				return packSignature(blob, namespace, "", hash, ssh.Marshal(*sig))
			}})
	}
	for _, one := range []struct {
		kind    string
		private any
	}{{"sk-ed25519", newEd25519(t)}, {"sk-ecdsa", newECDSA(t, elliptic.P256())}} {
		blob, _ := fido(one.private, NamespaceChange, nil, 0)
		keys = append(keys, testKey{kind: one.kind, line: blobLine(t, blob), blob: blob,
			sign: func(namespace, _ string, message []byte) []byte {
				_, raw := fido(one.private, namespace, message, flagUserPresence)
				return raw
			},
			fido: func(message []byte, flags byte) []byte {
				_, raw := fido(one.private, NamespaceChange, message, flags)
				return raw
			},
			browser: func(message []byte) []byte {
				return browserSignature(t, one.private.(*ecdsa.PrivateKey), blob, message)
			},
		})
	}
	return keys
}

// maker makes inputs from the pieces of a run.
type maker struct {
	*rand.Rand
	t         testing.TB
	keys      []testKey
	statement []byte
}

// browserSignature is what OpenSSH's PROTOCOL.u2f calls a webauthn signature.
func browserSignature(t testing.TB, private *ecdsa.PrivateKey, blob, message []byte) []byte {
	t.Helper()
	const origin, flags, kind = "https://example.org", flagUserPresence, "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
	challenge := base64.RawURLEncoding.EncodeToString(signedData(NamespaceChange, sigHash, message))
	client := `{"type":"webauthn.get","challenge":"` + challenge + `","origin":"` + origin + `"}`
	app, data := sha256.Sum256([]byte("ssh:")), sha256.Sum256([]byte(client))
	signed := sha256.Sum256(slices.Concat(app[:], []byte{flags, 0, 0, 0, 7}, data[:]))
	r, s, err := ecdsa.Sign(zeroReader{}, private, signed[:])
	if err != nil {
		t.Fatal(err)
	}
	inner := ssh.Marshal(struct {
		Kind       string
		Blob       []byte
		Flags      byte
		Counter    uint32
		Origin     string
		Client     string
		Extensions string
	}{kind, ssh.Marshal(struct{ R, S *big.Int }{r, s}), flags, 7, origin, client, ""})
	return packSignature(blob, NamespaceChange, "", sigHash, inner)
}

const (
	alice = "alice@example.org"
	// Every input is judged near this time.
	keygenNow = "20261201120000Z"
)

func (m maker) honest(key testKey) input {
	now, _ := time.Parse(keygenTime, keygenNow)
	return input{
		what: "honest, " + key.kind, allowed: alice + " " + key.line + "\n", person: alice, namespace: NamespaceChange,
		armored: Armor(key.sign(NamespaceChange, sigHash, m.statement)), message: m.statement, now: now,
	}
}

func pick[T any](m maker, list []T) T { return list[m.IntN(len(list))] }

// directed are inputs with one thing wrong, or right in an unusual way.
func (m maker) directed() []input {
	var out []input
	for _, key := range m.keys {
		honest := m.honest(key)
		add := func(what string, change func(*input)) {
			in := honest
			in.what = key.kind + ": " + what
			change(&in)
			out = append(out, in)
		}
		honest.honest = key.kind != "rsa-2048"
		out = append(out, honest)
		honest.honest = false
		add("other message", func(in *input) { in.message = append(bytes.Clone(m.statement), '\n') })
		add("other namespace asked", func(in *input) { in.namespace = NamespaceOverride })
		add("other namespace signed", func(in *input) { in.armored = Armor(key.sign(NamespaceWithdraw, sigHash, m.statement)) })
		add("git's namespace", func(in *input) {
			in.namespace, in.armored = "git", Armor(key.sign("git", sigHash, m.statement))
		})
		add("another person asked", func(in *input) { in.person = "bob@example.org" })
		add("revoked", func(in *input) { in.revoked = key.line + " lost\n" })
		raw := key.sign(NamespaceChange, sigHash, m.statement)
		inner := innerOf(raw)
		add("reserved in use", func(in *input) { in.armored = Armor(packSignature(key.blob, NamespaceChange, "x", sigHash, inner)) })
		add("bytes after", func(in *input) { in.armored = Armor(append(bytes.Clone(raw), 0)) })
		add("bytes after the inner part", func(in *input) {
			in.armored = Armor(packSignature(key.blob, NamespaceChange, "", sigHash, append(bytes.Clone(inner), 0)))
		})
		add("version 2", func(in *input) { b := bytes.Clone(raw); b[9] = 2; in.armored = Armor(b) })
		add("version 0", func(in *input) { b := bytes.Clone(raw); b[9] = 0; in.armored = Armor(b) })
		add("key of another", func(in *input) {
			in.armored = Armor(packSignature(pick(m, m.keys).blob, NamespaceChange, "", sigHash, inner))
		})
		if key.soft != nil {
			add("hash sha256", func(in *input) { in.armored = Armor(key.sign(NamespaceChange, "sha256", m.statement)) })
			add("hash sha256, said to be sha512", func(in *input) {
				in.armored = Armor(packSignature(key.blob, NamespaceChange, "", sigHash, innerOf(key.sign(NamespaceChange, "sha256", m.statement))))
			})
			add("certificate", func(in *input) {
				cert, _ := ssh.ParsePublicKey(certificate(m.t, key.soft))
				in.armored = Armor(packSignature(cert.Marshal(), NamespaceChange, "", sigHash, inner))
				in.allowed = "* cert-authority " + key.line + "\n"
				in.person = "alice"
			})
		}
		if strings.HasPrefix(key.kind, "rsa") {
			for _, algorithm := range []string{ssh.KeyAlgoRSA, ssh.KeyAlgoRSASHA256} {
				add(algorithm, func(in *input) {
					sig, err := key.soft.(ssh.AlgorithmSigner).SignWithAlgorithm(zeroReader{}, signedData(NamespaceChange, sigHash, m.statement), algorithm)
					if err == nil {
						in.armored = Armor(packSignature(key.blob, NamespaceChange, "", sigHash, ssh.Marshal(*sig)))
					}
					in.honest = algorithm == ssh.KeyAlgoRSASHA256 && key.kind != "rsa-2048"
				})
			}
		}
		if key.fido != nil {
			for _, flags := range []byte{0, 1, 4, 5, 0x41, 0x80, 0xff} {
				add(fmt.Sprintf("flags %#x", flags), func(in *input) {
					in.armored = Armor(key.fido(m.statement, flags))
					in.honest = flags&flagUserPresence != 0
				})
			}
			add("touch claimed afterwards", func(in *input) {
				b := innerOf(key.fido(m.statement, 0))
				b[len(b)-5] |= flagUserPresence
				in.armored = Armor(packSignature(key.blob, NamespaceChange, "", sigHash, b))
			})
			add("other counter", func(in *input) {
				b := bytes.Clone(inner)
				b[len(b)-1]++
				in.armored = Armor(packSignature(key.blob, NamespaceChange, "", sigHash, b))
			})
			if key.kind == "sk-ecdsa" {
				add("by way of a browser", func(in *input) { in.armored = Armor(key.browser(m.statement)) })
			}
			add("without counter", func(in *input) {
				in.armored = Armor(packSignature(key.blob, NamespaceChange, "", sigHash, inner[:len(inner)-4]))
			})
		}
	}
	return append(append(out, m.armors()...), m.lines()...)
}

// innerOf is the last field of a raw SSHSIG.
func innerOf(raw []byte) []byte {
	rest := raw[len(sigMagic)+4:]
	for range 4 {
		_, rest, _ = cutString(rest)
	}
	inner, _, _ := cutString(rest)
	return bytes.Clone(inner)
}

// armors are spellings of an honest signature.
func (m maker) armors() []input {
	in := m.honest(m.keys[0])
	good := string(in.armored)
	body := strings.TrimSuffix(strings.TrimPrefix(good, armorBegin), armorEnd)
	var out []input
	for what, text := range map[string]string{
		"text before": "x\n" + good, "empty line before": "\n" + good, "space before": " " + good,
		"text after": good + "text\n", "empty line after": good + "\n", "two": good + good, "no final line feed": strings.TrimSuffix(good, "\n"),
		"CRLF": strings.ReplaceAll(good, "\n", "\r\n"), "header": strings.Replace(good, armorBegin, armorBegin+"Comment: x\n\n", 1),
		"PEM of another": strings.ReplaceAll(good, "SSH SIGNATURE", "SSH MESSAGE"), "one long line": armorBegin + strings.ReplaceAll(body, "\n", "") + "\n" + armorEnd,
		"short lines": armorBegin + body[:20] + "\n" + body[20:] + armorEnd, "spaces inside": armorBegin + " " + body + armorEnd,
		"empty line inside": armorBegin + "\n" + body + armorEnd, "tab inside": armorBegin + body[:9] + "\t" + body[9:] + armorEnd,
		"begin alone": armorBegin, "nothing inside": armorBegin + armorEnd, "empty": "", "padding doubled": armorBegin + strings.TrimSuffix(body, "\n") + "==\n" + armorEnd,
		"NUL inside": armorBegin + body[:9] + "\x00" + body[9:] + armorEnd, "other alphabet": armorBegin + strings.NewReplacer("+", "-", "/", "_").Replace(body) + armorEnd,
		"end before begin": armorEnd + armorBegin + body, "end twice": good + armorEnd, "begin twice": armorBegin + good,
	} {
		one := in
		one.what, one.armored = "armor: "+what, []byte(text)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b input) int { return strings.Compare(a.what, b.what) })
	return out
}

// lines are files of signers that list the honest key in some way.
func (m maker) lines() []input {
	in := m.honest(m.keys[0])
	key, other := m.keys[0].line, m.keys[1].line
	var out []input
	for what, text := range map[string]string{
		"comment": alice + " " + key + " a comment of words\n", "comments and blanks": "# x\n\n \t\n" + alice + " " + key + "\n", "no line feed": alice + " " + key,
		"tabs": alice + "\t" + key + "\n", "two spaces": alice + "  " + key + "\n", "space first": "  " + alice + " " + key + "\n", "space last": alice + " " + key + " \n",
		"namespaces": alice + ` namespaces="git,` + NamespaceChange + `" ` + key, "namespaces, other": alice + ` namespaces="git" ` + key,
		"namespaces, prefix": alice + ` namespaces="oracle-change" ` + key, "namespaces, pattern": alice + ` namespaces="*@sealgate" ` + key,
		"namespaces, star": alice + ` namespaces="*" ` + key, "namespaces, negated": alice + ` namespaces="!git,*" ` + key, "namespaces, negated itself": alice + ` namespaces="!` + NamespaceChange + `,*" ` + key,
		"namespaces, empty": alice + ` namespaces="" ` + key, "namespaces in capitals": alice + ` NAMESPACES="` + NamespaceChange + `" ` + key, "namespaces twice": alice + ` namespaces="` + NamespaceChange + `",namespaces="git" ` + key,
		"value in capitals": alice + ` namespaces="` + strings.ToUpper(NamespaceChange) + `" ` + key, "unknown option": alice + ` moon="x" ` + key, "bare option": alice + ` restrict ` + key,
		"without quotes": alice + ` namespaces=` + NamespaceChange + ` ` + key, "unclosed": alice + ` namespaces="` + NamespaceChange + ` ` + key, "comma last": alice + ` namespaces="` + NamespaceChange + `", ` + key,
		"comma first": alice + ` ,namespaces="` + NamespaceChange + `" ` + key, "glued": alice + ` namespaces="` + NamespaceChange + `"valid-after="20260101Z" ` + key,
		"options with a space": alice + ` namespaces="` + NamespaceChange + `", valid-after="20260101Z" ` + key,
		"valid":                alice + ` valid-after="20260101Z",valid-before="20270101Z" ` + key, "valid to the second": alice + ` valid-after="20261201120000Z",valid-before="20261201120001Z" ` + key,
		"last second": alice + ` valid-before="20261201120000Z" ` + key, "over": alice + ` valid-before="20261201115959Z" ` + key, "a second early": alice + ` valid-after="20261201120001Z" ` + key,
		"minutes": alice + ` valid-before="202612011201Z" ` + key, "local time": alice + ` valid-before="20270101" ` + key, "no such day": alice + ` valid-before="20270230Z" ` + key, "no such hour": alice + ` valid-before="2027010124Z" ` + key,
		"order turned": alice + ` valid-before="20260101Z",valid-after="20270101Z" ` + key, "lower-case z": alice + ` valid-before="20270101z" ` + key, "time of 1970": alice + ` valid-before="19700101Z" ` + key,
		"time of 2300": alice + ` valid-before="23000101Z" ` + key, "time empty": alice + ` valid-before="" ` + key, "valid-after twice": alice + ` valid-after="20260101Z",valid-after="20260102Z" ` + key,
		"star": "* " + key, "star and domain": "*@example.org " + key, "question mark": "alice@example.or? " + key, "negation": "!bob,* " + key, "negated": "!" + alice + ",* " + key, "list": "bob," + alice + " " + key,
		"quoted person": `"` + alice + `" ` + key, "capitals": strings.ToUpper(alice) + " " + key, "another": "bob " + key, "authority": alice + " cert-authority " + key, "authority after": alice + ` namespaces="git",cert-authority ` + key,
		"certificate type": alice + " ssh-ed25519-cert-v01@openssh.com " + strings.Fields(key)[1], "other type": alice + " ssh-rsa " + strings.Fields(key)[1], "type in capitals": alice + " SSH-ED25519 " + strings.Fields(key)[1],
		"no key": alice + " ssh-ed25519", "person alone": alice, "no person": key, "base64 cut": alice + " " + key[:len(key)-4], "base64 unpadded": alice + " " + strings.TrimRight(key, "="), "base64 with more": alice + " " + key + "AAAA",
		"base64 padded": alice + " " + key + "=", "junk before": "moon\n" + alice + " " + key, "junk after": alice + " " + key + "\nmoon\n", "CRLF": alice + " " + key + "\r\n", "two persons": alice + " " + key + "\nbob " + key + "\n",
		"two persons, turned": "bob " + key + "\n" + alice + " " + key + "\n", "twice": alice + " " + key + "\n" + alice + " " + key + "\n", "two keys": alice + " " + other + "\n" + alice + " " + key + "\n",
		"two cases": "Alice@example.org " + other + "\n" + alice + " " + key + "\n", "twice, once for git": alice + ` namespaces="git" ` + key + "\n" + alice + " " + key + "\n", "NUL": alice + " " + key + "\x00\n", "empty": "", "vertical tab": alice + "\v" + key, "form feed first": "\f" + alice + " " + key,
		"byte-order mark": "\ufeff" + alice + " " + key, "no-break space": alice + "\u00a0" + key, "no-break space in the key": alice + " " + strings.Replace(key, " ", "\u00a0", 1), "wide space": strings.Replace(alice+" "+key, " ", "\u3000", 1), "hash glued": alice + " " + key + "#x", "authority beside": "bob cert-authority " + other + "\n" + alice + " " + key, "equals in the person": "a=b " + key, "backslash": `ali\ce@example.org ` + key,
	} {
		one := in
		one.what, one.allowed = "signers: "+what, text
		out = append(out, one)
	}
	for _, name := range []string{"a=b", `ali\ce@example.org`, "Alice@example.org", "*", "bob"} {
		for _, one := range slices.Clone(out) {
			if strings.Contains(one.allowed, name) {
				one.what, one.person = one.what+", asked for "+name, name
				out = append(out, one)
			}
		}
	}
	for what, text := range map[string]string{
		"another key": other + "\n", "comment": "# " + key + "\n", "with a comment": key + " lost\n", "spaces first": "   " + key + "\n", "cut": key[:len(key)-9] + "\n", "type alone": "ssh-ed25519\n",
		"a fingerprint": ssh.FingerprintSHA256(m.keys[0].soft.PublicKey()) + "\n", "a signers line": alice + " " + key + "\n", "base64 alone": strings.Fields(key)[1] + "\n", "CRLF": key + "\r\n", "twice": key + "\n" + key + "\n",
	} {
		one := in
		one.what, one.revoked = "revoked: "+what, text
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b input) int { return strings.Compare(a.what, b.what) })
	return out
}

// random is an honest input with some bytes, or some words, changed.
func (m maker) random() input {
	key := pick(m, m.keys)
	in := m.honest(key)
	switch m.IntN(8) {
	case 0, 1:
		raw, _ := ParseArmored(in.armored)
		if raw == nil { // of a key that is too small
			raw = pick(m, m.keys[:1]).sign(NamespaceChange, sigHash, m.statement)
		}
		in.what = "raw signature"
		in.armored = Armor(m.mutate(raw, nil))
	case 2:
		in.what = "armor"
		in.armored = m.mutate(in.armored, []byte("\r\n\t =-_+/AZaz09\x00:"))
	case 3, 4:
		in.what = "signers"
		in.allowed = m.signersLine(key)
		in.allowed = string(m.mutate([]byte(in.allowed), []byte("\r\n\t \",=*?!#@ZzA\x00\xa0\xc2")))
	case 5:
		in.what = "signers, by words"
		in.allowed = m.signersLine(key) + "\n"
		if m.IntN(3) == 0 {
			in.allowed += m.signersLine(pick(m, m.keys)) + "\n"
		}
		in.now = in.now.Add(time.Duration(m.IntN(7)-3) * 12 * time.Hour)
	case 6:
		in.what = "message"
		in.message = m.mutate(in.message, []byte("\r\n \x00"))
	default:
		in.what = "person and namespace"
		in.person = pick(m, []string{alice, "Alice@example.org", "bob", "*", alice + " ", ""})
		in.namespace = pick(m, []string{NamespaceChange, NamespaceOverride, "git", strings.ToUpper(NamespaceChange)})
		in.armored = Armor(pick(m, m.keys).sign(pick(m, []string{NamespaceChange, NamespaceOverride, "git"}), sigHash, m.statement))
	}
	in.what = "random: " + in.what
	return in
}

func (m maker) signersLine(key testKey) string {
	when := func() string {
		return pick(m, []string{"20261201Z", "202612011200Z", "20261201120000Z", "20261130235959Z", "20261202Z", "20261201", "20261131Z", "20270101Z", "20250101Z"})
	}
	var options []string
	for range m.IntN(3) {
		options = append(options, pick(m, []string{
			`namespaces="` + NamespaceChange + `"`, `namespaces="git,` + NamespaceChange + `"`, `namespaces="git"`, `namespaces="*"`,
			`valid-after="` + when() + `"`, `valid-before="` + when() + `"`, `Valid-Before="` + when() + `"`, `cert-authority`,
		}))
	}
	words := []string{pick(m, []string{alice, alice, alice, alice, "bob", "*", alice + ",bob", "Alice@example.org"})}
	if len(options) > 0 {
		words = append(words, strings.Join(options, ","))
	}
	if m.IntN(8) == 0 {
		key = pick(m, m.keys)
	}
	words = append(words, key.line)
	if m.IntN(4) == 0 {
		words = append(words, "a comment")
	}
	return strings.Join(words, pick(m, []string{" ", " ", " ", "\t", "  "}))
}

// mutate changes a few bytes; with letters, mostly to one of these.
func (m maker) mutate(b, letters []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + m.IntN(3) {
		if len(b) < 4 {
			return b
		}
		at := m.IntN(len(b))
		c := byte(m.IntN(256))
		if letters != nil && m.IntN(4) > 0 {
			c = pick(m, letters)
		}
		switch m.IntN(7) {
		case 0, 1:
			b[at] ^= 1 << m.IntN(8)
		case 2:
			b[at] = c
		case 3:
			b = slices.Insert(b, at, c)
		case 4:
			b = slices.Delete(b, at, at+1)
		case 5:
			n := min(1+m.IntN(8), len(b)-at)
			b = slices.Insert(b, at, slices.Clone(b[at:at+n])...)
		default:
			if m.IntN(4) == 0 {
				return b[:at]
			}
			b[at] = b[m.IntN(len(b))]
		}
	}
	return b
}

// tally is what a run met.
type tally struct {
	sync.Mutex
	inputs, taken int
	reasons       map[string]int
}

func (y *tally) count(taken bool, reason string) {
	y.Lock()
	defer y.Unlock()
	y.inputs++
	if taken {
		y.taken++
	}
	if reason != "" {
		y.reasons[reason]++
	}
}

// TestNothingPassesThatSSHKeygenRefuses asks both about a few hundred inputs with
// one thing wrong, and about many with bytes changed at random.
func TestNothingPassesThatSSHKeygenRefuses(t *testing.T) {
	random, share := 1500, 1
	if testing.Short() {
		random, share = 100, 5
	}
	newKeygen(t)
	m := maker{rand.New(rand.NewPCG(4, 4)), t, testKeys(t), []byte(vector(t).Statement)}
	var inputs []input
	for i, in := range m.directed() {
		if i%share == 0 {
			inputs = append(inputs, in)
		}
	}
	for range random {
		inputs = append(inputs, m.random())
	}
	met := &tally{reasons: map[string]int{}}
	work := make(chan input)
	var workers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		k := newKeygen(t)
		workers.Add(1)
		go func() {
			defer workers.Done()
			for in := range work {
				if err := compare(k, in, met); err != nil {
					t.Errorf("%s\n%v\nsigners %q\nrevoked %q\nperson %q, namespace %q, now %s\nmessage %q\n%s", in.what, err, in.allowed, in.revoked, in.person, in.namespace, in.now, in.message, in.armored)
				}
			}
		}()
	}
	for _, in := range inputs {
		work <- in
	}
	close(work)
	workers.Wait()
	for reason := range stricter {
		if met.reasons[reason] == 0 && share == 1 {
			t.Errorf("no input met the reason %q: is it one still?", reason)
		}
	}
	fmt.Printf("tried: %d signatures and signers files against ssh-keygen: both took %d, we alone refused %d for %d reasons\n",
		met.inputs, met.taken, sum(met.reasons), len(met.reasons))
}

func sum(counts map[string]int) int {
	total := 0
	for n := range maps.Values(counts) {
		total += n
	}
	return total
}

// compare asks both, and says where they differ without a reason.
func compare(k keygen, in input, met *tally) error {
	f, err := k.files(in)
	if err != nil {
		return err
	}
	ours, theirs := in.ours(f), k.verify(in, f)
	switch {
	case in.honest && (ours != nil || theirs != nil):
		return fmt.Errorf("honest, and refused: %w", errors.Join(ours, theirs))
	case ours == nil && theirs != nil:
		return fmt.Errorf("we take what ssh-keygen refuses: %w", theirs)
	case ours == nil:
		met.count(true, "")
		if who, err := k.finds(in, f); err != nil || who != in.person {
			return fmt.Errorf("ssh-keygen finds %q: %w", who, err)
		}
	case theirs != nil:
		met.count(false, "")
	default:
		reason := reasonOf(ours)
		if reason == "" {
			return fmt.Errorf("we refuse what ssh-keygen takes, for no reason of the list: %w", ours)
		}
		met.count(false, reason)
	}
	return nil
}

func reasonOf(err error) string {
	for _, reason := range slices.Sorted(maps.Keys(stricter)) {
		if strings.Contains(err.Error(), stricter[reason]) {
			return reason
		}
	}
	return ""
}

// TestSSHKeygenSignsWithEveryKind takes what ssh-keygen itself signs, byte for
// byte, and gives it what was signed here.
func TestSSHKeygenSignsWithEveryKind(t *testing.T) {
	k := newKeygen(t)
	statement := []byte(vector(t).Statement)
	message, err := k.write("statement", statement)
	if err != nil {
		t.Fatal(err)
	}
	for kind, private := range map[string]any{
		"ed25519": newEd25519(t), "ecdsa-256": newECDSA(t, elliptic.P256()), "ecdsa-384": newECDSA(t, elliptic.P384()), "ecdsa-521": newECDSA(t, elliptic.P521()),
		"rsa-2048": newRSA(t, 2048), "rsa-3072": newRSA(t, 3072), "rsa-4096": newRSA(t, 4096),
	} {
		block, err := ssh.MarshalPrivateKey(private, "")
		if err != nil {
			t.Fatal(err)
		}
		path, err := k.write(kind, pem.EncodeToMemory(block))
		if err != nil {
			t.Fatal(err)
		}
		for _, namespace := range []string{NamespaceChange, NamespaceWithdraw, NamespaceOverride} {
			os.Remove(message + ".sig")
			if _, err := k.run(nil, "-Y", "sign", "-q", "-n", namespace, "-f", path, message); err != nil {
				t.Fatal(err)
			}
			armored, err := os.ReadFile(message + ".sig")
			if err != nil {
				t.Fatal(err)
			}
			raw, err := ParseArmored(armored)
			if kind == "rsa-2048" {
				if err == nil || !strings.Contains(err.Error(), "RSA of 2048 bits, want 3072 to 16384") {
					t.Errorf("%s: %v", kind, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				continue
			}
			signers := load(t, "alice "+keyLine(softSigner(t, private).PublicKey())+"\n")
			if signed, err := signers.VerifyBytes(namespace, statement, raw, vectorTime); err != nil || signed.Person != "alice" {
				t.Errorf("%s, %s: %+v %v", kind, namespace, signed, err)
			}
			for _, other := range []string{NamespaceChange, NamespaceWithdraw, NamespaceOverride} {
				if other == namespace {
					continue
				}
				if _, err := signers.VerifyBytes(other, statement, raw, vectorTime); !errors.Is(err, ErrBadSignature) {
					t.Errorf("%s, %s passes as %s: %v", kind, namespace, other, err)
				}
			}
		}
	}
}
