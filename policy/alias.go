package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Alias says whether path (the raw bytes of an entry's full path) lands on a
// path that p names once some file system has had its way with it: case folding,
// Unicode normalisation, ignorable code points, trailing dots and spaces, an
// NTFS stream, a backslash taken for a slash, or an 8.3 short name. A path that
// p names by its own bytes is no alias, nor is one below it.
//
// A shorter path counts as well where it aliases a directory on the way to a
// plain pattern: an entry "APP" beside "app/oracles/" replaces it.
func Alias(path []byte, p Patterns) bool {
	if p.Match(path) {
		return false
	}
	names := splitForeign(string(path))
	folded := make([]foldedName, len(names))
	for i, name := range names {
		folded[i] = foldName(name)
	}
	if len(names) == 0 {
		return false
	}
	for i := range p.list {
		if aliasOf(names, folded, &p.list[i], path) {
			return true
		}
	}
	return false
}

func aliasOf(names []string, folded []foldedName, one *pattern, path []byte) bool {
	if !one.plain {
		return globAlias(folded, one.glob)
	}
	comps := one.glob.comps
	differs := strings.Contains(string(path), `\`)
	for i, comp := range comps {
		if i == len(folded) {
			return differs // stands where a directory on the way must be
		}
		if !folded[i].same(comp) {
			return false
		}
		differs = differs || names[i] != comp
	}
	return differs
}

func globAlias(folded []foldedName, g glob) bool {
	texts := make([]string, len(folded))
	for i, name := range folded {
		texts[i] = string(name)
	}
	patterns := glob{comps: make([]string, len(g.comps))}
	for i, comp := range g.comps {
		patterns.comps[i] = comp
		if !strings.ContainsAny(comp, "*?") {
			patterns.comps[i] = string(foldName(comp))
		} else if comp != "**" {
			patterns.comps[i] = fold(comp)
		}
	}
	return patterns.firstMatch(texts, func(pattern, name string) bool {
		// A component with wildcards has no short name that could be known.
		return matchComponent(pattern, name) ||
			!strings.ContainsAny(pattern, "*?") && foldedName(name).shortFor(pattern)
	}) >= 0
}

// splitForeign splits at slashes, and at backslashes as Windows does, which also
// resolves "." and "..".
func splitForeign(path string) []string {
	if !strings.Contains(path, `\`) {
		return strings.Split(path, "/")
	}
	var out []string
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch {
		case name == ".":
		case name == ".." && len(out) > 0:
			out = out[:len(out)-1]
		default:
			out = append(out, name)
		}
	}
	return out
}

// foldedName is a name as the laxest file system compares it.
type foldedName string

// foldName drops an NTFS stream, ignorable code points, and trailing dots and
// spaces, and folds case and normalisation.
func foldName(name string) foldedName {
	if at := strings.IndexByte(name, ':'); at > 0 {
		name = name[:at]
	}
	return foldedName(trimEnd(fold(name)))
}

// trimEnd leaves a name of nothing but dots and spaces alone.
func trimEnd(s string) string {
	if t := strings.TrimRight(s, ". "); t != "" {
		return t
	}
	return s
}

// fold is compatibility composition (ZFS can compare that way, others compare
// canonical forms) and full case folding, without ignorable code points.
func fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	s = strings.Map(foldRune, norm.NFKD.String(strings.Map(foldRune, s)))
	return norm.NFKC.String(strings.ReplaceAll(s, "\u00df", "ss"))
}

// foldRune is simple case folding (all of a rune's case forms give the same
// one), and -1 for what is ignored. Of full folding, compatibility decomposition
// gives all but the sharp s.
func foldRune(r rune) rune {
	if ignorable(r) {
		return -1
	}
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return unicode.ToLower(least)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// ignorable is the Unicode property Default_Ignorable_Code_Point, of which HFS+
// ignores a part (git's list in utf8.c is U+200C..U+200F, U+202A..U+202E,
// U+206A..U+206F, U+FEFF).
func ignorable(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0x3164, r == 0xfeff, r == 0xffa0:
		return true
	case r >= 0x115f && r <= 0x1160, r >= 0x17b4 && r <= 0x17b5, r >= 0x180b && r <= 0x180f:
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f:
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff0 && r <= 0xfff8, r >= 0xe0000 && r <= 0xe0fff:
		return true
	default:
		return false
	}
}

// same says whether the name may land on want, a literal component.
func (f foldedName) same(want string) bool {
	folded := foldName(want)
	return f == folded || f.shortFor(string(folded))
}

// shortFor says whether the name is an 8.3 short name that Windows may have given
// to long, which is folded: six characters (fewer before a longer number), "~"
// and a number, and three of the extension; or, after some collisions, two
// characters and four hexadecimal digits before the "~".
func (f foldedName) shortFor(long string) bool {
	base, ext, _ := strings.Cut(string(f), ".")
	stem, number, ok := strings.Cut(base, "~")
	if !ok || len(base) > 8 || stem == "" || !digits(number) || number[0] == '0' {
		return false
	}
	longBase, longExt := shortParts(long)
	if ext != longExt {
		return false
	}
	if len(stem) == 6 && lowerHex(stem[2:], 4) && strings.HasPrefix(longBase, stem[:2]) {
		return true
	}
	return stem == longBase[:min(len(longBase), 6, 7-len(number))]
}

// shortParts are the base and extension that a short name of long starts from.
func shortParts(long string) (base, ext string) {
	if at := strings.LastIndexByte(long, '.'); at > 0 {
		long, ext = long[:at], long[at+1:]
	}
	return shortChars(long), first(shortChars(ext), 3)
}

func shortChars(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '.' || unicode.IsSpace(r):
			return -1
		case r >= utf8.RuneSelf || strings.ContainsRune(`+,;=[]`, r):
			return '_'
		default:
			return r
		}
	}, s)
}

func first(s string, n int) string { return s[:min(len(s), n)] }
