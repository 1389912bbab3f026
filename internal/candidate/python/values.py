# How values travel between judge and candidate. Both run this text, each in its
# own process; what one says is only a claim to the other.
#
# A value is JSON made of null, true, false, small integers, strings and arrays
# that open with a tag. Mutable containers never stand inside a value: they are
# named ["r", id] and their content travels beside it, in definitions, so that
# aliases, cycles and changes keep their meaning on both sides.
import posix
import sys

try:
    import _json

    class _Scan:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float = float
        parse_int = int

        @staticmethod
        def parse_constant(name):
            raise ValueError(name)

    _scan = _json.make_scanner(_Scan)
    _encode = _json.make_encoder(None, None, _json.encode_basestring_ascii, None, ":", ",", False, False, False)

    def loads(text):
        value, end = _scan(text, 0)
        if end != len(text):
            raise ValueError("trailing text")
        return value

    def dumps(value):
        return "".join(_encode(value, 0))

except (ImportError, AttributeError, TypeError):
    import json as _slow

    loads = _slow.loads

    def dumps(value):
        return _slow.dumps(value, separators=(",", ":"), allow_nan=False)


MAX_FRAME = 8 << 20
MAX_DEPTH = 64
MAX_DIGITS = 1 << 16
MAX_OBJECTS = 100000
SMALL = 1 << 53


class Bad(Exception):
    """A value that cannot travel, or that makes no sense."""


def read_exact(fd, n):
    parts = []
    while n:
        part = posix.read(fd, min(n, 1 << 20))
        if not part:
            if parts:
                raise EOFError("half a frame")
            return b""
        parts.append(part)
        n -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_frame(fd):
    head = read_exact(fd, 4)
    if not head:
        return None
    n = int.from_bytes(head, "big")
    if n > MAX_FRAME:
        raise EOFError("frame too long")
    return read_exact(fd, n)


def write_frame(fd, text):
    data = text.encode("ascii")
    if len(data) > MAX_FRAME:
        raise Bad("more than 8 MiB in one message")
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[posix.write(fd, data):]


def loaded(module, name):
    """A class of a standard module, if the module is loaded: none of its values exist otherwise."""
    m = sys.modules.get(module)
    t = getattr(m, name, None) if m is not None else None
    return t if isinstance(t, type) else None


BASIC_TYPES = ("int float complex bool str bytes bytearray list tuple dict set frozenset object type range slice").split()

LIST, DICT, SET, BYTES = "l", "d", "s", "B"
COUNTER, ORDERED, DEFAULTING, DEQUE = "c", "O", "f", "q"
COLLECTIONS = (("Counter", COUNTER), ("OrderedDict", ORDERED), ("defaultdict", DEFAULTING), ("deque", DEQUE))
MADE = {LIST: list, DICT: dict, SET: set, BYTES: bytearray}
BORN = "k"  # a dataclass instance of the judge's


def tuple_fields(names):
    """Whether a named tuple may have these fields; rename=True gives _0, _1, …"""
    return len(set(names)) == len(names) and all(
        n.isidentifier() and (n[0] != "_" or n[1:].isdigit()) for n in names if type(n) is str) and all(type(n) is str for n in names)


class Codec:
    """One end of the exchange: the containers that both ends know, and the two directions.

    The judge mints even ids, the candidate odd ones."""

    def __init__(self, first):
        self.next = first
        self.peer = 1 - first % 2
        self.known = {}  # id -> [object, kind, text of its last definition]
        self.ids = {}  # id(object) -> id
        self.pending = []

    # -- out

    def enc(self, v, depth=0):
        f = ENC.get(type(v))
        if f is not None:
            return f(self, v, depth)
        if depth > MAX_DEPTH:
            raise Bad("a value nested deeper than %d" % MAX_DEPTH)
        return self.enc_other(v, depth)

    def enc_other(self, v, depth):
        t = type(v)
        out = self.enc_record(v, t, depth)
        if out is not None:
            return out
        for name, kind in COLLECTIONS:
            base = loaded("collections", name)
            if base is not None and issubclass(t, base):
                return self.whole(t, base) or self.ref(v, kind)
        for base in BASES:
            if issubclass(t, base):
                return self.whole(t, base) or ENC[base](self, v, depth)
        for module, name, f in STANDARD:
            base = loaded(module, name)
            if base is not None and issubclass(t, base):
                return self.whole(t, base) or f(self, v, depth)
        return self.enc_object(v, t)

    def whole(self, t, base):
        """Refuses a subclass where its own ways must not get lost."""

    def enc_record(self, v, t, depth):
        return None

    def enc_object(self, v, t):
        raise Bad("a value of type %s" % t.__name__)

    def ref(self, v, kind):
        i = self.ids.get(id(v))
        if i is None:
            if len(self.known) >= MAX_OBJECTS:
                raise Bad("more than %d containers at once" % MAX_OBJECTS)
            i = self.next
            self.next += 2
            self.ids[id(v)] = i
            self.known[i] = [v, kind, None]
            self.pending.append(i)
        return ["r", i]

    def definition(self, i, v, kind):
        if kind == LIST:
            d = [i, kind]
            d.extend([self.enc(x) for x in list.__iter__(v)])
            return d
        if kind == DICT or kind == COUNTER:
            return self.pairs([i, kind], dict.items(v))
        if kind == ORDERED:
            return self.pairs([i, kind], loaded("collections", "OrderedDict").items(v))
        if kind == DEFAULTING:
            return self.pairs([i, kind, self.enc(v.default_factory)], dict.items(v))
        if kind == DEQUE:
            deque = loaded("collections", "deque")
            d = [i, kind, deque.maxlen.__get__(v)]
            d.extend([self.enc(x) for x in deque.__iter__(v)])
            return d
        if kind == SET:
            return [i, kind] + sorted([self.enc(x) for x in set.__iter__(v)], key=dumps)
        return [i, kind, bytearray.hex(v)]

    def pairs(self, d, items):
        for k, x in list(items):
            d.append(self.enc(k))
            d.append(self.enc(x))
        return d

    def changes(self):
        """Definitions of what changed since the other end last heard, and of what is new."""
        out = []
        for i, entry in list(self.known.items()):
            if entry[2] is not None:
                d = self.definition(i, entry[0], entry[1])
                text = dumps(d)
                if text != entry[2]:
                    entry[2] = text
                    out.append(d)
        return self.news(out)

    def news(self, out):
        while self.pending:
            i = self.pending.pop()
            entry = self.known[i]
            d = self.definition(i, entry[0], entry[1])
            entry[2] = dumps(d)
            out.append(d)
        return out

    def forget(self, i):
        entry = self.known.pop(i, None)
        if entry is not None:
            self.ids.pop(id(entry[0]), None)

    # -- in

    def dec(self, v):
        if type(v) is not list:
            return v
        return DEC[v[0]](self, v)

    def apply(self, definitions):
        self.make(definitions)
        self.fill_all(definitions)

    def make(self, definitions):
        for d in definitions:
            i, kind = d[0], d[1]
            entry = self.known.get(i)
            if entry is None:
                if i % 2 != self.peer % 2 or len(self.known) >= MAX_OBJECTS:
                    raise Bad("a container nobody made")
                make = MADE.get(kind)
                v = make() if make is not None else self.collection(d)
                self.known[i] = [v, kind, None]
                self.ids[id(v)] = i
            elif entry[1] != kind:
                raise Bad("a container that changes its kind")

    def collection(self, d):
        """An empty one of the module collections."""
        module = self.module("collections")
        if d[1] == DEQUE:
            return module.deque((), d[2])
        return getattr(module, {COUNTER: "Counter", ORDERED: "OrderedDict", DEFAULTING: "defaultdict"}[d[1]])()

    def module(self, name):
        return __import__(name)

    def fill_all(self, definitions):
        for d in definitions:
            entry = self.known[d[0]]
            self.fill(entry[0], d)
            text = dumps(d)
            # the two ends spell exceptions and modules in two ways: it is no change that they do
            entry[2] = dumps(self.definition(d[0], entry[0], d[1])) if '["x"' in text or '["m"' in text else text

    def fill(self, v, d):
        kind = d[1]
        try:
            if kind == LIST:
                list.__setitem__(v, slice(None), [self.dec(x) for x in d[2:]])
            elif kind in (DICT, COUNTER, ORDERED, DEFAULTING):
                first = 2
                if kind == DEFAULTING:
                    first, v.default_factory = 3, self.dec(d[2])
                new = [(self.dec(d[n]), self.dec(d[n + 1])) for n in range(first, len(d), 2)]
                v.clear()
                for k, x in new:
                    v[k] = x
            elif kind == DEQUE:
                new = [self.dec(x) for x in d[3:]]
                if v.maxlen != d[2]:
                    raise Bad("a deque of another length")
                v.clear()
                v.extend(new)
            elif kind == SET:
                new = [self.dec(x) for x in d[2:]]
                v.clear()
                v.update(new)
            else:
                v[:] = bytes.fromhex(d[2])
        except TypeError as e:
            raise Bad("a container that cannot be built: %s" % e)

    def dec_ref(self, v):
        entry = self.known.get(v[1])
        if entry is None:
            raise Bad("a container that is not known")
        return entry[0]

    def dec_class(self, v):
        raise Bad("a class here")

    def dec_object(self, v):
        raise Bad("an object here")

    dec_named = dec_enum = dec_exception = dec_module = dec_global = dec_plain = dec_object


def _same(self, v, depth):
    return v


def _int(self, v, depth):
    if type(v) is not int:
        v = int.__pos__(v)
    if -SMALL < v < SMALL:
        return v
    if v.bit_length() > MAX_DIGITS * 4:
        raise Bad("an integer of more than %d digits" % MAX_DIGITS)
    return ["i", hex(v)]


def _str(self, v, depth):
    if type(v) is not str:
        v = str.__str__(v)
    if not v.isascii():
        try:
            v.encode()
        except UnicodeEncodeError:
            return ["u", v.encode("utf-8", "surrogatepass").hex()]
    return v


def _tuple(tag, base):
    def f(self, v, depth):
        if depth > MAX_DEPTH:
            raise Bad("a value nested deeper than %d" % MAX_DEPTH)
        depth += 1
        out = [self.enc(x, depth) for x in base.__iter__(v)]
        if base is frozenset:
            out.sort(key=dumps)
        return [tag] + out

    return f


def _offset(self, z):
    if z is None:
        return None
    zone = loaded("zoneinfo", "ZoneInfo")
    if zone is not None and type(z) is zone and z.key:
        return ["zi", z.key]
    return False


def _zone(self, v, z):
    out = _offset(self, z)
    if out is not False:
        return out
    delta = z.utcoffset(v)
    if delta is None:
        return None
    return ["tz", delta.days, delta.seconds, delta.microseconds]


def _datetime(self, v, depth):
    return ["dt", v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.fold, _zone(self, v, v.tzinfo)]


def _time(self, v, depth):
    return ["tm", v.hour, v.minute, v.second, v.microsecond, v.fold, _zone(self, None, v.tzinfo)]


def _standard_decimal(self, v, depth):
    return ["D", loaded("decimal", "Decimal").__str__(v)]


ENC = {
    type(None): _same,
    bool: _same,
    int: _int,
    str: _str,
    float: lambda self, v, depth: ["f", float.hex(v)],
    complex: lambda self, v, depth: ["c", float.hex(v.real), float.hex(v.imag)],
    bytes: lambda self, v, depth: ["b", bytes.hex(v)],
    tuple: _tuple("t", tuple),
    frozenset: _tuple("z", frozenset),
    list: lambda self, v, depth: self.ref(v, LIST),
    dict: lambda self, v, depth: self.ref(v, DICT),
    set: lambda self, v, depth: self.ref(v, SET),
    bytearray: lambda self, v, depth: self.ref(v, BYTES),
    range: lambda self, v, depth: ["R", self.enc(v.start), self.enc(v.stop), self.enc(v.step)],
    slice: lambda self, v, depth: ["S", self.enc(v.start), self.enc(v.stop), self.enc(v.step)],
    type(NotImplemented): lambda self, v, depth: ["N"],
    type(Ellipsis): lambda self, v, depth: ["E"],
}
BASES = (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
STANDARD = (
    ("decimal", "Decimal", _standard_decimal),
    ("fractions", "Fraction", lambda self, v, depth: ["F", self.enc(v.numerator), self.enc(v.denominator)]),
    ("datetime", "datetime", _datetime),
    ("datetime", "date", lambda self, v, depth: ["da", v.year, v.month, v.day]),
    ("datetime", "time", _time),
    ("datetime", "timedelta", lambda self, v, depth: ["td", v.days, v.seconds, v.microseconds]),
    ("datetime", "timezone", lambda self, v, depth: ["tz"] + _zone(self, None, v)[1:]),
    ("zoneinfo", "ZoneInfo", lambda self, v, depth: ["zi", v.key] if v.key else self.enc_object(v, type(v))),
    ("uuid", "UUID", lambda self, v, depth: ["U", "%032x" % v.int]),
)


def _date_type(name):
    import datetime

    return getattr(datetime, name)


def _dec_zone(v):
    if v is None:
        return None
    if v[0] == "zi":
        import zoneinfo

        return zoneinfo.ZoneInfo(v[1])
    return _date_type("timezone")(_date_type("timedelta")(*v[1:4]))


def _dec_decimal(self, v):
    from decimal import Context, Decimal, InvalidOperation

    try:
        return Decimal(v[1])
    except InvalidOperation:
        raise Bad("a decimal that is none")


def _dec_fraction(self, v):
    from fractions import Fraction

    return Fraction(self.dec(v[1]), self.dec(v[2]))


def _dec_uuid(self, v):
    from uuid import UUID

    return UUID(hex=v[1])


def _guard(f):
    def g(self, v):
        try:
            return f(self, v)
        except Bad:
            raise
        except Exception as e:  # RecursionError too: a depth that no honest value has
            raise Bad("a value that makes no sense: %s" % type(e).__name__)

    return g


DEC = {
    "i": lambda self, v: int(v[1], 16),
    "f": lambda self, v: float.fromhex(v[1]),
    "c": lambda self, v: complex(float.fromhex(v[1]), float.fromhex(v[2])),
    "u": lambda self, v: bytes.fromhex(v[1]).decode("utf-8", "surrogatepass"),
    "b": lambda self, v: bytes.fromhex(v[1]),
    "t": lambda self, v: tuple([self.dec(x) for x in v[1:]]),
    "z": lambda self, v: frozenset([self.dec(x) for x in v[1:]]),
    "R": lambda self, v: range(self.dec(v[1]), self.dec(v[2]), self.dec(v[3])),
    "S": lambda self, v: slice(self.dec(v[1]), self.dec(v[2]), self.dec(v[3])),
    "N": lambda self, v: NotImplemented,
    "E": lambda self, v: Ellipsis,
    "D": _dec_decimal,
    "F": _dec_fraction,
    "U": _dec_uuid,
    "dt": lambda self, v: _date_type("datetime")(*v[1:8], tzinfo=_dec_zone(v[9]), fold=v[8]),
    "da": lambda self, v: _date_type("date")(*v[1:4]),
    "tm": lambda self, v: _date_type("time")(*v[1:5], tzinfo=_dec_zone(v[6]), fold=v[5]),
    "td": lambda self, v: _date_type("timedelta")(*v[1:4]),
    "tz": lambda self, v: _dec_zone(v),
    "zi": lambda self, v: _dec_zone(v),
    "r": lambda self, v: self.dec_ref(v),
    "C": lambda self, v: self.dec_class(v),
    "o": lambda self, v: self.dec_object(v),
    "n": lambda self, v: self.dec_named(v),
    "e": lambda self, v: self.dec_enum(v),
    "x": lambda self, v: self.dec_exception(v),
    "m": lambda self, v: self.dec_module(v),
    "g": lambda self, v: self.dec_global(v),
    "L": lambda self, v: self.dec_plain(v),
    "M": lambda self, v: self.dec_plain(v),
    "G": lambda self, v: self.dec_plain(v),
    "A": lambda self, v: self.dec_plain(v),
    "K": lambda self, v: self.dec_plain(v),
}
for _tag in list(DEC):
    DEC[_tag] = _guard(DEC[_tag])
