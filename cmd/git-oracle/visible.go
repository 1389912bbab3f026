package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible shows one line of foreign text so that it can neither steer a
// terminal nor look like something else: control, bidirectional and invisible
// characters, and bytes that are no UTF-8, become escapes. A tab stays.
func visible(line string) string {
	if isPlain(line) {
		return line
	}
	var b strings.Builder
	for len(line) > 0 {
		r, size := utf8.DecodeRuneInString(line)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, line[0])
		case shows(r):
			b.WriteString(line[:size])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		line = line[size:]
	}
	return b.String()
}

func isPlain(line string) bool {
	for i := range len(line) {
		if c := line[i]; (c < ' ' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

// shows tells whether a rune can be seen for what it is. Unicode calls some
// blank letters graphic (U+115F, U+3164); they are default-ignorable.
func shows(r rune) bool {
	if r == '\t' {
		return true
	}
	return unicode.IsGraphic(r) &&
		!unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// quoted shows a path or ref name: as it is where every byte is plain, else in
// quotes with escapes.
func quoted(name string) string {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return quoteAlways(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

func quoteAlways(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, part := range splitKeep(name) {
		switch part {
		case `"`, `\`:
			b.WriteString(`\` + part)
		case "\n":
			b.WriteString(`\n`)
		case "\t":
			b.WriteString(`\t`)
		default:
			b.WriteString(visible(part))
		}
	}
	b.WriteByte('"')
	return b.String()
}

// splitKeep cuts a string into runes, invalid bytes each for itself.
func splitKeep(s string) []string {
	var parts []string
	for len(s) > 0 {
		_, size := utf8.DecodeRuneInString(s)
		parts = append(parts, s[:size])
		s = s[size:]
	}
	return parts
}

// word writes a name into a command that somebody may paste into a shell; a
// ref name may hold nearly everything that a shell expands.
func word(name string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@:+=~^-"
	if name != "" && onlyOf(name, safe) {
		return name
	}
	if !isPlain(name) {
		return quoted(name) // no shell would read it back: it is to be looked at first
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

func onlyOf(text, set string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(set, r) })
}
