package oracle

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of JSON: blobs and the manifest.
const (
	maxDepth  = 64
	maxDigits = 4300 // of an integer: what Python converts
)

// ValueKind is the type of a JSON value.
type ValueKind uint8

// The types. Invalid is the zero value: no value at all.
const (
	Invalid ValueKind = iota
	Null
	Bool
	Int   // a number without fraction and exponent, of any size
	Float // any other number; finite
	String
	List
	Object
)

// Value is one JSON value that was read strictly: UTF-8, no key twice, no half of
// a surrogate pair, no number beyond the range of a float. It keeps its text and
// is taken apart on demand, so that a large blob costs no more than its bytes.
type Value struct {
	kind ValueKind
	text string
}

// Member is one member of an object.
type Member struct {
	Key   string
	Value Value
}

// ParseValue reads one strict JSON value and nothing behind it.
func ParseValue(text string) (Value, error) {
	r := &jsonReader{text: text}
	v, ok := r.document()
	if !ok {
		return Value{}, fmt.Errorf("line %d: %s", r.faultLine(), r.fault)
	}
	return v, nil
}

// Kind is the type of the value.
func (v Value) Kind() ValueKind { return v.kind }

// Text is the value's own JSON text.
func (v Value) Text() string { return v.text }

// Bool is the boolean.
func (v Value) Bool() (value, ok bool) { return v.text == "true", v.kind == Bool }

// Int is the integer.
func (v Value) Int() (*big.Int, bool) {
	if v.kind != Int {
		return nil, false
	}
	return new(big.Int).SetString(v.text, 10)
}

// Float is the float.
func (v Value) Float() (float64, bool) {
	if v.kind != Float {
		return 0, false
	}
	f, err := strconv.ParseFloat(v.text, 64)
	return f, err == nil
}

// Str is the string, without escapes.
func (v Value) Str() (string, bool) {
	if v.kind != String {
		return "", false
	}
	return unescape(v.text), true
}

// List are the items of a list.
func (v Value) List() ([]Value, bool) {
	if v.kind != List {
		return nil, false
	}
	var items []Value
	r := &jsonReader{text: v.text}
	ok := r.items(0, func(item Value) bool {
		items = append(items, item)
		return true
	})
	return items, ok
}

// Members are the members of an object, in the order of the text.
func (v Value) Members() ([]Member, bool) {
	if v.kind != Object {
		return nil, false
	}
	var members []Member
	r := &jsonReader{text: v.text}
	ok := r.members(0, func(key string, value Value) bool {
		members = append(members, Member{key, value})
		return true
	})
	return members, ok
}

// jsonReader reads a text from left to right. Its methods answer false once there
// is a fault, which is then in fault and at.
type jsonReader struct {
	text  string
	pos   int
	fault string
	at    int
	keys  []string // of the objects that are open

	line, lineEnd int // newlines before lineEnd
}

func (r *jsonReader) fail(at int, format string, args ...any) bool {
	if r.fault == "" {
		r.fault, r.at = fmt.Sprintf(format, args...), at
	}
	return false
}

func (r *jsonReader) faultLine() int { return 1 + strings.Count(r.text[:r.at], "\n") }

// lineOf is the line of a position; positions are asked for in rising order.
func (r *jsonReader) lineOf(pos int) int {
	r.line += strings.Count(r.text[r.lineEnd:pos], "\n")
	r.lineEnd = pos
	return 1 + r.line
}

// document reads the whole text as one value.
func (r *jsonReader) document() (Value, bool) {
	if !r.encoding() {
		return Value{}, false
	}
	r.space()
	v, ok := r.value(0)
	return v, ok && r.end()
}

func (r *jsonReader) encoding() bool {
	if strings.HasPrefix(r.text, "\ufeff") {
		return r.fail(0, "a byte order mark")
	}
	if !utf8.ValidString(r.text) {
		return r.fail(firstInvalid(r.text), "not UTF-8")
	}
	return true
}

// end wants nothing but white space behind the value.
func (r *jsonReader) end() bool {
	r.space()
	if r.pos < len(r.text) {
		return r.fail(r.pos, "something follows the end of the document")
	}
	return true
}

func (r *jsonReader) space() {
	for r.pos < len(r.text) {
		switch r.text[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// next is the next byte; 0 at the end.
func (r *jsonReader) next() byte {
	if r.pos >= len(r.text) {
		return 0
	}
	return r.text[r.pos]
}

// value reads one value that starts here. depth is how many lists and objects are
// open around it.
func (r *jsonReader) value(depth int) (Value, bool) {
	start := r.pos
	kind := Invalid
	ok := false
	switch c := r.next(); {
	case c == '"':
		kind, ok = String, r.skipString()
	case c == '-' || c >= '0' && c <= '9':
		kind, ok = r.number()
	case c == '[':
		kind, ok = List, r.items(depth, nil)
	case c == '{':
		kind, ok = Object, r.members(depth, nil)
	case c == 't':
		kind, ok = Bool, r.word("true")
	case c == 'f':
		kind, ok = Bool, r.word("false")
	case c == 'n':
		kind, ok = Null, r.word("null")
	case r.pos >= len(r.text):
		r.fail(r.pos, "the document ends where a value belongs")
	default:
		r.fail(r.pos, "not a JSON value")
	}
	if !ok {
		return Value{}, false
	}
	return Value{kind, r.text[start:r.pos]}, true
}

func (r *jsonReader) word(w string) bool {
	if !strings.HasPrefix(r.text[r.pos:], w) {
		return r.fail(r.pos, "not a JSON value")
	}
	r.pos += len(w)
	return true
}

// items reads a list and hands out its items.
func (r *jsonReader) items(depth int, each func(Value) bool) bool {
	return r.list(depth, func() bool {
		v, ok := r.value(depth + 1)
		return ok && (each == nil || each(v))
	})
}

// list reads a list whose items are read by item.
func (r *jsonReader) list(depth int, item func() bool) bool {
	if depth >= maxDepth {
		return r.fail(r.pos, "nested deeper than %d", maxDepth)
	}
	r.pos++
	r.space()
	if r.next() == ']' {
		r.pos++
		return true
	}
	for {
		if !item() {
			return false
		}
		if more, ok := r.comma(']'); !ok || !more {
			return ok
		}
	}
}

// comma reads what follows an item: a comma (there is more) or the closing byte.
func (r *jsonReader) comma(closing byte) (more, ok bool) {
	r.space()
	switch r.next() {
	case ',':
		r.pos++
		r.space()
		return true, true
	case closing:
		r.pos++
		return false, true
	default:
		return false, r.fail(r.pos, "neither ',' nor '%c' where one belongs", closing)
	}
}

// members reads an object and hands out its members.
func (r *jsonReader) members(depth int, each func(string, Value) bool) bool {
	if depth >= maxDepth {
		return r.fail(r.pos, "nested deeper than %d", maxDepth)
	}
	r.pos++
	r.space()
	if r.next() == '}' {
		r.pos++
		return true
	}
	mine := len(r.keys)
	defer func() { r.keys = r.keys[:mine] }()
	var seen map[string]bool
	for {
		key, ok := r.key(mine, &seen)
		if !ok {
			return false
		}
		v, ok := r.value(depth + 1)
		if !ok || each != nil && !each(key, v) {
			return false
		}
		if more, ok := r.comma('}'); !ok || !more {
			return ok
		}
	}
}

// key reads a key with its colon, and refuses one that the object has already:
// the open keys from mine on, or all of seen where there are many.
func (r *jsonReader) key(mine int, seen *map[string]bool) (string, bool) {
	start := r.pos
	if r.next() != '"' {
		return "", r.fail(start, "no key where one belongs")
	}
	if !r.skipString() {
		return "", false
	}
	key := unescape(r.text[start:r.pos])
	if r.hasKey(key, mine, seen) {
		return "", r.fail(start, "key %s twice", shown(key))
	}
	r.keys = append(r.keys, key)
	r.space()
	if r.next() != ':' {
		return "", r.fail(r.pos, "no ':' after a key")
	}
	r.pos++
	r.space()
	return key, true
}

// fewKeys are compared one by one; more of them through a map.
const fewKeys = 12

func (r *jsonReader) hasKey(key string, mine int, seen *map[string]bool) bool {
	open := r.keys[mine:]
	if len(open) < fewKeys {
		for _, k := range open {
			if k == key {
				return true
			}
		}
		return false
	}
	if *seen == nil {
		*seen = make(map[string]bool, 2*fewKeys)
		for _, k := range open {
			(*seen)[k] = true
		}
	}
	had := (*seen)[key]
	(*seen)[key] = true
	return had
}

// number reads a number of JSON's grammar and checks its range.
func (r *jsonReader) number() (ValueKind, bool) {
	start := r.pos
	if r.next() == '-' {
		r.pos++
	}
	first := r.pos
	digits := r.digits()
	switch {
	case digits == 0:
		return Invalid, r.fail(start, "not a JSON value")
	case digits > 1 && r.text[first] == '0':
		return Invalid, r.fail(start, "a number with a leading zero")
	case digits > maxDigits:
		return Invalid, r.fail(start, "a number of more than %d digits", maxDigits)
	}
	float := false
	if r.next() == '.' {
		float = true
		r.pos++
		if r.digits() == 0 {
			return Invalid, r.fail(start, "a number without a digit behind its point")
		}
	}
	if c := r.next(); c == 'e' || c == 'E' {
		float = true
		r.pos++
		if c := r.next(); c == '+' || c == '-' {
			r.pos++
		}
		if r.digits() == 0 {
			return Invalid, r.fail(start, "a number without a digit in its exponent")
		}
	}
	if !float {
		return Int, true
	}
	if r.pos-start > 2*maxDigits {
		return Invalid, r.fail(start, "a number of more than %d digits", 2*maxDigits)
	}
	if _, err := strconv.ParseFloat(r.text[start:r.pos], 64); err != nil {
		return Invalid, r.fail(start, "a number beyond the range of a float")
	}
	return Float, true
}

func (r *jsonReader) digits() int {
	start := r.pos
	for r.pos < len(r.text) && r.text[r.pos] >= '0' && r.text[r.pos] <= '9' {
		r.pos++
	}
	return r.pos - start
}

// skipString reads a string with its quotes. The text is known to be UTF-8.
func (r *jsonReader) skipString() bool {
	r.pos++
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '"':
			r.pos++
			return true
		case c == '\\':
			if !r.escape() {
				return false
			}
		case c < ' ':
			return r.fail(r.pos, "a control character in a string")
		default:
			r.pos++
		}
	}
	return r.fail(r.pos, "a string without an end")
}

// escape reads one escape; both halves of a surrogate pair are one.
func (r *jsonReader) escape() bool {
	if r.pos+1 >= len(r.text) {
		return r.fail(r.pos, "a string without an end")
	}
	switch r.text[r.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.pos += 2
		return true
	case 'u':
	default:
		return r.fail(r.pos, "an escape that JSON does not know")
	}
	u, ok := unit(r.text[r.pos:])
	if !ok {
		return r.fail(r.pos, `a \u without four hexadecimal digits`)
	}
	if u < 0xd800 || u > 0xdfff {
		r.pos += 6
		return true
	}
	low, ok := unit(r.text[r.pos+6:])
	if u > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return r.fail(r.pos, "half of a surrogate pair")
	}
	r.pos += 12
	return true
}

// unit reads \uXXXX at the start of s.
func unit(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var u rune
	for i := 2; i < 6; i++ {
		d, ok := hexDigit(s[i])
		if !ok {
			return 0, false
		}
		u = u<<4 | d
	}
	return u, true
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0'), true
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10, true
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10, true
	default:
		return 0, false
	}
}

// unescape is what a string that was read says, quotes taken off.
func unescape(text string) string {
	s := text[1 : len(text)-1]
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; i >= 0; i = strings.IndexByte(s, '\\') {
		b.WriteString(s[:i])
		n, c := oneEscape(s[i:])
		b.WriteRune(c)
		s = s[i+n:]
	}
	b.WriteString(s)
	return b.String()
}

// oneEscape is the length and the meaning of the escape at the start of s.
func oneEscape(s string) (int, rune) {
	switch s[1] {
	case 'b':
		return 2, '\b'
	case 'f':
		return 2, '\f'
	case 'n':
		return 2, '\n'
	case 'r':
		return 2, '\r'
	case 't':
		return 2, '\t'
	case 'u':
		u, _ := unit(s)
		if u < 0xd800 || u > 0xdfff {
			return 6, u
		}
		low, _ := unit(s[6:])
		return 12, 0x10000 + (u-0xd800)<<10 + (low - 0xdc00)
	default: // itself: a quote, a slash, a backslash
		return 2, rune(s[1])
	}
}

func firstInvalid(s string) int {
	for i, c := range s {
		if c == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return len(s)
}
