package judge

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/oracle"
)

// plain reads a value as a driver writes it.
func plain(t testing.TB, text string) candidate.Value {
	t.Helper()
	v, err := candidate.Decode([]byte(`["ok",` + text + `,[],[]]`))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

var (
	hundredDigits = "0x" + new(big.Int).Exp(big.NewInt(10), big.NewInt(100), nil).Text(16)
	strictly      = oracle.Invariant{Strict: true}
	anyOrder      = oracle.Invariant{Unordered: true}
	sequences     = oracle.Invariant{Sequence: true}
	again         = oracle.Invariant{Sequence: true, Kind: oracle.Idempotent}
	bothLoose     = oracle.Invariant{Sequence: true, Unordered: true}
	near          = oracle.Invariant{AbsTol: 0.5}
	nearAnyOrder  = oracle.Invariant{AbsTol: 0.5, Unordered: true}
	relative      = oracle.Invariant{RelTol: 0.125}
)

func TestEqualityOfPlainValues(t *testing.T) {
	none := oracle.Invariant{}
	for _, tc := range []struct {
		how   oracle.Invariant
		a, b  string
		equal bool
	}{
		{none, `1`, `1`, true}, {none, `1`, `true`, true}, {none, `0`, `false`, true}, {none, `1`, `"1"`, false}, {none, `null`, `false`, false},
		{none, `["i","0x20000000000001"]`, `["f","0x1.0000000000000p+53"]`, false}, {none, `["i","0x20000000000000"]`, `["f","0x1.0000000000000p+53"]`, true},
		{none, `["i","0x7fffffffffffffff"]`, `["f","0x1.0000000000000p+63"]`, false}, {none, `["i","0x8000000000000000"]`, `["f","0x1.0000000000000p+63"]`, true},
		{none, `["f","-0x0.0p+0"]`, `["D","0E+5"]`, true}, {none, `["f","inf"]`, `["D","Infinity"]`, true}, {none, `["f","inf"]`, `["f","-inf"]`, false},
		{none, `["f","nan"]`, `["f","nan"]`, false}, {none, `["D","NaN"]`, `["D","NaN"]`, false}, {none, `["D","sNaN12"]`, `["D","sNaN12"]`, false},
		{none, `["D","1E+100"]`, `["i","` + hundredDigits + `"]`, true}, {none, `["D","1E+101"]`, `["i","` + hundredDigits + `"]`, false},
		{none, `["D","1E+999999999"]`, `["D","1.0E+999999999"]`, true}, {none, `["D","1E+999999999"]`, `["D","2E+999999999"]`, false}, {none, `["D","1E-999999999"]`, `0`, false},
		{none, `["D","1E+999999999999999999"]`, `["D","10E+999999999999999998"]`, true}, {none, `["D","1E+999999999999999999"]`, `["D","10E+999999999999999997"]`, false},
		{none, `["D","0.125"]`, `["F",1,8]`, true}, {none, `["F",2,16]`, `["F",1,8]`, true}, {none, `["F",1,3]`, `["f","0x1.5555555555555p-2"]`, false},
		{none, `["c","0x1.0p+1","0x0.0p+0"]`, `2`, true}, {none, `["c","0x1.0p+1","0x1.0p+0"]`, `["c","0x1.0p+1","0x1.0p+0"]`, true}, {none, `["c","0x1.0p+1","0x1.0p+0"]`, `2`, false}, {none, `["c","nan","0x1.0p+0"]`, `["c","nan","0x1.0p+0"]`, false},
		{none, `"a"`, `["b","61"]`, false}, {none, `["b","61"]`, `["A","61"]`, true}, {none, `["u","eda080"]`, `["u","eda080"]`, true}, {none, `"\u00e9"`, `["u","c3a9"]`, true},
		{none, `["L",1,["L"]]`, `["L",true,["L"]]`, true}, {none, `["L",1]`, `["t",1]`, false}, {none, `["n",1,5]`, `["t",5]`, true}, {none, `["n",1,5]`, `["n",2,5]`, true}, {none, `["L",1,2]`, `["L",2,1]`, false},
		{none, `["M","a",1,"b",2]`, `["O","b",2,"a",1]`, true}, {none, `["O","a",1,"b",2]`, `["O","b",2,"a",1]`, false}, {none, `["M","a",1]`, `["M","a",2]`, false}, {none, `["M","a",1,"a",1]`, `["M","a",1,"b",1]`, false},
		{none, `["M",1,"x"]`, `["M",["D","1.00"],"x"]`, true}, {none, `["M",["F",1,3],"x"]`, `["M",["F",2,6],"x"]`, true}, {none, `["M",["D","1E+90000"],1]`, `["M",["D","10E+89999"],1]`, true},
		{none, `["G",1,["t",1,2]]`, `["z",["t",1,["f","0x1.0p+1"]],true]`, true}, {none, `["G",1,1]`, `["G",1]`, false}, {none, `["G",["f","nan"]]`, `["G",["f","nan"]]`, false}, {none, `["G",1]`, `["L",1]`, false},
		{none, `["R",0,3,2]`, `["R",0,4,2]`, true}, {none, `["R",5,5,1]`, `["R",1,0,3]`, true}, {none, `["R",0,3,1]`, `["R",0,4,1]`, false}, {none, `["R",9,0,-3]`, `["R",9,2,-3]`, true}, {none, `["R",0,3,1]`, `["L",0,1,2]`, false},
		{none, `["R",["i","-0x10000000000000000"],["i","0x10000000000000000"],1]`, `["R",["i","-0x10000000000000000"],["i","0x10000000000000000"],1]`, true},
		{none, `["o",0,1]`, `["o",0,1]`, false}, {none, `["L",["o",0,1]]`, `["L",["o",0,1]]`, false}, {none, `["m",1,"os",false]`, `["m",1,"os",false]`, false}, {none, `["I",true,1]`, `["I",true,1]`, false},
		{none, `["e",1,"A",["o",0,3]]`, `["e",1,"A",["o",0,3]]`, true}, {none, `["e",1,"A",1]`, `["e",1,"B",1]`, false}, {none, `["e",1,"A",1]`, `["e",2,"A",1]`, false}, {none, `["e",1,"",3]`, `["e",1,"",4]`, false}, {none, `["e",1,"A",1]`, `1`, false},
		{none, `["K",1,1,["L"]]`, `["K",1,true,["L"]]`, true}, {none, `["K",1,1]`, `["K",2,1]`, false}, {none, `["K",1,1]`, `["K",1,1,1]`, false}, {none, `["C",4]`, `["C",4]`, true}, {none, `["C",4]`, `["C",5]`, false}, {none, `["g","builtins","int"]`, `["g","builtins","str"]`, false},
		{none, `["dt",2024,3,1,0,30,0,0,0,["tz",0,3600,0]]`, `["dt",2024,2,29,23,30,0,0,0,["tz",0,0,0]]`, true}, {none, `["dt",2024,3,1,0,0,0,0,0,["tz",-1,82800,0]]`, `["dt",2024,3,1,1,0,0,0,1,["tz",0,0,0]]`, true},
		{none, `["dt",2024,3,1,0,0,0,0,0,null]`, `["dt",2024,3,1,0,0,0,0,1,null]`, true}, {none, `["dt",2024,3,1,0,0,0,0,0,null]`, `["dt",2024,3,1,0,0,0,0,0,["tz",0,0,0]]`, false}, {none, `["dt",2024,3,1,0,0,0,0,0,null]`, `["da",2024,3,1]`, false},
		{none, `["dt",2024,3,1,0,0,0,0,0,["zi","Europe/Oslo"]]`, `["dt",2024,3,1,0,0,0,0,1,["zi","Europe/Oslo"]]`, true}, {none, `["dt",2024,3,1,0,0,0,0,0,["zi","A"]]`, `["dt",2024,3,1,0,0,0,0,0,["zi","B"]]`, false},
		{none, `["tm",3,0,0,5,0,null]`, `["tm",3,0,0,5,0,null]`, true}, {none, `["tm",3,0,0,5,0,null]`, `["tm",3,0,0,6,0,null]`, false}, {none, `["td",1,0,0]`, `["td",1,0,0]`, true}, {none, `["td",1,0,0]`, `["tz",1,0,0]`, false},
		{none, `["U","0000000000000000000000000000000a"]`, `["U","0000000000000000000000000000000b"]`, false}, {none, `["E"]`, `["E"]`, true}, {none, `["N"]`, `["E"]`, false}, {none, `["S",1,2,null]`, `["S",1,2,null]`, true},

		{strictly, `1`, `true`, false}, {strictly, `1`, `["f","0x1.0p+0"]`, false}, {strictly, `["G",1]`, `["z",1]`, false}, {strictly, `["G",1]`, `["G",true]`, false}, {strictly, `["M",1,2]`, `["M",true,2]`, false}, {strictly, `["O","a",1]`, `["M","a",1]`, true},
		{strictly, `["n",1,5]`, `["n",1,5]`, true}, {strictly, `["n",1,5]`, `["n",2,5]`, false}, {strictly, `["n",1,5]`, `["t",5]`, false}, {strictly, `["G",["n",1,5]]`, `["G",["n",2,5]]`, false}, {strictly, `["b","61"]`, `["A","61"]`, false}, {strictly, `["K",1,1]`, `["K",1,true]`, false},
		{sequences, `["t",1,["L",2]]`, `["L",1,["t",2]]`, true}, {sequences, `["R",0,2,1]`, `["L",0,1]`, true}, {sequences, `["I",true,0,1]`, `["L",0,1]`, true}, {sequences, `["I",true,0,1,2]`, `["L",0,1]`, false}, {sequences, `["I",false,0,1]`, `["L",0,1]`, true},
		{sequences, `["I",false,0,1` + strings.Repeat(`,9`, lookAhead) + `]`, `["L",0,1]`, true}, {sequences, `["I",false,0,1` + strings.Repeat(`,9`, lookAhead-1) + `]`, `["L",0,1]`, false}, {sequences, `["L",0,1` + strings.Repeat(`,9`, lookAhead) + `]`, `["L",0,1]`, false},
		{sequences, `["I",false,0,1]`, `["I",false,0,1]`, true}, {sequences, `["I",false,0,1` + strings.Repeat(`,9`, lookAhead) + `]`, `["I",false,0,1]`, false}, {sequences, `["R",0,["i","0x1000000000000"],1]`, `["L",0]`, false}, {sequences, `["R",0,["i","0xfffffffffffffffff"],3]`, `["R",0,["i","0xffffffffffffffffe"],3]`, true}, {sequences, `["R",0,["i","0xfffffffffffffffff"],3]`, `["L",0]`, false}, {sequences, `["G",1]`, `["L",1]`, false}, {sequences, `["M",["t",1],2]`, `["M",["L",1],2]`, true},
		{sequences, `["I",false` + strings.Repeat(`,9`, lookAhead) + `]`, `["L"]`, false}, {again, `["I",false,0,1` + strings.Repeat(`,9`, lookAhead) + `]`, `["L",0,1]`, false}, {again, `["I",true,0,1]`, `["L",0,1]`, true},
		{anyOrder, `["L",["M","a",1],["M","b",2]]`, `["L",["M","b",2],["M","a",1]]`, true}, {anyOrder, `["L",["M","a",["t"],"b",2]]`, `["L",["M","a",["t","b",2]]]`, false},
		{anyOrder, `["L",1,2,2]`, `["L",2,1,2]`, true}, {anyOrder, `["L",1,2,2]`, `["L",2,1,1]`, false}, {anyOrder, `["L",["L",1,2],["L",3]]`, `["L",["L",3],["L",2,1]]`, true}, {anyOrder, `["L",1,2]`, `["t",2,1]`, false}, {anyOrder, `["O",1,2,3,4]`, `["O",3,4,1,2]`, true},
		{bothLoose, `["G",1,2]`, `["L",2,1]`, true}, {bothLoose, `["L",["G",1,2],["t",3]]`, `["L",["L",3],["L",2,1]]`, true}, {bothLoose, `["R",0,3,1]`, `["L",2,0,1]`, true},
		{near, `1`, `["f","0x1.8p+0"]`, true}, {near, `1`, `["f","0x1.8000000000001p+0"]`, false}, {near, `["D","1.5"]`, `["F",2,1]`, true}, {near, `true`, `["f","0x1.8p+0"]`, false}, {near, `["f","nan"]`, `["f","nan"]`, false}, {near, `["f","inf"]`, `1`, false}, {near, `["L",["M","a",["t",1]]]`, `["L",["M","a",["t",["f","0x1.8p+0"]]]]`, true}, {near, `["K",1,1]`, `["K",1,["f","0x1.8p+0"]]`, true}, {near, `["M",1,0]`, `["M",["f","0x1.8p+0"],0]`, false},
		{near, `["D","1E+999999999"]`, `["D","1E+999999999"]`, true}, {near, `["D","1E+999999999"]`, `["D","1.1E+999999999"]`, false},
		{nearAnyOrder, `["L",1,2]`, `["L",["f","0x1.8p+1"],["f","0x1.8p+0"]]`, false}, {nearAnyOrder, `["L",1,2,3]`, `["L",["f","0x1.8p+1"],["f","0x1.8p+0"],["f","0x1.4p+1"]]`, true}, {nearAnyOrder, `["L",1,["f","0x1.8p+0"],2]`, `["L",["f","0x1.8p+0"],["f","0x1.4p+1"],1]`, true},
		{relative, `8`, `7`, true}, {relative, `7`, `8`, true}, {relative, `8`, `["f","0x1.bfffffffffffcp+2"]`, false}, {relative, `0`, `["f","0x1.0p-1000"]`, false},
	} {
		a, b := plain(t, tc.a), plain(t, tc.b)
		for _, pair := range [][2]candidate.Value{{a, b}, {b, a}} {
			c := newComparison(tc.how)
			if got := c.equal(pair[0], pair[1]); got != tc.equal || c.spent() {
				t.Errorf("%s and %s (%+v): %v, spent %v", tc.a, tc.b, tc.how, got, c.spent())
			}
		}
		if tc.how.AbsTol != 0 || tc.how.RelTol != 0 || strings.Contains(tc.a+tc.b, `["I",false`) {
			continue
		}
		c := newComparison(tc.how)
		if got := c.equalBags([]candidate.Value{a}, []candidate.Value{b}); got != tc.equal && !c.spent() && !strings.Contains(tc.a, `["O"`) {
			t.Errorf("keys of %s and %s: %v", tc.a, tc.b, got)
		}
	}
}

func TestWhatComparingCostsIsBounded(t *testing.T) {
	many := func(item string, n int) string { return `["L"` + strings.Repeat(","+item, n) + `]` }
	wide := `["L"`
	for i := range matched + 1 {
		wide += fmt.Sprintf(",%d", i)
	}
	wide += "]"
	for name, tc := range map[string]struct {
		how  oracle.Invariant
		a, b string
	}{
		"decimals that are hard to reduce": {anyOrder, many(`["D","7E-4999"]`, 300000), many(`["D","7E-4999"]`, 300000)},
		"many with a tolerance":            {nearAnyOrder, wide, wide},
		"many ranges as items":             {bothLoose, many(`["R",0,200000,1]`, 6), many(`["R",0,200000,1]`, 6)},
		"long texts deep inside":           {anyOrder, strings.Repeat(`["L",`, 60) + `"` + strings.Repeat("x", 7000000) + `"` + strings.Repeat("]", 60), strings.Repeat(`["L",`, 60) + `"` + strings.Repeat("x", 7000000) + `"` + strings.Repeat("]", 60)},
		"huge ranges as items":             {bothLoose, `["L",["R",0,["i","0x1000000000000"],1]]`, `["L",["R",0,["i","0x1000000000000"],1]]`},
		"long decimals with a tolerance":   {nearAnyOrder, many(`["D","`+strings.Repeat("7", 15000)+`"]`, 500), many(`["D","`+strings.Repeat("8", 15000)+`"]`, 500)},
		"lists of lists with a tolerance":  {nearAnyOrder, many(many(many("1", 60), 60), 100), many(many(many("1", 60), 60), 100)},
	} {
		a, b := plain(t, tc.a), plain(t, tc.b)
		c := newComparison(tc.how)
		if c.equal(a, b) || !c.spent() {
			t.Errorf("%s: compared after all", name)
		}
	}
}

func TestBoundsAreExact(t *testing.T) {
	low, high := oracle.IntNumber(-3), oracle.FloatNumber(9007199254740992)
	for text, ok := range map[string]bool{
		`-3`: true, `-4`: false, `["f","-0x1.8000000000001p+1"]`: false, `["i","0x20000000000000"]`: true, `["i","0x20000000000001"]`: false,
		`["D","9007199254740992"]`: true, `["D","9007199254740992.0000000001"]`: false, `["F",-9,3]`: true, `["F",["i","-0x90000000000001"],["i","0x30000000000000"]]`: false,
		`["D","-1E-999999999"]`: true, `["D","1E+999999999"]`: false, `["D","-1E+999999999"]`: false, `["D","NaN"]`: false, `["D","Infinity"]`: false, `["f","nan"]`: false, `["f","-inf"]`: false,
		`true`: false, `null`: false, `"1"`: false, `["c","0x1.0p+0","0x0.0p+0"]`: false, `["L",1]`: false, `["o",0,1]`: false, `["e",1,"A",1]`: false, `["td",0,1,0]`: false,
	} {
		if got := outOfBounds(nil, plain(t, text), low, high); (got == "") != ok {
			t.Errorf("%s: %q", text, got)
		}
	}
	if outOfBounds(nil, plain(t, `1`), oracle.Number{}, high) == "" || outOfBounds(nil, plain(t, `1`), low, oracle.Number{}) == "" {
		t.Error("a bound that is none lets something through")
	}
}

func TestDescriptionsAreShortAndPlain(t *testing.T) {
	for text, want := range map[string]string{
		`null`: "None", `true`: "True", `["f","0x1.0p+1"]`: "2.0", `["f","0x1.0p+80"]`: "1.2089258196146292e+24", `["f","-inf"]`: "-inf", `["f","nan"]`: "nan", `"\u00e9'\n"`: `'\u00e9'\n'`,
		`["L",1,["t"],["M","a",1]]`: "[1, (), {'a': 1}]", `["D","1.50"]`: "Decimal('1.50')", `["F",1,3]`: "Fraction(1, 3)", `["da",2024,1,2]`: "date(2024, 1, 2)", `["o",0,7]`: "a Parcel object", `["o",0,8]`: "a special object", `["K",7,1]`: "Parcel(1)",
		`["b","00ff"]`: `b'\x00\xff'`, `["i","0x` + strings.Repeat("f", 100) + `"]`: "an integer of 400 bits", `["e",7,"A",1]`: "Parcel.A", `["R",0,3,1]`: "range(0, 3, 1)", `["I",true,1]`: "iter(1)", `["E"]`: "a special value",
	} {
		if got := describe(candidate.Names{7: "Parcel"}, plain(t, text)); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{`["L"` + strings.Repeat(`,123456`, 1000) + `]`, `"` + strings.Repeat(`\u00e9`, 1000) + `"`, strings.Repeat(`["L",`, 60) + `1` + strings.Repeat(`]`, 60)} {
		if got := describe(nil, plain(t, text)); len(got) > maxDescribed || strings.ContainsFunc(got, func(c rune) bool { return c < 0x20 || c > 0x7e }) {
			t.Errorf("%.30s: %q", text, got)
		}
	}
}

// FuzzCompare holds comparing to what any equality has to be.
func FuzzCompare(f *testing.F) {
	for _, s := range []string{`1`, `["L",1,["f","nan"]]`, `["M",["D","1E+5"],["F",1,3]]`, `["G",["t",1],["z"]]`, `["I",false,1,2]`, `["dt",2024,3,1,0,0,0,0,0,["tz",0,60,0]]`, `["R",0,["i","0xfffffffffffffffff"],3]`} {
		f.Add(s, `["L",1]`, byte(0))
		f.Add(s, s, byte(7))
	}
	f.Fuzz(func(t *testing.T, x, y string, how byte) {
		a, err1 := candidate.Decode([]byte(`["ok",` + x + `,[],[]]`))
		b, err2 := candidate.Decode([]byte(`["ok",` + y + `,[],[]]`))
		if err1 != nil || err2 != nil {
			return
		}
		v := oracle.Invariant{Strict: how&1 != 0, Sequence: how&2 != 0, Unordered: how&4 != 0}
		if how&8 != 0 {
			v.AbsTol = 0.25
		}
		ab, ba := newComparison(v), newComparison(v)
		if ab.equal(a, b) != ba.equal(b, a) && !ab.spent() && !ba.spent() {
			t.Errorf("%s and %s: one way only", x, y)
		}
		plainly, tolerant := newComparison(oracle.Invariant{Strict: v.Strict, Sequence: v.Sequence, Unordered: v.Unordered}), newComparison(v)
		if plainly.equal(a, b) && !tolerant.equal(a, b) && !tolerant.spent() {
			t.Errorf("%s and %s: a tolerance takes away", x, y)
		}
		describe(nil, a)
		outOfBounds(nil, a, oracle.IntNumber(0), oracle.FloatNumber(1.5))
	})
}
