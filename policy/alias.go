package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Alias says whether path (the raw bytes of an entry's full path) lands on a
// path that p names once some file system has had its way with it: case folding,
// Unicode normalisation, ignorable code points, trailing dots and spaces, a
// directory of nothing but those, an NTFS stream, a backslash taken for a slash,
// or an 8.3 short name. A path that p names by its own bytes is no alias, nor is
// one below it.
//
// A shorter path counts as well where it aliases a directory on the way that a
// pattern spells out: an entry "APP" beside "app/oracles/" replaces it.
func Alias(path []byte, p Patterns) bool {
	if len(p.list) == 0 || p.Match(path) {
		return false
	}
	text := string(path)
	names := splitForeign(text)
	folded := make([]foldedName, 0, len(names))
	kept := names[:0]
	for i, name := range names {
		f := foldName(name)
		switch {
		case strings.Trim(string(f), ". ") != "":
			kept, folded = append(kept, name), append(folded, f)
		case i == len(names)-1:
			return false
		}
	}
	if len(kept) == 0 {
		return false
	}
	differs := len(kept) < len(names) || strings.Contains(text, `\`)
	for i := range p.list {
		if p.list[i].aliasedBy(kept, folded, differs) {
			return true
		}
	}
	return false
}

// aliasedBy: differs says that the names are not those of the path as it stands.
func (one *pattern) aliasedBy(names []string, folded []foldedName, differs bool) bool {
	for i, comp := range one.glob.comps {
		if i == len(folded) {
			return differs // stands where a directory on the way must be
		}
		if strings.ContainsAny(comp, "*?") {
			return globAlias(folded[i:], glob{one.folded[i:]})
		}
		if !folded[i].same(one.folded[i]) {
			return false
		}
		differs = differs || names[i] != comp
	}
	return differs
}

// foldComps are the components of a pattern as foldName has the names they match.
func foldComps(comps []string) []string {
	out := make([]string, len(comps))
	for i, comp := range comps {
		switch {
		case comp == "**":
			out[i] = comp
		case strings.ContainsAny(comp, "*?"):
			out[i] = fold(comp)
		default:
			out[i] = string(foldName(comp))
		}
	}
	return out
}

func globAlias(folded []foldedName, g glob) bool {
	texts := make([]string, len(folded))
	for i, name := range folded {
		texts[i] = string(name)
	}
	return g.firstMatch(texts, func(pattern, name string) bool {
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
	if plainName(name) {
		return foldedName(name)
	}
	if at := strings.IndexByte(name, ':'); at > 0 {
		name = name[:at]
	}
	return foldedName(trimEnd(fold(name)))
}

// plainName says that folding leaves a name as it is.
func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' || c == ':' || c == '.' || c == ' ' {
			return false
		}
	}
	return true
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
	return norm.NFKC.String(fullFolds.Replace(s))
}

// fullFolds are what simple folding of decomposed text leaves of full folding, and
// the dot that a lower case i has anyway.
var fullFolds = strings.NewReplacer("\u00df", "ss", "i\u0307", "i")

// foldRune is simple case folding (all of a rune's case forms give the same
// one), and -1 for what is ignored. The dotless i has the capital of the i.
func foldRune(r rune) rune {
	if ignorable(r) {
		return -1
	}
	if r == '\u0131' {
		return 'i'
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
	case r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a:
		return true
	default:
		return false
	}
}

// same says whether the name may land on want, a literal component, folded.
func (f foldedName) same(want string) bool {
	return string(f) == want || f.shortFor(want)
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
