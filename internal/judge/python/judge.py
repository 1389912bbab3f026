# The property judge. It holds the sealed tree and never runs pushed code: a name
# of the pushed tree is imported as a proxy, whose calls hookd carries to the
# candidate and whose answers it checks on the way back.
#
# The main process reads orders on descriptor 3, reports on 4, and forks once a
# property; the child of slot n talks to hookd on 5+2n and 6+2n. A frame of a
# child opens with a letter: Q a request for the candidate, N a call to Node, F a file
# of the pushed tree, R a report. An answer opens with A (reply), B (bytes), E (refused).
import _thread
import abc
import ast
import builtins
import copy
import dataclasses
import enum
import gc
import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import signal
import types
import weakref

ORDERS, REPORTS = 3, 4
SESSION = None
MAX_NOTE = 500


class Refused(BaseException):
    """Never seen by a property: the process ends where it is raised."""


# Every refusal, in the words that maintainers read. What is refused either lets the
# pushed code answer the comparison, or would silently mean something else here than
# in one process.
REFUSALS = {
    # what the pushed code would answer
    "compare": "%s of a proxied object, which the pushed code would answer; compare plain data",
    "equal": "== of a proxied %s, which is not plain data; compare its values, or use 'is'",
    "hash": "the hash of a proxied %s, which is not plain data (a set member or a key)",
    "truth": "the truth of a proxied %s; write 'is not None', or compare a value of it",
    "member": "'in' of a proxied %s, which the pushed code would answer; compare plain data",
    "order": "the order (<, >) of a proxied %s, which is not plain data; compare its values",
    "made": "== or the order of a proxied %s whose class has a constructor of its own; compare its fields",
    "own": "%s of a proxied %s, whose class has its own; compare plain data",
    "alias": "%s.%s is another name of %s",
    "difference": "a difference between a proxied %s and plain data; compare its values",
    "arithmetic": "arithmetic of a proxied %s with plain data (%s), which the pushed code would answer; compare its values",
    "constructor": "the constructor of a proxied %s, which alters what was there before",
    # what a proxy has not
    "read": "%s cannot be read (%s)",
    "subclass": "a proxied class cannot be subclassed (class %s)",
    "patch class": "a proxied class cannot be patched (%s.%s)",
    "patch module": "a proxied module cannot be patched (%s.%s)",
    "module dict": "the dictionary of a proxied module cannot be read (vars, patching)",
    "plain": "whether a value is a %s of the pushed code: such values travel as plain %s",
    "face": "the class of a proxied %s, which is a standard class as well; type(x) is the proxied one",
    "pickle": "a proxied %s cannot be pickled",
    "listing": "what a proxied package consists of cannot be listed (__path__); import its modules by name",
    "resource": "the files of a proxied package cannot be read through it (%s); candidate.read reads a file of the pushed tree",
    "reload": "a proxied module cannot be loaded anew (%s); candidate.run starts a fresh process",
    "carry": "%s cannot be passed to the pushed code",
    "file": "a file of the property's own (%s), which the pushed code does not see; candidate.write gives it one",
    # what happens in this process and not in the other one
    "ambient": "what the property does to %s does not reach the pushed code; %s",
    "made of": "what would run text or bytes as code here (%s), which the pushed code may have made; ast.literal_eval or json read plain data",
    "program": "a property cannot start a program or another process (%s); candidate.run runs one in the pushed tree",
    # answers that make no sense
    "answer": "an answer of the pushed code is refused: %s",
    "foreign": "what Node and programs take is JSON (None, bool, int, float, str, lists and dictionaries of these), and what they give is plain data: %s",
    "nonsense": "an answer of the pushed code makes no sense: %s",
    "interrupted": "a request to the pushed code was interrupted by %s",
    "late": "a timer of the property's (asyncio) ran out while the pushed code was awaited, which cannot be interrupted here",
    "lost": "an attribute (%s) of a %s of the pushed code: such values travel as plain %s, without it",
    "meanwhile": "the pushed code was asked (%s) while an answer of it was read",
}


def refuse(what, *about):
    try:
        SESSION.report("refused", REFUSALS[what] % about)
    finally:
        SESSION.leave()


# ---------------------------------------------------------------- proxies

REFUSED = {
    "__code__": "the source of proxied code", "__file__": "the source of proxied code", "__globals__": "the source of proxied code",
    "__closure__": "the source of proxied code", "__loader__": "the source of proxied code",
    "__signature__": "a signature of proxied code", "__wrapped__": "a signature of proxied code",
    "__defaults__": "a signature of proxied code", "__kwdefaults__": "a signature of proxied code",
    "__annotations__": "a signature of proxied code", "__text_signature__": "a signature of proxied code",
    "__dict__": "the dictionary of a proxied object",
}
ASKED = {"__name__", "__qualname__", "__doc__", "__version__", "__all__", "__author__", "__notes__", "__self__", "__func__", "__members__"}
_TOKEN = object()
# Methods of plain data whose answer says how it compares to an argument: asked of
# an object, the pushed code would be told what is expected and answer for itself.
COMPARING = {"startswith", "endswith", "issubset", "issuperset", "isdisjoint", "symmetric_difference", "difference", "intersection"}


ABSTRACT = {"collections.abc", "numbers", "io", "os", "contextlib"}
PLAIN_NAMES = {t.__name__: t for t in BASES}


def remote(target, name):
    if name in COMPARING and type(target) is not ProxyModule:
        refuse("compare", name)
    if name[:2] == "__" and name[-2:] == "__" and name not in ASKED:
        what = REFUSED.get(name)
        if what is None and not protocol(name) and sys._getframe(2).f_code.co_filename.startswith(SEALED + "/"):
            return SESSION.get(target, name)  # one that people made up: __html__
        if what is None or name == "__file__" and sys._getframe(2).f_code.co_name == "getmodule":
            raise AttributeError(name)
        refuse("read", what, name)
    value = SESSION.get(target, name)
    if is_opaque(value) or type(value) is ProxyModule:
        asking = sys._getframe(2).f_code
        if asking.co_name in COMPARISONS and not asking.co_filename.startswith(SEALED + "/"):
            refuse("equal", type(target).__name__)  # of a Path: whether two flavours are one object
    return value


COMPARISONS = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"}
PROTOCOL = frozenset(
    "copy deepcopy replace reduce reduce_ex getstate setstate getnewargs getnewargs_ex getinitargs missing length_hint set_name get set "
    "delete slots weakref match_args post_init abstractmethods isabstractmethod class_getitem mro_entries prepare instancecheck "
    "subclasscheck init_subclass subclasshook dataclass_fields dataclass_params type_params orig_class orig_bases parameters origin "
    "args objclass path spec loader package builtins cached file all warningregistry buffer release_buffer del getattr getattribute "
    "wrapped signature static_attributes firstlineno annotate annotate_func annotations_cache conditional_annotations iter next "
    "traceback cause context suppress_context notes".split())


def protocol(name):
    """Whether a name with two underscores is Python's own, or numpy's."""
    return name in OPERATORS or name[2:-2] in PROTOCOL or hasattr(type, name) or name[:7] == "__array"


def _asked_of_class(name, what):
    """What the library may ask of a proxied class, and a property may not: the answer is the judge's."""
    real = type.__dict__.get(name)

    def f(cls):
        frame = sys._getframe(1)
        file = frame.f_code.co_filename
        if real is None or file.startswith(SEALED + "/") or frame.f_globals.get("__name__") in ("inspect", "typing", "pydoc"):
            refuse("read", what, name)
        return real.__get__(cls)

    return property(f)


class ProxyMeta(type):
    _sg_more = frozenset()  # proxied classes that it is a subclass of, and the judge's image is not
    _sg_face = None  # the standard class of an enum
    _sg_lost = ""  # the type that values of it travel as, if they are no objects
    _sg_plain = ()  # of which plain types a class is a subclass
    _sg_equal = True  # whether instances are equal by their fields, where they have any
    _sg_stopping = ()  # methods that end by StopIteration, of generators and coroutines
    __dict__ = _asked_of_class("__dict__", "the dictionary of a proxied class")
    __subclasses__ = _asked_of_class("__subclasses__", "the subclasses of a proxied class")
    __annotations__ = _asked_of_class("__annotations__", "a signature of proxied code")
    __abstractmethods__ = _asked_of_class("__abstractmethods__", "the abstract methods of a proxied class")
    __flags__ = _asked_of_class("__flags__", "whether a proxied class is abstract")

    def __new__(meta, name, bases, space, token=None):
        if token is not _TOKEN:
            refuse("subclass", name)
        return type.__new__(meta, name, bases, space)

    def __init__(cls, name, bases, space, token=None):
        type.__init__(cls, name, bases, space)

    def __call__(cls, *args, **kwargs):
        if cls._sg_kind != "D":
            return SESSION.call(cls, args, kwargs)
        return SESSION.record(cls, args, kwargs)

    def __getattr__(cls, name):
        return remote(cls, name)

    def __setattr__(cls, name, value):
        refuse("patch class", cls.__name__, name)

    def __delattr__(cls, name):
        refuse("patch class", cls.__name__, name)

    def __iter__(cls):
        return SESSION.op("__iter__", cls)

    def __len__(cls):
        return SESSION.op("__len__", cls)

    def __instancecheck__(cls, v):
        if type.__instancecheck__(cls, v) or type(type(v)) is ProxyMeta and cls in type(v)._sg_more:
            return True
        if cls._sg_plain and isinstance(v, cls._sg_plain) and type(v) not in (bool, type(None)):
            refuse("plain", cls.__name__, type(v).__name__)
        return False

    def __subclasscheck__(cls, c):
        return type.__subclasscheck__(cls, c) or type(c) is ProxyMeta and cls in c._sg_more

    def __contains__(cls, item):
        return any(m is item or m == item for m in cls)

    def __getitem__(cls, item):
        return own_name(cls, item, SESSION.op("__getitem__", cls, item))

    def __bool__(cls):
        return True


class Opaque(metaclass=ProxyMeta, token=_TOKEN):
    # A dataclass that the property made is local: its fields are the judge's, and the
    # candidate hears of it when it is passed on. Marks: "made" by a constructor of
    # the pushed code's own, "derived" from plain data that is a secret, or "shifted" by it.
    __slots__ = ("_sg_handle", "_sg_local", "_sg_mark", "__weakref__")
    _sg_kind = "o"
    _sg_dunders = frozenset()
    _sg_order = _sg_frozen = _sg_pure = False
    _sg_hash, _sg_compare = "own", ()

    def __getattr__(self, name):
        local = slot(LOCAL, self)
        if local is not None and name in local:
            return local[name]
        if name[:4] == "_sg_":
            raise AttributeError(name)
        return remote(self, name)

    def __setattr__(self, name, value):
        local = slot(LOCAL, self)
        if local is not None and name in local:
            if type(self)._sg_frozen:
                raise dataclasses.FrozenInstanceError("cannot assign to field %r" % name)
            local[name] = value
            return
        SESSION.blind(value)
        SESSION.ask("set", SESSION.enc(self), name, SESSION.enc(value))

    @property
    def __class__(self):
        """What isinstance asks where the type alone does not say yes."""
        cls = type(self)
        face = standard_face(cls)
        if face is None:
            return cls
        if face.__name__ != cls.__name__ and "__class__" in sys._getframe(1).f_code.co_names:
            refuse("face", cls.__name__)
        return face

    def __delattr__(self, name):
        SESSION.ask("del", SESSION.enc(self), name)

    def __del__(self):
        handle = slot(HANDLE, self)
        if handle is not None:
            SESSION.dead.append(handle)

    def __eq__(self, other):
        cls, kind = type(self), type(type(other))
        if cls._sg_kind != "D" or not cls._sg_equal or kind is ProxyModule:
            refuse("equal", cls.__name__)
        if kind is ProxyMeta and (type(other)._sg_kind == "o" or not type(other)._sg_equal):
            refuse("equal", cls.__name__)
        if kind is not ProxyMeta:
            return NotImplemented
        if cls is not type(other):
            return False
        return self is other or picture(self) == picture(other)

    def __ne__(self, other):
        equal = Opaque.__eq__(self, other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self):
        cls = type(self)
        if cls._sg_kind != "D" or cls._sg_hash == "own":
            refuse("hash", cls.__name__)
        if cls._sg_hash != "fields":
            raise TypeError("unhashable type: %r" % cls.__name__)
        return hash(picture(self))

    def __bool__(self):
        cls = type(self)
        if cls._sg_kind != "D" or cls._sg_dunders & {"__bool__", "__len__"}:
            refuse("truth", cls.__name__)
        return True

    def __str__(self):
        return SESSION.unary("__str__", self)

    def __repr__(self):
        return SESSION.unary("__repr__", self)

    def __format__(self, spec):
        return SESSION.unary("__format__", self, spec)

    def __dir__(self):
        return SESSION.unary("__dir__", self)

    def __copy__(self):
        local = slot(LOCAL, self)
        return SESSION.unary("__copy__", self) if local is None else new_local(type(self), dict(local))

    def __deepcopy__(self, memo):
        local = slot(LOCAL, self)
        return SESSION.unary("__deepcopy__", self) if local is None else new_local(type(self), copy.deepcopy(local, memo))

    def __contains__(self, item):
        dunders = type(self)._sg_dunders
        if "__iter__" not in dunders or "__contains__" in dunders:
            refuse("member", type(self).__name__)
        return any(x is item or x == item for x in self)

    def __reduce_ex__(self, protocol):
        refuse("pickle", type(self).__name__)


# Builtin types by the names that they give themselves.
TYPES = {t.__name__: t for t in (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.GeneratorType,
                                 types.CoroutineType, types.AsyncGeneratorType, types.MappingProxyType)}


def standard_face(cls):
    """The standard class that an object of a proxied class is an instance of, as the candidate
    says. None of a kind that travels as plain data: what is no such data is none."""
    for c in cls.__mro__:
        if c is Opaque:
            return None
        module = c.__module__
        if module == "builtins":
            found = TYPES.get(c.__name__) or getattr(builtins, c.__name__, None)
        elif module in STANDARD_MODULES:
            found = getattr(sys.modules.get(module), c.__qualname__, None)
        else:
            continue
        if isinstance(found, type) and not isinstance(found, (ProxyMeta, abc.ABCMeta)) and not issubclass(found, PLAIN):
            return found
    return None


def standard_class(cls):
    """The class of the standard library that a proxied one is the image of, where the judge has loaded it."""
    if cls.__module__ in STANDARD_MODULES:
        return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None)
    return None


def _order(name):
    def compare(self, other):
        cls = type(self)
        if cls._sg_kind != "D" or not cls._sg_order:
            refuse("order", cls.__name__)
        if type(other) is not cls:
            return NotImplemented
        return getattr(picture(self).fields, name)(picture(other).fields)

    return compare


for _name in ("__lt__", "__le__", "__gt__", "__ge__"):
    type.__setattr__(Opaque, _name, _order(_name))


HANDLE, LOCAL, MARK = Opaque._sg_handle, Opaque._sg_local, Opaque._sg_mark


def slot(descriptor, v):
    try:
        return descriptor.__get__(v)
    except AttributeError:
        return None


def new_local(cls, fields):
    v = object.__new__(cls)
    LOCAL.__set__(v, fields)
    return v


def is_opaque(v):
    return type(type(v)) is ProxyMeta and issubclass(type(v), Opaque)


def picture(v):
    """A value with every dataclass in it as Plain. What the property itself made comes from
    the judge: the candidate would see in it what its own answers are compared with."""
    t = type(v)
    if type(t) is ProxyMeta and t._sg_kind == "D":
        local = slot(LOCAL, v)
        if local is not None:
            return Plain(t, tuple([picture(x) for x, compared in zip(local.values(), t._sg_compare) if compared]))
        mark = slot(MARK, v)
        if mark == "made":
            refuse("made", t.__name__)
        if mark == "derived":
            refuse("difference", t.__name__)
        return SESSION.plain(v)
    if t is list or t is set or t is frozenset:
        return t([picture(x) for x in v])
    if isinstance(v, tuple):
        return tuple.__new__(t, [picture(x) for x in tuple.__iter__(v)])
    if t is dict:
        return {k: picture(x) for k, x in v.items()}
    return v


def own_name(cls, name, value):
    """An enum's member under the name that was asked for; an alias would make two members one."""
    if cls._sg_kind == "e" and type(value) is cls and value._name_ != name:
        refuse("alias", cls.__name__, name, value._name_)
    return value


class Plain:
    """The picture of a dataclass instance: its class and the values of its fields."""

    __slots__ = ("cls", "fields")

    def __init__(self, cls, fields):
        self.cls, self.fields = cls, fields

    def __eq__(self, other):
        return type(other) is Plain and self.cls is other.cls and self.fields == other.fields

    def __hash__(self):
        return hash((id(self.cls), self.fields))

    def __lt__(self, other):
        return self._ordered(other) and self.fields < other.fields

    def __gt__(self, other):
        return self._ordered(other) and self.fields > other.fields

    def __le__(self, other):
        return self._ordered(other) and self.fields <= other.fields

    def __ge__(self, other):
        return self._ordered(other) and self.fields >= other.fields

    def _ordered(self, other):
        if type(other) is not Plain or self.cls is not other.cls or not self.cls._sg_order:
            raise TypeError("'<' not supported between these objects")
        return True


def _unary(name):
    def f(self, *args):
        return SESSION.unary(name, self, *args)

    return f


def _binary(name):
    def f(self, other, *more):
        return SESSION.binary(name, self, other, (self, other, *more))

    return f


def _reflected(name):
    def f(self, other):
        return SESSION.binary(name, self, other, (other, self))

    return f


def _call(self, *args, **kwargs):
    return SESSION.call(self, args, kwargs)


def _exit(self, kind, error, traceback):
    return SESSION.ask("exit", SESSION.enc(self), SESSION.enc_error(error))


def _aexit(self, kind, error, traceback):
    return SESSION.ask("aexit", SESSION.enc(self), SESSION.enc_error(error))


def timers():
    """What is to happen in the running loop at a time, and has not yet."""
    events = sys.modules.get("asyncio.events")
    loop = events._get_running_loop() if events is not None else None
    now = loop.time() if loop is not None else 0
    return loop, [t for t in getattr(loop, "_scheduled", ()) if not t._cancelled and t._when > now]


def awaited(v):
    """The pushed code is waited for as a whole: a time limit that runs out meanwhile would have cancelled it."""
    loop, waiting = timers()
    try:
        return SESSION.wait(v)
    finally:
        if waiting and any(not t._cancelled and t._when <= loop.time() for t in waiting):
            refuse("late")


def _await(self):
    return awaited(self)
    yield


def _send(self, value):
    raise StopIteration(awaited(self))


def _throw(self, kind, value=None, traceback=None):
    raise kind if value is None else value


def _close(self):
    return None


OPERATORS = {"__%s__" % n: _unary("__%s__" % n) for n in
             "len iter next reversed getitem setitem delitem enter aenter aiter anext int float complex index bytes neg "
             "pos abs invert round trunc floor ceil fspath".split()}
for _name in ("add sub mul matmul truediv floordiv mod divmod pow lshift rshift and "
              "xor or iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ixor ior").split():
    OPERATORS["__%s__" % _name] = _binary("__%s__" % _name)
# What may be done to a difference without a look at how large it is.
BLIND = {"__enter__", "__aenter__", "__setitem__", "__delitem__"}
DIFFERENCES = {"__sub__", "__floordiv__", "__mod__", "__divmod__", "__and__", "__xor__", "__or__", "__isub__", "__ifloordiv__",
               "__imod__", "__iand__", "__ixor__", "__ior__"}
RATIOS = {"__truediv__", "__itruediv__"}  # of numbers; otherwise a path, most likely
# What is a difference as well where a number is added that is not 0, or multiplied with that is not whole.
SHIFTS = {"__add__", "__radd__", "__iadd__", "__mul__", "__rmul__", "__imul__"}
SIZES = {"__abs__", "__round__", "__int__", "__float__", "__complex__", "__index__", "__len__", "__trunc__", "__floor__", "__ceil__"}
for _name in "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or".split():
    OPERATORS["__r%s__" % _name] = _reflected("__%s__" % _name)
OPERATORS.update({"__call__": _call, "__exit__": _exit, "__aexit__": _aexit, "__await__": _await})


def shifts(name, number):
    t = type(number)
    if name not in SHIFTS or t is not int and t is not float and t is not complex and t.__module__ not in ("decimal", "fractions"):
        return False
    return t is not int or "add" in name and number != 0


class EnumMember:
    """Mixed into the judge's image of an enum class; there is one object a member."""

    __slots__ = ()

    @property
    def __class__(self):
        """What isinstance asks where the type alone does not say yes: whether it is an Enum."""
        cls, names = type(self), sys._getframe(1).f_code.co_names
        if cls._sg_face is None or "__class__" not in names:
            return cls._sg_face or cls
        if "isinstance" in names:  # one of the two asks, and nothing tells which
            refuse("face", cls.__name__)
        return cls

    @property
    def name(self):
        return self._name_

    @property
    def value(self):
        return self._value_

    def __getattr__(self, name):
        return remote(self, name)

    def __repr__(self):
        return SESSION.op("__repr__", self)

    def __str__(self):
        return SESSION.op("__str__", self)

    def __format__(self, spec):
        return SESSION.op("__format__", self, spec)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def _shown(name):
    def f(self, *args):
        return SESSION.op(name, self, *args)

    return f


def _own(name):
    def f(self, *args):
        refuse("own", name, type(self).__name__)

    return f


OWN = set(OPERATORS) | {"__bool__", "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}


class NamedTuple(tuple):
    __slots__ = ()

    def __getattr__(self, name):
        return remote(self, name)

    def _asdict(self):
        return dict(zip(type(self)._fields, self))

    def _replace(self, **changes):
        names = type(self)._fields
        if set(changes) - set(names):
            raise ValueError("Got unexpected field names: %r" % sorted(set(changes) - set(names)))
        return tuple.__new__(type(self), [changes.get(n, v) for n, v in zip(names, self)])

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % p for p in zip(type(self)._fields, self)))


STOPPING = {"GeneratorType": ("send", "throw"), "CoroutineType": (), "AsyncGeneratorType": ("asend", "athrow", "aclose")}


class Stopping:
    """A method that ends by StopIteration: send and throw of a generator. What those of an
    asynchronous one give is waited for, and may end by StopAsyncIteration."""

    __slots__ = ("method",)

    def __init__(self, method):
        self.method = method

    def __call__(self, *args, **kwargs):
        for a in args:
            if isinstance(a, BaseException) and a.__traceback__ is not None:  # by contextlib, which takes an end for an answer
                refuse("carry", "an exception that was raised here (%s)" % type(a).__name__)
        out = SESSION.call(self.method, args, kwargs, stops=True)
        SESSION.ends(out)
        return out


class ProxyModule(types.ModuleType):
    def __getattribute__(self, name):
        if name == "__dict__":
            refuse("module dict")
        if name == "__doc__":
            return SESSION.get(self, name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        return remote(self, name)

    def __setattr__(self, name, value):
        if name == "__spec__":
            object.__setattr__(self, name, value)
            return
        if type(value) is ProxyModule or name in ("__path__", "__loader__", "__package__", "__cached__"):
            return  # the import system binds submodules on their parent; the candidate has done that for itself
        refuse("patch module", object.__getattribute__(self, "__name__"), name)

    def __delattr__(self, name):
        refuse("patch module", object.__getattribute__(self, "__name__"), name)

    def __dir__(self):
        return SESSION.op("__dir__", self)


class Listing:
    """The __path__ of a proxied package: the import system asks whether there is one."""


def _unlisted(name):
    def f(self, *args):
        refuse("listing")

    return f


for _name in ("iter", "len", "getitem", "contains", "bool", "eq", "ne", "repr", "str", "add", "radd", "fspath", "reversed"):
    setattr(Listing, "__%s__" % _name, _unlisted(_name))
Listing.__getattr__ = _unlisted("attribute")


class Doc:
    """The documentation of a proxied class, and of an object of it."""

    def __get__(self, v, cls):
        return SESSION.get(cls if v is None else v, "__doc__")


def _class_dict(kind, number, dunders, extra, module, qualname):
    space = {"__module__": module, "__qualname__": qualname, "__doc__": Doc(), "_sg_number": number, "_sg_kind": kind, "_sg_dunders": frozenset(dunders)}
    if kind in ("e", "n", "x"):
        space.update((name, _own(name)) for name in dunders if name in OWN)
    if kind == "e":
        if not extra[0]:
            space["__slots__"] = ("_name_", "_value_")
        space["__hash__"] = {"int": int.__hash__, "str": str.__hash__}.get(extra[0], object.__hash__)
        return space
    if kind == "n":
        if not tuple_fields(extra):
            raise Bad("a named tuple with such names")  # __eq__ would be the candidate's
        space["__slots__"] = ()
        space["__hash__"] = tuple.__hash__
        space["_fields"] = space["__match_args__"] = tuple(extra)
        for name in {"__str__", "__repr__", "__format__"} & set(dunders):
            space[name] = _shown(name)
        for n, name in enumerate(extra):
            space[name] = property(lambda self, n=n: tuple.__getitem__(self, n))
        return space
    if kind == "x":
        space["__hash__"] = BaseException.__hash__
        space["__str__"] = lambda self: self.__dict__.get("_sg_text", "")
        space["__getattr__"] = lambda self, name: remote(self, name)
        return space
    space["__slots__"] = ()
    for name in dunders:
        f = OPERATORS.get(name)
        if f is not None:
            space[name] = f
    if "__await__" in dunders:
        space["__hash__"] = object.__hash__  # an event loop keeps them in dictionaries, by identity
        space.update(cr_code=None, cr_frame=None, cr_await=None, cr_origin=None, cr_running=False)
    if kind == "D":
        fields = {}
        for name, init, kw_only, compare in extra[5:]:
            if name[:4] == "_sg_":
                raise Bad("a field with this name")
            f = dataclasses.field(init=init, compare=compare)
            f.name, f.type, f._field_type = name, object, dataclasses._FIELD
            if hasattr(f, "kw_only"):  # from Python 3.10 on
                f.kw_only = kw_only
            fields[name] = f
        positional = tuple([name for name, init, kw_only, _ in extra[5:] if init and not kw_only])
        space.update(__dataclass_fields__=fields, __match_args__=positional, _sg_positional=positional,
                     _sg_order=extra[0], _sg_frozen=extra[1], _sg_pure=extra[2], _sg_equal=extra[3], _sg_hash=extra[4],
                     _sg_compare=tuple([compare for _, _, _, compare in extra[5:]]))
    return space


# Standard modules that do something when they are imported, or need a display.
STAGED = {"antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo"}

# ---------------------------------------------------------------- the exchange with the candidate


class Foreign(Codec):
    """What Node gives: plain data, everything inline."""

    PLAIN = frozenset("i f u b dt tz".split())

    def __init__(self):
        Codec.__init__(self, 2)

    def dec(self, v):
        if type(v) is not list:
            return v
        tag, items = v[0], v[1:]
        if tag == "L":
            return [self.dec(x) for x in items]
        if tag == "M":
            return {self.dec(items[n]): self.dec(items[n + 1]) for n in range(0, len(items), 2)}
        if tag == "G":
            return {self.dec(x) for x in items}
        if tag == "I" and items[0] is True:
            return [self.dec(x) for x in items[1:]]
        if tag == "I":
            raise Bad("an iterator that goes on")
        if tag not in self.PLAIN:
            raise Bad("an object that is no plain data")
        return Codec.dec(self, v)


def in_json(v, depth=0):
    """Arguments for Node, as JSON: by exact type, nothing else than JSON has."""
    t = type(v)
    if depth > MAX_DEPTH:
        raise Bad("a value nested deeper than %d" % MAX_DEPTH)
    if t is list:
        return "[" + ",".join([in_json(x, depth + 1) for x in v]) + "]"
    if t is dict:
        if any(type(k) is not str for k in v):
            raise Bad("a dictionary whose keys are no text")
        return "{" + ",".join([dumps(k) + ":" + in_json(x, depth + 1) for k, x in v.items()]) + "}"
    if t is float and v - v == 0:
        return float.__repr__(v)
    if t is int:
        return hexless(v)
    if v is None or t is bool or t is str:
        return dumps(v)
    raise Bad("a value of type %s" % t.__name__ if t is not float else "a number that is not finite")


def hexless(n):
    if n.bit_length() > 4096:
        raise Bad("an integer of more than 4096 bits")
    return int.__repr__(n)



class Session(Codec):
    def __init__(self, incoming, outgoing, names):
        Codec.__init__(self, 2)
        self.foreign = Foreign()
        self.frank = ()  # what may travel though it is a difference: the operands of an operator
        self.incoming, self.outgoing = incoming, outgoing
        self.names = names
        self.live = weakref.WeakValueDictionary()  # handle -> proxy
        self.dead = []  # handles whose proxy is gone
        self.classes = {}
        self.members = {}
        self.modules = {}
        self.given = set()  # paths of files that the candidate was given
        self.imported = set()  # names of proxied modules
        self.around = None  # what the property may change around a call; from its first line on
        self.minted = 1 << 40  # handles of the judge's; the candidate counts from 1
        self.born = []  # what the candidate has not heard of yet
        self.changed = set()  # containers in the last answer
        self.stops = ()  # exceptions of a protocol that may come out of the next request
        self.ending = set()  # handles of what is waited for and may end by StopAsyncIteration
        self.taking = False  # whether an answer is being read
        self.calls = 0
        self.lock = _thread.RLock()
        probe = [[]]
        self.alone = sys.getrefcount(probe[0])  # of a container that only the table holds

    # -- frames

    def report(self, *what):
        try:
            write_frame(self.outgoing, "R" + dumps(list(what)))
        except Bad:
            write_frame(self.outgoing, "R" + dumps([what[0], "more than can be said"]))

    def leave(self):
        """End the process once hookd has read what was reported."""
        try:
            read_frame(self.incoming)
        finally:
            os._exit(0)

    def ask(self, op, *args):
        """One request; args are encoded. Returns what it gave, or raises what it raised."""
        with self.lock:
            return self.exchange(op, args)

    def exchange(self, op, args):
        stops, self.stops = self.stops, ()
        if op in RUNNING and self.around is not None:
            self.around.look()
        try:
            reply = self.carry(op, args)
        except BaseException as e:  # of a signal's handler: the next answer would be taken for this one
            refuse("interrupted", type(e).__name__)
        value = self.take(reply)
        if reply[0] == "ok":
            return value
        if reply[0] == "stop":
            if StopIteration in stops:
                raise StopIteration(value)
            # Inside map() or filter() it would end the property's own loop.
            raise RuntimeError("the pushed code raised StopIteration")
        if not isinstance(value, BaseException):
            refuse("nonsense", "an exception that is none")
        if isinstance(value, RecursionError) and self.around is not None:
            self.around.look_at_limit(deep=True)
        if isinstance(value, StopIteration) or not isinstance(value, stops) and isinstance(value, meaningful()):
            raise RuntimeError("the pushed code raised %s" % type(value).__name__) from value
        context = value.__context__
        try:
            raise BaseException.with_traceback(value, None)  # whatever attributes it has
        finally:
            if context is not None:  # Python has put the exception there that the property handles
                value.__context__ = context

    def carry(self, op, args):
        """Sends a request and reads what comes back."""
        news = [[], [], []]
        if not self.taking:
            try:
                news = [self.changes(), self.loose(), self.released()]
            except (Bad, RecursionError) as e:
                refuse("carry", e)
        elif op != "plain":
            refuse("meanwhile", op)
        text = dumps([op, *news, *args])
        if len(text) > MAX_FRAME - 256:
            refuse("carry", "more than 8 MiB in one request")
        write_frame(self.outgoing, "Q" + text)
        reply = read_frame(self.incoming)
        if not reply or reply[:1] != b"A":
            os._exit(0)
        return loads(reply[1:].decode("ascii"))

    def take(self, reply):
        """The value of a reply. A frozen dataclass that is a key is asked for its fields on the
        way, so that a request may stand within this; it tells the candidate of nothing and changes nothing."""
        inner, self.taking = self.taking, True
        try:
            if inner and reply[2]:
                raise Bad("a record that changes while it is looked at")
            for c in reply[3]:
                self.describe(*c)
            self.apply(reply[2])
            value = self.dec(reply[1])
        except (Bad, RecursionError) as e:
            refuse("answer", e)
        except Exception as e:
            refuse("nonsense", type(e).__name__)
        self.taking = inner
        if not inner:
            self.changed = {d[0] for d in reply[2]}
        return value

    def changes(self):
        out = Codec.changes(self)
        born, self.born = self.born, []
        return born + out

    def loose(self):
        count, alone = sys.getrefcount, self.alone
        out = [i for i, entry in self.known.items() if count(entry[0]) <= alone]
        for i in out:
            self.forget(i)
        return out

    def released(self):
        dead, self.dead = self.dead, []
        return [n for n in dead if n not in self.live]

    # -- verbs

    def call(self, target, args, kwargs, stops=False):
        self.calls += 1
        encoded = self.encoded(target, args, kwargs)
        with self.lock:
            self.stops = (StopIteration, GeneratorExit) if stops else ()
            return self.ask("call", *encoded)

    def ends(self, v):
        if is_opaque(v) and slot(HANDLE, v) is not None:
            self.ending.add(slot(HANDLE, v))

    def encoded(self, target, args, kwargs):
        for a in args:
            self.own_file(a)
        for a in kwargs.values():
            self.own_file(a)
        if target is not None:
            self.blind(target, *args, *kwargs.values())
        try:
            return self.enc(target), [self.enc(a) for a in args], [[k, self.enc(a)] for k, a in kwargs.items()]
        except (Bad, RecursionError) as e:
            refuse("carry", e)

    @staticmethod
    def blind(*values):
        """A difference to plain data is asked for nothing and handed to nobody: the pushed code
        would say itself how large it is."""
        for v in values:
            if is_opaque(v) and slot(MARK, v) == "derived":
                refuse("difference", type(v).__name__)

    def given_below(self, directory):
        return any(path.startswith(directory + "/") for path in self.given)

    def own_file(self, v, depth=2):
        """A path of a file that is here and not there."""
        t = type(v)
        if t is str:
            if v[:1] == "/" and v.startswith((SEALED + "/", TEMPORARY + "/")) and v not in self.given:
                above = os.path.dirname(v)  # what is to be made in a directory of the property's own is not made there
                if os.path.lexists(v) or above != TEMPORARY and os.path.isdir(above) and not self.given_below(above):
                    refuse("file", os.path.basename(v))
        elif depth and (t is list or t is tuple or t is dict) and len(v) <= 64:
            for x in v.values() if t is dict else v:
                self.own_file(x, depth - 1)

    def op(self, name, *args):
        self.calls += 1
        self.frank = args
        encoded = self.encoded(None, args, {})[1]
        self.frank = ()
        with self.lock:
            self.stops = (StopIteration,) if name == "__next__" else ()
            return self.ask("op", name, *encoded)

    def unary(self, name, v, *args):
        mark = slot(MARK, v) if is_opaque(v) else None
        if mark == "shifted" and name in SIZES:
            refuse("difference", type(v).__name__)
        out = self.op(name, v, *args)
        if name == "__anext__":
            self.ends(out)
        if mark == "derived" and name not in BLIND:
            if not is_opaque(out) or name in ("__iter__", "__reversed__"):
                refuse("difference", type(v).__name__)
            MARK.__set__(out, "derived")
        return out

    def binary(self, name, v, other, args):
        """Arithmetic: with plain data it may make another object, never plain data. The
        pushed code would else say itself how near its answer is to what is expected."""
        out = self.op(name, *args)
        marks = slot(MARK, v), slot(MARK, other) if is_opaque(other) else None
        if is_opaque(other) and "derived" not in marks and "shifted" not in marks:
            return out
        if not is_opaque(out):
            refuse("arithmetic", type(v).__name__, name)
        if "derived" in marks:
            MARK.__set__(out, "derived")
        elif is_opaque(other):
            self.shift(out)
        elif name in DIFFERENCES or name in RATIOS and not isinstance(other, (str, os.PathLike)):
            MARK.__set__(out, "derived")
        elif "shifted" in marks or shifts(name, other):
            self.shift(out)
        return out

    @staticmethod
    def shift(out):
        if slot(MARK, out) is None:
            MARK.__set__(out, "shifted")

    def record(self, cls, args, kwargs):
        """An instance of a dataclass: the judge's own where construction does nothing but
        take fields over."""
        out = self.local(cls, args, kwargs) if cls._sg_pure else None
        if out is None:
            containers, objects = {i for i in self.known if i % 2}, set(self.live)
            out = self.call(cls, args, kwargs)
            if is_opaque(out):
                if HANDLE.__get__(out) in objects or containers & self.changed:
                    refuse("constructor", cls.__name__)
                MARK.__set__(out, "made")
        return out

    def local(self, cls, args, kwargs):
        fields = cls.__dataclass_fields__.values()
        given = dict(zip(cls._sg_positional, args))
        if len(given) != len(args) or given.keys() & kwargs.keys() or kwargs.keys() - {f.name for f in fields if f.init}:
            return None  # the candidate says what is wrong
        given.update(kwargs)
        if len(given) < len(fields):
            given = {**dict(self.ask("defaults", self.enc(cls))), **given}
        if given.keys() != {f.name for f in fields}:
            return None
        return new_local(cls, {f.name: given[f.name] for f in fields})

    def bear(self, v):
        """The handle of a proxy; the candidate is told of a local one."""
        handle = slot(HANDLE, v)
        if handle is not None:
            return handle
        cls, local = type(v), slot(LOCAL, v)
        self.minted += 1
        handle = self.minted
        HANDLE.__set__(v, handle)
        self.live[handle] = v
        if not cls._sg_frozen:  # from here on the pushed code may change it
            LOCAL.__delete__(v)
        parts = {True: [], False: []}
        for name, f in cls.__dataclass_fields__.items():
            parts[f.init].append([name, self.enc(local[name])])
        self.born.append([handle, BORN, cls._sg_number, parts[True], parts[False]])
        return handle

    def get(self, target, name):
        self.blind(target)
        if type(target) is not ProxyModule and self.around is not None:
            self.around.look()
        value = self.ask("get", self.enc(target), name)
        if is_opaque(target) and name in type(target)._sg_stopping and is_opaque(value):
            value = Stopping(value)
        elif type(target) is ProxyMeta:
            value = own_name(target, name, value)
        if type(target) is not ProxyModule or type(type(value)) is not ProxyMeta and type(value) not in (ProxyMeta, ProxyModule):
            self.calls += 1
        return value

    def wait(self, v):
        encoded = self.enc(v)
        with self.lock:
            self.stops = (StopAsyncIteration, GeneratorExit) if slot(HANDLE, v) in self.ending else ()
            return self.ask("await", encoded)

    def plain(self, target):
        return self.ask("plain", self.enc(target))

    def look_for_lost(self, e):
        """An attribute that a value had in the pushed code, and that it has not as plain data."""
        quoted = str(e).split("'")
        if len(quoted) != 5 or not quoted[2].startswith(" object has no attribute"):
            return
        for cls in self.classes.values():
            lost = cls is not None and cls._sg_kind == "o" and cls._sg_lost
            if lost and quoted[1].rpartition(".")[2] == lost:
                refuse("lost", quoted[3], cls.__name__, lost)

    def node(self, entry, args, kwargs):
        """Calls a function of Node's; hookd hands this to a process of its own."""
        self.calls += 1
        if args and kwargs:
            refuse("foreign", "one object (keywords) or values by position, not both")
        try:
            text = in_json(kwargs if kwargs else list(args))
        except Bad as e:
            refuse("foreign", e)
        with self.lock:
            if self.around is not None:
                self.around.look()
            try:
                write_frame(self.outgoing, "N" + dumps([entry, "named" if kwargs else "listed", text]))
                reply = read_frame(self.incoming)
            except Bad as e:
                refuse("foreign", e)
            except BaseException as e:
                refuse("interrupted", type(e).__name__)
            if not reply or reply[:1] != b"A":
                os._exit(0)
            try:
                reply = loads(reply[1:].decode("ascii"))
                said = reply[1]
                if reply[0] == "ok":  # a value a call, and there was one
                    tag, said = said
                value = self.foreign.dec(said)
            except Bad as e:
                refuse("answer", e)
            except Exception as e:
                refuse("nonsense", type(e).__name__)
        if reply[0] == "ok":
            return value
        raise RuntimeError(value)

    # -- out

    def whole(self, t, base):
        if t is base or t.__module__.partition(".")[0] == "numpy":
            return
        raise Bad("a %s of the property's own class %s (pass a plain %s)" % (base.__name__, t.__name__, base.__name__))

    def enc_record(self, v, t, depth):
        if type(t) is ProxyMeta:
            kind = t._sg_kind
            if kind == "o" and slot(MARK, v) == "derived" and all(v is not x for x in self.frank):
                refuse("difference", t.__name__)
            if kind == "n":
                return ["n", t._sg_number] + [self.enc(x, depth + 1) for x in tuple.__iter__(v)]
            if kind == "e":
                return ["e", t._sg_number, v._name_, self.enc(v._value_, depth + 1)]
            return ["o", v.__dict__["_sg_handle"] if kind == "x" else self.bear(v), t._sg_number]
        if t is ProxyMeta:
            return ["C", v._sg_number]
        if t is ProxyModule:
            return ["o", object.__getattribute__(v, "_sg_handle")]
        if t is Stopping:
            return self.enc(v.method)
        if isinstance(v, enum.Enum) and t.__module__ in STANDARD_MODULES and t.__members__.get(v._name_) is v:
            return ["g", t.__module__, t.__qualname__ + "." + v._name_]
        return None

    def enc_object(self, v, t):
        if isinstance(v, type):
            if getattr(sys.modules.get(v.__module__), v.__qualname__, None) is v and v.__module__ in STANDARD_MODULES:
                return ["g", v.__module__, v.__qualname__]
        elif t is types.BuiltinFunctionType and isinstance(v.__self__, types.ModuleType) and v.__self__.__name__ in ("builtins", "math", "_operator"):
            return ["g", v.__self__.__name__, v.__name__]
        elif t is types.MethodDescriptorType and v.__objclass__.__module__ == "builtins":
            return ["g", "builtins", v.__qualname__]
        elif isinstance(v, BaseException):
            return self.enc_error(v)
        scalar = loaded("numpy", "generic")
        if scalar is not None and issubclass(t, scalar):
            plain = v.item()
            if type(plain) is not t:
                return self.enc(plain)
        if callable(v):
            raise Bad("a callback (%s) of the property" % t.__name__)
        raise Bad("an object of the property's own (%s)" % t.__name__)

    def enc_error(self, e):
        if e is None:
            return None
        t = type(e)
        if type(t) is ProxyMeta:
            return self.enc(e)
        if t.__module__ in STANDARD_MODULES and getattr(sys.modules.get(t.__module__), t.__name__, None) is t:
            try:
                return ["x", t.__module__, t.__name__, self.enc(tuple(e.args))]
            except Bad:
                pass
        return ["x", "builtins", "Exception", self.enc((str(e),))]

    # -- in

    def describe(self, number, name, qualname, module, bases, kind, dunders, extra):
        if number in self.classes:
            raise Bad("a class described twice")
        # entered first: a class may be its own base's neighbour, never its own base
        self.classes[number] = None
        resolved = [self.base(b) for b in bases if b[0] == "C" or kind == "x"]
        resolved = [b for b in resolved if b is not None]
        if kind == "x":
            resolved = [b for b in resolved if issubclass(b, BaseException)] or [Exception]
        elif kind == "e":
            mixin = {"int": int, "str": str}.get(extra[0])
            resolved = [EnumMember, mixin] if mixin else [EnumMember]
        elif kind == "n":
            resolved = [NamedTuple]
        else:
            resolved = [b for b in resolved if issubclass(b, Opaque)] or [Opaque]
        space = _class_dict(kind, number, dunders, extra, module, qualname)
        cls = self.classes[number] = ProxyMeta(name, tuple(resolved), space, token=_TOKEN)
        if kind in ("o", "D"):
            self.stand_for(cls, [(b[1], b[2]) for b in bases if b[0] == "g"])
            return
        above = [self.classes.get(b[1]) for b in bases if b[0] == "C"]
        more = {c for b in above if b is not None for c in (*b.__mro__, *b._sg_more) if type(c) is ProxyMeta and c is not Opaque}
        type.__setattr__(cls, "_sg_more", frozenset(more))
        for b in bases:
            if b[0] == "g" and b[1] == "enum" and isinstance(getattr(enum, b[2], None), enum.EnumMeta):
                type.__setattr__(cls, "_sg_face", getattr(enum, b[2]))

    @staticmethod
    def stand_for(cls, standard):
        """Takes note of the standard classes that objects of cls are instances of."""
        plain = []
        for module, name in standard:
            if module == "types" and name in STOPPING:
                type.__setattr__(cls, "_sg_stopping", STOPPING[name])
                if name == "CoroutineType":  # an event loop drives it
                    for method in (_send, _throw, _close):
                        type.__setattr__(cls, method.__name__[1:], method)
            if module == "builtins" and name in PLAIN_NAMES:
                plain.append(PLAIN_NAMES[name])
            if module in HARMLESS and cls._sg_lost in ("", *PLAIN_NAMES) or plain and not cls._sg_lost:
                type.__setattr__(cls, "_sg_lost", name)
            elif module in ABSTRACT:
                found = getattr(importlib.import_module(module), name, None)
                if isinstance(found, abc.ABCMeta):
                    found.register(cls)
        if plain:
            type.__setattr__(cls, "_sg_plain", tuple(plain))

    def base(self, v):
        if v[0] == "C":
            return self.classes.get(v[1])
        return self.dec_global(v)

    def dec_class(self, v):
        cls = self.classes[v[1]]
        if cls is None:
            raise Bad("a class that is not described")
        return cls

    def dec_object(self, v):
        proxy = self.live.get(v[1])
        if proxy is None:
            cls = self.dec_class(v[1:])
            if not issubclass(cls, Opaque):
                raise Bad("an object of a class of another kind")
            proxy = object.__new__(cls)
            HANDLE.__set__(proxy, v[1])
            self.live[v[1]] = proxy
        return proxy

    def dec_named(self, v):
        cls = self.dec_class(v)
        if cls._sg_kind != "n" or len(cls._fields) != len(v) - 2:
            raise Bad("a named tuple of another length")
        return tuple.__new__(cls, [self.dec(x) for x in v[2:]])

    def dec_enum(self, v):
        key = (v[1], v[2])
        member = self.members.get(key)
        if member is None:
            cls, value = self.dec_class(v), self.dec(v[3])
            own = standard_class(cls)
            if isinstance(own, enum.EnumMeta) and v[2] in own.__members__:
                return own.__members__[v[2]]
            if cls._sg_kind != "e":
                raise Bad("a member of a class that is no enum")
            if issubclass(cls, int):
                member = int.__new__(cls, value)
            elif issubclass(cls, str):
                member = str.__new__(cls, value)
            else:
                member = object.__new__(cls)
            member._name_, member._value_ = v[2], value
            if cls.__hash__ is not object.__hash__ and any(m == member for k, m in self.members.items() if k[0] == v[1]):
                raise Bad("two members of an enum with one value")
            self.members[key] = member
        return member

    def dec_module(self, v):
        module = self.modules.get(v[1])
        if module is None:
            module = ProxyModule(v[2])
            object.__setattr__(module, "_sg_handle", v[1])
            if v[3]:
                object.__setattr__(module, "__path__", Listing())
            self.modules[v[1]] = module
        return module

    def dec_global(self, v):
        if v[1] not in STANDARD_MODULES:
            raise Bad("a class of a module that is not standard")
        if v[1] not in sys.modules and v[1].partition(".")[0] not in STAGED and not v[1].endswith("__main__"):
            try:
                importlib.import_module(v[1])  # its base classes say by what it can be caught
            except (Exception, SystemExit):  # whatever it does when it is imported
                pass
        found = getattr(sys.modules.get(v[1]), v[2], None)
        if isinstance(found, type) and v[1] in HARMLESS and found.__module__ == v[1]:
            return found
        if not isinstance(found, type) or not (issubclass(found, BaseException) or v[1] == "builtins" and v[2] in BASIC_TYPES):
            if found is None and v[1] != "builtins":
                return Exception  # of a module that is not there, or not imported for this
            raise Bad("a name that is no class")
        return found

    def dec_exception(self, v):
        handle = v[1]
        known = self.live.get(handle)
        if known is not None:
            return known
        cls = self.dec_class(v[2]) if v[2][0] == "C" else self.dec_global(v[2])
        if not issubclass(cls, BaseException):
            raise Bad("an exception that is none")
        args = self.dec(v[4])
        if type(args) is not tuple:
            raise Bad("an exception whose arguments are none")
        try:
            e = cls.__new__(cls, *args)
            if type(cls) is not ProxyMeta:
                cls.__init__(e, *args)
        except Exception:
            e = cls.__new__(cls)
        e.args = args
        self.carried(e, {name: self.dec(value) for name, value in v[5]})
        if type(cls) is ProxyMeta:
            e.__dict__.update(_sg_handle=handle, _sg_text=self.dec(v[3]))
            self.live[handle] = e
        return e

    @staticmethod
    def carried(e, attributes):
        """Gives an exception its attributes, and where it came from."""
        cause, context = attributes.pop("__cause__", None), attributes.pop("__context__", None)
        context = cause if context is True else context
        for x in (cause, context):
            if x is not None and not isinstance(x, BaseException):
                raise Bad("a cause that is no exception")
        e.__cause__, e.__context__ = cause, context
        e.__suppress_context__ = cause is not None or attributes.pop("__suppress_context__", False) is True
        for name, value in attributes.items():
            if hides(type(e), name):
                continue
            if name[:2] != "__" or name == "__notes__" and type(value) is list:
                try:
                    BaseException.__setattr__(e, name, value)
                except (AttributeError, TypeError):
                    pass

    def dec_plain(self, v):
        tag, items = v[0], v[1:]
        if tag == "K":
            cls = self.dec_class(v)
            if cls._sg_kind != "D":
                raise Bad("a record of a class that is no dataclass")
            if len(items) != 1 + len(cls._sg_compare):
                raise Bad("a record of another length")
            return Plain(cls, tuple([self.dec(x) for x, compared in zip(items[1:], cls._sg_compare) if compared]))
        if tag == "L":
            return [self.dec(x) for x in items]
        if tag == "M":
            return {self.dec(items[n]): self.dec(items[n + 1]) for n in range(0, len(items), 2)}
        if tag == "G":
            return {self.dec(x) for x in items}
        return bytearray.fromhex(v[1])


def meaningful():
    """Exceptions that mean something to whoever called, or to a test tool, and nothing bad: raised by
    pushed code they would end a loop, skip a test, or make a failure a cancelled task."""
    cancelled = loaded("asyncio", "CancelledError")
    case = sys.modules.get("unittest.case")
    skipped = [t for t in (getattr(case, n, None) for n in ("SkipTest", "_ShouldStop", "_UnexpectedSuccess")) if isinstance(t, type)]
    return (StopIteration, StopAsyncIteration, GeneratorExit, *([cancelled] if cancelled else []), *skipped)


def hides(cls, name):
    """Whether an attribute would take the place of what the class does (with_traceback, add_note, …):
    whoever handles the exception would call what the pushed code has put there."""
    if name[:4] == "_sg_":
        return True
    for k in cls.__mro__:
        found = type.__dict__["__dict__"].__get__(k).get(name)
        if found is not None:
            return callable(found) or hasattr(type(found), "__get__") and type(found) not in HOLDING
    return False


HOLDING = (types.MemberDescriptorType, types.GetSetDescriptorType)


# ---------------------------------------------------------------- what surrounds a call

RUNNING = frozenset("call op await exit aexit run set del import".split())
# Names of the standard library that properties replace, by hand or with mock.patch,
# and what replaces them for the pushed code.
STEADY = (
    ("builtins", "open input print __import__"), ("time", "time time_ns monotonic perf_counter sleep localtime gmtime strftime"),
    ("datetime", "datetime date"), ("random", "random randint randrange choice choices sample shuffle uniform"),
    ("os", "getenv getcwd listdir urandom remove unlink makedirs mkdir system getpid"), ("os.path", "exists isfile isdir getmtime"),
    ("uuid", "uuid1 uuid4"), ("secrets", "token_hex token_bytes token_urlsafe choice"), ("socket", "socket create_connection gethostname"),
    ("subprocess", "run Popen check_output check_call call"), ("shutil", "which copy move rmtree"), ("json", "loads dumps load dump"),
    ("getpass", "getpass getuser"), ("platform", "system node machine"), ("urllib.request", "urlopen"), ("asyncio", "sleep"),
)
STEADY_MODULES = frozenset(name for name, _ in STEADY)
PATCHED = "candidate.patch replaces it there"
PATCHES = []  # targets of mock.patch that are in force, one an entry


class Around:
    """What a property can change around a call: in one process the pushed code would see it."""

    def __init__(self):
        self.streams = sys.stdin, sys.stdout, sys.stderr
        self.argv, self.arguments = sys.argv, list(sys.argv)
        self.environ, self.variables = os.environ, dict(os.environ._data)
        self.limit = sys.getrecursionlimit()
        self.moved, self.where = False, os.getcwd()
        self.loaded, self.known, self.steady = SURVEY[:] if SURVEY else (0, {}, [])
        self.handlers = None
        self.context = None
        self.filters = None
        self.present = [(name, sys.modules[name]) for name in STEADY_MODULES if name in sys.modules]
        self.settings = self.process()
        self.arrived()

    def look(self):
        """Refuses whatever is another than it was."""
        if len(sys.modules) != self.loaded:
            self.arrived()
        if sys.stdout is not self.streams[1] or sys.stderr is not self.streams[2]:
            refuse("ambient", "sys.stdout and sys.stderr", "candidate.run gives what a command prints")
        if sys.stdin is not self.streams[0]:
            refuse("ambient", "sys.stdin", "candidate.run has a standard input")
        if sys.argv is not self.argv or self.argv != self.arguments:
            refuse("ambient", "sys.argv", "pass the arguments, or run the command with candidate.run")
        if os.environ is not self.environ or self.environ._data != self.variables:
            refuse("ambient", "os.environ", "candidate.patch('os:environ', {...}) replaces it there")
        if self.moved and os.getcwd() != self.where:
            refuse("ambient", "the working directory", "pass the path, or start with candidate.run(['/bin/sh', ...])")
        self.look_at_limit()
        if PATCHES:
            refuse("ambient", PATCHES[-1], PATCHED)
        for holder, name, value in self.steady:
            if holder.get(name) is not value:
                refuse("ambient", "%s.%s" % (holder["__name__"], name), PATCHED)
        if self.context is not None:
            self.look_at_decimals()
        if self.filters is not None:
            self.look_at_warnings()
        if self.handlers is not None:
            self.look_at_handlers()
        for (module, name), value in REPLACED.items():
            if module.__dict__.get(name, REPLACED) is not value:
                refuse("ambient", "%s.%s" % (module.__name__, name), PATCHED)
        for name, module in self.present:
            if sys.modules.get(name) is not module:
                refuse("ambient", "sys.modules (%s)" % name, PATCHED)
        if self.process() != self.settings:
            self.look_at_settings()

    def arrived(self):
        """Takes note of modules that were loaded since."""
        if self.context is None and "decimal" in sys.modules:
            self.context = decimal_context()
        if self.filters is None and "warnings" in sys.modules:
            w = sys.modules["warnings"]
            self.filters = w, w.showwarning, getattr(w, "_showwarnmsg_impl", None), list(w.filters)
        if self.handlers is None and "logging" in sys.modules:
            self.handlers = sys.modules["logging"]
        if len(sys.modules) == self.loaded:
            return
        self.loaded = len(sys.modules)
        survey(self.known, self.steady)
        for name, module in list(sys.modules.items()):
            if name not in self.known:
                self.known[name] = None
                if spurious(name, module):
                    refuse("ambient", "sys.modules (%s)" % name, PATCHED)

    @staticmethod
    def process():
        """Settings of the whole process."""
        locale, socket = sys.modules.get("_locale"), sys.modules.get("_socket")
        return (UMASK[0], RANDOM[0], locale and locale.setlocale(locale.LC_ALL), socket and socket.getdefaulttimeout())

    def look_at_settings(self):
        """What became another one; a module that was loaded meanwhile brings its own first setting."""
        names = "the umask", "random.setstate", "the locale", "the default timeout of sockets"
        now = self.process()
        for name, was, is_ in zip(names, self.settings, now):
            if was != is_ and not (was is None and is_ in (None, FIRST_LOCALE)):
                refuse("ambient", name, "candidate.call or candidate.run does it there")
        self.settings = now

    def look_at_limit(self, deep=False):
        """A higher limit, as test tools set it for themselves, matters where the pushed code goes deep."""
        limit = sys.getrecursionlimit()
        if limit < self.limit or deep and limit > self.limit:
            refuse("ambient", "the recursion limit", "candidate.call('sys:setrecursionlimit', n) sets it there")

    def look_at_decimals(self):
        if decimal_context() != self.context:
            refuse("ambient", "the context of decimals", "candidate.get('decimal:getcontext')() is the one there")

    def look_at_warnings(self):
        w, show, impl, filters = self.filters
        if w.showwarning is not show or getattr(w, "_showwarnmsg_impl", None) is not impl:
            refuse("ambient", "warnings", "candidate.run([candidate.python, '-W', 'error', ...]) makes them errors")
        if w.filters != filters and any(f[0] == "error" for f in w.filters if f not in filters):
            refuse("ambient", "warnings", "candidate.run([candidate.python, '-W', 'error', ...]) makes them errors")

    def look_at_handlers(self):
        logging = self.handlers
        for ref in logging._handlerList:
            h = ref()
            if h is None or h is logging.lastResort or type(h) is logging.NullHandler:
                continue
            if type(h) is logging.StreamHandler and h.stream in self.streams:
                continue
            refuse("ambient", "logging (a %s)" % type(h).__name__, "candidate.run gives what a command logs")
        for logger in [logging.root, *logging.Logger.manager.loggerDict.values()]:
            if logger.__dict__.get("filters"):
                refuse("ambient", "logging (a filter)", "candidate.run gives what a command logs")
            if not LOGGING.isdisjoint(logger.__dict__):
                refuse("ambient", "logging (a logger)", "candidate.run gives what a command logs")


LOGGING = frozenset("debug info warning warn error exception critical fatal log _log handle addHandler makeRecord callHandlers filter isEnabledFor".split())
FIRST_MASK = [None]
UMASK, RANDOM = [None], [0]  # what os.umask set; how often random.setstate brought back what a seed had made
FIRST_LOCALE = "C"
REPLACED = {}  # (module, name): what was there before a property put something else there


class Watched(types.ModuleType):
    """A module of the standard library: what a property puts into it would be seen by the pushed code."""

    def __setattr__(self, name, value):
        watch(self, name)
        types.ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name):
        watch(self, name)
        types.ModuleType.__delattr__(self, name)


def watch(module, name):
    if SESSION is not None and SESSION.around is not None and name[:2] != "__":
        old = module.__dict__.get(name, REPLACED)
        if callable(old) and type(old) is not types.ModuleType:
            REPLACED.setdefault((module, name), old)


def watched(module):
    """From here on it is noted what is replaced in it."""
    if type(module) is types.ModuleType and module is not sys:
        module.__class__ = Watched


SURVEY = []  # of the modules that are there before a property begins: a fork need not look at them again


def loading(module):
    """Whether a module is not yet what it will be: socket.socket is another one for a while."""
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def survey(known, steady, whole=None):
    for name, names in STEADY:
        module = sys.modules.get(name)
        if module is not None and name not in known and (module is whole or not loading(module)):
            known[name] = space = module.__dict__
            steady += [(space, n, space[n]) for n in names.split() if n in space]


def noted(module):
    watched(module)
    around = SESSION.around
    if around is not None:
        survey(around.known, around.steady, module)


def spurious(name, module):
    """Whether somebody has put this in the place of a module. Compiled extensions put their
    helpers there themselves, and so do packages of the judge's own library."""
    if module is None:
        return True
    if type(module) is ProxyModule or module is sys.modules["__main__"] or name in STANDARD_MODULES:
        return False
    if name == "cython_runtime" or name[:8] == "_cython_" or in_library(name.partition(".")[0]):
        return False
    return getattr(module, "__spec__", None) is None


def decimal_context():
    c = sys.modules["decimal"].getcontext()
    return c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, [*c.traps.values()]


def patching(spec, then):
    """A module, and what is to be done as soon as it is loaded."""
    if spec is not None:
        loader, run = spec.loader, spec.loader.exec_module

        def exec_module(module):
            run(module)
            then(module)

        loader.exec_module = exec_module
    return spec


def watch_patches(mock):
    """Notes every patch of the standard library, or of what else the pushed code may use, while it is in force."""

    def noting(cls, target):
        enter, leave = cls.__enter__, cls.__exit__

        def __enter__(self):
            out = enter(self)
            text = target(self)
            if text:
                PATCHES.append(text)
                self._sg_noted = text
            return out

        def __exit__(self, *error):
            text = self.__dict__.pop("_sg_noted", None)
            if text:
                PATCHES.remove(text)
            return leave(self, *error)

        cls.__enter__, cls.__exit__ = __enter__, __exit__
        for name, f in (("start", enter), ("stop", leave)):
            if cls.__dict__.get(name) is f:  # another name of it, up to Python 3.9
                setattr(cls, name, __enter__ if name == "start" else __exit__)

    def patched(p):
        t = p.target
        if isinstance(t, types.ModuleType):
            return None if own_module(t.__name__) else "%s.%s" % (t.__name__, p.attribute)
        if isinstance(t, type):
            return None if own_module(t.__module__) else "%s.%s" % (t.__qualname__, p.attribute)

        for name in ("environ", "stdin", "stdout", "stderr"):
            if t is getattr(os if name == "environ" else sys, name):
                return "%s.%s" % (name if name == "environ" else "sys." + name, p.attribute)
        logging = sys.modules.get("logging")
        if logging is not None and isinstance(t, (logging.Logger, logging.Manager)):
            return "%s.%s" % (type(t).__name__, p.attribute)
        return None

    def dictionary(p):
        return "sys.modules" if p.in_dict is sys.modules else None

    noting(mock._patch, patched)
    noting(mock._patch_dict, dictionary)


def own_module(name):
    """Whether a module is the property's or a sealed helper: what happens to it is of no concern to the pushed code."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return (getattr(spec, "origin", None) or "").startswith(SEALED + "/")


PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"}


# Modules that run a text that they are given.
RUNNERS = {"bdb", "code", "codeop", "doctest", "runpy", "timeit", "trace"}
HARMLESS = {"collections", "datetime", "decimal", "fractions", "uuid"}


def harmless(module, name):
    """What a pickle may name once the pushed code was asked: classes of plain data, and of the property's own."""
    if (module, name) in (("copyreg", "_reconstructor"), ("copy_reg", "_reconstructor"), ("_codecs", "encode")):
        return True
    if module in ("builtins", "__builtin__"):
        return name in BASIC_TYPES or name == "complex"
    found = getattr(sys.modules.get(module), name, None)  # of a dotted name there is none
    if not isinstance(found, type) or found.__module__ not in (module, "_" + module):
        return False
    return module in HARMLESS or own_module(module)


def runs_text(frame):
    """Whether a text is compiled for the property, and not for a module of the library's own use."""
    return frame.f_code.co_filename.startswith(SEALED + "/") or frame.f_globals.get("__name__") in RUNNERS


def confine():
    """A property starts nothing and is told so; it cannot take this away."""

    def hook(event, args):
        if event in PROGRAMS:
            refuse("program", event)
        elif event == "os.chdir" and SESSION.around is not None:
            SESSION.around.moved = True
        elif event == "pickle.find_class" and SESSION.calls and not harmless(*args):
            refuse("made of", "%s.%s" % args)
        elif event == "compile" and SESSION.calls and runs_text(sys._getframe(1)):
            refuse("made of", "eval, exec or compile")

    if sys.version_info < (3, 9):  # where uuid asks platform, and platform runs uname
        import platform

        platform._syscmd_uname = lambda option, default="": default
    sys.addaudithook(hook)

    def fork_exec(*args):
        refuse("program", "multiprocessing")

    _posixsubprocess.fork_exec = fork_exec


def sown(random):
    """random.seed: in one process the pushed code draws from the same numbers. A seed made of
    a fixture would tell what is in it."""
    seed = random.seed

    def both(a=None, version=2):
        if a is not None and (type(a) is not int or a.bit_length() > 32):
            refuse("ambient", "random.seed (of a %s)" % type(a).__name__, "random.Random(...) is a generator of the property's own")
        seed(a, version)
        seeds.append(a)
        SESSION.ask("seed", SESSION.enc(a))

    random.seed = both
    getstate, setstate, before = random.getstate, random.setstate, []
    seeds = []

    def get():
        state = getstate()
        if not seeds:
            before.append(state)  # of numbers that nobody could tell
        return state

    def put(state):
        setstate(state)
        if any(state is s for s in before):
            del seeds[:]  # as test tools do it around each example
        else:
            RANDOM[0] += 1

    random.getstate, random.setstate = get, put
    umask = os.umask

    def masked(mask):
        old = umask(mask)
        if UMASK[0] is None:
            UMASK[0] = FIRST_MASK[0] = old
        UMASK[0] = mask if mask != FIRST_MASK[0] else None
        return old

    os.umask = masked


# ---------------------------------------------------------------- imports


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports names of the pushed tree as proxies."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in SESSION.names:
            if target is not None:
                refuse("reload", name)
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = Listing()
            return spec
        if name == "unittest.mock":
            return patching(importlib.machinery.PathFinder.find_spec(name, path), watch_patches)
        if name in STANDARD_MODULES:  # before the property has it to replace anything there
            return patching(importlib.machinery.PathFinder.find_spec(name, path), noted)
        return None

    def create_module(self, spec):
        if spec.name in SESSION.imported:
            refuse("reload", spec.name)
        try:
            module = SESSION.ask("import", spec.name)
            SESSION.imported.add(spec.name)
            return module
        except ModuleNotFoundError as e:
            if e.name == spec.name:
                raise
            failed = e
        except BaseException as e:
            failed = e
        SESSION.report("unimported", "%s did not load: %s" % (spec.name, describe_error(failed)))
        SESSION.leave()

    def exec_module(self, module):
        pass


def _resource(name):
    def f(self, *args):
        refuse("resource", name)

    return f


for _name in ("get_data", "get_resource_reader", "get_source", "get_code", "get_filename"):
    setattr(Finder, _name, _resource(_name))


def imports(tree):
    """Top-level imports of a module: (name, whether it may be missing)."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            for a in node.names:
                yield a.name
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module


def helper(sealed, name):
    for base in (sealed + "/properties/", sealed + "/"):
        for path in (base + name + ".py", base + name + "/__init__.py"):
            if os.path.isfile(path):
                return path
    return None


def needed(sealed, tree, names, seen):
    """What of the pushed tree a module and its sealed helpers import."""
    for name in imports(tree):
        top = name.partition(".")[0]
        if top in names:
            if name not in seen:
                seen[name] = True
        elif top not in seen:
            seen[top] = False
            path = helper(sealed, top)
            if path is not None:
                with open(path, "rb") as f:
                    needed(sealed, ast.parse(f.read()), names, seen)
    return [n for n, pushed in seen.items() if pushed]


# ---------------------------------------------------------------- one property


class Printed:
    """Takes what a property prints: the start of it is for maintainers."""

    encoding, errors, closed = "utf-8", "strict", False

    def __init__(self):
        self.text = ""

    def write(self, text):
        if len(self.text) < MAX_NOTE:
            self.text += text[:MAX_NOTE]
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False

    def fileno(self):
        return 1


class Candidate:
    """The second argument of holds(fixture_bytes, candidate)."""

    def call(self, entry, *args, **kwargs):
        """Calls "package.module:function" of the pushed code, "node:path.js:function" of Node's,
        or runs "exec:path" with args and what stdin= says."""
        language, _, rest = str(entry).partition(":")
        if language == "node":
            return SESSION.node(rest, args, kwargs)
        if language == "exec":
            return self.run(["./" + rest, *args], **kwargs)
        return self.get(entry)(*args, **kwargs)

    def get(self, entry):
        """The object that "package.module:name" names."""
        self.own(entry)
        return SESSION.ask("resolve", str(entry))

    @staticmethod
    def own(entry):
        """Of Node and of programs there is nothing to hold in one's hand."""
        if str(entry).startswith(("node:", "exec:")):
            refuse("foreign", "candidate.call asks %s" % entry)

    def read(self, path):
        """The bytes of a file of the pushed tree."""
        write_frame(SESSION.outgoing, "F" + dumps(str(path)))
        reply = read_frame(SESSION.incoming)
        SESSION.calls += 1
        if reply and reply[:1] == b"B":
            return reply[1:]
        if reply and reply[:1] == b"E":
            raise FileNotFoundError(2, reply[1:].decode(), str(path))
        os._exit(0)

    def run(self, argv, stdin=b""):
        """Runs a command in the candidate's sandbox, in the tree."""
        SESSION.calls += 1
        if isinstance(stdin, str):
            stdin = stdin.encode()
        argv = tuple(str(a) for a in argv)
        SESSION.own_file(argv)
        code, out, err = SESSION.ask("run", SESSION.enc(argv), SESSION.enc(bytes(stdin)), 3600)
        return Completed(code, out, err)

    def write(self, name, data):
        """Writes a file into the candidate's temporary directory; the path of it there."""
        data = data.encode() if isinstance(data, str) else bytes(data)
        path = SESSION.ask("write", str(name), SESSION.enc(data))
        SESSION.given.add(path)
        return path

    @property
    def python(self):
        """The interpreter of the pushed code, for run."""
        return SESSION.ask("resolve", "sys:executable")

    def patch(self, target, value=None, *, returns=_TOKEN):
        """Replaces "package.module:name" with a value, or with a function that returns one; "with" undoes it."""
        self.own(target)
        given = value if returns is _TOKEN else returns
        return Patch(SESSION.ask("patch", str(target), SESSION.encoded(None, (given,), {})[1][0], returns is not _TOKEN))


class Completed:
    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


class Patch:
    def __init__(self, number):
        self.number = number

    def undo(self):
        if self.number is not None:
            SESSION.ask("unpatch", self.number)
        self.number = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.undo()
        return False


def describe_error(e):
    try:
        text = str(e)
    except Exception:
        text = ""
    if isinstance(e, SyntaxError):
        return "%s: %s" % (type(e).__name__, text)
    line, tb = "", e.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if name.startswith(SEALED + "/"):
            line = " (%s, line %d)" % (name[len(SEALED) + 1:], tb.tb_lineno)
        tb = tb.tb_next
    return "%s: %s%s" % (type(e).__name__, text[:MAX_NOTE], line)


def takes_candidate(holds):
    if type(holds) is types.FunctionType and not hasattr(holds, "__wrapped__") and holds.__code__.co_argcount == 1:
        return False
    try:
        params = list(inspect.signature(holds).parameters.values())
    except (TypeError, ValueError):
        return False
    params = [p for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(params) > 1 and (params[1].default is inspect.Parameter.empty or params[1].name == "candidate")


def prepare(path, names):
    """The code of a property, and what of the pushed tree it imports."""
    full = SEALED + "/" + path
    with open(full, "rb") as f:
        tree = ast.parse(f.read(), full)
    return compile(tree, full, "exec", dont_inherit=True), needed(SEALED, tree, names, {}), [*imports(tree)]


def load(path, prepared):
    """Loads a property and returns its holds."""
    full = SEALED + "/" + path
    code, wanted, _ = prepared
    if wanted:
        SESSION.ask("load", [[n, False] for n in wanted])
    name = "sealed_property_" + os.path.splitext(os.path.basename(path))[0]
    module = types.ModuleType(name)
    module.__file__ = full
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=full)
    sys.modules[name] = module
    exec(code, module.__dict__)
    if not callable(module.__dict__.get("holds")):
        raise ImportError("there is no holds(fixture_bytes) -> bool")
    return module.__dict__["holds"]


def judge(path, fixtures, prepared, names):
    session = SESSION
    printed = sys.stdout = sys.stderr = Printed()
    confine()
    sown(sys.modules["random"])
    if "unittest.mock" in sys.modules:
        watch_patches(sys.modules["unittest.mock"])
    session.around = Around()
    try:
        holds = load(path, prepared or prepare(path, names))
    except BaseException as e:
        session.report("unloaded", describe_error(e))
        session.leave()
    session.report("loaded")
    more = (Candidate(),) if takes_candidate(holds) else ()
    for n, (ident, fixture) in enumerate(fixtures):
        with open(SEALED + "/" + fixture, "rb") as f:
            body = f.read()
        note = ""
        try:
            out = holds(body, *more)
            if inspect.iscoroutine(out):
                import asyncio

                out = asyncio.run(out)
            good = out is True
            if out is not True and out is not False:
                note = "%s: holds returned %s, not a bool" % (ident, type(out).__name__)
        except BaseException as e:
            if isinstance(e, AttributeError):
                session.look_for_lost(e)
            good, note = False, "%s: holds raised %s" % (ident, describe_error(e))
        session.report("fixture", n, good, note[:MAX_NOTE])
    session.report("end", session.calls, "" if not printed.text else "printed: " + printed.text[:MAX_NOTE])
    session.leave()


# ---------------------------------------------------------------- the main process


def standard_paths():
    return [p for p in sys.path if p != KIT]


def is_standard(name):
    if name in sys.builtin_module_names:
        return True
    names = getattr(sys, "stdlib_module_names", None)
    if names is not None:
        return name in names
    spec = importlib.machinery.PathFinder.find_spec(name, STANDARD_PATHS)
    return spec is not None and spec.origin is not None  # without one it is any directory of that name


def library_paths(library):
    """Where modules of the judge's own are, if it has any."""
    if not library:
        return []
    return [library + "/lib/python%d.%d/site-packages" % sys.version_info[:2], library]


def in_library(name):
    """Whether the judge has a module of its own by this name: pushed code does not take its place."""
    spec = importlib.machinery.PathFinder.find_spec(name, LIBRARY_PATHS) if LIBRARY_PATHS else None
    return spec is not None and spec.origin is not None


class Standard:
    """The names of the standard library's modules."""

    def __contains__(self, name):
        return isinstance(name, str) and is_standard(name.partition(".")[0])


STANDARD_MODULES = Standard()
PLAIN = BASES + (type, type(None), BaseException)


class Main:
    def __init__(self):
        self.slots = {}  # slot -> pid
        self.names = frozenset()
        self.prepared = {}  # path -> code and imports, made once for all forks

    def serve(self):
        import select

        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.private = (wake_in, wake_out)
        poll = select.poll()
        poll.register(ORDERS, select.POLLIN)
        poll.register(wake_in, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == wake_in:
                    os.read(wake_in, 4096)
                    self.reap()
                    continue
                order = read_frame(ORDERS)
                if order is None:
                    os._exit(0)
                order = loads(order.decode("ascii"))
                getattr(self, "do_" + order[0])(*order[1:])

    def do_setup(self, names, paths):
        # a property may bear the name of what it is about; a sealed helper comes before pushed code
        own = {None} | {SEALED + "/" + p for p in paths}
        self.names = frozenset(n for n in names if not is_standard(n) and not in_library(n) and helper(SEALED, n) in own)
        for path in paths:
            try:
                self.prepared[path] = prepare(path, self.names)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # the child of this property says what is wrong
            for name in self.prepared[path][2]:
                if is_standard(name.partition(".")[0]) and name not in sys.modules:
                    try:
                        importlib.import_module(name)
                    except Exception:
                        pass
        sys.meta_path.insert(0, Finder())
        sys.path[:] = [SEALED + "/properties", SEALED] + sys.path + LIBRARY_PATHS
        known, steady = {}, []
        survey(known, steady)
        for name, module in list(sys.modules.items()):
            if name in STANDARD_MODULES:
                watched(module)
        SURVEY[:] = len(sys.modules), {**dict.fromkeys(sys.modules), **known}, steady
        gc.collect()
        gc.freeze()
        write_frame(REPORTS, dumps(["up"]))

    def do_run(self, slot, slots, path, fixtures):
        global SESSION
        pid = os.fork()
        if pid:
            self.slots[slot] = pid
            return
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (ORDERS, REPORTS) + self.private:
                os.close(fd)
            for n in range(slots):
                if n != slot:
                    os.close(5 + 2 * n)
                    os.close(6 + 2 * n)
            null = os.open("/dev/null", os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            SESSION = Session(5 + 2 * slot, 6 + 2 * slot, self.names)
            judge(path, fixtures, self.prepared.get(path), self.names)
        finally:
            os._exit(70)

    def do_kill(self, slot):
        pid = self.slots.get(slot)
        if pid is not None:
            kill_group(pid)

    def reap(self):
        for slot, pid in list(self.slots.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            del self.slots[slot]
            kill_group(pid)
            self.drain(5 + 2 * slot)
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            write_frame(REPORTS, dumps(["gone", slot, code]))

    def drain(self, fd):
        import select

        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while poll.poll(0):
            if not os.read(fd, 1 << 16):
                return


def kill_group(pid):
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass


if __name__ == "__main__":
    SEALED = sys.argv[1]
    TEMPORARY = os.environ.get("TMPDIR", "/tmp")
    SLOTS = int(sys.argv[2])
    KIT = __file__.rpartition("/")[0]
    STANDARD_PATHS = sys.path[:] = standard_paths()
    LIBRARY_PATHS = library_paths(sys.argv[3] if len(sys.argv) > 3 else "")
    for _fd in range(3, 5 + 2 * SLOTS):
        os.set_inheritable(_fd, False)
    import _posixsubprocess
    import datetime  # noqa: F401
    import decimal  # noqa: F401
    import fractions  # noqa: F401
    import json  # noqa: F401
    import locale
    import random  # noqa: F401
    import re  # noqa: F401

    FIRST_LOCALE = locale.setlocale(locale.LC_ALL)
    Main().serve()
