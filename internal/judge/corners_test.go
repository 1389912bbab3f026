package judge

// corner is one question about the meaning of an invariant: what a reference
// adapter that follows seed 004 says about some code, and what this package says.
type corner struct {
	name   string
	code   string // of module corner_<n>, with an entry f; or more files after "#file name" lines
	kind   string // "bound" (0 to 500), "idempotent" or "exact_table"
	rows   string
	fields string // more lines of TOML
	entry  string // instead of corner_<n>:f; @ stands for corner_<n>
	seed   bool   // the reference adapter says that it holds
	here   bool   // both passes say so, and agree
	why    string // where the two differ: the reason
}

const (
	asked    = "the author asked for it"
	twoSides = "pushed code would decide whether it is right"
)

// one is a table with one row without arguments.
func one(expected string) string { return `[{"args": [], "expected": ` + expected + `}]` }

const noArgs = `[{}]`

var corners = []corner{
	// -- sequences
	{name: "tuple for list", code: "def f(): return (1, 2)", kind: "exact_table", rows: one("[1, 2]")},
	{name: "tuple for list, sequence", code: "def f(): return (1, 2)", kind: "exact_table", rows: one("[1, 2]"), fields: "sequence = true", here: true, why: asked},
	{name: "nested tuple for list", code: "def f(): return [(1, 2), [3]]", kind: "exact_table", rows: one("[[1, 2], [3]]")},
	{name: "nested tuple for list, sequence", code: "def f(): return {'a': ([1], (2, (3,)))}", kind: "exact_table", rows: one(`{"a": [[1], [2, [3]]]}`), fields: "sequence = true", here: true, why: asked},
	{name: "list", code: "def f(): return [1, 'a', None, [True, {}]]", kind: "exact_table", rows: one(`[1, "a", null, [true, {}]]`), seed: true, here: true},
	{name: "list too long", code: "def f(): return [1, 2, 2]", kind: "exact_table", rows: one("[1, 2]")},
	{name: "empty tuple for empty list", code: "def f(): return ()", kind: "exact_table", rows: one("[]")},
	{name: "list subclass", code: "class L(list): pass\ndef f(): return L([1, 2])", kind: "exact_table", rows: one("[1, 2]"), seed: true, here: true},
	{name: "list in another order", code: "def f(): return [2, 1]", kind: "exact_table", rows: one("[1, 2]")},
	{name: "list in another order, unordered", code: "def f(): return [{'k': 2}, {'k': 1}, [3, 2]]", kind: "exact_table", rows: one(`[[2, 3], {"k": 1}, {"k": 2}]`), fields: "unordered = true", here: true, why: asked},
	{name: "other counts, unordered", code: "def f(): return [1, 1, 2]", kind: "exact_table", rows: one("[1, 2, 2]"), fields: "unordered = true"},
	{name: "unordered within a tolerance", code: "def f(): return [1.1, 1.0]", kind: "exact_table", rows: one("[1.05, 1.15]"), fields: "unordered = true\nabs_tol = 0.0501", here: true, why: asked},
	{name: "named tuple for tuple", code: "from collections import namedtuple\nP = namedtuple('P', 'x y')\nn = [0]\ndef f():\n    n[0] += 1\n    return P(1, 2) if n[0] % 2 else (1, 2)", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "named tuple for list", code: "from collections import namedtuple\ndef f(): return namedtuple('P', 'x y')(1, 2)", kind: "exact_table", rows: one("[1, 2]")},
	{name: "range for list", code: "def f(): return range(3)", kind: "exact_table", rows: one("[0, 1, 2]")},
	{name: "range for list, sequence", code: "def f(): return range(3)", kind: "exact_table", rows: one("[0, 1, 2]"), fields: "sequence = true", here: true, why: asked},
	{name: "ranges with the same items", code: "n = [0]\ndef f():\n    n[0] += 1\n    return range(0, 3, 2) if n[0] % 2 else range(0, 4, 2)", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "deque", code: "from collections import deque\ndef f(): return deque([1, [2]])", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "deque for list", code: "from collections import deque\ndef f(): return deque([1])", kind: "exact_table", rows: one("[1]")},

	// -- iterators
	{name: "generator for list", code: "def f():\n    yield 1\n    yield 2", kind: "exact_table", rows: one("[1, 2]")},
	{name: "generator for list, sequence", code: "def f():\n    yield 1\n    yield 2", kind: "exact_table", rows: one("[1, 2]"), fields: "sequence = true", here: true, why: asked},
	{name: "generator with an item too many, sequence", code: "def f():\n    yield 1\n    yield 2\n    yield 3", kind: "exact_table", rows: one("[1, 2]"), fields: "sequence = true"},
	{name: "generator with an item too few, sequence", code: "def f():\n    yield 1", kind: "exact_table", rows: one("[1, 2]"), fields: "sequence = true"},
	{name: "generator with 50 items too many, sequence", code: "def f():\n    yield 1\n    yield from [2] * 50", kind: "exact_table", rows: one("[1]"), fields: "sequence = true"},
	{name: "endless generator for an empty list, sequence", code: "import itertools\ndef f(): return itertools.count(1)", kind: "exact_table", rows: one("[]"), fields: "sequence = true"},
	{name: "empty generator for an empty list, sequence", code: "def f():\n    yield from ()", kind: "exact_table", rows: one("[]"), fields: "sequence = true", here: true, why: asked},
	{name: "endless generator, then a list, sequence", code: "import itertools\nn = [0]\ndef f():\n    n[0] += 1\n    return itertools.count(1) if n[0] % 2 else [1]", kind: "idempotent", rows: noArgs, fields: "sequence = true"},
	{name: "endless generator, sequence", code: "import itertools\ndef f(): return itertools.count(1)", kind: "exact_table", rows: one("[1, 2, 3]"), fields: "sequence = true", here: true, why: asked},
	{name: "generators inside, sequence", code: "def f(): return {'a': (iter([n, n]) for n in range(2))}", kind: "exact_table", rows: one(`{"a": [[0, 0], [1, 1]]}`), fields: "sequence = true", here: true, why: asked},
	{name: "generator that raises, sequence", code: "def f():\n    yield 1\n    raise ValueError", kind: "exact_table", rows: one("[1]"), fields: "sequence = true"},
	{name: "async generator, sequence", code: "async def f():\n    yield 1\n    yield 2", kind: "exact_table", rows: one("[1, 2]"), fields: "sequence = true", here: true, why: asked},
	{name: "generator twice", code: "def f():\n    yield 1", kind: "idempotent", rows: noArgs},
	{name: "generator twice, sequence", code: "def f():\n    yield 1", kind: "idempotent", rows: noArgs, fields: "sequence = true", here: true, why: asked},

	// -- booleans and integers
	{name: "true for one", code: "def f(): return True", kind: "exact_table", rows: one("1"), seed: true, here: true},
	{name: "one for true", code: "def f(): return [1, 0.0]", kind: "exact_table", rows: one("[true, false]"), seed: true, here: true},
	{name: "true for one, strict", code: "def f(): return True", kind: "exact_table", rows: one("1"), fields: "strict = true", seed: true, why: asked},
	{name: "float for int, strict", code: "def f(): return [2.0]", kind: "exact_table", rows: one("[2]"), fields: "strict = true", seed: true, why: asked},
	{name: "exact types, strict", code: "def f(): return [2, 2.0, True, 'a', {'k': None}]", kind: "exact_table", rows: one(`[2, 2.0, true, "a", {"k": null}]`), fields: "strict = true", seed: true, here: true},
	{name: "true in a bound", code: "def f(): return True", kind: "bound", rows: noArgs, seed: true, why: "a comparison that slipped in where a number belongs"},
	{name: "big integer", code: "def f(n): return n * n", kind: "exact_table", rows: `[{"args": [18446744073709551617], "expected": 340282366920938463500268095579187314689}]`, seed: true, here: true},
	{name: "big integer, one off", code: "def f(n): return n * n + 1", kind: "exact_table", rows: `[{"args": [18446744073709551617], "expected": 340282366920938463500268095579187314689}]`},
	{name: "integer of 4300 digits", code: "def f(n): return n", kind: "exact_table", rows: `[{"args": [` + digits4300 + `], "expected": ` + digits4300 + `}]`, seed: true, here: true},
	{name: "lowered limit of digits", code: "import sys\nsys.set_int_max_str_digits(640)\ndef f(n): return n", kind: "exact_table", rows: `[{"args": [` + digits4300 + `], "expected": ` + digits4300 + `}]`, here: true, why: "reading the row is not the pushed code's business"},
	{name: "integer subclass", code: "class I(int): pass\ndef f(): return I(7)", kind: "exact_table", rows: one("7"), seed: true, here: true},
	{name: "text for number", code: "def f(): return '5'", kind: "exact_table", rows: one("5")},

	// -- floats
	{name: "float for int", code: "def f(): return 2.0", kind: "exact_table", rows: one("2"), seed: true, here: true},
	{name: "int for float", code: "def f(): return 1000", kind: "exact_table", rows: one("1e3"), seed: true, here: true},
	{name: "sum of floats", code: "def f(): return 0.1 + 0.2", kind: "exact_table", rows: one("0.3")},
	{name: "sum of floats, abs_tol", code: "def f(): return [0.1 + 0.2]", kind: "exact_table", rows: one("[0.3]"), fields: "abs_tol = 1e-9", here: true, why: asked},
	{name: "large floats, rel_tol", code: "def f(): return {'a': 1000000.5}", kind: "exact_table", rows: one(`{"a": 1000000}`), fields: "rel_tol = 1e-6", here: true, why: asked},
	{name: "beyond the tolerance", code: "def f(): return 1000002.5", kind: "exact_table", rows: one("1000000"), fields: "rel_tol = 1e-6\nabs_tol = 1.5"},
	{name: "integer beyond the precision of floats", code: "def f(): return 2 ** 53 + 1", kind: "exact_table", rows: one("9007199254740992.0")},
	{name: "integer above a float bound", code: "def f(): return 2 ** 53 + 1", kind: "bound", rows: noArgs, fields: "max = 9007199254740992.0"},
	{name: "negative zero", code: "def f(): return -0.0", kind: "exact_table", rows: one("0"), seed: true, here: true},
	{name: "on the bound", code: "def f(): return 500.0", kind: "bound", rows: noArgs, seed: true, here: true},
	{name: "just above the bound", code: "def f(): return 500.00000000000006", kind: "bound", rows: noArgs},
	{name: "NaN in a bound", code: "def f(): return float('nan')", kind: "bound", rows: noArgs},
	{name: "infinity in a bound", code: "def f(): return float('inf')", kind: "bound", rows: noArgs},
	{name: "NaN twice", code: "import math\ndef f(): return math.nan", kind: "idempotent", rows: noArgs},
	{name: "NaN twice in a list", code: "import math\ndef f(): return [math.nan]", kind: "idempotent", rows: noArgs, seed: true, why: "Python compares items by identity first; here NaN equals nothing at any depth"},
	{name: "infinity twice", code: "def f(): return [float('inf'), float('-inf')]", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "float arguments", code: "def f(x): return repr(x)", kind: "exact_table", rows: `[{"args": [1e-7], "expected": "1e-07"}, {"args": [-0.0], "expected": "-0.0"}, {"args": [1.0], "expected": "1.0"}, {"args": [1e16], "expected": "1e+16"}]`, seed: true, here: true},
	{name: "complex without imaginary part", code: "def f(): return complex(2, 0)", kind: "exact_table", rows: one("2"), seed: true, here: true},
	{name: "complex in a bound", code: "def f(): return complex(2, 0)", kind: "bound", rows: noArgs},

	// -- Decimal and Fraction
	{name: "Decimal for float", code: "from decimal import Decimal\ndef f(): return [Decimal('0.5'), Decimal('2.00'), Decimal('1E+3')]", kind: "exact_table", rows: one("[0.5, 2, 1000]"), seed: true, here: true},
	{name: "Decimal that no float is", code: "from decimal import Decimal\ndef f(): return Decimal('0.1')", kind: "exact_table", rows: one("0.1")},
	{name: "Decimal for text", code: "from decimal import Decimal\ndef f(): return Decimal('1.50')", kind: "exact_table", rows: one(`"1.50"`)},
	{name: "Decimal in a bound", code: "from decimal import Decimal\ndef f(): return Decimal('499.99')", kind: "bound", rows: noArgs, seed: true, here: true},
	{name: "Decimal above a bound", code: "from decimal import Decimal\ndef f(): return Decimal('1E+1000000')", kind: "bound", rows: noArgs},
	{name: "Decimal NaN in a bound", code: "from decimal import Decimal\ndef f(): return Decimal('NaN')", kind: "bound", rows: noArgs},
	{name: "Decimal with other zeros", code: "from decimal import Decimal\nn = [0]\ndef f():\n    n[0] += 1\n    return Decimal('2.50') if n[0] % 2 else Decimal('25E-1')", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "Fraction for float", code: "from fractions import Fraction\ndef f(): return [Fraction(1, 2), Fraction(6, 3)]", kind: "exact_table", rows: one("[0.5, 2]"), seed: true, here: true},
	{name: "Fraction that no float is", code: "from fractions import Fraction\ndef f(): return Fraction(1, 3)", kind: "exact_table", rows: one("0.3333333333333333")},
	{name: "Fraction in a bound", code: "from fractions import Fraction\ndef f(): return Fraction(1001, 2)", kind: "bound", rows: noArgs, fields: "max = 500.5", seed: true, here: true},
	{name: "Decimal and Fraction", code: "from decimal import Decimal\nfrom fractions import Fraction\nn = [0]\ndef f():\n    n[0] += 1\n    return Decimal('0.125') if n[0] % 2 else Fraction(1, 8)", kind: "idempotent", rows: noArgs, seed: true, here: true},

	// -- text, bytes, nothing
	{name: "text", code: "def f(s): return s.upper()", kind: "exact_table", rows: `[{"args": ["stra\u00dfe \ud83d\ude00\u0000"], "expected": "STRASSE \ud83d\ude00\u0000"}]`, seed: true, here: true},
	{name: "text in another normal form", code: "def f(): return 'e\\u0301'", kind: "exact_table", rows: one(`"\u00e9"`)},
	{name: "lone surrogate", code: "def f(): return '\\ud800x'", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "surrogates that make no pair", code: "n = [0]\ndef f():\n    n[0] += 1\n    return '\\ud83d\\ude00' if n[0] % 2 else '\\U0001f600'", kind: "idempotent", rows: noArgs},
	{name: "bytes for text", code: "def f(): return b'a'", kind: "exact_table", rows: one(`"a"`)},
	{name: "bytes and bytearray", code: "n = [0]\ndef f():\n    n[0] += 1\n    return b'a' if n[0] % 2 else bytearray(b'a')", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "none", code: "def f(): return None", kind: "exact_table", rows: one("null"), seed: true, here: true},
	{name: "none for an empty list", code: "def f(): pass", kind: "exact_table", rows: one("[]")},
	{name: "none in a bound", code: "def f(): pass", kind: "bound", rows: noArgs},
	{name: "text in a bound", code: "def f(): return '5'", kind: "bound", rows: noArgs},

	// -- dicts and sets
	{name: "dict in another order", code: "def f(): return {'b': 1, 'a': {'d': 2, 'c': 3}}", kind: "exact_table", rows: one(`{"a": {"c": 3, "d": 2}, "b": 1}`), seed: true, here: true},
	{name: "dict with a key too many", code: "def f(): return {'a': 1, 'b': 2}", kind: "exact_table", rows: one(`{"a": 1}`)},
	{name: "integer keys", code: "def f(): return {1: 'a'}", kind: "exact_table", rows: one(`{"1": "a"}`)},
	{name: "keys that are equal numbers", code: "n = [0]\ndef f():\n    n[0] += 1\n    return {1: 'a', 2.5: 'b'} if n[0] % 2 else {True: 'a', 2.5: 'b'}", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "defaultdict", code: "from collections import defaultdict\ndef f():\n    d = defaultdict(int)\n    d['a'] += 1\n    return d", kind: "exact_table", rows: one(`{"a": 1}`), seed: true, here: true},
	{name: "Counter", code: "from collections import Counter\ndef f(): return Counter('aab')", kind: "exact_table", rows: one(`{"a": 2, "b": 1}`), seed: true, here: true},
	{name: "Counter with a zero", code: "from collections import Counter\nn = [0]\ndef f():\n    n[0] += 1\n    return Counter(a=1, b=0) if n[0] % 2 else Counter(a=1)", kind: "idempotent", rows: noArgs, seed: true, why: "a subclass counts by what its base holds"},
	{name: "OrderedDict for dict", code: "from collections import OrderedDict\ndef f(): return OrderedDict([('b', 1), ('a', 2)])", kind: "exact_table", rows: one(`{"a": 2, "b": 1}`), seed: true, here: true},
	{name: "OrderedDict in another order", code: "from collections import OrderedDict\nn = [0]\ndef f():\n    n[0] += 1\n    return OrderedDict([('b', 1), ('a', 2)][::1 if n[0] % 2 else -1])", kind: "idempotent", rows: noArgs},
	{name: "set for list", code: "def f(): return {1, 2}", kind: "exact_table", rows: one("[1, 2]")},
	{name: "set for list, sequence and unordered", code: "def f(): return {2, 1}", kind: "exact_table", rows: one("[1, 2]"), fields: "sequence = true\nunordered = true", here: true, why: asked},
	{name: "set and frozenset", code: "n = [0]\ndef f():\n    n[0] += 1\n    return {1, (2, 'a')} if n[0] % 2 else frozenset([(2.0, 'a'), True])", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "keys of a dict twice", code: "def f(): return {'a': 1, 'b': 2}.keys()", kind: "idempotent", rows: noArgs, seed: true, here: true},

	// -- dates and times
	{name: "one moment in two offsets", code: "from datetime import datetime, timedelta, timezone\nn = [0]\ndef f():\n    n[0] += 1\n    if n[0] % 2:\n        return datetime(2024, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=1)))\n    return datetime(2024, 2, 29, 23, 30, tzinfo=timezone.utc)", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "naive and aware", code: "from datetime import datetime, timezone\nn = [0]\ndef f():\n    n[0] += 1\n    return datetime(2024, 1, 1, tzinfo=timezone.utc if n[0] % 2 else None)", kind: "idempotent", rows: noArgs},
	{name: "date and datetime", code: "from datetime import date, datetime\nn = [0]\ndef f():\n    n[0] += 1\n    return date(2024, 1, 1) if n[0] % 2 else datetime(2024, 1, 1)", kind: "idempotent", rows: noArgs},
	{name: "time and timedelta", code: "from datetime import time, timedelta, timezone\nn = [0]\ndef f():\n    n[0] += 1\n    return [timedelta(hours=24), time(3, tzinfo=timezone.utc)] if n[0] % 2 else [timedelta(days=1), time(5, tzinfo=timezone(timedelta(hours=2)))]", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "a named zone twice", code: "from datetime import datetime\nfrom zoneinfo import ZoneInfo\ndef f(): return datetime(2024, 7, 1, tzinfo=ZoneInfo('Europe/Oslo'))", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "one moment in two named zones", code: "from datetime import datetime\nfrom zoneinfo import ZoneInfo\nn = [0]\ndef f():\n    n[0] += 1\n    return datetime(2024, 7, 1, tzinfo=ZoneInfo('Europe/Oslo' if n[0] % 2 else 'Europe/Paris'))", kind: "idempotent", rows: noArgs, seed: true, why: "the judge has no time zone data of its own, and the pushed code's may be anything"},
	{name: "date for text", code: "from datetime import date\ndef f(): return date(2024, 1, 1)", kind: "exact_table", rows: one(`"2024-01-01"`)},

	// -- enums, records, objects
	{name: "IntEnum for int", code: "from enum import IntEnum\nclass E(IntEnum):\n    A = 3\ndef f(): return E.A", kind: "exact_table", rows: one("3"), seed: true, here: true},
	{name: "text enum for text", code: "from enum import Enum\nclass E(str, Enum):\n    A = 'a'\ndef f(): return E.A", kind: "exact_table", rows: one(`"a"`), seed: true, here: true},
	{name: "plain enum for its value", code: "from enum import Enum\nclass E(Enum):\n    A = 3\ndef f(): return E.A", kind: "exact_table", rows: one("3")},
	{name: "plain enum twice", code: "from enum import Enum\nclass E(Enum):\n    A = object()\ndef f(): return E.A", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "flags twice", code: "from enum import Flag\nclass E(Flag):\n    A = 1\n    B = 2\ndef f(): return E.A | E.B", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "dataclass twice", code: "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    items: list\ndef f(): return P(1, [2.0])", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "dataclass with another field", code: "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nn = [0]\ndef f():\n    n[0] += 1\n    return P(n[0])", kind: "idempotent", rows: noArgs},
	{name: "dataclass field that is not compared", code: "from dataclasses import dataclass, field\n@dataclass\nclass P:\n    x: int\n    at: int = field(compare=False, default=0)\nn = [0]\ndef f():\n    n[0] += 1\n    return P(1, n[0])", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "dataclass without comparison", code: "from dataclasses import dataclass\n@dataclass(eq=False)\nclass P:\n    x: int\ndef f(): return P(1)", kind: "idempotent", rows: noArgs},
	{name: "two dataclasses", code: "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n@dataclass\nclass Q:\n    x: int\nn = [0]\ndef f():\n    n[0] += 1\n    return (P if n[0] % 2 else Q)(1)", kind: "idempotent", rows: noArgs},
	{name: "dataclass for dict", code: "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef f(): return P(1)", kind: "exact_table", rows: one(`{"x": 1}`)},
	{name: "dataclass with its own ==", code: "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    def __eq__(self, o): return True\nn = [0]\ndef f():\n    n[0] += 1\n    return P(n[0])", kind: "idempotent", rows: noArgs, seed: true, why: twoSides},
	{name: "object with its own ==", code: "class P:\n    def __eq__(self, o): return type(o) is P\ndef f(): return P()", kind: "idempotent", rows: noArgs, seed: true, why: twoSides},
	{name: "one object twice", code: "class P: pass\np = P()\ndef f(): return p", kind: "idempotent", rows: noArgs, seed: true, why: "what changed inside it between the calls cannot be seen"},
	{name: "object equal to everything", code: "class P:\n    def __eq__(self, o): return True\ndef f(): return P()", kind: "exact_table", rows: one("7"), seed: true, why: twoSides},
	{name: "integer subclass with its own ==", code: "class I(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef f(): return I(8)", kind: "exact_table", rows: one("7"), seed: true, why: twoSides},
	{name: "list subclass with its own ==", code: "class L(list):\n    def __eq__(self, o): return True\n    def __iter__(self): return iter([7])\ndef f(): return L()", kind: "exact_table", rows: one("[7]"), seed: true, why: twoSides},
	{name: "number with its own order", code: "class N:\n    def __ge__(self, o): return True\n    def __le__(self, o): return True\ndef f(): return N()", kind: "bound", rows: noArgs, seed: true, why: twoSides},
	{name: "object of the standard library", code: "from types import SimpleNamespace\ndef f(): return SimpleNamespace(x=1)", kind: "idempotent", rows: noArgs, seed: true, why: "the list of types is closed; return a dict or a dataclass"},
	{name: "path and UUID", code: "import uuid\nfrom pathlib import PurePosixPath\ndef f(): return [PurePosixPath('a/b'), uuid.UUID(int=5)]", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "a class twice", code: "class P: pass\ndef f(): return [P, int]", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "a function twice", code: "def f(): return f", kind: "idempotent", rows: noArgs, seed: true, why: "the list of types is closed; return a dict or a dataclass"},
	{name: "an exception as a value", code: "def f(): return ValueError('x')", kind: "idempotent", rows: noArgs},

	// -- repeats and state
	{name: "changed argument", code: "def f(items):\n    items.append(1)\n    return len(items)", kind: "idempotent", rows: `[{"items": []}]`},
	{name: "changed argument that is returned", code: "def f(items):\n    items.append(1)\n    return items", kind: "idempotent", rows: `[{"items": []}]`, seed: true, why: "both results are one object, compared after the second call: it equals itself; here each is written down at once"},
	{name: "state that grows", code: "n = [0]\ndef f():\n    n[0] += 1\n    return n[0]", kind: "idempotent", rows: noArgs},
	{name: "one list that grows", code: "log = []\ndef f():\n    log.append(1)\n    return log", kind: "idempotent", rows: noArgs, seed: true, why: "as for a changed argument that is returned"},
	{name: "third call differs", code: "n = [0]\ndef f():\n    n[0] += 1\n    return n[0] > 2", kind: "idempotent", rows: noArgs, fields: "repeat = 3", seed: true, why: "`repeat` calls are made, not always two"},
	{name: "fresh id a key", code: "import uuid\nknown = {}\ndef f(key): return known.setdefault(key, uuid.uuid4().hex)", kind: "idempotent", rows: `[{"key": "a"}, {"key": "b"}]`, seed: true, here: true},
	{name: "mutable default argument", code: "def f(x, log=[]):\n    log.append(x)\n    return len(log)", kind: "idempotent", rows: `[{"x": 1}]`},
	{name: "cached result", code: "import functools\n@functools.lru_cache(None)\ndef f(x): return [x]", kind: "idempotent", rows: `[{"x": 1}]`, seed: true, here: true},
	{name: "cache that cannot take a list", code: "import functools\n@functools.lru_cache(None)\ndef f(x): return x", kind: "idempotent", rows: `[{"x": []}]`},
	{name: "rows that lean on earlier rows", code: "n = [0]\ndef f():\n    n[0] += 1\n    return n[0]", kind: "exact_table", rows: `[{"args": [], "expected": 1}, {"args": [], "expected": 2}]`, seed: true, why: "the second pass asks the rows in the other order; a row is a claim by itself"},
	{name: "random without a seed", code: "import random\ndef f(): return random.random()", kind: "idempotent", rows: noArgs},
	{name: "random with a seed, twice", code: "import random\ndef f(): return random.random()", kind: "idempotent", rows: noArgs, fields: "seed = 42"},
	{name: "random with a seed, in a table", code: "import random\ndef f(): return random.randrange(1000)", kind: "exact_table", rows: `[{"args": [], "expected": 654}, {"args": [], "expected": 654}]`, fields: "seed = 42", here: true, why: "the seed is set before each row; the adapter of seed 004 leaves it to the test runner"},
	{name: "depends on the environment", code: "import os\ndef f(): return 3 if os.environ.get('TZ') == 'Pacific/Kiritimati' else len(os.environ.get('NOTHING', 'x')) and 3.5", kind: "exact_table", rows: one("3.5"), seed: true, why: "the second pass has another environment"},

	// -- how the entry is called
	{name: "keyword-only parameters", code: "def f(*, weight, zone): return weight * zone", kind: "bound", rows: `[{"zone": 2, "weight": 30}]`, seed: true, here: true},
	{name: "unknown keyword", code: "def f(weight): return weight", kind: "bound", rows: `[{"wieght": 3}]`},
	{name: "missing argument", code: "def f(weight, zone): return weight", kind: "bound", rows: `[{"weight": 3}]`},
	{name: "default arguments", code: "def f(weight, zone=2): return weight * zone", kind: "bound", rows: `[{"weight": 3}, {"weight": 3, "zone": 4}]`, seed: true, here: true},
	{name: "any keywords", code: "def f(**k): return len(k)", kind: "bound", rows: `[{"a": 1, "not a name": 2}]`, seed: true, here: true},
	{name: "positional-only parameter", code: "def f(weight, /): return weight", kind: "bound", rows: `[{"weight": 3}]`},
	{name: "variable arguments", code: "def f(*a): return sum(a)", kind: "exact_table", rows: `[{"args": [1, 2, 3], "expected": 6}, {"args": [], "expected": 0}]`, seed: true, here: true},
	{name: "too many arguments", code: "def f(a): return a", kind: "exact_table", rows: `[{"args": [1, 2], "expected": 1}]`},
	{name: "async function", code: "async def f(x): return x + 1", kind: "exact_table", rows: `[{"args": [1], "expected": 2}]`, here: true, why: "a coroutine is awaited: its result is what the author means"},
	{name: "async function, wrong", code: "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x", kind: "exact_table", rows: `[{"args": [1], "expected": 2}]`},
	{name: "static method", code: "class T:\n    @staticmethod\n    def add(a, b): return a + b", kind: "exact_table", rows: `[{"args": [1, 2], "expected": 3}]`, entry: "@:T.add", here: true, why: "a dotted name is followed; the adapter of seed 004 looks for one attribute with a dot in it"},
	{name: "class method", code: "class T:\n    k = 3\n    @classmethod\n    def times(cls, n): return cls.k * n", kind: "bound", rows: `[{"n": 2}]`, entry: "@:T.times", here: true, why: "a dotted name is followed"},
	{name: "method of an object", code: "class T:\n    def __init__(self, k): self.k = k\n    def times(self, n): return self.k * n\nt = T(3)", kind: "bound", rows: `[{"n": 2}]`, entry: "@:t.times", here: true, why: "a dotted name is followed"},
	{name: "method without an object", code: "class T:\n    def times(self, n): return n", kind: "bound", rows: `[{"n": 2}]`, entry: "@:T.times"},
	{name: "class as entry", code: "from dataclasses import dataclass\n@dataclass\nclass f:\n    x: int", kind: "idempotent", rows: `[{"x": 1}]`, seed: true, here: true},
	{name: "callable object", code: "class T:\n    def __call__(self, n): return n\nf = T()", kind: "bound", rows: `[{"n": 2}]`, seed: true, here: true},
	{name: "partial", code: "import functools\nf = functools.partial(pow, 2)", kind: "exact_table", rows: `[{"args": [10], "expected": 1024}]`, seed: true, here: true},
	{name: "decorated", code: "import functools\ndef twice(g):\n    @functools.wraps(g)\n    def h(*a, **k): return 2 * g(*a, **k)\n    return h\n@twice\ndef f(n): return n", kind: "bound", rows: `[{"n": 2}]`, seed: true, here: true},
	{name: "lambda", code: "f = lambda n: -n", kind: "exact_table", rows: `[{"args": [2], "expected": -2}]`, seed: true, here: true},
	{name: "built-in function", code: "from math import gcd as f", kind: "exact_table", rows: `[{"args": [12, 18], "expected": 6}]`, seed: true, here: true},
	{name: "name from a package's own file", code: "#file @/inner.py\ndef f(n): return n\n#file @/__init__.py\nfrom .inner import f", kind: "bound", rows: `[{"n": 2}]`, seed: true, here: true},
	{name: "module in a package", code: "#file @/__init__.py\n#file @/deep/__init__.py\nK = 4\n#file @/deep/mod.py\nfrom . import K\ndef f(n): return n * K", kind: "bound", rows: `[{"n": 2}]`, entry: "@.deep.mod:f", seed: true, here: true},
	{name: "lazy attribute", code: "def __getattr__(name):\n    if name == 'f':\n        return lambda n: n\n    raise AttributeError(name)", kind: "bound", rows: `[{"n": 2}]`, seed: true, here: true},
	{name: "module that replaces itself", code: "import sys\nclass M:\n    @staticmethod\n    def f(n): return n\nsys.modules[__name__] = M()", kind: "bound", rows: `[{"n": 2}]`, seed: true, here: true},
	{name: "no such name", code: "def g(): return 1", kind: "bound", rows: noArgs},
	{name: "no function", code: "f = 5", kind: "bound", rows: noArgs},
	{name: "import error", code: "import no_such_module_at_all\ndef f(): return 1", kind: "bound", rows: noArgs},
	{name: "exit while importing", code: "import sys\nsys.exit(0)\ndef f(): return 1", kind: "bound", rows: noArgs},
	{name: "side effects of importing", code: "import os\nos.chdir('/')\nprint('loaded')\ndef f():\n    print('called')\n    return 1", kind: "bound", rows: noArgs, seed: true, here: true},
	{name: "threads", code: "import threading\ndef f():\n    out = []\n    t = threading.Thread(target=lambda: out.append(5))\n    t.start()\n    t.join()\n    return out", kind: "exact_table", rows: one("[5]"), seed: true, here: true},

	// -- what goes wrong
	{name: "exception", code: "def f(): raise ValueError('x')", kind: "bound", rows: noArgs},
	{name: "exception in the last row", code: "def f(n): return 1 // n", kind: "bound", rows: `[{"n": 1}, {"n": 0}]`},
	{name: "exception twice", code: "def f(): raise KeyError(1)", kind: "idempotent", rows: noArgs},
	{name: "exception of no Exception", code: "class E(BaseException): pass\ndef f(): raise E", kind: "bound", rows: noArgs},
	{name: "SystemExit", code: "import sys\ndef f(): sys.exit(0)", kind: "idempotent", rows: noArgs},
	{name: "KeyboardInterrupt", code: "def f(): raise KeyboardInterrupt", kind: "idempotent", rows: noArgs},
	{name: "StopIteration", code: "def f(): return next(iter([]))", kind: "idempotent", rows: noArgs},
	{name: "end of the process", code: "import os\ndef f(): os._exit(3)", kind: "idempotent", rows: noArgs},
	{name: "endless recursion", code: "def f(): return f()", kind: "bound", rows: noArgs},
	{name: "deep recursion", code: "def f(n): return n and 1 + f(n - 1)", kind: "bound", rows: `[{"n": 400}]`, seed: true, here: true},

	// -- size
	{name: "100000 items", code: "def f(): return list(range(100000))", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "nine megabytes", code: "def f(): return 'x' * (9 << 20)", kind: "idempotent", rows: noArgs, seed: true, why: "an answer is bounded: 8 MiB and half a million values"},
	{name: "50 levels", code: "def f():\n    v = 1\n    for _ in range(50): v = [v]\n    return v", kind: "idempotent", rows: noArgs, seed: true, here: true},
	{name: "100 levels", code: "def f():\n    v = 1\n    for _ in range(100): v = [v]\n    return v", kind: "idempotent", rows: noArgs, seed: true, why: "a value is bounded: 64 levels"},
	{name: "list inside itself", code: "v = []\nv.append(v)\ndef f(): return v", kind: "idempotent", rows: noArgs, seed: true, why: "a value is bounded: 64 levels"},
}

var digits4300 = "1" + zeros(4298) + "7"

func zeros(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0'
	}
	return string(b)
}
