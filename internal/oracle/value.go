package oracle

import "math/big"

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

// Value is one strict JSON value. It keeps its text and is read on demand, so
// that a large blob costs no more than its bytes.
type Value struct {
	kind ValueKind
	text string
}

// Member is one member of an object.
type Member struct {
	Key   string
	Value Value
}

// Kind is the type of the value.
func (v Value) Kind() ValueKind { return v.kind }

// Text is the value's own JSON text.
func (v Value) Text() string { return v.text }

// Bool is the boolean.
func (v Value) Bool() (value, ok bool) { return v.text == "true", v.kind == Bool }

// Int is the integer.
func (v Value) Int() (*big.Int, bool) { return nil, false }

// Float is the float.
func (v Value) Float() (float64, bool) { return 0, false }

// Str is the string, without escapes.
func (v Value) Str() (string, bool) { return "", false }

// List are the items of a list.
func (v Value) List() ([]Value, bool) { return nil, false }

// Members are the members of an object, in the order of the text.
func (v Value) Members() ([]Member, bool) { return nil, false }

// ParseValue reads one strict JSON value.
func ParseValue(text string) (Value, error) { return Value{}, errSkeleton }
