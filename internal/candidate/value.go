package candidate

import (
	"errors"
	"fmt"
	"strconv"
)

// A reply is a JSON array in one spelling: no white space, only ASCII, no
// object, no number that is not a small integer. Its first element says what
// kind of reply it is:
//
//	["ok", V, D, C]      the request was done
//	["raise", E, D, C]   the pushed code raised E
//	["stop", V, D, C]    an iterator ended
//	["bad", S]           the driver has something that cannot travel
//	["fail", S, S]       a module did not load, and why
//
// V is a value, D the definitions of containers, C the descriptions of classes
// (python/values.py and python/driver.py say what each tag means). Replies about
// invariants are in the plain form, which Decode reads: containers stand inside the
// value, D is empty, and two tags are theirs alone: "O" a dict that keeps its order,
// "I" what was read of an iterator, and whether it ended.

// Kinds of reply.
const (
	OK    = "ok"
	Raise = "raise"
	Stop  = "stop"
	Bad   = "bad"
	Fail  = "fail"
)

// Limits of one reply.
const (
	maxDepth = 160
	maxNodes = 2 << 20
	maxHex   = MaxFrame
	maxSmall = 16 // digits of an integer
)

// Kind is the kind of a reply that Check accepts.
func Kind(reply []byte) string {
	for _, k := range []string{OK, Raise, Stop, Bad, Fail} {
		if len(reply) > len(k)+3 && string(reply[2:2+len(k)]) == k && reply[2+len(k)] == '"' {
			return k
		}
	}
	return ""
}

// Failed splits a "fail" reply into the module and what there is to show.
func Failed(reply []byte) (module, shown string) {
	r := reader{text: reply}
	_ = r.open()
	r.string()
	_ = r.comma()
	module = r.string()
	_ = r.comma()
	shown = r.string()
	return module, shown
}

// Check says whether a reply is well formed.
func Check(reply []byte) error {
	r := reader{text: reply}
	r.reply()
	if r.err == nil && r.at != len(r.text) {
		r.fail("text after the end")
	}
	return r.err
}

// reader walks over one reply. The first fault stays in err, and everything
// after it does nothing.
type reader struct {
	text  []byte
	at    int
	depth int
	nodes int
	err   error
}

func (r *reader) fail(what string) bool {
	if r.err == nil {
		r.err = fmt.Errorf("%s at byte %d", what, r.at)
	}
	r.at = len(r.text)
	return false
}

func (r *reader) peek() byte {
	if r.at >= len(r.text) {
		return 0
	}
	return r.text[r.at]
}

func (r *reader) take(c byte) bool {
	if r.err != nil || r.peek() != c {
		return r.fail(fmt.Sprintf("no %q", c))
	}
	r.at++
	return true
}

func (r *reader) open() bool {
	r.depth++
	r.nodes++
	if r.depth > maxDepth || r.nodes > maxNodes {
		return r.fail("too deep or too much")
	}
	return r.take('[')
}

func (r *reader) close() { r.depth--; r.take(']') }

func (r *reader) comma() bool { return r.take(',') }

// rest calls f for each further element of an array and closes it.
func (r *reader) rest(f func()) int {
	n := 0
	for r.err == nil && r.peek() == ',' {
		r.at++
		f()
		n++
	}
	r.close()
	return n
}

// list reads an array of f.
func (r *reader) list(f func()) {
	if !r.open() {
		return
	}
	if r.peek() == ']' {
		r.close()
		return
	}
	f()
	r.rest(f)
}

// fields reads one element per f, each after a comma, and closes the array.
func (r *reader) fields(fs ...func()) {
	for _, f := range fs {
		if !r.comma() {
			return
		}
		f()
	}
	r.close()
}

func (r *reader) word(w string) {
	if r.err != nil || len(r.text)-r.at < len(w) || string(r.text[r.at:r.at+len(w)]) != w {
		r.fail("no " + w)
		return
	}
	r.at += len(w)
	r.nodes++
}

func (r *reader) boolean() {
	if r.peek() == 't' {
		r.word("true")
		return
	}
	r.word("false")
}

// integer reads a small integer in its one spelling.
func (r *reader) integer() {
	start := r.at
	if r.peek() == '-' {
		r.at++
	}
	digits := r.at
	for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
		r.at++
	}
	n := r.at - digits
	switch {
	case n == 0 || n > maxSmall:
		r.fail("no small integer")
	case r.text[digits] == '0' && (n > 1 || digits > start):
		r.fail("an integer with a zero in front")
	}
	r.nodes++
}

// natural reads an integer from 0.
func (r *reader) natural() {
	if r.peek() == '-' {
		r.fail("a negative number")
		return
	}
	r.integer()
}

// length reads a natural number, or null where there is none.
func (r *reader) length() {
	if r.peek() == 'n' {
		r.word("null")
		return
	}
	r.natural()
}

// string reads a string and returns its value.
func (r *reader) string() string {
	start := r.at
	if !r.take('"') {
		return ""
	}
	r.nodes++
	escaped := false
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			raw := r.text[start+1 : r.at-1]
			if !escaped {
				return string(raw)
			}
			return unescape(raw)
		case c == '\\':
			escaped = true
			if !r.escape() {
				return ""
			}
		case c < 0x20 || c > 0x7e:
			r.fail("a byte that is not printable ASCII")
			return ""
		default:
			r.at++
		}
	}
	r.fail("a string without an end")
	return ""
}

// escape reads one escape sequence; a surrogate must be half of a pair.
func (r *reader) escape() bool {
	if r.at+1 >= len(r.text) {
		return r.fail("half an escape")
	}
	switch r.text[r.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.at += 2
		return true
	case 'u':
		u, ok := r.unit(r.at)
		if !ok || (u >= 0xdc00 && u <= 0xdfff) {
			return r.fail("no escape, or a lone surrogate")
		}
		r.at += 6
		if u < 0xd800 || u > 0xdbff {
			return true
		}
		low, ok := r.unit(r.at)
		if !ok || low < 0xdc00 || low > 0xdfff {
			return r.fail("a lone surrogate")
		}
		r.at += 6
		return true
	default:
		return r.fail("an unknown escape")
	}
}

func (r *reader) unit(at int) (uint64, bool) {
	if at+6 > len(r.text) || r.text[at] != '\\' || r.text[at+1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(string(r.text[at+2:at+6]), 16, 16)
	return u, err == nil
}

func unescape(raw []byte) string {
	s, err := strconv.Unquote(`"` + string(pairs(raw)) + `"`)
	if err != nil {
		return ""
	}
	return s
}

// pairs writes JSON's surrogate pairs and escaped slashes as Go's quoting has them.
func pairs(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		if raw[i+1] == '/' {
			out = append(out, '/')
			i += 2
			continue
		}
		if raw[i+1] != 'u' {
			out = append(out, raw[i:i+2]...)
			i += 2
			continue
		}
		u, _ := strconv.ParseUint(string(raw[i+2:i+6]), 16, 32)
		i += 6
		if u >= 0xd800 && u <= 0xdbff && i+6 <= len(raw) {
			low, _ := strconv.ParseUint(string(raw[i+2:i+6]), 16, 32)
			u = 0x10000 + (u-0xd800)<<10 + (low - 0xdc00)
			i += 6
		}
		out = append(out, fmt.Sprintf(`\U%08x`, u)...)
	}
	return out
}

// text reads a string of at most n bytes.
func (r *reader) short(n int) func() {
	return func() {
		if len(r.string()) > n {
			r.fail("a long string")
		}
	}
}

func (r *reader) name() { r.short(4096)() }

// hex reads whole bytes in hexadecimal.
func (r *reader) hex() {
	s := r.string()
	if len(s)%2 != 0 || len(s) > maxHex || !isHex(s) {
		r.fail("no hexadecimal")
	}
}

func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// big reads an integer as Python's hex() writes it.
func (r *reader) big() {
	s := r.string()
	if len(s) > 0 && s[0] == '-' {
		s = s[1:]
	}
	if len(s) < 3 || s[:2] != "0x" || s[2] == '0' || !isHex(s[2:]) || len(s) > 1<<17 {
		r.fail("no integer")
	}
}

// float reads a number as Python's float.hex() writes it.
func (r *reader) float() {
	s := r.string()
	if !isFloat(s) {
		r.fail("no float")
	}
}

func isFloat(s string) bool {
	switch s {
	case "nan", "inf", "-inf":
		return true
	}
	if len(s) > 32 || len(s) == 0 {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	hexadecimal := len(s) > 2 && (s[:2] == "0x" || len(s) > 3 && s[:3] == "-0x")
	return hexadecimal && (err == nil || errors.Is(err, strconv.ErrRange))
}

// decimal reads what Decimal's str() may write; the judge builds it anew.
func (r *reader) decimal() {
	s := r.string()
	if len(s) == 0 || len(s) > 1<<16 {
		r.fail("no decimal")
		return
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '.' && c != '+' && c != '-' {
			r.fail("no decimal")
			return
		}
	}
}

func (r *reader) reply() {
	if !r.open() {
		return
	}
	switch r.string() {
	case OK, Raise, Stop:
		r.fields(r.value, func() { r.list(r.definition) }, func() { r.list(r.class) })
	case Bad:
		r.fields(r.name)
	case Fail:
		r.fields(r.name, r.short(32<<10))
	default:
		r.fail("an unknown kind of reply")
	}
}

// value reads one value.
func (r *reader) value() {
	if r.err != nil {
		return
	}
	switch c := r.peek(); {
	case c == 'n':
		r.word("null")
	case c == 't', c == 'f':
		r.boolean()
	case c == '"':
		r.string()
	case c == '-' || (c >= '0' && c <= '9'):
		r.integer()
	case c == '[':
		r.tagged()
	default:
		r.fail("no value")
	}
}

func (r *reader) tagged() {
	if !r.open() {
		return
	}
	n, v := r.natural, r.value
	switch r.string() {
	case "i":
		r.fields(r.big)
	case "f":
		r.fields(r.float)
	case "c":
		r.fields(r.float, r.float)
	case "u", "b", "A":
		r.fields(r.hex)
	case "t", "z", "L", "G":
		r.rest(v)
	case "M", "O":
		r.pairs()
	case "I":
		r.iterated(v)
	case "K", "n":
		r.numbered(v)
	case "R", "S":
		r.fields(v, v, v)
	case "N", "E":
		r.fields()
	case "D":
		r.fields(r.decimal)
	case "F":
		r.fields(v, v)
	case "U":
		r.fields(r.hex)
	case "dt":
		r.fields(n, n, n, n, n, n, n, n, r.zone)
	case "tm":
		r.fields(n, n, n, n, n, r.zone)
	case "da":
		r.fields(n, n, n)
	case "td", "tz":
		r.fields(r.integer, n, n)
	case "zi":
		r.fields(r.short(128))
	case "r", "C":
		r.fields(n)
	case "o":
		r.fields(n, n)
	case "m":
		r.fields(n, r.name, r.boolean)
	case "g":
		r.fields(r.name, r.name)
	case "e":
		r.fields(n, r.name, v)
	case "x":
		r.fields(n, v, v, v, func() { r.list(r.attribute) })
	default:
		r.fail("an unknown tag")
	}
}

// numbered reads a class number and the values after it.
func (r *reader) numbered(f func()) {
	if r.comma() {
		r.natural()
		r.rest(f)
	}
}

// iterated reads whether an iterator ended, and the items it gave.
func (r *reader) iterated(f func()) {
	if r.comma() {
		r.boolean()
		r.rest(f)
	}
}

func (r *reader) pairs() {
	if r.rest(r.value)%2 != 0 {
		r.fail("a key without a value")
	}
}

func (r *reader) zone() {
	if r.peek() == 'n' {
		r.word("null")
		return
	}
	if !r.open() {
		return
	}
	switch r.string() {
	case "tz":
		r.fields(r.integer, r.natural, r.natural)
	case "zi":
		r.fields(r.short(128))
	default:
		r.fail("no time zone")
	}
}

func (r *reader) attribute() {
	if !r.open() {
		return
	}
	r.name()
	r.fields(r.value)
}

// definition reads the content of one container.
func (r *reader) definition() {
	if !r.open() {
		return
	}
	r.natural()
	if !r.comma() {
		return
	}
	switch r.string() {
	case "l", "s":
		r.rest(r.value)
	case "d", "c", "O":
		r.pairs()
	case "f":
		r.comma()
		r.value()
		r.pairs()
	case "q":
		r.comma()
		r.length()
		r.rest(r.value)
	case "B":
		r.fields(r.hex)
	default:
		r.fail("an unknown container")
	}
}

// class reads the description of one class.
func (r *reader) class() {
	if !r.open() {
		return
	}
	r.natural()
	strings := func() { r.list(r.name) }
	values := func() { r.list(r.value) }
	extra := func() { r.list(r.detail) }
	r.fields(r.name, r.name, r.name, values, r.short(1), strings, extra)
}

// detail of a class: a flag, a name, or a field with flags.
func (r *reader) detail() {
	switch r.peek() {
	case 't', 'f':
		r.boolean()
	case '[':
		r.open()
		r.name()
		r.rest(r.boolean)
	default:
		r.name()
	}
}
