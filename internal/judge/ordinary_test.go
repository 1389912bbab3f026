package judge

import (
	"fmt"
	"strings"
	"testing"
)

// ordinary are properties as people write them, one kind of Python each: the
// code, a bug in it, and the property, which must pass on the code and see the bug.
var ordinary = []struct {
	name     string
	code     string
	old, new string
	property string
	helpers  files
}{
	{name: "constants by value", code: "LIMIT = 50\nNAMES = ('a', 'b')\n", old: "50", new: "51",
		property: "from lib import LIMIT, NAMES\ndef holds(raw):\n    return LIMIT == 50 and NAMES == ('a', 'b') and sum([LIMIT]) == 50\n"},
	{name: "whole module", code: "def double(x):\n    return 2 * x\n", old: "2 * x", new: "x + 2",
		property: "import lib\ndef holds(raw):\n    return [lib.double(n) for n in range(4)] == [0, 2, 4, 6]\n"},
	{name: "star import", code: "def double(x):\n    return 2 * x\n_hidden = 1\n", old: "2 * x", new: "x",
		property: "from lib import *\ndef holds(raw):\n    return double(4) == 8 and '_hidden' not in globals()\n"},
	{name: "keywords and defaults", code: "def cut(text, width=4, *, mark='.'):\n    return text if len(text) <= width else text[:width - 1] + mark\n", old: "width - 1", new: "width",
		property: "from lib import cut\ndef holds(raw):\n    return cut('abcdef') == 'abc.' and cut('abcdef', width=3, mark='~') == 'ab~'\n"},
	{name: "own exception with attributes", code: "class ParseError(Exception):\n    def __init__(self, message, line):\n        super().__init__(message)\n        self.line = line\n\ndef parse(text):\n    for n, row in enumerate(text.split('\\n'), 1):\n        if '=' not in row:\n            raise ParseError('no value', n)\n", old: "'no value', n)", new: "'no value', n - 1)",
		property: "import lib\ndef holds(raw):\n    try:\n        lib.parse('a=1\\nb')\n    except lib.ParseError as e:\n        return e.line == 2 and str(e) == 'no value' and isinstance(e, Exception)\n    return False\n"},
	{name: "standard exception by class", code: "import json\ndef load(text):\n    return json.loads(text)\n", old: "return json.loads(text)", new: "return json.loads(text or '0')",
		property: "import json\nfrom lib import load\ndef holds(raw):\n    try:\n        load('')\n    except json.JSONDecodeError as e:\n        return e.pos == 0\n    return False\n"},
	{name: "exception hierarchy", code: "class Base(Exception):\n    pass\nclass Missing(Base, KeyError):\n    pass\ndef find(k):\n    raise Missing(k)\n", old: "raise Missing(k)", new: "raise ValueError(k)",
		property: "import lib\ndef holds(raw):\n    hits = 0\n    for kind in (lib.Missing, lib.Base, KeyError, LookupError):\n        try:\n            lib.find('x')\n        except kind as e:\n            hits += e.args == ('x',)\n    return hits == 4\n"},
	{name: "generator", code: "def numbers(n):\n    a, b = 0, 1\n    for _ in range(n):\n        yield a\n        a, b = b, a + b\n", old: "a + b", new: "a + b + 1",
		property: "from lib import numbers\ndef holds(raw):\n    g = numbers(3)\n    return next(g) == 0 and list(g) == [1, 1] and sum(numbers(6)) == 12 and max(numbers(5)) == 3\n"},
	{name: "endless generator", code: "def count():\n    n = 0\n    while True:\n        yield n\n        n += 1\n", old: "n += 1", new: "n += 2",
		property: "import itertools\nfrom lib import count\ndef holds(raw):\n    return list(itertools.islice(count(), 4)) == [0, 1, 2, 3]\n"},
	{name: "generator send", code: "def average():\n    total, n, mean = 0, 0, None\n    while True:\n        total += yield mean\n        n += 1\n        mean = total / n\n", old: "total / n", new: "total",
		property: "from lib import average\ndef holds(raw):\n    g = average()\n    next(g)\n    return g.send(4) == 4.0 and g.send(8) == 6.0\n"},
	{name: "context manager", code: "from contextlib import contextmanager\nLOG = []\n@contextmanager\ndef section(name):\n    LOG.append('+' + name)\n    try:\n        yield name.upper()\n    finally:\n        LOG.append('-' + name)\n", old: "    finally:\n", new: "    except ZeroDivisionError:\n",
		property: "import lib\ndef holds(raw):\n    del lib.LOG[:]\n    with lib.section('a') as got:\n        inside = list(lib.LOG)\n    return got == 'A' and inside == ['+a'] and lib.LOG == ['+a', '-a']\n"},
	{name: "context manager that handles an error", code: "class Quiet:\n    def __init__(self, kind):\n        self.kind, self.seen = kind, None\n    def __enter__(self):\n        return self\n    def __exit__(self, kind, error, tb):\n        self.seen = str(error)\n        return kind is not None and issubclass(kind, self.kind)\n", old: "issubclass(kind, self.kind)", new: "False",
		property: "from lib import Quiet\ndef holds(raw):\n    q = Quiet(ValueError)\n    with q:\n        raise ValueError('small')\n    return q.seen == 'small'\n"},
	{name: "frozen dataclass in a set", code: "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\n    y: int\n    def mirrored(self):\n        return P(self.y, self.x)\n", old: "P(self.y, self.x)", new: "P(self.x, self.y)",
		property: "from lib import P\ndef holds(raw):\n    return len({P(1, 2), P(1, 2), P(2, 1)}) == 2 and P(1, 2).mirrored() == P(2, 1) and P(1, 2) != P(1, 3)\n"},
	{name: "ordered dataclass", code: "from dataclasses import dataclass\n@dataclass(order=True)\nclass V:\n    major: int\n    minor: int\ndef parse(text):\n    return V(*map(int, text.split('.')))\n", old: "map(int, text.split('.'))", new: "text.split('.')",
		property: "from lib import parse\ndef holds(raw):\n    return parse('1.9') < parse('1.10') and sorted([parse('2.0'), parse('1.1')])[0].major == 1\n"},
	{name: "dataclass as dictionary", code: "from dataclasses import dataclass, field\n@dataclass\nclass Item:\n    name: str\n    tags: list = field(default_factory=list)\ndef make():\n    return Item('a', ['x'])\n", old: "['x']", new: "['x', 'x']",
		property: "from dataclasses import asdict, fields, replace\nfrom lib import make\ndef holds(raw):\n    m = make()\n    return asdict(m) == {'name': 'a', 'tags': ['x']} and [f.name for f in fields(m)] == ['name', 'tags'] and replace(m, name='b').name == 'b'\n"},
	{name: "async function", code: "import asyncio\nasync def fetch(n):\n    await asyncio.sleep(0)\n    return n * 2\n", old: "n * 2", new: "n",
		property: "import asyncio\nfrom lib import fetch\ndef holds(raw):\n    async def both():\n        return await asyncio.gather(fetch(1), fetch(2))\n    return asyncio.run(fetch(4)) == 8 and asyncio.run(both()) == [2, 4]\n"},
	{name: "async holds, iterator and context", code: "class Feed:\n    async def __aenter__(self):\n        self.open = True\n        return self\n    async def __aexit__(self, *error):\n        self.open = False\n    async def rows(self, n):\n        for i in range(n):\n            yield i\n", old: "self.open = False", new: "pass",
		property: "from lib import Feed\nasync def holds(raw):\n    feed = Feed()\n    async with feed as f:\n        got = [r async for r in f.rows(3)]\n    return got == [0, 1, 2] and feed.open is False\n"},
	{name: "changed argument", code: "def sort_in_place(rows):\n    rows.sort()\n", old: "rows.sort()", new: "sorted(rows)",
		property: "from lib import sort_in_place\ndef holds(raw):\n    rows = [3, 1, 2]\n    return sort_in_place(rows) is None and rows == [1, 2, 3]\n"},
	{name: "changed argument at depth", code: "def fill(doc):\n    for row in doc['rows']:\n        row['total'] = row['n'] * row['price']\n        row['seen'].add('x')\n    doc['raw'] += b'!'\n    return doc\n", old: "row['seen'].add('x')", new: "row['seen'] | {'x'}",
		property: "from lib import fill\ndef holds(raw):\n    inner = {'n': 2, 'price': 5, 'seen': set()}\n    doc = {'rows': [inner, inner], 'raw': bytearray(b'a')}\n    same = fill(doc) is doc\n    return same and inner == {'n': 2, 'price': 5, 'seen': {'x'}, 'total': 10} and doc['rows'][0] is doc['rows'][1] and doc['raw'] == b'a!'\n"},
	{name: "a list that the code keeps", code: "class Log:\n    def __init__(self):\n        self.rows = []\n    def add(self, x):\n        self.rows.append(x)\n    def size(self):\n        return len(self.rows)\n", old: "self.rows.append(x)", new: "self.rows = self.rows + [x]",
		property: "from lib import Log\ndef holds(raw):\n    log = Log()\n    rows = log.rows\n    log.add(1)\n    rows.append(2)\n    return rows == [1, 2] and log.size() == 2 and log.rows is rows\n"},
	{name: "argument left alone", code: "def largest(rows):\n    return sorted(rows)[-1]\n", old: "sorted(rows)[-1]", new: "rows.pop(rows.index(max(rows)))",
		property: "import copy\nfrom lib import largest\ndef holds(raw):\n    rows = [1, 5, 2]\n    before = copy.deepcopy(rows)\n    return largest(rows) == 5 and rows == before\n"},
	{name: "decorated function", code: "import functools\ndef memo(f):\n    kept = {}\n    @functools.wraps(f)\n    def g(n):\n        if n not in kept:\n            kept[n] = f(n)\n        return kept[n]\n    g.kept = kept\n    return g\n@memo\ndef square(n):\n    return n * n\n", old: "kept[n] = f(n)", new: "return f(n)",
		property: "from lib import square\ndef holds(raw):\n    return square(3) == 9 and square(3) == 9 and square.kept == {3: 9} and square.__name__ == 'square'\n"},
	{name: "decorated holds with a sealed helper", code: "def norm(s):\n    return s.strip().lower()\n", old: ".lower()", new: "",
		helpers:  files{"tools.py": "import functools\nimport lib\n\ndef twice(f):\n    @functools.wraps(f)\n    def g(raw):\n        return f(raw) and f(raw)\n    return g\n\ndef stable(s):\n    return lib.norm(lib.norm(s)) == lib.norm(s)\n"},
		property: "from tools import stable, twice\nimport lib\n@twice\ndef holds(raw):\n    return stable(' Ab ') and lib.norm(' Ab ') == 'ab'\n"},
	{name: "named tuple and enum", code: "import enum\nfrom collections import namedtuple\nclass Tone(enum.Enum):\n    LOW = 1\n    HIGH = 2\nclass Level(enum.IntEnum):\n    A = 1\n    B = 2\nSpan = namedtuple('Span', 'start end')\ndef span(text):\n    return Span(text.index('a'), text.rindex('a'))\ndef tone(n):\n    return Tone.HIGH if n > 5 else Tone.LOW\n", old: "n > 5", new: "n >= 5",
		property: "from lib import Level, Span, Tone, span, tone\ndef holds(raw):\n    s = span('banana')\n    a, b = s\n    return s.end == 5 and (a, b) == s == Span(1, 5) and s._replace(end=9)[1] == 9 and tone(6) is Tone.HIGH and tone(5) == Tone.LOW and Tone.LOW.value == 1 and Level.B > Level.A and Level.B == 2 and [t.name for t in Tone] == ['LOW', 'HIGH']\n"},
	{name: "decimals, fractions, dates", code: "from datetime import date, datetime, timedelta, timezone\nfrom decimal import Decimal\nfrom fractions import Fraction\ndef due(day, n):\n    return day + timedelta(days=n)\ndef share(a, b):\n    return Fraction(a, b)\ndef net(x):\n    return x / Decimal('1.25')\ndef stamp(s):\n    return datetime.fromtimestamp(s, timezone.utc)\n", old: "days=n", new: "days=n + 1",
		property: "from datetime import date, datetime, timezone\nfrom decimal import Decimal\nfrom fractions import Fraction\nimport lib\ndef holds(raw):\n    return lib.due(date(2024, 2, 28), 2) == date(2024, 3, 1) and lib.share(2, 4) == Fraction(1, 2) and lib.net(Decimal('10')) == Decimal('8') and lib.stamp(0) == datetime(1970, 1, 1, tzinfo=timezone.utc)\n"},
	{name: "container class", code: "class Bag:\n    def __init__(self, items=()):\n        self._d = {}\n        for i in items:\n            self[i] = self._d.get(i, 0) + 1\n    def __setitem__(self, k, v):\n        self._d[k] = v\n    def __getitem__(self, k):\n        return self._d[k]\n    def __delitem__(self, k):\n        del self._d[k]\n    def __len__(self):\n        return len(self._d)\n    def __iter__(self):\n        return iter(self._d)\n    def __contains__(self, k):\n        return k in self._d\n", old: "get(i, 0) + 1", new: "get(i, 1)",
		property: "from lib import Bag\ndef holds(raw):\n    b = Bag('abca')\n    b['z'] = 7\n    del b['c']\n    try:\n        b['nope']\n    except KeyError:\n        missing = True\n    return b['a'] == 2 and len(b) == 3 and list(b) == ['a', 'b', 'z'] and 'c' not in list(b) and missing\n"},
	{name: "arithmetic of an opaque class", code: "class Vec:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __add__(self, o):\n        return Vec(self.x + o.x, self.y + o.y)\n    def __rmul__(self, k):\n        return Vec(k * self.x, k * self.y)\n    def __neg__(self):\n        return Vec(-self.x, -self.y)\n    def __abs__(self):\n        return (self.x ** 2 + self.y ** 2) ** 0.5\n    def __str__(self):\n        return '<%d %d>' % (self.x, self.y)\n", old: "k * self.y", new: "self.y",
		property: "from lib import Vec\ndef holds(raw):\n    v = 2 * Vec(1, 2) + -Vec(-1, 0)\n    return (v.x, v.y) == (3, 4) and abs(v) == 5.0 and f'{v}' == '<3 4>'\n"},
	{name: "class attributes, inheritance, isinstance", code: "class Shape:\n    sides = 0\n    @classmethod\n    def named(cls, n):\n        return cls() if n else None\n    @staticmethod\n    def unit():\n        return 'cm'\n    @property\n    def corners(self):\n        return self.sides\nclass Square(Shape):\n    sides = 4\n", old: "sides = 4", new: "sides = 5",
		property: "from lib import Shape, Square\ndef holds(raw):\n    s = Square.named(1)\n    return isinstance(s, Shape) and type(s) is Square and issubclass(Square, Shape) and not isinstance(Shape(), Square) and Square.sides == 4 == s.corners and Square.named(0) is None and Shape.unit() == 'cm'\n"},
	{name: "standard function as argument", code: "def apply(rows, key=None, cast=str):\n    return [cast(r) for r in sorted(rows, key=key)]\n", old: "key=key", new: "reverse=True",
		property: "from lib import apply\ndef holds(raw):\n    return apply(['bb', 'a'], key=len) == ['a', 'bb'] and apply([2, 1], cast=float) == [1.0, 2.0] and apply(['B', 'a'], key=str.lower) == ['a', 'B']\n"},
	{name: "command line entry", code: "import sys\ndef main(argv):\n    if not argv:\n        sys.exit(2)\n    print('hello')\n    return 0\n", old: "sys.exit(2)", new: "return 2",
		property: "import lib\ndef holds(raw):\n    try:\n        lib.main([])\n    except SystemExit as e:\n        return e.code == 2 and lib.main(['x']) == 0\n"},
	{name: "match and keyword patterns", code: "from dataclasses import dataclass\n@dataclass\nclass Cmd:\n    verb: str\n    n: int\ndef parse(text):\n    v, n = text.split()\n    return Cmd(v, int(n))\n", old: "int(n)", new: "n",
		property: "from lib import Cmd, parse\ndef holds(raw):\n    match parse('go 3'):\n        case Cmd('go', 3):\n            return True\n    return False\n"},
	{name: "random inputs from the fixture's seed", code: "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a\n", old: "a % b", new: "a % b if a > b else 0",
		property: "import math\nimport random\nfrom lib import gcd\ndef holds(raw):\n    rng = random.Random(raw)\n    return all(gcd(a, b) == math.gcd(a, b) for a, b in ((rng.randrange(99), rng.randrange(99)) for _ in range(50)))\n"},
	{name: "second parameter: file, command, patch", code: "import time\ndef now():\n    return time.time()\ndef stamp():\n    return int(now()) + 1\nif __name__ == '__main__':\n    import sys\n    print(sys.stdin.read().upper(), end='')\n", old: "+ 1", new: "+ 2",
		property: "import sys\ndef holds(raw, candidate):\n    with candidate.patch('lib:now', returns=41):\n        patched = candidate.call('lib:stamp') == 42\n    done = candidate.run(['/usr/bin/python3', 'lib.py'], stdin=b'abc')\n    return patched and candidate.call('lib.stamp') > 42 and b'def now' in candidate.read('lib.py') and (done.returncode, done.stdout) == (0, b'ABC')\n"},
}

func TestOrdinaryPropertiesPassAndSeeTheBug(t *testing.T) {
	if testing.Short() {
		t.Skip("run by root's tests")
	}
	s := scene{limits: many, tree: files{}, properties: files{}, helpers: files{}}
	for i, o := range ordinary {
		if !strings.Contains(o.code, o.old) {
			t.Fatalf("%s: no place for the bug", o.name)
		}
		for kind, code := range map[string]string{"good": o.code, "bug": strings.Replace(o.code, o.old, o.new, 1)} {
			id := fmt.Sprintf("%02d%s", i, kind)
			s.tree["lib_"+id+".py"] = code
			s.properties["p"+id] = importing(o.property, id)
			for name, text := range o.helpers {
				s.helpers["t"+id+"_"+name] = importing(text, id)
				s.properties["p"+id] = strings.ReplaceAll(s.properties["p"+id], "from "+strings.TrimSuffix(name, ".py"), "from t"+id+"_"+strings.TrimSuffix(name, ".py"))
			}
		}
	}
	results := s.judge(t, First())
	for i, o := range ordinary {
		if r := results[fmt.Sprintf("p%02dgood", i)]; !r.OK || r.Calls == 0 {
			t.Errorf("%s: on good code: %s", o.name, r.summary())
		}
		if r := results[fmt.Sprintf("p%02dbug", i)]; r.OK || !r.Ran {
			t.Errorf("%s: on the bug: %s", o.name, r.summary())
		}
	}
}

func TestWhoseModuleANameMeans(t *testing.T) {
	s := scene{
		tree:    files{"shop.py": "x = 1\n", "helper.py": "x = 2\n", "json.py": "x = 3\n", "fixtures/__init__.py": "x = 4\n"},
		helpers: files{"helper.py": "x = 20\n"},
		properties: files{
			"shop":    "from shop import x\ndef holds(raw):\n    return x == 1\n",
			"sealed":  "from helper import x\ndef holds(raw):\n    return x == 20\n",
			"library": "import json\ndef holds(raw):\n    return json.loads('3') == 3\n",
			"pushed":  "from fixtures import x\ndef holds(raw):\n    return x == 4\n",
		},
	}
	for id, r := range s.judge(t, First()) {
		if !r.OK {
			t.Errorf("%s: %s", id, r.summary())
		}
	}
}
