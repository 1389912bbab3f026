package candidate

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

func decoded(t *testing.T, text string) (Value, error) {
	t.Helper()
	reply := []byte(`["ok",` + text + `,[],[]]`)
	if err := Check(reply); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return Decode(reply)
}

func TestDecodeKeepsExactTypes(t *testing.T) {
	one := Value{Type: Int, Whole: 1}
	big1, _ := new(big.Int).SetString("-100000000000000000", 16)
	for text, want := range map[string]Value{
		`null`: {Type: Null}, `true`: {Type: Bool, Whole: 1}, `false`: {Type: Bool}, `1`: one, `-12`: {Type: Int, Whole: -12},
		`["i","0x20000000000000"]`: {Type: Int, Whole: 1 << 53}, `["i","-0x100000000000000000"]`: {Type: Int, Big: big1},
		`["f","0x1.8000000000000p+1"]`: {Type: Float, Real: 3}, `["f","inf"]`: {Type: Float, Real: math.Inf(1)}, `["c","0x1.0p+0","-0x1.0p+1"]`: {Type: Complex, Real: 1, Imag: -2},
		`"a\u00e9\ud83d\ude00\u0000"`: {Type: Str, Text: "aé😀\x00"}, `["u","eda08041"]`: {Type: Str, Text: "\xed\xa0\x80A"}, `["b","00ff"]`: {Type: Bytes, Text: "\x00\xff"}, `["A",""]`: {Type: Bytearray},
		`["L",1,["t"]]`: {Type: List, Items: []Value{one, {Type: Tuple}}}, `["M",1,null]`: {Type: Dict, Items: []Value{one, {Type: Null}}}, `["O"]`: {Type: OrderedDict}, `["G",1]`: {Type: Set, Items: []Value{one}}, `["z"]`: {Type: FrozenSet},
		`["R",1,1,1]`: {Type: Range, Items: []Value{one, one, one}}, `["S",1,null,1]`: {Type: Slice, Items: []Value{one, {Type: Null}, one}}, `["I",true,1]`: {Type: Iterator, Whole: 1, Items: []Value{one}}, `["I",false]`: {Type: Iterator},
		`["D","-1.50E+3"]`: {Type: Decimal, Text: "-1.50E+3"}, `["F",1,1]`: {Type: Fraction, Items: []Value{one, one}}, `["da",2024,2,29]`: {Type: Date, Fields: []int64{2024, 2, 29}}, `["td",-1,86399,5]`: {Type: TimeDelta, Fields: []int64{-1, 86399, 5}},
		`["dt",2024,2,29,1,2,3,4,1,["tz",0,3600,0]]`: {Type: DateTime, Fields: []int64{2024, 2, 29, 1, 2, 3, 4, 1}, Items: []Value{{Type: TimeZone, Fields: []int64{0, 3600, 0}}}},
		`["tm",1,2,3,4,0,["zi","UTC"]]`:              {Type: Time, Fields: []int64{1, 2, 3, 4, 0}, Items: []Value{{Type: ZoneInfo, Text: "UTC"}}},
		`["tm",1,2,3,4,0,null]`:                      {Type: Time, Fields: []int64{1, 2, 3, 4, 0}},
		`["U","00112233445566778899aabbccddeeff"]`:   {Type: UUID, Text: "00112233445566778899aabbccddeeff"},
		`["e",3,"A",1]`:                              {Type: Enum, Whole: 3, Text: "A", Items: []Value{one}},
		`["n",3,1]`:                                  {Type: NamedTuple, Whole: 3, Items: []Value{one}},
		`["K",3]`:                                    {Type: Record, Whole: 3},
		`["C",3]`:                                    {Type: Class, Whole: 3},
		`["g","builtins","int"]`:                     {Type: Class, Text: "builtins.int"},
		`["E"]`:                                      {Type: Ellipsis},
		`["N"]`:                                      {Type: NotImplemented},
		`["o",5,7]`:                                  {Whole: 7},
		`["m",1,"os",false]`:                         {},
		`["x",1,["g","builtins","E"],"t",["t",1],[["a",1]]]`: {},
	} {
		got, err := decoded(t, text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
}

// What Check lets through and no value is.
func TestDecodeRefusesWhatIsNoPlainValue(t *testing.T) {
	for _, text := range []string{
		`["r",1]`, `["L",["r",1]]`, `["M",1,2,["r",1],4]`, `["F",1,0]`, `["F",1,-2]`, `["F",true,2]`, `["F",["f","0x1.0p+0"],2]`, `["R",1,2,0]`, `["R",1,2,null]`, `["D","1e5"]`, `["D","x"]`, `["D","."]`, `["D","1E5E5"]`, `["D","NaN5x"]`,
		`["D","1E+99999999999999999999"]`, `["D","+1"]`, `["f","0x1p99999"]`, `["dt",0,1,1,0,0,0,0,0,null]`, `["dt",2024,13,1,0,0,0,0,0,null]`, `["dt",2024,1,32,0,0,0,0,0,null]`, `["dt",2024,1,1,24,0,0,0,0,null]`, `["tm",1,60,0,0,0,null]`,
		`["tm",1,0,0,1000000,0,null]`, `["tm",1,0,0,0,2,null]`, `["da",10000,1,1]`, `["td",1000000000,0,0]`, `["td",0,86400,0]`, `["tz",2,0,0]`,
		`["L"` + strings.Repeat(`,1`, maxDecoded) + `]`,
	} {
		if got, err := decoded(t, text); err == nil || !reflect.DeepEqual(got, Value{}) {
			t.Errorf("%.60s: %+v %v", text, got, err)
		}
	}
	for _, reply := range []string{`["raise",1,[],[]]`, `["bad","x"]`, `["ok",1,[[1,"l"]],[]]`, `["ok",1,[],[]] `, `["ok",1,[]]`, `["ok"]`, ``, `["ok",1,[],[[1]]]`} {
		if got, err := Decode([]byte(reply)); err == nil || !reflect.DeepEqual(got, Value{}) {
			t.Errorf("%s: %+v %v", reply, got, err)
		}
	}
}

func TestDecimalsAreReadAsPythonWritesThem(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0 0", "-0.00": "0 -2", "1.50": "150 -2", "-1E+3": "-1 3", "0E-10": "0 -10", "1.23E-7": "123 -9", "Infinity": "inf 1", "-Infinity": "inf -1", "NaN": "nan", "-NaN123": "nan", "sNaN": "nan",
		"1e3": "", "": "", "-": "", "E5": "", "1.2.3": "", "inf": "", "1_0": "", " 1": "", "NaNs": "", "--1": "", "1E": "", "٣": "",
	} {
		d, err := ParseDecimal(text)
		got := ""
		switch {
		case err != nil:
		case d.NaN:
			got = "nan"
		case d.Inf != 0:
			got = fmt.Sprint("inf ", d.Inf)
		default:
			got = fmt.Sprintf("%v %d", d.Coefficient, d.Exponent)
		}
		if got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestNamesAreThoseOfTheReplies(t *testing.T) {
	names := Names{}
	if _, err := names.Decode([]byte(`["ok",["o",0,2],[],[[2,"Parcel","Parcel","depot",[],"o",[],[]]]]`)); err != nil || names[2] != "Parcel" {
		t.Fatal(err, names)
	}
	for reply, want := range map[string]string{
		`["raise",["x",1,["g","builtins","ValueError"],"bad \u00e9",["t"],[]],[],[]]`:             "ValueError: bad é",
		`["raise",["x",1,["C",2],"",["t"],[]],[],[]]`:                                             "Parcel",
		`["raise",["x",1,["C",9],"",["t"],[]],[],[]]`:                                             "an exception",
		`["raise",["x",1,["C",4],"t",["r",1],[]],[[1,"l"]],[[4,"Lost","Lost","d",[],"x",[],[]]]]`: "Lost: t",
		`["raise","Error: from afar",[],[]]`:                                                      "Error: from afar",
		`["raise",5,[],[]]`:                                                                       "an exception",
		`["raise",["L"],[],[]]`:                                                                   "an exception",
		`["stop",null,[],[]]`:                                                                     "StopIteration",
	} {
		if err := Check([]byte(reply)); err != nil {
			t.Errorf("%s: %v", reply, err)
		}
		if got := names.Raised([]byte(reply)); got != want {
			t.Errorf("%s: %q", reply, got)
		}
	}
}

// What a candidate describes costs no more than what anybody could want to read.
func TestNamesOfClassesAreBounded(t *testing.T) {
	names := Names{}
	long := strings.Repeat("x", 4096)
	for reply := range 3 {
		var classes strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&classes, `,[%d,"%s","q","m",[],"o",[],[]]`, reply*1000+i, long)
		}
		if _, err := names.Decode([]byte(`["ok",1,[],[` + classes.String()[1:] + `]]`)); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) != maxNames || names[maxNames-1] != long[:maxShown] {
		t.Errorf("%d names, one of %d bytes", len(names), len(names[0]))
	}
	if _, err := names.Decode([]byte(`["ok",1,[],[[0,"Other","q","m",[],"o",[],[]]]]`)); err != nil || names[0] != long[:maxShown] {
		t.Errorf("a class that has a name got another one: %v %q", err, names[0])
	}
}

// FuzzDecode: whatever Decode accepts, Check accepts; neither panics, and nothing
// stands beside an error.
func FuzzDecode(f *testing.F) {
	for _, s := range wellFormed {
		f.Add([]byte(s))
	}
	for _, s := range []string{`["ok",["I",true,1,["O","a",1]],[],[]]`, `["ok",["F",1,["i","0x20000000000000"]],[],[]]`, `["ok",["tm",1,2,3,4,0,["zi","UTC"]],[],[]]`, `["ok",["x",1,["C",2],"",["t"],[]],[],[[2,"A","A","m",[],"x",[],[]]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		names := Names{}
		v, err := names.Decode(reply)
		if err != nil {
			if !reflect.DeepEqual(v, Value{}) {
				t.Errorf("%q: a value beside an error", reply)
			}
		} else if Check(reply) != nil {
			t.Errorf("%q: decoded, and not well formed", reply)
		}
		if kind := Kind(reply); Check(reply) == nil && (kind == Raise || kind == Stop) {
			names.Raised(reply)
		}
	})
}
