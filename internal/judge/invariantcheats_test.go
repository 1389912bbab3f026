package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rowFrame finds the request in progress, as code beside the driver can.
const rowFrame = `import os, sys
def ident():
    fr = sys._getframe()
    while 'ident' not in fr.f_locals:
        fr = fr.f_back
    return fr.f_locals['ident'].encode()
def frame(text):
    return len(text).to_bytes(4, 'big') + text
def answer(value):
    return frame(b'{"id":"' + ident() + b'","r":["ok",["t",' + value + b'],[],[]]}')
`

// invariantCheats are modules whose f tries to pass the table {1: 1, 2: 2} without
// keeping to it, or to break the judge. Their honest twins do something of the same
// kind that is allowed.
var invariantCheats = []struct {
	name  string
	code  string
	twin  string
	notes string
}{
	{"forged frame before the answer", rowFrame + "def f(x):\n    os.write(4, answer(b'%d' % x))\n    return 0\n",
		rowFrame + "def f(x):\n    answer(b'1')\n    return x\n", ""},
	{"forged frame, then the end", rowFrame + "def f(x):\n    os.write(4, answer(b'%d' % x))\n    os._exit(0)\n",
		"def f(x):\n    return x\n", ""},
	{"frame of another request", rowFrame + "def f(x):\n    os.write(4, frame(b'{\"id\":\"0123456789abcdef\",\"r\":[\"ok\",[\"t\",1],[],[]]}'))\n    return x\n",
		"def f(x):\n    return x\n", "not asked"},
	{"frame for the next row", rowFrame + "import threading, time\ndef f(x):\n    if x == 1:\n        i = ident()\n        threading.Thread(target=lambda: (time.sleep(0.02), os.write(4, frame(b'{\"id\":\"' + i + b'\",\"r\":[\"ok\",[\"t\",2],[],[]]}')))).start()\n    else:\n        time.sleep(0.3)\n    return x\n",
		"import threading, time\ndef f(x):\n    threading.Thread(target=time.sleep, args=(0.02,)).start()\n    return x\n", ""},
	{"bytes after the last answer", "import os, threading, time\ndef f(x):\n    if x == 2:\n        threading.Thread(target=lambda: [os.write(4, b'abc') for _ in range(2000)]).start()\n        time.sleep(0.05)\n    return x\n",
		"import os, threading\ndef f(x):\n    threading.Thread(target=lambda: os.write(1, b'abc')).start()\n    return x\n", ""},
	{"flood of replies", "import os\ndef f(x):\n    while True:\n        os.write(4, b'\\0\\0\\0\\2{}' * 10000)\n", "import os\ndef f(x):\n    os.write(1, b'{}' * 10000)\n    return x\n", "not asked"},
	{"huge length", "import os\ndef f(x):\n    os.write(4, b'\\xff\\xff\\xff\\xff')\n    return x\n", "def f(x):\n    return x\n", "announces"},
	{"eight megabytes of values", rowFrame + "def f(x):\n    os.write(4, frame(b'{\"id\":\"' + ident() + b'\",\"r\":[\"ok\",[\"t\",[\"L\"' + b',1' * 3000000 + b']],[],[]]}'))\n",
		"def f(x):\n    len([1] * 3000000)\n    return x\n", ""},
	{"200000 levels", rowFrame + "def f(x):\n    os.write(4, answer(b'[\"t\",' * 200000 + b'1' + b']' * 200000))\n", "def f(x):\n    return x\n", "too deep"},
	{"answers for a call too many", rowFrame + "def f(x):\n    os.write(4, answer(b'%d,%d' % (x, x)))\n    os._exit(0)\n", "def f(x):\n    return x\n", ""},
	{"closed line", "import os\ndef f(x):\n    os.close(4)\n    return x\n", "import os\ndef f(x):\n    os.close(os.open('/dev/null', 0))\n    return x\n", ""},
	{"exit with success", "import os\ndef f(x):\n    os._exit(0)\n", "import sys\ndef f(x):\n    try:\n        sys.exit(0)\n    except SystemExit:\n        return x\n", "status 0"},
	{"exit by exception", "import sys\ndef f(x):\n    sys.exit(0)\n", "def f(x):\n    return x\n", "SystemExit"},
	{"kill", "import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGKILL)\n", "import os\ndef f(x):\n    os.kill(os.getpid(), 0)\n    return x\n", "killed"},
	{"endless loop", "def f(x):\n    while True:\n        pass\n", "def f(x):\n    for _ in range(1000):\n        pass\n    return x\n", "no answer"},
	{"signals ignored", "import signal, time\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):\n    signal.signal(s, signal.SIG_IGN)\ndef f(x):\n    time.sleep(600)\n", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef f(x):\n    return x\n", "no answer"},
	{"equal to everything", "class I(int):\n    def __eq__(self, o):\n        return True\n    __ne__ = __eq__\n    __hash__ = int.__hash__\ndef f(x):\n    return I(0)\n", "class I(int):\n    pass\ndef f(x):\n    return I(x)\n", "expected"},
	{"number that lies about itself", "class I(int):\n    def __index__(self): return 2\n    __int__ = __pos__ = __index__\n    def __repr__(self): return '2'\ndef f(x):\n    return I(1)\n", "def f(x):\n    return x\n", "expected"},
	{"type that lies about itself", "class M(type):\n    def __eq__(cls, o): return o is int\n    def __hash__(cls): return hash(int)\n    def __instancecheck__(cls, o): return True\n    __subclasscheck__ = __instancecheck__\nclass I(metaclass=M):\n    __class__ = int\n    def __eq__(self, o): return True\ndef f(x):\n    return I()\n", "def f(x):\n    return x\n", ""},
	{"object equal to everything", "class A:\n    def __eq__(self, o): return True\ndef f(x):\n    return A()\n", "def f(x):\n    return x\n", "object"},
	{"patched driver", "import __main__\ndef f(x):\n    __main__.Flat.__call__ = lambda *a: 1\n    return 0\n", "import __main__\ndef f(x):\n    return x\n", "expected"},
	{"reads its caller", "import sys\ndef f(x):\n    fr, seen = sys._getframe(), []\n    while fr:\n        seen += list(fr.f_locals.values())\n        fr = fr.f_back\n    for v in seen:\n        if isinstance(v, str) and 'expected' in v or isinstance(v, dict) and 'expected' in v:\n            return x\n    return 0\n",
		"import sys\ndef f(x):\n    sys._getframe(1)\n    return x\n", "expected"},
	{"reads all of its memory", "import gc\ndef f(x):\n    for o in gc.get_objects():\n        if type(o) is dict and 'expected' in o:\n            return o['expected']\n    return 0\n", "import gc\ndef f(x):\n    gc.collect()\n    return x\n", "expected"},
	{"reads the oracle file", "import os\ndef f(x):\n    return x if os.path.lexists('/tree/oracles') or os.path.lexists('oracles') else 0\n", "def f(x):\n    return x\n", "expected"},
	{"another answer when asked again", "n = 0\ndef f(x):\n    global n\n    n += 1\n    return x if n == 1 else 0\n", "n = 0\ndef f(x):\n    global n\n    n += 1\n    return x\n", "expected"},
	{"endless threads", "import threading, time\ndef f(x):\n    threading.Thread(target=time.sleep, args=(600,)).start()\n    return 0\n", "import threading, time\ndef f(x):\n    threading.Thread(target=time.sleep, args=(600,)).start()\n    return x\n", "expected"},
	{"at exit", "import atexit, os\natexit.register(lambda: os.write(4, b'late'))\ndef f(x):\n    return 0\n", "import atexit, os\natexit.register(lambda: os.write(4, b'late'))\ndef f(x):\n    return x\n", "expected"},
	{"exception dressed as a pass", "class E(Exception):\n    def __str__(self): return '\"],[],[]]}'\nE.__name__ = 'ok'\ndef f(x):\n    raise E\n", "def f(x):\n    return x\n", "raised"},
	{"not a number", "def f(x):\n    return float('nan')\n", "def f(x):\n    return float(x)\n", "expected"},
}

// forgedAnswers are values that the driver itself is made to say.
var forgedAnswers = []string{
	`["r",1]`, `["f","0x1p9999999"]`, `["D","1e5"]`, `["D","NaN5x"]`, `["D","sNaN"]`, `["D","1E99999999999999999999"]`, `["F",1,0]`, `["F",1,-1]`, `["F","a",1]`, `["R",1,1,0]`, `["S",1]`,
	`["dt",99999,1,1,1,1,1,1,0,null]`, `["dt",2024,1,1,0,0,0,0,0,["o",1,2]]`, `["tz",9,0,0]`, `["M",1]`, `["O",1]`, `["I",1]`, `["I",true]`, `["K"]`, `["e",1,"X"]`, `["G",["o",0,0],["o",0,0]]`,
	`["M",["o",0,0],1]`, `["?"]`, `[]`, `{}`, `1.0`, `"\ud800"`, `["u","ff"]`, `["o",0,99]`, `["x",1,["g","builtins","int"],"",["t"],[]]`, `["m",1,"x",true]`,
}

// TestCheatsOfInvariantsFailAndTheirTwinsPass is threats F1, F2, F3 and F10 for
// code that is asked row by row.
func TestCheatsOfInvariantsFailAndTheirTwinsPass(t *testing.T) {
	tree, claims := files{}, []claim{}
	add := func(id, code string) {
		tree["lib_"+id+".py"] = code
		claims = append(claims, claim{id: id, fields: fmt.Sprintf("entry = \"lib_%s:f\"\nkind = \"exact_table\"", id), rows: `[{"args": [1], "expected": 1}, {"args": [2], "expected": 2}]`})
	}
	for i, c := range invariantCheats {
		add(fmt.Sprintf("cheat%02d", i), c.code)
		add(fmt.Sprintf("twin%02d", i), c.twin)
	}
	for i, v := range forgedAnswers {
		add(fmt.Sprintf("forged%02d", i), rowFrame+fmt.Sprintf("def f(x):\n    os.write(4, answer(rb'''%s'''))\n    os._exit(0)\n", v))
	}
	c := claimsConfig(t, tree, claims)
	c.Limits = Limits{Call: 8 * time.Second, Lane: 5 * time.Minute, Candidate: c.Limits.Candidate}
	outcomes := judgeClaims(t, c, First())
	for i, cheat := range invariantCheats {
		t.Run(cheat.name, func(t *testing.T) {
			o := outcomes[fmt.Sprintf("cheat%02d", i)]
			if o.OK || !o.Ran || !o.Loaded || o.Detail == "" || !strings.Contains(o.Note, cheat.notes) || len(o.Detail) > maxDetail {
				t.Errorf("cheat: %s", o.summary())
			}
			if o.TimedOut != (cheat.notes == "no answer") || o.Killed != (cheat.notes == "killed") {
				t.Errorf("cheat: %s", o.summary())
			}
			if o := outcomes[fmt.Sprintf("twin%02d", i)]; !o.OK {
				t.Errorf("twin: %s", o.summary())
			}
		})
	}
	for i, v := range forgedAnswers {
		if o := outcomes[fmt.Sprintf("forged%02d", i)]; o.OK || !o.Ran || o.TimedOut {
			t.Errorf("%s: %s", v, o.summary())
		}
	}
}

func TestARepeatedCheckIsJudgedInAFreshProcessToo(t *testing.T) {
	tree := files{
		"leaves.py": "import os\nmark = os.environ['TMPDIR'] + '/sealgate-mark'\nwas = os.path.exists(mark)\nopen(mark, 'w').close()\nn = [0]\ndef f(n_=0):\n    n[0] += was\n    return n[0]\n",
		"ends.py":   "import os\nmark = os.environ['TMPDIR'] + '/sealgate-mark2'\nwas = os.path.exists(mark)\nopen(mark, 'w').close()\ndef f():\n    if was:\n        os._exit(0)\n    return 1\n",
		"gone.py":   "import os\nmark = os.environ['TMPDIR'] + '/sealgate-mark3'\nif os.path.exists(mark):\n    raise ValueError\nopen(mark, 'w').close()\ndef f():\n    return 1\n",
		"fine.py":   "def f():\n    return 1\n",
	}
	var claims []claim
	for _, name := range sortedNames(tree) {
		module := strings.TrimSuffix(name, ".py")
		claims = append(claims, claim{id: module, fields: fmt.Sprintf("entry = \"%s:f\"\nkind = \"idempotent\"", module), rows: `[{}]`})
	}
	p := First()
	p.Env = append(p.Env[:len(p.Env):len(p.Env)], "TMPDIR="+t.TempDir())
	outcomes := judgeClaims(t, claimsConfig(t, tree, claims), p)
	for id, o := range outcomes {
		if o.OK != (id == "fine") || !o.Ran || (id != "fine") != strings.HasPrefix(o.Note, "in a fresh process: ") || o.Detail != o.Note {
			t.Errorf("%s: %s", id, o.summary())
		}
	}
}
