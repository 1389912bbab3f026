package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFilesWithoutAFault(t *testing.T) {
	s := shop().load(t)
	if len(s.Faults) != 0 || len(s.Invariants) != 4 || !s.HasManifest || len(s.Broken) != 0 {
		t.Fatalf("%d invariants, faults:\n%s", len(s.Invariants), told(s))
	}
	for name, f := range map[string]files{
		"no oracles at all":              {},
		"other files below oracles":      {"oracles/README": "hello"},
		"an empty file and its manifest": files{"oracles/a.toml": "schema = 1\n"}.manifest(),
		"a manifest of nothing":          files{}.manifest(),
		"an executable file":             {},
	} {
		if s := f.load(t); len(s.Faults) != 0 || len(s.Invariants)+len(s.IDs) != 0 {
			t.Errorf("%s: %v, faults:\n%s", name, s.IDs, told(s))
		}
	}
	for name, edit := range map[string][3]string{
		"seed 0":                     {"oracles/fees.toml", "min = 0", "seed = 0\nmin = 0"},
		"largest seed":               {"oracles/fees.toml", "min = 0", "seed = 4294967295\nmin = 0"},
		"bounds of 64 bits":          {"oracles/fees.toml", "min = 0\nmax = 500", "min = -9223372036854775808\nmax = 9223372036854775807"},
		"float bounds":               {"oracles/fees.toml", "min = 0\nmax = 500", "min = -1.5e308\nmax = +1_0.5"},
		"equal bounds":               {"oracles/fees.toml", "min = 0\nmax = 500", "min = 500.0\nmax = 500"},
		"hexadecimal bound":          {"oracles/fees.toml", "max = 500", "max = 0xff"},
		"a row of another order":     {"oracles/fees.toml", "kind = \"bound\"\nmin = 0", "min = 0\nkind = \"bound\""},
		"quoted keys":                {"oracles/fees.toml", "kind = ", "\"kind\" = "},
		"literal and long strings":   {"oracles/fees.toml", `"shop.fees:fee"`, `'''shop.fees:fee'''`},
		"spaces in the table's name": {"oracles/fees.toml", "[[invariant]]", "[[ invariant ]]"},
		"line ends of other systems": {"oracles/fees.toml", "schema = 1\n", "schema = 1\r\n"},
		"comments":                   {"oracles/fees.toml", "schema = 1\n", "# caf\u00e9\nschema = 1 # one\n"},
		"repeat 100":                 {"oracles/parcels.toml", `args = ["order"]`, "repeat = 100"},
		"no args":                    {"oracles/parcels.toml", `args = ["order"]`, ""},
		"comparison of calls":        {"oracles/parcels.toml", `args = ["order"]`, "strict = true\nsequence = true\nunordered = true\nabs_tol = 1\nrel_tol = 1.0"},
		"comparison of a table":      {"oracles/fees.toml", `kind = "exact_table"`, "kind = \"exact_table\"\nstrict = false\nabs_tol = 0.0"},
		"empty object as arguments":  {"oracles/blobs/orders.json", ordersBlob, `[{"order": {}}]`},
		"exec without output":        {"oracles/blobs/runs.json", `{"exit": 1, "stdout": "no\n"}`, `{}`},
		"exec with empty output":     {"oracles/blobs/runs.json", `{"exit": 1, "stdout": "no\n"}`, `{"stdout": {"base64": ""}}`},
		"a function of Node":         {"oracles/fees.toml", "shop.fees:fee", "node:lib/a b/fee-table.mjs:Fees.of$1"},
		"a colon in a path of Node":  {"oracles/fees.toml", "shop.fees:fee", "node:lib/a:b.cjs:fee"},
		"deep path of a program":     {"oracles/parcels.toml", "exec:bin/label", "exec:tools/caf\u00e9/l a"},
		"numbers of 4300 digits":     {"oracles/blobs/rates.json", "[1, ", "[" + strings.Repeat("9", maxDigits) + ", "},
		"64 levels":                  {"oracles/blobs/rates.json", "[1, ", "[" + strings.Repeat("[", maxDepth-3) + strings.Repeat("]", maxDepth-3) + ", "},
	} {
		if s := shop().edit(t, edit[0], edit[1], edit[2]).load(t); len(s.Faults) != 0 || len(s.Invariants) != 4 {
			t.Errorf("%s: %d invariants, faults:\n%s", name, len(s.Invariants), told(s))
		}
	}
}

// TestEveryFaultHasItsPlace: one edit of a shop without a fault, and what is
// said: place, code, id, and a part of the words.
func TestEveryFaultHasItsPlace(t *testing.T) {
	const fees, parcels = "oracles/fees.toml", "oracles/parcels.toml"
	const orders, rates, runs = "oracles/blobs/orders.json", "oracles/blobs/rates.json", "oracles/blobs/runs.json"
	for _, c := range []struct {
		name           string
		file, old, new string
		want           string // "place code [id] words"
	}{
		// The text of a file.
		{"byte order mark", fees, "schema = 1", "\ufeffschema = 1", "oracles/fees.toml:1 encoding [] the file has a byte order mark"},
		{"not UTF-8", fees, "fee_cap", "fee\xff", "oracles/fees.toml:3 encoding [] the file has bytes that are not UTF-8"},
		{"NUL", fees, "min = 0", "min = 0\x00", "oracles/fees.toml:6 encoding [] the file has a NUL byte"},
		{"syntax", fees, "min = 0", "min = ", "oracles/fees.toml:6 toml [fee_cap] not TOML"},
		{"syntax right behind the head", fees, "[[invariant]]\nid", "[[invariant]] # one\n# two\n\n= 3\nid", "oracles/fees.toml:5 toml [] not TOML"},
		{"syntax on the head's line", fees, "[[invariant]]\nid", "[[invariant]] 7\nid", "oracles/fees.toml:2 toml [] not TOML"},
		{"syntax in a head", fees, "[[invariant]]\nid = \"fee_cap\"", "[[invariant]\nid = \"fee_cap\"", "oracles/fees.toml:2 toml [] not TOML"},
		{"carriage return alone", fees, "schema = 1", "schema = 1\r# x", "oracles/fees.toml:1 toml [] not TOML"},
		{"comment that is not text", fees, "schema = 1", "schema = 1 # \x01", "oracles/fees.toml:1 toml [] not TOML"},
		{"1001 args", parcels, `["order"]`, `["order"` + strings.Repeat(`, ""`, maxStrings) + `]`, `oracles/parcels.toml:6 limit [ship_once] "args" has more than 1000 items`},
		{"two values", fees, "min = 0", "min = 0 1", "oracles/fees.toml:6 toml [fee_cap] not TOML"},
		{"string without an end", fees, `"bound"`, `"bound`, "oracles/fees.toml:5 toml [fee_cap] not TOML"},
		{"long string without an end", fees, `"bound"`, `"""bound`, "oracles/fees.toml:5 toml [fee_cap] not TOML"},
		{"list without an end", parcels, `["order"]`, `["order"`, "oracles/parcels.toml:7 toml [ship_once] not TOML"},
		{"escape of TOML 1.1", fees, `"shop.fees:fee"`, `"shop.fees:\x66ee"`, `oracles/fees.toml:4 toml [fee_cap] not TOML 1.0: the escape \x`},
		{"single brackets", fees, "[[invariant]]\nid = \"fee_cap\"", "[invariant]\nid = \"fee_cap\"", "oracles/fees.toml:2 toml [fee_cap] a row starts with [[invariant]]"},
		{"inline rows", fees, "schema = 1", "schema = 1\ninvariant = [{id = \"x\"}]", "oracles/fees.toml:2 toml [] rows are written as [[invariant]]"},
		{"unknown table", fees, "schema = 1", "schema = 1\n[owner]\nname = \"x\"", `oracles/fees.toml:2 unknown-key [] unknown table "owner"`},
		{"unknown list of tables", fees, "schema = 1", "schema = 1\n[[invariants]]\nid = \"x\"", `oracles/fees.toml:2 unknown-key [] unknown table "invariants"`},
		{"table below a row", fees, "max = 500", "max = 500\n[invariant.limits]\nmax = 900\n", `unknown table "invariant.limits"`},
		{"unknown key at the top", fees, "schema = 1", "schema = 1\nowner = \"x\"", `oracles/fees.toml:2 unknown-key [] unknown key "owner"`},
		{"unknown key", fees, "min = 0", "min = 0\nminimum = 0", `oracles/fees.toml:7 unknown-key [fee_cap] unknown key "minimum"`},
		{"key in another case", fees, "min = 0", "min = 0\nSeed = 4", `oracles/fees.toml:7 unknown-key [fee_cap] unknown key "Seed"`},
		{"dotted key", fees, "min = 0", "min = 0\nmin.x = 0", `oracles/fees.toml:7 unknown-key [fee_cap] unknown key "min.x"`},
		{"key twice", fees, "min = 0", "min = 0\nmin = 1", `oracles/fees.toml:7 duplicate-key [fee_cap] key "min" twice in one row`},
		{"key twice in other quotes", fees, "min = 0", "min = 0\n\"min\" = 1", `oracles/fees.toml:7 duplicate-key [fee_cap] key "min" twice in one row`},
		{"schema twice", fees, "schema = 1", "schema = 1\nschema = 1", `oracles/fees.toml:2 duplicate-key [] key "schema" twice`},
		{"schema missing", fees, "schema = 1\n", "", `oracles/fees.toml:1 schema [] "schema = 1" is missing`},
		{"schema in a row", fees, "schema = 1\n[[invariant]]\n", "[[invariant]]\nschema = 1\n", `oracles/fees.toml:2 unknown-key [fee_cap] unknown key "schema"`},
		{"schema 2", fees, "schema = 1", "schema = 2", `oracles/fees.toml:1 schema [] "schema" is 1`},
		{"schema as a float", fees, "schema = 1", "schema = 1.0", `oracles/fees.toml:1 schema [] "schema" is 1, an integer`},
		{"schema as a string", fees, "schema = 1", `schema = "1"`, `oracles/fees.toml:1 schema [] "schema" is 1, an integer`},
		// Which keys.
		{"no id", fees, "id = \"fee_cap\"\n", "", `oracles/fees.toml:2 missing-key [] "id" is missing`},
		{"no entry", fees, "entry = \"shop.fees:fee\"\n", "", `oracles/fees.toml:2 missing-key [fee_cap] "entry" is missing`},
		{"no kind", fees, "kind = \"bound\"\n", "", `oracles/fees.toml:2 missing-key [fee_cap] "kind" is missing`},
		{"no min", fees, "min = 0\n", "", `oracles/fees.toml:2 missing-key [fee_cap] "min" is missing`},
		{"no max", fees, "max = 500\n", "", `oracles/fees.toml:2 missing-key [fee_cap] "max" is missing`},
		{"no blob", fees, "blob = \"oracles/blobs/orders.json\"\n", "", `oracles/fees.toml:2 missing-key [fee_cap] "blob" is missing`},
		{"pasted without a hash", fees, "blob_sha256 = \"" + sum(ordersBlob) + "\"\n", "", `oracles/fees.toml:2 missing-key [fee_cap] "blob_sha256" is missing`},
		{"bound with repeat", fees, "min = 0", "min = 0\nrepeat = 2", `oracles/fees.toml:7 misplaced-key [fee_cap] "repeat" does not go with kind "bound"`},
		{"bound with strict", fees, "min = 0", "min = 0\nstrict = true", `oracles/fees.toml:7 misplaced-key [fee_cap] "strict" does not go with kind "bound"`},
		{"table with a bound", fees, `kind = "exact_table"`, "kind = \"exact_table\"\nmin = 0", `oracles/fees.toml:15 misplaced-key [fee_table] "min" does not go with kind "exact_table"`},
		{"table with args", fees, `kind = "exact_table"`, "kind = \"exact_table\"\nargs = [\"a\"]", `oracles/fees.toml:15 misplaced-key [fee_table] "args" does not go with kind "exact_table"`},
		{"program with a seed", parcels, `entry = "exec:bin/label"`, "entry = \"exec:bin/label\"\nseed = 3", `oracles/parcels.toml:13 misplaced-key [label] "seed" does not go with an exec entry`},
		{"program with a tolerance", parcels, `entry = "exec:bin/label"`, "entry = \"exec:bin/label\"\nabs_tol = 0.1", `oracles/parcels.toml:13 misplaced-key [label] "abs_tol" does not go with an exec entry`},
		// What they hold.
		{"unknown kind", fees, `"bound"`, `"bounds"`, `oracles/fees.toml:5 unknown-kind [fee_cap] kind "bounds"`},
		{"kind in another case", fees, `"bound"`, `"Bound"`, `oracles/fees.toml:5 unknown-kind [fee_cap] kind "Bound"`},
		{"empty id", fees, `"fee_cap"`, `""`, `oracles/fees.toml:3 bad-id [] id ""`},
		{"id with a space", fees, `"fee_cap"`, `"fee cap"`, `oracles/fees.toml:3 bad-id [] id "fee cap"`},
		{"id with a dash first", fees, `"fee_cap"`, `"-fee"`, `oracles/fees.toml:3 bad-id [] id "-fee"`},
		{"id of look-alikes", fees, `"fee_cap"`, "\"fee_c\u0430p\"", `oracles/fees.toml:3 bad-id [] id "fee_c\u0430p"`},
		{"id of 101", fees, `"fee_cap"`, `"` + strings.Repeat("a", 101) + `"`, `oracles/fees.toml:3 bad-id [] id "aaaa`},
		{"id as a number", fees, `"fee_cap"`, "7", `oracles/fees.toml:3 wrong-type [] "id" is a string`},
		{"entry without a name", fees, "shop.fees:fee", "shop.fees", `oracles/fees.toml:4 bad-entry [fee_cap] entry "shop.fees"`},
		{"entry with two colons", fees, "shop.fees:fee", "shop:fees:fee", `oracles/fees.toml:4 bad-entry [fee_cap] entry "shop:fees:fee"`},
		{"entry with an empty part", fees, "shop.fees:fee", "shop..fees:fee", `oracles/fees.toml:4 bad-entry [fee_cap]`},
		{"entry with a call", fees, "shop.fees:fee", "shop.fees:fee()", `oracles/fees.toml:4 bad-entry [fee_cap]`},
		{"entry that is relative", fees, "shop.fees:fee", ".fees:fee", `oracles/fees.toml:4 bad-entry [fee_cap]`},
		{"entry with a digit first", fees, "shop.fees:fee", "shop.fees:2fee", `oracles/fees.toml:4 bad-entry [fee_cap]`},
		{"entry of 301", fees, "shop.fees:fee", "shop.fees:" + strings.Repeat("a", 291), `oracles/fees.toml:4 bad-entry [fee_cap] entry "shop.fees:aaaa`},
		{"program outside", parcels, "exec:bin/label", "exec:../label", `oracles/parcels.toml:12 bad-entry [label] entry "exec:../label": the path has a '..'`},
		{"program absolute", parcels, "exec:bin/label", "exec:/bin/sh", `oracles/parcels.toml:12 bad-entry [label] entry "exec:/bin/sh": the path is absolute`},
		{"program without a path", parcels, "exec:bin/label", "exec:", `oracles/parcels.toml:12 bad-entry [label]`},
		{"Node without a function", fees, "shop.fees:fee", "node:lib/fees.js", `oracles/fees.toml:4 bad-entry [fee_cap] entry "node:lib/fees.js" names no function`},
		{"Node outside", fees, "shop.fees:fee", "node:../fees.js:fee", `oracles/fees.toml:4 bad-entry [fee_cap] entry "node:../fees.js:fee": the path has a '..'`},
		{"Node among the oracles", fees, "shop.fees:fee", "node:oracles/fees.js:fee", `oracles/fees.toml:4 bad-entry [fee_cap]`},
		{"Node of a module", fees, "shop.fees:fee", "node:lib.fees:fee", `oracles/fees.toml:4 bad-entry [fee_cap] entry "node:lib.fees:fee": Node's files end with .js, .mjs or .cjs`},
		{"Node of an ending alone", fees, "shop.fees:fee", "node:lib/.js:fee", `oracles/fees.toml:4 bad-entry [fee_cap]`},
		{"Node with a call", fees, "shop.fees:fee", "node:lib/fees.js:fee()", `oracles/fees.toml:4 bad-entry [fee_cap] entry "node:lib/fees.js:fee()": a function of Node is words`},
		{"Node with nothing behind the colon", fees, "shop.fees:fee", "node:lib/fees.js:", `oracles/fees.toml:4 bad-entry [fee_cap]`},
		{"program among the oracles", parcels, "exec:bin/label", "exec:oracles/label", `oracles/parcels.toml:12 bad-entry [label]`},
		{"bounds crossed", fees, "min = 0", "min = 501", `oracles/fees.toml:7 out-of-range [fee_cap] min 501 is above max 500`},
		{"bound as a string", fees, "max = 500", `max = "500"`, `oracles/fees.toml:7 wrong-type [fee_cap] "max" is a number`},
		{"bound true", fees, "max = 500", `max = true`, `oracles/fees.toml:7 wrong-type [fee_cap] "max" is a number`},
		{"date as a bound", fees, "max = 500", `max = 2026-01-01`, `oracles/fees.toml:7 wrong-type [fee_cap] "max" is a number`},
		{"seed of a float", fees, "min = 0", "min = 0\nseed = 1.0", `oracles/fees.toml:7 wrong-type [fee_cap] "seed" is an integer`},
		{"seed below 0", fees, "min = 0", "min = 0\nseed = -1", `oracles/fees.toml:7 out-of-range [fee_cap] "seed" is from 0 to 4294967295`},
		{"seed too large", fees, "min = 0", "min = 0\nseed = 4294967296", `oracles/fees.toml:7 out-of-range [fee_cap] "seed" is from`},
		{"repeat 1", parcels, `args = ["order"]`, "repeat = 1", `oracles/parcels.toml:6 out-of-range [ship_once] "repeat" is from 2 to 100`},
		{"repeat 101", parcels, `args = ["order"]`, "repeat = 101", `oracles/parcels.toml:6 out-of-range [ship_once] "repeat" is from 2 to 100`},
		{"args as a string", parcels, `["order"]`, `"order"`, `oracles/parcels.toml:6 wrong-type [ship_once] "args" is a list of strings`},
		{"args of a number", parcels, `["order"]`, `["order", 1]`, `oracles/parcels.toml:6 wrong-type [ship_once] "args" is a list of strings`},
		{"args in args", parcels, `["order"]`, `[["order"]]`, `oracles/parcels.toml:6 wrong-type [ship_once] "args" is a list of strings`},
		{"args twice the same", parcels, `["order"]`, `["order", "order"]`, `oracles/parcels.toml:6 out-of-range [ship_once] "args" names a key twice`},
		{"strict as a number", parcels, `args = ["order"]`, "strict = 1", `oracles/parcels.toml:6 wrong-type [ship_once] "strict" is true or false`},
		{"tolerance below 0", parcels, `args = ["order"]`, "abs_tol = -0.1", `oracles/parcels.toml:6 out-of-range [ship_once] "abs_tol" is from 0`},
		{"relative tolerance above 1", parcels, `args = ["order"]`, "rel_tol = 1.5", `oracles/parcels.toml:6 out-of-range [ship_once] "rel_tol" is from 0 to 1`},
		{"tolerance nan", parcels, `args = ["order"]`, "rel_tol = nan", `oracles/parcels.toml:6 out-of-range [ship_once] "rel_tol" is a finite number`},
		{"inline table", parcels, `args = ["order"]`, "args = {a = 1}", `oracles/parcels.toml:6 wrong-type [ship_once] "args" is a list of strings`},
		// Blobs.
		{"hash of other bytes", fees, sum(ordersBlob), sum("x"), "oracles/fees.toml:9 blob-hash [fee_cap] the sha256 of \"oracles/blobs/orders.json\" is " + sum(ordersBlob)},
		{"hash in capitals", fees, sum(ordersBlob), strings.ToUpper(sum(ordersBlob)), `oracles/fees.toml:9 blob-hash [fee_cap] blob_sha256`},
		{"hash too short", fees, sum(ordersBlob), sum(ordersBlob)[:63], `oracles/fees.toml:9 blob-hash [fee_cap] blob_sha256`},
		{"row is no object", orders, `{"order": 100}`, `[100]`, `oracles/blobs/orders.json:1 blob-row [fee_cap] row 1 is no object`},
		{"row lacks a key", orders, `{"order": 250}`, "\n{}", `oracles/blobs/orders.json:2 blob-row [ship_once] row 2 has not exactly the keys`},
		{"row has one key more", orders, `{"order": 250}`, "\n{\"order\": 1, \"x\": 2}", `oracles/blobs/orders.json:2 blob-row [ship_once] row 2 has not exactly the keys`},
		{"table row without args", rates, `"args": [2, "PT"], `, ``, `oracles/blobs/rates.json:2 blob-row [fee_table] row 2 has no list "args"`},
		{"table row without expected", rates, `, "expected": 6`, ``, `oracles/blobs/rates.json:2 blob-row [fee_table] row 2 has no "expected"`},
		{"table row with a name", rates, `"expected": 6`, `"expected": 6, "name": "x"`, `oracles/blobs/rates.json:2 blob-row [fee_table] row 2 has the unknown key "name"`},
		{"program row with a number", runs, `["-v"]`, `[1]`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has an argument that is no string`},
		{"program row with a NUL", runs, `["-v"]`, `["\u0000"]`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has an argument with a NUL`},
		{"program row with a bad exit", runs, `"exit": 1`, `"exit": 256`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has an "exit"`},
		{"program row with a float exit", runs, `"exit": 1`, `"exit": 1.0`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has an "exit"`},
		{"program row with bad bytes", runs, `"no\n"`, `{"base64": "*"}`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has a "stdout" that is not base64`},
		{"program row with loose bytes", runs, `"no\n"`, `{"base64": "QR=="}`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has a "stdout" that is not base64`},
		{"program row with stderr", runs, `"exit": 1`, `"stderr": ""`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has an "expected" that has the unknown key "stderr"`},
		{"program row without args", runs, `"args": ["-v"], `, ``, `oracles/blobs/runs.json:1 blob-row [label] row 1 has no list "args"`},
		{"program row without expected", runs, `, "expected": {"exit": 1, "stdout": "no\n"}`, ``, `oracles/blobs/runs.json:1 blob-row [label] row 1 has no object "expected"`},
		{"program row with a number as input", runs, `["-v"]`, `["-v"], "stdin": 7`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has a "stdin" that is neither a string nor {"base64": "..."}`},
		{"program row with an odd object as input", runs, `["-v"]`, `["-v"], "stdin": {"base64": "", "hex": ""}`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has a "stdin" that is neither`},
		{"program row with 1001 arguments", runs, `["-v"]`, `["-v"` + strings.Repeat(`, ""`, maxArguments) + `]`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has more than 1000 arguments`},
		{"program row with a long argument", runs, `["-v"]`, `["` + strings.Repeat("v", maxArgument+1) + `"]`, `oracles/blobs/runs.json:1 blob-row [label] row 1 has an argument of more than 102400 bytes`},
		{"blob is an object", orders, ordersBlob, `{"order": 1}`, `oracles/blobs/orders.json:1 blob-json [fee_cap] a blob is a list of rows`},
		{"blob is empty", orders, ordersBlob, `[]`, `oracles/blobs/orders.json:1 blob-empty [fee_cap] the blob has no row`},
		{"blob has no byte", orders, ordersBlob, ` `, `oracles/blobs/orders.json:1 blob-json [fee_cap] a blob is a list of rows`},
		{"nan in a blob", orders, "100", "NaN", `oracles/blobs/orders.json:1 blob-json [fee_cap] not a JSON value`},
		{"overflow in a blob", orders, "100", "1e400", `oracles/blobs/orders.json:1 blob-json [fee_cap] a number beyond the range of a float`},
		{"4301 digits in a blob", orders, "100", strings.Repeat("1", 4301), `oracles/blobs/orders.json:1 blob-json [fee_cap] a number of more than 4300 digits`},
		{"key twice in a blob", orders, `"order": 100`, `"order": 100, "\u006frder": 1`, `oracles/blobs/orders.json:1 blob-json [fee_cap] key "order" twice`},
		{"half a surrogate pair", rates, `"PT"`, `"\ud83c"`, `oracles/blobs/rates.json:2 blob-json [fee_table] half of a surrogate pair`},
		{"trailing data", rates, `6}]`, "6}]\n\n]", `oracles/blobs/rates.json:4 blob-json [fee_table] something follows`},
		{"byte order mark in a blob", rates, "[{", "\ufeff[{", `oracles/blobs/rates.json:1 blob-json [fee_table] a byte order mark`},
		{"bytes in a blob", rates, "PT", "P\xff", `oracles/blobs/rates.json:2 blob-json [fee_table] not UTF-8`},
		{"comma at the end", rates, `6}]`, "6},]", `oracles/blobs/rates.json:2 blob-json [fee_table] not a JSON value`},
		{"65 levels", rates, `"PT"`, strings.Repeat("[", 63) + strings.Repeat("]", 63), `oracles/blobs/rates.json:2 blob-json [fee_table] nested deeper than 64`},
		// The manifest.
		{"manifest lacks an id", ManifestPath, "    \"label\",\n", "", `oracles/MANIFEST.sha256:7 manifest [] "count" is 4, and "ids" has 3`},
		{"manifest has an id more", fees, "[[invariant]]\nid = \"fee_table\"", "[[invariant]]\nid = \"fee_rows\"", `oracles/MANIFEST.sha256:4 manifest [] no oracle file has fee_table; the manifest lacks fee_rows`},
		{"manifest with a wrong count", ManifestPath, "4", "5", `oracles/MANIFEST.sha256:8 manifest [] "count" is 5, and "ids" has 4`},
		{"manifest with a float", ManifestPath, "4", "4.0", `oracles/MANIFEST.sha256:8 manifest [] "count" has the wrong type`},
		{"manifest with a key more", ManifestPath, "\"count\"", "\"version\": 1,\n\"count\"", `oracles/MANIFEST.sha256:8 manifest [] unknown key "version"`},
		{"manifest without ids", ManifestPath, shop()[ManifestPath], `{"count": 0}`, `oracles/MANIFEST.sha256:1 manifest [] "ids" is missing`},
		{"manifest without a count", ManifestPath, shop()[ManifestPath], `{"ids": []}`, `oracles/MANIFEST.sha256:1 manifest [] "count" is missing`},
		{"manifest is a list", ManifestPath, shop()[ManifestPath], `[]`, `oracles/MANIFEST.sha256:1 manifest [] a manifest is`},
		{"manifest is no JSON", ManifestPath, shop()[ManifestPath], sum("x") + "  fees.toml\n", `oracles/MANIFEST.sha256:1 manifest [] a manifest is`},
		{"manifest unsorted", ManifestPath, "\"fee_cap\",\n    \"fee_table\"", "\"fee_table\",\n    \"fee_cap\"", `oracles/MANIFEST.sha256:4 manifest [] "fee_cap" does not belong behind "fee_table"`},
		{"manifest with an id twice", ManifestPath, "\"fee_cap\",", "\"fee_cap\", \"fee_cap\",", `oracles/MANIFEST.sha256:3 manifest [] "fee_cap" does not belong behind "fee_cap"`},
		{"manifest with a number", ManifestPath, `"fee_cap"`, `7`, `oracles/MANIFEST.sha256:3 manifest [] "7" is no id`},
		{"manifest with something behind it", ManifestPath, "}\n", "}\n{}", `oracles/MANIFEST.sha256:10 manifest [] something follows`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shop().edit(t, c.file, c.old, c.new).load(t)
			if !strings.Contains(told(s), c.want) {
				t.Errorf("faults:\n%swant:\n%s", told(s), c.want)
			}
		})
	}
}

func TestFaultsOfEntries(t *testing.T) {
	for _, c := range []struct {
		name, path, content string
		want                string
	}{
		{"oracle file is a link", "oracles/fees.toml", "-> parcels.toml", "oracles/fees.toml:0 link [] this is a symbolic link, not a file"},
		{"oracle file is a submodule", "oracles/fees.toml", "module", "oracles/fees.toml:0 not-a-file []"},
		{"oracle file of an odd mode", "oracles/fees.toml", "mode 100664", "oracles/fees.toml:0 not-a-file [] this is an entry of mode 100664, not a file"},
		{"manifest is a link", ManifestPath, "-> x", "oracles/MANIFEST.sha256:0 link []"},
		{"manifest is missing", ManifestPath, "", "oracles/MANIFEST.sha256:0 manifest [] the manifest is not there"},
		{"manifest is a directory", ManifestPath + "/x", "y", ""},
		{"oracle file too deep", "oracles/more/fees.toml", "schema = 1", "oracles/more/fees.toml:0 misplaced-file [] nobody reads this file"},
		{"oracle file in capitals", "oracles/fees2.TOML", "schema = 1", "oracles/fees2.TOML:0 misplaced-file []"},
		{"too large", "oracles/fees2.toml", "schema = 1\n#" + strings.Repeat("x", maxFile), "oracles/fees2.toml:0 too-large [] the file has more than 1048576 bytes"},
		{"blob too large", "oracles/blobs/orders.json", ordersBlob + strings.Repeat(" ", maxBlob), "oracles/blobs/orders.json:0 too-large [fee_cap] the file has more than 8388608 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shop().with(c.path, c.content).load(t)
			if !strings.Contains(told(s), c.want) {
				t.Errorf("faults:\n%swant:\n%s", told(s), c.want)
			}
		})
	}
	for content, want := range map[string]string{
		"-> elsewhere": "oracles:0 link [] oracles is a symbolic link, not a directory",
		"module":       "oracles:0 not-a-file [] oracles is a submodule, not a directory",
		"text":         "oracles:0 not-a-file [] oracles is a file, not a directory",
	} {
		s := files{"oracles": content}.load(t)
		if !strings.Contains(told(s), want) || !slices.Equal(s.Broken, []string{"oracles"}) {
			t.Errorf("%q: broken %q, faults:\n%s", content, s.Broken, told(s))
		}
	}
}

// TestOneFaultDoesNotHideTheOthers: every row of every file is looked at, and
// what has no fault of its own can be judged.
func TestOneFaultDoesNotHideTheOthers(t *testing.T) {
	f := shop().
		edit(t, "oracles/fees.toml", "max = 500", "max = 5OO\ncolour = 1").
		edit(t, "oracles/fees.toml", `kind = "exact_table"`, "kind = \"exact\"\nseed = 1.5\nshape = 2").
		edit(t, "oracles/parcels.toml", `args = ["order"]`, `args = ["parcel"]`).
		edit(t, "oracles/blobs/runs.json", `"exit": 1`, `"exit": -1`).
		with("oracles/more.toml", "schema = 1\n[[invariant]]\nid = \"fee_cap\"\n").
		with("oracles/last.toml", "schema = 2\n= 4\n\n[[ invariant ]]\nid = \"late\"\nkind = \"bound\"\n")
	s := f.load(t)
	for _, want := range []string{
		"oracles/fees.toml:7 toml [fee_cap] not TOML",
		"oracles/fees.toml:15 unknown-kind [fee_table]",
		"oracles/fees.toml:16 wrong-type [fee_table]",
		"oracles/fees.toml:17 unknown-key [fee_table]",
		"oracles/blobs/orders.json:1 blob-row [ship_once]",
		"oracles/blobs/runs.json:1 blob-row [label]",
		"oracles/last.toml:1 schema []",
		"oracles/last.toml:2 toml []",
		`oracles/last.toml:4 missing-key [late] "entry" is missing`,
		`oracles/more.toml:2 duplicate-id [fee_cap] id "fee_cap" is taken by "oracles/fees.toml", line 2`,
		"oracles/MANIFEST.sha256:0 manifest [] the manifest lacks late",
	} {
		if !strings.Contains(told(s), want) {
			t.Errorf("nothing says %s", want)
		}
	}
	if want := []string{"fee_cap", "fee_table", "label", "late", "ship_once"}; !slices.Equal(s.IDs, want) {
		t.Errorf("ids %q", s.IDs)
	}
	if t.Failed() {
		t.Logf("faults:\n%s", told(s))
	}
}

func TestDuplicateIDsAreNotJudged(t *testing.T) {
	f := shop()
	row := strings.SplitAfterN(f["oracles/fees.toml"], "[[invariant]]\n", 3)[1]
	f = f.with("oracles/zz.toml", "schema = 1\n[[invariant]]\n"+strings.TrimSuffix(row, "[[invariant]]\n"))
	s := f.load(t)
	if !slices.Equal(s.Broken, []string{"fee_cap"}) || len(s.Invariants) != 3 {
		t.Errorf("broken %q, faults:\n%s", s.Broken, told(s))
	}
}

func TestLimitsOfAllFilesTogether(t *testing.T) {
	row := func(i int, blob, digest string) string {
		return fmt.Sprintf("[[invariant]]\nid = \"i%d\"\nentry = \"a:b\"\nkind = \"idempotent\"\nblob = %q\nblob_sha256 = %q\n", i, blob, digest)
	}
	t.Run("bytes", func(t *testing.T) {
		f := files{}
		var toml strings.Builder
		toml.WriteString("schema = 1\n")
		var ids []string
		text := "[{}]" + strings.Repeat(" ", maxBlob-4)
		digest := sum(text)
		for i := range 9 {
			blob := fmt.Sprintf("oracles/b%d.json", i)
			f[blob] = text
			toml.WriteString(row(i, blob, digest))
			ids = append(ids, fmt.Sprintf("i%d", i))
		}
		s := f.with("oracles/a.toml", toml.String()).manifest(ids...).load(t)
		if !strings.Contains(told(s), "limit [i7] the oracle files have more than 67108864 bytes together") || slices.Contains(s.Broken, "i6") {
			t.Errorf("broken %q, faults:\n%s", s.Broken, told(s))
		}
	})
	t.Run("rows", func(t *testing.T) {
		text := func(n, i int) string {
			return "[" + strings.Repeat(fmt.Sprintf("{\"a\":%d},", i), n-1) + "{}]"
		}
		for n, want := range map[int]bool{maxRows: true, maxRows + 1: false} {
			blob := text(n, 0)
			f := files{"oracles/a.toml": "schema = 1\n" + row(0, "oracles/b.json", sum(blob)), "oracles/b.json": blob}.manifest("i0")
			if s := f.load(t); (len(s.Faults) == 0) != want {
				t.Errorf("%d rows: faults:\n%s", n, told(s))
			}
		}
		f := files{}
		toml := "schema = 1\n"
		for i := range 3 {
			blob := text(maxRows, i)
			f = f.with(fmt.Sprintf("oracles/b%d.json", i), blob)
			toml += row(i, fmt.Sprintf("oracles/b%d.json", i), sum(blob))
		}
		s := f.with("oracles/a.toml", toml).manifest("i0", "i1", "i2").load(t)
		if !slices.Equal(s.Broken, []string{"i2"}) {
			t.Errorf("broken %q, faults:\n%s", s.Broken, told(s))
		}
	})
	t.Run("invariants", func(t *testing.T) {
		const blob = `[{}]`
		f := files{"oracles/b.json": blob}
		for file := range 11 {
			var toml strings.Builder
			toml.WriteString("schema = 1\n")
			for i := range 1000 {
				toml.WriteString(row(file*1000+i, "oracles/b.json", sum(blob)))
			}
			f = f.with(fmt.Sprintf("oracles/f%02d.toml", file), toml.String())
		}
		s := f.load(t)
		if len(s.Invariants) != maxInvariants || !strings.Contains(told(s), "oracles/f10.toml:2 limit [] more than 10000 invariants") {
			t.Errorf("%d invariants, faults:\n%.500s", len(s.Invariants), told(s))
		}
	})
	t.Run("faults", func(t *testing.T) {
		toml := "schema = 1\n[[invariant]]\n" + strings.Repeat("x = 1\n", 100_000)
		s := files{"oracles/a.toml": toml}.manifest().load(t)
		if len(s.Faults) > maxFaults+1 || !strings.Contains(told(s), "more faults") {
			t.Errorf("%d faults", len(s.Faults))
		}
	})
}

func TestManyInvariantsOverOneBlobShareItsRows(t *testing.T) {
	var toml strings.Builder
	toml.WriteString("schema = 1\n")
	blob := "[" + strings.Repeat(`{"a": 1, "b": 2}, `, 20_000) + `{"b": 1, "a": 2}]`
	var ids []string
	digest := sum(blob)
	for i := range 2000 {
		args := [...]string{`["a", "b"]`, `["b", "a"]`, `["a"]`}[i%3]
		fmt.Fprintf(&toml, "[[invariant]]\nid = \"i%04d\"\nentry = \"a:b\"\nkind = \"idempotent\"\nargs = %s\nblob = \"oracles/b.json\"\nblob_sha256 = %q\n", i, args, digest)
		ids = append(ids, fmt.Sprintf("i%04d", i))
	}
	s := files{"oracles/a.toml": toml.String(), "oracles/b.json": blob}.manifest(ids...).load(t)
	if len(s.Invariants) != 1334 || len(s.Broken) != 666 {
		t.Fatalf("%d invariants, %d broken", len(s.Invariants), len(s.Broken))
	}
	if &s.Invariants[0].Rows[0] != &s.Invariants[1].Rows[0] {
		t.Error("the rows were read twice")
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	broken := errors.New("disk on fire")
	tree := shop().tree()
	read := tree.Read
	for _, path := range []string{"oracles/fees.toml", "oracles/blobs/rates.json", ManifestPath} {
		tree.Read = func(ctx context.Context, e Entry, most int64) ([]byte, error) {
			if e.Path == path {
				return nil, broken
			}
			return read(ctx, e, most)
		}
		s, err := Load(t.Context(), tree)
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) || s.IDs != nil {
			t.Errorf("%s: %v, %v", path, s.IDs, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if _, err := Load(ctx, shop().tree()); !errors.Is(err, broken) {
		t.Errorf("cancelled: %v", err)
	}
	// A reader that hands out more than it was asked for is not believed.
	tree.Read = func(context.Context, Entry, int64) ([]byte, error) { return make([]byte, maxBlob+1), nil }
	if s, err := Load(t.Context(), tree); err != nil || !strings.Contains(told(s), "too-large") {
		t.Errorf("%v, faults:\n%s", err, told(s))
	}
}

func TestManifestIsWrittenAsTheSeedWritesIt(t *testing.T) {
	if got, want := string(ManifestOf([]string{"b", "a", "b"})), "{\n  \"ids\": [\n    \"a\",\n    \"b\"\n  ],\n  \"count\": 2\n}\n"; got != want {
		t.Errorf("got %q", got)
	}
	if got, want := string(ManifestOf(nil)), "{\n  \"ids\": [],\n  \"count\": 0\n}\n"; got != want {
		t.Errorf("got %q", got)
	}
	f := shop().with(ManifestPath, `{"count":4,"ids":["fee_cap","fee_table","label","ship_once"]}`)
	if s := f.load(t); len(s.Faults) != 0 {
		t.Errorf("another layout: faults:\n%s", told(s))
	}
}

// TestLoaderTellsWhatLoadTells: what is remembered changes nothing, and is not
// read again.
func TestLoaderTellsWhatLoadTells(t *testing.T) {
	trees := []files{
		shop(),
		shop().edit(t, "oracles/blobs/rates.json", "21", "22"),
		shop().edit(t, "oracles/blobs/rates.json", "21", "NaN"),
		shop().edit(t, "oracles/blobs/rates.json", "21", "NaN").edit(t, "oracles/fees.toml", "shop.fees:rate", "exec:bin/rate"),
		shop().edit(t, "oracles/blobs/orders.json", `{"order": 250}`, `{}`),
		shop().with("oracles/blobs/orders.json", "-> rates.json"),
		shop().with("oracles/blobs/orders.json", ratesBlob),
		shop().with("oracles/blobs/orders.json", ""),
		shop(),
	}
	var loader Loader
	for range 2 {
		for i, f := range trees {
			tree := f.tree()
			for j, e := range tree.Entries {
				tree.Entries[j].ID = sum(f[e.Path]) // links, too: their mode is what tells them apart
			}
			got, err := loader.Load(t.Context(), tree)
			if err != nil {
				t.Fatal(err)
			}
			if want := f.load(t); dump(got) != dump(want) {
				t.Errorf("tree %d: got\n%s\nwant\n%s", i, dump(got), dump(want))
			}
		}
	}
	tree := shop().tree()
	for j, e := range tree.Entries {
		tree.Entries[j].ID = sum(shop()[e.Path])
	}
	read := tree.Read
	tree.Read = func(ctx context.Context, e Entry, most int64) ([]byte, error) {
		if strings.HasPrefix(e.Path, "oracles/blobs/") {
			t.Errorf("%s is read again", e.Path)
		}
		return read(ctx, e, most)
	}
	if s, err := loader.Load(t.Context(), tree); err != nil || len(s.Invariants) != 4 {
		t.Errorf("%v, %v", s.IDs, err)
	}
}
