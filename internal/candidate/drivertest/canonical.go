package drivertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/sealgate/sealgate/internal/candidate"
)

// read takes the value of a reply that candidate.Check has accepted, in a
// spelling that two equal values share.
func read(reply []byte) (plain, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(reply, &parts); err != nil {
		return plain{}, err
	}
	if candidate.Kind(reply) != candidate.OK {
		return plain{text: candidate.Kind(reply)}, nil
	}
	if string(parts[2]) != "[]" {
		return plain{}, errors.New("shared containers in a reply to a request of an invariant")
	}
	return canonical(parts[1])
}

// plain is a value in a spelling that equal values share.
type plain struct {
	text  string
	ended []bool // of the iterators in it that say whether they ended
}

// matches says whether p is what was wanted.
func (p plain) matches(want plain) bool {
	return p.text == want.text && (p.ended == nil || slices.Equal(p.ended, want.ended))
}

// canonical spells a plain value so that equal values are equal texts: exact
// types, items of sets and dictionaries in order.
func canonical(text []byte) (plain, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return plain{}, err
	}
	var c speller
	out := c.value(v)
	return plain{out, c.ended}, c.err
}

type speller struct {
	ended []bool // of iterators, in order
	err   error
}

func (c *speller) value(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case string:
		return strconv.Quote(v)
	case []any:
		if len(v) > 0 {
			if tag, ok := v[0].(string); ok {
				return c.tagged(tag, v[1:])
			}
		}
	}
	return c.fail("no plain value: %v", v)
}

func (c *speller) fail(format string, args ...any) string {
	c.err = errors.Join(c.err, fmt.Errorf(format, args...))
	return ""
}

func (c *speller) tagged(tag string, args []any) string {
	switch tag {
	case "i":
		n, ok := new(big.Int).SetString(text(args), 0)
		if !ok {
			return c.fail("no integer: %v", args)
		}
		return n.String()
	case "f":
		return c.float(text(args))
	case "M":
		return c.dictionary(args)
	case "G", "z":
		items := c.values(args)
		slices.Sort(items)
		return tag + "{" + strings.Join(items, ",") + "}"
	case "K":
		return c.record(args)
	case "o":
		return "anything else"
	case "I":
		return c.iterator(args)
	case "t", "L", "F", "O", "R", "dt", "tm":
		return tag + "(" + strings.Join(c.values(args), ",") + ")"
	case "b", "A", "u", "D", "U", "c", "da", "td", "tz", "zi":
		return fmt.Sprint(tag, args)
	default:
		return c.fail("%q is no tag of a plain value", tag)
	}
}

func text(args []any) string {
	if len(args) != 1 {
		return ""
	}
	s, _ := args[0].(string)
	return s
}

func (c *speller) values(args []any) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = c.value(a)
	}
	return out
}

func (c *speller) float(s string) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return c.fail("no float: %q", s)
	}
	if math.IsNaN(f) {
		return "float nan"
	}
	return fmt.Sprintf("float %016x", math.Float64bits(f))
}

func (c *speller) dictionary(args []any) string {
	if len(args)%2 != 0 {
		return c.fail("a key without a value: %v", args)
	}
	var items []string
	for i := 0; i < len(args); i += 2 {
		items = append(items, c.value(args[i])+":"+c.value(args[i+1]))
	}
	slices.Sort(items)
	return "M{" + strings.Join(items, ",") + "}"
}

// iterator is the tuple of its items; whether it ended stands apart, because a
// driver may leave it out.
func (c *speller) iterator(args []any) string {
	if len(args) == 0 {
		return c.fail("an iterator that says nothing")
	}
	ended, ok := args[0].(bool)
	if !ok {
		return c.fail("an iterator that does not say whether it ended")
	}
	c.ended = append(c.ended, ended)
	return "t(" + strings.Join(c.values(args[1:]), ",") + ")"
}

// record leaves the number of the class out, which is the driver's choice.
func (c *speller) record(args []any) string {
	if len(args) == 0 {
		return c.fail("a record without a class")
	}
	return "K(" + strings.Join(c.values(args[1:]), ",") + ")"
}
