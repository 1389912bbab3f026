package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxFile bounds a configuration file; a larger one is refused unread.
const maxFile = 1 << 20

// maxFaults bounds a report: a file of another kind altogether need not be
// explained line by line.
const maxFaults = 100

// Fault is one thing that is wrong in a configuration file.
type Fault struct {
	Line int    // from 1; 0 is the file as a whole
	Path string // where in the document: repositories[0].protected
	Says string
}

// Faults is every fault of one file, in the order of its lines.
type Faults struct {
	File string
	List []Fault
}

// Error has one line a fault: gate.yaml:12: repositories[0].id: is no UUID.
func (f *Faults) Error() string {
	var b strings.Builder
	for i, fault := range f.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxFaults {
			fmt.Fprintf(&b, "%s: %d more faults", f.File, len(f.List)-i)
			break
		}
		b.WriteString(f.File)
		if fault.Line > 0 {
			fmt.Fprintf(&b, ":%d", fault.Line)
		}
		b.WriteString(": ")
		if fault.Path != "" {
			b.WriteString(fault.Path + ": ")
		}
		b.WriteString(fault.Says)
	}
	return b.String()
}

// reader collects the faults of one file while its values are taken out.
type reader struct {
	file   string
	faults []Fault
}

// value is one place of the document: present (node set) or absent. Every
// getter answers the zero value, or the default it was given, when the value is
// absent or faulty; a fault is noted once, and err reports them all.
type value struct {
	r    *reader
	node *yaml.Node
	line int // of the node, or of the mapping that lacks it
	path string
}

// fields is a mapping whose keys are known.
type fields struct {
	of   value
	keys map[string]value
}

// readStrict reads and parses a file. The error is about reading it; faults of
// its content wait in the reader.
func readStrict(file string) (*reader, value, error) {
	data, err := readCapped(file)
	if err != nil {
		return nil, value{}, err
	}
	r, root := parseStrict(file, data)
	return r, root, nil
}

func readCapped(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe must not hang us
	if err != nil {
		return nil, fmt.Errorf("read configuration %q: %w", file, errors.Unwrap(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read configuration %q: %w", file, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read configuration %q: not a regular file", file)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration %q: %w", file, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read configuration %q: larger than %d bytes", file, maxFile)
	}
	return data, nil
}

// parseStrict parses one YAML document. Aliases, anchors, merge keys, tags,
// duplicate keys and further documents are faults wherever they stand.
func parseStrict(file string, data []byte) (*reader, value) {
	r := &reader{file: file}
	if !utf8.Valid(data) {
		r.note(0, "", "is not UTF-8")
		return r, value{r: r}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		r.note(syntaxFault(err))
		return r, value{r: r}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		r.note(document.Line, "", "has more than one document")
	}
	if len(document.Content) != 1 {
		r.note(0, "", "is empty")
		return r, value{r: r}
	}
	root := document.Content[0]
	r.forbid(root, "")
	return r, value{r: r, node: root, line: root.Line}
}

// syntaxFault splits the parser's "yaml: line 3: did not find …".
func syntaxFault(err error) (line int, at, says string) {
	if errors.Is(err, io.EOF) {
		return 0, "", "is empty"
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	rest, found := strings.CutPrefix(text, "line ")
	if !found {
		return 0, "", text
	}
	number, says, found := strings.Cut(rest, ": ")
	line, convErr := strconv.Atoi(number)
	if !found || convErr != nil {
		return 0, "", text
	}
	return line, "", says
}

// forbid notes what no place of the document may have.
func (r *reader) forbid(n *yaml.Node, at string) {
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		r.note(n.Line, at, "anchors and aliases are not allowed")
	}
	if n.Style&yaml.TaggedStyle != 0 {
		r.note(n.Line, at, fmt.Sprintf("tag %q is not allowed", n.Tag))
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			r.forbid(item, fmt.Sprintf("%s[%d]", at, i))
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			r.forbid(n.Content[i], at)
			r.forbid(n.Content[i+1], join(at, n.Content[i].Value))
		}
	default: // nothing below; an alias was noted above
	}
}

func join(at, key string) string {
	key = shown(key)
	if at == "" {
		return key
	}
	return at + "." + key
}

// shown keeps a plain key as it is and quotes any other.
func shown(key string) string {
	for _, c := range key {
		if c <= ' ' || c > '~' || c == '"' {
			return strconv.QuoteToASCII(key)
		}
	}
	return key
}

func (r *reader) note(line int, at, says string) {
	r.faults = append(r.faults, Fault{Line: line, Path: at, Says: says})
}

// err is nil, or every fault of the file in the order of its lines.
func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	list := slices.Clone(r.faults)
	slices.SortStableFunc(list, func(a, b Fault) int { return a.Line - b.Line })
	return &Faults{File: r.file, List: list}
}

func (v value) present() bool { return v.node != nil }

// fault notes what is wrong with the value.
func (v value) fault(format string, args ...any) {
	v.r.note(v.line, v.path, fmt.Sprintf(format, args...))
}

// mapping opens a mapping that may have these keys and no other.
func (v value) mapping(known ...string) fields {
	f := fields{of: v, keys: map[string]value{}}
	for _, p := range v.pairs() {
		if !slices.Contains(known, p.key) {
			p.value.fault("unknown key; known are %s", strings.Join(known, ", "))
			continue
		}
		f.keys[p.key] = p.value
	}
	return f
}

// has says whether the key is written in the file.
func (f fields) has(key string) bool { return f.get(key).present() }

// get answers the value of a key, absent where it is not written.
func (f fields) get(key string) value {
	if v, ok := f.keys[key]; ok {
		return v
	}
	return value{r: f.of.r, line: f.of.line, path: join(f.of.path, key)}
}

// need is get, and a fault where the key is not written.
func (f fields) need(key string) value {
	v := f.get(key)
	if !v.present() && f.of.present() && f.of.node.Kind == yaml.MappingNode {
		v.fault("is missing")
	}
	return v
}

// pair is one entry of a mapping with free keys.
type pair struct {
	key   string
	value value
}

// pairs answers the entries of a mapping in file order, each key once.
func (v value) pairs() []pair {
	if !v.kind(yaml.MappingNode, "a mapping") {
		return nil
	}
	var list []pair
	first := map[string]int{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, item := v.node.Content[i], v.node.Content[i+1]
		at := value{r: v.r, node: item, line: key.Line, path: join(v.path, key.Value)}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			at.fault("a key must be a plain string")
			continue
		}
		if line, twice := first[key.Value]; twice {
			at.fault("written twice, first in line %d", line)
			continue
		}
		first[key.Value] = key.Line
		list = append(list, pair{key: key.Value, value: at})
	}
	return list
}

// items answers the items of a list that has at least one.
func (v value) items() []value {
	if !v.kind(yaml.SequenceNode, "a list") {
		return nil
	}
	if len(v.node.Content) == 0 {
		v.fault("is an empty list")
	}
	var list []value
	for i, item := range v.node.Content {
		list = append(list, value{r: v.r, node: item, line: item.Line, path: fmt.Sprintf("%s[%d]", v.path, i)})
	}
	return list
}

// list is items through a getter: v.list(value.str).
func (v value) list(get func(value) string) []string {
	var list []string
	for _, item := range v.items() {
		list = append(list, get(item))
	}
	return list
}

// kind notes a fault where the value is present and of another kind.
func (v value) kind(want yaml.Kind, name string) bool {
	if v.node == nil {
		return false
	}
	if v.node.Kind == want {
		return true
	}
	v.fault("is %s; %s is needed", nodeKind(v.node), name)
	return false
}

func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	case yaml.ScalarNode:
		return map[string]string{"!!str": "a string", "!!int": "a number", "!!float": "a number", "!!bool": "true or false",
			"!!null": "empty", "!!timestamp": "a time", "!!merge": "a merge key", "!!binary": "binary"}[n.ShortTag()]
	default:
		return "of an unknown kind"
	}
}

// scalar answers the text of a scalar that has one of the tags.
func (v value) scalar(name string, tags ...string) (string, bool) {
	if !v.kind(yaml.ScalarNode, name) {
		return "", false
	}
	if !slices.Contains(tags, v.node.ShortTag()) {
		v.fault("is %s; %s is needed", nodeKind(v.node), name)
		return "", false
	}
	return v.node.Value, true
}

// str answers a string that is not empty and has no control character.
func (v value) str() string {
	s, ok := v.scalar("a string", "!!str")
	if !ok {
		return ""
	}
	if strings.TrimSpace(s) == "" {
		v.fault("is empty")
		return ""
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		v.fault("has a control character or a line break")
		return ""
	}
	return s
}

// boolean answers true or false as YAML 1.2 spells them.
func (v value) boolean(absent bool) bool {
	if !v.present() {
		return absent
	}
	s, ok := v.scalar("true or false", "!!bool", "!!str")
	if ok && s != "true" && s != "false" {
		v.fault("is %q; true or false is needed", s)
	}
	if ok && v.node.ShortTag() == "!!str" && (s == "true" || s == "false") {
		v.fault("is a string; true or false without quotes is needed")
		return false
	}
	return s == "true"
}

// integer answers a decimal number in [low, high].
func (v value) integer(absent, low, high int64) int64 {
	if !v.present() {
		return absent
	}
	s, ok := v.scalar("a number", "!!int")
	if !ok {
		return absent
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		v.fault("%q is no plain decimal number", s)
		return absent
	}
	if n < low || n > high {
		v.fault("%d is out of range: %d to %d", n, low, high)
		return absent
	}
	return n
}

// duration answers a time span with its unit ("50s", "10m") in [low, high].
func (v value) duration(absent, low, high time.Duration) time.Duration {
	if !v.present() {
		return absent
	}
	s, ok := v.scalar("a duration such as 50s", "!!str", "!!int", "!!float")
	if !ok {
		return absent
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		v.fault("%q is no duration; write it with a unit, such as 50s or 10m", s)
		return absent
	}
	if d < low || d > high {
		v.fault("%s is out of range: %s to %s", s, low, high)
		return absent
	}
	return d
}

var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

// size answers a number of bytes with its unit ("512MiB") in [low, high].
func (v value) size(absent, low, high int64) int64 {
	if !v.present() {
		return absent
	}
	s, ok := v.scalar("a size such as 512MiB", "!!str", "!!int", "!!float")
	if !ok {
		return absent
	}
	n, err := parseSize(s)
	if err != nil {
		v.fault("%q is no size; write it with a unit: B, KiB, MiB, GiB or TiB", s)
		return absent
	}
	if n < low || n > high {
		v.fault("%s is out of range: %dB to %dB", s, low, high)
		return absent
	}
	return n
}

func parseSize(s string) (int64, error) {
	for _, unit := range units {
		digits, found := strings.CutSuffix(s, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != digits {
			return 0, strconv.ErrSyntax
		}
		if n > (1<<62)/unit.bytes {
			return 0, strconv.ErrRange
		}
		return n * unit.bytes, nil
	}
	return 0, strconv.ErrSyntax
}

// oneOf answers one of the names.
func (v value) oneOf(absent string, names ...string) string {
	if !v.present() {
		return absent
	}
	s, ok := v.scalar("one of "+strings.Join(names, ", "), "!!str", "!!bool")
	if !ok {
		return absent
	}
	if !slices.Contains(names, s) {
		v.fault("is %q; one of %s is needed", s, strings.Join(names, ", "))
		return absent
	}
	return s
}

// uuid answers a lower-case UUID in its 8-4-4-4-12 form.
func (v value) uuid() string {
	s := v.str()
	if s != "" && !IsUUID(s) {
		v.fault("%q is no UUID in lower-case 8-4-4-4-12 form", s)
		return ""
	}
	return s
}

// IsUUID says whether s is a UUID in its one accepted spelling.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !isHex(s[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// oid answers a full object id: 40 or 64 lower-case hexadecimal digits. An id
// that is all digits is a number to YAML and an id to us.
func (v value) oid() string {
	s, ok := v.scalar("an object id", "!!str", "!!int", "!!float")
	if !ok {
		return ""
	}
	if len(s) != 40 && len(s) != 64 || strings.ContainsFunc(s, func(c rune) bool { return c > 'f' || !isHex(byte(c)) }) {
		v.fault("%q is no full object id (40 or 64 lower-case hexadecimal digits)", s)
		return ""
	}
	if strings.Trim(s, "0") == "" {
		v.fault("the zero id names no object")
		return ""
	}
	return s
}

// absPath answers an absolute path without "..", "." or doubled slashes.
func (v value) absPath() string {
	s := v.str()
	if s == "" {
		return ""
	}
	if !strings.HasPrefix(s, "/") {
		v.fault("%q is not an absolute path", s)
		return ""
	}
	if clean := path.Clean(s); s != clean && s != clean+"/" {
		v.fault("%q is not a plain path; write %q", s, clean)
		return ""
	}
	return path.Clean(s)
}

// version notes a fault unless the mapping says version: 1.
func (f fields) version() {
	v := f.need("version")
	if n := v.integer(1, 0, 1<<31); n != 1 {
		v.fault("version %d is not known; this program reads version 1", n)
	}
}

// unique notes every string that stands in the list twice.
func unique(values []value, keys []string) {
	first := map[string]value{}
	for i, v := range values {
		if i >= len(keys) || keys[i] == "" {
			continue
		}
		if before, twice := first[keys[i]]; twice {
			v.fault("%q stands in line %d already", keys[i], before.line)
			continue
		}
		first[keys[i]] = v
	}
}
