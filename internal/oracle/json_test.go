package oracle

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func TestStrictJSON(t *testing.T) {
	for _, ok := range []string{
		"null", "true", "false", "0", "-0", "-12", "1.5", "-0.0", "1e5", "1E+5", "1e-400", "12345678901234567890123",
		`""`, `"a\"\\\/\b\f\n\r\t\u00e9"`, "\"\u00e9\U0001F381\"", `"\ud83c\udf81"`, `"\u0000"`,
		"[]", " [ 1 , [ ] , { } ] \n", `{"a":1,"b":{"a":1}}`, `{"":0}`, "\t{\"a\"\r\n:\t1}",
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
	} {
		v, err := ParseValue(ok)
		if err != nil || v.Kind() == Invalid || v.Text() != strings.Trim(ok, " \t\r\n") {
			t.Errorf("%q: %q, %v", ok, v.Text(), err)
		}
	}
	for bad, want := range map[string]string{
		"":                               "line 1: the document ends",
		" \n ":                           "line 2: the document ends",
		"nul":                            "not a JSON value",
		"nullx":                          "something follows",
		"True":                           "not a JSON value",
		"NaN":                            "not a JSON value",
		"Infinity":                       "not a JSON value",
		"-Infinity":                      "not a JSON value",
		"-":                              "not a JSON value",
		"+1":                             "not a JSON value",
		".5":                             "not a JSON value",
		"1.":                             "without a digit behind its point",
		"1.e5":                           "without a digit behind its point",
		"1e":                             "without a digit in its exponent",
		"1e+":                            "without a digit in its exponent",
		"01":                             "leading zero",
		"-01":                            "leading zero",
		"0x10":                           "something follows",
		"1_000":                          "something follows",
		"1e309":                          "beyond the range",
		"-1e309":                         "beyond the range",
		strings.Repeat("1", 4301):        "more than 4300 digits",
		"0." + strings.Repeat("1", 9000): "more than 8600 digits",
		`"`:                              "string without an end",
		`"a`:                             "string without an end",
		`"\`:                             "string without an end",
		`"\x41"`:                         "escape that JSON does not know",
		`"\u12"`:                         "four hexadecimal digits",
		`"\u12g4"`:                       "four hexadecimal digits",
		`"\ud800"`:                       "half of a surrogate pair",
		`"\udc00"`:                       "half of a surrogate pair",
		`"\ud800\ud800"`:                 "half of a surrogate pair",
		`"\ud800x"`:                      "half of a surrogate pair",
		"\"a\nb\"":                       "line 1: a control character",
		"\"\t\"":                         "control character",
		"'a'":                            "not a JSON value",
		"[1,]":                           "not a JSON value",
		"[1 2]":                          "neither ',' nor ']'",
		"[":                              "the document ends",
		"[1":                             "neither ',' nor ']'",
		"[,1]":                           "not a JSON value",
		"{":                              "no key where one belongs",
		"{a:1}":                          "no key where one belongs",
		`{"a":1,}`:                       "no key where one belongs",
		`{"a" 1}`:                        "no ':' after a key",
		`{"a":1 "b":2}`:                  "neither ',' nor '}'",
		`{"a":1,"a":2}`:                  `key "a" twice`,
		"[\n{\"a\":1,\n\"\\u0061\":2}]":  `line 3: key "a" twice`,
		"1 2":                            "something follows",
		"// x\n1":                        "not a JSON value",
		"\ufeff1":                        "byte order mark",
		"\"\xff\"":                       "not UTF-8",
		"\"\xed\xa0\x80\"":               "not UTF-8",
		"1\x00":                          "something follows",
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1): "nested deeper than 64",
	} {
		if v, err := ParseValue(bad); err == nil || !strings.Contains(err.Error(), want) || v != (Value{}) {
			t.Errorf("%.60q: %q, %v", bad, v.Text(), err)
		}
	}
}

func TestManyKeysAreStillUnique(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(`,"k` + big.NewInt(int64(i)).String() + `":{"k1":1}`)
	}
	text := b.String()[1:]
	if _, err := ParseValue("{" + text + "}"); err != nil {
		t.Error(err)
	}
	for _, again := range []string{"k0", "k5", "k11", "k12", "k13", "k999"} {
		if _, err := ParseValue("{" + text + `,"` + again + `":0}`); err == nil {
			t.Errorf("%s twice is taken", again)
		}
	}
}

func TestValuesAreTakenApart(t *testing.T) {
	v, err := ParseValue(` {"i": -0, "big": 123456789012345678901234567890, "f": 1e2, "s": "a\u00e9\ud83c\udf81\/", "l": [true, null, []], "o": {}} `)
	if err != nil {
		t.Fatal(err)
	}
	members, ok := v.Members()
	if !ok || len(members) != 6 {
		t.Fatalf("%d members", len(members))
	}
	var keys []string
	by := map[string]Value{}
	for _, m := range members {
		keys = append(keys, m.Key)
		by[m.Key] = m.Value
	}
	if !slices.Equal(keys, []string{"i", "big", "f", "s", "l", "o"}) {
		t.Errorf("keys %q", keys)
	}
	if n, ok := by["i"].Int(); !ok || n.Sign() != 0 {
		t.Errorf("i %v", n)
	}
	if n, ok := by["big"].Int(); !ok || n.String() != "123456789012345678901234567890" {
		t.Errorf("big %v", n)
	}
	if f, ok := by["f"].Float(); !ok || f != 100 {
		t.Errorf("f %v", f)
	}
	if s, ok := by["s"].Str(); !ok || s != "a\u00e9\U0001F381/" {
		t.Errorf("s %q", s)
	}
	items, ok := by["l"].List()
	if !ok || len(items) != 3 {
		t.Fatalf("l %v", items)
	}
	if yes, ok := items[0].Bool(); !ok || !yes {
		t.Error("l[0]")
	}
	if items[1].Kind() != Null {
		t.Error("l[1]")
	}
	if empty, ok := items[2].List(); !ok || len(empty) != 0 {
		t.Error("l[2]")
	}
	// Nothing is what it is not.
	for name, v := range by {
		_, isInt := v.Int()
		_, isFloat := v.Float()
		_, isStr := v.Str()
		_, isList := v.List()
		_, isObject := v.Members()
		_, isBool := v.Bool()
		if n := count(isInt, isFloat, isStr, isList, isObject, isBool); n != 1 {
			t.Errorf("%s is %d things", name, n)
		}
	}
	var zero Value
	_, isInt := zero.Int()
	_, isStr := zero.Str()
	_, isList := zero.List()
	_, isObject := zero.Members()
	_, isBool := zero.Bool()
	if count(isInt, isStr, isList, isObject, isBool) != 0 || zero.Kind() != Invalid {
		t.Error("the zero value is something")
	}
}

func count(flags ...bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

func TestCanonicalTellsValuesApart(t *testing.T) {
	for _, same := range [][]string{
		{"1", " 1 "}, {"0", "-0"}, {"1.0", "1.00", "1e0", "10E-1"}, {`"a"`, `"\u0061"`},
		{`{"a":1,"b":[2]}`, "{ \"b\" : [ 2 ],\n\"\\u0061\":1 }"}, {"[]", "[ ]"}, {"{}", "{ }"},
		{`{"b":{"d":1,"c":2},"a":0}`, `{"a":0,"b":{"c":2,"d":1}}`},
	} {
		for _, s := range same {
			if canonicalText(t, s) != canonicalText(t, same[0]) {
				t.Errorf("%s: %q, %s: %q", same[0], canonicalText(t, same[0]), s, canonicalText(t, s))
			}
		}
	}
	seen := map[string]string{}
	for _, s := range []string{"1", "1.0", "true", `"1"`, "0", "0.0", "-0.0", "false", "null", `""`, "[]", "{}", "[[]]", "[null]",
		"[1,2]", "[2,1]", "[[1],2]", "[1,[2]]", `{"a":1}`, `{"a":"1"}`, `["a",1]`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, "10000000000000000000000", "1e22", `"null"`, `"a,"`, `["a",""]`} {
		c := canonicalText(t, s)
		if other := seen[c]; other != "" {
			t.Errorf("%s and %s are both %s", s, other, c)
		}
		seen[c] = s
	}
}

func canonicalText(t *testing.T, s string) string {
	t.Helper()
	v, err := ParseValue(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return canonical(v)
}

// FuzzJSON: what is taken is what encoding/json takes, and means the same there.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"null", "[1,2.5,-0,1e5,\"\\u00e9\\ud83c\\udf81\\n\"]", `{"a":{"b":[true,false,null]}}`, `{"a":1,"a":2}`, "1e999", "[" + strings.Repeat("[", 70), "\"\\ud800\"", "\xff", "01", ordersBlob, ratesBlob} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseValue(text)
		if err != nil {
			if v != (Value{}) || !ascii(err.Error()) {
				t.Errorf("%q: %q, %v", text, v.Text(), err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader([]byte(text)))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%q is taken, and encoding/json says %v", text, err)
		}
		agree(t, v, want)
		again, err := ParseValue(v.Text())
		if err != nil || again != v {
			t.Errorf("%q: read again: %q, %v", text, again.Text(), err)
		}
		if c := canonical(v); c != canonical(again) || c == "" {
			t.Errorf("%q: %q", text, c)
		}
		if s := asciiJSON(v.Text()); !ascii(s) {
			t.Errorf("%q: shown as %q", text, s)
		}
	})
}

func agree(t *testing.T, v Value, want any) {
	t.Helper()
	switch want := want.(type) {
	case nil:
		if v.Kind() != Null {
			t.Errorf("%q is no null", v.Text())
		}
	case bool:
		if b, ok := v.Bool(); !ok || b != want {
			t.Errorf("%q is not %t", v.Text(), want)
		}
	case string:
		if s, ok := v.Str(); !ok || s != want {
			t.Errorf("%q is not %q", v.Text(), want)
		}
	case json.Number:
		agreeNumber(t, v, want)
	case []any:
		items, ok := v.List()
		if !ok || len(items) != len(want) {
			t.Fatalf("%q has %d items, want %d", v.Text(), len(items), len(want))
		}
		for i, item := range items {
			agree(t, item, want[i])
		}
	case map[string]any:
		members, ok := v.Members()
		if !ok || len(members) != len(want) {
			t.Fatalf("%q has %d members, want %d", v.Text(), len(members), len(want))
		}
		for _, m := range members {
			agree(t, m.Value, want[m.Key])
		}
	}
}

func agreeNumber(t *testing.T, v Value, want json.Number) {
	t.Helper()
	if n, ok := v.Int(); ok {
		if b, ok := new(big.Int).SetString(want.String(), 10); !ok || b.Cmp(n) != 0 {
			t.Errorf("%q is not %s", v.Text(), want)
		}
		return
	}
	got, ok := v.Float()
	if f, err := want.Float64(); !ok || err != nil || f != got {
		t.Errorf("%q is not %s", v.Text(), want)
	}
}
