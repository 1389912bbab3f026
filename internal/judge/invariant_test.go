package judge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/oracle"
)

// claim is one invariant of a test: its fields in TOML, and its blob.
type claim struct {
	id     string
	fields string // lines of TOML beside id and blob
	rows   string // JSON
	hidden bool
}

// loadClaims writes claims as oracle files and reads them back.
func loadClaims(t testing.TB, claims []claim) []Invariant {
	t.Helper()
	var toml strings.Builder
	toml.WriteString("schema = 1\n")
	dir := files{}
	var ids []string
	hidden := map[string]bool{}
	for _, c := range claims {
		blob := "oracles/blobs/" + c.id + ".json"
		dir[blob] = c.rows
		fmt.Fprintf(&toml, "\n[[invariant]]\nid = %q\n%s\nblob = %q\nblob_sha256 = \"%x\"\n", c.id, c.fields, blob, sha256.Sum256([]byte(c.rows)))
		ids = append(ids, c.id)
		hidden[c.id] = c.hidden
	}
	dir["oracles/claims.toml"] = toml.String()
	dir[oracle.ManifestPath] = string(oracle.ManifestOf(ids))
	root := t.TempDir()
	dir.write(t, root)
	tree, err := oracle.DirTree(root)
	if err != nil {
		t.Fatal(err)
	}
	set, err := oracle.Load(t.Context(), tree)
	if err != nil || len(set.Faults) > 0 || len(set.Invariants) != len(claims) {
		t.Fatalf("%v %+v", err, set.Faults)
	}
	out := make([]Invariant, 0, len(claims))
	for _, v := range set.Invariants {
		out = append(out, Invariant{Invariant: v, Hidden: hidden[v.ID]})
	}
	return out
}

// judgeClaims judges claims over a tree, and gives each outcome by its id.
func judgeClaims(t testing.TB, c InvariantsConfig, p Pass) map[string]Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	outcomes, err := Invariants(ctx, c, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(outcomes) != len(c.Invariants) {
		t.Fatalf("%d outcomes for %d invariants", len(outcomes), len(c.Invariants))
	}
	byID := map[string]Outcome{}
	for i, o := range outcomes {
		if o.ID != c.Invariants[i].ID {
			t.Errorf("outcome %d is of %q", i, o.ID)
		}
		byID[o.ID] = o
	}
	return byID
}

func claimsConfig(t testing.TB, tree files, claims []claim) InvariantsConfig {
	t.Helper()
	return InvariantsConfig{Config: scene{tree: tree}.config(t), Invariants: loadClaims(t, claims)}
}

func (o Outcome) summary() string {
	return fmt.Sprintf("ran=%v ok=%v row=%d cut=%v loaded=%v late=%v detail=%q shown=%q note=%q", o.Ran, o.OK, o.Row, o.Cut, o.Loaded, o.TimedOut, o.Detail, o.Shown, o.Note)
}

// TestHowManyItemsAreReadDoesNotTellHowManyAreExpected: pushed code reads the request.
func TestHowManyItemsAreReadDoesNotTellHowManyAreExpected(t *testing.T) {
	tree := files{"lib.py": `import sys
def told():
    g = sys._getframe()
    while g is not None:
        if g.f_code.co_name == 'do_row':
            return g.f_locals['take']
        g = g.f_back
def cheat():
    return [0] * (told() - 100)
def twin():
    return [0] * 7
def lazy():
    return iter([0] * 7)
def more():
    return iter([0] * 2000)
`}
	var claims []claim
	for name, n := range map[string]int{"cheat": 7, "twin": 7, "lazy": 7, "more": 2000} {
		claims = append(claims, claim{id: name, fields: fmt.Sprintf("entry = \"lib:%s\"\nkind = \"exact_table\"\nsequence = true", name),
			rows: fmt.Sprintf(`[{"args": [], "expected": [0%s]}]`, strings.Repeat(",0", n-1)), hidden: true})
	}
	for id, o := range judgeClaims(t, claimsConfig(t, tree, claims), First()) {
		if !o.Ran || o.OK != (id != "cheat") {
			t.Errorf("%s: %s", id, o.summary())
		}
	}
	for n := range 900 {
		if taken(n) != drawn {
			t.Fatalf("%d expected items are told by %d", n, taken(n))
		}
	}
	for _, n := range []int{901, 3000, 100000, maxDrawn - lookAhead, maxDrawn, 2 * maxDrawn} {
		if got := taken(n); got > maxDrawn || got < min(n+lookAhead, maxDrawn) {
			t.Errorf("of %d expected items %d are read", n, got)
		}
	}
}

// depot is an ordinary small module, with a right and a wrong form of each function.
var depot = files{"depot.py": `import random

seen = {}

def fee(weight, express=False):
    return min(500, 120 + 3 * weight + (200 if express else 0))

def fee_bad(weight, express=False):
    return 120 + 3 * weight + (200 if express else 0)

def book(key, items):
    return seen.setdefault(key, {"key": key, "items": sorted(items)})

def book_bad(key, items):
    seen[key] = seen.get(key, 0) + len(items)
    return seen[key]

def split(total, parts):
    return [total // parts + (i < total % parts) for i in range(parts)]

def split_bad(total, parts):
    return [total // parts] * parts

def draw(n):
    return [random.randrange(1000) for _ in range(n)]
`}

const (
	feeRows   = `[{"weight": 3}, {"weight": 40, "express": true}, {"weight": 200}]`
	bookRows  = `[{"key": "a", "items": [3, 1]}, {"key": "b", "items": []}]`
	splitRows = `[{"args": [10, 2], "expected": [5, 5]}, {"args": [10, 3], "expected": [4, 3, 3]}, {"args": [9, 2], "expected": [5, 4]}]`
)

var depotClaims = []claim{
	{id: "fee_within_cap", fields: "entry = \"depot:fee\"\nkind = \"bound\"\nmin = 0\nmax = 500", rows: feeRows},
	{id: "fee_bad", fields: "entry = \"depot:fee_bad\"\nkind = \"bound\"\nmin = 0\nmax = 500", rows: feeRows},
	{id: "book_once", fields: "entry = \"depot:book\"\nkind = \"idempotent\"\nargs = [\"key\", \"items\"]\nrepeat = 3", rows: bookRows},
	{id: "book_bad", fields: "entry = \"depot:book_bad\"\nkind = \"idempotent\"", rows: bookRows},
	{id: "split_even", fields: "entry = \"depot:split\"\nkind = \"exact_table\"", rows: splitRows},
	{id: "split_bad", fields: "entry = \"depot:split_bad\"\nkind = \"exact_table\"", rows: splitRows},
}

func TestEachKindHoldsOnGoodCodeAndSeesItsBug(t *testing.T) {
	c := claimsConfig(t, depot, depotClaims)
	want := map[string]struct {
		row    int
		detail string
	}{
		"fee_bad":   {3, "row 3: 720 is above max 500"},
		"book_bad":  {1, "row 1: call 1 gave 2, call 2 gave 4"},
		"split_bad": {2, "row 2: [3, 3, 3] where [4, 3, 3] is expected"},
	}
	var both [2][]Outcome
	for i, p := range []Pass{First(), Second()} {
		for id, o := range judgeClaims(t, c, p) {
			w, bad := want[id]
			if !o.Ran || !o.Loaded || o.OK == bad || o.Row != w.row || o.Detail != w.detail || o.TimedOut || o.Cut {
				t.Errorf("pass %d, %s: %s", i+1, id, o.summary())
			}
		}
		out, err := Invariants(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		both[i] = out
	}
	if coupled := CompareOutcomes(both[0], both[1]); coupled != nil {
		t.Errorf("coupled: %q", coupled)
	}
}

// program is an executable of a test: it adds its arguments, or does what the
// first one says.
const program = `#!/bin/sh
case "$1" in
exit) exit "$2" ;;
cat) cat ;;
echo) printf '%s' "$2" ;;
count) echo x >> "$TMPDIR/sealgate-count"; wc -l < "$TMPDIR/sealgate-count" ;;
hang) sleep 600 ;;
flood) head -c 2000000 /dev/zero ;;
where) pwd >&2; test -x bin/sum && echo here ;;
kill) kill -9 $$ ;;
why) printf 'looking\nno such parcel \033[1m\n' >&2; exit 2 ;;
*) echo $(($1 + $2)) ;;
esac
`

func execConfig(t *testing.T, claims []claim) InvariantsConfig {
	t.Helper()
	c := claimsConfig(t, files{"bin/sum": program, "bin/plain": program, "bin/broken": "#!/no/such/interpreter\n", "bin/dir/x": ""}, claims)
	for _, name := range []string{"bin/sum", "bin/broken"} {
		if err := os.Chmod(filepath.Join(c.Tree, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestExecutablesAreJudgedByStatusAndOutput(t *testing.T) {
	cases := map[string]struct {
		kind, path, rows string
		ok, ran, late    bool
		detail           string
	}{
		"sum in bounds":      {"bound", "bin/sum", `[{"args": ["2", "3"]}, {"args": ["echo", " 4.99e0\n"]}]`, true, true, false, ""},
		"sum out of bounds":  {"bound", "bin/sum", `[{"args": ["2", "3"]}, {"args": ["2", "4"]}]`, false, true, false, "row 2: Decimal('6') is above max 5"},
		"no number":          {"bound", "bin/sum", `[{"args": ["echo", "five"]}]`, false, true, false, "row 1: the output 'five' is no number"},
		"true is no number":  {"bound", "bin/sum", `[{"args": ["echo", "true"]}]`, false, true, false, "row 1: the output 'true' is no number"},
		"text is no number":  {"bound", "bin/sum", `[{"args": ["echo", "\"4\""]}]`, false, true, false, "is no number"},
		"nan is no number":   {"bound", "bin/sum", `[{"args": ["echo", "NaN"]}]`, false, true, false, "is no number"},
		"bound needs zero":   {"bound", "bin/sum", `[{"args": ["exit", "3"]}]`, false, true, false, "row 1: exit status 3"},
		"status":             {"exact_table", "bin/sum", `[{"args": ["exit", "3"], "expected": {"exit": 3}}]`, true, true, false, ""},
		"other status":       {"exact_table", "bin/sum", `[{"args": ["exit", "4"], "expected": {"exit": 3}}]`, false, true, false, "row 1: exit status 4 where 3 is expected"},
		"output":             {"exact_table", "bin/sum", `[{"args": ["2", "3"], "expected": {"stdout": "5\n"}}]`, true, true, false, ""},
		"other output":       {"exact_table", "bin/sum", `[{"args": ["2", "3"], "expected": {"stdout": "5"}}]`, false, true, false, `row 1: output '5\n' where '5' is expected`},
		"stdin and bytes":    {"exact_table", "bin/sum", `[{"args": ["cat"], "stdin": {"base64": "AP8="}, "expected": {"stdout": {"base64": "AP8="}}}]`, true, true, false, ""},
		"working directory":  {"exact_table", "bin/sum", `[{"args": ["where"], "expected": {"stdout": "here\n"}}]`, true, true, false, ""},
		"same twice":         {"idempotent", "bin/sum", `[{"args": ["1", "1"]}]`, true, true, false, ""},
		"grows":              {"idempotent", "bin/sum", `[{"args": ["count"]}]`, false, true, false, "call 2 gave status 0, output"},
		"fails twice":        {"idempotent", "bin/sum", `[{"args": ["exit", "1"]}]`, false, true, false, "row 1: exit status 1"},
		"says why":           {"exact_table", "bin/sum", `[{"args": ["why"], "expected": {"exit": 0}}]`, false, true, false, "row 1: exit status 2 where 0 is expected; it said 'no such parcel \\x1b[1m'"},
		"killed":             {"exact_table", "bin/sum", `[{"args": ["kill"], "expected": {"exit": 0}}]`, false, true, false, "row 1: bin/sum was killed, from outside or by itself"},
		"hangs":              {"bound", "bin/sum", `[{"args": ["hang"]}]`, false, true, true, "row 1: no answer within 8s"},
		"floods":             {"exact_table", "bin/sum", `[{"args": ["flood"], "expected": {"exit": 0}}]`, false, true, false, "row 1: more than 1 MiB of output"},
		"no executable bit":  {"bound", "bin/plain", `[{"args": ["1", "1"]}]`, false, false, false, "bin/plain is no executable file"},
		"missing":            {"bound", "bin/none", `[{"args": ["1", "1"]}]`, false, false, false, "bin/none is no executable file"},
		"directory":          {"bound", "bin/dir", `[{"args": ["1", "1"]}]`, false, false, false, "bin/dir is no executable file"},
		"cannot be started":  {"bound", "bin/broken", `[{"args": ["1", "1"]}]`, false, false, false, "bin/broken could not be started"},
		"inside a directory": {"bound", "bin/sum/x", `[{"args": ["1", "1"]}]`, false, false, false, "is no executable file"},
	}
	var claims []claim
	for _, name := range sortedNames(cases) {
		c := cases[name]
		fields := fmt.Sprintf("entry = %q\nkind = %q", "exec:"+c.path, c.kind)
		if c.kind == "bound" {
			fields += "\nmin = 0\nmax = 5"
		}
		claims = append(claims, claim{id: strings.ReplaceAll(name, " ", "_"), fields: fields, rows: c.rows})
	}
	c := execConfig(t, claims)
	c.Limits.Call = 8 * time.Second
	p := First()
	p.Env = append(p.Env[:len(p.Env):len(p.Env)], "TMPDIR="+t.TempDir())
	outcomes := judgeClaims(t, c, p)
	for name, want := range cases {
		o := outcomes[strings.ReplaceAll(name, " ", "_")]
		if o.OK != want.ok || o.Ran != want.ran || o.Loaded != want.ran || o.TimedOut != want.late || o.Killed != (name == "killed") || !strings.Contains(o.Detail, want.detail) || want.detail == "" && o.Detail != "" {
			t.Errorf("%s: %s", name, o.summary())
		}
	}
}

// Files that have the names of what the driver itself needs break nothing that does
// not import them: a C project may have its signal.py.
func TestFilesNamedLikeTheStandardLibraryAreNotInTheWay(t *testing.T) {
	claims := []claim{
		{id: "program", fields: "entry = \"exec:bin/sum\"\nkind = \"exact_table\"", rows: `[{"args": ["2", "3"], "expected": {"stdout": "5\n"}}]`},
		{id: "coroutine", fields: "entry = \"kiln:soon\"\nkind = \"exact_table\"", rows: `[{"args": [2], "expected": 2}]`},
		{id: "seeded", fields: "entry = \"kiln:now\"\nkind = \"exact_table\"\nseed = 5", rows: `[{"args": [2], "expected": 2}]`},
		{id: "unloaded", fields: "entry = \"kiln:never\"\nkind = \"exact_table\"", rows: `[{"args": [2], "expected": 2}]`},
		{id: "its_own", fields: "entry = \"kiln:own\"\nkind = \"exact_table\"", rows: `[{"args": [2], "expected": "of the tree"}]`},
	}
	c := execConfig(t, claims)
	tree := files{"kiln.py": "async def soon(x): return x\ndef now(x): return x\ndef own(x):\n    import palette\n    return palette.WHOSE\n", "palette.py": "WHOSE = 'of the tree'\n"}
	for _, name := range []string{"signal", "selectors", "subprocess", "tempfile", "random", "traceback", "linecache", "queue"} {
		tree[name+".py"] = "raise SystemExit('the wrong ' + __name__)\n"
	}
	tree.write(t, c.Tree)
	for id, o := range judgeClaims(t, c, First()) {
		switch {
		case id == "unloaded" && (o.Loaded || !strings.Contains(o.Shown, "AttributeError")):
			t.Errorf("%s: %s", id, o.summary())
		case id != "unloaded" && !o.OK:
			t.Errorf("%s: %s", id, o.summary())
		}
	}
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// entryClaim is a bound from 0 to 5 on an entry, with one row.
func entryClaim(id, entry string) claim {
	return claim{id: id, fields: fmt.Sprintf("entry = %q\nkind = \"bound\"\nmin = 0\nmax = 5", entry), rows: `[{"n": 1}]`}
}

func TestAnEntryThatIsNotThereDoesNotRunAndSaysWhy(t *testing.T) {
	cases := map[string]struct {
		code, detail, shown string
		late                bool
	}{
		"missing":  {"", "ModuleNotFoundError: No module named 'lib_missing'", "ModuleNotFoundError", false},
		"noname":   {"def g(n): return n\n", "has no attribute 'f'", "AttributeError", false},
		"number":   {"f = 5\n", "cannot be called: it is of type int", "cannot be called", false},
		"raises":   {"def help():\n    raise ValueError('boom \u00e9')\nhelp()\n", `ValueError: boom \u00e9`, "lib_raises.py", false},
		"exits":    {"import sys\nsys.exit('usage: x')\n", "SystemExit: usage: x", "usage: x", false},
		"vanishes": {"import os\nprint('bye', flush=True)\nos._exit(3)\n", "ended with status 3", "bye", false},
		"loops":    {"print('round', flush=True)\nwhile True:\n    pass\n", "no reply within", "round", true},
		"talks":    {"raise ValueError('x' * 100000)\n", "did not load: xxx", "ValueError: xxx", false},
	}
	tree, claims := files{"fine.py": "def f(n): return n\n"}, []claim{entryClaim("fine", "fine:f")}
	for _, name := range sortedNames(cases) {
		if cases[name].code != "" {
			tree["lib_"+name+".py"] = cases[name].code
		}
		claims = append(claims, entryClaim(name, "lib_"+name+":f"))
	}
	c := claimsConfig(t, tree, claims)
	c.Limits.Load = 4 * time.Second
	outcomes := judgeClaims(t, c, First())
	for name, want := range cases {
		o := outcomes[name]
		if o.Ran || o.OK || o.Loaded || o.Row != 0 || o.TimedOut != want.late || !strings.Contains(o.Detail, want.detail) || !strings.Contains(o.Shown, want.shown) {
			t.Errorf("%s: %s", name, o.summary())
		}
		if len(o.Detail) > maxDetail || len(o.Shown) > maxShown || strings.Contains(o.Shown, "driver") {
			t.Errorf("%s: too much is shown: %s", name, o.summary())
		}
	}
	if o := outcomes["fine"]; !o.OK {
		t.Errorf("an honest neighbour: %s", o.summary())
	}
}

func TestAHiddenProgramIsAskedByStdinAlone(t *testing.T) {
	const echo = "#!/bin/sh\ncat\necho \"$*\"\n"
	rows := map[string]string{
		"by_stdin": `[{"args": [], "stdin": "31415", "expected": {"stdout": "31415\n"}}]`,
		"by_args":  `[{"args": ["31415"], "expected": {"stdout": "31415\n"}}]`,
	}
	var claims []claim
	for _, id := range sortedNames(rows) {
		one := claim{id: id, fields: "entry = \"exec:bin/echo\"\nkind = \"exact_table\"", rows: rows[id]}
		open := one
		open.id = "open_" + id
		one.hidden = true
		claims = append(claims, one, open)
	}
	c := execConfig(t, claims)
	files{"bin/echo": echo}.write(t, c.Tree)
	if err := os.Chmod(filepath.Join(c.Tree, "bin/echo"), 0o755); err != nil {
		t.Fatal(err)
	}
	for id, o := range judgeClaims(t, c, First()) {
		if want := id != "by_args"; o.OK != want || o.Ran != want || strings.Contains(o.Note+o.Detail+o.Shown, "31415") {
			t.Errorf("%s: %s", id, o.summary())
		}
	}
}

func TestNothingAboutAHiddenInvariantIsShown(t *testing.T) {
	tree := files{
		"value.py":  "def secret_name(n): return 731\n",
		"asks.py":   "import sys\ndef __getattr__(name):\n    print('asked for', name, flush=True)\n    raise AttributeError(name)\n",
		"dies.py":   "import os\ndef __getattr__(name):\n    print('asked for', name, flush=True)\n    os._exit(1)\n",
		"broken.py": "raise ValueError('of the module itself')\n",
		"raises.py": "def secret_name(n): raise ValueError('7319')\n",
	}
	var claims []claim
	for _, name := range sortedNames(tree) {
		module := strings.TrimSuffix(name, ".py")
		hidden := entryClaim(module, module+":secret_name")
		hidden.hidden = true
		claims = append(claims, hidden, entryClaim("open_"+module, module+":secret_name"))
	}
	outcomes := judgeClaims(t, claimsConfig(t, tree, claims), First())
	for _, name := range sortedNames(tree) {
		module := strings.TrimSuffix(name, ".py")
		o := outcomes[module]
		if o.OK || o.Detail != "" || o.Note == "" || !o.Hidden || strings.Contains(o.Shown, "secret_name") || (o.Shown != "") != (module == "broken") {
			t.Errorf("%s: %s", name, o.summary())
		}
		if o := outcomes["open_"+module]; o.OK || o.Detail == "" || o.Hidden {
			t.Errorf("%s in the open: %s", name, o.summary())
		}
	}
}

func TestLimitsEndARowAnInvariantAndTheLane(t *testing.T) {
	t.Parallel()
	tree := files{"slow.py": "import time\ndef hang(n):\n    time.sleep(600)\ndef nap(n):\n    time.sleep(0.7)\n    return n\n"}
	many := entryClaim("nap", "slow:nap")
	many.rows = "[" + strings.Repeat(`{"n": 1}, `, 19) + `{"n": 1}]`
	c := claimsConfig(t, tree, []claim{entryClaim("hang", "slow:hang"), many})
	c.Limits.Call, c.Limits.Property = 2*time.Second, 5*time.Second
	outcomes := judgeClaims(t, c, First())
	if o := outcomes["hang"]; !o.Ran || o.OK || !o.TimedOut || !o.Cut || o.Detail != "row 1: no answer within 2s" {
		t.Error(o.summary())
	}
	if o := outcomes["nap"]; !o.Ran || o.OK || !o.TimedOut || !o.Cut || !strings.Contains(o.Detail, "timed out after 5s") {
		t.Error(o.summary())
	}
	c.Limits = Limits{Lane: 2 * time.Second, Candidate: c.Limits.Candidate}
	c.Workers = 1
	outcomes = judgeClaims(t, c, First())
	if o := outcomes["hang"]; o.OK || !o.TimedOut || !strings.Contains(o.Detail, "the lane's budget is used up") {
		t.Error(o.summary())
	}
	if o := outcomes["nap"]; o.OK || o.Ran || !o.TimedOut || !strings.Contains(o.Detail, "before it began") {
		t.Error(o.summary())
	}
}

func TestTheFirstBadRowIsTheSameInBothOrders(t *testing.T) {
	tree := files{"lib.py": "def f(n):\n    if n == 4:\n        raise ValueError(n)\n    return n\ndef g(n):\n    if n in (3, 7):\n        import os\n        os._exit(n)\n    return 1\n"}
	rows := `[{"n": 1}, {"n": 9}, {"n": 2}, {"n": 4}, {"n": 3}, {"n": 8}, {"n": 7}]`
	f, g := entryClaim("f", "lib:f"), entryClaim("g", "lib:g")
	f.rows, g.rows = rows, rows
	c := claimsConfig(t, tree, []claim{f, g})
	first, second := judgeClaims(t, c, First()), judgeClaims(t, c, Second())
	for i, o := range []Outcome{first["f"], second["f"]} {
		if o.Row != 2 || o.Cut || o.Detail != "row 2: 9 is above max 5" {
			t.Errorf("pass %d: %s", i+1, o.summary())
		}
	}
	if first["g"].Row != 5 || second["g"].Row != 7 || !first["g"].Cut || !second["g"].Cut {
		t.Errorf("%s\n%s", first["g"].summary(), second["g"].summary())
	}
	a, b := []Outcome{first["f"], first["g"]}, []Outcome{second["f"], second["g"]}
	if coupled := CompareOutcomes(a, b); coupled != nil {
		t.Errorf("coupled: %q", coupled)
	}
}

func TestCompareOutcomesNamesWhatDiffers(t *testing.T) {
	base := Outcome{ID: "a", Ran: true, OK: true, Loaded: true}
	bad := Outcome{ID: "a", Ran: true, Loaded: true, Row: 2}
	cut := Outcome{ID: "a", Ran: true, Loaded: true, Row: 3, Cut: true}
	hidden := base
	hidden.Hidden = true
	for name, tc := range map[string]struct {
		a, b    Outcome
		coupled bool
	}{
		"same":        {base, base, false},
		"ok":          {base, bad, true},
		"row":         {bad, Outcome{ID: "a", Ran: true, Loaded: true, Row: 1}, false},
		"row and cut": {bad, cut, false},
		"ran":         {base, Outcome{ID: "a", Loaded: true}, true},
		"loaded":      {Outcome{ID: "a", Loaded: true}, Outcome{ID: "a"}, true},
		"words":       {bad, Outcome{ID: "a", Ran: true, Loaded: true, Row: 2, Detail: "other", Note: "other"}, false},
		"hidden":      {base, hidden, true},
	} {
		if got := CompareOutcomes([]Outcome{tc.a}, []Outcome{tc.b}); (got != nil) != tc.coupled {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := CompareOutcomes([]Outcome{base}, nil); len(got) != 1 {
		t.Errorf("an id without an outcome: %q", got)
	}
}

func TestInvariantsWithoutASandboxAreAnErrorAndNoOutcome(t *testing.T) {
	c := claimsConfig(t, depot, depotClaims[:2])
	c.Starter = failing{c.Starter}
	if outcomes, err := Invariants(t.Context(), c, First()); err == nil || outcomes != nil {
		t.Errorf("%v %v", outcomes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c = claimsConfig(t, depot, depotClaims[:2])
	if outcomes, err := Invariants(ctx, c, First()); err == nil || outcomes != nil {
		t.Errorf("a replay that was given up: %v %v", outcomes, err)
	}
}

func TestNoInvariantAndNoRow(t *testing.T) {
	c := claimsConfig(t, depot, nil)
	if outcomes, err := Invariants(t.Context(), c, First()); err != nil || len(outcomes) != 0 {
		t.Errorf("%v %v", outcomes, err)
	}
	c.Invariants = loadClaims(t, depotClaims[:1])
	c.Invariants[0].Rows = nil
	if o := judgeClaims(t, c, First())["fee_within_cap"]; o.Ran || o.OK {
		t.Error(o.summary())
	}
	c.Invariants = loadClaims(t, depotClaims[:1])
	c.Invariants[0].Kind = oracle.Unknown
	if outcomes, err := Invariants(t.Context(), c, First()); err == nil {
		t.Errorf("an unknown kind: %+v", outcomes)
	}
}

func TestNumpyIsSeededAndItsScalarsAreNumbers(t *testing.T) {
	tree := files{
		"numpy.py": "state = [None]\nclass generic:\n    def __init__(self, v): self.v = v\n    def item(self): return self.v\nclass random:\n    @staticmethod\n    def seed(n): state[0] = n\n",
		"lib.py":   "import numpy\ndef f(n): return numpy.generic(3 if numpy.state[0] == 4 else 99)\ndef odd(n):\n    x = numpy.generic(0)\n    x.v = x\n    return x\n",
	}
	seeded, odd := entryClaim("seeded", "lib:f"), entryClaim("odd", "lib:odd")
	seeded.fields += "\nseed = 4"
	outcomes := judgeClaims(t, claimsConfig(t, tree, []claim{seeded, odd}), First())
	if o := outcomes["seeded"]; !o.OK {
		t.Error(o.summary())
	}
	if o := outcomes["odd"]; o.OK || o.Detail != "row 1: a generic object is no number" {
		t.Error(o.summary())
	}
}
