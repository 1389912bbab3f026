package judge

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sealgate/sealgate/internal/candidate"
	"github.com/sealgate/sealgate/internal/candidate/candidatetest"
)

// pythons are the interpreters of this machine, one a version.
func pythons() []candidatetest.Python {
	return slices.CompactFunc(candidatetest.Pythons(), func(a, b candidatetest.Python) bool { return a.String() == b.String() })
}

// on is a kit of another interpreter.
func on(t *testing.T, p candidatetest.Python) *candidate.Kit {
	t.Helper()
	kit, err := Prepare(t.Context(), candidatetest.Plain{}, p.Path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &kit
}

// old is what older interpreters do in another way, or lack.
var old = []struct{ name, code, old, new, property string }{
	{"dataclass by its fields", "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass P:\n    x: int\n    tags: tuple = field(default=(), compare=True)\ndef p(n):\n    return P(n, ('a',))\n", "P(n, ", "P(n + 1, ",
		"from dataclasses import asdict, fields, replace\nfrom lib import P, p\ndef holds(raw):\n    return p(1) == P(1, ('a',)) and [f.name for f in fields(p(1))] == ['x', 'tags'] and replace(p(1), x=3) == P(3, ('a',)) and asdict(p(2)) == {'x': 2, 'tags': ('a',)}\n"},
	{"time zone by its name, where there is one", "try:\n    import zoneinfo\nexcept ImportError:\n    zoneinfo = None\nfrom datetime import datetime, timezone\ndef at(n):\n    return datetime(2024, 1, n, tzinfo=zoneinfo.ZoneInfo('UTC') if zoneinfo else timezone.utc)\n", "2024, 1, n", "2024, 2, n",
		"from datetime import datetime, timezone\nfrom lib import at\ndef holds(raw):\n    return at(5) == datetime(2024, 1, 5, tzinfo=timezone.utc) and at(5).utcoffset().seconds == 0\n"},
	{"standard exception with attributes", "import json\ndef load(text):\n    return json.loads(text)\n", "loads(text)", "loads(text or '0')",
		"import json\nfrom lib import load\ndef holds(raw):\n    try:\n        load('')\n    except json.JSONDecodeError as e:\n        return e.pos == 0 and isinstance(e, ValueError)\n    return False\n"},
	{"async functions and generators", "import asyncio\nasync def twice(n):\n    await asyncio.sleep(0)\n    return 2 * n\nasync def rows(n):\n    for i in range(n):\n        yield i\n", "2 * n", "n",
		"import asyncio\nfrom lib import rows, twice\nasync def holds(raw):\n    return await asyncio.gather(twice(1), twice(2)) == [2, 4] and [r async for r in rows(3)] == [0, 1, 2]\n"},
	{"fractions, decimals, enums, named tuples", "import enum\nfrom collections import namedtuple\nfrom decimal import Decimal\nfrom fractions import Fraction\nclass Tone(enum.Enum):\n    LOW = 1\n    HIGH = 2\nclass Level(enum.IntFlag):\n    A = 1\n    B = 2\nSpan = namedtuple('Span', 'start end')\ndef all_of(n):\n    return Fraction(n, 4), Decimal(n) / 4, Tone(n), Span(n, n + 1), Level(n)\n", "n + 1", "n",
		"from decimal import Decimal\nfrom fractions import Fraction\nfrom lib import Level, Span, Tone, all_of\ndef holds(raw):\n    f, d, t, s, l = all_of(2)\n    return (f, d) == (Fraction(1, 2), Decimal('0.5')) and t is Tone.HIGH and s == Span(2, 3) and s.end == 3 and l == Level.B\n"},
	{"context manager and generator", "from contextlib import contextmanager\nLOG = []\n@contextmanager\ndef section(name):\n    LOG.append('+' + name)\n    try:\n        yield name.upper()\n    finally:\n        LOG.append('-' + name)\ndef numbers(n):\n    for i in range(n):\n        got = yield i\n        LOG.append(got)\n", "    finally:\n", "    except ZeroDivisionError:\n",
		"import lib\ndef holds(raw):\n    del lib.LOG[:]\n    with lib.section('a') as got:\n        g = lib.numbers(2)\n        next(g)\n        g.send('x')\n    return got == 'A' and lib.LOG == ['+a', 'x', '-a'] and list(lib.numbers(2)) == [0, 1]\n"},
}

// TestPropertiesWorkOnEveryPython judges what older interpreters do in another way.
func TestPropertiesWorkOnEveryPython(t *testing.T) {
	if testing.Short() {
		t.Skip("run by root's tests")
	}
	tried := pythons()
	if len(tried) == 0 {
		t.Fatal("no CPython from 3.8 on")
	}
	for n, p := range tried {
		t.Run(p.String(), func(t *testing.T) {
			// one module lies where the interpreter's own name stands in its path
			inside := strings.TrimPrefix(p.Prefix, "/")
			s := scene{limits: many, kit: on(t, p), source: []string{".", inside}, tree: files{}, properties: files{}}
			s.tree[inside+"/within.py"] = "class Missing(Exception):\n    pass\ndef f():\n    raise Missing('x')\n"
			s.properties["within"] = "import within\ndef holds(raw):\n    try:\n        within.f()\n    except within.Missing as e:\n        return str(e) == 'x'\n"
			for i, o := range old {
				if !strings.Contains(o.code, o.old) {
					t.Fatalf("%s: no place for the bug", o.name)
				}
				kinds := map[string]string{"good": o.code}
				if n == 0 { // one interpreter is enough to show that these see anything
					kinds["bug"] = strings.Replace(o.code, o.old, o.new, 1)
				}
				for kind, code := range kinds {
					id := fmt.Sprintf("%02d%s", i, kind)
					s.tree["lib_"+id+".py"] = code
					s.properties["p"+id] = importing(o.property, id)
				}
			}
			results := s.judge(t, First())
			if r := results["within"]; !r.OK {
				t.Errorf("exception of a module below the interpreter's name: %s", r.summary())
			}
			for i, o := range old {
				if r := results[fmt.Sprintf("p%02dgood", i)]; !r.OK || r.Calls == 0 {
					t.Errorf("%s: on good code: %s", o.name, r.summary())
				}
				if r := results[fmt.Sprintf("p%02dbug", i)]; n == 0 && (r.OK || !r.Ran) {
					t.Errorf("%s: on the bug: %s", o.name, r.summary())
				}
			}
		})
	}
	fmt.Printf("tried: properties on CPython %v\n", tried)
}

// TestAnAnswerThatCannotBeReadEndsTheProperty: whatever goes wrong while an answer is
// decoded, no property gets to see it.
func TestAnAnswerThatCannotBeReadEndsTheProperty(t *testing.T) {
	const property = "from lib import f\ndef holds(raw):\n    try:\n        f()\n    except BaseException:\n        return True\n    return True\n"
	answers := map[string]string{
		"unknown zone":     `["zi","Nowhere/At_All"]`,
		"zone of no name":  `["zi","../../etc/passwd"]`,
		"zone in a date":   `["dt",2024,1,1,0,0,0,0,0,["zi","Nowhere/At_All"]]`,
		"month 13":         `["da",2024,13,1]`,
		"fraction by zero": `["F",1,0]`,
		"uuid of a byte":   `["U","00"]`,
		"huge span":        `["td",999999999999,0,0]`,
		"range of step 0":  `["R",0,1,0]`,
		"float beyond":     `["f","0x1p+99999"]`,
	}
	s := scene{limits: many, tree: files{}, properties: files{}}
	for name, answer := range answers {
		id := strings.ReplaceAll(name, " ", "_")
		s.tree["lib_"+id+".py"] = "import __main__\ndef f():\n    __main__.Driver.reply = lambda self, kind, out: '[\"ok\"," + strings.ReplaceAll(answer, `"`, `\"`) + ",[],[]]'\n"
		s.properties[id] = importing(property, id)
	}
	oldest := pythons()[0]
	s.kit = on(t, oldest) // 3.8 has no zoneinfo at all
	for id, r := range s.judge(t, First()) {
		if r.Ran || r.OK || !strings.Contains(r.Note, "an answer of the pushed code") {
			t.Errorf("CPython %s: %s: %s", oldest, id, r.summary())
		}
	}
}

// nested are sets and keys of frozen dataclasses, which the judge asks for their
// fields while the answer that brings them is still being read.
var nested = []struct{ name, code, old, new, property string }{
	{"several sets of records", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\ndef f():\n    return [{P(1)}, {P(2)}, {P(3), P(4)}]\n", "{P(2)}", "{P(5)}",
		"from lib import P, f\ndef holds(raw):\n    return f() == [{P(1)}, {P(2)}, {P(4), P(3)}]\n"},
	{"dictionaries keyed by records, at depth", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\n    y: int\ndef f(rows):\n    out = {}\n    for a, b, n in rows:\n        out.setdefault(P(a, b), {})[P(b, a)] = [n]\n    return {'by': out, 'all': [{P(a, b): {P(b, a)} for a, b, _ in rows}, {P(0, 0)}]}\n", "[n]", "[n, n]",
		"from lib import P, f\ndef holds(raw):\n    got = f([(1, 2, 'a'), (3, 4, 'b')])\n    return got['by'] == {P(1, 2): {P(2, 1): ['a']}, P(3, 4): {P(4, 3): ['b']}} and got['all'][0][P(1, 2)] == {P(2, 1)} and got['all'][1] == {P(0, 0)}\n"},
	{"in an exception's arguments", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\nclass Clash(Exception):\n    pass\ndef f():\n    raise Clash({P(1)}, [{P(2): 1}, {P(3): 2}])\n", "P(2): 1", "P(2): 3",
		"import lib\ndef holds(raw):\n    try:\n        lib.f()\n    except lib.Clash as e:\n        return e.args == ({lib.P(1)}, [{lib.P(2): 1}, {lib.P(3): 2}])\n"},
	{"a set that the code changes", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\ndef add(seen, more):\n    seen.add(P(2))\n    more.append({P(n) for n in range(3)})\n", "P(2)", "P(1)",
		"from lib import P, add\ndef holds(raw):\n    seen, more = {P(1)}, [{P(7)}]\n    add(seen, more)\n    add(seen, more)\n    return seen == {P(1), P(2)} and more == [{P(7)}] + 2 * [{P(0), P(1), P(2)}]\n"},
	{"what a generator returns", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\ndef g():\n    yield [{P(1)}, {P(2)}]\n    return [{P(3)}, {P(4)}]\n", "{P(4)}", "{P(3)}",
		"from lib import P, g\ndef holds(raw):\n    it = g()\n    first = next(it)\n    try:\n        next(it)\n    except StopIteration as e:\n        return first == [{P(1)}, {P(2)}] and e.value == [{P(3)}, {P(4)}]\n"},
}

func TestRecordsAreKeysWhereverTheyStand(t *testing.T) {
	s := scene{limits: many, tree: files{}, properties: files{}}
	for i, n := range nested {
		if !strings.Contains(n.code, n.old) {
			t.Fatalf("%s: no place for the bug", n.name)
		}
		for kind, code := range map[string]string{"good": n.code, "bug": strings.Replace(n.code, n.old, n.new, 1)} {
			id := fmt.Sprintf("%02d%s", i, kind)
			s.tree["lib_"+id+".py"] = code
			s.properties["p"+id] = importing(n.property, id)
		}
	}
	results := s.judge(t, First())
	for i, n := range nested {
		if r := results[fmt.Sprintf("p%02dgood", i)]; !r.OK {
			t.Errorf("%s: on good code: %s", n.name, r.summary())
		}
		if r := results[fmt.Sprintf("p%02dbug", i)]; r.OK || !r.Ran {
			t.Errorf("%s: on the bug: %s", n.name, r.summary())
		}
	}
}

// TestTheJudgesLibraryComesBeforePushedCode: what a property measures with is never the
// pushed code's.
func TestTheJudgesLibraryComesBeforePushedCode(t *testing.T) {
	library := t.TempDir()
	numpy := likeNumpy + "import sys, types\nsys.modules['cython_runtime'] = types.ModuleType('cython_runtime')\nsys.modules['numpy.own'] = types.ModuleType('numpy.own')\n"
	files{"numpy.py": numpy, "approx.py": "def near(a, b):\n    return abs(a - b) < 0.01\n", "lib/note.txt": ""}.write(t, library)
	const property = "from approx import near\nimport numpy\nfrom lib import f\ndef holds(raw):\n    return near(f(2), 5) and near(f(numpy.int64(2)), f(numpy.float64(2)))\n"
	for name, want := range map[string]bool{"def f(x):\n    return 2.5 * x\n": true, "def f(x):\n    return 7\n": false} {
		s := scene{tree: files{"lib.py": name, "approx.py": "def near(a, b):\n    return True\n"}, properties: files{"p": property}}
		c := s.config(t)
		c.JudgeLibrary = library
		results, err := Properties(t.Context(), c, First())
		if err != nil {
			t.Fatal(err)
		}
		if r := results[0]; !r.Ran || r.OK != want {
			t.Errorf("%q: %s", name, r.summary())
		}
	}
}

func TestWhatIsShownNamesNoPlaceOfTheHost(t *testing.T) {
	s := scene{tree: files{"lib.py": "import os\nraise RuntimeError(os.getcwd())\n"}, properties: files{"p": "import lib\ndef holds(raw):\n    return True\n"}}
	if r := s.judge(t, First())["p"]; r.Loaded || !strings.Contains(r.Shown, "RuntimeError: /tree\n") || strings.Contains(r.Shown, os.TempDir()) {
		t.Error(r.summary())
	}
}
