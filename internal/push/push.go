// Package push reads what receive-pack tells a pre-receive hook: the ref
// updates on standard input and the environment of the quarantine. It reads
// strictly: one malformed line refuses the whole push, because a line that is
// skipped is a ref that nobody judged.
package push

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxUpdates bounds the refs of one push.
	MaxUpdates = 10_000
	// maxLine is two ids, two spaces and the longest ref name that is read.
	maxLine = 2*64 + 2 + 4096
)

// Update asks for one ref to move. Old and New are full object ids in
// lower-case hexadecimal, of one length in a push; all zeros stands for none.
type Update struct {
	Old, New, Ref string
}

// Create says that the ref does not exist yet, as the client sees it.
func (u Update) Create() bool { return zero(u.Old) && !zero(u.New) }

// Delete says that the ref shall go.
func (u Update) Delete() bool { return zero(u.New) }

// Zero says whether id is all zeros, which stands for no object.
func Zero(id string) bool { return zero(id) }

func zero(id string) bool { return strings.Trim(id, "0") == "" }

// Parse reads "<old> SP <new> SP <ref> LF" lines to the end, as githooks(5)
// describes them. No updates, a second update of one ref, a last line without
// its end, and anything else receive-pack does not write are errors.
func Parse(r io.Reader) ([]Update, error) {
	var (
		in      = bufio.NewReaderSize(r, maxLine+1)
		updates []Update
		seen    = map[string]int{}
		width   int
	)
	for line := 1; ; line++ {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			break
		}
		if err != nil {
			return nil, badLine(line, err)
		}
		if line > MaxUpdates {
			return nil, fmt.Errorf("read ref updates: more than %d refs in one push", MaxUpdates)
		}
		u, err := parseLine(text[:len(text)-1])
		if err != nil {
			return nil, fmt.Errorf("read ref updates: line %d: %w", line, err)
		}
		if width == 0 {
			width = len(u.Old)
		}
		if len(u.Old) != width {
			return nil, fmt.Errorf("read ref updates: line %d: ids of %d digits after ids of %d", line, len(u.Old), width)
		}
		if first, twice := seen[u.Ref]; twice {
			return nil, fmt.Errorf("read ref updates: line %d: ref %q stands in line %d already", line, u.Ref, first)
		}
		seen[u.Ref] = line
		updates = append(updates, u)
	}
	if len(updates) == 0 {
		return nil, errors.New("read ref updates: there is none")
	}
	return updates, nil
}

func badLine(line int, err error) error {
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("read ref updates: line %d: longer than %d bytes", line, maxLine)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("read ref updates: line %d: it does not end", line)
	default:
		return fmt.Errorf("read ref updates: line %d: %w", line, err)
	}
}

func parseLine(line []byte) (Update, error) {
	if bytes.IndexByte(line, 0) >= 0 || bytes.IndexByte(line, '\r') >= 0 {
		return Update{}, fmt.Errorf("%q has a control character", line)
	}
	old, rest, ok := bytes.Cut(line, []byte(" "))
	id, ref, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 {
		return Update{}, fmt.Errorf("%q is not two ids and a ref", line)
	}
	u := Update{Old: string(old), New: string(id), Ref: string(ref)}
	if !ValidID(u.Old) || !ValidID(u.New) || len(u.Old) != len(u.New) {
		return Update{}, fmt.Errorf("%q does not start with two full ids", line)
	}
	if what := badRef(u.Ref); what != "" {
		return Update{}, fmt.Errorf("ref %q %s", u.Ref, what)
	}
	return u, nil
}

// ValidID says whether id is a full object id: 40 or 64 lower-case hexadecimal
// digits.
func ValidID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}

// badRef follows git-check-ref-format(1): receive-pack checks names only after
// the hook, and an odd name must not reach a git child's command line.
func badRef(ref string) string {
	rest, ok := strings.CutPrefix(ref, "refs/")
	if !ok || rest == "" {
		return "is not below refs/"
	}
	if i := strings.IndexFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return "has a space or control character"
	}
	if strings.ContainsAny(ref, "~^:?*[\\") || strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.HasSuffix(ref, ".") {
		return "is no name that git accepts"
	}
	for comp := range strings.SplitSeq(rest, "/") {
		if comp == "" || comp[0] == '.' || strings.HasSuffix(comp, ".lock") {
			return "is no name that git accepts"
		}
	}
	return ""
}
