package judge

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// refusedTree is the code that the properties below are about.
var refusedTree = files{"pkg/__init__.py": "", "pkg/sub.py": "def f():\n    return 1\n", "lib.py": `import asyncio, decimal, enum, ipaddress, logging, os, pathlib, random, sys, threading, time, warnings
from collections import Counter, namedtuple
from dataclasses import dataclass


class A:
    n = 1

    def __eq__(self, o):
        return True

    def __lt__(self, o):
        return True

    def __contains__(self, o):
        return True

    def __sub__(self, o):
        return self

    def __abs__(self):
        return 0

    def __add__(self, o):
        return 7

    def startswith(self, o):
        return True


class Shelf(A):
    def __iter__(self):
        return iter([1, 2])


class Lane:
    def __iter__(self):
        return iter([1, 2])


class Err(Exception):
    pass


class Settings(dict):
    pass


class Word(str):
    def loud(self):
        return self.upper()


class Tally(Counter):
    def most(self):
        return self.most_common(1)[0][0]


class Worker(threading.Thread):
    pass


class Rank(enum.Enum):
    LOW = 1
    HIGH = 2

    def __lt__(self, o):
        return self.value < o.value


class Tone(enum.Enum):
    LOW = 1
    BASS = 1


@dataclass
class Made:
    n: int

    def __post_init__(self):
        ROWS.append(self.n)


@dataclass
class User:
    id: int
    name: str = ""

    def __eq__(self, o):
        return self.id == o.id


@dataclass(eq=False)
class Row:
    n: int


@dataclass
class Quiet:
    n: int

    def __post_init__(self):
        self.twice = 2 * self.n


ROWS = [0]


def a():
    return A()


def apply(f, x):
    return f(x)


def show():
    print("hello")


def env():
    return os.environ.get("X"), os.getenv("X")


def roll():
    return random.random()


def now():
    return time.time()


def third():
    return decimal.Decimal(1) / 3


def read(path):
    with open(path) as f:
        return f.read()


def log():
    logging.getLogger("lib").warning("x")


def warn():
    warnings.warn("x")


def asked():
    return sys.stdin.read()


def arguments():
    return sys.argv[1:]


def where():
    return pathlib.PurePosixPath("/a")


def address():
    return ipaddress.ip_address("10.0.0.1")


async def rest(n):
    await asyncio.sleep(n)
    return 1


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def same(x):
    return x
`}

// refused are properties that the judge refuses, in these words, and an honest twin
// of each, which says what its author meant and passes. A twin that is missing is the
// one before it.
var refused = []struct {
	what     string // in REFUSALS of python/judge.py
	name     string
	property string
	words    string
	twin     string
}{
	{"compare", "prefix of an object", `import lib
def holds(raw):
    return lib.a().startswith('x')
`,
		"startswith of a proxied object, which the pushed code would answer; compare plain data",
		`import lib
def holds(raw):
    return lib.same('xy').startswith('x')
`},
	{"equal", "equality of objects", `import lib
def holds(raw):
    return lib.A() == lib.A()
`,
		"== of a proxied A, which is not plain data; compare its values, or use 'is'",
		`import lib
def holds(raw):
    return lib.A().n == lib.A().n and lib.A() is not lib.A()
`},
	{"equal", "equality swallowed", `import lib
def holds(raw):
    try:
        lib.A() == 1
    except BaseException:
        return True
    return True
`,
		"== of a proxied A, which is not plain data; compare its values, or use 'is'",
		""},
	{"equal", "equality that a dataclass has of its own", `import lib
def holds(raw):
    return lib.User(1, 'a') == lib.User(1, 'b')
`,
		"== of a proxied User, which is not plain data; compare its values, or use 'is'",
		`import lib
def holds(raw):
    return lib.User(1, 'a').id == lib.User(1, 'b').id == lib.same(1)
`},
	{"equal", "equality of dataclasses that have none", `import lib
def holds(raw):
    return lib.Row(1) != lib.Row(1)
`,
		"== of a proxied Row, which is not plain data; compare its values, or use 'is'",
		`import lib
def holds(raw):
    return lib.Row(1) is not lib.Row(1) and lib.Row(1).n == lib.same(1)
`},
	{"hash", "objects as members of a set", `import lib
def holds(raw):
    return len({lib.A(), lib.A()}) == 2
`,
		"the hash of a proxied A, which is not plain data (a set member or a key)",
		`import lib
def holds(raw):
    return len({id(x) for x in [lib.A(), lib.A()]}) > 0 and len({lib.A().n, lib.A().n}) == 1
`},
	{"truth", "truth of an object", `import lib
def holds(raw):
    return bool(lib.a())
`,
		"the truth of a proxied A; write 'is not None', or compare a value of it",
		`import lib
def holds(raw):
    return lib.a() is not None
`},
	{"member", "membership of an object", `import lib
def holds(raw):
    return 5 in lib.a()
`,
		"'in' of a proxied A, which the pushed code would answer; compare plain data",
		`import lib
def holds(raw):
    return 5 in lib.same([5])
`},
	{"member", "membership of its own beside iteration", `import lib
def holds(raw):
    return 5 not in lib.Shelf()
`,
		"'in' of a proxied Shelf, which the pushed code would answer; compare plain data",
		`import lib
def holds(raw):
    return 5 not in list(lib.Shelf()) and 2 in lib.Lane()
`},
	{"order", "order of objects", `import lib
def holds(raw):
    return lib.A() < lib.A()
`,
		"the order (<, >) of a proxied A, which is not plain data; compare its values",
		`import lib
def holds(raw):
    return lib.A().n <= lib.A().n
`},
	{"made", "equality of what a constructor made", `import lib
def holds(raw):
    return lib.Quiet(1) == lib.Quiet(1)
`,
		"== or the order of a proxied Quiet whose class has a constructor of its own; compare its fields",
		`import lib
def holds(raw):
    return lib.Quiet(1).n == lib.Quiet(1).n
`},
	{"own", "order that an enum has of its own", `import lib
def holds(raw):
    return lib.Rank.LOW < lib.Rank.HIGH
`,
		"__lt__ of a proxied Rank, whose class has its own; compare plain data",
		`import lib
def holds(raw):
    return lib.Rank.LOW.value < lib.Rank.HIGH.value == lib.same(2)
`},
	{"alias", "alias in an enum", `import lib
def holds(raw):
    return lib.Tone.BASS is lib.Tone.LOW
`,
		"Tone.BASS is another name of LOW",
		`import lib
def holds(raw):
    return lib.Tone(1) is lib.Tone.LOW
`},
	{"difference", "size of a difference", `import lib
def holds(raw):
    return abs(lib.a() - 5.0) < 0.01
`,
		"a difference between a proxied A and plain data; compare its values",
		`import lib
def holds(raw):
    return abs(lib.same(5.0) - 5.0) < 0.01
`},
	{"difference", "attribute of a difference", `import lib
def holds(raw):
    return (lib.a() - 5).n == 1
`,
		"a difference between a proxied A and plain data; compare its values",
		`import lib
def holds(raw):
    return (lib.a() - lib.a()).n == 1
`},
	{"difference", "function of a difference", `import lib
def holds(raw):
    return lib.same(lib.a() - 5) is not None
`,
		"a difference between a proxied A and plain data; compare its values",
		`import lib
def holds(raw):
    return lib.same(lib.a()).n == 1
`},
	{"arithmetic", "arithmetic that gives plain data", `import lib
def holds(raw):
    return lib.a() + 5 == 7
`,
		"arithmetic of a proxied A with plain data (__add__), which the pushed code would answer; compare its values",
		`import lib
def holds(raw):
    return lib.a() + lib.a() == 7
`},
	{"constructor", "constructor that alters what was there", `import lib
def holds(raw):
    rows = lib.ROWS
    lib.Made(1)
    return rows == [0, 1]
`,
		"the constructor of a proxied Made, which alters what was there before",
		`import lib
def holds(raw):
    rows = lib.ROWS
    lib.Quiet(1)
    return rows == [0]
`},
	{"read", "signature", `import inspect
import lib
def holds(raw):
    return len(inspect.signature(lib.apply).parameters) == 2
`,
		"a signature of proxied code cannot be read (__wrapped__)",
		`import inspect
import lib
def holds(raw):
    return len(inspect.signature(holds).parameters) == 1 and lib.same(1) == 1
`},
	{"read", "source", `import lib
def holds(raw):
    return lib.__file__.endswith('.py')
`,
		"the source of proxied code cannot be read (__file__)",
		`def holds(raw, candidate):
    return b'class A' in candidate.read('lib.py')
`},
	{"read", "vars of an object", `import lib
def holds(raw):
    return vars(lib.a()) == {}
`,
		"the dictionary of a proxied object cannot be read (__dict__)",
		`import lib
def holds(raw):
    return lib.a().n == 1
`},
	{"subclass", "subclass", `import lib
class B(lib.A):
    pass
def holds(raw):
    return True
`,
		"a proxied class cannot be subclassed (class B)",
		`import lib
class B:
    pass
def holds(raw):
    return lib.same(1) == 1
`},
	{"subclass", "subclass of an exception", `import lib
def holds(raw):
    try:
        class B(lib.Err):
            pass
    except BaseException:
        pass
    return True
`,
		"a proxied class cannot be subclassed (class B)",
		`import lib
def holds(raw):
    return issubclass(lib.Err, Exception) and lib.same(1) == 1
`},
	{"patch class", "patched class", `import lib
def holds(raw):
    lib.A.n = 2
    return True
`,
		"a proxied class cannot be patched (A.n)",
		`def holds(raw, candidate):
    with candidate.patch('lib:A.n', 2):
        return candidate.call('lib:A').n == 2
`},
	{"patch module", "replaced function", `import lib
def holds(raw):
    lib.now = lambda: 2
    return True
`,
		"a proxied module cannot be patched (lib.now)",
		`def holds(raw, candidate):
    with candidate.patch('lib:now', returns=2):
        return candidate.call('lib:now') == 2
`},
	{"module dict", "patched module", `from unittest import mock
import lib
def holds(raw):
    with mock.patch('lib.now', lambda: 2):
        return True
`,
		"the dictionary of a proxied module cannot be read (vars, patching)",
		`import lib
def holds(raw):
    return 'now' in dir(lib) and lib.same(1) == 1
`},
	{"pickle", "pickle", `import pickle
import lib
def holds(raw):
    return bool(pickle.dumps(lib.a()))
`,
		"a proxied A cannot be pickled",
		`import pickle
import lib
def holds(raw):
    return pickle.loads(pickle.dumps(lib.same([1]))) == [1]
`},
	{"plain", "instance of a class that travels as a dictionary", `import lib
def holds(raw):
    return isinstance(lib.same({}), lib.Settings)
`,
		"whether a value is a Settings of the pushed code: such values travel as plain dict",
		`import lib
def holds(raw):
    return isinstance(lib.Settings(a=1), dict) and lib.Settings(a=1) == {'a': 1} and not isinstance(lib.a(), lib.Settings)
`},
	{"face", "class of an object of a standard class", `import lib
def holds(raw):
    return lib.Worker().__class__.__name__ == 'Worker'
`,
		"the class of a proxied Worker, which is a standard class as well; type(x) is the proxied one",
		`import threading
import lib
def holds(raw):
    w = lib.Worker()
    return type(w) is lib.Worker and isinstance(w, threading.Thread) and not isinstance(w, str) and isinstance(lib.a(), lib.A)
`},
	{"listing", "modules of a package", `import pkgutil
import pkg
def holds(raw):
    return all(m.name for m in pkgutil.iter_modules(pkg.__path__))
`,
		"what a proxied package consists of cannot be listed (__path__); import its modules by name",
		`import pkg
from pkg import sub
import pkg.sub as again
def holds(raw):
    return sub.f() == 1 and again is sub and hasattr(pkg, '__path__')
`},
	{"resource", "resource of a package", `import importlib.resources
import pkg
def holds(raw):
    return not importlib.resources.files(pkg).joinpath('x').is_file()
`,
		"the files of a proxied package cannot be read through it (get_resource_reader); candidate.read reads a file of the pushed tree",
		`def holds(raw, candidate):
    return candidate.read('pkg/sub.py').startswith(b'def f')
`},
	{"reload", "reload", `import importlib
import lib
def holds(raw):
    return importlib.reload(lib) is lib
`,
		"a proxied module cannot be loaded anew (lib); candidate.run starts a fresh process",
		`def holds(raw, candidate):
    return candidate.run([candidate.python, '-c', 'import lib; print(lib.ROWS)']).stdout == b'[0]\n'
`},
	{"reload", "import after a deletion", `import sys
import lib
def holds(raw):
    del sys.modules['lib']
    import lib as again
    return again is not lib
`,
		"a proxied module cannot be loaded anew (lib); candidate.run starts a fresh process",
		`import sys
import lib
def holds(raw):
    import lib as again
    return again is lib is sys.modules['lib'] and lib.same(1) == 1
`},
	{"carry", "own callback", `import lib
def holds(raw):
    return lib.apply(lambda x: x + 1, 1) == 2
`,
		"a callback (function) of the property cannot be passed to the pushed code",
		`import lib
def holds(raw):
    return lib.apply(abs, -2) == 2
`},
	{"carry", "own object", `import io
import lib
def holds(raw):
    return lib.same(io.BytesIO(raw)) is not None
`,
		"an object of the property's own (BytesIO) cannot be passed to the pushed code",
		`import lib
def holds(raw):
    return lib.same(raw) == raw
`},
	{"carry", "own named tuple", `from collections import namedtuple
import lib
P = namedtuple('P', 'x y')
def holds(raw):
    return lib.same([P(1, 2)]) is None
`,
		"a tuple of the property's own class P (pass a plain tuple) cannot be passed to the pushed code",
		`import lib
def holds(raw):
    return lib.same([(1, 2)]) == [(1, 2)]
`},
	{"carry", "own enum that is a number", `import enum
import lib
class E(enum.IntEnum):
    A = 1
def holds(raw):
    return lib.same(E.A) is None
`,
		"a int of the property's own class E (pass a plain int) cannot be passed to the pushed code",
		`import http
import lib
def holds(raw):
    return lib.same(http.HTTPStatus.OK) is http.HTTPStatus.OK and lib.same(1) == 1
`},
	{"carry", "own default", `from collections import defaultdict
import lib
def holds(raw):
    return lib.same(defaultdict(lambda: 1)) == {}
`,
		"a callback (function) of the property cannot be passed to the pushed code",
		`from collections import defaultdict
import lib
def holds(raw):
    d = lib.same(defaultdict(list))
    return d['x'] == [] and d == {'x': []}
`},
	{"file", "file handed over by its path", `import os
import tempfile
import lib
def holds(raw):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'x.txt')
        with open(path, 'w') as f:
            f.write('abc')
        return lib.read(path) == 'abc'
`,
		"a file of the property's own (x.txt), which the pushed code does not see; candidate.write gives it one",
		`import lib
def holds(raw, candidate):
    first = lib.read(candidate.write('a/x.txt', b'abc'))
    return first == 'abc' and lib.read(candidate.write('a/x.txt', 'z')) == 'z'
`},
	{"ambient", "printed output", `import contextlib
import io
import lib
def holds(raw):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        lib.show()
    return out.getvalue() == ''
`,
		"what the property does to sys.stdout and sys.stderr does not reach the pushed code; candidate.run gives what a command prints",
		`import contextlib
import io
import lib
def holds(raw, candidate):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print('own')
    return out.getvalue() == 'own\n' and candidate.run([candidate.python, '-c', 'import lib; lib.show()']).stdout == b'hello\n'
`},
	{"ambient", "standard input", `import io
import sys
import lib
def holds(raw):
    sys.stdin = io.StringIO('x')
    return lib.asked() == ''
`,
		"what the property does to sys.stdin does not reach the pushed code; candidate.run has a standard input",
		`def holds(raw, candidate):
    done = candidate.run([candidate.python, '-c', 'import lib; print(lib.asked())'], stdin='x')
    return done.stdout == b'x\n'
`},
	{"ambient", "command line", `import sys
import lib
def holds(raw):
    sys.argv = ['lib', '-v']
    return lib.arguments() == []
`,
		"what the property does to sys.argv does not reach the pushed code; pass the arguments, or run the command with candidate.run",
		`def holds(raw, candidate):
    return candidate.run([candidate.python, '-c', 'import lib; print(lib.arguments())', '-v']).stdout == b"['-v']\n"
`},
	{"ambient", "environment", `import os
from unittest import mock
import lib
def holds(raw):
    with mock.patch.dict(os.environ, {'X': '1'}):
        return lib.env() == (None, None)
`,
		"what the property does to os.environ does not reach the pushed code; candidate.patch('os:environ', {...}) replaces it there",
		`import os
import lib
def holds(raw, candidate):
    os.environ['X'] = '2'
    del os.environ['X']
    with candidate.patch('os:environ', {'X': '1'}):
        return lib.env() == ('1', '1')
`},
	{"ambient", "working directory", `import os
import lib
def holds(raw):
    os.chdir('/usr')
    return lib.same(1) == 1
`,
		"what the property does to the working directory does not reach the pushed code; pass the path, or start with candidate.run(['/bin/sh', ...])",
		`import os
import lib
def holds(raw):
    old = os.getcwd()
    os.chdir('/usr')
    os.chdir(old)
    return lib.same(1) == 1
`},
	{"ambient", "recursion limit", `import sys
import lib
def holds(raw):
    sys.setrecursionlimit(5000)
    return lib.deep(3000) == 3000
`,
		"what the property does to the recursion limit does not reach the pushed code; candidate.call('sys:setrecursionlimit', n) sets it there",
		`import lib
def holds(raw, candidate):
    candidate.call('sys:setrecursionlimit', 5000)
    return lib.deep(3000) == 3000
`},
	{"ambient", "lower recursion limit", `import sys
import lib
def holds(raw):
    sys.setrecursionlimit(500)
    return lib.deep(600) == 600
`,
		"what the property does to the recursion limit does not reach the pushed code; candidate.call('sys:setrecursionlimit', n) sets it there",
		`import sys
import lib
def holds(raw):
    sys.setrecursionlimit(5000)
    return lib.deep(100) == 100
`},
	{"ambient", "time stopped by mock", `from unittest import mock
import lib
@mock.patch('time.time', lambda: 5)
def holds(raw):
    return lib.now() != 5
`,
		"what the property does to time.time does not reach the pushed code; candidate.patch replaces it there",
		`from unittest import mock
import lib
class Own:
    n = 1
def holds(raw, candidate):
    with mock.patch.object(Own, 'n', 2), candidate.patch('time:time', returns=5):
        return lib.now() == 5 and Own.n == 2
`},
	{"ambient", "mock of what is seldom patched", `import lib
def holds(raw):
    from unittest import mock
    with mock.patch('socket.getaddrinfo', return_value=5):
        return lib.now() > 5
`,
		"what the property does to socket.getaddrinfo does not reach the pushed code; candidate.patch replaces it there",
		`from unittest import mock
import lib
def holds(raw):
    with mock.patch('socket.getaddrinfo', return_value=5) as m:
        m()
    return lib.now() > 5 and m.call_count == 1
`},
	{"ambient", "function replaced by hand", `import time
import lib
def holds(raw):
    time.time = lambda: 5
    return lib.now() != 5
`,
		"what the property does to time.time does not reach the pushed code; candidate.patch replaces it there",
		`import time
import lib
def holds(raw):
    return lib.now() <= time.time()
`},
	{"ambient", "module put in the place of another", `import sys
import types
sys.modules['stripe'] = types.ModuleType('stripe')
import lib
def holds(raw):
    return lib.same(1) == 1
`,
		"what the property does to sys.modules (stripe) does not reach the pushed code; candidate.patch replaces it there",
		`import calendar
import xml.etree.ElementTree
import lib
def holds(raw):
    return lib.same(1) == 1
`},
	{"ambient", "decimals", `import decimal
import lib
def holds(raw):
    with decimal.localcontext() as c:
        c.prec = 3
        return str(lib.third()) != '0.333'
`,
		"what the property does to the context of decimals does not reach the pushed code; candidate.get('decimal:getcontext')() is the one there",
		`import decimal
import lib
def holds(raw, candidate):
    candidate.get('decimal:getcontext')().prec = 3
    with decimal.localcontext() as c:
        c.prec = 5
        own = decimal.Decimal(1) / 3
    return (str(lib.third()), str(own)) == ('0.333', '0.33333')
`},
	{"ambient", "warnings recorded", `import warnings
import lib
def holds(raw):
    with warnings.catch_warnings(record=True) as seen:
        lib.warn()
    return seen == []
`,
		"what the property does to warnings does not reach the pushed code; candidate.run([candidate.python, '-W', 'error', ...]) makes them errors",
		`import warnings
import lib
warnings.simplefilter('ignore')
def holds(raw):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        warnings.warn('own')
    return len(seen) == 1 and lib.warn() is None
`},
	{"ambient", "warnings as errors", `import warnings
import lib
def holds(raw):
    warnings.simplefilter('error')
    return lib.warn() is None
`,
		"what the property does to warnings does not reach the pushed code; candidate.run([candidate.python, '-W', 'error', ...]) makes them errors",
		`def holds(raw, candidate):
    return candidate.run([candidate.python, '-W', 'error', '-c', 'import lib; lib.warn()']).returncode == 1
`},
	{"ambient", "log records", `import unittest
import lib
def holds(raw):
    with unittest.TestCase().assertLogs('lib'):
        lib.log()
        import logging
        logging.getLogger('lib').warning('own')
    return True
`,
		"what the property does to logging (a _CapturingHandler) does not reach the pushed code; candidate.run gives what a command logs",
		`import logging
import lib
logging.basicConfig()
def holds(raw):
    logging.getLogger().warning('own')
    return lib.log() is None
`},
	{"ambient", "seed made of a fixture", `import random
import lib
def holds(raw):
    random.seed(raw)
    return lib.roll() < 1
`,
		"what the property does to random.seed (of a bytes) does not reach the pushed code; random.Random(...) is a generator of the property's own",
		`import random
import lib
def holds(raw):
    random.seed(5)
    first = lib.roll()
    random.seed(5)
    return lib.roll() == first == random.Random(5).random() and random.Random(raw).random() < 1
`},
	{"made of", "text that is run", `import lib
def holds(raw):
    return eval(repr(lib.same('1'))) == '1'
`,
		"what would run text or bytes as code here (eval, exec or compile), which the pushed code may have made; ast.literal_eval or json read plain data",
		`import ast
from collections import namedtuple
import lib
three = eval('1 + 2')
def holds(raw):
    got = ast.literal_eval(repr(lib.same('1')))
    return got == '1' and three == 3 and namedtuple('P', 'x')(1).x == 1
`},
	{"made of", "text that a module runs", `import timeit
import lib
def holds(raw):
    return timeit.timeit(lib.same('pass'), number=1) >= 0
`,
		"what would run text or bytes as code here (eval, exec or compile), which the pushed code may have made; ast.literal_eval or json read plain data",
		""},
	{"made of", "pickle that names a function", `import pickle
import lib
def holds(raw):
    return pickle.loads(lib.same(b"cbuiltins\neval\n(V1\ntR.")) == 1
`,
		"what would run text or bytes as code here (builtins.eval), which the pushed code may have made; ast.literal_eval or json read plain data",
		`import datetime, pickle
from collections import Counter, OrderedDict
from decimal import Decimal
import lib
class Own:
    def __init__(self, n):
        self.n = n
def holds(raw):
    plain = [Counter('aab'), OrderedDict(a=1), Decimal('1.5'), datetime.date(2024, 1, 2), {1, 2}, 1 + 2j, bytearray(b'x')]
    return all(pickle.loads(lib.same(pickle.dumps(plain, p))) == plain for p in range(6)) and pickle.loads(pickle.dumps(Own(3))).n == lib.same(3)
`},
	{"made of", "pickle that reaches through a module", `import pickle
import lib
def holds(raw):
    return pickle.loads(lib.same(b"\x80\x04\x8c\x0bcollections\x8c\x10_sys.getrefcount\x93.")) is not None
`,
		"what would run text or bytes as code here (collections._sys.getrefcount), which the pushed code may have made; ast.literal_eval or json read plain data",
		""},
	{"ambient", "function of the library replaced by hand", `import os
import lib
def holds(raw):
    gone = []
    os.remove = gone.append
    lib.same(1)
    return gone == []
`,
		"what the property does to os.remove does not reach the pushed code; candidate.patch replaces it there",
		`import os
import lib
def holds(raw):
    real, gone = os.remove, []
    os.remove = gone.append
    os.remove('x')
    os.remove = real
    return gone == ['x'] and lib.same(1) == 1
`},
	{"ambient", "module loaded and replaced at once", `import lib
def holds(raw):
    import getpass
    getpass.getuser = lambda: 'me'
    return lib.same(1) == 1
`,
		"what the property does to getpass.getuser does not reach the pushed code; candidate.patch replaces it there",
		`import lib
def holds(raw):
    import getpass
    return lib.same(1) == 1 and callable(getpass.getuser)
`},
	{"ambient", "seed that holds more than a seed needs", `import random
import lib
def holds(raw):
    random.seed(1 << 32)
    return lib.roll() < 1
`,
		"what the property does to random.seed (of a int) does not reach the pushed code; random.Random(...) is a generator of the property's own",
		`import random
import lib
def holds(raw):
    random.seed((1 << 32) - 1)
    return lib.roll() == random.Random((1 << 32) - 1).random()
`},
	{"difference", "difference in a list", `import lib
def holds(raw):
    return lib.same([lib.a() - 5]) is not None
`,
		"a difference between a proxied A and plain data; compare its values",
		`import lib
def holds(raw):
    return lib.same([lib.a() - lib.a()])[0].n == 1
`},
	{"difference", "difference in a tuple at depth", `import lib
def holds(raw):
    return lib.same({'a': (lib.a() - 5,)}) is not None
`,
		"a difference between a proxied A and plain data; compare its values",
		""},
	{"equal", "path that is not another", `import pathlib
import lib
def holds(raw):
    return pathlib.PurePosixPath('/a') != lib.where()
`,
		"== of a proxied PurePosixPath, which is not plain data; compare its values, or use 'is'",
		`import ipaddress
import pathlib
import lib
def holds(raw):
    address = ipaddress.ip_address('10.0.0.1') == lib.address()
    return str(lib.where()) == '/a' and pathlib.PurePosixPath(str(lib.where())) != pathlib.PurePosixPath('/b') and address
`},
	{"read", "subclasses of a class", `import lib
def holds(raw):
    return lib.A.__subclasses__() == []
`,
		"the subclasses of a proxied class cannot be read (__subclasses__)",
		`import lib
def holds(raw):
    return issubclass(lib.Shelf, lib.A) and lib.same(1) == 1
`},
	{"read", "dictionary of a class", `import lib
def holds(raw):
    return not [n for n in vars(lib.A) if n == 'm']
`,
		"the dictionary of a proxied class cannot be read (__dict__)",
		`from collections.abc import Iterable, Sized
import lib
def holds(raw):
    return not hasattr(lib.A, 'm') and isinstance(lib.Lane(), Iterable) and not isinstance(lib.Lane(), Sized)
`},
	{"read", "annotations of a class", `import typing
import lib
def holds(raw):
    return typing.get_type_hints(lib.User) == {}
`,
		"the dictionary of a proxied class cannot be read (__dict__)",
		`from dataclasses import fields
import lib
def holds(raw):
    return [f.name for f in fields(lib.User)] == ['id', 'name'] and lib.same(1) == 1
`},
	{"read", "whether a class is abstract", `import inspect
import lib
def holds(raw):
    return not inspect.isabstract(lib.A)
`,
		"whether a proxied class is abstract cannot be read (__flags__)",
		`import inspect
import lib
def holds(raw):
    return inspect.isclass(lib.A) and not inspect.isclass(lib.a()) and lib.A().n == 1
`},
	{"lost", "method of a class that travels as text", `import lib
def holds(raw):
    return lib.Word('x').loud() == 'X'
`,
		"an attribute (loud) of a Word of the pushed code: such values travel as plain str, without it",
		`import lib
def holds(raw):
    return lib.Word('x') == 'x' and lib.same('x').upper() == 'X'
`},
	{"lost", "method of a class that travels as a Counter", `import lib
def holds(raw):
    return lib.Tally('aab').most() == 'a'
`,
		"an attribute (most) of a Tally of the pushed code: such values travel as plain Counter, without it",
		`import lib
def holds(raw):
    return lib.Tally('aab').most_common(1) == [('a', 2)]
`},
	{"late", "time limit that runs out", `import asyncio
import lib
async def holds(raw):
    try:
        await asyncio.wait_for(lib.rest(0.5), 0.05)
    except asyncio.TimeoutError:
        return False
    return True
`,
		"a timer of the property's (asyncio) ran out while the pushed code was awaited, which cannot be interrupted here",
		`import asyncio
import lib
async def holds(raw):
    return await asyncio.wait_for(lib.rest(0.01), 100) == 1 and await asyncio.gather(lib.rest(0), asyncio.sleep(0, 5)) == [1, 5]
`},
	{"file", "file to be made", `import os
import tempfile
import lib
def holds(raw):
    with tempfile.TemporaryDirectory() as d:
        lib.same(os.path.join(d, 'out.txt'))
        return not os.path.exists(os.path.join(d, 'out.txt'))
`,
		"a file of the property's own (out.txt), which the pushed code does not see; candidate.write gives it one",
		`import lib
def holds(raw, candidate):
    given = candidate.write('in/x.txt', 'abc')
    return lib.same(given[:-5] + 'out.txt').endswith('/in/out.txt') and lib.same('/no/such/x') == '/no/such/x'
`},
	{"face", "class of a member beside isinstance", `import enum
import lib
def holds(raw):
    return isinstance(lib.Rank.LOW, enum.Enum) and lib.Rank.LOW.__class__ is lib.Rank
`,
		"the class of a proxied Rank, which is a standard class as well; type(x) is the proxied one",
		`import enum
import lib
def face(x):
    return x.__class__
def holds(raw):
    m = lib.Rank.LOW
    return isinstance(m, enum.Enum) and not isinstance(m, enum.IntEnum) and type(m) is lib.Rank is face(m) and not isinstance(m, (int, lib.A))
`},
	{"ambient", "filter of a logger", `import logging
import lib
def holds(raw):
    seen = []
    logging.getLogger('lib').addFilter(seen.append)
    lib.log()
    return seen == []
`,
		"what the property does to logging (a filter) does not reach the pushed code; candidate.run gives what a command logs",
		`import logging
import lib
def holds(raw):
    own = logging.getLogger('own')
    own.setLevel(logging.DEBUG)
    own.addHandler(logging.NullHandler())
    logging.disable(logging.CRITICAL)
    return lib.log() is None and lib.same(1) == 1
`},
	{"ambient", "logger with a method of the property's", `import logging
import lib
def holds(raw):
    seen = []
    logging.getLogger('lib').warning = seen.append
    lib.log()
    return seen == []
`,
		"what the property does to logging (a logger) does not reach the pushed code; candidate.run gives what a command logs",
		""},
	{"ambient", "mock of what all modules share", `import sys
from unittest import mock
import lib
def holds(raw):
    with mock.patch.object(sys.stdout, 'write') as w:
        lib.show()
    return not w.called
`,
		"what the property does to sys.stdout.write does not reach the pushed code; candidate.patch replaces it there",
		`from unittest import mock
import lib
class Own:
    n = 1
one = Own()
def holds(raw):
    with mock.patch.object(one, 'n', 2):
        return lib.same(one.n) == 2
`},
	{"ambient", "class of the library that is seldom replaced", `import smtplib
import lib
def holds(raw):
    sent = []
    smtplib.SMTP = sent.append
    return lib.same(1) == 1 and sent == []
`,
		"what the property does to smtplib.SMTP does not reach the pushed code; candidate.patch replaces it there",
		`import lib
def holds(raw):
    import smtplib
    real = smtplib.SMTP
    smtplib.SMTP = None
    smtplib.SMTP = real
    import concurrent.futures
    return concurrent.futures.ThreadPoolExecutor(1).submit(lib.same, 1).result() == 1
`},
	{"ambient", "module that is missing", `import sys
import lib
def holds(raw):
    sys.modules['colorama'] = None
    return lib.same(1) == 1
`,
		"what the property does to sys.modules (colorama) does not reach the pushed code; candidate.patch replaces it there",
		""},
	{"ambient", "module in the place of a loaded one", `import json
import sys
import types
import lib
def holds(raw):
    sys.modules['json'] = types.ModuleType('json')
    return lib.same(1) == 1
`,
		"what the property does to sys.modules (json) does not reach the pushed code; candidate.patch replaces it there",
		""},
	{"ambient", "traps of decimals", `import decimal
import lib
def holds(raw):
    decimal.getcontext().traps[decimal.Inexact] = True
    return str(lib.third()) != ''
`,
		"what the property does to the context of decimals does not reach the pushed code; candidate.get('decimal:getcontext')() is the one there",
		""},
	{"ambient", "state of the random numbers", `import random
import lib
def holds(raw):
    random.seed(5)
    state = random.getstate()
    first = lib.roll()
    random.setstate(state)
    return lib.roll() != first
`,
		"what the property does to random.setstate does not reach the pushed code; candidate.call or candidate.run does it there",
		`import random
import lib
def holds(raw):
    for n in range(3):
        state = random.getstate()
        random.seed(n)
        drawn = lib.roll()
        random.setstate(state)
    return drawn == random.Random(2).random() and 0 <= lib.roll() < 1
`},
	{"ambient", "umask", `import os
import lib
def holds(raw):
    os.umask(0o777)
    return lib.same(1) == 1
`,
		"what the property does to the umask does not reach the pushed code; candidate.call or candidate.run does it there",
		`import os
import lib
def holds(raw):
    os.umask(os.umask(0o77))
    return lib.same(1) == 1
`},
	{"ambient", "time-out of sockets", `import socket
import lib
def holds(raw):
    socket.setdefaulttimeout(3)
    return lib.same(1) == 1
`,
		"what the property does to the default timeout of sockets does not reach the pushed code; candidate.call or candidate.run does it there",
		""},
	{"ambient", "locale", `import locale
import lib
def holds(raw):
    locale.setlocale(locale.LC_ALL, '')
    return lib.same(1) == 1
`,
		"what the property does to the locale does not reach the pushed code; candidate.call or candidate.run does it there",
		`import locale
import lib
def holds(raw):
    return locale.localeconv()['decimal_point'] == '.' and lib.same(1) == 1
`},
	{"program", "program", `import subprocess
import sys
import lib
def holds(raw):
    return subprocess.run([sys.executable, '-m', 'lib']).returncode != 0
`,
		"a property cannot start a program or another process (subprocess.Popen); candidate.run runs one in the pushed tree",
		`import subprocess
import multiprocessing
import threading
import lib
def holds(raw):
    got = []
    t = threading.Thread(target=lambda: got.append(lib.same(1)))
    t.start()
    t.join()
    return got == [1]
`},
	{"program", "program by the shell", `import os
import lib
def holds(raw):
    return os.system('python3 -m lib') != 0
`,
		"a property cannot start a program or another process (os.system); candidate.run runs one in the pushed tree",
		""},
	{"program", "process of multiprocessing", `import multiprocessing
import lib
def holds(raw):
    p = multiprocessing.get_context('spawn').Process(target=print)
    p.start()
    return True
`,
		"a property cannot start a program or another process (multiprocessing); candidate.run runs one in the pushed tree",
		""},
	{"program", "process by fork", `import os
import lib
def holds(raw):
    return os.fork() >= 0
`,
		"a property cannot start a program or another process (os.fork); candidate.run runs one in the pushed tree",
		""},
	{"interrupted", "alarm in the middle of a call", `import signal
import lib
def late(*_):
    raise TimeoutError
def holds(raw):
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        lib.apply(float, 1)
        lib.time.sleep(2)
    except TimeoutError:
        pass
    return lib.same(1) == 1
`,
		"a request to the pushed code was interrupted by TimeoutError",
		`import signal
import lib
def late(*_):
    raise TimeoutError
def holds(raw):
    signal.signal(signal.SIGALRM, late)
    signal.alarm(100)
    got = lib.same(1)
    signal.alarm(0)
    return got == 1
`},
}

func TestRefusalsDecideWhateverHoldsReturnsAndTheirTwinsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("run by root's tests")
	}
	s := scene{limits: many, tree: refusedTree, properties: files{}}
	for i, r := range refused {
		s.properties[fmt.Sprintf("p%02drefused", i)] = r.property
		if r.twin != "" {
			s.properties[fmt.Sprintf("p%02dtwin", i)] = r.twin
		}
	}
	results := s.judge(t, First())
	twins := 0
	for i, r := range refused {
		got := results[fmt.Sprintf("p%02drefused", i)]
		if note, _, _ := strings.Cut(got.Note, "; printed:"); got.Ran || got.OK || got.TimedOut || note != "refused: "+r.words {
			t.Errorf("%s: %s", r.name, got.summary())
		}
		if r.twin == "" {
			continue
		}
		twins++
		if got := results[fmt.Sprintf("p%02dtwin", i)]; !got.OK || got.Calls == 0 {
			t.Errorf("%s: honest twin: %s", r.name, got.summary())
		}
	}
	fmt.Printf("tried: %d refusals of the property judge word for word, %d honest twins\n", len(refused), twins)
}

// TestEveryRefusalHasAProperty: what a property cannot bring about has other tests.
func TestEveryRefusalHasAProperty(t *testing.T) {
	tried := map[string]bool{
		"answer": true, "nonsense": true, // what a cheating candidate says: deceit_test.go, versions_test.go
		"foreign":   true, // node_test.go
		"meanwhile": true, // needs a destructor that runs while an answer is read
	}
	for _, r := range refused {
		tried[r.what] = true
	}
	_, table, _ := strings.Cut(runtime, "\nREFUSALS = {")
	table, _, _ = strings.Cut(table, "\n}")
	names := regexp.MustCompile(`(?m)^    "([a-z ]+)": "`).FindAllStringSubmatch(table, -1)
	if len(names) < 25 {
		t.Fatalf("REFUSALS has %d rows", len(names))
	}
	for _, n := range names {
		if !tried[n[1]] {
			t.Errorf("no property is refused with %q", n[1])
		}
		delete(tried, n[1])
	}
	for name := range tried {
		t.Errorf("no row %q in REFUSALS", name)
	}
}
