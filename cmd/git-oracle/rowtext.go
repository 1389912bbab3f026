package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// rowSpec is an invariant as it is to be written into an oracle file. Numbers are
// the words of the command line; an empty word is left out.
type rowSpec struct {
	id, entry, kind, blob, sum  string
	min, max, seed, repeat      string
	absTol, relTol              string
	args                        []string
	strict, sequence, unordered bool
}

// text is the row in TOML, with an empty line before it and keys in the order of
// docs/formats.md.
func (r rowSpec) text() string {
	var b strings.Builder
	b.WriteString("\n[[invariant]]\n")
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s = %s\n", key, value)
		}
	}
	flag := func(key string, on bool) {
		if on {
			line(key, "true")
		}
	}
	line("id", tomlString(r.id))
	line("entry", tomlString(r.entry))
	line("kind", tomlString(r.kind))
	line("min", r.min)
	line("max", r.max)
	line("seed", r.seed)
	line("args", tomlList(r.args))
	line("repeat", r.repeat)
	flag("strict", r.strict)
	flag("sequence", r.sequence)
	flag("unordered", r.unordered)
	line("abs_tol", r.absTol)
	line("rel_tol", r.relTol)
	line("blob", tomlString(r.blob))
	line("blob_sha256", tomlString(r.sum))
	return b.String()
}

// tomlString writes a basic string. What TOML does not allow stays as it is: the
// reader refuses it.
func tomlString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	b.WriteByte('"')
	return b.String()
}

func tomlList(items []string) string {
	if len(items) == 0 {
		return ""
	}
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = tomlString(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

var tomlNumber = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// append adds a row to a file's text, with the line ends that the file has.
func (r rowSpec) append(text []byte) []byte {
	row := []byte(r.text())
	if end := bytes.IndexByte(text, '\n'); end > 0 && text[end-1] == '\r' {
		row = bytes.ReplaceAll(row, []byte("\n"), []byte("\r\n"))
	}
	out := bytes.Clone(text)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, row[:bytes.IndexByte(row, '\n')+1]...)
	}
	return append(out, row...)
}
