package approval

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

type golden struct {
	Namespace    string
	PublicKey    string `json:"public_key"`
	Statement    string
	SHA256       string   `json:"statement_sha256"`
	Armored      string   `json:"signature_armored"`
	TrailerLines []string `json:"trailer_lines"`
}

func vector(t testing.TB) golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "approval-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v golden
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if v.Statement == "" || len(v.TrailerLines) != 2 {
		t.Fatal("the vector is empty")
	}
	return v
}

func (v golden) token() string {
	return strings.TrimPrefix(v.TrailerLines[1], TrailerKey+": ")
}

// vectorTime is within the golden statement's life.
var vectorTime = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func TestGoldenVector(t *testing.T) {
	v := vector(t)
	s, err := ParseStatement([]byte(v.Statement))
	if err != nil {
		t.Fatal(err)
	}
	if s.Hash() != v.SHA256 || string(s.Bytes()) != v.Statement {
		t.Errorf("hash %s, bytes %q", s.Hash(), s.Bytes())
	}
	raw, err := ParseArmored([]byte(v.Armored))
	if err != nil {
		t.Fatal(err)
	}
	if got := FormatToken(s.Bytes(), raw); got != v.token() {
		t.Errorf("token %s", got)
	}
	if v.TrailerLines[0] != ReasonKey+": "+s.Reason || v.Namespace != NamespaceChange {
		t.Errorf("trailer %q, namespace %q", v.TrailerLines[0], v.Namespace)
	}
	tok, err := ParseToken(v.token())
	if err != nil || tok.Hash != v.SHA256 || tok.Statement != s {
		t.Fatalf("%+v %v", tok, err)
	}
	// The same signature again from the fixed private key.
	signer := softSigner(t, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)))
	if again := sign(t, signer, NamespaceChange, s.Bytes(), ""); !bytes.Equal(again, raw) {
		t.Errorf("signed again: %x", again)
	}
	signers := load(t, "alice@example.org "+v.PublicKey+"\n")
	signed, err := signers.Verify(tok, vectorTime)
	if err != nil || signed.Person != "alice@example.org" || !strings.HasPrefix(signed.Fingerprint, "SHA256:") {
		t.Errorf("%+v %v", signed, err)
	}
	if print, err := tok.VerifyKey(); err != nil || print != signed.Fingerprint {
		t.Errorf("%s %v", print, err)
	}
	blob, err := ParseTokenBlob([]byte(v.token() + "\n"))
	if err != nil || blob.Hash != tok.Hash {
		t.Errorf("blob: %v", err)
	}
	if got := FindTokens([]byte("subject\n\n" + strings.Join(v.TrailerLines, "\n") + "\n")); len(got) != 1 || got[0] != v.token() {
		t.Errorf("found %q", got)
	}
}

func TestStatementRefusals(t *testing.T) {
	good := vector(t).Statement
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the statement has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	line := func(key string) string {
		for _, l := range strings.SplitAfter(good, "\n") {
			if strings.HasPrefix(l, key+":") {
				return l
			}
		}
		t.Fatalf("no line %q", key)
		return ""
	}
	cases := map[string]string{
		"empty":              "",
		"no header":          swap("oracle-change approval v1\n", ""),
		"other version":      swap("approval v1", "approval v2"),
		"extra line":         good + "note: x\n",
		"extra empty line":   good + "\n",
		"no final line feed": strings.TrimSuffix(good, "\n"),
		"leading space":      " " + good,
		"byte-order mark":    "\ufeff" + good,
		"CRLF":               strings.ReplaceAll(good, "\n", "\r\n"),
		"one CR":             swap("main\n", "main\r\n"),
		"NUL":                swap("main", "ma\x00in"),
		"not UTF-8":          swap("relax", "rel\xffx"),
		"too long":           swap("relax", strings.Repeat("x", 2001)),
		"repo not a UUID":    swap("3f0c6d0e-", "3f0c6d0e"),
		"repo upper case":    swap("3f0c6d0e", "3F0C6D0E"),
		"repo braces":        swap("3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21", "{3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21}"),
		"ref short":          swap("refs/heads/main", "main"),
		"ref pattern":        swap("refs/heads/main", "refs/heads/*"),
		"ref with dots":      swap("refs/heads/main", "refs/heads/../x"),
		"ref bidi":           swap("refs/heads/main", "refs/heads/\u202emain"),
		"digest algorithm":   swap("before: sha256:", "before: sha1:"),
		"digest short":       swap("26b6\n", "26b\n"),
		"digest upper case":  swap("58962b5e", "58962B5E"),
		"same states":        swap(line("after"), strings.Replace(line("before"), "before", "after", 1)),
		"reason short":       swap("relax bound: spec 4.2 erratum", "relaxed"),
		"reason long":        swap("relax", strings.Repeat("x", 400)),
		"reason space first": swap("reason: ", "reason:  "),
		"reason space last":  swap("erratum", "erratum "),
		"reason not NFC":     swap("erratum", "e\u0301rratum"),
		"reason tab":         swap("relax ", "relax\t"),
		"reason escape":      swap("relax ", "relax \x1b[31m"),
		"reason bidi":        swap("relax ", "relax \u202e"),
		"reason isolate":     swap("relax ", "relax \u2066"),
		"reason mark":        swap("relax ", "relax \u061c"),
		"reason NEL":         swap("relax ", "relax\u0085"),
		"reason LS":          swap("relax ", "relax\u2028"),
		"reason tag letters": swap("relax ", "relax\U000e0041 "),
		"reason soft hyphen": swap("relax ", "re\u00adlax "),
		"reason zero width":  swap("relax ", "re\u200blax "),
		"reason filler":      swap("relax ", "re\u3164lax "),
		"reason BOM":         swap("relax ", "relax\ufeff"),
		"time zone":          swap("2026-11-30T00:00:00Z", "2026-11-30T00:00:00+00:00"),
		"no Z":               swap("2026-11-30T00:00:00Z", "2026-11-30T00:00:00"),
		"time fraction":      swap("2026-11-30T00:00:00Z", "2026-11-30T00:00:00.5Z"),
		"time comma":         swap("2026-11-30T00:00:00Z", "2026-11-30T00:00:00,5Z"),
		"no such day":        swap("2026-11-30T00:00:00Z", "2026-02-30T00:00:00Z"),
		"leap second":        swap("2026-11-30T00:00:00Z", "2026-11-30T23:59:60Z"),
		"lower case t":       swap("2026-11-30T00", "2026-11-30t00"),
		"expired at once":    swap("expires: 2026-12-14", "expires: 2026-11-30"),
		"expires before":     swap("expires: 2026-12-14", "expires: 2026-11-01"),
		"31 days":            swap("expires: 2026-12-14", "expires: 2026-12-31"),
		"30 days 1 second":   swap("expires: 2026-12-14T00:00:00Z", "expires: 2026-12-30T00:00:01Z"),
		"nonce short":        swap("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA"),
		"nonce long":         swap("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAA"),
		"nonce padded":       swap("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA=="),
		"nonce stray bits":   swap("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB"),
		"nonce alphabet":     swap("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAA+AAAAAAAAAAA"),
	}
	for _, key := range changeForm.keys {
		cases[key+" missing"] = swap(line(key), "")
		cases[key+" doubled"] = swap(line(key), line(key)+line(key))
		cases[key+" upper case"] = swap(key+": ", strings.ToUpper(key)+": ")
		cases[key+" without space"] = swap(key+": ", key+":")
		cases[key+" with two spaces"] = swap(key+": ", key+":  ")
		cases[key+" empty"] = swap(line(key), key+": \n")
		cases[key+" space at end"] = swap(line(key), strings.TrimSuffix(line(key), "\n")+" \n")
		cases[key+" last"] = swap(line(key), "") + line(key)
	}
	delete(cases, "nonce last")
	for name, text := range cases {
		if s, err := ParseStatement([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		} else if s != (Statement{}) {
			t.Errorf("%s: an error comes with a statement", name)
		}
	}
	for name, text := range map[string]string{
		"the vector":     good,
		"30 days":        swap("expires: 2026-12-14", "expires: 2026-12-30"),
		"release":        swap("refs/heads/main", "refs/heads/release/1.0"),
		"ref in UTF-8":   swap("refs/heads/main", "refs/heads/h\u00f6he"),
		"reason, accent": swap("erratum", "\u00e9rratum \u2192 900 \u2713"),
		"reason, joiner": swap("erratum", "\U0001f468\u200d\U0001f469"),
		"reason 8 bytes": swap("relax bound: spec 4.2 erratum", "relax it"),
		"reason colon":   swap("relax bound", "nonce: ref: x"),
	} {
		if _, err := ParseStatement([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewStatement(t *testing.T) {
	v, _ := ParseStatement([]byte(vector(t).Statement))
	now := time.Date(2026, 3, 1, 12, 0, 0, 999, time.FixedZone("x", 3600))
	make := func(reason string, life time.Duration) (Statement, error) {
		return NewStatement(v.Repo, v.Ref, v.Paths, v.Before, v.After, reason, now, life)
	}
	a, err := make("a good reason", 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := make("a good reason", 0)
	if err != nil || a.Nonce == b.Nonce || a.Hash() == b.Hash() {
		t.Errorf("two statements are one: %v", err)
	}
	if a.Expires.Sub(a.Issued) != DefaultLife || a.Issued.Format(timeForm) != "2026-03-01T11:00:00Z" {
		t.Errorf("issued %s, expires %s", a.Issued, a.Expires)
	}
	for name, call := range map[string]func() (Statement, error){
		"long life": func() (Statement, error) { return make("a good reason", MaxLife+time.Second) },
		"no life":   func() (Statement, error) { return make("a good reason", -time.Hour) },
		"two lines": func() (Statement, error) { return make("a good\nnonce: reason", 0) },
		"no reason": func() (Statement, error) { return make("", 0) },
		"same state": func() (Statement, error) {
			return NewStatement(v.Repo, v.Ref, v.Paths, v.After, v.After, "a good reason", now, 0)
		},
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTokenRefusals(t *testing.T) {
	good := vector(t).token()
	parts := strings.Split(good, ".")
	for name, raw := range map[string]string{
		"empty":           "",
		"dots":            "...",
		"no final dot":    strings.TrimSuffix(good, "."),
		"text after":      good + "x",
		"line feed after": good + "\n",
		"space before":    " " + good,
		"version":         "v2" + good[2:],
		"padding":         "v1." + parts[1] + "=." + parts[2] + ".",
		"line break":      good[:40] + "\n" + good[40:],
		"CR":              good[:40] + "\r" + good[40:],
		"other alphabet":  "v1." + parts[1] + "." + strings.ReplaceAll(parts[2], "_", "/") + ".",
		"no signature":    "v1." + parts[1] + "..",
		"no statement":    "v1.." + parts[2] + ".",
		"parts swapped":   "v1." + parts[2] + "." + parts[1] + ".",
		"too long":        "v1." + parts[1] + "." + strings.Repeat("A", maxToken) + ".",
		"short signature": "v1." + parts[1] + "." + parts[2][:len(parts[2])-4] + ".",
		"stray bits":      "v1." + parts[1][:len(parts[1])-1] + "p." + parts[2] + ".",
	} {
		if _, err := ParseToken(raw); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, blob := range map[string]string{"no line feed": good, "two": good + "\n\n", "CRLF": good + "\r\n", "empty": "", "only": "\n"} {
		if _, err := ParseTokenBlob([]byte(blob)); err == nil {
			t.Errorf("blob, %s: accepted", name)
		}
	}
}

func TestFindTokens(t *testing.T) {
	tok := vector(t).token()
	for name, c := range map[string]struct {
		message string
		want    int
	}{
		"trailer":               {"s\n\nOracle-Change-Signature: " + tok + "\n", 1},
		"no line feed":          {"s\n\nOracle-Change-Signature: " + tok, 1},
		"subject":               {"Oracle-Change-Signature: " + tok, 1},
		"indented by a squash":  {"s\n\n    Oracle-Change-Signature: " + tok + "\n", 1},
		"quoted":                {"s\n\n> Oracle-Change-Signature: " + tok + "\n", 1},
		"code block":            {"s\n\n```\nOracle-Change-Signature: " + tok + "\n```\n", 1},
		"CRLF":                  {"s\r\n\r\nOracle-Change-Signature: " + tok + "\r\n", 1},
		"glued":                 {"s\n\nOracle-Change-Signature: " + tok + "Co-authored-by: x\n", 1},
		"glued dashes":          {"s\n\nOracle-Change-Signature: " + tok + "---------\n", 1},
		"after NUL":             {"s\x00Oracle-Change-Signature: " + tok, 1},
		"after prose":           {"see Oracle-Change-Signature: " + tok, 1},
		"no space":              {"Oracle-Change-Signature:" + tok, 1},
		"space before colon":    {"Oracle-Change-Signature \t:\t " + tok, 1},
		"any case":              {"ORACLE-change-signature: " + tok, 1},
		"twice the same":        {"Oracle-Change-Signature: " + tok + "\nOracle-Change-Signature: " + tok, 1},
		"two":                   {"Oracle-Change-Signature: " + tok + "\nOracle-Change-Signature: v1.a.b.\n", 2},
		"key in key":            {"Oracle-Oracle-Change-Signature: " + tok, 1},
		"none":                  {"s\n\nOracle-Change: because\n", 0},
		"bare token":            {tok, 0},
		"wrapped":               {"Oracle-Change-Signature: " + tok[:70] + "\n " + tok[70:], 0},
		"on the next line":      {"Oracle-Change-Signature:\n " + tok, 0},
		"other version":         {"Oracle-Change-Signature: v2" + tok[2:], 0},
		"cut off":               {"Oracle-Change-Signature: " + strings.TrimSuffix(tok, "."), 0},
		"look-alike key":        {"Oracl\u0435-Change-Signature: " + tok, 0},
		"bidi inside":           {"Oracle-Change-Signature: " + tok[:20] + "\u202e" + tok[20:], 0},
		"other key":             {"Oracle-Change-Signatures: " + tok, 0},
		"endless":               {"Oracle-Change-Signature: v1." + strings.Repeat("a", 5<<20), 0},
		"empty":                 {"", 0},
		"key at the end":        {"Oracle-Change-Signature", 0},
		"key and colon, end":    {"Oracle-Change-Signature:", 0},
		"token of nothing":      {"Oracle-Change-Signature: v1...", 1},
		"many spaces are a bit": {"Oracle-Change-Signature:" + strings.Repeat(" ", 100) + tok, 0},
	} {
		got := FindTokens([]byte(c.message))
		if len(got) != c.want {
			t.Errorf("%s: found %d, want %d: %.80q", name, len(got), c.want, got)
		}
		if c.want > 0 && name != "token of nothing" && got[0] != tok {
			t.Errorf("%s: %.80q", name, got[0])
		}
	}
}

func TestFindTokensIsLinear(t *testing.T) {
	for _, piece := range []string{"o", "oracle-change-signatur", "Oracle-Change-Signature:", "Oracle-Change-Signature: v1.", "Oracle-Change-Signature: v1.a.b.\n", "Oracle-Change-Signature: v1." + strings.Repeat("a", 5000) + "\n", " ", "Oracle-Change-Signature" + strings.Repeat(" ", 63)} {
		message := bytes.Repeat([]byte(piece), 5<<20/len(piece))
		begin := time.Now()
		FindTokens(message)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("5 MB of %.40q took %s", piece, took)
		}
	}
}

func FuzzParseStatement(f *testing.F) {
	f.Add([]byte(vector(f).Statement))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseStatement(raw)
		if err == nil && !bytes.Equal(s.Bytes(), raw) {
			t.Errorf("another spelling of %q", raw)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add(vector(f).token())
	f.Fuzz(func(t *testing.T, raw string) {
		tok, err := ParseToken(raw)
		if err != nil {
			return
		}
		if again := FormatToken(tok.Statement.Bytes(), tok.Signature); again != raw {
			t.Errorf("another spelling of %q: %q", raw, again)
		}
		if found := FindTokens([]byte(TrailerKey + ": " + raw)); len(found) != 1 || found[0] != raw {
			t.Errorf("not found: %q", raw)
		}
	})
}

func FuzzParseSignature(f *testing.F) {
	raw, err := ParseArmored([]byte(vector(f).Armored))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("SSHSIG\x00\x00\x00\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		sig, err := ParseSignature(raw)
		if err != nil {
			return
		}
		again := packSignature(sig.Key.Marshal(), sig.Namespace, "", sigHash, ssh.Marshal(*sig.sig))
		if !bytes.Equal(again, raw) {
			t.Errorf("another spelling of %x", raw)
		}
		if _, err := ParseArmored(Armor(raw)); err != nil {
			t.Errorf("its armor does not read: %v", err)
		}
	})
}

func FuzzParseSigner(f *testing.F) {
	f.Add("alice@example.org " + vector(f).PublicKey)
	f.Add(`bob namespaces="a",valid-after="20260101Z",valid-before="202701010000Z" ` + vector(f).PublicKey + " comment")
	f.Add("* cert-authority ssh-ed25519 AAAA")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.TrimSpace(line) == "" {
			return
		}
		blob, one, err := parseSigner(line)
		if err == nil && (one.person == "" || blob == "" || strings.ContainsAny(one.person, "*?!,\" \t")) {
			t.Errorf("%q: %+v", line, one)
		}
	})
}
