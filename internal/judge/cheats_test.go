package judge

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealgate/sealgate/internal/sandbox"
)

// same is a property that any honest f passes: f gives back what it is given.
const same = `import time
from lib_%s import f

def holds(raw):
    ok = f(7) == 7
    time.sleep(0.2)
    return ok and f(8) == 8
`

// ident finds the id of the request in progress, as code beside the driver can.
const ident = `import os, sys
def ident():
    fr = sys._getframe()
    while 'ident' not in fr.f_locals:
        fr = fr.f_back
    return fr.f_locals['ident'].encode()
def frame(text):
    return len(text).to_bytes(4, 'big') + text
`

// cheats are modules whose f tries to pass, or to break the judge; their honest
// twins do something of the same kind that is allowed.
var cheats = []struct {
	name  string
	code  string
	twin  string
	ran   bool
	notes string
}{
	{"extra frame", ident + "def f(x):\n    os.write(4, frame(b'{\"id\":\"' + ident() + b'\",\"r\":[\"ok\",7,[],[]]}'))\n    return x\n",
		ident + "def f(x):\n    ident()\n    return x\n", false, "bytes"},
	{"frame for the request, then exit", ident + "def f(x):\n    os.write(4, frame(b'{\"id\":\"' + ident() + b'\",\"r\":[\"ok\",%d,[],[]]}' % x))\n    os._exit(0)\n",
		"def f(x):\n    return x\n", false, "status 0"},
	{"frame of another request", ident + "def f(x):\n    os.write(4, frame(b'{\"id\":\"0123456789abcdef\",\"r\":[\"ok\",7,[],[]]}'))\n    return x\n",
		"def f(x):\n    return x\n", false, "not asked"},
	{"late frame from a thread", ident + "import threading, time\ndef f(x):\n    i = ident()\n    threading.Thread(target=lambda: (time.sleep(0.05), os.write(4, frame(b'{\"id\":\"' + i + b'\"}')))).start()\n    return x\n",
		"import threading, time\ndef f(x):\n    threading.Thread(target=lambda: time.sleep(0.05)).start()\n    return x\n", false, "bytes"},
	{"half a frame at the end", "import os\ndef f(x):\n    if x == 8:\n        import threading\n        threading.Timer(0.01, lambda: os.write(4, b'abc')).start()\n        import time; time.sleep(0.005)\n    return x\n",
		"def f(x):\n    return x\n", false, ""},
	{"huge length", "import os\ndef f(x):\n    os.write(4, (2 << 30).to_bytes(4, 'big'))\n    return x\n",
		"def f(x):\n    len('x' * (2 << 20))\n    return x\n", false, "announces"},
	{"closed descriptor", "import os\ndef f(x):\n    os.close(4)\n    return x\n", "import os\ndef f(x):\n    os.close(os.open('/dev/null', 0))\n    return x\n", false, ""},
	{"exit", "import os\ndef f(x):\n    os._exit(0)\n", "import sys\ndef f(x):\n    try:\n        sys.exit(0)\n    except SystemExit:\n        return x\n", false, "status 0"},
	{"kill", "import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGKILL)\n", "import os\ndef f(x):\n    os.kill(os.getpid(), 0)\n    return x\n", false, "killed"},
	{"abort", "import os\ndef f(x):\n    os.abort()\n", "def f(x):\n    return x\n", false, "ended"},
	{"recursion", "def f(x):\n    return f(x)\n", "def f(x, n=100):\n    return f(x, n - 1) if n else x\n", true, "RecursionError"},
	{"exit by exception", "import sys\ndef f(x):\n    sys.exit(0)\n", "def f(x):\n    return x\n", true, "SystemExit"},
	{"endless loop", "def f(x):\n    while True:\n        pass\n", "def f(x):\n    for _ in range(1000):\n        pass\n    return x\n", true, "timed out"},
	{"sleep through signals", "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef f(x):\n    time.sleep(600)\n", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef f(x):\n    return x\n", true, "timed out"},
	{"equal to everything", "class I(int):\n    def __eq__(self, o):\n        return True\n    __hash__ = int.__hash__\ndef f(x):\n    return I(x + 1)\n",
		"class I(int):\n    pass\ndef f(x):\n    return I(x)\n", true, ""},
	{"number that lies", "class I(int):\n    def __index__(self):\n        return 7\n    def __int__(self):\n        return 7\n    def __pos__(self):\n        return 7\ndef f(x):\n    return I(1)\n",
		"def f(x):\n    return x\n", true, ""},
	{"object equal to everything", "class A:\n    def __eq__(self, o):\n        return True\ndef f(x):\n    return A()\n", "def f(x):\n    return x\n", false, "== of a proxied A"},
	{"deep tuple", "def f(x):\n    for _ in range(100000):\n        x = (x,)\n    return x\n", "def f(x):\n    t = x\n    for _ in range(50):\n        t = (t,)\n    return x\n", false, "nested deeper"},
	{"eight megabytes", "def f(x):\n    return 'a' * (9 << 20)\n", "def f(x):\n    'a' * (9 << 20)\n    return x\n", false, "8 MiB"},
	{"giant integer", "def f(x):\n    return 1 << 4000000\n", "def f(x):\n    return (1 << 40000 | x) - (1 << 40000)\n", false, "integer"},
	{"flood of output", "import os, sys\ndef f(x):\n    for _ in range(300):\n        os.write(1, b'x' * (1 << 20))\n        sys.stderr.write('y' * 1000)\n    return x + 1\n",
		"import os\ndef f(x):\n    for _ in range(30):\n        os.write(1, b'x' * (1 << 20))\n    return x\n", true, ""},
	{"endless threads", "import threading, time\ndef f(x):\n    for _ in range(5):\n        threading.Thread(target=time.sleep, args=(600,)).start()\n    return 0\n",
		"import threading, time\ndef f(x):\n    for _ in range(5):\n        threading.Thread(target=time.sleep, args=(600,)).start()\n    return x\n", true, ""},
	{"at exit", "import atexit, os\natexit.register(lambda: os.write(4, b'late'))\ndef f(x):\n    return 0\n", "import atexit, os\natexit.register(lambda: os.write(4, b'late'))\ndef f(x):\n    return x\n", true, ""},
	{"background process", "import subprocess\ndef f(x):\n    subprocess.Popen(['/bin/sleep', '600'])\n    return 0\n", "import subprocess\ndef f(x):\n    subprocess.Popen(['/bin/sleep', '600'])\n    return x\n", true, ""},
	{"forged refusal of an exception", "class E(BaseException):\n    pass\nE.__name__ = 'Refused'\ndef f(x):\n    raise E()\n", "def f(x):\n    return x\n", true, "Refused"},
	{"not a number", "def f(x):\n    return float('nan')\n", "def f(x):\n    return float(x)\n", true, ""},
	{"changes its answer by asking twice", "n = 0\ndef f(x):\n    global n\n    n += 1\n    return x if n == 1 else 0\n", "n = 0\ndef f(x):\n    global n\n    n += 1\n    return x\n", true, ""},
}

func TestCheatsFailAndTheirTwinsPass(t *testing.T) {
	s := scene{tree: files{}, properties: files{}, limits: Limits{Call: 3 * time.Second, Property: 20 * time.Second, Lane: 110 * time.Second}}
	for i, c := range cheats {
		for kind, code := range map[string]string{"cheat": c.code, "twin": c.twin} {
			id := fmt.Sprintf("%02d%s", i, kind)
			s.tree["lib_"+id+".py"] = code
			s.properties["p"+id] = fmt.Sprintf(same, id)
			if c.name == "half a frame at the end" { // it comes a little after the last answer
				s.properties["p"+id] = strings.Replace(s.properties["p"+id], "return ok and f(8) == 8", "ok = ok and f(8) == 8\n    time.sleep(0.5)\n    return ok", 1)
			}
		}
	}
	results := s.judge(t, First())
	for i, c := range cheats {
		t.Run(c.name, func(t *testing.T) {
			r := results[fmt.Sprintf("p%02dcheat", i)]
			if r.OK || r.Ran != c.ran || !strings.Contains(r.Note, c.notes) || r.Killed != (c.notes == "killed") {
				t.Errorf("cheat: %s", r.summary())
			}
			if r := results[fmt.Sprintf("p%02dtwin", i)]; !r.OK {
				t.Errorf("twin: %s", r.summary())
			}
		})
	}
}

// forged are values that the driver itself is made to say.
var forged = []string{
	`["r", 999]`, `["r", 2]`, `["o", 5, 77]`, `["o", 5, 0]`, `["C", 9]`, `["g", "os", "system"]`, `["g", "builtins", "eval"]`,
	`["g", "__main__", "Refused"]`, `["e", 1, "X", 1]`, `["n", 1, 2]`, `["i", "0xzz"]`, `["i", "0x0"]`, `["i", "12"]`, `["f", "0x1p9999999"]`, `["f", "1.5"]`,
	`["D", "1e99999999999999999999"]`, `["D", "x"]`, `["F", 1, 0]`, `["F", "a", None]`, `["dt", 99999, 1, 1, 1, 1, 1, 1, 0, None]`, `["da", 0, 0, 0]`,
	`["zi", "../../etc/passwd"]`, `["tz", 99999999, 0, 0]`, `["x", 1, ["g", "builtins", "int"], "", ["t"], []]`, `["x", 1, ["C", 44], "", ["t"], []]`,
	`["u", "ff"]`, `["b", "abc"]`, `["K", 3, 1]`, `["K"]`, `["M", 1]`, `["G", ["L"]]`, `["z", ["L"]]`, `["R", 1, 1, 0]`, `["S", 1]`, `["?"]`, `[]`, `[[]]`, `{}`, `{"a": 1}`, `1.5`,
	`10 ** 20`, `"\ud800"`, `["U", "00"]`, `["m", 1]`, `["t", ["t", ["r", 4]]]`, `["N", 1]`, `["c", "nan", 1]`,
}

func TestForgedValuesNeverPassAndNeverStopTheJudge(t *testing.T) {
	s := scene{tree: files{"honest.py": "def f():\n    return 7\n"}, properties: files{"z": "from honest import f\ndef holds(raw):\n    return f() == 7\n"}}
	for i, v := range forged {
		id := fmt.Sprintf("%02d", i)
		s.tree["lib_"+id+".py"] = fmt.Sprintf("import __main__\ndef f():\n    __main__.Mirror.enc = lambda *a: %s\n", v)
		s.properties["p"+id] = "from lib_" + id + " import f\ndef holds(raw):\n    try:\n        f()\n        f()\n    except BaseException:\n        pass\n    return True\n"
	}
	results := s.judge(t, First())
	for i, v := range forged {
		if r := results[fmt.Sprintf("p%02d", i)]; r.OK || r.Ran {
			t.Errorf("%s: %s", v, r.summary())
		}
	}
	if r := results["z"]; !r.OK {
		t.Errorf("an honest neighbour: %s", r.summary())
	}
}

func TestCodeThatDoesNotLoadIsShownAndNothingSealedWithIt(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		code, shown string
		late        bool
	}{
		"raise":   {code: "def helper():\n    raise ValueError('boom é')\nhelper()\n", shown: "boom"},
		"missing": {code: "import no_such_package\n", shown: "No module named 'no_such_package'"},
		"syntax":  {code: "def f(:\n", shown: "SyntaxError"},
		"exit":    {code: "import sys\nsys.exit('usage: x')\n", shown: "usage: x"},
		"vanish":  {code: "import os, sys\nprint('bye', flush=True)\nos._exit(3)\n", shown: "bye"},
		"loop":    {code: "print('round', flush=True)\nwhile True:\n    pass\n", shown: "round", late: true},
		"talk":    {code: "raise ValueError('x' * 100000)\n", shown: "ValueError"},
	}
	s := scene{tree: files{"fine.py": "def f():\n    return 1\n"}, properties: files{}, limits: Limits{Load: 8 * time.Second}}
	for name, c := range cases {
		s.tree["lib_"+name+".py"] = c.code
		s.properties[name] = "SECRET = 'sealed-7731'\nimport fine\nfrom lib_" + name + " import f\ndef holds(raw):\n    return f(SECRET) == 1\n"
	}
	s.properties["lazy"] = "import fine\nX = fine.f()\ndef holds(raw):\n    try:\n        import lib_raise\n    except BaseException:\n        pass\n    return True\n"
	results := s.judge(t, First())
	for name, c := range cases {
		r := results[name]
		if r.Ran || r.Loaded || r.TimedOut != c.late || !strings.Contains(r.Shown, c.shown) || strings.Contains(r.Shown, "7731") || len(r.Shown) > maxShown {
			t.Errorf("%s: %s", name, r.summary())
		}
	}
	if r := results["lazy"]; r.Ran || r.Loaded || r.Shown != "" {
		t.Errorf("an import after a call is not shown: %s", r.summary())
	}
}

func TestPropertiesThatMisbehave(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		property string
		ran      bool
		late     bool
		note     string
		failed   int
	}{
		"raises":     {"from lib import f\ndef holds(raw):\n    return f()['x'][1 / 0]\n", true, false, "TypeError", 2},
		"one":        {"from lib import f\ndef holds(raw):\n    return f() == 1 and raw == b'a'\n", true, false, "", 1},
		"truthy":     {"from lib import f\ndef holds(raw):\n    return f()\n", true, false, "holds returned int, not a bool", 2},
		"none":       {"from lib import f\ndef holds(raw):\n    f()\n", true, false, "NoneType", 2},
		"exits":      {"import os\nfrom lib import f\ndef holds(raw):\n    os._exit(0)\n", true, false, "ended its process (status 0)", 2},
		"exits late": {"import os\nfrom lib import f\ndef holds(raw):\n    if raw == b'b':\n        os._exit(0)\n    return f() == 1\n", true, false, "ended its process", 1},
		"sysexit":    {"import sys\nfrom lib import f\ndef holds(raw):\n    sys.exit(0)\n", true, false, "SystemExit", 2},
		"hangs":      {"from lib import f\ndef holds(raw):\n    f()\n    while True:\n        pass\n", true, true, "timed out", 2},
		"prints":     {"import os\nfrom lib import f\ndef holds(raw):\n    print('z' * 10_000_000)\n    os.write(1, b'z' * 10_000_000)\n    return f() == 1\n", true, false, "printed: zzz", 0},
		"forks":      {"import subprocess\nfrom lib import f\ndef holds(raw):\n    subprocess.Popen(['/bin/sleep', '600'])\n    return f() == 1\n", false, false, "a property cannot start a program", 0},
		"syntax":     {"def holds(raw:\n", false, false, "did not load: SyntaxError", 0},
		"no holds":   {"x = 1\n", false, false, "there is no holds", 0},
		"no import":  {"from lib import nothing\ndef holds(raw):\n    return True\n", false, false, "cannot import name", 0},
		"load hangs": {"while True:\n    pass\n", false, true, "timed out", 0},
		"no call":    {"def holds(raw):\n    return True\n", true, false, "it made no call", 0},
	}
	s := scene{tree: files{"lib.py": "def f():\n    return 1\n"}, properties: files{}, fixtures: files{"a": "a", "b": "b"}, limits: Limits{Property: 8 * time.Second}}
	for name, c := range cases {
		s.properties[name] = c.property
	}
	results := s.judge(t, First())
	for name, c := range cases {
		r := results[name]
		if r.Ran != c.ran || r.OK != (c.ran && c.failed == 0) || r.TimedOut != c.late || len(r.FailedFixtures) != c.failed || !strings.Contains(r.Note, c.note) {
			t.Errorf("%s: %s", name, r.summary())
		}
	}
}

// A property that ran out of time ran out of time, whatever its candidate was doing
// then; one that came to its end is held to what its candidate left behind.
func TestWhatIsLeftOfAnExchangeThatALimitEndedIsNoEvidence(t *testing.T) {
	t.Parallel()
	lib := "import os, threading, time\ndef f(wait):\n    def late():\n        time.sleep(wait)\n        os.write(4, b'x' * 44)\n    threading.Thread(target=late).start()\n    return 1\n"
	s := scene{tree: files{"lib.py": lib}, limits: Limits{Property: 3 * time.Second, Call: 2 * time.Second}, properties: files{
		"slow": "import time\nfrom lib import f\ndef holds(raw):\n    f(0.3)\n    time.sleep(60)\n    return True\n",
		"done": "import time\nfrom lib import f\ndef holds(raw):\n    f(0.1)\n    time.sleep(1.5)\n    return True\n",
		"busy": "import time\nfrom lib import f\ndef holds(raw):\n    while True:\n        f(60)\n",
	}}
	results := s.judge(t, First())
	for _, id := range []string{"slow", "busy"} {
		if r := results[id]; !r.TimedOut || !r.Ran || r.OK || !strings.Contains(r.Note, "timed out") {
			t.Error(r.summary())
		}
	}
	if r := results["done"]; r.TimedOut || r.Ran || r.OK || !strings.Contains(r.Note, "44 bytes were left") {
		t.Error(r.summary())
	}
}

func TestLaneBudgetEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := scene{tree: files{"lib.py": "def f():\n    return 1\n"}, properties: files{}, limits: Limits{Lane: 3 * time.Second}}
	for i := range 5 {
		s.properties[fmt.Sprintf("p%d", i)] = "from lib import f\ndef holds(raw):\n    while f():\n        pass\n"
	}
	for _, r := range s.judge(t, First()) {
		if !r.TimedOut || r.OK {
			t.Error(r.summary())
		}
	}
}

func TestNoFixtureDoesNotRun(t *testing.T) {
	c := scene{tree: files{"lib.py": ""}, properties: files{"p": "def holds(raw):\n    return True\n"}}.config(t)
	c.Properties[0].Fixtures = nil
	results, err := Properties(t.Context(), c, First())
	if err != nil || len(results) != 1 || results[0].Ran || results[0].OK || results[0].Note != "no fixture" {
		t.Errorf("%v %v", results, err)
	}
}

func TestADeadJudgeIsAnErrorAndNoResult(t *testing.T) {
	t.Parallel()
	for name, property := range map[string]string{
		"main process killed": "import os, signal\nfrom lib import f\ndef holds(raw):\n    os.kill(os.getppid(), signal.SIGKILL)\n    return True\n",
		"own process killed":  "import os, signal\nfrom lib import f\ndef holds(raw):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
	} {
		c := scene{tree: files{"lib.py": "def f():\n    return 1\n"}, properties: files{"p": property, "q": property}}.config(t)
		if results, err := Properties(t.Context(), c, First()); err == nil || results != nil {
			t.Errorf("%s: %v %v", name, results, err)
		}
	}
}

func TestACandidateThatCannotStartIsAnErrorAndNoResult(t *testing.T) {
	c := scene{tree: files{"lib.py": ""}, properties: files{"p": "import lib\ndef holds(raw):\n    return True\n"}}.config(t)
	c.Starter = failing{c.Starter}
	if results, err := Properties(t.Context(), c, First()); err == nil || results != nil {
		t.Errorf("%v %v", results, err)
	}
}

func TestCandidatesSeeNothingOfTheJudge(t *testing.T) {
	s := scene{tree: files{"lib.py": `import os, sys
def look():
    return sorted(os.environ), sys.argv, [os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)], open('/proc/self/cmdline').read(), sys.path
`}, properties: files{"p": `from lib import look
def holds(raw):
    env, argv, fds, line, path = look()
    return not any('sealed' in f or 'fixtures' in f for f in fds) and argv == [''] and 'properties' not in line and not any('properties' in p for p in path) and env == ['HOME', 'HOSTNAME', 'LANG', 'LC_ALL', 'PATH', 'PYTHONHASHSEED', 'PYTHONUTF8', 'TMPDIR', 'TZ', 'USER']
`}}
	if r := s.judge(t, First())["p"]; !r.OK {
		t.Error(r.summary())
	}
}

func TestSecondPassShowsWhatAnOutcomeDependsOn(t *testing.T) {
	dir := t.TempDir()
	s := scene{tree: files{"lib.py": `import os, time
def zone():
    return time.strftime('%z', time.localtime(0))
def order():
    return list({'a', 'b', 'c', 'd', 'e', 'f'})[0]
def left():
    return os.path.exists(` + fmt.Sprintf("%q", dir+"/cache") + `)
def pure(x):
    return x * 2
`}, properties: files{
		"zone":  "from lib import zone\ndef holds(raw):\n    return zone() == '+0000'\n",
		"left":  "from lib import left\ndef holds(raw):\n    return left() is False\n",
		"pure":  "from lib import pure\ndef holds(raw):\n    return pure(2) == 4\n",
		"order": "from lib import order\nimport pathlib\ndef holds(raw):\n    return order() is not None and (raw == b'1' or True)\n",
	}, fixtures: files{"a": "1", "b": "2"}}
	c := s.config(t)
	first, err := Properties(t.Context(), c, First())
	if err != nil {
		t.Fatal(err)
	}
	second := Second()
	second.Leftovers = []string{dir + "/cache"}
	other, err := Properties(t.Context(), c, second)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Compare(first, other)); got != "[left zone]" {
		t.Errorf("coupled: %s\n%v\n%v", got, first, other)
	}
	killed := slices.Clone(first)
	for i := range killed {
		killed[i] = Result{ID: killed[i].ID, Killed: true}
	}
	if Compare(first, killed) != nil || Compare(killed, first) != nil {
		t.Error("a pass whose process was killed differs from one that came to its end")
	}
	if Compare(first, first) != nil {
		t.Error("a pass differs from itself")
	}
	if fmt.Sprint(Compare(first, nil)) != "[left order pure zone]" {
		t.Error("what is missing in the other pass is not named")
	}
}

// What an answer has shown stays shown when the process is killed after it, in one pass
// or in the other.
func TestAKillDoesNotWashAFailureOut(t *testing.T) {
	code := "import os\ndef f(x):\n    if x == %s:\n        os.kill(os.getpid(), 9)\n    return %s\n"
	tree := files{"wrong.py": fmt.Sprintf(code, "2", "0"), "right.py": fmt.Sprintf(code, "2", "x"), "first.py": fmt.Sprintf(code, "1", "0"), "twin.py": fmt.Sprintf(code, "3", "x")}
	s := scene{tree: tree, properties: files{}, fixtures: files{"a": "1", "b": "2"}}
	var claims []claim
	for file := range tree {
		name := strings.TrimSuffix(file, ".py")
		s.properties[name] = fmt.Sprintf("from %s import f\ndef holds(raw):\n    return f(int(raw)) == int(raw)\n", name)
		claims = append(claims, claim{id: name, fields: fmt.Sprintf("entry = \"%s:f\"\nkind = \"exact_table\"", name), rows: `[{"args": [1], "expected": 1}, {"args": [2], "expected": 2}]`})
	}
	results, outcomes := s.judge(t, First()), judgeClaims(t, claimsConfig(t, tree, claims), First())
	for name, want := range map[string]struct{ ran, ok, killed bool }{"wrong": {ran: true}, "right": {killed: true}, "first": {killed: true}, "twin": {ran: true, ok: true}} {
		r, o := results[name], outcomes[name]
		if r.Ran != want.ran || r.OK != want.ok || r.Killed != want.killed || name == "wrong" && fmt.Sprint(r.FailedFixtures) != "[a]" {
			t.Errorf("%s: %s killed=%v", name, r.summary(), r.Killed)
		}
		if o.OK != want.ok || o.Killed != want.killed {
			t.Errorf("%s: %s killed=%v", name, o.summary(), o.Killed)
		}
	}
	failed, killed, passed := Result{ID: "p", Ran: true, Loaded: true, FailedFixtures: []string{"a"}}, Result{ID: "p", Killed: true}, Result{ID: "p", Ran: true, OK: true, Loaded: true}
	for _, c := range []struct {
		one, other Result
		killed, ok bool
	}{{failed, killed, false, false}, {killed, failed, false, false}, {killed, passed, true, false}, {passed, killed, true, false}, {killed, killed, true, false}, {passed, passed, false, true}} {
		a, b := Standing(c.one, c.other)
		if (a.Killed || b.Killed) != c.killed || (a.OK && b.OK) != c.ok {
			t.Errorf("%+v and %+v: %+v, %+v", c.one, c.other, a, b)
		}
	}
}

func TestNamesComeFromTheSourceDirectories(t *testing.T) {
	dir := t.TempDir()
	files{"a.py": "", "pkg/__init__.py": "", "ns/x.txt": "", "src/inner/__init__.py": "", "no-module.py": "", "README.md": "", "ext.cpython-311-x86_64-linux-gnu.so": "", "1x.py": ""}.write(t, dir)
	if err := os.Symlink("/etc", dir+"/away"); err != nil {
		t.Fatal(err)
	}
	names, err := Names(dir, []string{".", "src", "gone"})
	if err != nil || fmt.Sprint(names) != "[a ext inner ns pkg src]" {
		t.Error(names, err)
	}
	if _, err := Names(dir, []string{"away"}); err == nil {
		t.Error("a source directory outside the tree is listed")
	}
}

type failing struct{ sandbox.Starter }
