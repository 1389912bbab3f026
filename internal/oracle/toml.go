package oracle

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Limits of one oracle file, beside its size.
const (
	maxNumberText  = 400
	maxStrings     = 1000 // of a list
	maxSyntaxFault = 20   // of a file; each means a new start
)

// tomlFile is what one file says, before any of it is understood.
type tomlFile struct {
	name   string
	schema tomlValue
	rows   []*tomlRow
	broken bool // not every id could be read
	faults []Fault
}

// tomlRow is one [[invariant]].
type tomlRow struct {
	line   int
	end    int         // line of the table behind it; 0: none
	values []tomlValue // of known keys, no key twice
	faulty bool
	cut    bool // by a syntax fault: what it lacks may stand behind it
}

func (r *tomlRow) get(key string) (tomlValue, bool) {
	i := slices.IndexFunc(r.values, func(v tomlValue) bool { return v.key == key })
	if i < 0 {
		return tomlValue{}, false
	}
	return r.values[i], true
}

// id is the row's id, when it has one that is well formed.
func (r *tomlRow) id() (string, bool) {
	v, ok := r.get("id")
	if !ok || v.kind != unstable.String || !isID(v.text) {
		return "", false
	}
	return v.text, true
}

// tomlValue is one key with its value.
type tomlValue struct {
	key  string
	line int
	kind unstable.Kind // Invalid: absent, or its fault is told already
	text string        // decoded string, or the number as written
	list []string
}

// tomlReader goes over a file once, expression by expression. Go-toml's parser
// gives positions and values as written; its decoder would stop at the first
// fault, round what is too large, and take inf and dates.
type tomlReader struct {
	tomlFile
	data   []byte
	lines  []int // offsets of newlines
	base   int   // of what the parser was given last
	done   int   // end of the last expression
	p      unstable.Parser
	row    *tomlRow // the open one; nil at the top and in unknown tables
	top    bool     // no table was opened yet
	starts int      // after syntax faults
}

func readTOML(name string, data []byte) tomlFile {
	r := &tomlReader{tomlFile: tomlFile{name: name}, data: slices.Clip(data), top: true}
	r.index()
	if at, what := badText(data); what != "" {
		r.broken = true
		r.fault("encoding", r.lineOf(at), "the file has %s", what)
		return r.tomlFile
	}
	for r.parse(); r.restart(); r.parse() {
	}
	r.nameFaults()
	r.wantSchema()
	return r.tomlFile
}

// nameFaults gives the faults that were found on the way the ids of their rows.
func (r *tomlReader) nameFaults() {
	for i, f := range r.faults {
		n, exact := slices.BinarySearchFunc(r.rows, f.Line, func(row *tomlRow, line int) int { return cmp.Compare(row.line, line) })
		if !exact {
			n--
		}
		if n < 0 || r.rows[n].end > 0 && f.Line >= r.rows[n].end {
			continue
		}
		r.faults[i].ID, _ = r.rows[n].id()
	}
}

// badText finds what no oracle file has.
func badText(data []byte) (at int, what string) {
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return 0, "a byte order mark"
	}
	if !utf8.Valid(data) {
		return firstInvalid(string(data)), "bytes that are not UTF-8"
	}
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return at, "a NUL byte"
	}
	return 0, ""
}

func (r *tomlReader) index() {
	for i, c := range r.data {
		if c == '\n' {
			r.lines = append(r.lines, i)
		}
	}
}

func (r *tomlReader) lineOf(at int) int {
	n, _ := slices.BinarySearch(r.lines, at)
	return 1 + n
}

func (r *tomlReader) fault(code string, line int, format string, args ...any) {
	if len(r.faults) <= maxFaults {
		r.faults = append(r.faults, Fault{Code: code, File: r.name, Line: line, What: fmt.Sprintf(format, args...)})
	}
}

// parse reads expressions until the end or a syntax fault.
func (r *tomlReader) parse() {
	r.p.Reset(r.data[r.base:])
	for r.p.NextExpression() {
		r.expression(r.p.Expression())
	}
}

// restart goes on behind a syntax fault, at the next row: one fault must not hide
// the others.
func (r *tomlReader) restart() bool {
	err := r.p.Error()
	if err == nil {
		return false
	}
	r.broken = true
	if r.row != nil {
		r.row.cut = true
	}
	start := r.nextText(r.done)
	r.syntaxFault(err, start)
	r.row = nil
	r.starts++
	if r.starts >= maxSyntaxFault {
		return false
	}
	at := r.nextRow(start)
	if at < 0 {
		return false
	}
	r.base, r.done, r.top = at, at, false
	return true
}

func (r *tomlReader) syntaxFault(err error, start int) {
	at := start
	what := err.Error()
	var perr *unstable.ParserError
	if errors.As(err, &perr) {
		what = perr.Message
		// What is never closed is found at the end of the file, and started here.
		if g := r.p.Range(perr.Highlight); r.base+int(g.Offset+g.Length) < len(r.data) {
			at = r.base + int(g.Offset)
		}
	}
	r.fault("toml", r.lineOf(at), "not TOML: %s", clip(asciiText(what), 2*maxShown))
}

// nextText is where the next expression starts, behind one that ends at at.
func (r *tomlReader) nextText(at int) int {
	if at > r.base { // behind a table's name come its brackets
		at += len(r.data[at:]) - len(bytes.TrimLeft(r.data[at:], " \t]"))
	}
	for at < len(r.data) {
		switch r.data[at] {
		case ' ', '\t', '\r', '\n':
			at++
		case '#':
			end := bytes.IndexByte(r.data[at:], '\n')
			if end < 0 {
				return at
			}
			at += end
		default:
			return at
		}
	}
	return at
}

// nextRow is the start of the first line below at that opens a row; -1: none.
func (r *tomlReader) nextRow(at int) int {
	for {
		end := bytes.IndexByte(r.data[at:], '\n')
		if end < 0 {
			return -1
		}
		at += end + 1
		line := bytes.TrimLeft(r.data[at:], " \t")
		if head, ok := bytes.CutPrefix(line, []byte("[[")); ok && bytes.HasPrefix(bytes.TrimLeft(head, " \t"), []byte("invariant")) {
			return at
		}
	}
}

func (r *tomlReader) expression(n *unstable.Node) {
	switch n.Kind {
	case unstable.ArrayTable, unstable.Table:
		r.table(n)
	case unstable.KeyValue:
		r.keyValue(n)
		r.done = r.base + int(n.Raw.Offset+n.Raw.Length)
	default: // comments are not kept
	}
}

func (r *tomlReader) table(n *unstable.Node) {
	name, line, dotted := r.keyName(n)
	r.top = false
	if r.row != nil {
		r.row.end = line
	}
	r.row = nil
	if name != "invariant" || dotted {
		r.fault("unknown-key", line, "unknown table %s", shown(name))
		return
	}
	r.row = &tomlRow{line: line}
	r.rows = append(r.rows, r.row)
	if n.Kind == unstable.Table {
		r.row.faulty = true
		r.fault("toml", line, "a row starts with [[invariant]], not with [invariant]")
	}
}

// keyName is a key as it would be written, its line, and whether it has dots.
func (r *tomlReader) keyName(n *unstable.Node) (name string, line int, dotted bool) {
	var b strings.Builder
	for it := n.Key(); it.Next(); {
		k := it.Node()
		if line == 0 {
			line = r.lineOf(r.base + int(k.Raw.Offset))
		} else {
			b.WriteByte('.')
			dotted = true
		}
		b.Write(k.Data[:min(len(k.Data), 2*maxShown)])
		r.done = r.base + int(k.Raw.Offset+k.Raw.Length)
	}
	return b.String(), line, dotted
}

func (r *tomlReader) keyValue(n *unstable.Node) {
	name, line, dotted := r.keyName(n)
	switch {
	case r.top:
		r.topKey(n, name, line, dotted)
	case r.row != nil:
		r.rowKey(n, name, line, dotted)
	default: // in an unknown table, which is a fault already
	}
}

func (r *tomlReader) topKey(n *unstable.Node, name string, line int, dotted bool) {
	switch {
	case name == "invariant" && !dotted:
		r.broken = true
		r.fault("toml", line, "rows are written as [[invariant]], one key a line")
	case name != "schema" || dotted:
		r.fault("unknown-key", line, "unknown key %s", shown(name))
	case r.schema.key != "":
		r.fault("duplicate-key", line, "key %s twice", shown(name))
	default:
		r.schema = r.value(n.Value(), name, line)
	}
}

func (r *tomlReader) rowKey(n *unstable.Node, name string, line int, dotted bool) {
	_, known := fields[name]
	_, again := r.row.get(name)
	switch {
	case !known || dotted:
		r.row.faulty = true
		r.fault("unknown-key", line, "unknown key %s", shown(name))
	case again:
		r.row.faulty = true
		r.fault("duplicate-key", line, "key %s twice in one row", shown(name))
	default:
		v := r.value(n.Value(), name, line)
		if v.kind == unstable.Invalid {
			r.row.faulty = true
		}
		r.row.values = append(r.row.values, v)
	}
}

// value takes a value out of the parser's memory.
func (r *tomlReader) value(n *unstable.Node, key string, line int) tomlValue {
	v := tomlValue{key: key, line: line, kind: n.Kind}
	switch n.Kind {
	case unstable.String:
		v.text = string(n.Data)
		if !r.plainEscapes(n, line) {
			v.kind = unstable.Invalid
		}
	case unstable.Bool:
		v.text = string(n.Data)
	case unstable.Integer, unstable.Float:
		if len(n.Data) > maxNumberText {
			r.fault("out-of-range", line, "%q is a number of %d characters; at most %d", key, len(n.Data), maxNumberText)
			v.kind = unstable.Invalid
			break
		}
		v.text = string(n.Data)
	case unstable.Array:
		if !r.array(n, &v) {
			v.kind = unstable.Invalid
		}
	default: // dates, inline tables: no field takes one
	}
	return v
}

func (r *tomlReader) array(n *unstable.Node, v *tomlValue) bool {
	v.list = []string{}
	for it := n.Children(); it.Next(); {
		item := it.Node()
		if item.Kind != unstable.String {
			r.fault("wrong-type", v.line, "%q is a list of strings, and nothing else is in it", v.key)
			return false
		}
		if len(v.list) >= maxStrings {
			r.fault("limit", v.line, "%q has more than %d items", v.key, maxStrings)
			return false
		}
		if !r.plainEscapes(item, v.line) {
			return false
		}
		v.list = append(v.list, string(item.Data))
	}
	return true
}

// plainEscapes refuses the two escapes that TOML 1.0 does not have.
func (r *tomlReader) plainEscapes(n *unstable.Node, line int) bool {
	raw := r.p.Raw(n.Raw)
	if len(raw) == 0 || raw[0] != '"' {
		return true
	}
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] == 'e' || raw[i] == 'x' {
			r.fault("toml", line, `not TOML 1.0: the escape \%c`, raw[i])
			return false
		}
	}
	return true
}

func (r *tomlReader) wantSchema() {
	switch i, ok := r.schema.integer(); {
	case r.schema.key == "" && r.broken: // it may stand in what could not be read
	case r.schema.key == "":
		r.fault("schema", 1, `"schema = 1" is missing above the first row`)
	case !ok || i != 1:
		r.fault("schema", r.schema.line, `"schema" is 1, an integer, and nothing else`)
	}
}

// integer is the value as an integer of 64 bits.
func (v tomlValue) integer() (int64, bool) {
	if v.kind != unstable.Integer {
		return 0, false
	}
	i, err := strconv.ParseInt(v.text, 0, 64)
	return i, err == nil
}

// float is the value as a finite float.
func (v tomlValue) float() (float64, bool) {
	if v.kind != unstable.Float {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(v.text, "_", ""), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// asciiText makes a message of the parser ASCII.
func asciiText(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return strings.Trim(strconv.QuoteToASCII(s), `"`)
		}
	}
	return s
}
