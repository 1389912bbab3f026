package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

const (
	maxTableBytes = 256 << 10
	maxTableRows  = 500
	maxSays       = 200
)

// placedRow is a row and the line it starts on.
type placedRow struct {
	Row
	line int
}

func plainRows(rows []placedRow) []Row {
	out := make([]Row, len(rows))
	for i, row := range rows {
		out[i] = row.Row
	}
	return out
}

// Parse reads an admin's table: the whole table, in the form of DefaultYAML. It
// may say other words, stand in another order, make "inspect" a "block", name
// further facts in a row, and have further rows that block, inspect or leave
// undecided. Anything that could let through what the built-in table stops is a
// fault. The error is Faults: every fault with its line.
func Parse(file string, data []byte) (Table, error) {
	rows, faults := readTable(file, data)
	if len(faults) == 0 || len(rows) > 0 {
		faults = append(faults, weakenings(file, rows)...)
	}
	if err := faults.Err(); err != nil {
		return Table{}, err
	}
	return Table{rows: plainRows(rows)}, nil
}

// weakenings compares a table with the built-in one.
func weakenings(file string, rows []placedRow) Faults {
	var faults Faults
	own := map[string]placedRow{}
	for _, row := range rows {
		own[row.ID] = row
	}
	known := map[string]bool{}
	for _, want := range Default().rows {
		known[want.ID] = true
		got, ok := own[want.ID]
		if !ok {
			faults = append(faults, Fault{file, 0, fmt.Sprintf("the built-in row %q is missing: it may be moved or reworded, not removed", want.ID)})
			continue
		}
		for _, what := range weaker(want, got.Row) {
			faults = append(faults, Fault{file, got.line, fmt.Sprintf("row %q: %s", want.ID, what)})
		}
	}
	for _, row := range rows {
		if known[row.ID] {
			continue
		}
		if what := badNewRow(row.Row); what != "" {
			faults = append(faults, Fault{file, row.line, fmt.Sprintf("row %q: %s", row.ID, what)})
		}
	}
	return faults
}

// weaker says how got, an admin's form of the built-in row want, could let more
// through or tell more.
func weaker(want, got Row) []string {
	var out []string
	if got.Lane != want.Lane {
		out = append(out, fmt.Sprintf("lane %q is not the built-in %q", got.Lane, want.Lane))
	}
	for _, fact := range want.When {
		if !slices.Contains(got.When, fact) {
			out = append(out, fmt.Sprintf("the fact %q is missing", fact))
		}
	}
	switch want.Outcome {
	case Block, Undecided, Inspect:
		if got.Outcome.gravity() < want.Outcome.gravity() {
			out = append(out, fmt.Sprintf("outcome %q lets more through than the built-in %q", got.Outcome, want.Outcome))
		}
		if slices.Contains(got.When, SealedVisible) {
			out = append(out, fmt.Sprintf("%q is for the built-in row of that name: any other would tell the pusher", SealedVisible))
		}
	default: // Unverified, Eligible: fixed
		if got.Outcome != want.Outcome {
			out = append(out, fmt.Sprintf("outcome %q must stay %q", got.Outcome, want.Outcome))
		}
		if len(got.When) != len(want.When) {
			out = append(out, "its condition is fixed")
		}
	}
	return out
}

func badNewRow(row Row) string {
	switch {
	case slices.Contains(row.When, allGreen):
		return fmt.Sprintf("%q is the condition of the built-in row only", allGreen)
	case slices.Contains(row.When, SealedVisible):
		return fmt.Sprintf("%q is for the built-in row of that name: any other would tell the pusher", SealedVisible)
	}
	switch row.Outcome {
	case Block, Inspect, Undecided:
		return ""
	default:
		return fmt.Sprintf("a row of your own cannot have outcome %q", row.Outcome)
	}
}

// readTable reads the form and judges nothing else.
func readTable(file string, data []byte) ([]placedRow, Faults) {
	r := tableReader{file: file}
	root := r.document(data)
	if root == nil {
		return nil, r.faults
	}
	top := r.mapping(root, "the file", "version", "rows")
	if v := r.need(root, top, "version"); v != nil && (v.Kind != yaml.ScalarNode || v.Value != "1" || v.Tag != "!!int") {
		r.fault(v, "version must be 1")
	}
	list := r.need(root, top, "rows")
	if list == nil {
		return nil, r.faults
	}
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		r.fault(list, "rows must be a list of rows")
		return nil, r.faults
	}
	if len(list.Content) > maxTableRows {
		r.fault(list, fmt.Sprintf("more than %d rows", maxTableRows))
		return nil, r.faults
	}
	return r.rows(list), r.faults
}

type tableReader struct {
	file   string
	faults Faults
}

func (r *tableReader) fault(at *yaml.Node, what string) {
	r.faults = append(r.faults, Fault{r.file, at.Line, what})
}

func (r *tableReader) document(data []byte) *yaml.Node {
	whole := &yaml.Node{}
	if len(data) > maxTableBytes {
		r.fault(whole, fmt.Sprintf("longer than %d bytes", maxTableBytes))
		return nil
	}
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil {
		r.faults = append(r.faults, yamlFault(r.file, err))
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		r.fault(&more, "more than one YAML document")
		return nil
	}
	if len(doc.Content) != 1 {
		r.fault(whole, "empty")
		return nil
	}
	if n := oddNode(doc.Content[0]); n != nil {
		r.fault(n, "anchors, aliases and tags have no place here")
		return nil
	}
	return doc.Content[0]
}

// yamlFault takes the line out of the parser's text, where it names one.
func yamlFault(file string, err error) Fault {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if _, scan := fmt.Sscanf(what, "line %d:", &line); scan == nil {
		_, what, _ = strings.Cut(what, ": ")
	}
	if errors.Is(err, io.EOF) {
		what = "empty"
	}
	return Fault{file, line, "not YAML: " + what}
}

func oddNode(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return n
	}
	for _, child := range n.Content {
		if odd := oddNode(child); odd != nil {
			return odd
		}
	}
	return nil
}

// mapping reads a mapping whose keys are among those given, each once.
func (r *tableReader) mapping(n *yaml.Node, name string, keys ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		r.fault(n, name+" must be a mapping")
		return nil
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(keys, key.Value):
			r.fault(key, fmt.Sprintf("unknown key %q; known: %s", key.Value, strings.Join(keys, ", ")))
		case out[key.Value] != nil:
			r.fault(key, fmt.Sprintf("key %q stands twice", key.Value))
		default:
			out[key.Value] = value
		}
	}
	return out
}

func (r *tableReader) need(at *yaml.Node, m map[string]*yaml.Node, key string) *yaml.Node {
	if m == nil {
		return nil
	}
	if m[key] == nil {
		r.fault(at, fmt.Sprintf("key %q is missing", key))
	}
	return m[key]
}

func (r *tableReader) rows(list *yaml.Node) []placedRow {
	var out []placedRow
	lines := map[string]int{}
	for _, n := range list.Content {
		m := r.mapping(n, "a row", "id", "lane", "when", "outcome", "says")
		if m == nil {
			continue
		}
		row := placedRow{line: n.Line}
		row.ID = r.word(n, m, "id")
		row.Lane = r.word(n, m, "lane")
		row.When = r.when(r.need(n, m, "when"))
		row.Outcome = r.outcome(r.need(n, m, "outcome"))
		row.Says = r.says(r.need(n, m, "says"))
		if first, ok := lines[row.ID]; ok && row.ID != "" {
			r.fault(n, fmt.Sprintf("row %q stands twice, first in line %d", row.ID, first))
		}
		lines[row.ID] = n.Line
		out = append(out, row)
	}
	return out
}

func (r *tableReader) text(n *yaml.Node, what string) (string, bool) {
	if n == nil {
		return "", false
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		r.fault(n, what+" must be text")
		return "", false
	}
	return n.Value, true
}

// word reads an identifier: lower-case letters, digits and dashes.
func (r *tableReader) word(at *yaml.Node, m map[string]*yaml.Node, key string) string {
	n := r.need(at, m, key)
	s, ok := r.text(n, key)
	if !ok {
		return ""
	}
	if s == "" || len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || s[0] == '-' || (s[0] >= '0' && s[0] <= '9') {
		r.fault(n, fmt.Sprintf("%s %q: want lower-case letters, digits and dashes, a letter first", key, s))
		return ""
	}
	return s
}

func (r *tableReader) when(n *yaml.Node) []Fact {
	if n == nil {
		return nil
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var out []Fact
	for _, item := range items {
		s, ok := r.text(item, "a fact")
		fact := Fact(s)
		switch {
		case !ok:
		case !slices.Contains(allFacts, fact) && fact != allGreen:
			r.fault(item, fmt.Sprintf("unknown fact %q", s))
		case slices.Contains(out, fact):
			r.fault(item, fmt.Sprintf("fact %q stands twice", s))
		default:
			out = append(out, fact)
		}
	}
	if len(items) == 0 {
		r.fault(n, "when must name a fact: a row without one never fires")
	}
	return out
}

func (r *tableReader) outcome(n *yaml.Node) Outcome {
	s, ok := r.text(n, "outcome")
	if !ok {
		return Undecided
	}
	o, known := parseOutcome(s)
	if !known {
		r.fault(n, fmt.Sprintf("unknown outcome %q; known: block, inspect, unverified, not-judged, eligible", s))
	}
	return o
}

func (r *tableReader) says(n *yaml.Node) string {
	s, ok := r.text(n, "says")
	if !ok {
		return ""
	}
	switch {
	case strings.TrimSpace(s) == "" || len(s) > maxSays:
		r.fault(n, fmt.Sprintf("says must be 1 to %d bytes of text", maxSays))
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }):
		r.fault(n, "says has a character that cannot be shown on one line")
	}
	return s
}
