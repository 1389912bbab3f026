package candidate

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Type is the exact type of a Value.
type Type uint8

// The types. The zero value is Opaque: it equals nothing, not even itself.
const (
	Opaque Type = iota
	Null
	Bool
	Int
	Float
	Complex
	Str
	Bytes
	Bytearray
	List
	Tuple
	Dict
	OrderedDict
	Set
	FrozenSet
	Range
	Slice
	Iterator // what was read of one
	Decimal
	Fraction
	DateTime
	Date
	Time
	TimeDelta
	TimeZone
	ZoneInfo
	UUID
	Enum       // a member of an enum that is no number and no text itself
	NamedTuple // a tuple of a class of its own
	Record     // a dataclass, by class and compared fields
	Class
	Ellipsis
	NotImplemented
)

// Value is one value of pushed code, or of an oracle, as plain data. What a field
// means depends on Type; what it does not name is zero.
type Value struct {
	Type Type
	// Whole is the number of a Bool (0, 1) and of an Int that fits, the flag of an
	// Iterator that ended (1), and the class number of an Enum, NamedTuple, Record,
	// Class or Opaque. Class numbers are those of one candidate.
	Whole int64
	// Big is an Int that does not fit into Whole, and nil where it does.
	Big *big.Int
	// Real is a Float, and the real part of a Complex; Imag the other one.
	Real, Imag float64
	// Text is a Str in UTF-8 (lone surrogates as three bytes each), Bytes and
	// Bytearray as they are, a Decimal as str() writes it, a ZoneInfo's key, a UUID in
	// hexadecimal, the name of an Enum member, and "module.name" of a built-in Class.
	Text string
	// Items are those of containers (Dict: key, value, key, value …), the start, stop
	// and step of a Range or Slice, both parts of a Fraction, the value of an Enum,
	// and the TimeZone or ZoneInfo of a DateTime or Time that has one.
	Items []Value
	// Fields are the numbers of a date or time: DateTime year, month, day, hour,
	// minute, second, microsecond, fold; Time likewise from the hour; Date year, month,
	// day; TimeDelta and TimeZone days, seconds, microseconds.
	Fields []int64
}

// WholeNumber is an Int.
func WholeNumber(n *big.Int) Value {
	if n.IsInt64() {
		return Value{Type: Int, Whole: n.Int64()}
	}
	return Value{Type: Int, Big: n}
}

// BigInt is the number of an Int or Bool.
func (v Value) BigInt() *big.Int {
	if v.Big != nil {
		return v.Big
	}
	return big.NewInt(v.Whole)
}

// maxDecoded bounds the values of one reply: memory follows it.
const maxDecoded = 1 << 19

// Decode reads the value of an "ok" reply that Check accepts and that is in the
// plain form: no references, no definitions. Containers hold what was sent, in its
// order; whether a number, date or key makes sense is looked at, equality is not.
func Decode(reply []byte) (Value, error) { return Names(nil).Decode(reply) }

// Names are the names of the classes that one candidate has described so far, by
// their numbers. They are for people: pushed code chose them, and how many it
// describes, so only so much of so many is kept.
type Names map[int64]string

const (
	maxNames = 2000
	maxShown = 100 // bytes of one
)

// keep takes a name in. A class that was described keeps its first name.
func (names Names) keep(number int64, name string) {
	if _, known := names[number]; names == nil || known || len(names) >= maxNames {
		return
	}
	names[number] = strings.Clone(name[:min(len(name), maxShown)])
}

// Decode is Decode, and keeps the names that the reply brings.
func (names Names) Decode(reply []byte) (Value, error) {
	d := decoder{reader: reader{text: reply}, names: names}
	d.open()
	if kind := d.string(); d.err == nil && kind != OK {
		return Value{}, fmt.Errorf("decode reply: it is %q", kind)
	}
	d.comma()
	v := d.value()
	d.fields(d.none, func() { d.list(d.named) })
	if d.err == nil && d.at != len(d.text) {
		d.fail("text after the end")
	}
	if d.err != nil {
		return Value{}, fmt.Errorf("decode reply: %w", d.err)
	}
	return v, nil
}

// decoder reads values where reader only checks them.
type decoder struct {
	reader
	values int
	names  Names
}

// named reads the description of a class and keeps its name.
func (d *decoder) named() {
	ahead := decoder{reader: reader{text: d.text, at: d.at}}
	ahead.open()
	number := ahead.number()
	ahead.comma()
	name := ahead.string()
	d.class()
	if d.err == nil {
		d.names.keep(number, name)
	}
}

// Raised says in one line what a "raise" or "stop" reply carries: class and text of
// an exception, or the text that a driver of another language puts there.
func (names Names) Raised(reply []byte) string {
	if Kind(reply) == Stop {
		return "StopIteration"
	}
	d := decoder{reader: reader{text: reply}, names: names}
	d.open()
	d.string()
	d.comma()
	start := d.at
	d.reader.value()
	d.comma()
	d.list(d.definition)
	d.comma()
	d.list(d.named)
	e := decoder{reader: reader{text: reply, at: start}}
	if e.peek() == '"' {
		return e.string()
	}
	e.open()
	if e.string() != "x" {
		return "an exception"
	}
	e.comma()
	e.number()
	e.comma()
	class := names.of(e.value())
	e.comma()
	if text := e.value(); text.Type == Str && text.Text != "" {
		return class + ": " + text.Text
	}
	return class
}

// of is the name of a Class.
func (names Names) of(class Value) string {
	if _, name, ok := strings.Cut(class.Text, "."); ok {
		return name
	}
	if name := names[class.Whole]; name != "" {
		return name
	}
	return "an exception"
}

// none reads an empty list.
func (d *decoder) none() {
	if d.open() {
		d.close()
	}
}

func (d *decoder) value() Value {
	if d.values++; d.values > maxDecoded {
		d.fail(fmt.Sprintf("more than %d values", maxDecoded))
	}
	if d.err != nil {
		return Value{}
	}
	switch d.peek() {
	case 'n':
		d.word("null")
		return Value{Type: Null}
	case 't':
		d.word("true")
		return Value{Type: Bool, Whole: 1}
	case 'f':
		d.word("false")
		return Value{Type: Bool}
	case '"':
		return Value{Type: Str, Text: d.string()}
	case '[':
		return d.tagged()
	default:
		return Value{Type: Int, Whole: d.small()}
	}
}

func (d *decoder) small() int64 {
	start := d.at
	d.integer()
	if d.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(d.text[start:d.at]), 10, 64)
	if err != nil {
		d.fail("no small integer")
	}
	return n
}

// containers are the tags of values that are nothing but their items.
var containers = map[string]Type{"L": List, "t": Tuple, "M": Dict, "O": OrderedDict, "G": Set, "z": FrozenSet, "R": Range, "S": Slice}

// stamps are the tags of dates and times, and how many numbers each has.
var stamps = map[string]struct {
	typ   Type
	count int
	zoned bool
}{
	"dt": {DateTime, 8, true}, "tm": {Time, 5, true}, "da": {Date, 3, false}, "td": {TimeDelta, 3, false}, "tz": {TimeZone, 3, false},
}

func (d *decoder) tagged() Value {
	if !d.open() {
		return Value{}
	}
	tag := d.string()
	if t, ok := containers[tag]; ok {
		return d.container(t)
	}
	if _, ok := stamps[tag]; ok {
		return d.stamp(tag)
	}
	v := Value{}
	switch tag {
	case "i":
		v = d.bigInt()
	case "f":
		v = Value{Type: Float, Real: d.real()}
	case "c":
		v = Value{Type: Complex, Real: d.real(), Imag: d.real()}
	case "u":
		v = Value{Type: Str, Text: d.bytes()}
	case "b":
		v = Value{Type: Bytes, Text: d.bytes()}
	case "A":
		v = Value{Type: Bytearray, Text: d.bytes()}
	case "D":
		d.comma()
		v = Value{Type: Decimal, Text: d.string()}
		d.checkDecimal(v.Text)
	case "F":
		return d.fraction()
	case "U":
		v = Value{Type: UUID, Text: hex.EncodeToString([]byte(d.bytes()))}
	case "zi":
		d.comma()
		v = Value{Type: ZoneInfo, Text: d.string()}
	case "I":
		return d.iterator()
	case "n":
		return d.classed(NamedTuple)
	case "K":
		return d.classed(Record)
	case "e":
		return d.member()
	case "C":
		d.comma()
		v = Value{Type: Class, Whole: d.number()}
	case "g":
		d.comma()
		v = Value{Type: Class, Text: d.string() + "."}
		d.comma()
		v.Text += d.string()
	case "N":
		v = Value{Type: NotImplemented}
	case "E":
		v = Value{Type: Ellipsis}
	case "o", "m", "x":
		return d.opaque(tag)
	default:
		d.fail("a tag that is no plain value")
	}
	d.close()
	return v
}

func (d *decoder) container(t Type) Value {
	v := Value{Type: t}
	d.rest(func() { v.Items = append(v.Items, d.value()) })
	switch n := len(v.Items); {
	case (t == Dict || t == OrderedDict) && n%2 != 0:
		d.fail("a key without a value")
	case t == Range && (n != 3 || !d.wholes(v.Items) || v.Items[2].BigInt().Sign() == 0):
		d.fail("no range")
	case t == Slice && n != 3:
		d.fail("no slice")
	}
	return v
}

func (d *decoder) wholes(items []Value) bool {
	for _, v := range items {
		if v.Type != Int {
			return false
		}
	}
	return true
}

func (d *decoder) bigInt() Value {
	d.comma()
	start := d.at
	d.big()
	if d.err != nil {
		return Value{}
	}
	text := strings.Replace(string(d.text[start+1:d.at-1]), "0x", "", 1)
	n, ok := new(big.Int).SetString(text, 16)
	if !ok {
		d.fail("no integer")
		return Value{}
	}
	return WholeNumber(n)
}

func (d *decoder) real() float64 {
	d.comma()
	start := d.at
	d.float()
	if d.err != nil {
		return 0
	}
	f, err := strconv.ParseFloat(string(d.text[start+1:d.at-1]), 64)
	if err != nil {
		d.fail("a float beyond the range")
	}
	return f
}

func (d *decoder) bytes() string {
	d.comma()
	start := d.at
	d.hex()
	if d.err != nil {
		return ""
	}
	raw, err := hex.DecodeString(string(d.text[start+1 : d.at-1]))
	if err != nil {
		d.fail("no hexadecimal")
	}
	return string(raw)
}

func (d *decoder) number() int64 {
	if d.peek() == '-' {
		d.fail("a negative number")
	}
	return d.small()
}

func (d *decoder) checkDecimal(text string) {
	if _, err := ParseDecimal(text); err != nil && d.err == nil {
		d.fail("no decimal")
	}
}

func (d *decoder) fraction() Value {
	v := d.container(Fraction)
	if d.err == nil && (len(v.Items) != 2 || !d.wholes(v.Items) || v.Items[1].BigInt().Sign() <= 0) {
		d.fail("no fraction")
	}
	return v
}

func (d *decoder) iterator() Value {
	d.comma()
	start := d.at
	d.boolean()
	v := Value{Type: Iterator}
	if d.err == nil && d.text[start] == 't' {
		v.Whole = 1
	}
	d.rest(func() { v.Items = append(v.Items, d.value()) })
	return v
}

func (d *decoder) classed(t Type) Value {
	d.comma()
	v := Value{Type: t, Whole: d.number()}
	d.rest(func() { v.Items = append(v.Items, d.value()) })
	return v
}

func (d *decoder) member() Value {
	d.comma()
	v := Value{Type: Enum, Whole: d.number()}
	d.comma()
	v.Text = d.string()
	d.comma()
	v.Items = []Value{d.value()}
	d.close()
	return v
}

// opaque reads over what has no plain value. Of an object, its class is kept.
func (d *decoder) opaque(tag string) Value {
	v := Value{}
	if tag == "o" {
		d.comma()
		d.number()
		d.comma()
		v.Whole = d.number()
	}
	for d.err == nil && d.peek() != ']' {
		if d.take(',') {
			d.skip()
		}
	}
	d.close()
	return v
}

// skip reads any JSON that Check accepts inside a reply.
func (d *decoder) skip() {
	if d.values++; d.values > maxDecoded {
		d.fail(fmt.Sprintf("more than %d values", maxDecoded))
		return
	}
	if d.peek() != '[' {
		d.value()
		return
	}
	d.list(d.skip)
}

func (d *decoder) stamp(tag string) Value {
	s := stamps[tag]
	v := Value{Type: s.typ, Fields: make([]int64, s.count)}
	for i := range v.Fields {
		d.comma()
		v.Fields[i] = d.small()
	}
	if s.zoned {
		d.comma()
		d.zoneOf(&v)
	}
	d.close()
	if d.err == nil && !sensible(v) {
		d.fail("no date or time")
	}
	return v
}

func (d *decoder) zoneOf(v *Value) {
	zone := d.value()
	switch zone.Type {
	case Null:
	case TimeZone, ZoneInfo:
		v.Items = []Value{zone}
	default:
		d.fail("no time zone")
	}
}

// sensible says whether the numbers of a date or time are in their ranges.
func sensible(v Value) bool {
	f := v.Fields
	in := func(n, low, high int64) bool { return n >= low && n <= high }
	clock := func(f []int64) bool {
		return in(f[0], 0, 23) && in(f[1], 0, 59) && in(f[2], 0, 59) && in(f[3], 0, 999_999) && in(f[4], 0, 1)
	}
	day := func(f []int64) bool { return in(f[0], 1, 9999) && in(f[1], 1, 12) && in(f[2], 1, 31) }
	span := func(days int64) bool { return in(f[0], -days, days) && in(f[1], 0, 86_399) && in(f[2], 0, 999_999) }
	switch v.Type {
	case DateTime:
		return day(f) && clock(f[3:])
	case Time:
		return clock(f)
	case Date:
		return day(f)
	case TimeDelta:
		return span(999_999_999)
	case TimeZone:
		return span(1)
	default:
		return false
	}
}

// DecimalNumber is a Decimal: Coefficient times ten to the power of Exponent, or
// an infinity (Inf -1, 1), or NaN.
type DecimalNumber struct {
	Coefficient *big.Int
	Exponent    int64
	Inf         int
	NaN         bool
}

var errDecimal = errors.New("no decimal")

// ParseDecimal reads what Decimal's str() writes.
func ParseDecimal(text string) (DecimalNumber, error) {
	sign, rest := 1, text
	if strings.HasPrefix(rest, "-") {
		sign, rest = -1, rest[1:]
	}
	switch {
	case rest == "Infinity":
		return DecimalNumber{Inf: sign}, nil
	case isDigits(strings.TrimPrefix(strings.TrimPrefix(rest, "s"), "NaN")) && strings.HasPrefix(strings.TrimPrefix(rest, "s"), "NaN"):
		return DecimalNumber{NaN: true}, nil
	}
	mantissa, power, hasPower := strings.Cut(rest, "E")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent := int64(0)
	if hasPower {
		n, err := strconv.ParseInt(power, 10, 64)
		if err != nil || n > math.MaxInt64/4 || n < math.MinInt64/4 {
			return DecimalNumber{}, errDecimal
		}
		exponent = n
	}
	digits := whole + fraction
	if whole == "" || !isDigits(digits) {
		return DecimalNumber{}, errDecimal
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return DecimalNumber{}, errDecimal
	}
	if sign < 0 {
		n.Neg(n)
	}
	return DecimalNumber{Coefficient: n, Exponent: exponent - int64(len(fraction))}, nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
