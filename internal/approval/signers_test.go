package approval

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/policy"
)

// files writes the three files of a repository and returns their paths.
func files(t testing.TB, maintainers, revoked, agents string) [3]string {
	t.Helper()
	dir := t.TempDir()
	var out [3]string
	for i, text := range []string{maintainers, revoked, agents} {
		out[i] = filepath.Join(dir, []string{"maintainers", "revoked_keys", "agents"}[i])
		if err := os.WriteFile(out[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func load(t testing.TB, maintainers string) Signers {
	t.Helper()
	f := files(t, maintainers, "", "")
	s, err := LoadSigners(f[0], f[1], f[2])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func freshKey(t testing.TB) string {
	t.Helper()
	return keyLine(softSigner(t, newEd25519(t)).PublicKey())
}

func TestSignersRefusals(t *testing.T) {
	a, b := freshKey(t), freshKey(t)
	weak := keyLine(softSigner(t, newRSA(t, 2048)).PublicKey())
	cert := base64.StdEncoding.EncodeToString(certificate(t, softSigner(t, newEd25519(t))))
	for name, c := range map[string]struct{ maintainers, revoked, agents, want string }{
		"one word":              {maintainers: "alice\n", want: "maintainers:1: want: person"},
		"no key":                {maintainers: "alice ssh-ed25519\n", want: ":1: want: person"},
		"no person":             {maintainers: a + " x\n", want: ":1: the person is missing"},
		"wildcard":              {maintainers: "*@example.org " + a + "\n", want: "is a pattern"},
		"star":                  {maintainers: "* " + a + "\n", want: "is a pattern"},
		"question mark":         {maintainers: "alic? " + a + "\n", want: "is a pattern"},
		"negation":              {maintainers: "!alice " + a + "\n", want: "is a pattern"},
		"list":                  {maintainers: "alice,bob " + a + "\n", want: "is a list"},
		"quoted person":         {maintainers: `"alice" ` + a + "\n", want: "plain ASCII"},
		"look-alike person":     {maintainers: "\u0430lice " + a + "\n", want: "plain ASCII"},
		"certificate authority": {maintainers: "alice cert-authority " + a + "\n", want: "cert-authority"},
		"authority after":       {maintainers: `alice namespaces="x",cert-authority ` + a + "\n", want: "cert-authority"},
		"certificate":           {maintainers: "alice ssh-ed25519-cert-v01@openssh.com " + cert + "\n", want: "may not sign"},
		"unknown option":        {maintainers: `alice moon="x" ` + a + "\n", want: "unknown option"},
		"bare option":           {maintainers: "alice restrict " + a + "\n", want: "options"},
		"option case":           {maintainers: `alice Namespaces="x" ` + a + "\n", want: "unknown option"},
		"option without quotes": {maintainers: "alice valid-after=20260101Z " + a + "\n", want: "options"},
		"option unclosed":       {maintainers: `alice valid-after="20260101Z ` + a + "\n", want: "options"},
		"option twice":          {maintainers: `alice valid-after="20260101Z",valid-after="20260101Z" ` + a + "\n", want: "stands twice"},
		"option, comma at end":  {maintainers: `alice valid-after="20260101Z", ` + a + "\n", want: "options"},
		"options glued":         {maintainers: `alice namespaces="a"valid-after="20260101Z" ` + a + "\n", want: "options"},
		"namespace pattern":     {maintainers: `alice namespaces="*@sealgate" ` + a + "\n", want: "no patterns"},
		"namespace empty":       {maintainers: `alice namespaces="" ` + a + "\n", want: "no patterns"},
		"time without Z":        {maintainers: `alice valid-after="20260101" ` + a + "\n", want: "Z at the end"},
		"time, local":           {maintainers: `alice valid-before="202601011200" ` + a + "\n", want: "Z at the end"},
		"time, no such day":     {maintainers: `alice valid-before="20260230Z" ` + a + "\n", want: "Z at the end"},
		"time, ISO":             {maintainers: `alice valid-before="2026-01-01Z" ` + a + "\n", want: "Z at the end"},
		"time, empty":           {maintainers: `alice valid-before="" ` + a + "\n", want: "Z at the end"},
		"never valid":           {maintainers: `alice valid-after="20270101Z",valid-before="20260101Z" ` + a + "\n", want: "not after valid-after"},
		"not base64":            {maintainers: "alice ssh-ed25519 !!!!\n", want: "not base64"},
		"other type":            {maintainers: "alice ssh-rsa " + strings.Fields(a)[1] + "\n", want: "is of type"},
		"cut key":               {maintainers: "alice " + a[:len(a)-8] + "\n", want: ":1: "},
		"weak RSA":              {maintainers: "alice " + weak + "\n", want: "RSA of 2048 bits"},
		"CRLF":                  {maintainers: "alice " + a + "\r\n", want: "control character"},
		"NUL":                   {maintainers: "alice " + a + "\x00\n", want: "control character"},
		"vertical tab":          {maintainers: "alice\v" + a + "\n", want: "control character"},
		"line separator":        {maintainers: "# x\u2028bob " + a + "\n", want: "control character"},
		"no-break space":        {maintainers: "alice\u00a0" + a + "\n", want: ":1: want: person"},
		"wide space":            {maintainers: "alice ssh-ed25519\u3000" + strings.Fields(a)[1] + "\n", want: ":1: "},
		"agents, odd space":     {maintainers: "alice " + a + "\n", agents: strings.Replace(b, " ", "\u2003", 1) + "\n", want: "agents:1: "},
		"byte-order mark":       {maintainers: "\ufeffalice " + a + "\n", want: "control character"},
		"not UTF-8":             {maintainers: "alice " + a + " \xff\n", want: "not UTF-8"},
		"long line":             {maintainers: "# " + strings.Repeat("x", maxSignersLine) + "\n", want: "longer than"},
		"long file":             {maintainers: strings.Repeat("#\n", maxSignersFile), want: "longer than"},
		"key under two persons": {maintainers: "alice " + a + "\nbob " + a + "\n", want: `maintainers:2: the key is that of "alice" (line 1)`},
		"key twice":             {maintainers: "alice " + a + "\nalice " + a + " again\n", want: ":2: the key stands twice"},
		"person in two cases":   {maintainers: "alice " + a + "\nAlice " + b + "\n", want: "differ only in case"},
		"agent's key":           {maintainers: "alice " + a + "\nbob " + b + "\n", agents: "# bots\n" + b + " bot\n", want: "maintainers:2: the key of \"bob\" is an agent's"},
		"agent's account":       {maintainers: "bot@example.org " + a + "\n", agents: "account Bot@example.org\n", want: "may never approve"},
		"agents, odd line":      {maintainers: "alice " + a + "\n", agents: "bot\n", want: "agents:1: want a public key"},
		"agents, odd account":   {maintainers: "alice " + a + "\n", agents: "account a b\n", want: "agents:1: want: account NAME"},
		"revoked, odd line":     {maintainers: "alice " + a + "\n", revoked: "alice " + b + "\n", want: "revoked_keys:1: "},
		"revoked, account":      {maintainers: "alice " + a + "\n", revoked: "account x\n", want: "revoked_keys:1: "},
		"revoked, binary":       {maintainers: "alice " + a + "\n", revoked: "SSHKRL\n\x00", want: "revoked_keys:"},
		"revoked, hash":         {maintainers: "alice " + a + "\n", revoked: "SHA256:abc\n", want: "revoked_keys:1: "},
	} {
		f := files(t, c.maintainers, c.revoked, c.agents)
		s, err := LoadSigners(f[0], f[1], f[2])
		var faults policy.Faults
		if err == nil || !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if s.keys != nil {
			t.Errorf("%s: an error comes with signers", name)
		}
	}
}

func TestEveryFaultOfEveryFileIsNamed(t *testing.T) {
	f := files(t, "alice\n\n* "+freshKey(t)+"\n", "moon\n", "sun\n")
	_, err := LoadSigners(f[0], f[1], f[2])
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"maintainers:1:", "maintainers:3:", "revoked_keys:1:", "agents:1:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestServerKeysMayNotApprove(t *testing.T) {
	key := freshKey(t)
	f := files(t, "alice "+key+"\n", "", "")
	if _, err := LoadSigners(f[0], f[1], f[2], key+" gate"); err == nil {
		t.Error("the server's own key is accepted")
	}
	if _, err := LoadSigners(f[0], f[1], f[2], "moon"); err == nil {
		t.Error("an unreadable key of the server's own is passed over")
	}
	weak := keyLine(softSigner(t, newRSA(t, 2048)).PublicKey())
	if _, err := LoadSigners(f[0], f[1], f[2], key+"\n"); err == nil || !strings.Contains(err.Error(), "is the server's own") {
		t.Errorf("a line with its line feed: %v", err)
	}
	if _, err := ParsePublicKey(key + "\n"); err != nil {
		t.Errorf("a key with its line feed: %v", err)
	}
	if _, err := LoadSigners(f[0], f[1], f[2], freshKey(t), weak); err != nil {
		t.Errorf("keys of the server's that are nobody's: %v", err)
	}
}

// A certificate that is revoked, or an agent's, stands for the key it certifies.
func TestACertificateInAListIsItsKey(t *testing.T) {
	signer := softSigner(t, newEd25519(t))
	cert := blobLine(t, certificate(t, signer))
	f := files(t, "alice "+keyLine(signer.PublicKey())+"\n", "", cert+"\n")
	if _, err := LoadSigners(f[0], f[1], f[2]); err == nil || !strings.Contains(err.Error(), "is an agent's") {
		t.Errorf("an agent's certificate: %v", err)
	}
	f = files(t, "alice "+keyLine(signer.PublicKey())+"\n", cert+"\n", "")
	signers, err := LoadSigners(f[0], f[1], f[2])
	if err != nil {
		t.Fatal(err)
	}
	statement := []byte(vector(t).Statement)
	if _, err := signers.VerifyBytes(NamespaceChange, statement, sign(t, signer, NamespaceChange, statement, ""), vectorTime); !errors.Is(err, ErrRevoked) {
		t.Errorf("a revoked certificate: %v", err)
	}
}

func TestFilesThatOthersMayWriteAreRefused(t *testing.T) {
	line := "alice " + freshKey(t) + "\n"
	for name, spoil := range map[string]func(path string) error{
		"missing":        os.Remove,
		"group-writable": func(p string) error { return os.Chmod(p, 0o620) },
		"world-writable": func(p string) error { return os.Chmod(p, 0o602) },
		"symbolic link": func(p string) error {
			if err := os.Rename(p, p+".real"); err != nil {
				return err
			}
			return os.Symlink(p+".real", p)
		},
		"directory": func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.Mkdir(p, 0o700)
		},
	} {
		for which := range 3 {
			f := files(t, line, "", "")
			if err := spoil(f[which]); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadSigners(f[0], f[1], f[2]); err == nil || !strings.Contains(err.Error(), f[which]) {
				t.Errorf("%s %s: %v", name, filepath.Base(f[which]), err)
			}
		}
	}
	f := files(t, line, "", "")
	if _, err := LoadSigners(f[0], "", f[2]); err == nil {
		t.Error("no revocation file is named, and that passes")
	}
	if _, err := LoadSigners(f[0], f[1], ""); err != nil {
		t.Errorf("without agents: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(f[0], 64200, 64200); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadSigners(f[0], f[1], f[2]); err == nil || !strings.Contains(err.Error(), "belongs to user 64200") {
			t.Errorf("another user's file: %v", err)
		}
	} else if _, err := readOwned("/etc/passwd"); err != nil {
		t.Errorf("root's file: %v", err)
	}
}

func TestSignersThatAreFine(t *testing.T) {
	a, b, c, d := freshKey(t), freshKey(t), freshKey(t), freshKey(t)
	s := load(t, "# maintainers\n\n \t\n  # more\nalice@example.org "+a+" alice's laptop\nalice@example.org\t"+b+
		"\nbob namespaces=\"git,"+NamespaceChange+"\",valid-after=\"20260101Z\",valid-before=\"20270101120000Z\" "+c+"\n  carol "+d)
	if got := s.People(); !slices.Equal(got, []string{"alice@example.org", "bob", "carol"}) {
		t.Errorf("people: %q", got)
	}
	if got := load(t, "").People(); got != nil {
		t.Errorf("nobody is %q", got)
	}
}

// signedToken is a token of a fresh key, valid for an hour from issued.
func signedToken(t testing.TB, issued time.Time) (token Token, key string) {
	t.Helper()
	v, err := ParseStatement([]byte(vector(t).Statement))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStatement(v.Repo, v.Ref, v.Paths, v.Before, v.After, "a good reason", issued, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	signer := softSigner(t, newEd25519(t))
	token, err = ParseToken(FormatToken(s.Bytes(), sign(t, signer, NamespaceChange, s.Bytes(), "")))
	if err != nil {
		t.Fatal(err)
	}
	return token, keyLine(signer.PublicKey())
}

func TestWhenATokenCounts(t *testing.T) {
	issued := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	token, key := signedToken(t, issued)
	for name, c := range map[string]struct {
		maintainers, revoked string
		now                  time.Duration // after issue
		want                 error
	}{
		"at once":                 {"alice " + key, "", 0, nil},
		"in its last second":      {"alice " + key, "", time.Hour - time.Second, nil},
		"expired":                 {"alice " + key, "", time.Hour, ErrExpired},
		"long expired":            {"alice " + key, "", 1000 * time.Hour, ErrExpired},
		"clocks apart a little":   {"alice " + key, "", -Skew, nil},
		"clocks apart too much":   {"alice " + key, "", -Skew - time.Second, ErrNotYetValid},
		"unknown key":             {"alice " + freshKey(t), "", 0, ErrUnknownSigner},
		"nobody":                  {"", "", 0, ErrUnknownSigner},
		"revoked":                 {"alice " + key, key + " lost\n", 0, ErrRevoked},
		"another revoked":         {"alice " + key, freshKey(t) + "\n", 0, nil},
		"key not yet valid":       {`alice valid-after="20260601120001Z" ` + key, "", 0, ErrKeyNotValid},
		"key valid from now":      {`alice valid-after="20260601120000Z" ` + key, "", 0, nil},
		"key valid until now":     {`alice valid-before="202606011200Z" ` + key, "", 0, ErrKeyNotValid},
		"key valid a second more": {`alice valid-before="20260601120001Z" ` + key, "", 0, nil},
		"key expired since":       {`alice valid-before="20260601123000Z" ` + key, "", 45 * time.Minute, ErrKeyNotValid},
		"key for git only":        {`alice namespaces="git" ` + key, "", 0, ErrKeyNotValid},
		"key for overrides only":  {`alice namespaces="` + NamespaceOverride + `" ` + key, "", 0, ErrKeyNotValid},
		"key for approvals":       {`alice namespaces="git,` + NamespaceChange + `" ` + key, "", 0, nil},
	} {
		f := files(t, c.maintainers+"\n", c.revoked, "")
		signers, err := LoadSigners(f[0], f[1], f[2])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		signed, err := signers.Verify(token, issued.Add(c.now))
		if !errors.Is(err, c.want) || (err == nil) != (signed.Person == "alice") {
			t.Errorf("%s: %+v %v, want %v", name, signed, err, c.want)
		}
	}
	if _, err := (Signers{}).Verify(token, issued); !errors.Is(err, ErrUnknownSigner) {
		t.Errorf("the zero value: %v", err)
	}
	if _, err := (Signers{}).Verify(Token{}, issued); err == nil {
		t.Error("the zero token counts")
	}
	forged := token
	forged.Statement.After = token.Statement.Before
	if _, err := load(t, "alice "+key+"\n").Verify(forged, issued); !errors.Is(err, ErrBadSignature) {
		t.Errorf("a statement changed after it was read: %v", err)
	}
}

func TestThresholdCountsPersons(t *testing.T) {
	alice, alice2, bob := Signed{"alice", "SHA256:1"}, Signed{"alice", "SHA256:2"}, Signed{"bob", "SHA256:3"}
	for name, c := range map[string]struct {
		signed    []Signed
		threshold int
		want      bool
	}{
		"one of one":            {[]Signed{alice}, 1, true},
		"none of one":           {nil, 1, false},
		"one person, two keys":  {[]Signed{alice, alice2}, 2, false},
		"the same twice":        {[]Signed{alice, alice}, 2, false},
		"two persons":           {[]Signed{alice, bob}, 2, true},
		"in two cases":          {[]Signed{alice, {"Alice", "SHA256:4"}}, 2, false},
		"a person without name": {[]Signed{alice, {}}, 2, false},
		"threshold zero":        {[]Signed{alice}, 0, false},
		"threshold below zero":  {[]Signed{alice, bob}, -1, false},
	} {
		if got := Met(c.signed, c.threshold); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
