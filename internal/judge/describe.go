package judge

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/candidate"
)

// maxDetail caps what is said about an outcome.
const maxDetail = 200

// maxDescribed caps how much of one value is shown.
const maxDescribed = 70

// description writes a value in about the words of its language, in ASCII, and cut
// where it gets long.
type description struct {
	names candidate.Names
	out   strings.Builder
}

// describe shows a value in one line.
func describe(names candidate.Names, v candidate.Value) string {
	d := &description{names: names}
	d.value(v)
	return short(d.out.String(), maxDescribed)
}

// short cuts an ASCII text.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit-3] + "..."
}

// oneLine makes one line of ASCII of a text that somebody else wrote.
func oneLine(s string, limit int) string {
	s = s[:min(len(s), 4*limit)]
	quoted := strconv.QuoteToASCII(s)
	return short(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), limit)
}

// printable makes ASCII of a text of ours that should be that already.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x20 || c > 0x7e {
			return '?'
		}
		return c
	}, s)
}

func (d *description) full() bool { return d.out.Len() > maxDescribed }

func (d *description) value(v candidate.Value) {
	if d.full() {
		return
	}
	switch v.Type {
	case candidate.Null:
		d.out.WriteString("None")
	case candidate.Bool:
		d.out.WriteString(map[int64]string{0: "False", 1: "True"}[v.Whole])
	case candidate.Int:
		d.out.WriteString(wholeText(v))
	case candidate.Float:
		d.out.WriteString(floatText(v.Real))
	case candidate.Complex:
		d.out.WriteString("complex(" + floatText(v.Real) + ", " + floatText(v.Imag) + ")")
	case candidate.Str:
		d.out.WriteString(quoted(v.Text))
	case candidate.Bytes, candidate.Bytearray:
		d.out.WriteString("b" + quoted(v.Text))
	case candidate.List, candidate.Tuple, candidate.Set, candidate.FrozenSet, candidate.Dict, candidate.OrderedDict, candidate.Iterator, candidate.NamedTuple, candidate.Record:
		d.container(v)
	case candidate.Decimal:
		d.out.WriteString("Decimal(" + quoted(v.Text) + ")")
	case candidate.Fraction:
		d.out.WriteString("Fraction(" + wholeText(v.Items[0]) + ", " + wholeText(v.Items[1]) + ")")
	case candidate.DateTime, candidate.Date, candidate.Time, candidate.TimeDelta, candidate.TimeZone:
		d.out.WriteString(stampText(v))
	case candidate.Enum:
		d.out.WriteString(d.class(v, "an enum") + "." + oneLine(v.Text, maxDescribed))
	case candidate.Range:
		d.out.WriteString("range(" + wholeText(v.Items[0]) + ", " + wholeText(v.Items[1]) + ", " + wholeText(v.Items[2]) + ")")
	case candidate.Opaque:
		d.out.WriteString("a " + d.class(v, "special") + " object")
	default:
		d.out.WriteString("a special value")
	}
}

func wholeText(v candidate.Value) string {
	n := v.BigInt()
	if n.BitLen() > 240 {
		return fmt.Sprintf("an integer of %d bits", n.BitLen())
	}
	return n.String()
}

func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func quoted(s string) string { return "'" + oneLine(s, maxDescribed) + "'" }

func stampText(v candidate.Value) string {
	words := map[candidate.Type]string{candidate.DateTime: "datetime", candidate.Date: "date", candidate.Time: "time", candidate.TimeDelta: "timedelta", candidate.TimeZone: "timezone"}
	numbers := fmt.Sprint(v.Fields)
	return words[v.Type] + "(" + strings.ReplaceAll(numbers[1:len(numbers)-1], " ", ", ") + ")"
}

func (d *description) class(v candidate.Value, unknown string) string {
	if name := d.names[v.Whole]; name != "" {
		return oneLine(name, maxDescribed)
	}
	return unknown
}

// brackets of containers.
var brackets = map[candidate.Type][2]string{
	candidate.List: {"[", "]"}, candidate.Tuple: {"(", ")"}, candidate.Set: {"{", "}"}, candidate.FrozenSet: {"frozenset(", ")"},
	candidate.Dict: {"{", "}"}, candidate.OrderedDict: {"{", "}"}, candidate.Iterator: {"iter(", ")"},
}

func (d *description) container(v candidate.Value) {
	b, ok := brackets[v.Type]
	if !ok {
		b = [2]string{d.class(v, "record") + "(", ")"}
	}
	d.out.WriteString(b[0])
	pairs := v.Type == candidate.Dict || v.Type == candidate.OrderedDict
	for i, item := range v.Items {
		if d.full() {
			return
		}
		switch {
		case i == 0:
		case pairs && i%2 == 1:
			d.out.WriteString(": ")
		default:
			d.out.WriteString(", ")
		}
		d.value(item)
	}
	d.out.WriteString(b[1])
}
