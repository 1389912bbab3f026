package sealed

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// fields reads the members of one object and collects what is wrong with them.
type fields struct {
	c    *collector
	file string
	at   string // "properties[2]", empty at the top
	n    node
}

// collector gathers faults up to a bound.
type collector struct {
	faults Faults
}

const maxFaults = 200

func (c *collector) add(f Fault) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, f)
	}
}

func (c *collector) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	return c.faults
}

// object opens n as an object whose keys are those in known.
func (c *collector) object(file, at string, n node, known ...string) (fields, bool) {
	f := fields{c: c, file: file, at: at, n: n}
	if n.kind != '{' {
		c.add(Fault{File: file, Line: n.line, Field: at, What: "must be an object"})
		return f, false
	}
	for i, k := range n.keys {
		if !slices.Contains(known, k) {
			c.add(Fault{File: file, Line: n.vals[i].line, Field: f.name(strconv.Quote(k)), What: "unknown key"})
		}
	}
	return f, true
}

func (f fields) name(key string) string {
	if f.at == "" {
		return key
	}
	return f.at + "." + key
}

func (f fields) find(key string) (node, bool) {
	i := slices.Index(f.n.keys, key)
	if i < 0 {
		return node{line: f.n.line}, false
	}
	return f.n.vals[i], true
}

func (f fields) fault(key string, line int, format string, args ...any) {
	f.c.add(Fault{File: f.file, Line: line, Field: f.name(key), What: fmt.Sprintf(format, args...)})
}

// text reads a string that must be there and not be blank; empty after a fault.
func (f fields) text(key string) (string, int) {
	n, ok := f.find(key)
	if !ok {
		f.fault(key, n.line, "missing")
		return "", n.line
	}
	if n.kind == '"' && strings.TrimSpace(n.text) == "" {
		f.fault(key, n.line, "blank")
		return "", n.line
	}
	return f.plain(key, n), n.line
}

// maybe reads a string that may be absent or null.
func (f fields) maybe(key string) (string, int) {
	n, ok := f.find(key)
	if !ok || n.kind == 'n' {
		return "", n.line
	}
	return f.plain(key, n), n.line
}

func (f fields) plain(key string, n node) string {
	if n.kind != '"' {
		f.fault(key, n.line, "must be a string")
		return ""
	}
	if len(n.text) > maxTextField {
		f.fault(key, n.line, "longer than %d bytes", maxTextField)
		return ""
	}
	if i := strings.IndexFunc(n.text, unicode.IsControl); i >= 0 {
		f.fault(key, n.line, "has a control character")
		return ""
	}
	return n.text
}

func (f fields) list(key string) []node {
	n, ok := f.find(key)
	if !ok {
		f.fault(key, n.line, "missing")
		return nil
	}
	if n.kind != '[' {
		f.fault(key, n.line, "must be a list")
		return nil
	}
	if len(n.vals) > maxIDs {
		f.fault(key, n.line, "has more than %d entries", maxIDs)
		return nil
	}
	return n.vals
}

func (f fields) boolean(key string) bool {
	n, ok := f.find(key)
	if !ok {
		return false
	}
	if n.kind != 't' {
		f.fault(key, n.line, "must be true or false")
	}
	return n.yes
}

// schema checks the schema key and says whether the rest is worth reading.
func (f fields) schema(want string) bool {
	got, line := f.text("schema")
	if got == want {
		return true
	}
	if got != "" {
		f.fault("schema", line, "%q is not %q", got, want)
	}
	return false
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// id reads an id and refuses it when it is malformed or seen.
func (f fields) id(key string, seen map[string]bool) string {
	id, line := f.text(key)
	switch {
	case id == "":
	case !idForm.MatchString(id):
		f.fault(key, line, "%q is no id (letters, digits, _ . -; at most 100)", id)
	case seen[id]:
		f.fault(key, line, "%q twice", id)
	default:
		seen[id] = true
		return id
	}
	return ""
}

// pathBelow reads a slash path that lies below dir, in its shortest spelling.
func (f fields) pathBelow(key, dir string) string {
	p, line := f.text(key)
	if p == "" {
		return ""
	}
	if !strings.HasPrefix(p, dir+"/") || path.Clean(p) != p || strings.ContainsAny(p, "\\\x00") {
		f.fault(key, line, "%q is no path below %s/", p, dir)
		return ""
	}
	return p
}

// isPlaceholder says that somebody still has to fill s in.
func isPlaceholder(s string) bool {
	return s == "" || strings.HasPrefix(strings.ToUpper(s), "REPLACE") || strings.Trim(s, "0") == ""
}

var (
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
	commitForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

const lockHint = `a placeholder; "hookd seal lock" fills it`

func (f fields) digest(key string) string {
	s, line := f.maybe(key)
	switch {
	case isPlaceholder(s):
		f.fault(key, line, lockHint)
	case !sha256Form.MatchString(s):
		f.fault(key, line, "must be 64 lower-case hexadecimal digits")
	default:
		return s
	}
	return ""
}

func (f fields) commit(key string) string {
	s, line := f.maybe(key)
	switch {
	case isPlaceholder(s):
		f.fault(key, line, lockHint)
	case !commitForm.MatchString(s):
		f.fault(key, line, "must be a full commit id, 40 or 64 lower-case hexadecimal digits")
	default:
		return s
	}
	return ""
}
