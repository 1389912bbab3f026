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
	if !b.items(0, b.row) || !b.end() {
		return false
	}
	if len(b.found) == 0 {
		b.code = "blob-empty"
		return b.fail(0, "the blob has no row")
	}
	return true
}

// row understands the value that was just read.
func (b *blobReader) row(v Value) bool {
	start := b.pos - len(v.text)
	if len(b.found) >= b.limit {
		b.code = "limit"
		return b.fail(start, "more than %d rows in a blob, or %d in all", maxRows, maxAllRows)
	}
	row, what := b.form.row(v)
	if what != "" {
		b.code = "blob-row"
		return b.fail(start, "row %d %s", len(b.found)+1, what)
	}
	row.Line = b.lineOf(start)
	b.found = append(b.found, row)
	return true
}

// row answers a clause when the value is no row of this form.
func (f form) row(v Value) (Row, string) {
	if v.kind != Object {
		return Row{}, "is no object"
	}
	switch f {
	case formNamed:
		return Row{Text: v.text, Args: v}, ""
	case formListed:
		return listedRow(v)
	case formRun, formRunTable:
		return runRow(v, f)
	default:
		return Row{}, "belongs to no kind"
	}
}

// part takes the members of an object that a row may have; others are a fault.
func parts(v Value, keys ...string) (map[string]Value, string) {
	members, ok := v.Members()
	if !ok {
		return nil, "is no object"
	}
	found := make(map[string]Value, len(keys))
	for _, m := range members {
		if !slices.Contains(keys, m.Key) {
			return nil, "has the unknown key " + shown(m.Key)
		}
		found[m.Key] = m.Value
	}
	return found, ""
}

func listedRow(v Value) (Row, string) {
	p, what := parts(v, "args", "expected")
	args, expected := p["args"], p["expected"]
	switch {
	case what != "":
		return Row{}, what
	case args.kind != List:
		return Row{}, `has no list "args"`
	case expected.kind == Invalid:
		return Row{}, `has no "expected"`
	}
	return Row{Text: args.text, Args: args, Expected: expected}, ""
}

func runRow(v Value, f form) (Row, string) {
	keys := []string{"args", "stdin"}
	if f == formRunTable {
		keys = append(keys, "expected")
	}
	p, what := parts(v, keys...)
	if what != "" {
		return Row{}, what
	}
	row := Row{Text: p["args"].text, Args: p["args"]}
	if row.Argv, what = arguments(row.Args); what != "" {
		return Row{}, what
	}
	if stdin, has := p["stdin"]; has {
		if row.Stdin, what = bytesOf(stdin); what != "" {
			return Row{}, `has a "stdin" that ` + what
		}
	}
	if f == formRun {
		return row, ""
	}
	row.Expected = p["expected"]
	if row.Expected.kind != Object {
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
	p, what := parts(v, "base64")
	if what != "" {
		return nil, neither
	}
	s, ok := p["base64"].Str()
	if !ok {
		return nil, neither
	}
	data, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return nil, "is not base64"
	}
	return data, ""
}

func runExpected(row Row) (Row, string) {
	p, what := parts(row.Expected, "exit", "stdout")
	if what != "" {
		return Row{}, `has an "expected" that ` + what
	}
	if exit, has := p["exit"]; has {
		n, ok := exit.Int()
		if !ok || !n.IsInt64() || n.Int64() < 0 || n.Int64() > 255 {
			return Row{}, `has an "exit" that is no integer from 0 to 255`
		}
		row.Exit = int(n.Int64())
	}
	if stdout, has := p["stdout"]; has {
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
