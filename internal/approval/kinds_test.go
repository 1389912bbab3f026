package approval

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	aCommit     = "64bafdac8ffa2cf4ceb4cb6bfbd41b4ff15b4a11"
	longCommit  = "64bafdac8ffa2cf4ceb4cb6bfbd41b4ff15b4a1164bafdac8ffa2cf4ceb4cb6b"
	zeros       = "0000000000000000000000000000000000000000"
	aHash       = "58962b5e7a52b1d2ab85d5c2b1e4e9e5a0a7f5c0b9d8e7f60514233241506f7e"
	kindsNonce  = "AAAAAAAAAAAAAAAAAAAAAA"
	kindsRepo   = "3f0c6d0e-5d55-4c1e-9a63-0a9f0f8a7b21"
	kindsReason = "signed for the wrong branch"
)

const withdrawalText = "oracle-change withdrawal v1\n" +
	"repo: " + kindsRepo + "\n" +
	"approval: sha256:" + aHash + "\n" +
	"reason: " + kindsReason + "\n" +
	"issued: 2026-11-30T00:00:00Z\n" +
	"nonce: " + kindsNonce + "\n"

const overrideText = "oracle-change override v1\n" +
	"repo: " + kindsRepo + "\n" +
	"ref: refs/heads/main\n" +
	"old: " + zeros + "\n" +
	"new: " + aCommit + "\n" +
	"decision: sha256:" + aHash + "\n" +
	"reason: " + kindsReason + "\n" +
	"issued: 2026-11-30T00:00:00Z\n" +
	"expires: 2026-12-01T00:00:00Z\n" +
	"nonce: " + kindsNonce + "\n"

// A kind of statement: what tests do with each alike.
type kind struct {
	name, namespace string
	text            string
	form            form
	parse           func([]byte) error
	blob            func([]byte) error
	verify          func(Signers, []byte, time.Time) (Signed, error)
	longest         time.Duration // zero: it does not expire
}

func kinds(t testing.TB) []kind {
	return []kind{
		{
			name: "approval", namespace: NamespaceChange, text: vector(t).Statement, form: changeForm, longest: MaxLife,
			parse: func(raw []byte) error { _, err := ParseStatement(raw); return err },
			blob:  func(b []byte) error { _, err := ParseTokenBlob(b); return err },
			verify: func(s Signers, b []byte, now time.Time) (Signed, error) {
				tok, err := ParseTokenBlob(b)
				if err != nil {
					return Signed{}, err
				}
				return s.Verify(tok, now)
			},
		},
		{
			name: "withdrawal", namespace: NamespaceWithdraw, text: withdrawalText, form: withdrawalForm,
			parse: func(raw []byte) error { _, err := ParseWithdrawal(raw); return err },
			blob:  func(b []byte) error { _, err := ParseWithdrawalBlob(b); return err },
			verify: func(s Signers, b []byte, now time.Time) (Signed, error) {
				w, err := ParseWithdrawalBlob(b)
				if err != nil {
					return Signed{}, err
				}
				return s.VerifyWithdrawal(w, now)
			},
		},
		{
			name: "override", namespace: NamespaceOverride, text: overrideText, form: overrideForm, longest: MaxOverrideLife,
			parse: func(raw []byte) error { _, err := ParseOverride(raw); return err },
			blob:  func(b []byte) error { _, err := ParseOverrideBlob(b); return err },
			verify: func(s Signers, b []byte, now time.Time) (Signed, error) {
				o, err := ParseOverrideBlob(b)
				if err != nil {
					return Signed{}, err
				}
				return s.VerifyOverride(o, now)
			},
		},
	}
}

// vectorKey is the private key of the golden vector.
func vectorKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)) }

func blobOf(statement string, sig []byte) []byte {
	return []byte(FormatToken([]byte(statement), sig) + "\n")
}

func TestNoTokenOfOneKindPassesAsAnother(t *testing.T) {
	signer := softSigner(t, vectorKey())
	signers := load(t, "alice "+keyLine(signer.PublicKey())+"\n")
	for _, made := range kinds(t) {
		for _, signed := range kinds(t) {
			blob := blobOf(made.text, sign(t, signer, signed.namespace, []byte(made.text), ""))
			for _, read := range kinds(t) {
				who, err := read.verify(signers, blob, vectorTime.Add(-time.Hour))
				honest := made.name == signed.name && read.name == made.name
				if honest != (err == nil) || honest != (who.Person == "alice") {
					t.Errorf("%s, signed as %s, read as %s: %+v %v", made.name, signed.name, read.name, who, err)
				}
			}
		}
		// The first line of another, over the lines of this.
		for _, other := range kinds(t) {
			if other.name == made.name {
				continue
			}
			text := strings.Replace(made.text, made.form.title, other.form.title, 1)
			if err := other.parse([]byte(text)); err == nil {
				t.Errorf("the lines of %s under the title of %s are read", made.name, other.name)
			}
			if err := other.parse([]byte(made.text)); err == nil {
				t.Errorf("%s is read as %s", made.name, other.name)
			}
		}
	}
}

func TestOneMessageFindsApprovalsOnly(t *testing.T) {
	signer := softSigner(t, vectorKey())
	for _, k := range kinds(t)[1:] {
		blob := blobOf(k.text, sign(t, signer, k.namespace, []byte(k.text), ""))
		for _, raw := range FindTokens([]byte("s\n\n" + TrailerKey + ": " + string(blob))) {
			if tok, err := ParseToken(raw); err == nil {
				t.Errorf("a %s in a message is an approval: %+v", k.name, tok)
			}
		}
	}
}

// TestEveryKindIsStrict spoils each line of each kind in the same ways.
func TestEveryKindIsStrict(t *testing.T) {
	for _, k := range kinds(t) {
		if err := k.parse([]byte(k.text)); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		swap := func(old, new string) string {
			if !strings.Contains(k.text, old) {
				t.Fatalf("%s has no %q", k.name, old)
			}
			return strings.Replace(k.text, old, new, 1)
		}
		cases := map[string]string{
			"empty":              "",
			"title alone":        k.form.title + "\n",
			"other version":      swap(" v1\n", " v2\n"),
			"title in capitals":  swap("oracle-change", "Oracle-Change"),
			"extra line":         k.text + "note: x\n",
			"extra empty line":   k.text + "\n",
			"no final line feed": strings.TrimSuffix(k.text, "\n"),
			"byte-order mark":    "\ufeff" + k.text,
			"CRLF":               strings.ReplaceAll(k.text, "\n", "\r\n"),
			"NUL":                swap("reason: ", "reason: \x00"),
			"not UTF-8":          swap("reason: ", "reason: \xff"),
			"too long":           swap("reason: ", "reason: "+strings.Repeat("x", MaxStatement)),
			"reason short":       replaceLine(k.text, "reason", "too few"),
			"reason long":        replaceLine(k.text, "reason", strings.Repeat("x", maxReason+1)),
			"reason bidi":        swap("reason: ", "reason: \u202e"),
			"reason escape":      swap("reason: ", "reason: \x1b[31m"),
			"reason not NFC":     swap("reason: ", "reason: e\u0301 "),
			"repo upper case":    swap("3f0c6d0e", "3F0C6D0E"),
			"time zone":          swap("2026-11-30T00:00:00Z", "2026-11-30T00:00:00+00:00"),
			"fraction":           swap("2026-11-30T00:00:00Z", "2026-11-30T00:00:00.0Z"),
			"no such day":        swap("2026-11-30T00:00:00Z", "2026-11-31T00:00:00Z"),
			"year of five":       swap("issued: 2026", "issued: 12026"),
			"nonce short":        replaceLine(k.text, "nonce", kindsNonce[1:]),
			"nonce stray bits":   replaceLine(k.text, "nonce", kindsNonce[1:]+"B"),
			"nonce padded":       replaceLine(k.text, "nonce", kindsNonce+"=="),
		}
		for _, key := range k.form.keys {
			line := lineOf(k.text, key)
			cases[key+" missing"] = swap(line, "")
			cases[key+" doubled"] = swap(line, line+line)
			cases[key+" in capitals"] = swap(key+": ", strings.ToUpper(key)+": ")
			cases[key+" without space"] = swap(key+": ", key+":")
			cases[key+" with two spaces"] = swap(key+": ", key+":  ")
			cases[key+" empty"] = swap(line, key+": \n")
			cases[key+", space at its end"] = swap(line, strings.TrimSuffix(line, "\n")+" \n")
			cases[key+" last"] = swap(line, "") + line
			cases[key+", other value"] = replaceLine(k.text, key, "x")
		}
		delete(cases, "nonce last")
		for name, text := range cases {
			if err := k.parse([]byte(text)); err == nil {
				t.Errorf("%s: %s: accepted", k.name, name)
			} else if !strings.HasPrefix(err.Error(), "read "+k.form.kind+": ") {
				t.Errorf("%s: %s: %v", k.name, name, err)
			}
		}
	}
}

func lineOf(text, key string) string {
	for _, l := range strings.SplitAfter(text, "\n") {
		if strings.HasPrefix(l, key+": ") {
			return l
		}
	}
	return ""
}

func replaceLine(text, key, value string) string {
	return strings.Replace(text, lineOf(text, key), key+": "+value+"\n", 1)
}

func TestWithdrawalAndOverrideRefusals(t *testing.T) {
	o, w := kinds(t)[2], kinds(t)[1]
	for name, text := range map[string]string{
		"old short":                 replaceLine(overrideText, "old", zeros[1:]),
		"old of another length":     replaceLine(overrideText, "old", strings.Repeat("0", 64)),
		"old in capitals":           replaceLine(overrideText, "old", strings.ToUpper(aCommit)),
		"new in capitals":           replaceLine(overrideText, "new", strings.ToUpper(aCommit)),
		"new of zeros":              replaceLine(replaceLine(overrideText, "old", aCommit), "new", zeros),
		"new of another length":     replaceLine(overrideText, "new", longCommit),
		"the same commit":           replaceLine(overrideText, "old", aCommit),
		"both of zeros":             replaceLine(overrideText, "new", zeros),
		"a name for a commit":       replaceLine(overrideText, "new", "refs/heads/main"),
		"ref short":                 replaceLine(overrideText, "ref", "main"),
		"ref pattern":               replaceLine(overrideText, "ref", "refs/heads/*"),
		"ref bidi":                  replaceLine(overrideText, "ref", "refs/heads/\u202emain"),
		"decision short":            replaceLine(overrideText, "decision", "sha256:5c01d2e8"),
		"decision without name":     replaceLine(overrideText, "decision", aHash),
		"decision by another name":  replaceLine(overrideText, "decision", "sha512:"+aHash),
		"expired at once":           replaceLine(overrideText, "expires", "2026-11-30T00:00:00Z"),
		"expired before":            replaceLine(overrideText, "expires", "2026-11-29T00:00:00Z"),
		"seven days and one second": replaceLine(overrideText, "expires", "2026-12-07T00:00:01Z"),
	} {
		if text == overrideText {
			t.Fatalf("%s: nothing is changed", name)
		}
		if err := o.parse([]byte(text)); err == nil {
			t.Errorf("override, %s: accepted", name)
		}
	}
	for name, text := range map[string]string{
		"as it is":           overrideText,
		"seven days":         replaceLine(overrideText, "expires", "2026-12-07T00:00:00Z"),
		"between commits":    replaceLine(overrideText, "old", strings.Repeat("1", 40)),
		"SHA-256 repository": replaceLine(replaceLine(overrideText, "old", strings.Repeat("0", 64)), "new", longCommit),
	} {
		if err := o.parse([]byte(text)); err != nil {
			t.Errorf("override, %s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"approval short":        replaceLine(withdrawalText, "approval", "sha256:5896"),
		"approval without name": replaceLine(withdrawalText, "approval", aHash),
		"approval in capitals":  replaceLine(withdrawalText, "approval", "sha256:"+strings.ToUpper(aHash)),
		"with an expiry":        strings.Replace(withdrawalText, "nonce:", "expires: 2026-12-01T00:00:00Z\nnonce:", 1),
	} {
		if err := w.parse([]byte(text)); err == nil {
			t.Errorf("withdrawal, %s: accepted", name)
		}
	}
}

func TestBlobsOfEveryKindAreATokenAndALineFeed(t *testing.T) {
	signer := softSigner(t, vectorKey())
	for _, k := range kinds(t) {
		good := string(blobOf(k.text, sign(t, signer, k.namespace, []byte(k.text), "")))
		if err := k.blob([]byte(good)); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		token := strings.TrimSuffix(good, "\n")
		for name, text := range map[string]string{
			"empty": "", "line feed": "\n", "no line feed": token, "two": good + "\n", "CRLF": token + "\r\n", "twice": good + good,
			"space before": " " + good, "trailer": TrailerKey + ": " + good, "NUL": token + "\x00\n", "no final dot": token[:len(token)-1] + "\n",
			"two tokens": token + token + "\n", "version": "v2" + good[2:], "no signature": "v1." + base64.RawURLEncoding.EncodeToString([]byte(k.text)) + "..\n",
		} {
			if err := k.blob([]byte(text)); err == nil {
				t.Errorf("%s: %s: accepted", k.name, name)
			}
		}
	}
}

func TestWhenEachKindCounts(t *testing.T) {
	signer := softSigner(t, vectorKey())
	key := keyLine(signer.PublicKey())
	issued := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for _, k := range kinds(t) {
		blob := blobOf(k.text, sign(t, signer, k.namespace, []byte(k.text), ""))
		late := ErrExpired
		if k.longest == 0 {
			late = nil
		}
		for name, c := range map[string]struct {
			maintainers, revoked string
			now                  time.Time
			want                 error
		}{
			"at once":                {"alice " + key, "", issued, nil},
			"clocks apart a little":  {"alice " + key, "", issued.Add(-Skew), nil},
			"clocks apart too much":  {"alice " + key, "", issued.Add(-Skew - time.Second), ErrNotYetValid},
			"years later":            {"alice " + key, "", issued.AddDate(5, 0, 0), late},
			"unknown key":            {"alice " + freshKey(t), "", issued, ErrUnknownSigner},
			"revoked key":            {"alice " + key, key, issued, ErrRevoked},
			"revoked and not listed": {"alice " + freshKey(t), key, issued, ErrRevoked},
			"expired key":            {`alice valid-before="20261130Z" ` + key, "", issued, ErrKeyNotValid},
			"key for this only":      {`alice namespaces="` + k.namespace + `" ` + key, "", issued, nil},
			"key for git only":       {`alice namespaces="git" ` + key, "", issued, ErrKeyNotValid},
		} {
			f := files(t, c.maintainers+"\n", c.revoked, "")
			signers, err := LoadSigners(f[0], f[1], f[2])
			if err != nil {
				t.Fatal(err)
			}
			signed, err := k.verify(signers, blob, c.now)
			if !errors.Is(err, c.want) || (err == nil) != (signed.Person == "alice") {
				t.Errorf("%s, %s: %+v %v, want %v", k.name, name, signed, err, c.want)
			}
		}
		if k.longest == 0 {
			continue
		}
		signers := load(t, "alice "+key+"\n")
		expires, err := time.Parse(timeForm, strings.TrimSuffix(strings.TrimPrefix(lineOf(k.text, "expires"), "expires: "), "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.verify(signers, blob, expires.Add(-time.Second)); err != nil {
			t.Errorf("%s, in its last second: %v", k.name, err)
		}
		if _, err := k.verify(signers, blob, expires); !errors.Is(err, ErrExpired) {
			t.Errorf("%s, expired: %v", k.name, err)
		}
	}
	if _, err := (Signers{}).VerifyWithdrawal(SignedWithdrawal{}, issued); err == nil {
		t.Error("the zero withdrawal counts")
	}
	if _, err := (Signers{}).VerifyOverride(SignedOverride{}, issued); err == nil {
		t.Error("the zero override counts")
	}
}

func TestNewWithdrawalAndOverride(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 999, time.FixedZone("x", 3600))
	w, err := NewWithdrawal(kindsRepo, aHash, kindsReason, now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewWithdrawal(kindsRepo, aHash, kindsReason, now)
	if err != nil || w.Nonce == again.Nonce || w.Hash() == again.Hash() || w.Issued.Format(timeForm) != "2026-03-01T11:00:00Z" {
		t.Errorf("%+v, %+v, %v", w, again, err)
	}
	raw, err := w.Bytes()
	if back, readErr := ParseWithdrawal(raw); err != nil || readErr != nil || back != w {
		t.Errorf("%+v %v %v", back, err, readErr)
	}
	o, err := NewOverride(kindsRepo, "refs/heads/main", zeros, aCommit, aHash, kindsReason, now, 0)
	if err != nil || o.Expires.Sub(o.Issued) != DefaultOverrideLife {
		t.Fatalf("%+v %v", o, err)
	}
	raw, err = o.Bytes()
	if back, readErr := ParseOverride(raw); err != nil || readErr != nil || back != o {
		t.Errorf("%+v %v %v", back, err, readErr)
	}
	for name, make := range map[string]func() error{
		"withdrawal without reason": func() error { _, err := NewWithdrawal(kindsRepo, aHash, "", now); return err },
		"withdrawal, two lines":     func() error { _, err := NewWithdrawal(kindsRepo, aHash, "a good\nnonce: x", now); return err },
		"withdrawal of a name":      func() error { _, err := NewWithdrawal(kindsRepo, "sha256:"+aHash, kindsReason, now); return err },
		"override, long life": func() error {
			_, err := NewOverride(kindsRepo, "refs/heads/main", zeros, aCommit, aHash, kindsReason, now, MaxOverrideLife+time.Second)
			return err
		},
		"override, no life": func() error {
			_, err := NewOverride(kindsRepo, "refs/heads/main", zeros, aCommit, aHash, kindsReason, now, -time.Second)
			return err
		},
		"the zero withdrawal": func() error { _, err := Withdrawal{}.Bytes(); return err },
		"the zero override":   func() error { _, err := Override{}.Bytes(); return err },
	} {
		if make() == nil {
			t.Errorf("%s: made", name)
		}
	}
}

func FuzzParseWithdrawal(f *testing.F) {
	f.Add([]byte(withdrawalText))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := ParseWithdrawal(raw)
		if err != nil {
			if w != (Withdrawal{}) {
				t.Errorf("an error comes with %+v", w)
			}
			return
		}
		again, err := w.Bytes()
		if err != nil || !bytes.Equal(again, raw) || w.Hash() != hashOf(raw) {
			t.Errorf("another spelling of %q: %q %v", raw, again, err)
		}
	})
}

func FuzzParseOverride(f *testing.F) {
	f.Add([]byte(overrideText))
	f.Add([]byte(replaceLine(overrideText, "old", strings.Repeat("1", 40))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := ParseOverride(raw)
		if err != nil {
			if o != (Override{}) {
				t.Errorf("an error comes with %+v", o)
			}
			return
		}
		again, err := o.Bytes()
		if err != nil || !bytes.Equal(again, raw) || o.Hash() != hashOf(raw) {
			t.Errorf("another spelling of %q: %q %v", raw, again, err)
		}
	})
}

// FuzzBlobs reads one blob as each kind: at most one takes it, and writes it again
// as it was.
func FuzzBlobs(f *testing.F) {
	signer := softSigner(f, vectorKey())
	for _, k := range kinds(f) {
		f.Add(blobOf(k.text, sign(f, signer, k.namespace, []byte(k.text), "")))
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		var again [][]byte
		if tok, err := ParseTokenBlob(blob); err == nil {
			again = append(again, blobOf(string(tok.Statement.Bytes()), tok.Signature))
		}
		if w, err := ParseWithdrawalBlob(blob); err == nil {
			again = append(again, blobOf(string(w.Statement.text()), w.Signature))
		}
		if o, err := ParseOverrideBlob(blob); err == nil {
			again = append(again, blobOf(string(o.Statement.text()), o.Signature))
		}
		if len(again) > 1 {
			t.Errorf("of %d kinds: %q", len(again), blob)
		}
		for _, b := range again {
			if !bytes.Equal(b, blob) {
				t.Errorf("another spelling of %q: %q", blob, b)
			}
		}
	})
}
