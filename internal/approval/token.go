package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	// TrailerKey starts the line that carries a token; ReasonKey the line that
	// shows the reason.
	TrailerKey = "Oracle-Change-Signature"
	ReasonKey  = "Oracle-Change"

	tokenVersion = "v1"
	maxSignature = 8 << 10
	maxFound     = 20_000
	maxToken     = len(tokenVersion) + 3 + (MaxStatement+2)/3*4 + (maxSignature+2)/3*4
)

// Token is a statement and its signature in the form that travels:
// "v1.<base64url(statement)>.<base64url(SSHSIG)>.".
type Token struct {
	Raw       string
	Statement Statement
	Hash      string // of the statement
	Signature []byte // SSHSIG, raw
}

// Another is the name of a token below refs/oracle/approvals/ where the statement's
// hash is taken: that, and the hash of the key, for a statement that several people
// signed.
func (t Token) Another() string {
	sig, err := ParseSignature(t.Signature)
	if err != nil {
		return t.Hash // no token has such a signature
	}
	sum := sha256.Sum256(sig.Key.Marshal())
	return t.Hash + "-" + hex.EncodeToString(sum[:])
}

// Goes says whether a token may have this name below refs/oracle/approvals/.
func (t Token) Goes(name string) bool { return name == t.Hash || name == t.Another() }

// FormatToken makes a token of a statement's bytes and a raw SSHSIG.
func FormatToken(statement, sshsig []byte) string {
	return tokenVersion + "." + base64.RawURLEncoding.EncodeToString(statement) + "." +
		base64.RawURLEncoding.EncodeToString(sshsig) + "."
}

// ParseToken reads exactly one token, nothing around it. It checks forms, no
// signature: Signers.Verify does that.
func ParseToken(raw string) (Token, error) {
	statement, sig, err := splitToken(raw)
	if err != nil {
		return Token{}, fmt.Errorf("read token: %w", err)
	}
	t := Token{Raw: raw, Signature: sig}
	if t.Statement, err = ParseStatement(statement); err != nil {
		return Token{}, fmt.Errorf("read token: %w", err)
	}
	t.Hash = t.Statement.Hash()
	return t, nil
}

// splitToken takes a token of any kind apart, and looks whether its second part
// is a signature of the form that ParseSignature wants.
func splitToken(raw string) (statement, sig []byte, err error) {
	if len(raw) > maxToken {
		return nil, nil, fmt.Errorf("%d bytes, more than %d", len(raw), maxToken)
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 4 || parts[0] != tokenVersion || parts[3] != "" {
		return nil, nil, errors.New("want v1.<statement>.<signature>. and nothing else")
	}
	if statement, err = decodeBase64URL(parts[1]); err != nil {
		return nil, nil, fmt.Errorf("statement: %w", err)
	}
	if sig, err = decodeBase64URL(parts[2]); err != nil {
		return nil, nil, fmt.Errorf("signature: %w", err)
	}
	if _, err := ParseSignature(sig); err != nil {
		return nil, nil, err
	}
	return statement, sig, nil
}

// ParseTokenBlob reads the content of a blob below refs/oracle/approvals/: a
// token and one line feed.
func ParseTokenBlob(content []byte) (Token, error) {
	line, err := oneLine(content)
	if err != nil {
		return Token{}, fmt.Errorf("read approval blob: %w", err)
	}
	return ParseToken(line)
}

// oneLine is the line that a blob with a token of any kind has.
func oneLine(content []byte) (string, error) {
	line, ok := bytes.CutSuffix(content, []byte("\n"))
	if !ok {
		return "", errors.New("want one line ended by a line feed")
	}
	return string(line), nil
}

// decodeBase64URL accepts one spelling: no padding, no line breaks, no stray bits.
func decodeBase64URL(s string) ([]byte, error) {
	for i := range len(s) {
		if !isBase64URL(s[i]) {
			return nil, fmt.Errorf("byte %d is not base64url", i)
		}
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

func isBase64URL(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// FindTokens returns what may be a token in a raw commit message, each once, in
// order: what follows "Oracle-Change-Signature:" on any line, wherever it stands
// in the line, up to its third dot. What is bound is content, so a quoted,
// indented or glued line is as good as a trailer. Unbroken only: a token that
// was wrapped is none. The time is linear in the message, and after 20,000
// candidates nothing more is looked for.
func FindTokens(message []byte) []string {
	var out []string
	seen := map[string]bool{}
	for rest := message; ; {
		at := indexFold(rest, TrailerKey)
		if at < 0 || len(out) == maxFound {
			return out
		}
		rest = rest[at+len(TrailerKey):]
		token, ok := tokenAfterKey(rest)
		if ok && !seen[token] {
			seen[token] = true
			out = append(out, token)
		}
	}
}

func tokenAfterKey(rest []byte) (string, bool) {
	rest = skipBlanks(rest)
	if len(rest) == 0 || rest[0] != ':' {
		return "", false
	}
	rest = skipBlanks(rest[1:])
	if !bytes.HasPrefix(rest, []byte(tokenVersion+".")) {
		return "", false
	}
	dots := 0
	for i, c := range rest[:min(len(rest), maxToken)] {
		switch {
		case c == '.':
			if dots++; dots == 3 {
				return string(rest[:i+1]), true
			}
		case !isBase64URL(c):
			return "", false
		}
	}
	return "", false
}

// maxBlanks bounds the space around the colon, so that nothing is scanned twice.
const maxBlanks = 64

func skipBlanks(b []byte) []byte {
	n := 0
	for n < len(b) && n < maxBlanks && (b[n] == ' ' || b[n] == '\t') {
		n++
	}
	return b[n:]
}

// indexFold finds key in any case. Both are ASCII where they match.
func indexFold(b []byte, key string) int {
	for from := 0; ; {
		at := bytes.IndexAny(b[from:], "oO")
		if at < 0 {
			return -1
		}
		from += at
		if len(b)-from < len(key) {
			return -1
		}
		if foldEqual(b[from:from+len(key)], key) {
			return from
		}
		from++
	}
}

func foldEqual(b []byte, key string) bool {
	for i := range len(key) {
		if lower(b[i]) != lower(key[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
