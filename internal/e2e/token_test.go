package e2e

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	_ "crypto/sha512" // crypto.SHA512
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// tokenCmds are the commands of the scripts about signatures.
var tokenCmds = map[string]func(*testscript.TestScript, bool, []string){
	"token":  cmdToken,
	"newkey": cmdNewKey,
	"write":  cmdWrite,
}

// forgery is an approval and everything that may be wrong with it. It is made
// byte by byte and shares nothing with the readers that are tested.
type forgery struct {
	statement
	signature
	armor string // of the token
	in    string // template of the message
	amend bool   // HEAD gets it as its message
	out   string
}

// statement is what is signed. Fields are written as they are.
type statement struct {
	raw    string // a file, in place of the fields
	header string
	order  string // names of fields, comma-separated
	eol    string
	last   string // behind the last line
	fields map[string]string
}

// signature is an SSHSIG.
type signature struct {
	key       string // private half; the public one is beside it
	public    string // file of the public key that is named; empty: key.pub
	namespace string
	outer     string // namespace that is named, where it is not the one that is signed
	hash      string // of the statement
	hashName  string // that is named, where it is another
	reserved  string
	magic     string
	version   uint
	format    string // of the signature proper, where it is not what the key says
	touch     uint   // flags of a FIDO key
	tail      string // hexadecimal, behind it
	inner     string // and behind its inner part
	flip      int    // bit that is turned; -1 is none
}

// token [OPTION …] [FIELD=VALUE …] OUT|-amend|-blob: signs that refs/heads/main
// may go from the state it has in $SRV to that of HEAD, or something like it, as
// the options and fields say. -blob puts it into the clone as a blob: BLOB is
// its id. -amend adds the token to HEAD's message, or gives HEAD the message of
// the template -in. HASH is the hash of the statement, TOKEN the token.
//
// A VALUE of before and after is a revision, "server", "empty" or a digest; of
// issued and expires a time, or +1h and the like from now; of paths a digest, or
// "of:" and patterns. In FIELD=VALUE and
// in templates {x0d} is the byte and {u202e} the character of that number.
func cmdToken(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("token: nothing to refuse")
	}
	f := readForgery(ts, args)
	stmt := f.bytes(ts)
	sum := sha256.Sum256(stmt)
	ts.Setenv("HASH", hex.EncodeToString(sum[:]))
	sig := f.sign(ts, stmt)
	ts.Setenv("TOKEN", f.token(ts, stmt, sig))
	switch {
	case f.out != "":
		ts.Check(os.WriteFile(ts.MkAbs(f.out), f.text(ts, stmt, sig), 0o644))
	case f.amend:
		commitAgain(ts, f.text(ts, stmt, sig))
	default:
		ts.Setenv("BLOB", literally(ts, "blob", f.text(ts, stmt, sig)))
	}
}

func readForgery(ts *testscript.TestScript, args []string) forgery {
	f := forgery{statement: statement{fields: map[string]string{}}, signature: signature{}}
	set := flag.NewFlagSet("token", flag.ContinueOnError)
	set.StringVar(&f.raw, "stmt", "", "")
	set.StringVar(&f.header, "header", "oracle-change approval v1", "")
	set.StringVar(&f.order, "order", "repo,ref,paths,before,after,reason,issued,expires,nonce", "")
	set.StringVar(&f.eol, "eol", "\n", "")
	set.StringVar(&f.last, "last", "", "")
	set.StringVar(&f.key, "key", ts.Getenv("MAINTAINER_KEY"), "")
	set.StringVar(&f.public, "public", "", "")
	set.StringVar(&f.namespace, "ns", "oracle-change-v1@sealgate", "")
	set.StringVar(&f.outer, "outer", "", "")
	set.StringVar(&f.hash, "hash", "sha512", "")
	set.StringVar(&f.hashName, "hashname", "", "")
	set.StringVar(&f.reserved, "reserved", "", "")
	set.StringVar(&f.magic, "magic", "SSHSIG", "")
	set.UintVar(&f.version, "version", 1, "")
	set.StringVar(&f.format, "format", "", "")
	set.UintVar(&f.touch, "touch", 1, "")
	set.StringVar(&f.tail, "tail", "", "")
	set.StringVar(&f.inner, "inner", "", "")
	set.IntVar(&f.flip, "flip", -1, "")
	set.StringVar(&f.armor, "armor", "token", "")
	set.StringVar(&f.in, "in", "", "")
	set.BoolVar(&f.amend, "amend", false, "")
	blob := set.Bool("blob", false, "")
	ts.Check(set.Parse(args))
	for _, arg := range set.Args() {
		if name, value, ok := strings.Cut(arg, "="); ok {
			f.fields[name] = value
			continue
		}
		f.out = arg
	}
	for _, text := range []*string{&f.header, &f.eol, &f.last, &f.namespace, &f.outer, &f.reserved, &f.hashName, &f.format} {
		*text = spell(*text)
	}
	if (f.out != "") == (f.amend || *blob) {
		ts.Fatalf("token: want a file, -amend or -blob")
	}
	return f
}

var spelled = regexp.MustCompile(`\{x[0-9a-f]{2}\}|\{u[0-9a-f]{4,5}\}`)

// spell puts bytes and characters in the place of their numbers.
func spell(text string) string {
	return spelled.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.ParseUint(s[2:len(s)-1], 16, 32)
		switch {
		case err != nil:
			return s
		case s[1] == 'x':
			return string([]byte{byte(n)})
		default:
			return string(rune(n))
		}
	})
}

func (f forgery) bytes(ts *testscript.TestScript) []byte {
	if f.raw != "" {
		body, err := os.ReadFile(ts.MkAbs(f.raw))
		ts.Check(err)
		return []byte(spell(string(body)))
	}
	ref := f.field("ref", "refs/heads/main")
	nonce := make([]byte, 16)
	rand.Read(nonce)
	values := map[string]string{
		"repo": ts.Getenv("REPO_ID"), "ref": ref, "paths": pathsDigest("freeze.json", "oracles/"),
		"before": "server", "after": "HEAD", "reason": "decided by the tariff board",
		"issued": "+0s", "expires": "+14d", "nonce": base64.RawURLEncoding.EncodeToString(nonce),
	}
	for name := range f.fields {
		values[name] = f.field(name, "")
	}
	var b bytes.Buffer
	b.WriteString(f.header + f.eol)
	for name := range strings.SplitSeq(f.order, ",") {
		value, known := values[name]
		if !known {
			ts.Fatalf("token: no value for %q", name)
		}
		switch name {
		case "paths":
			if list, ok := strings.CutPrefix(value, "of:"); ok {
				value = pathsDigest(strings.Split(list, ",")...)
			}
		case "before", "after":
			value = stateOf(ts, value, ref)
		case "issued", "expires":
			value = timeOf(value)
		}
		b.WriteString(name + ": " + value + f.eol)
	}
	b.WriteString(f.last)
	return b.Bytes()
}

func (f forgery) field(name, usual string) string {
	if value, ok := f.fields[name]; ok {
		return spell(value)
	}
	return usual
}

func pathsDigest(patterns ...string) string {
	slices.Sort(patterns)
	return digest([]byte("protected-paths v1\x00" + strings.Join(patterns, "\x00") + "\x00"))
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// stateOf is the state of a revision of the clone here, of ref in $SRV, of
// nothing, or what it is said to be.
func stateOf(ts *testscript.TestScript, value, ref string) string {
	dir := ts.MkAbs(".")
	switch {
	case value == "empty":
		return digest([]byte("protected-tree v1\x00"))
	case value == "server":
		dir, value = ts.Getenv("SRV"), "refs/heads/main"
		if standing(ts, ref) != "" {
			value = ref
		}
	case strings.Contains(value, ":"):
		return value
	}
	at, id := gitDir(dir), ""
	if loose(at) && !replaces(at) {
		id = idOf(ts, dir, value)
		if state, known := statesOf.Load(id); known {
			return state.(string)
		}
	}
	var b bytes.Buffer
	b.WriteString("protected-tree v1\x00")
	list := rawGit(ts, dir, nil, "ls-tree", "-r", "-z", "--full-tree", value)
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		head, path, _ := strings.Cut(string(entry), "\t")
		fields := strings.Fields(head)
		if path != "freeze.json" && path != "oracles" && !strings.HasPrefix(path, "oracles/") {
			continue
		}
		content := fields[2]
		if fields[1] == "blob" {
			content = fmt.Sprintf("%x", sha256.Sum256(objectOf(ts, dir, "blob", fields[2])))
		}
		fmt.Fprintf(&b, "%s %s %s %s\x00", fields[0], fields[1], content, path)
	}
	state := digest(b.Bytes())
	if id != "" {
		statesOf.Store(id, state)
	}
	return state
}

// statesOf are the states of commits by their id: one id has one content.
var statesOf sync.Map

// objectOf is the content of an object.
func objectOf(ts *testscript.TestScript, dir, kind, id string) []byte {
	if body, ok := looseObject(gitDir(dir), kind, id); ok {
		return body
	}
	return rawGit(ts, dir, nil, "cat-file", kind, id)
}

// rawGit is git with input, and with its output as it is.
func rawGit(ts *testscript.TestScript, dir string, in []byte, args ...string) []byte {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	for _, name := range []string{"PATH", "HOME", "GIT_CONFIG_NOSYSTEM", "LC_ALL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := cmd.Output()
	if err != nil {
		ts.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return out
}

var fromNow = regexp.MustCompile(`^([+-]\d+)([smhd])$`)

func timeOf(value string) string {
	m := fromNow.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	n, _ := strconv.Atoi(m[1])
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]]
	return time.Now().UTC().Add(time.Duration(n) * unit).Format("2006-01-02T15:04:05Z")
}

// sign makes the SSHSIG by hand.
func (s signature) sign(ts *testscript.TestScript, message []byte) []byte {
	body, err := os.ReadFile(ts.MkAbs(s.key))
	ts.Check(err)
	signer, err := ssh.ParsePrivateKey(body)
	ts.Check(err)
	hash := map[string]crypto.Hash{"sha512": crypto.SHA512, "sha256": crypto.SHA256, "sha384": crypto.SHA384}[s.hash]
	h := hash.New()
	h.Write(message)
	name := s.hash
	if s.hashName != "" {
		name = s.hashName
	}
	signed := slices.Concat([]byte("SSHSIG"), sshString(s.namespace), sshString(s.reserved), sshString(name), sshString(string(h.Sum(nil))))
	public, err := base64.StdEncoding.DecodeString(strings.Fields(string(s.line(ts)))[1])
	ts.Check(err)
	outer := s.namespace
	if s.outer != "" {
		outer = s.outer
	}
	raw := slices.Concat([]byte(s.magic), binary.BigEndian.AppendUint32(nil, uint32(s.version)),
		sshString(string(public)), sshString(outer), sshString(s.reserved), sshString(name),
		sshString(string(s.proper(ts, signer, signed))), unhex(ts, s.tail))
	if s.flip >= 0 {
		raw[s.flip/8%len(raw)] ^= 1 << (s.flip % 8)
	}
	return raw
}

// line is the public key that is named.
func (s signature) line(ts *testscript.TestScript) []byte {
	path := s.key + ".pub"
	if s.public != "" {
		path = s.public
	}
	line, err := os.ReadFile(ts.MkAbs(path))
	ts.Check(err)
	return line
}

// proper is the signature proper, with its format; a FIDO key's also has flags
// and a counter, and signs hashes.
func (s signature) proper(ts *testscript.TestScript, signer ssh.Signer, signed []byte) []byte {
	kind := strings.Fields(string(s.line(ts)))[0]
	var rest []byte
	if strings.HasPrefix(kind, "sk-") {
		app, text := sha256.Sum256([]byte("ssh:")), sha256.Sum256(signed)
		rest = append([]byte{byte(s.touch)}, 0, 0, 0, 7)
		signed = slices.Concat(app[:], rest, text[:])
	}
	algorithm := signer.PublicKey().Type()
	if algorithm == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512
		if s.format == ssh.KeyAlgoRSA || s.format == ssh.KeyAlgoRSASHA256 {
			algorithm = s.format
		}
	}
	sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signed, algorithm)
	ts.Check(err)
	format := sig.Format
	switch {
	case s.format != "":
		format = s.format
	case rest != nil:
		format = kind
	}
	return slices.Concat(sshString(format), sshString(string(sig.Blob)), rest, unhex(ts, s.inner))
}

// sshString is a string of the SSH protocol.
func sshString(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

func unhex(ts *testscript.TestScript, s string) []byte {
	b, err := hex.DecodeString(s)
	ts.Check(err)
	return b
}

// text is the token in its armor: in the template, or a line by itself.
func (f forgery) text(ts *testscript.TestScript, stmt, sig []byte) []byte {
	token := f.token(ts, stmt, sig)
	switch {
	case f.in != "":
		body, err := os.ReadFile(ts.MkAbs(f.in))
		ts.Check(err)
		body = []byte(spell(string(body)))
		body = bytes.ReplaceAll(body, []byte("{reason}"), []byte(f.field("reason", "decided by the tariff board")))
		body = bytes.ReplaceAll(body, []byte("{token}"), []byte(token))
		body = bytes.ReplaceAll(body, []byte("{flips}"), flips(stmt, sig))
		return body
	case f.amend:
		_, text, _ := bytes.Cut(objectOf(ts, ts.MkAbs("."), "commit", idOf(ts, ts.MkAbs("."), "HEAD")), []byte("\n\n"))
		if !bytes.Contains(text, []byte("\nOracle-Change")) {
			text = append(text, '\n')
		}
		return fmt.Appendf(text, "Oracle-Change-Signature: %s\n", token)
	default:
		return []byte(token + "\n")
	}
}

func (f forgery) token(ts *testscript.TestScript, stmt, sig []byte) string {
	url, std := base64.RawURLEncoding.EncodeToString, base64.StdEncoding.EncodeToString
	switch f.armor {
	case "token":
		return tokenOf(stmt, sig)
	case "padded":
		return "v1." + base64.URLEncoding.EncodeToString(stmt) + "." + base64.URLEncoding.EncodeToString(sig) + "."
	case "std":
		return "v1." + std(stmt) + "." + std(sig) + "."
	case "v2":
		return "v2." + url(stmt) + "." + url(sig) + "."
	case "nodot":
		return "v1." + url(stmt) + "." + url(sig)
	case "nosig":
		return "v1." + url(stmt) + ".."
	case "wrapped":
		t := tokenOf(stmt, sig)
		return t[:70] + "\n " + t[70:]
	case "pem":
		return "v1." + url(stmt) + "." + url(armored(sig, "")) + "."
	case "crlf":
		return "v1." + url(stmt) + "." + url(bytes.ReplaceAll(armored(sig, ""), []byte("\n"), []byte("\r\n"))) + "."
	case "headers":
		return "v1." + url(stmt) + "." + url(armored(sig, "Comment: trust me\n\n")) + "."
	case "twoarmors":
		return "v1." + url(stmt) + "." + url(append(armored(sig, ""), armored(sig, "")...)) + "."
	case "twoinone":
		return "v1." + url(stmt) + "." + url(append(slices.Clone(sig), sig...)) + "."
	default:
		ts.Fatalf("token: unknown armor %q", f.armor)
		return ""
	}
}

func tokenOf(stmt, sig []byte) string {
	return "v1." + base64.RawURLEncoding.EncodeToString(stmt) + "." + base64.RawURLEncoding.EncodeToString(sig) + "."
}

func armored(sig []byte, headers string) []byte {
	return []byte("-----BEGIN SSH SIGNATURE-----\n" + headers + base64.StdEncoding.EncodeToString(sig) + "\n-----END SSH SIGNATURE-----\n")
}

// flips are the token's lines with one bit turned: each bit of the signature,
// and one of each byte of the statement.
func flips(stmt, sig []byte) []byte {
	var b bytes.Buffer
	line := func(stmt, sig []byte) { b.WriteString("Oracle-Change-Signature: " + tokenOf(stmt, sig) + "\n") }
	for i := range 8 * len(sig) {
		bad := slices.Clone(sig)
		bad[i/8] ^= 1 << (i % 8)
		line(stmt, bad)
	}
	for i := range stmt {
		bad := slices.Clone(stmt)
		bad[i] ^= 1 << (i % 8)
		line(bad, sig)
	}
	return b.Bytes()
}

// commitAgain gives HEAD another message, with every byte of it.
func commitAgain(ts *testscript.TestScript, message []byte) {
	dir := ts.MkAbs(".")
	head, _, ok := bytes.Cut(objectOf(ts, dir, "commit", idOf(ts, dir, "HEAD")), []byte("\n\n"))
	if !ok {
		ts.Fatalf("HEAD has no message")
	}
	raw := slices.Concat(head, []byte("\n\n"), message)
	git(ts, dir, "reset", "-q", "--hard", literally(ts, "commit", raw))
}

// write OUT TEXT …: the texts, a line each, with {x0d} and {u202e} spelled.
// With -n there is no line feed at the end.
func cmdWrite(ts *testscript.TestScript, neg bool, args []string) {
	end := "\n"
	if len(args) > 0 && args[0] == "-n" {
		end, args = "", args[1:]
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: write [-n] OUT TEXT ...")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(spell(strings.Join(args[1:], "\n"))+end), 0o644))
}

// newkey KIND FILE: a key pair. KIND is what ssh-keygen knows, with the bits
// behind it (rsa-3072), or sk: an Ed25519 key in the clothes of a FIDO key.
func cmdNewKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: newkey KIND FILE")
	}
	kind, bits, _ := strings.Cut(args[0], "-")
	path := ts.MkAbs(args[1])
	opts := []string{"-q", "-N", "", "-C", "", "-f", path, "-t", strings.Replace(kind, "sk", "ed25519", 1)}
	if bits != "" {
		opts = append(opts, "-b", bits)
	}
	out, err := exec.Command("ssh-keygen", opts...).CombinedOutput()
	if err != nil {
		ts.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	if kind != "sk" {
		return
	}
	body, err := os.ReadFile(path)
	ts.Check(err)
	key, err := ssh.ParseRawPrivateKey(body)
	ts.Check(err)
	public := key.(*ed25519.PrivateKey).Public().(ed25519.PublicKey)
	blob := slices.Concat(sshString(ssh.KeyAlgoSKED25519), sshString(string(public)), sshString("ssh:"))
	line := ssh.KeyAlgoSKED25519 + " " + base64.StdEncoding.EncodeToString(blob) + "\n"
	ts.Check(os.WriteFile(path+".pub", []byte(line), 0o644))
}
