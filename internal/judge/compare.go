package judge

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/oracle"
)

// comparison says whether plain values are equal: as Python's == has it, and
// changed as the author of an oracle asked for. It is good for one row: what one
// row may cost is bounded.
type comparison struct {
	strict    bool // types too
	sequence  bool // lists, tuples, ranges and iterators by their items
	unordered bool // lists and tuples (with sequence: sets too) in any order
	repeated  bool // neither is what is expected: both are what a call gave
	abs, rel  *big.Rat
	left      int64 // what may still be spent
}

// rowCost is what comparing one row may cost, in units of about ten nanoseconds.
const rowCost = 1 << 24

// matched is the number of items up to which lists are compared both unordered and
// with a tolerance: each item may fit several others.
const matched = 512

func newComparison(v oracle.Invariant) *comparison {
	c := &comparison{strict: v.Strict, sequence: v.Sequence, unordered: v.Unordered, repeated: v.Kind == oracle.Idempotent, left: rowCost}
	if v.AbsTol > 0 || v.RelTol > 0 {
		c.abs, c.rel = new(big.Rat).SetFloat64(v.AbsTol), new(big.Rat).SetFloat64(v.RelTol)
		if c.abs == nil || c.rel == nil { // not finite: the reader does not let it through
			c.abs, c.rel = nil, nil
		}
	}
	return c
}

// spend says whether n more units may be spent.
func (c *comparison) spend(n int64) bool {
	c.left -= n
	return c.left >= 0
}

// calculate says whether a calculation with so many bits may be made.
func (c *comparison) calculate(bits int64) bool {
	words := bits>>6 + 1
	return c.spend(min(words, 1<<30)*words>>4 + 1)
}

// spent says that a comparison was given up; what it said does not count.
func (c *comparison) spent() bool { return c.left < 0 }

// shape is what two values need in common to be equal at all.
type shape uint8

const (
	shapeless shape = iota // equals nothing
	numeric
	text
	binaryText
	list
	tuple
	items // list or tuple or what else a sequence may be
	bag   // set
	mapping
	span // range
	whole
)

func (c *comparison) shapeOf(v candidate.Value) shape {
	switch v.Type {
	case candidate.Bool, candidate.Int, candidate.Float, candidate.Complex, candidate.Decimal, candidate.Fraction:
		return numeric
	case candidate.Str:
		return text
	case candidate.Bytes, candidate.Bytearray:
		return binaryText
	case candidate.List:
		return c.sequenced(list)
	case candidate.Tuple, candidate.NamedTuple:
		return c.sequenced(tuple)
	case candidate.Iterator:
		return c.sequenced(shapeless)
	case candidate.Range:
		return c.sequenced(span)
	case candidate.Set, candidate.FrozenSet:
		if c.sequence && c.unordered {
			return items
		}
		return bag
	case candidate.Dict, candidate.OrderedDict:
		return mapping
	case candidate.Opaque:
		return shapeless
	default:
		return whole
	}
}

func (c *comparison) sequenced(s shape) shape {
	if c.sequence {
		return items
	}
	return s
}

// equal says whether a equals b.
func (c *comparison) equal(a, b candidate.Value) bool {
	if !c.spend(1) {
		return false
	}
	s := c.shapeOf(a)
	if s == shapeless || s != c.shapeOf(b) || c.strict && !c.sameType(s, a, b) {
		return false
	}
	switch s {
	case numeric:
		return c.equalNumbers(a, b)
	case text, binaryText:
		return a.Text == b.Text
	case list, tuple, items:
		return c.equalItems(a, b)
	case bag:
		return c.equalBags(a.Items, b.Items)
	case mapping:
		return c.equalMappings(a, b)
	default:
		if a.Type == candidate.Record && b.Type == candidate.Record {
			return a.Whole == b.Whole && c.equalInOrder(a.Items, b.Items)
		}
		return c.equalKeys(a, b)
	}
}

// sameType is what strict asks for. Where sequence is asked for too, a list, a
// tuple and an iterator are one type.
func (c *comparison) sameType(s shape, a, b candidate.Value) bool {
	if s == items {
		return true
	}
	same := a.Type == b.Type || s == mapping // an ordered dict is a dict
	return same && (a.Type != candidate.NamedTuple || a.Whole == b.Whole)
}

func (c *comparison) equalNumbers(a, b candidate.Value) bool {
	if a.Type == candidate.Int && b.Type == candidate.Int && a.Big == nil && b.Big == nil && a.Whole == b.Whole {
		return true
	}
	if !c.spend(int64(len(a.Text)+len(b.Text)) >> 2) {
		return false
	}
	x, ok1 := numberOf(a)
	y, ok2 := numberOf(b)
	if !ok1 || !ok2 {
		return c.equalComplex(a, b)
	}
	if x.nan || y.nan {
		return false
	}
	if sign, ok := c.cmp(x, y); !ok || sign == 0 {
		return ok
	}
	tolerant := c.abs != nil && a.Type != candidate.Bool && b.Type != candidate.Bool
	return tolerant && c.close(x, y)
}

func (c *comparison) equalComplex(a, b candidate.Value) bool {
	return a.Type == candidate.Complex && b.Type == candidate.Complex && a.Real == b.Real && a.Imag == b.Imag
}

// equalItems compares sequences.
func (c *comparison) equalItems(a, b candidate.Value) bool {
	if a.Type == candidate.Range && b.Type == candidate.Range {
		return string(rangeKey(nil, a)) == string(rangeKey(nil, b))
	}
	x, y, ok := c.pair(a, b)
	if !ok {
		return false
	}
	if c.unordered {
		return c.equalUnordered(x, y)
	}
	return c.equalInOrder(x, y)
}

func (c *comparison) equalInOrder(x, y []candidate.Value) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !c.equal(x[i], y[i]) {
			return false
		}
	}
	return true
}

// pair is the items of both. Of an iterator that still goes on where what is
// expected has long ended, only as many count as are expected. Where that is
// nothing, and between two calls, it is another value.
func (c *comparison) pair(a, b candidate.Value) (x, y []candidate.Value, ok bool) {
	n, m := length(a), length(b)
	switch {
	case c.repeated:
	case goesOn(a) && !goesOn(b) && m > 0 && n >= m+lookAhead:
		n = m
	case goesOn(b) && !goesOn(a) && n > 0 && m >= n+lookAhead:
		m = n
	}
	if n != m || !c.drawn(a, n) || !c.drawn(b, n) {
		return nil, nil, false
	}
	return itemsOf(a, n), itemsOf(b, m), true
}

// mostItems bounds the items of a range that are written out, perItem is what
// writing one out costs: nothing that arrived bounds them.
const (
	mostItems = 1 << 18
	perItem   = 16
)

// drawn says whether n items of v may be looked at.
func (c *comparison) drawn(v candidate.Value, n int64) bool {
	if v.Type != candidate.Range {
		return c.spend(n)
	}
	if n < 0 || n > mostItems {
		c.left = -1
		return false
	}
	return c.spend(n * perItem)
}

func goesOn(v candidate.Value) bool { return v.Type == candidate.Iterator && v.Whole == 0 }

// length is the number of items; -1 is more than can be counted.
func length(v candidate.Value) int64 {
	if v.Type == candidate.Range {
		n := rangeLength(v)
		if !n.IsInt64() {
			return -1
		}
		return n.Int64()
	}
	return int64(len(v.Items))
}

// itemsOf is the first n items; there are as many.
func itemsOf(v candidate.Value, n int64) []candidate.Value {
	if v.Type != candidate.Range {
		return v.Items[:n]
	}
	out := make([]candidate.Value, 0, n)
	at, step := new(big.Int).Set(v.Items[0].BigInt()), v.Items[2].BigInt()
	for range n {
		out = append(out, candidate.WholeNumber(new(big.Int).Set(at)))
		at.Add(at, step)
	}
	return out
}

// rangeLength is len() of a range.
func rangeLength(v candidate.Value) *big.Int {
	start, stop, step := v.Items[0].BigInt(), v.Items[1].BigInt(), v.Items[2].BigInt()
	way := new(big.Int).Sub(stop, start)
	if step.Sign() < 0 {
		way.Neg(way)
	}
	if way.Sign() <= 0 {
		return way.SetInt64(0)
	}
	way.Sub(way, big.NewInt(1))
	way.Quo(way, new(big.Int).Abs(step))
	return way.Add(way, big.NewInt(1))
}

// equalUnordered compares items in any order, as often as each occurs.
func (c *comparison) equalUnordered(x, y []candidate.Value) bool {
	if c.abs == nil {
		return c.equalBags(x, y)
	}
	if len(x) > matched { // too much to try: the row fails, and says so
		c.left = -1
		return false
	}
	fits := make([][]int, len(x))
	for i := range x {
		for j := range y {
			if c.equal(x[i], y[j]) {
				fits[i] = append(fits[i], j)
			}
		}
		if len(fits[i]) == 0 {
			return false
		}
	}
	return pairUp(fits, len(y))
}

// pairUp says whether each item has a partner of its own.
func pairUp(fits [][]int, n int) bool {
	partner := make([]int, n)
	for j := range partner {
		partner[j] = -1
	}
	for i := range fits {
		if !augment(fits, partner, make([]bool, n), i) {
			return false
		}
	}
	return true
}

func augment(fits [][]int, partner []int, seen []bool, i int) bool {
	for _, j := range fits[i] {
		if seen[j] {
			continue
		}
		seen[j] = true
		if partner[j] < 0 || augment(fits, partner, seen, partner[j]) {
			partner[j] = i
			return true
		}
	}
	return false
}

// equalBags compares by keys, in any order, as often as each occurs.
func (c *comparison) equalBags(x, y []candidate.Value) bool {
	if len(x) != len(y) {
		return false
	}
	a, ok1 := c.keys(x)
	b, ok2 := c.keys(y)
	if !ok1 || !ok2 {
		return false
	}
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func (c *comparison) keys(vs []candidate.Value) ([]string, bool) {
	out := make([]string, 0, len(vs))
	for _, v := range vs {
		k, ok := c.key(nil, v)
		if !ok {
			return nil, false
		}
		out = append(out, string(k))
	}
	return out, true
}

func (c *comparison) equalKeys(a, b candidate.Value) bool {
	x, ok1 := c.key(nil, a)
	y, ok2 := c.key(nil, b)
	return ok1 && ok2 && string(x) == string(y)
}

func (c *comparison) equalMappings(a, b candidate.Value) bool {
	x, y := a.Items, b.Items
	if len(x) != len(y) {
		return false
	}
	if a.Type == candidate.OrderedDict && b.Type == candidate.OrderedDict && !c.unordered {
		return c.sameOrder(x, y)
	}
	values := make(map[string]candidate.Value, len(x)/2)
	for i := 0; i < len(x); i += 2 {
		k, ok := c.key(nil, x[i])
		if !ok {
			return false
		}
		values[string(k)] = x[i+1]
	}
	for i := 0; i < len(y); i += 2 {
		k, ok := c.key(nil, y[i])
		if !ok {
			return false
		}
		v, ok := values[string(k)]
		if !ok || !c.equal(v, y[i+1]) {
			return false
		}
		delete(values, string(k))
	}
	return len(values) == 0
}

func (c *comparison) sameOrder(x, y []candidate.Value) bool {
	for i := 0; i < len(x); i += 2 {
		if !c.equalKeys(x[i], y[i]) || !c.equal(x[i+1], y[i+1]) {
			return false
		}
	}
	return true
}

// key writes v so that two values are equal, tolerances aside, exactly when they
// are written the same. It is false for what equals nothing.
func (c *comparison) key(out []byte, v candidate.Value) ([]byte, bool) {
	if !c.spend(1 + int64(len(v.Text))>>6) {
		return nil, false
	}
	s := c.shapeOf(v)
	if s == shapeless {
		return nil, false
	}
	out = append(out, byte(s)+'a')
	if c.strict && s != items && s != mapping {
		out = append(out, byte(v.Type))
	}
	switch s {
	case numeric:
		return c.numberKey(out, v)
	case text, binaryText:
		return appendText(out, v.Text), true
	case list, tuple, items:
		return c.itemsKey(out, v)
	case bag:
		return c.bagKey(out, v.Items)
	case mapping:
		return c.mappingKey(out, v)
	case span:
		return rangeKey(out, v), true
	default:
		return c.wholeKey(out, v)
	}
}

func appendText(out []byte, s string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

// numberKey writes a number in lowest terms. Numbers beyond a modest size are
// written as they are: a huge Decimal as a key equals only a Decimal.
func (c *comparison) numberKey(out []byte, v candidate.Value) ([]byte, bool) {
	if v.Type == candidate.Int && v.Big == nil {
		return appendText(out, strconv.FormatInt(v.Whole, 10)), true
	}
	n, ok := numberOf(v)
	switch {
	case !ok && v.Type == candidate.Complex && v.Real == v.Real && v.Imag == v.Imag:
		return appendText(out, fmt.Sprintf("complex %x %x", v.Real+0, v.Imag+0)), true
	case !ok || n.nan:
		return nil, false
	case n.inf != 0:
		return appendText(out, "infinity"+strconv.Itoa(n.inf)), true
	case n.num.Sign() == 0:
		return appendText(out, "0"), true
	case !n.modest() && v.Type == candidate.Decimal:
		return c.hugeKey(out, n)
	}
	if !c.calculate(n.bits()) {
		return nil, false
	}
	r := n.rat()
	if r.IsInt() {
		return appendText(out, r.Num().Text(10)), true
	}
	return appendText(out, r.Num().Text(16)+"/"+r.Denom().Text(16)), true
}

// hugeKey writes a decimal with as small a coefficient as it can have.
func (c *comparison) hugeKey(out []byte, n number) ([]byte, bool) {
	if !c.calculate(int64(n.num.BitLen())) {
		return nil, false
	}
	digits, exp := n.num.Text(10), n.exp
	end := len(digits)
	for end > 1 && digits[end-1] == '0' {
		end--
		exp++
	}
	return appendText(out, digits[:end]+"E"+strconv.FormatInt(exp, 10)), true
}

func (c *comparison) itemsKey(out []byte, v candidate.Value) ([]byte, bool) {
	n := length(v)
	if goesOn(v) || !c.drawn(v, n) {
		return nil, false
	}
	if c.strict && v.Type == candidate.NamedTuple && !c.sequence {
		out = binary.AppendVarint(out, v.Whole)
	}
	vs := itemsOf(v, n)
	if c.unordered {
		return c.bagKey(out, vs)
	}
	return c.appendKeys(out, vs)
}

func (c *comparison) appendKeys(out []byte, vs []candidate.Value) ([]byte, bool) {
	out = binary.AppendUvarint(out, uint64(len(vs)))
	for _, v := range vs {
		var ok bool
		if out, ok = c.key(out, v); !ok {
			return nil, false
		}
	}
	return out, true
}

func (c *comparison) bagKey(out []byte, vs []candidate.Value) ([]byte, bool) {
	keys, ok := c.keys(vs)
	if !ok {
		return nil, false
	}
	slices.Sort(keys)
	out = binary.AppendUvarint(out, uint64(len(keys)))
	for _, k := range keys {
		if !c.spend(int64(len(k)) >> 4) {
			return nil, false
		}
		out = appendText(out, k)
	}
	return out, true
}

func (c *comparison) mappingKey(out []byte, v candidate.Value) ([]byte, bool) {
	pairs := make([]string, 0, len(v.Items)/2)
	for i := 0; i < len(v.Items); i += 2 {
		k, ok := c.appendKeys(nil, v.Items[i:i+2])
		if !ok {
			return nil, false
		}
		pairs = append(pairs, string(k))
	}
	slices.Sort(pairs)
	out = binary.AppendUvarint(out, uint64(len(pairs)))
	for _, p := range pairs {
		out = appendText(out, p)
	}
	return out, true
}

// rangeKey: ranges are equal when they have the same items.
func rangeKey(out []byte, v candidate.Value) []byte {
	n := rangeLength(v)
	out = appendText(out, n.String())
	if n.Sign() > 0 {
		out = appendText(out, v.Items[0].BigInt().String())
	}
	if n.Cmp(big.NewInt(1)) > 0 {
		out = appendText(out, v.Items[2].BigInt().String())
	}
	return out
}

// wholeKey writes what equals only its own type.
func (c *comparison) wholeKey(out []byte, v candidate.Value) ([]byte, bool) {
	out = append(out, byte(v.Type))
	switch v.Type {
	case candidate.DateTime, candidate.Time:
		return stampKey(out, v), true
	case candidate.Enum:
		out = appendText(binary.AppendVarint(out, v.Whole), v.Text)
		if v.Text != "" { // a member is itself, whatever it stands for
			return out, true
		}
		return c.appendKeys(out, v.Items)
	case candidate.Record, candidate.Class:
		out = appendText(binary.AppendVarint(out, v.Whole), v.Text)
		return c.appendKeys(out, v.Items)
	default:
		for _, n := range v.Fields {
			out = binary.AppendVarint(out, n)
		}
		return c.appendKeys(appendText(out, v.Text), v.Items)
	}
}

// stampKey writes a naive date and time as it is, one with an offset as the moment
// it is, and one with a named zone with that zone.
func stampKey(out []byte, v candidate.Value) []byte {
	f := v.Fields
	days := int64(0)
	if v.Type == candidate.DateTime {
		days = civilDays(f[0], f[1], f[2])
		f = f[3:]
	}
	moment := ((days*24+f[0])*60+f[1])*60 + f[2]
	zone := "naive"
	if len(v.Items) == 1 {
		z := v.Items[0]
		zone = "moment"
		if z.Type == candidate.ZoneInfo {
			zone = "in " + z.Text
		} else {
			moment -= z.Fields[0]*86_400 + z.Fields[1]
			f = []int64{f[0], f[1], f[2], f[3] - z.Fields[2]}
		}
	}
	micros := moment*1_000_000 + f[3]
	return binary.AppendVarint(appendText(out, zone), micros)
}

// civilDays counts days of the Gregorian calendar from a fixed one.
func civilDays(year, month, day int64) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*month-457)/5 + day
}

// expectedValue is an oracle's JSON value as Python's json.loads gives it.
func expectedValue(v oracle.Value) (candidate.Value, error) {
	switch v.Kind() {
	case oracle.Null:
		return candidate.Value{Type: candidate.Null}, nil
	case oracle.Bool:
		b, _ := v.Bool()
		if b {
			return candidate.Value{Type: candidate.Bool, Whole: 1}, nil
		}
		return candidate.Value{Type: candidate.Bool}, nil
	case oracle.Int:
		n, ok := v.Int()
		if !ok {
			return candidate.Value{}, known(ok, v)
		}
		return candidate.WholeNumber(n), nil
	case oracle.Float:
		f, ok := v.Float()
		return candidate.Value{Type: candidate.Float, Real: f}, known(ok, v)
	case oracle.String:
		s, ok := v.Str()
		return candidate.Value{Type: candidate.Str, Text: s}, known(ok, v)
	case oracle.List:
		return expectedList(v)
	case oracle.Object:
		return expectedObject(v)
	default:
		return candidate.Value{}, known(false, v)
	}
}

func known(ok bool, v oracle.Value) error {
	if !ok {
		return fmt.Errorf("read expected value %.40q: no value", v.Text())
	}
	return nil
}

func expectedList(v oracle.Value) (candidate.Value, error) {
	items, ok := v.List()
	out := candidate.Value{Type: candidate.List, Items: make([]candidate.Value, 0, len(items))}
	for _, item := range items {
		x, err := expectedValue(item)
		if err != nil {
			return candidate.Value{}, err
		}
		out.Items = append(out.Items, x)
	}
	return out, known(ok, v)
}

func expectedObject(v oracle.Value) (candidate.Value, error) {
	members, ok := v.Members()
	out := candidate.Value{Type: candidate.Dict, Items: make([]candidate.Value, 0, 2*len(members))}
	for _, m := range members {
		x, err := expectedValue(m.Value)
		if err != nil {
			return candidate.Value{}, err
		}
		out.Items = append(out.Items, candidate.Value{Type: candidate.Str, Text: m.Key}, x)
	}
	return out, known(ok, v)
}
