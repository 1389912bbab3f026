package judge

import (
	"os"
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
