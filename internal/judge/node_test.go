package judge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
)

const nodePath = "/usr/bin/node"

// withNode gives a configuration the driver for Node. Where there is none the test
// is skipped, and fails on a machine that must have one.
func withNode(t *testing.T, c InvariantsConfig) InvariantsConfig {
	t.Helper()
	if _, err := os.Stat(nodePath); err != nil && os.Getenv("CI") == "" {
		t.Skipf("no Node: %v", err)
	}
	kit, err := candidate.PrepareNode(t.Context(), candidatetest.Plain{}, nodePath, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c.Node = kit
	return c
}

var depotInNode = files{
	"lib/depot.js": `'use strict';
const seen = new Map();
exports.fee = ({weight, express = false}) => Math.min(500, 120 + 3 * weight + (express ? 200 : 0));
exports.fee_bad = ({weight, express = false}) => 120 + 3 * weight + (express ? 200 : 0);
exports.book = ({key, items}) => {
  if (!seen.has(key)) seen.set(key, {key, items: [...items].sort()});
  return seen.get(key);
};
exports.book_bad = ({key, items}) => {
  seen.set(key, (seen.get(key) ?? 0) + items.length);
  return seen.get(key);
};
exports.draw = ({n}) => Array.from({length: n}, () => Math.floor(Math.random() * 1000));
`,
	"lib/split.mjs": `export class Split {
  static even(total, parts) {
    return Array.from({length: parts}, (_, i) => Math.floor(total / parts) + (i < total % parts ? 1 : 0));
  }
  static async later(total, parts) {
    await null;
    return Split.even(total, parts);
  }
  static bad(total, parts) {
    return new Array(parts).fill(Math.floor(total / parts));
  }
}
export function* parts(total, parts) {
  yield* Split.even(total, parts);
}
`,
	"broken.js": "exports.f = (x) => x +;\n",
}

func nodeClaim(id, entry, kind, rows string) claim {
	return claim{id: id, fields: "entry = \"node:" + entry + "\"\nkind = " + kind, rows: rows}
}

var depotNodeClaims = []claim{
	nodeClaim("fee_within_cap", "lib/depot.js:fee", "\"bound\"\nmin = 0\nmax = 500", feeRows),
	nodeClaim("fee_bad", "lib/depot.js:fee_bad", "\"bound\"\nmin = 0\nmax = 500", feeRows),
	nodeClaim("book_once", "lib/depot.js:book", "\"idempotent\"\nargs = [\"key\", \"items\"]\nrepeat = 3", bookRows),
	nodeClaim("book_bad", "lib/depot.js:book_bad", "\"idempotent\"", bookRows),
	nodeClaim("draw_seeded", "lib/depot.js:draw", "\"idempotent\"\nseed = 7", `[{"n": 3}]`),
	nodeClaim("split_even", "lib/split.mjs:Split.even", `"exact_table"`, splitRows),
	nodeClaim("split_later", "lib/split.mjs:Split.later", `"exact_table"`, splitRows),
	nodeClaim("split_lazy", "lib/split.mjs:parts", "\"exact_table\"\nsequence = true", splitRows),
	nodeClaim("split_bad", "lib/split.mjs:Split.bad", `"exact_table"`, splitRows),
	nodeClaim("no_name", "lib/split.mjs:Split.none", `"exact_table"`, splitRows),
	nodeClaim("no_file", "lib/none.js:f", `"exact_table"`, splitRows),
	nodeClaim("broken", "broken.js:f", `"exact_table"`, splitRows),
}

func TestInvariantsInNode(t *testing.T) {
	c := withNode(t, claimsConfig(t, depotInNode, depotNodeClaims))
	for _, pass := range []Pass{First(), Second()} {
		got := judgeClaims(t, c, pass)
		for _, id := range []string{"fee_within_cap", "book_once", "split_even", "split_later", "split_lazy"} {
			if o := got[id]; !o.Ran || !o.OK {
				t.Errorf("%s: %s", id, o.summary())
			}
		}
		for id, row := range map[string]int{"fee_bad": 3, "book_bad": 1, "split_bad": 2} {
			if o := got[id]; !o.Ran || o.OK || o.Row != row {
				t.Errorf("%s: %s", id, o.summary())
			}
		}
		for id, words := range map[string]string{"no_name": "is no function", "no_file": "Cannot find lib/none.js", "broken": "SyntaxError"} {
			if o := got[id]; o.Ran || o.OK || o.Loaded || !strings.Contains(o.Shown, words) {
				t.Errorf("%s: %s", id, o.summary())
			}
		}
	}
}

func TestAnEntryOfNodeDidNotRunWhereThereIsNone(t *testing.T) {
	got := judgeClaims(t, claimsConfig(t, depotInNode, depotNodeClaims[:1]), First())
	if o := got["fee_within_cap"]; o.Ran || o.OK || o.Detail != "this host has no Node for it" {
		t.Error(o.summary())
	}
}

// Of a sealed entry the pusher sees what its file says while it loads, and not its name.
func TestASealedEntryOfNodeKeepsItsName(t *testing.T) {
	claims := []claim{nodeClaim("secret", "lib/split.mjs:velvet", `"exact_table"`, splitRows), nodeClaim("torn", "broken.js:velvet", `"exact_table"`, splitRows)}
	for i := range claims {
		claims[i].hidden = true
	}
	got := judgeClaims(t, withNode(t, claimsConfig(t, depotInNode, claims)), First())
	if o := got["secret"]; o.Ran || o.OK || o.Shown != "" || o.Detail != "" {
		t.Error(o.summary())
	}
	if o := got["torn"]; o.Ran || o.OK || !strings.Contains(o.Shown, "SyntaxError") || strings.Contains(o.Shown, "velvet") || o.Detail != "" {
		t.Error(o.summary())
	}
}

// nodeCheats are wrong answers in JavaScript's clothes. All are asked for 1, and give
// another number, or nothing that is one.
var nodeCheats = map[string]string{
	"forged_frame": `exports.f = () => { const t = '{"id":"0000000000000000","r":["ok",["t",1],[],[]]}'; const b = Buffer.alloc(t.length + 4);
		b.writeUInt32BE(t.length); b.write(t, 4); require('fs').writeSync(4, b); return 2; };`,
	"exits":              `exports.f = () => process.exit(0);`,
	"exits_while_loaded": `process.exit(0);`,
	"proxy":              `exports.f = () => new Proxy({}, {get: () => 1, ownKeys: () => ['a'], getOwnPropertyDescriptor: () => ({value: 1, enumerable: true, configurable: true})});`,
	"value_of":           `exports.f = () => ({valueOf: () => 1, [Symbol.toPrimitive]: () => 1, toJSON: () => 1});`,
	"boxed":              `exports.f = () => new Number(1);`,
	"text":               `exports.f = () => '1';`,
	"prototypes":         `Object.prototype.toJSON = () => 1; Array.prototype.toString = () => '1'; Array.prototype[Symbol.iterator] = function* () { yield 1; }; exports.f = () => 2;`,
	"promise_of_nothing": `exports.f = () => new Promise(() => {});`,
	"thenable":           `exports.f = () => ({then(done) { done(2); }});`,
	"throws":             `exports.f = () => { throw 1; };`,
	"driver":             `exports.f = () => { process.reallyExit = () => {}; JSON.parse = () => ['row', [], [], []]; return 2; };`,
}

// nodeHidden are objects whose state no key tells, another at each call, and twins that
// are the same each time.
var nodeHidden = map[string][2]string{
	"private":  {`class P { #n; constructor(x) { this.#n = x; } value() { return this.#n; } } let n = 0; exports.f = () => new P(n++);`, `class P { constructor() { this.n = 1; } } exports.f = () => new P();`},
	"url":      {`let n = 0; exports.f = () => new URL('http://h/' + n++);`, `exports.f = () => new URL('http://h/').href;`},
	"symbol":   {`const S = Symbol('s'); let n = 0; exports.f = () => ({[S]: n++});`, `exports.f = () => ({s: 1});`},
	"headers":  {`let n = 0; exports.f = () => [new Headers([['a', String(n++)]])];`, `exports.f = () => [[...new Headers([['a', '1']])]];`},
	"unlisted": {`let n = 0; exports.f = () => Object.defineProperty({}, 'n', {value: n++});`, `exports.f = () => ({a: {}, b: Object.create(null)});`},
}

func TestObjectsOfNodeThatHideWhatTheyHoldAreNotEqual(t *testing.T) {
	tree, claims := files{}, []claim{}
	for name, code := range nodeHidden {
		for i, kind := range []string{"hides_", "twin_"} {
			tree[kind+name+".js"] = code[i] + "\n"
			claims = append(claims, nodeClaim(kind+name, kind+name+".js:f", `"idempotent"`, `[{}]`))
		}
	}
	for id, o := range judgeClaims(t, withNode(t, claimsConfig(t, tree, claims)), First()) {
		if o.OK != strings.HasPrefix(id, "twin_") {
			t.Errorf("%s: %s", id, o.summary())
		}
	}
}

func TestWrongAnswersInNodeAreWrong(t *testing.T) {
	tree := files{"honest.js": "Array.prototype.last = function () { return this[this.length - 1]; }; exports.f = () => [3, 1].last();\n"}
	claims := []claim{nodeClaim("honest", "honest.js:f", `"exact_table"`, `[{"args": [], "expected": 1}]`)}
	for name, text := range nodeCheats {
		tree[name+".js"] = text + "\n"
		claims = append(claims, nodeClaim(name, name+".js:f", `"exact_table"`, `[{"args": [], "expected": 1}]`))
	}
	got := judgeClaims(t, withNode(t, claimsConfig(t, tree, claims)), First())
	for name := range nodeCheats {
		if o := got[name]; o.OK {
			t.Errorf("%s passed: %s", name, o.summary())
		}
	}
	if o := got["honest"]; !o.OK {
		t.Errorf("the honest twin: %s", o.summary())
	}
}

// What a property asks of Node and of programs, and how it is refused.
var nodeProperties = []struct {
	name, property, note string
	holds                bool // on the code, and not on the bug
}{
	{name: "values", holds: true, property: `def holds(raw, candidate):
    fee = candidate.call("node:lib/fees.js:fee", weight=40, express=True)
    return fee == 440 and candidate.call("node:lib/fees.js:echo", [1, 0.5, None, {"a": ["\u00e9", -0.5]}, 1 << 60]) == [1, 0.5, None, {"a": ["\u00e9", -0.5]}, 1 << 60]
`},
	{name: "state", holds: true, property: `def holds(raw, candidate):
    booked = [candidate.call("node:lib/fees.js:book", "k") for _ in range(3)]
    return booked == [1, 2, 3] and candidate.call("node:lib/fees.js:fee", weight=1) == 123
`},
	{name: "error", holds: true, property: `def holds(raw, candidate):
    try:
        candidate.call("node:lib/fees.js:fail", 1)
    except Exception as e:
        return "RangeError" in str(e) and candidate.call("node:lib/fees.js:fee", weight=0) == 120
    return False
`},
	{name: "iterator, map, set, bytes, later", holds: true, property: `def holds(raw, candidate):
    got = candidate.call("node:lib/fees.js:many")
    return got == [[0, 1, 2], {"k": 1}, {"x"}, b"\x01\x02", None] and candidate.call("node:lib/fees.js:later", 2) == 126
`},
	{name: "beside Python and a program", holds: true, property: `from lib import two
def holds(raw, candidate):
    done = candidate.call("exec:bin/up", "-x", stdin="abc")
    return candidate.call("node:lib/fees.js:fee", weight=two()) == 126 and (done.returncode, done.stdout) == (0, b"-x ABC")
`},
	{name: "argument that is no JSON", note: "refused: what Node and programs take is JSON", property: `def holds(raw, candidate):
    try:
        candidate.call("node:lib/fees.js:echo", {1: 2})
    except BaseException:
        pass
    return True
`},
	{name: "object that is none", note: "an object that is no plain data", property: `def holds(raw, candidate):
    try:
        candidate.call("node:lib/fees.js:odd")
    except BaseException:
        pass
    return True
`},
	{name: "endless", note: "an iterator that goes on", property: `def holds(raw, candidate):
    return candidate.call("node:lib/fees.js:endless") is not None
`},
	{name: "get", note: "candidate.call asks node:lib/fees.js:fee", property: `def holds(raw, candidate):
    return candidate.get("node:lib/fees.js:fee") is not None
`},
	{name: "gone", note: "the candidate ended", property: `def holds(raw, candidate):
    try:
        candidate.call("node:lib/fees.js:exit")
    except BaseException:
        pass
    return True
`},
	{name: "no such name", note: "did not load: lib/fees.js:none", property: `def holds(raw, candidate):
    return candidate.call("node:lib/fees.js:none") is None
`},
	{name: "code that does not load", note: "did not load: broken.js", property: `def holds(raw, candidate):
    return candidate.call("node:broken.js:velvet") is None
`},
}

func TestPropertiesAskNodeAndPrograms(t *testing.T) {
	fees := `'use strict';
let booked = 0;
exports.fee = ({weight, express = false}) => Math.min(500, 120 + 3 * weight + (express ? 200 : 0));
exports.book = (key) => ++booked;
exports.fail = (n) => { throw new RangeError('no ' + n); };
exports.echo = (v) => v;
exports.many = () => [(function* () { yield* [0, 1, 2]; })(), new Map([['k', 1]]), new Set(['x']), Buffer.from([1, 2]), undefined];
exports.later = async (n) => exports.fee({weight: n});
exports.odd = () => [new URL('http://h/')];
exports.endless = function* () { for (;;) yield 1; };
exports.exit = () => process.exit(0);
`
	bugs := map[string]string{"good": fees, "bug": strings.NewReplacer("3 * weight", "2 * weight", "++booked", "1", "RangeError", "Error", "(v) => v", "(v) => [...v].reverse()", "[0, 1, 2]", "[0, 1]").Replace(fees)}
	for kind, text := range bugs {
		s := scene{properties: files{}, tree: files{"lib/fees.js": text, "broken.js": "exports.f = (x) => x +;\n", "lib.py": "def two():\n    return 2\n", "bin/up": "#!/bin/sh\nprintf '%s ' \"$1\"; tr a-z A-Z\n"}}
		for _, p := range nodeProperties {
			s.properties[strings.ReplaceAll(p.name, " ", "_")] = p.property
		}
		c := s.config(t)
		if err := os.Chmod(filepath.Join(c.Tree, "bin/up"), 0o755); err != nil {
			t.Fatal(err)
		}
		c.Node = withNode(t, InvariantsConfig{}).Node
		results, err := Properties(t.Context(), c, First())
		if err != nil {
			t.Fatal(err)
		}
		byID := map[string]Result{}
		for _, r := range results {
			byID[r.ID] = r
		}
		for _, p := range nodeProperties {
			r := byID[strings.ReplaceAll(p.name, " ", "_")]
			if r.Ran != p.holds || r.OK != (p.holds && kind == "good") || !strings.Contains(r.Note, p.note) || r.TimedOut {
				t.Errorf("%s, on the %s: %s", p.name, kind, r.summary())
			}
		}
		if r := byID["code_that_does_not_load"]; r.Loaded || !strings.Contains(r.Shown, "SyntaxError") || strings.Contains(r.Shown, "velvet") {
			t.Error(r.summary())
		}
		if r := byID["no_such_name"]; r.Shown != "" {
			t.Error(r.summary())
		}
		c.Node = candidate.Kit{}
		c.Properties = c.Properties[len(c.Properties)-1:]
		if results, err = Properties(t.Context(), c, First()); err != nil || results[0].Ran || !strings.Contains(results[0].Note, "this host has no Node for it") {
			t.Errorf("%v %v", results, err)
		}
	}
}
