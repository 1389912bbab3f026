package oracle

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// lines of a difference, each with a "!" in front when it loosens.
func meanings(ms []Meaning) []string {
	var out []string
	for _, m := range ms {
		s := m.String()
		if m.Loosens {
			s = "! " + s
		}
		out = append(out, s)
	}
	return out
}

// TestWhatAChangeOfEachFieldMeans: an edit, what it means, and what its reverse
// means.
func TestWhatAChangeOfEachFieldMeans(t *testing.T) {
	const fees, parcels = "oracles/fees.toml", "oracles/parcels.toml"
	const orders, rates, runs = "oracles/blobs/orders.json", "oracles/blobs/rates.json", "oracles/blobs/runs.json"
	old, rate := sum(ordersBlob)[:9], sum(ratesBlob)[:9]
	base := shop().edit(t, parcels, `args = ["order"]`, "# here\nargs = [\"order\"]").
		edit(t, fees, `kind = "exact_table"`, "kind = \"exact_table\"\n# here")
	for _, c := range []struct {
		name           string
		file           string
		old, new       string
		there, andBack string // lines joined by " | "
	}{
		{"max raised", fees, "max = 500", "max = 900", "! fee_cap: max 500 -> 900 (widened)", "fee_cap: max 900 -> 500 (tightened)"},
		{"max by a little", fees, "max = 500", "max = 500.0000001", "! fee_cap: max 500 -> 500.0000001 (widened)", "fee_cap: max 500.0000001 -> 500 (tightened)"},
		{"max beyond what a float holds", fees, "max = 500", "max = 9007199254740993", "! fee_cap: max 500 -> 9007199254740993 (widened)", "fee_cap: max 9007199254740993 -> 500 (tightened)"},
		{"min lowered", fees, "min = 0", "min = -0.5", "! fee_cap: min 0 -> -0.5 (widened)", "fee_cap: min -0.5 -> 0 (tightened)"},
		{"the same bound as a float", fees, "max = 500", "max = 5e2", "", ""},
		{"entry", fees, "shop.fees:fee\"", "shop.fees:fee2\"", "! fee_cap: entry shop.fees:fee -> shop.fees:fee2 (retargeted)", "! fee_cap: entry shop.fees:fee2 -> shop.fees:fee (retargeted)"},
		{"seed added", fees, "min = 0", "min = 0\nseed = 7", "! fee_cap: seed none -> 7 (retargeted)", "! fee_cap: seed 7 -> none (retargeted)"},
		{"kind", fees, "kind = \"bound\"\nmin = 0\nmax = 500", "kind = \"idempotent\"", "! fee_cap: kind bound -> idempotent (retargeted)", "! fee_cap: kind idempotent -> bound (retargeted)"},
		{"repeat stated", parcels, "# here", "repeat = 2", "", ""},
		{"repeat raised", parcels, "# here", "repeat = 5", "ship_once: repeat 2 -> 5 (tightened)", "! ship_once: repeat 5 -> 2 (widened)"},
		{"args dropped", parcels, `args = ["order"]`, "", `! ship_once: args ["order"] -> none (widened)`, `ship_once: args none -> ["order"] (tightened)`},
		{"strict", parcels, "# here", "strict = true", "ship_once: strict false -> true (tightened)", "! ship_once: strict true -> false (widened)"},
		{"sequence", parcels, "# here", "sequence = true", "! ship_once: sequence false -> true (widened)", "ship_once: sequence true -> false (tightened)"},
		{"unordered", parcels, "# here", "unordered = true", "! ship_once: unordered false -> true (widened)", "ship_once: unordered true -> false (tightened)"},
		{"absolute tolerance", fees, "# here", "abs_tol = 0.5", "! fee_table: abs_tol 0 -> 0.5 (widened)", "fee_table: abs_tol 0.5 -> 0 (tightened)"},
		{"relative tolerance", fees, "# here", "rel_tol = 1e-9", "! fee_table: rel_tol 0 -> 1e-09 (widened)", "fee_table: rel_tol 1e-09 -> 0 (tightened)"},
		{"tolerance stated", fees, "# here", "rel_tol = 0", "", ""},
		{"comment", fees, "# here", "# there", "", ""},
		{"expected value", rates, "21", "22", `! fee_table: row 1 [1, "NL"] 21 -> 22 (retargeted)`, `! fee_table: row 1 [1, "NL"] 22 -> 21 (retargeted)`},
		{"expected type", rates, "21", "21.0", `! fee_table: row 1 [1, "NL"] 21 -> 21.0 (retargeted)`, `! fee_table: row 1 [1, "NL"] 21.0 -> 21 (retargeted)`},
		{"row added", rates, "[{", `[{"args":[],"expected":null},{`, "fee_table: row 1 [] null (added)", "! fee_table: row 1 [] null (removed)"},
		{"other arguments", rates, `"NL"`, `"BE"`, `! fee_table: row 1 [1, "NL"] 21 (removed) | fee_table: row 1 [1, "BE"] 21 (added)`, `! fee_table: row 1 [1, "BE"] 21 (removed) | fee_table: row 1 [1, "NL"] 21 (added)`},
		{"row of a bound", orders, "[{", `[{"order": 7}, {`, `fee_cap: row 1 {"order": 7} (added) | ship_once: row 1 {"order": 7} (added)`, `! fee_cap: row 1 {"order": 7} (removed) | ! ship_once: row 1 {"order": 7} (removed)`},
		{"exit status", runs, `"exit": 1`, `"exit": 0`, `! label: row 1 ["-v"] {"exit": 1, "stdout": "no\n"} -> {"exit": 0, "stdout": "no\n"} (retargeted)`, `! label: row 1 ["-v"] {"exit": 0, "stdout": "no\n"} -> {"exit": 1, "stdout": "no\n"} (retargeted)`},
		{"layout of a blob", orders, "[{", "[ {", `fee_cap: blob_sha256 ` + old + `... -> NEW, the same rows (retargeted) | ship_once: blob_sha256 ` + old + `... -> NEW, the same rows (retargeted)`, ""},
		{"order of rows", rates, ratesBlob, `[{"expected": 6, "args": [2, "PT"]}, {"args": [1, "\u004eL"], "expected": 21}]`, "fee_table: blob_sha256 " + rate + "... -> NEW, the same rows (retargeted)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := base.edit(t, c.file, c.old, c.new)
			a, b := base.load(t), after.load(t)
			if len(a.Faults)+len(b.Faults) != 0 {
				t.Fatalf("faults:\n%s%s", told(a), told(b))
			}
			fresh := sum(after[c.file])[:9] + "..."
			if got, want := strings.Join(meanings(Diff(a, b)), " | "), strings.ReplaceAll(c.there, "NEW", fresh); got != want {
				t.Errorf("there:\n got %s\nwant %s", got, want)
			}
			if strings.Contains(c.there, "NEW") {
				return
			}
			if got := strings.Join(meanings(Diff(b, a)), " | "); got != c.andBack {
				t.Errorf("and back:\n got %s\nwant %s", got, c.andBack)
			}
		})
	}
}

func TestWhatAChangeOfIDsMeans(t *testing.T) {
	base := shop().load(t)
	cut := strings.Index(shop()["oracles/fees.toml"], "\n[[invariant]]\nid = \"fee_table\"")
	row := shop()["oracles/fees.toml"][cut:]
	less := shop().with("oracles/fees.toml", shop()["oracles/fees.toml"][:cut]).manifest("fee_cap", "label", "ship_once")
	for _, c := range []struct {
		name          string
		before, after Set
		want          string
	}{
		{"nothing", base, base, ""},
		{"removed", base, less.load(t), "! fee_table: exact_table of shop.fees:rate, 2 rows (removed)"},
		{"added", less.load(t), base, "fee_table: exact_table of shop.fees:rate, 2 rows (added)"},
		{"moved to another file", base, less.with("oracles/rates.toml", "schema = 1\n"+row).manifest(base.IDs...).load(t), ""},
		{"renamed", base, shop().edit(t, "oracles/fees.toml", `"fee_table"`, `"fee_rows"`).load(t), "fee_rows: exact_table of shop.fees:rate, 2 rows (added) | ! fee_table: exact_table of shop.fees:rate, 2 rows (removed)"},
		{"all gone", base, Set{}, "! fee_cap: bound of shop.fees:fee, 2 rows (removed) | ! fee_table: exact_table of shop.fees:rate, 2 rows (removed) | ! label: exact_table of exec:bin/label, 1 row (removed) | ! ship_once: idempotent of shop.parcels:ship, 2 rows (removed)"},
		{"row cannot be read", base, shop().edit(t, "oracles/fees.toml", "min = 0", "min = nan").load(t), "! fee_cap: bound of shop.fees:fee, 2 rows -> cannot be read (retargeted)"},
		{"row can be read again", shop().edit(t, "oracles/fees.toml", "min = 0", "min = nan").load(t), base, "! fee_cap: cannot be read -> bound of shop.fees:fee, 2 rows (retargeted)"},
		{"blob is gone", base, shop().with("oracles/blobs/runs.json", "").load(t), "! label: blob 1 row -> a blob that cannot be judged (retargeted)"},
		{"blob of other bytes", base, shop().with("oracles/blobs/runs.json", runsBlob+" ").load(t), "! label: blob 1 row -> a blob that cannot be judged (retargeted)"},
		{"blob of the same bytes elsewhere", base, shop().with("oracles/r.json", runsBlob).edit(t, "oracles/parcels.toml", "oracles/blobs/runs.json", "oracles/r.json").load(t), `label: blob "oracles/blobs/runs.json" -> "oracles/r.json" (retargeted)`},
		{"other form of row", base, shop().edit(t, "oracles/fees.toml", `"oracles/blobs/orders.json"`, `"oracles/blobs/runs.json"`).edit(t, "oracles/fees.toml", sum(ordersBlob), sum(runsBlob)).load(t), `! fee_cap: row 1 {"order": 100} (removed) | ! fee_cap: row 2 {"order": 250} (removed) | fee_cap: row 1 {"args": ["-v"], "expected": {"exit": 1, "stdout": "no\n"}} (added)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(meanings(Diff(c.before, c.after)), " | "); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if got := Loosens(Diff(c.before, c.after)); got != strings.Contains(c.want, "! ") {
				t.Errorf("loosens: %t", got)
			}
		})
	}
}

// table is a shop with one table of n rows; change may alter a row's text.
func table(t *testing.T, n int, change func(i int, row string) string) Set {
	t.Helper()
	var rows []string
	for i := range n {
		if row := change(i, fmt.Sprintf(`{"args": [%d], "expected": %d}`, i, 2*i)); row != "" {
			rows = append(rows, row)
		}
	}
	s := shop().edit(t, "oracles/blobs/rates.json", ratesBlob, "["+strings.Join(rows, ",\n")+"]").load(t)
	if len(s.Faults) != 0 {
		t.Fatalf("faults:\n%s", told(s))
	}
	return s
}

// TestWhatARowExpectsIsShownWhereItDiffers: a change behind the part that is shown
// does not read as if nothing had changed.
func TestWhatARowExpectsIsShownWhereItDiffers(t *testing.T) {
	long := strings.Repeat("0, ", 200)
	for name, c := range map[string]struct{ old, now, want string }{
		"at once":         {`500`, `900`, `500 -> 900`},
		"at the end":      {`[` + long + `500]`, `[` + long + `900]`, `..., 0, 0, 500] -> ..., 0, 0, 900]`},
		"white space":     {`"a b"`, `"a  b"`, `..."a b" -> ..."a  b"`},
		"one goes on":     {`[` + long + `0]`, `[` + long + `0, 1]`, `... 0, 0, 0] -> ... 0, 0, 0, 1]`},
		"inside a letter": {`"` + long + "\u00e9" + `"`, `"` + long + "\u00e8" + `"`, `\u00e9" -> ...`},
	} {
		expecting := func(value string) Set {
			return table(t, 1, func(int, string) string { return `{"args": [0], "expected": ` + value + `}` })
		}
		ms := Diff(expecting(c.old), expecting(c.now))
		if len(ms) != 1 || ms[0].Direction != Retargeted || !ms[0].Loosens || !strings.Contains(ms[0].String(), c.want) {
			t.Errorf("%s: %q", name, meanings(ms))
		}
		if ms := Diff(expecting(c.old), expecting(" "+c.old)); len(ms) != 1 || ms[0].Loosens {
			t.Errorf("%s, only laid out anew: %q", name, meanings(ms))
		}
	}
}

func TestManyRowsFitOneScreen(t *testing.T) {
	same := func(_ int, row string) string { return row }
	base := table(t, 600, same)
	for _, c := range []struct {
		name  string
		after Set
		want  string
	}{
		{"200 rows retargeted", table(t, 600, func(i int, row string) string {
			if i < 200 {
				return strings.Replace(row, "expected\": ", "expected\": 1", 1)
			}
			return row
		}), "fee_table: row 1 [0] 0 -> 10 (retargeted) | fee_table: row 2 [1] 2 -> 12 (retargeted) | fee_table: 198 more rows (retargeted)"},
		{"all rows retargeted", table(t, 600, func(_ int, row string) string { return strings.Replace(row, "}", ".5}", 1) }),
			"fee_table: row 1 [0] 0 -> 0.5 (retargeted) | fee_table: row 2 [1] 2 -> 2.5 (retargeted) | fee_table: 598 more rows (retargeted)"},
		{"every other row removed, every third changed", table(t, 600, func(i int, row string) string {
			switch {
			case i%2 == 1:
				return ""
			case i%3 == 0:
				return strings.Replace(row, "expected\": ", "expected\": 1", 1)
			}
			return row
		}), "fee_table: row 1 [0] 0 -> 10 (retargeted) | fee_table: row 7 [6] 12 -> 112 (retargeted) | fee_table: 98 more rows (retargeted) | fee_table: row 2 [1] 2 (removed) | fee_table: row 4 [3] 6 (removed) | fee_table: 298 more rows (removed)"},
		{"three rows removed", table(t, 597, same), "fee_table: row 598 [597] 1194 (removed) | fee_table: row 599 [598] 1196 (removed) | fee_table: row 600 [599] 1198 (removed)"},
		{"rows added", table(t, 900, same), "fee_table: row 601 [600] 1200 (added) | fee_table: row 602 [601] 1202 (added) | fee_table: 298 more rows (added)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ms := Diff(base, c.after)
			if len(ms) > 3*(maxRowMeanings+1) {
				t.Errorf("%d meanings", len(ms))
			}
			if got := strings.Join(Lines(ms, 20), " | "); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestLinesShowWhatLoosensFirst(t *testing.T) {
	var ms []Meaning
	for i := range 30 {
		ms = append(ms, Meaning{ID: fmt.Sprintf("a%02d", i), Field: "max", Old: "2", New: "1", Direction: Tightened})
	}
	ms = append(ms, Meaning{ID: "z", Field: "max", Old: "1", New: "2", Direction: Widened, Loosens: true})
	lines := Lines(ms, 20)
	if len(lines) != 20 || lines[0] != "z: max 1 -> 2 (widened)" || lines[19] != "and 12 more" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for i := range ms {
		ms[i].Loosens = true
	}
	if lines := Lines(ms, 3); !slices.Equal(lines[2:], []string{"and 29 more, of which 29 loosen an oracle"}) {
		t.Errorf("%q", lines)
	}
	if lines := Lines(ms[:3], 3); len(lines) != 3 || strings.Contains(lines[2], "more") {
		t.Errorf("%q", lines)
	}
	if Lines(ms, 0) != nil || Lines(nil, 5) != nil {
		t.Error("something of nothing")
	}
	if lines := Lines(ms, 1); !slices.Equal(lines, []string{"and 31 more, of which 31 loosen an oracle"}) {
		t.Errorf("%q", lines)
	}
}

// TestMeaningsAreSafeToShow: whatever stands in the files, what is shown is ASCII
// on one line, and short.
func TestMeaningsAreSafeToShow(t *testing.T) {
	nasty := "\u001b[31m\u202e\n\r\t\"\\ " + strings.Repeat("x", 5000)
	quoted := strings.NewReplacer("\u001b", `\u001b`, "\n", `\n`, "\r", `\r`, "\t", `\t`, `"`, `\"`, `\`, `\\`).Replace(nasty)
	after := shop().
		edit(t, "oracles/blobs/rates.json", `"NL"`, `"`+quoted+`"`).
		edit(t, "oracles/blobs/rates.json", `6`, `"`+quoted+`"`).
		edit(t, "oracles/blobs/orders.json", ordersBlob, `[{"`+quoted+`": "`+quoted+`"}]`).
		edit(t, "oracles/parcels.toml", `["order"]`, `["`+quoted+`"]`).
		edit(t, "oracles/parcels.toml", "exec:bin/label", "exec:bin/\u202eab\u00e9 l")
	s := after.load(t)
	if len(s.Faults) != 0 {
		t.Fatalf("faults:\n%s", told(s))
	}
	ms := Diff(shop().load(t), s)
	if len(ms) < 6 {
		t.Errorf("%d meanings", len(ms))
	}
	for _, m := range ms {
		if line := m.String(); !ascii(line) || len(line) > 300 {
			t.Errorf("shown as %q", line)
		}
	}
}

func TestNumbersCompareExactly(t *testing.T) {
	for _, c := range []struct {
		a, b Number
		want int
	}{
		{IntNumber(1), IntNumber(2), -1},
		{IntNumber(1), FloatNumber(1), 0},
		{IntNumber(9007199254740993), FloatNumber(9007199254740992), 1},
		{FloatNumber(math.Copysign(0, -1)), IntNumber(0), 0},
		{FloatNumber(0.1), FloatNumber(0.2), -1},
	} {
		if got := c.a.Cmp(c.b); got != c.want {
			t.Errorf("%s against %s: %d", c.a, c.b, got)
		}
	}
	if FloatNumber(1).String() != "1.0" || IntNumber(1).String() != "1" || (Number{}).String() != "none" {
		t.Error("words")
	}
	var zero float64
	if FloatNumber(1/zero).IsSet() || FloatNumber(zero/zero).IsSet() || (Number{}).IsSet() {
		t.Error("what is not finite is a number")
	}
}
