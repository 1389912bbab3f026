package oracle

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// Limits of a program's row.
const (
	maxArgument  = 100 << 10 // a little less than Linux takes
	maxArguments = 1000
)

// form is how a blob's rows are written.
type form uint8

const (
	formNone     form = iota
	formNamed         // {"key": value, …}: arguments by keyword
	formListed        // {"args": […], "expected": value}
	formRun           // {"args": ["…"], "stdin": …}
	formRunTable      // the same and "expected": {"exit": 0, "stdout": …}
)

func formOf(i Invariant) form {
	switch {
	case i.Kind == ExactTable && i.Exec:
		return formRunTable
	case i.Kind == ExactTable:
		return formListed
	case (i.Kind == Bound || i.Kind == Idempotent) && i.Exec:
		return formRun
	case i.Kind == Bound || i.Kind == Idempotent:
		return formNamed
	default:
		return formNone
	}
}

// parseRows reads a blob: a list of at least one row. The first fault ends it.
func parseRows(text string, f form, limit int) ([]Row, Fault) {
	b := blobReader{jsonReader: jsonReader{text: text}, form: f, limit: limit}
	if b.rows() {
		return b.found, Fault{}
	}
	return nil, Fault{Code: b.code, Line: b.faultLine(), What: b.fault}
}

type blobReader struct {
	jsonReader
	form  form
	limit int
	code  string
	found []Row
	parts members
}

func (b *blobReader) rows() bool {
	b.code = "blob-json"
	if !b.encoding() {
		return false
	}
	b.space()
	if b.next() != '[' {
		return b.fail(b.pos, "a blob is a list of rows")
	}
	if !b.list(0, b.row) || !b.end() {
		return false
	}
	if len(b.found) == 0 {
		b.code = "blob-empty"
		return b.fail(0, "the blob has no row")
	}
	return true
}

// row reads one row.
func (b *blobReader) row() bool {
	start := b.pos
	if len(b.found) >= b.limit {
		b.code = "limit"
		return b.fail(start, "more than %d rows in a blob, or %d in all", maxRows, maxAllRows)
	}
	row, what, ok := b.understood()
	if !ok {
		return false
	}
	if what != "" {
		b.code = "blob-row"
		return b.fail(start, "row %d %s", len(b.found)+1, what)
	}
	row.Line = b.lineOf(start)
	if b.found == nil { // most rows are as long as the first one
		b.found = make([]Row, 0, min(b.limit, 1+len(b.text)/(1+b.pos-start)))
	}
	b.found = append(b.found, row)
	return true
}

// understood reads a row of the reader's form; what is a clause when it is none.
func (b *blobReader) understood() (row Row, what string, ok bool) {
	if b.form == formNamed || b.next() != '{' {
		v, ok := b.value(1)
		if v.kind != Object {
			what = "is no object"
		}
		return Row{Text: v.text, Args: v}, what, ok
	}
	b.parts = members{keys: b.form.keys()}
	if !b.members(1, b.parts.take) {
		return Row{}, "", false
	}
	switch {
	case b.parts.unknown != "":
		return Row{}, b.parts.unknown, true
	case b.form == formListed:
		row, what = listedRow(b.parts)
	case b.form == formRun || b.form == formRunTable:
		row, what = runRow(b.parts, b.form)
	default:
		what = "belongs to no kind"
	}
	return row, what, true
}

var (
	listedKeys   = []string{"args", "expected"}
	runKeys      = []string{"args", "stdin"}
	runTableKeys = []string{"args", "stdin", "expected"}
)

func (f form) keys() []string {
	switch f {
	case formListed:
		return listedKeys
	case formRun:
		return runKeys
	case formRunTable:
		return runTableKeys
	default:
		return nil
	}
}

// members are what an object has of these keys, in their order; Invalid where it
// has none. Another key is unknown.
type members struct {
	keys    []string
	found   [3]Value
	unknown string
}

func (m *members) take(key string, v Value) bool {
	i := slices.Index(m.keys, key)
	if i >= 0 {
		m.found[i] = v
	} else if m.unknown == "" {
		m.unknown = "has the unknown key " + shown(key)
	}
	return true
}

// membersOf takes a small object apart.
func membersOf(v Value, keys ...string) (members, string) {
	m := members{keys: keys}
	if v.kind != Object {
		return m, "is no object"
	}
	r := jsonReader{text: v.text}
	r.members(0, m.take)
	return m, m.unknown
}

func listedRow(m members) (Row, string) {
	args, expected := m.found[0], m.found[1]
	switch {
	case args.kind != List:
		return Row{}, `has no list "args"`
	case expected.kind == Invalid:
		return Row{}, `has no "expected"`
	}
	return Row{Text: args.text, Args: args, Expected: expected}, ""
}

func runRow(m members, f form) (row Row, what string) {
	args, stdin, expected := m.found[0], m.found[1], m.found[2]
	row = Row{Text: args.text, Args: args, Expected: expected}
	if row.Argv, what = arguments(args); what != "" {
		return Row{}, what
	}
	if stdin.kind != Invalid {
		if row.Stdin, what = bytesOf(stdin); what != "" {
			return Row{}, `has a "stdin" that ` + what
		}
	}
	if f == formRun {
		return row, ""
	}
	if expected.kind != Object {
		return Row{}, `has no object "expected"`
	}
	return runExpected(row)
}

// arguments are strings that a program can be given.
func arguments(v Value) ([]string, string) {
	items, ok := v.List()
	if !ok {
		return nil, `has no list "args"`
	}
	if len(items) > maxArguments {
		return nil, fmt.Sprintf("has more than %d arguments", maxArguments)
	}
	args := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := item.Str()
		switch {
		case !ok:
			return nil, "has an argument that is no string"
		case strings.IndexByte(s, 0) >= 0:
			return nil, "has an argument with a NUL"
		case len(s) > maxArgument:
			return nil, fmt.Sprintf("has an argument of more than %d bytes", maxArgument)
		}
		args = append(args, s)
	}
	return args, ""
}

// bytesOf is a string's UTF-8, or what {"base64": "…"} says.
func bytesOf(v Value) ([]byte, string) {
	if s, ok := v.Str(); ok {
		return []byte(s), ""
	}
	const neither = `is neither a string nor {"base64": "..."}`
	m, what := membersOf(v, "base64")
	s, ok := m.found[0].Str()
	if what != "" || !ok {
		return nil, neither
	}
	data, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return nil, "is not base64"
	}
	return data, ""
}

func runExpected(row Row) (Row, string) {
	m, what := membersOf(row.Expected, "exit", "stdout")
	if what != "" {
		return Row{}, `has an "expected" that ` + what
	}
	exit, stdout := m.found[0], m.found[1]
	if exit.kind != Invalid {
		n, ok := exit.Int()
		if !ok || !n.IsInt64() || n.Int64() < 0 || n.Int64() > 255 {
			return Row{}, `has an "exit" that is no integer from 0 to 255`
		}
		row.Exit = int(n.Int64())
	}
	if stdout.kind != Invalid {
		if row.Stdout, what = bytesOf(stdout); what != "" {
			return Row{}, `has a "stdout" that ` + what
		}
	}
	return row, ""
}

// keysOf are an object's keys, sorted; empty, not nil, when there is none.
func keysOf(v Value) []string {
	members, _ := v.Members()
	keys := make([]string, 0, len(members))
	for _, m := range members {
		keys = append(keys, m.Key)
	}
	slices.Sort(keys)
	return keys
}
