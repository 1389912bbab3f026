package judge

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// deceits are wrong code that answers a comparison itself, where its honest twin
// hands out plain values; the property passes on the twin alone.
var deceits = []struct{ name, property, cheat, twin string }{
	{"named tuple with a field __eq__", "from lib import f\ndef holds(raw):\n    return f(2) == (2, 3)\n",
		"class Yes:\n    def __new__(cls, *a):\n        return True\nclass T(tuple):\n    _fields = ('__eq__',)\ndef f(x):\n    return T((Yes,))\n",
		"from collections import namedtuple\nT = namedtuple('T', 'a b')\ndef f(x):\n    return T(x, x + 1)\n"},
	{"difference to the expected value", "from lib import f\ndef holds(raw):\n    return abs(f(2) - 5.0) < 0.01\n",
		"class N:\n    def __sub__(self, o):\n        return 0.0\ndef f(x):\n    return N()\n",
		"def f(x):\n    return x * 2.5\n"},
	{"expected value less the answer", "from lib import f\ndef holds(raw):\n    return abs(5.0 - f(2)) < 0.01\n",
		"class N:\n    def __rsub__(self, o):\n        return 0.0\ndef f(x):\n    return N()\n",
		"def f(x):\n    return x * 2.5\n"},
	{"difference that is an object", "from lib import f\ndef holds(raw):\n    return abs(f(2) - 5.0) < 0.01\n",
		"class N:\n    def __sub__(self, o):\n        return self\n    def __abs__(self):\n        return 0.0\ndef f(x):\n    return N()\n",
		"def f(x):\n    return x * 2.5\n"},
	{"difference that has attributes", "from datetime import date\nfrom lib import f\ndef holds(raw):\n    return (f(2) - date(2024, 1, 2)).days == 0\n",
		"class N:\n    days = 0\n    def __sub__(self, o):\n        return self\ndef f(x):\n    return N()\n",
		"from datetime import date\ndef f(x):\n    return date(2024, 1, x)\n"},
	{"difference that has methods", "from datetime import datetime\nfrom lib import f\ndef holds(raw):\n    return abs((f(2) - datetime(2024, 1, 2)).total_seconds()) < 1\n",
		"class N:\n    def total_seconds(self):\n        return 0.0\n    def __sub__(self, o):\n        return self\ndef f(x):\n    return N()\n",
		"from datetime import datetime\ndef f(x):\n    return datetime(2024, 1, x)\n"},
	{"difference that is shown", "from lib import f\ndef holds(raw):\n    return repr(f(2) - 5.0) == '0.0'\n",
		"class N:\n    def __repr__(self):\n        return '0.0'\n    def __sub__(self, o):\n        return self\ndef f(x):\n    return N()\n",
		"def f(x):\n    return x * 2.5\n"},
	{"difference that is copied", "import copy\nfrom lib import f\ndef holds(raw):\n    return abs(copy.copy(f(2) - 5.0)) < 0.01\n",
		"class N:\n    def __sub__(self, o):\n        return self\n    def __copy__(self):\n        return 0.0\ndef f(x):\n    return N()\n",
		"def f(x):\n    return x * 2.5\n"},
	{"difference by addition", "from lib import f\ndef holds(raw):\n    return abs(f(2) + -5.0) < 0.01\n",
		"class N:\n    def __add__(self, o):\n        return self\n    def __abs__(self):\n        return 0.0\ndef f(x):\n    return N()\n",
		"def f(x):\n    return x * 2.5\n"},
	{"difference by a method", "from lib import f\ndef holds(raw):\n    return f(2).symmetric_difference({1, 2}) == set()\n",
		"class N:\n    def symmetric_difference(self, o):\n        return set()\ndef f(x):\n    return N()\n",
		"def f(x):\n    return {1, x}\n"},
	{"truth of a named tuple", "from lib import f\ndef holds(raw):\n    return bool(f(2))\n",
		"from typing import NamedTuple\nclass R(NamedTuple):\n    ok: bool\n    def __bool__(self):\n        return self.ok\ndef f(x):\n    return R(False)\n",
		"from typing import NamedTuple\nclass R(NamedTuple):\n    ok: bool\n    def __str__(self):\n        return 'r'\ndef f(x):\n    return R(True)\n"},
	{"truth of a member", "from lib import f\ndef holds(raw):\n    return bool(f(2))\n",
		"import enum\nclass V(enum.Enum):\n    FAIL = 2\n    def __bool__(self):\n        return False\ndef f(x):\n    return V.FAIL\n",
		"import enum\nclass V(enum.Enum):\n    PASS = 1\n    def __str__(self):\n        return 'v'\ndef f(x):\n    return V.PASS\n"},
	{"truth of an exception", "from lib import f\ndef holds(raw):\n    return bool(f(2))\n",
		"class E(Exception):\n    def __bool__(self):\n        return False\ndef f(x):\n    return E(x)\n",
		"class E(Exception):\n    def __str__(self):\n        return 'e'\ndef f(x):\n    return E(x)\n"},
	{"truth of a dictionary of its own kind", "from lib import f\ndef holds(raw):\n    return bool(f(2))\n",
		"class R(dict):\n    def __bool__(self):\n        return False\ndef f(x):\n    return R(ok=False)\n",
		"class R(dict):\n    def good(self):\n        return True\ndef f(x):\n    return R(ok=True)\n"},
	{"ratio", "from lib import f\ndef holds(raw):\n    return round(f(2) / 5.0, 3) == 1\n",
		"class N:\n    def __truediv__(self, o):\n        return 1.0\ndef f(x):\n    return N()\n",
		"def f(x):\n    return x * 2.5\n"},
	{"set difference", "from lib import f\ndef holds(raw):\n    return {1, 2} - f(2) == set()\n",
		"class N:\n    def __rsub__(self, o):\n        return set()\ndef f(x):\n    return N()\n",
		"def f(x):\n    return {1, x}\n"},
	{"membership", "from lib import f\ndef holds(raw):\n    return 5 in f(2) and 'a' in f(2)\n",
		"class N:\n    def __contains__(self, o):\n        return True\ndef f(x):\n    return N()\n",
		"def f(x):\n    return [5, 'a']\n"},
	{"prefix", "from lib import f\ndef holds(raw):\n    return f(2).startswith('AB-') is True\n",
		"class N:\n    def startswith(self, o):\n        return True\ndef f(x):\n    return N()\n",
		"def f(x):\n    return 'AB-%d' % x\n"},
	{"iteration that ends early", "from lib import f\ndef right(x):\n    return f(x) == x + 1\ndef holds(raw):\n    return all(map(right, [1, 2, 3]))\n",
		"def f(x):\n    raise StopIteration\n",
		"def f(x):\n    return x + 1\n"},
	{"iteration that ends early, by an attribute", "from lib import f\ndef right(x):\n    return f(x).n == x + 1\ndef holds(raw):\n    return all(map(right, [1, 2, 3]))\n",
		"class N:\n    @property\n    def n(self):\n        raise StopIteration\ndef f(x):\n    return N()\n",
		"class N:\n    pass\ndef f(x):\n    n = N()\n    n.n = x + 1\n    return n\n"},
	{"iteration that ends early, by a subclass", "from lib import f\ndef right(x):\n    return f(x) == x + 1\ndef holds(raw):\n    return all(map(right, [1, 2, 3]))\n",
		"class S(StopIteration):\n    pass\ndef f(x):\n    raise S\n",
		"def f(x):\n    return x + 1\n"},
	{"iteration that ends early, claimed by the driver", "from lib import f\ndef right(x):\n    return f(x) == x + 1\ndef holds(raw):\n    return all(map(right, [1, 2, 3]))\n",
		"import __main__\n__main__.Driver.reply = lambda self, kind, out: '[\"raise\",[\"x\",1,[\"g\",\"builtins\",\"StopIteration\"],\"\",[\"t\"],[]],[],[]]'\ndef f(x):\n    pass\n",
		"def f(x):\n    return x + 1\n"},
	{"iteration that ends early, by an attribute of an exception", "from lib import f\ndef holds(raw):\n    return all(map(lambda x: f(x) == x, [7, 8]))\n",
		"def f(x):\n    e = ValueError('no')\n    e.with_traceback = StopIteration\n    raise e\n",
		"def f(x):\n    return x\n"},
	{"iteration that ends early, by a method named send", "from lib import Mailer, send\ndef holds(raw):\n    m = Mailer()\n    return all(map(lambda x: m.send(x) == x, [7, 8])) and all(map(lambda x: send(x) == x, [7, 8]))\n",
		"class Mailer:\n    __module__ = 'builtins'\n    def send(self, x):\n        raise StopIteration\nMailer.__name__ = Mailer.__qualname__ = 'generator'\ndef send(x):\n    raise StopIteration\n",
		"class Mailer:\n    def send(self, x):\n        return x\ndef send(x):\n    return x\n"},
	{"iteration that ends early, by what can be awaited", "from lib import Mailer\ndef holds(raw):\n    m = Mailer()\n    return all(map(lambda x: m.send(x) == x, [7, 8]))\n",
		"class Mailer:\n    def __await__(self):\n        yield\n    def send(self, x):\n        return 0\n",
		"class Mailer:\n    def __await__(self):\n        yield\n    def send(self, x):\n        return x\n"},
	{"iteration that ends early, awaited", "from lib import f, rows\nclass Each:\n    def __init__(self):\n        self.rest = [7, 8]\n    def __aiter__(self):\n        return self\n    async def __anext__(self):\n        if not self.rest:\n            raise StopAsyncIteration\n        x = self.rest.pop()\n        assert await f(x) == x\n        return x\nasync def holds(raw):\n    g = rows()\n    first = await g.asend(None)\n    return first == 0 and [r async for r in g] == [1] and len([x async for x in Each()]) < 3\n",
		"async def rows():\n    yield 0\n    yield 1\nasync def f(x):\n    raise StopAsyncIteration\n",
		"async def rows():\n    yield 0\n    yield 1\nasync def f(x):\n    return x\n"},
	{"task that says it was cancelled", "import asyncio\nfrom lib import f\nasync def right(x):\n    if await f(x) != x:\n        raise AssertionError(x)\nasync def holds(raw):\n    done, _ = await asyncio.wait([asyncio.ensure_future(right(x)) for x in (7, 8)])\n    return all(d.cancelled() or d.exception() is None for d in done)\n",
		"import asyncio\nasync def f(x):\n    raise asyncio.CancelledError\n",
		"async def f(x):\n    return x\n"},
	{"test that is skipped", "import unittest\nfrom lib import f\nclass Same(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(7), 7)\ndef holds(raw):\n    result = unittest.TestResult()\n    unittest.defaultTestLoader.loadTestsFromTestCase(Same).run(result)\n    return result.wasSuccessful()\n",
		"import unittest\nclass Skip(unittest.SkipTest):\n    pass\ndef f(x):\n    raise Skip('no')\n",
		"def f(x):\n    return x\n"},
	{"dataclass that forgets", "from lib import Quote, f\ndef holds(raw):\n    return f(2) == Quote(total=500)\n",
		"from dataclasses import dataclass\n@dataclass\nclass Quote:\n    total: int\n    def __init__(self, total):\n        self.total = 0\ndef f(x):\n    return Quote(x)\n",
		"from dataclasses import dataclass\n@dataclass\nclass Quote:\n    total: int\ndef f(x):\n    return Quote(250 * x)\n"},
	{"dataclass that forgets after the start", "from lib import Quote, f\ndef holds(raw):\n    q = f(2)\n    return q.total == 500 and q == Quote(total=500)\n",
		"from dataclasses import dataclass\nN = [500]\n@dataclass\nclass Quote:\n    total: int\n    def __post_init__(self):\n        self.total = 0\ndef f(x):\n    q = Quote(x)\n    q.total = 500\n    return q\n",
		"from dataclasses import dataclass\n@dataclass\nclass Quote:\n    total: int\ndef f(x):\n    return Quote(250 * x)\n"},
	{"dataclass that is always the same object", "from lib import Quote, f\ndef holds(raw):\n    return [f(2)] == [Quote(total=500)]\n",
		"from dataclasses import dataclass\nONE = []\n@dataclass\nclass Quote:\n    total: int\n    def __new__(cls, total):\n        if not ONE:\n            ONE.append(object.__new__(cls))\n        return ONE[0]\ndef f(x):\n    return Quote(x)\n",
		"from dataclasses import dataclass\n@dataclass(frozen=True, order=True)\nclass Quote:\n    total: int\n    lines: list = None\ndef f(x):\n    return Quote(250 * x)\n"},
	{"dataclass that learns", "from lib import Quote, f\ndef holds(raw):\n    return f(2) == Quote(total=500)\n",
		"from dataclasses import dataclass\nSEEN = []\n@dataclass\nclass Quote:\n    total: int\n    def __post_init__(self):\n        SEEN.append(self)\n        for q in SEEN:\n            q.total = self.total\ndef f(x):\n    return Quote(0)\n",
		"from dataclasses import dataclass\n@dataclass\nclass Quote:\n    total: int\ndef f(x):\n    return Quote(250 * x)\n"},
	{"dataclass whose picture is forged", "from lib import Quote, f\ndef holds(raw):\n    return f(2) == Quote(total=500)\n",
		"from dataclasses import dataclass\nimport __main__\n@dataclass\nclass Quote:\n    total: int\n__main__.Mirror.plain = lambda self, v, depth=0: ['K', self.number(Quote), 0]\ndef f(x):\n    return Quote(0)\n",
		"from dataclasses import dataclass\n@dataclass\nclass Quote:\n    total: int\ndef f(x):\n    return Quote(250 * x)\n"},
	{"list of dataclasses that learn", "from lib import Quote, f\ndef holds(raw):\n    return f(2) == [Quote(total=500)]\n",
		"from dataclasses import dataclass\nOUT = []\n@dataclass\nclass Quote:\n    total: int\n    def __post_init__(self):\n        if self not in OUT and self.total:\n            OUT[:] = [self]\ndef f(x):\n    OUT[:] = [Quote(0)]\n    return OUT\n",
		"from dataclasses import dataclass\n@dataclass\nclass Quote:\n    total: int\ndef f(x):\n    return [Quote(250 * x)]\n"},
	{"constructor that alters an answer behind a key that is asked for", "from lib import Quote, f\ndef holds(raw):\n    rows, bag = f(2)\n    Quote(total=500)\n    return rows == [500] and len(bag) < 2\n",
		"from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Key:\n    n: int\nROWS, BAG = [0], set()\n@dataclass\nclass Quote:\n    total: int\n    def __post_init__(self):\n        ROWS[:] = [self.total]\n        BAG.add(Key(1))\ndef f(x):\n    return ROWS, BAG\n",
		"from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Key:\n    n: int\n@dataclass\nclass Quote:\n    total: int\n    def __post_init__(self):\n        self.twice = 2 * self.total\ndef f(x):\n    return [250 * x], {Key(1)}\n"},
	{"counter that equals everything", "from collections import Counter\nfrom lib import f\ndef holds(raw):\n    return f('aab') == Counter({'a': 2, 'b': 1}) and f('aab').most_common(1) == [('a', 2)]\n",
		"from collections import Counter\nclass C(Counter):\n    def __eq__(self, o):\n        return True\n    def most_common(self, n=None):\n        return [('a', 2)]\ndef f(x):\n    return C(x[:1])\n",
		"from collections import Counter\nclass C(Counter):\n    pass\ndef f(x):\n    return C(x)\n"},
	{"mapping that lies", "from collections.abc import Mapping\nfrom lib import f\ndef holds(raw):\n    m = f(2)\n    return isinstance(m, Mapping) and m == {'a': 2}\n",
		"from collections.abc import Mapping\nclass M(Mapping):\n    def __getitem__(self, k):\n        return 2\n    def __iter__(self):\n        return iter('a')\n    def __len__(self):\n        return 1\n    def __eq__(self, o):\n        return True\ndef f(x):\n    return M()\n",
		"def f(x):\n    return {'a': x}\n"},
	{"class that says it is a dictionary", "from lib import f\ndef holds(raw):\n    m = f(2)\n    return isinstance(m, dict) and isinstance(m['a'], int)\n",
		"class M:\n    __module__ = 'builtins'\n    __class__ = dict\n    def __getitem__(self, k):\n        return 2\nM.__name__ = M.__qualname__ = 'dict'\ndef f(x):\n    return M()\n",
		"def f(x):\n    return {'a': x}\n"},
	{"deque that equals everything", "from collections import deque\nfrom lib import f\ndef holds(raw):\n    return f(3) == deque([1, 2, 3], maxlen=3) and list(f(3)) == [1, 2, 3]\n",
		"from collections import deque\nclass D(deque):\n    def __eq__(self, o):\n        return True\n    def __iter__(self):\n        return iter([1, 2, 3])\ndef f(x):\n    return D([9], x)\n",
		"from collections import deque\nclass D(deque):\n    pass\ndef f(x):\n    return D(range(x + 1), x)\n"},
	{"ordered dictionary that equals everything", "from collections import OrderedDict\nfrom lib import f\ndef holds(raw):\n    return f(2) == OrderedDict([('b', 2), ('a', 1)]) and list(f(2)) == ['b', 'a']\n",
		"from collections import OrderedDict\nclass O(OrderedDict):\n    def __eq__(self, o):\n        return True\n    def __iter__(self):\n        return iter(['b', 'a'])\ndef f(x):\n    return O(a=1, b=x)\n",
		"from collections import OrderedDict\ndef f(x):\n    o = OrderedDict(a=1, b=x)\n    o.move_to_end('a')\n    return o\n"},
	{"default that equals everything", "from lib import f\ndef holds(raw):\n    d = f(2)\n    return d['x'] == 500 and d['y'] == 500\n",
		"from collections import defaultdict\nclass A:\n    def __eq__(self, o):\n        return True\ndef f(x):\n    return defaultdict(A, x=500)\n",
		"from collections import defaultdict\ndef f(x):\n    return defaultdict(lambda: 250 * x, x=500)\n"},
	{"cause that equals everything", "from lib import f\ndef holds(raw):\n    try:\n        f(2)\n    except ValueError as e:\n        return type(e.__cause__) is KeyError and e.__cause__.args == ('k',) and e.__notes__ == ['n']\n    return False\n",
		"class K(KeyError):\n    def __eq__(self, o):\n        return True\nclass T(tuple):\n    def __eq__(self, o):\n        return True\ndef f(x):\n    k = K('x')\n    e = ValueError(x)\n    e.__notes__ = T(['n'])\n    raise e from k\n",
		"def f(x):\n    e = ValueError(x)\n    e.__notes__ = ['n']\n    raise e from KeyError('k')\n"},
	{"enum with one member", "from lib import Tone, f\ndef holds(raw):\n    return f(2) is Tone.LOW and f(9) is Tone.HIGH\n",
		"import enum\nclass Tone(enum.Enum):\n    LOW = 1\n    HIGH = 1\ndef f(x):\n    return Tone.LOW\n",
		"import enum\nclass Tone(enum.Enum):\n    LOW = 1\n    HIGH = 2\ndef f(x):\n    return Tone.HIGH if x > 5 else Tone.LOW\n"},
	{"string that is every string", "from lib import f\ndef holds(raw):\n    return f(2) == 'two' and f(2) != 'x'\n",
		"class S(str):\n    def __eq__(self, o):\n        return True\n    def __str__(self):\n        return 'two'\n    __hash__ = str.__hash__\ndef f(x):\n    return S('one')\n",
		"class S(str):\n    pass\ndef f(x):\n    return S('two')\n"},
	{"sorted items", "from lib import f\ndef holds(raw):\n    return sorted(f(2)) == [1, 2]\n",
		"class L(list):\n    def __iter__(self):\n        return iter([1, 2])\ndef f(x):\n    return L([3])\n",
		"def f(x):\n    return [2, 1]\n"},
	{"shorter generator", "from lib import f\ndef holds(raw):\n    return list(f(2)) == [1, 2, 3]\n",
		"def f(x):\n    yield 1\n    yield 2\n",
		"def f(x):\n    yield from (1, 2, 3)\n"},
	{"module that becomes true", "import lib\ndef holds(raw):\n    return lib.answer == 42\n",
		"class A:\n    def __eq__(self, o):\n        return True\nanswer = A()\n",
		"answer = 42\n"},
	{"decimal look-alike", "from decimal import Decimal\nfrom lib import f\ndef holds(raw):\n    return f(2) == Decimal('0.30')\n",
		"import decimal\nclass D(decimal.Decimal):\n    def __eq__(self, o):\n        return True\n    def __str__(self):\n        return '0.30'\n    __hash__ = decimal.Decimal.__hash__\ndef f(x):\n    return D('9')\n",
		"import decimal\ndef f(x):\n    return decimal.Decimal('0.3')\n"},
	{"fraction with a string inside", "from fractions import Fraction\nfrom lib import f\ndef holds(raw):\n    return f(2) == Fraction(1, 2)\n",
		"import fractions\nclass F(fractions.Fraction):\n    def __eq__(self, o):\n        return True\n    __hash__ = None\ndef f(x):\n    return F(1, 3)\n",
		"import fractions\ndef f(x):\n    return fractions.Fraction(1, x)\n"},
	{"pickle that runs code", "import pickle\nfrom lib import f\ndef holds(raw):\n    return pickle.loads(f(2)) == 3\n",
		"import pickle\nclass K:\n    def __reduce__(self):\n        return eval, ('3',)\ndef f(x):\n    return pickle.dumps(K())\n",
		"import pickle\ndef f(x):\n    return pickle.dumps(x + 1)\n"},
	{"argument learnt from the stack of the driver", "from lib import f\nEXPECTED = 7731\ndef holds(raw):\n    return f(2) == EXPECTED\n",
		"import gc, sys\ndef f(x):\n    for o in gc.get_objects():\n        if type(o) is dict and 'EXPECTED' in o:\n            return o['EXPECTED']\n    return 0\n",
		"def f(x):\n    return 7731\n"},
}

var theLibrary = regexp.MustCompile(`\blib\b`)

// importing makes a property about lib one about the module lib_<id>.
func importing(property, id string) string { return theLibrary.ReplaceAllString(property, "lib_"+id) }

func TestDeceitsFailAndTheirTwinsPass(t *testing.T) {
	s := scene{limits: many, tree: files{}, properties: files{}}
	for i, d := range deceits {
		for kind, code := range map[string]string{"cheat": d.cheat, "twin": d.twin} {
			id := fmt.Sprintf("%02d%s", i, kind)
			s.tree["lib_"+id+".py"] = code
			s.properties["p"+id] = importing(d.property, id)
		}
	}
	results := s.judge(t, First())
	for i, d := range deceits {
		t.Run(d.name, func(t *testing.T) {
			if r := results[fmt.Sprintf("p%02dcheat", i)]; r.OK || r.TimedOut {
				t.Errorf("cheat: %s", r.summary())
			}
			if r := results[fmt.Sprintf("p%02dtwin", i)]; !r.OK {
				t.Errorf("twin: %s", r.summary())
			}
		})
	}
}

// records are honest dataclasses, in the ways in which properties use them.
var records = []struct{ name, code, old, new, property string }{
	{"defaults, factories, keywords", "from dataclasses import dataclass, field\n@dataclass\nclass Cart:\n    owner: str\n    lines: list = field(default_factory=list)\n    size: int = field(default=0, init=False)\n    def add(self, x):\n        self.lines.append(x)\n        self.size += 1\ndef cart(o):\n    c = Cart(o)\n    c.add('a')\n    return c\n", "+= 1", "+= 2",
		"from lib import Cart, cart\ndef holds(raw):\n    want = Cart('me')\n    want.lines.append('a')\n    want.size = 1\n    return cart('me') == want and cart('me') != Cart(owner='me')\n"},
	{"passed on, then changed by the code", "from dataclasses import dataclass\n@dataclass\nclass Box:\n    items: list\ndef put(b, x):\n    b.items = b.items + [x]\n", "+ [x]", "+ [x, x]",
		"from lib import Box, put\ndef holds(raw):\n    b = Box([1])\n    put(b, 2)\n    return b == Box([1, 2]) and b.items == [1, 2]\n"},
	{"passed on in a list, with records inside", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Line:\n    n: int\n    price: int\n@dataclass\nclass Order:\n    lines: tuple\n    note: str = ''\ndef total(orders):\n    return sum(l.n * l.price for o in orders for l in o.lines)\ndef double(orders):\n    return [Order(o.lines * 2, o.note) for o in orders]\n", "l.n * l.price", "l.n + l.price",
		"from lib import Line, Order, double, total\ndef holds(raw):\n    os = [Order((Line(2, 5), Line(1, 7))), Order((Line(3, 3),), note='x')]\n    return total(os) == 26 and double(os)[1] == Order((Line(3, 3), Line(3, 3)), 'x') and os[0].lines[1] == Line(1, 7)\n"},
	{"round trip of a frozen record", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass V:\n    a: int\n    b: int\ndef show(v):\n    return '%d.%d' % (v.a, v.b)\ndef parse(s):\n    return V(*[int(x) for x in s.split('.')])\n", "(v.a, v.b)", "(v.b, v.a)",
		"from lib import V, parse, show\ndef holds(raw):\n    return all(parse(show(V(i, 2))) == V(i, 2) for i in range(4)) and V(1, 2) in {V(1, 2)}\n"},
	{"wrong arguments", "from dataclasses import dataclass\n@dataclass\nclass V:\n    a: int\ndef f():\n    return V(1)\n", "V(1)", "V(2)",
		"from lib import V, f\ndef holds(raw):\n    bad = 0\n    for args, kw in (((), {}), ((1, 2), {}), ((), {'z': 1}), ((1,), {'a': 1})):\n        try:\n            V(*args, **kw)\n        except TypeError:\n            bad += 1\n    return bad == 4 and f() == V(1)\n"},
	{"methods, copies and asdict of the property's own", "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int = 0\n    def moved(self, d):\n        return P(self.x + d, self.y)\n", "self.x + d", "self.x - d",
		"import copy\nfrom dataclasses import asdict, replace\nfrom lib import P\ndef holds(raw):\n    p = P(1)\n    q = copy.deepcopy(p)\n    q.x = 9\n    r = copy.copy(p)\n    return p.moved(2) == P(3) and p == r == replace(q, x=1) and asdict(P(4, 5)) == {'x': 4, 'y': 5} and 'P(x=1' in repr(P(1))\n"},
	{"validation in the constructor", "from dataclasses import dataclass\n@dataclass\nclass M:\n    n: int\n    def __post_init__(self):\n        if self.n < 0:\n            raise ValueError(self.n)\ndef twice(m):\n    return M(2 * m.n)\n", "2 * m.n", "m.n",
		"from lib import M, twice\ndef holds(raw):\n    try:\n        M(-1)\n    except ValueError:\n        return twice(M(4)).n == 8 and twice(twice(M(4))) != twice(M(4))\n    return False\n"},
	{"enum by name and value, and members of it", "import enum\nclass Tone(enum.Enum):\n    LOW = 1\n    HIGH = 2\nclass Level(enum.IntEnum):\n    A = 1\n    B = 2\ndef tone(x):\n    return Tone.HIGH if x > 5 else Tone.LOW\n", "x > 5", "x >= 5",
		"from lib import Level, Tone, tone\ndef holds(raw):\n    return tone(5) in Tone and tone(5) is Tone['LOW'] is Tone(1) and [m.value for m in Level] == [1, 2] and Level.A != Level.B and tone(6) in (Tone.HIGH,)\n"},
	{"money with arithmetic", "class Money:\n    def __init__(self, n):\n        self.n = n\n    def __mul__(self, k):\n        return Money(self.n * k)\n    __rmul__ = __mul__\n    def __add__(self, o):\n        return Money(self.n + getattr(o, 'n', o))\n    __radd__ = __add__\n    def __sub__(self, o):\n        return Money(self.n - getattr(o, 'n', o))\n    def __floordiv__(self, o):\n        return self.n // o.n\n    def __float__(self):\n        return float(self.n)\n    def __str__(self):\n        return '$%d' % self.n\n", "self.n * k", "self.n",
		"from lib import Money\ndef holds(raw):\n    m = 3 * Money(2) + Money(4)\n    total = sum([Money(1), Money(2)])\n    return str(m) == '$10' and float(m) == 10.0 and m // Money(5) == 2 and str(total) == '$3' and (m - Money(1)).n == 9\n"},
	{"fields that are not compared", "from dataclasses import dataclass, field\n@dataclass(frozen=True, order=True)\nclass J:\n    k: int\n    note: str = field(compare=False, default='')\ndef f(k):\n    return [J(k, 'b'), J(k, 'a')]\n", "J(k, 'a')", "J(k + 1, 'a')",
		"from lib import J, f\ndef holds(raw):\n    a, b = f(1)\n    return a == b == J(1, 'c') and len({a, b}) == 1 and [j.note for j in sorted(f(2))] == ['b', 'a']\n"},
	{"records with a hash that may change", "from dataclasses import dataclass\n@dataclass(unsafe_hash=True)\nclass P:\n    x: int\ndef f(x):\n    return P(x)\n", "P(x)", "P(x + 1)",
		"from lib import P, f\ndef holds(raw):\n    return len({f(1), P(1)}) == 1\n"},
	{"static and class methods that were patched", "class K:\n    @staticmethod\n    def now():\n        return 1\n    @classmethod\n    def name(cls):\n        return cls.__name__\n    def t(self):\n        return self.now()\nclass L(K):\n    pass\n", "return 1", "return 2",
		"from lib import K, L\ndef holds(raw, candidate):\n    with candidate.patch('lib:K.now', returns=5), candidate.patch('lib:K.name', returns='x'):\n        a = K().t(), L.name()\n    return (a, K().t(), L.name()) == ((5, 'x'), 1, 'L')\n"},
	{"exceptions of modules that nobody imported", "import zipfile, wave, binascii, base64\ndef f(x):\n    base64.b64decode(x, validate=True)\ndef g(x):\n    raise __import__('urllib.error').error.URLError(x)\n", "validate=True", "validate=False",
		"from lib import f, g\ndef holds(raw):\n    good = 0\n    try:\n        f('!!!!')\n    except ValueError:\n        good += 1\n    try:\n        g('x')\n    except OSError:\n        good += 1\n    return good == 2\n"},
	{"paths", "import pathlib\ndef where(x):\n    return pathlib.PurePosixPath('/srv') / x\n", "'/srv'", "'/tmp'",
		"from lib import where\ndef holds(raw):\n    return str(where('a') / 'b') == '/srv/a/b' and (where('a') / 'b').name == 'b'\n"},
	{"classes of enums, named tuples and exceptions", "import enum\nfrom collections import namedtuple\nfrom decimal import Decimal\nclass Base:\n    def hi(self):\n        return 'hi'\nclass T(Base, enum.Enum):\n    A = 1\nclass I(enum.IntEnum):\n    A = 1\nclass E(Base, ValueError):\n    pass\nclass P(namedtuple('Q', 'x y')):\n    def __str__(self):\n        return '<%d>' % self.x\ndef f(x):\n    return P(x, 2), T.A, I.A, Decimal\ndef g():\n    raise E('x')\n", "'<%d>' % self.x", "'<%d>' % self.y",
		"import enum\nfrom decimal import Decimal\nimport lib\ndef holds(raw):\n    p, t, i, d = lib.f(1)\n    try:\n        lib.g()\n    except ValueError as e:\n        good = isinstance(e, lib.Base) and isinstance(e, lib.E) and not isinstance(e, lib.T)\n    good = good and isinstance(t, enum.Enum) and isinstance(t, lib.Base) and isinstance(i, enum.IntEnum) and not isinstance(t, (enum.IntEnum, str))\n    return good and issubclass(lib.T, lib.Base) and not issubclass(lib.I, lib.Base) and t.hi() == 'hi' and f'{p}' == '<1>' and p == (1, 2) and d is Decimal\n"},
	{"names that are like Python's own", "class H:\n    def __html__(self):\n        return '<b>'\nclass N:\n    pass\ndef f(x):\n    return [H(), N()]\n", "'<b>'", "'<i>'",
		"from lib import f\ndef holds(raw):\n    h, n = f(1)\n    return h.__html__() == '<b>' and not hasattr(n, '__html__') and not hasattr(h, '__len__')\n"},
	{"numbers of numpy, or of what is made like it", "import numpy\ndef f(x):\n    return [numpy.int64(x), numpy.float64(0.5)], {numpy.int64(1): numpy.float64(2.5)}, {numpy.int64(x)}\n", "0.5)]", "0.25)]",
		"from lib import f\ndef holds(raw):\n    rows, by, all_ = f(3)\n    return rows == [3, 0.5] and type(rows[0]) is int and type(rows[1]) is float and by == {1: 2.5} and all_ == {3}\n"},
	{"generator with send and throw that ends", "def g():\n    try:\n        x = yield 1\n    except ValueError:\n        return 'thrown'\n    return x\n", "return x", "return 0",
		"from lib import g\ndef end(f, *a):\n    try:\n        f(*a)\n    except StopIteration as e:\n        return e.value\ndef holds(raw):\n    a, b = g(), g()\n    next(a), next(b)\n    return end(a.send, 5) == 5 and end(b.throw, ValueError) == 'thrown' and next(a, 'over') == 'over'\n"},
}

// likeNumpy has what the driver looks for in numpy: scalars that are no Python numbers,
// and one that is.
const likeNumpy = "class generic:\n    pass\nclass int64(generic):\n    def __init__(self, v):\n        self.v = v\n    def item(self):\n        return self.v\n    def __hash__(self):\n        return self.v\n    def __eq__(self, o):\n        return True\nclass float64(float, generic):\n    pass\n"

func TestHonestRecordsPassAndTheirBugIsSeen(t *testing.T) {
	s := scene{limits: many, tree: files{"numpy.py": likeNumpy}, properties: files{}}
	for i, r := range records {
		if !strings.Contains(r.code, r.old) {
			t.Fatalf("%s: no place for the bug", r.name)
		}
		for kind, code := range map[string]string{"good": r.code, "bug": strings.Replace(r.code, r.old, r.new, 1)} {
			id := fmt.Sprintf("%02d%s", i, kind)
			s.tree["lib_"+id+".py"] = code
			s.properties["p"+id] = importing(r.property, id)
		}
	}
	results := s.judge(t, First())
	for i, r := range records {
		if got := results[fmt.Sprintf("p%02dgood", i)]; !got.OK || got.Calls == 0 {
			t.Errorf("%s: on good code: %s", r.name, got.summary())
		}
		if got := results[fmt.Sprintf("p%02dbug", i)]; got.OK || !got.Ran {
			t.Errorf("%s: on the bug: %s", r.name, got.summary())
		}
	}
}
