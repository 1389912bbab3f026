package oracle

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Bounds of a row's fields.
const (
	maxID      = 100
	maxEntry   = 300
	maxPath    = 1000
	minRepeat  = 2
	maxRepeat  = 100
	maxSeed    = math.MaxUint32 // what numpy takes
	execPrefix = "exec:"
	nodePrefix = "node:"
)

// field says where a key may stand.
type field struct {
	need  bool
	kinds []Kind // nil: all
	exec  bool   // with exec entries too
}

// fields is the closed list of keys of a row.
var fields = map[string]field{
	"id":          {need: true, exec: true},
	"entry":       {need: true, exec: true},
	"kind":        {need: true, exec: true},
	"blob":        {need: true, exec: true},
	"blob_sha256": {need: true, exec: true},
	"min":         {need: true, exec: true, kinds: []Kind{Bound}},
	"max":         {need: true, exec: true, kinds: []Kind{Bound}},
	"repeat":      {exec: true, kinds: []Kind{Idempotent}},
	"seed":        {},
	"args":        {kinds: []Kind{Bound, Idempotent}},
	"strict":      {kinds: []Kind{Idempotent, ExactTable}},
	"sequence":    {kinds: []Kind{Idempotent, ExactTable}},
	"unordered":   {kinds: []Kind{Idempotent, ExactTable}},
	"abs_tol":     {kinds: []Kind{Idempotent, ExactTable}},
	"rel_tol":     {kinds: []Kind{Idempotent, ExactTable}},
}

// needed are the keys that a row cannot lack, in the order in which they are
// asked for.
var needed = []string{"id", "entry", "kind", "min", "max", "blob", "blob_sha256"}

// rowReader understands one row of an oracle file.
type rowReader struct {
	file string
	row  *tomlRow
	tell func(Fault)
	bad  bool
}

func (r *rowReader) fault(code string, line int, format string, args ...any) {
	r.bad = true
	id, _ := r.row.id()
	r.tell(Fault{Code: code, File: r.file, Line: line, ID: id, What: fmt.Sprintf(format, args...)})
}

// read answers the invariant, and whether it has no fault.
func (r *rowReader) read() (*claim, bool) {
	c := &claim{}
	c.File, c.Line = r.file, r.row.line
	r.identity(c)
	r.entry(c)
	r.places(c)
	r.bounds(c)
	r.running(c)
	r.comparing(c)
	r.blob(c)
	return c, !r.bad && !r.row.faulty && !r.row.cut
}

func (r *rowReader) identity(c *claim) {
	if v, ok := r.get("id", unstable.String, "a string"); ok {
		c.ID = v.text
		if !isID(v.text) {
			r.fault("bad-id", v.line, "id %s: 1 to %d of A-Z a-z 0-9 _ . -, and neither . nor - first", shown(v.text), maxID)
		}
	}
	if v, ok := r.get("kind", unstable.String, "a string"); ok {
		c.Kind = kindOf(v.text)
		if c.Kind == Unknown {
			r.fault("unknown-kind", v.line, "kind %s: bound, idempotent and exact_table are all there are", shown(v.text))
		}
	}
}

// isID is [A-Za-z0-9_][A-Za-z0-9_.-]{0,99}.
func isID(s string) bool {
	if s == "" || len(s) > maxID || !wordByte[s[0]] {
		return false
	}
	for i := range len(s) {
		if !wordByte[s[i]] && s[i] != '.' && s[i] != '-' {
			return false
		}
	}
	return true
}

func kindOf(s string) Kind {
	for _, k := range []Kind{Bound, Idempotent, ExactTable} {
		if s == k.String() {
			return k
		}
	}
	return Unknown
}

func (r *rowReader) entry(c *claim) {
	v, ok := r.get("entry", unstable.String, "a string")
	if !ok {
		return
	}
	c.Entry = v.text
	if len(v.text) > maxEntry {
		r.fault("bad-entry", v.line, "entry %s is longer than %d", shown(v.text), maxEntry)
		return
	}
	if path, exec := strings.CutPrefix(v.text, execPrefix); exec {
		c.Exec, c.Path = true, path
		r.entryPath(v, path)
		return
	}
	if rest, node := strings.CutPrefix(v.text, nodePrefix); node {
		r.nodeEntry(c, v, rest)
		return
	}
	module, name, _ := strings.Cut(v.text, ":")
	c.Module, c.Name = module, name
	if !isDotted(module) || !isDotted(name) {
		r.fault("bad-entry", v.line, "entry %s is neither package.module:function nor exec:path nor node:path.js:function", shown(v.text))
	}
}

// entryPath is a path of what is laid out where the code runs.
func (r *rowReader) entryPath(v tomlValue, path string) bool {
	if what := badTreePath(path); what != "" {
		r.fault("bad-entry", v.line, "entry %s: the path %s", shown(v.text), what)
		return false
	}
	if path == Dir || strings.HasPrefix(path, Dir+"/") {
		r.fault("bad-entry", v.line, "entry %s: nothing below oracles is laid out where the code runs", shown(v.text))
		return false
	}
	return true
}

// nodeFiles are the names by which Node knows what a file is.
var nodeFiles = []string{".js", ".mjs", ".cjs"}

// nodeEntry is path.js:name; the last colon parts them.
func (r *rowReader) nodeEntry(c *claim, v tomlValue, rest string) {
	c.Node = true
	at := strings.LastIndexByte(rest, ':')
	if at < 0 {
		r.fault("bad-entry", v.line, "entry %s names no function: node:path.js:function", shown(v.text))
		return
	}
	c.Path, c.Name = rest[:at], rest[at+1:]
	if !r.entryPath(v, c.Path) {
		return
	}
	known := func(suffix string) bool { return strings.HasSuffix(c.Path, suffix) && path.Base(c.Path) != suffix }
	switch {
	case !slices.ContainsFunc(nodeFiles, known):
		r.fault("bad-entry", v.line, "entry %s: Node's files end with .js, .mjs or .cjs", shown(v.text))
	case !isNodeName(c.Name):
		r.fault("bad-entry", v.line, "entry %s: a function of Node is words of A-Z a-z 0-9 _ $ with dots between them", shown(v.text))
	}
}

// isNodeName is isDotted with the dollar that names of Node may have.
func isNodeName(s string) bool { return isDotted(strings.ReplaceAll(s, "$", "_")) }

// isDotted is one ASCII identifier or more, with dots between them.
func isDotted(s string) bool {
	start := true
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '.' && !start:
			start = true
		case !wordByte[c] || start && c >= '0' && c <= '9':
			return false
		default:
			start = false
		}
	}
	return !start
}

// badTreePath says what keeps a path from being one below the root of a tree, in
// its only spelling.
func badTreePath(p string) string {
	switch {
	case p == "":
		return "is empty"
	case len(p) > maxPath:
		return fmt.Sprintf("is longer than %d", maxPath)
	case p[0] == '/':
		return "is absolute"
	}
	for i := range len(p) {
		if p[i] < ' ' || p[i] == 0x7f || p[i] == '\\' {
			return "has a control character or a backslash"
		}
	}
	for part := range strings.SplitSeq(p, "/") {
		switch part {
		case "..":
			return "has a '..'"
		case "", ".":
			return "has an empty part or a '.'"
		}
	}
	return ""
}

// places checks that every key goes with the kind and the entry, and that none is
// missing.
func (r *rowReader) places(c *claim) {
	for _, v := range r.row.values {
		f := fields[v.key]
		switch {
		case c.Kind != Unknown && !f.with(c.Kind):
			r.fault("misplaced-key", v.line, "%q does not go with kind %q", v.key, c.Kind)
		case c.Exec && !f.exec:
			r.fault("misplaced-key", v.line, "%q does not go with an exec entry", v.key)
		}
	}
	if r.row.cut {
		return
	}
	for _, key := range needed {
		f := fields[key]
		if _, has := r.row.get(key); !has && (f.kinds == nil || f.with(c.Kind)) {
			r.fault("missing-key", r.row.line, "%q is missing", key)
		}
	}
}

func (f field) with(k Kind) bool { return f.kinds == nil || slices.Contains(f.kinds, k) }

func (r *rowReader) bounds(c *claim) {
	c.Min, c.Max = r.number("min"), r.number("max")
	if c.Min.IsSet() && c.Max.IsSet() && c.Min.Cmp(c.Max) > 0 {
		v, _ := r.row.get("max")
		r.fault("out-of-range", v.line, "min %s is above max %s: nothing could pass", c.Min, c.Max)
	}
}

// running are the fields that say how the entry is called.
func (r *rowReader) running(c *claim) {
	if c.Kind == Idempotent {
		c.Repeat = minRepeat
	}
	if n, ok := r.integer("repeat", minRepeat, maxRepeat); ok {
		c.Repeat = int(n)
	}
	if n, ok := r.integer("seed", 0, maxSeed); ok {
		c.Seed = &n
	}
	v, ok := r.get("args", unstable.Array, "a list of strings")
	if !ok {
		return
	}
	c.Args = v.list
	sorted := slices.Sorted(slices.Values(v.list))
	if len(slices.Compact(sorted)) != len(v.list) {
		r.fault("out-of-range", v.line, `"args" names a key twice`)
	}
}

// comparing are the fields that say how values are compared.
func (r *rowReader) comparing(c *claim) {
	c.Strict, c.Sequence, c.Unordered = r.boolean("strict"), r.boolean("sequence"), r.boolean("unordered")
	c.AbsTol = r.tolerance("abs_tol", math.MaxFloat64)
	c.RelTol = r.tolerance("rel_tol", 1)
}

func (r *rowReader) blob(c *claim) {
	if v, ok := r.get("blob", unstable.String, "a string"); ok {
		c.Blob, c.BlobLine = v.text, v.line
		r.blobPath(v)
	}
	if v, ok := r.get("blob_sha256", unstable.String, "a string"); ok {
		c.BlobSHA256, c.hashLine = v.text, v.line
		if !isSHA256(v.text) {
			r.fault("blob-hash", v.line, "blob_sha256 %s is not 64 lower-case hexadecimal digits", shown(v.text))
		}
	}
}

func (r *rowReader) blobPath(v tomlValue) {
	if what := badTreePath(v.text); what != "" {
		r.fault("blob-outside", v.line, "blob %s: the path %s; a blob is named from the root of the repository, below oracles/", shown(v.text), what)
		return
	}
	if !strings.HasPrefix(v.text, Dir+"/") {
		r.fault("blob-outside", v.line, "blob %s is not below oracles/", shown(v.text))
	}
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// get is a value of a type. What is absent, or told already, is not ok.
func (r *rowReader) get(key string, kind unstable.Kind, word string) (tomlValue, bool) {
	v, ok := r.row.get(key)
	switch {
	case !ok || v.kind == unstable.Invalid:
		return tomlValue{}, false
	case v.kind != kind:
		r.fault("wrong-type", v.line, "%q is %s", key, word)
		return tomlValue{}, false
	default:
		return v, true
	}
}

func (r *rowReader) boolean(key string) bool {
	v, ok := r.get(key, unstable.Bool, "true or false")
	return ok && v.text == "true"
}

func (r *rowReader) integer(key string, low, high int64) (int64, bool) {
	v, ok := r.get(key, unstable.Integer, "an integer")
	if !ok {
		return 0, false
	}
	n, ok := v.integer()
	if !ok || n < low || n > high {
		r.fault("out-of-range", v.line, "%q is from %d to %d", key, low, high)
		return 0, false
	}
	return n, true
}

// number is an integer of 64 bits or a finite float.
func (r *rowReader) number(key string) Number {
	v, ok := r.row.get(key)
	if !ok || v.kind == unstable.Invalid {
		return Number{}
	}
	if v.kind == unstable.Float {
		f, ok := v.float()
		if !ok {
			r.fault("out-of-range", v.line, "%q is a finite number", key)
			return Number{}
		}
		return FloatNumber(f)
	}
	if v, ok = r.get(key, unstable.Integer, "a number"); !ok {
		return Number{}
	}
	n, ok := v.integer()
	if !ok {
		r.fault("out-of-range", v.line, "%q is beyond 64 bits", key)
		return Number{}
	}
	return IntNumber(n)
}

// tolerance is a number from 0 to high; 0 where there is none.
func (r *rowReader) tolerance(key string, high float64) float64 {
	n := r.number(key)
	if !n.IsSet() {
		return 0
	}
	f, _ := n.Rat().Float64()
	if f < 0 || f > high {
		v, _ := r.row.get(key)
		r.fault("out-of-range", v.line, "%q is from 0 to %s", key, strconv.FormatFloat(high, 'g', -1, 64))
		return 0
	}
	return f
}
