package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxPatterns      = 256
	maxPatternLength = 1000
)

// Patterns name protected or forbidden paths of a tree. A pattern names the
// entry it spells, whatever its type, and everything below it: "oracles/",
// "oracles" and "oracles/**" name the same paths. "*" and "?" stand for any
// bytes and one byte within a component, "**" alone for any number of
// components. The zero value names nothing.
type Patterns struct {
	list []pattern // sorted by text
}

type pattern struct {
	text   string
	glob   glob
	folded []string // its components, for aliases
	plain  bool     // no wildcard
}

// ParsePatterns reads patterns as an admin wrote them; the error names every
// bad one. An empty list is an error: a rule that never matches is no rule.
func ParsePatterns(texts []string) (Patterns, error) {
	if len(texts) == 0 {
		return Patterns{}, errors.New("read path patterns: the list is empty")
	}
	if len(texts) > maxPatterns {
		return Patterns{}, fmt.Errorf("read path patterns: more than %d", maxPatterns)
	}
	var (
		p    Patterns
		errs []error
		seen = map[string]string{}
	)
	for _, text := range texts {
		one, err := parsePattern(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		meaning := strings.Join(one.glob.comps, "/")
		if first, ok := seen[meaning]; ok {
			errs = append(errs, fmt.Errorf("read path pattern %q: %q names the same paths", text, first))
			continue
		}
		seen[meaning] = text
		p.list = append(p.list, one)
	}
	if len(errs) > 0 {
		return Patterns{}, errors.Join(errs...)
	}
	slices.SortFunc(p.list, func(a, b pattern) int { return strings.Compare(a.text, b.text) })
	return p, nil
}

func parsePattern(text string) (pattern, error) {
	comps, what := patternComponents(text)
	if what != "" {
		return pattern{}, fmt.Errorf("read path pattern %q: %s", text, what)
	}
	return pattern{text: text, glob: glob{comps: comps}, folded: foldComps(comps), plain: isPlain(comps)}, nil
}

func isPlain(comps []string) bool {
	return !slices.ContainsFunc(comps, func(c string) bool { return strings.ContainsAny(c, "*?") })
}

// patternComponents returns the components that decide, or what is wrong.
func patternComponents(text string) (comps []string, what string) {
	switch {
	case text == "":
		return nil, "it is empty"
	case len(text) > maxPatternLength:
		return nil, fmt.Sprintf("it is longer than %d bytes", maxPatternLength)
	case !utf8.ValidString(text):
		return nil, "it is not UTF-8"
	case strings.ContainsFunc(text, unicode.IsControl):
		return nil, "it has a control character"
	case text[0] == '/':
		return nil, "it is absolute; paths start at the root of the tree without a slash"
	case text[0] == ':' || text[0] == '!':
		return nil, fmt.Sprintf("a leading %q has no meaning here", text[:1])
	case strings.Contains(text, `\`):
		return nil, "components are separated by \"/\", and there is no escape"
	}
	comps = strings.Split(strings.TrimSuffix(text, "/"), "/")
	if what := badComponent(comps); what != "" {
		return nil, what
	}
	for len(comps) > 1 && comps[len(comps)-1] == "**" {
		comps = comps[:len(comps)-1]
	}
	if !slices.ContainsFunc(comps, func(c string) bool { return strings.Trim(c, "*?") != "" }) {
		return nil, "it has no literal part and would name every path"
	}
	return comps, ""
}

func badComponent(comps []string) string {
	for _, c := range comps {
		switch {
		case c == "":
			return "it has an empty component"
		case c == "." || c == "..":
			return fmt.Sprintf("it has a component %q", c)
		case strings.EqualFold(c, ".git"):
			return "no tree has an entry .git"
		case c != "**" && strings.Contains(c, "**"):
			return "\"**\" stands only alone between slashes"
		}
	}
	return ""
}

// Empty says that no path is named.
func (p Patterns) Empty() bool { return len(p.list) == 0 }

// Match says whether path, the raw bytes of an entry's full path, is at or below
// one of the patterns.
func (p Patterns) Match(path []byte) bool {
	var comps []string
	for i := range p.list {
		one := &p.list[i]
		if one.plain {
			if at(path, one.glob.comps) {
				return true
			}
			continue
		}
		if comps == nil {
			comps = strings.Split(string(path), "/")
		}
		if one.glob.matchPrefix(comps) >= 0 {
			return true
		}
	}
	return false
}

// Leads says whether an entry below the directory dir may match, so that a search
// has to look there. A directory that matches itself leads as well.
func (p Patterns) Leads(dir []byte) bool {
	comps := strings.Split(string(dir), "/")
	return slices.ContainsFunc(p.list, func(one pattern) bool { return one.glob.leads(comps) })
}

// Through says whether a named path may lead through the entry at path, which then has
// to be a directory: a link or a submodule there puts other files in the place of what
// is named. Where a pattern begins with "**" the names behind that are looked for
// anywhere, and what a link of another name leads to is named by the pattern itself.
func (p Patterns) Through(path []byte) bool {
	comps := strings.Split(string(path), "/")
	return !p.Match(path) && slices.ContainsFunc(p.list, func(one pattern) bool { return one.glob.through(comps) })
}

// at says whether path is at or below the plain path comps.
func at(path []byte, comps []string) bool {
	for i, comp := range comps {
		rest, ok := bytes.CutPrefix(path, []byte(comp))
		if !ok {
			return false
		}
		if len(rest) == 0 {
			return i == len(comps)-1
		}
		if rest[0] != '/' {
			return false
		}
		path = rest[1:]
	}
	return true
}

// Pathspecs is what git is asked so that it names every path that Match
// matches; git may name others, so its answer still goes through Match. A plain
// pattern becomes :(top,literal) without its trailing slash (with the slash git
// would not see a file, symlink or submodule of that name), and finds the entry
// and everything below. A wildcard becomes two :(top,glob) pathspecs, for the
// entry and for what is below. gitglossary(7), "pathspec".
func (p Patterns) Pathspecs() []string {
	var specs []string
	for _, one := range p.list {
		path := strings.Join(one.glob.comps, "/")
		if one.plain {
			specs = append(specs, ":(top,literal)"+path)
			continue
		}
		path = strings.ReplaceAll(path, "[", `\[`)
		specs = append(specs, ":(top,glob)"+path, ":(top,glob)"+path+"/**")
	}
	return specs
}

// Sorted are the patterns as they were written, in byte order.
func (p Patterns) Sorted() []string {
	out := make([]string, len(p.list))
	for i, one := range p.list {
		out[i] = one.text
	}
	return out
}

// Plain says that no pattern has a wildcard that matters.
func (p Patterns) Plain() bool {
	return !slices.ContainsFunc(p.list, func(one pattern) bool { return !one.plain })
}

// Roots are the plain paths named, without trailing slash; with Plain they are
// all there is.
func (p Patterns) Roots() []string {
	var out []string
	for _, one := range p.list {
		if one.plain {
			out = append(out, strings.Join(one.glob.comps, "/"))
		}
	}
	return out
}

// Digest identifies the list in an approval's "paths:" line: "sha256:" and the
// hash of "protected-paths v1\0" and each sorted pattern with "\0" after it.
func (p Patterns) Digest() string {
	h := sha256.New()
	h.Write([]byte("protected-paths v1\x00"))
	for _, one := range p.list {
		h.Write([]byte(one.text + "\x00"))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// glob is a path pattern by components. "**" stands for zero or more whole
// components; elsewhere "*" and "?" stay within one.
type glob struct {
	comps []string
}

// matchWhole says whether all of path matches; a trailing "**" wants at least
// one component, as refs/heads/release/** does not name refs/heads/release.
func (g glob) matchWhole(path []string) bool {
	last := len(g.comps) - 1
	if last < 0 {
		return false
	}
	if g.comps[last] != "**" {
		return g.firstMatch(path, matchComponent) == len(path)
	}
	head := glob{g.comps[:last]}
	n := head.firstMatch(path, matchComponent)
	return n >= 0 && n < len(path)
}

// matchPrefix is the length of the shortest prefix of path that matches, or -1.
func (g glob) matchPrefix(path []string) int {
	return g.firstMatch(path, matchComponent)
}

// firstMatch runs the pattern over path as a set of positions, so its cost is
// bounded by the product of both lengths whatever the stars are.
func (g glob) firstMatch(path []string, same func(pattern, name string) bool) int {
	end := len(g.comps)
	live, next := make([]bool, end+1), make([]bool, end+1)
	g.enter(live, 0)
	for i := 0; ; i++ {
		if live[end] {
			return i
		}
		if i == len(path) {
			return -1
		}
		clear(next)
		alive := false
		for at, on := range live[:end] {
			switch {
			case !on:
			case g.comps[at] == "**":
				g.enter(next, at)
				alive = true
			case same(g.comps[at], path[i]):
				g.enter(next, at+1)
				alive = true
			}
		}
		if !alive {
			return -1
		}
		live, next = next, live
	}
}

// leads says whether path can be the beginning of one that matches.
func (g glob) leads(path []string) bool {
	for i, comp := range g.comps {
		if comp == "**" || i == len(path) {
			return true
		}
		if !matchComponent(comp, path[i]) {
			return false
		}
	}
	return true
}

func (g glob) through(path []string) bool {
	rest := g.comps
	for len(rest) > 0 && rest[0] == "**" {
		rest = rest[1:]
	}
	if len(rest) == len(g.comps) {
		return g.leads(path)
	}
	for i := range path {
		if (glob{rest}).leads(path[i:]) {
			return true
		}
	}
	return false
}

// enter marks position at, and the ones that a "**" reaches without a component.
func (g glob) enter(live []bool, at int) {
	live[at] = true
	for at < len(g.comps) && g.comps[at] == "**" {
		at++
		live[at] = true
	}
}

// matchComponent matches one name, byte by byte.
func matchComponent(pattern, name string) bool {
	p, n := 0, 0
	star, resume := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			resume++
			p, n = star+1, resume
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
