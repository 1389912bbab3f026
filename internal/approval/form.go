package approval

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	timeForm   = "2006-01-02T15:04:05Z"
	nonceBytes = 16
)

// form is how one kind of statement is written: a first line that no other kind
// has, then "key: value" lines in this order, and nothing else.
type form struct {
	kind  string // in errors
	title string
	keys  []string
}

func (f form) write(values ...string) []byte {
	var b bytes.Buffer
	b.WriteString(f.title + "\n")
	for i, key := range f.keys {
		b.WriteString(key + ": " + values[i] + "\n")
	}
	return b.Bytes()
}

// read splits a statement into the values of its lines. What a value may be is
// the caller's to say, and that writing it again gives raw.
func (f form) read(raw []byte) ([]string, error) {
	if len(raw) > MaxStatement {
		return nil, fmt.Errorf("%d bytes, more than %d", len(raw), MaxStatement)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	lines := strings.Split(string(raw), "\n")
	if lines[0] != f.title {
		return nil, fmt.Errorf("line 1: want %q", f.title)
	}
	if len(lines) != len(f.keys)+2 || lines[len(lines)-1] != "" {
		return nil, fmt.Errorf("want %d lines, each ended by a line feed", len(f.keys)+1)
	}
	values := make([]string, len(f.keys))
	for i, key := range f.keys {
		value, ok := strings.CutPrefix(lines[i+1], key+": ")
		if !ok {
			return nil, fmt.Errorf("line %d: want %q", i+2, key+": ")
		}
		values[i] = value
	}
	return values, nil
}

func (f form) fault(err error) error { return fmt.Errorf("read %s: %w", f.kind, err) }

func (f form) otherSpelling() error { return f.fault(errors.New("not in its one spelling")) }

func formatTime(t time.Time) string { return t.UTC().Format(timeForm) }

func parseTime(key, value string) (time.Time, error) {
	t, err := time.Parse(timeForm, value)
	if err != nil || t.Format(timeForm) != value {
		return time.Time{}, fmt.Errorf("%s %q: want YYYY-MM-DDThh:mm:ssZ", key, value)
	}
	return t, nil
}

func newNonce() (string, error) {
	nonce := make([]byte, nonceBytes)
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("make nonce: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(nonce), nil
}

func checkNonce(text string) error {
	if nonce, err := decodeBase64URL(text); err != nil || len(nonce) != nonceBytes {
		return fmt.Errorf("nonce %q: want 22 characters of base64url", text)
	}
	return nil
}

// checkLife says what is wrong with the time from issue to expiry.
func checkLife(issued, expires time.Time, longest time.Duration) error {
	switch {
	case !expires.After(issued):
		return errors.New("it expires before it is issued")
	case expires.Sub(issued) > longest:
		return fmt.Errorf("it is valid for more than %d days", longest/(24*time.Hour))
	default:
		return nil
	}
}
