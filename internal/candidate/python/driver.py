# The candidate's driver: reads one request at a time from descriptor 3, acts on
# the pushed code, and answers on descriptor 4. It shares its process with that
# code, so whatever it answers is a claim. Nothing heavy is imported before the
# first request: a parked candidate costs a bare interpreter.

REQUESTS, REPLIES = 3, 4
SHOWN = 4096

# Abstract classes of which a class is one by its bases or by registration, not by its methods.
ABSTRACT = (
    ("collections.abc", "Mapping MutableMapping Sequence MutableSequence Set MutableSet MappingView KeysView ItemsView ValuesView "
                        "ByteString Generator AsyncGenerator Coroutine"),
    ("numbers", "Number Complex Real Rational Integral"),
    ("io", "IOBase RawIOBase BufferedIOBase TextIOBase"),
    ("os", "PathLike"),
    ("contextlib", "AbstractContextManager AbstractAsyncContextManager"),
)
# Attributes of standard exceptions that are no arguments.
HELD = (("ImportError", ("name", "path")), ("OSError", ("filename", "filename2")), ("NameError", ("name",)), ("AttributeError", ("name",)))
MAX_CAUSES = 32

# Operators that a proxied object of the judge has when the class here has them.
DUNDERS = frozenset(
    "__len__ __iter__ __next__ __reversed__ __contains__ __getitem__ __setitem__ __delitem__ __call__ __enter__ __exit__ "
    "__aiter__ __anext__ __aenter__ __aexit__ __await__ __int__ __float__ __complex__ __index__ __bytes__ __neg__ __pos__ "
    "__abs__ __invert__ __round__ __trunc__ __floor__ __ceil__ __fspath__ "
    "__add__ __sub__ __mul__ __matmul__ __truediv__ __floordiv__ __mod__ __divmod__ __pow__ __lshift__ __rshift__ __and__ "
    "__xor__ __or__ __radd__ __rsub__ __rmul__ __rmatmul__ __rtruediv__ __rfloordiv__ __rmod__ __rdivmod__ __rpow__ "
    "__rlshift__ __rrshift__ __rand__ __rxor__ __ror__ __iadd__ __isub__ __imul__ __imatmul__ __itruediv__ __ifloordiv__ "
    "__imod__ __ipow__ __ilshift__ __irshift__ __iand__ __ixor__ __ior__ __bool__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__".split()
)
# Modules whose classes are plain data, and mean the same in the judge.
PLAIN_MODULES = ("decimal", "fractions", "datetime", "uuid", "collections")


def _driven():
    """Generators and coroutines: their methods end by exceptions that mean no failure."""
    async def coroutine():
        pass

    async def generator():
        yield

    c = coroutine()
    c.close()
    return (("GeneratorType", type(_ for _ in ())), ("CoroutineType", type(c)), ("AsyncGeneratorType", type(generator())))


STOPPING = _driven()
SHOWING = frozenset(("__str__", "__repr__", "__format__"))
# What a property sees of a plain value besides what it is equal to.
TOLD = {"__bool__", "__len__", "__missing__", "__str__", "__getitem__", "__iter__", "__contains__"}


class Mirror(Codec):
    def __init__(self):
        Codec.__init__(self, 1)
        self.handles = {}  # handle -> object
        self.numbers = {}  # id(object) -> handle
        self.classes = {}  # class number -> class
        self.class_numbers = {}
        self.described = []  # classes the judge has not heard of yet
        self.minted = 0

    # -- out

    def handle(self, v):
        n = self.numbers.get(id(v))
        if n is None:
            if len(self.handles) >= MAX_OBJECTS:
                raise Bad("more than %d objects at once" % MAX_OBJECTS)
            self.minted += 1
            n = self.numbers[id(v)] = self.minted
            self.handles[n] = v
        return n

    def release(self, n):
        v = self.handles.pop(n, None)
        if v is not None:
            self.numbers.pop(id(v), None)

    def whole(self, t, base):
        """The judge has a plain value: what a class of the pushed code's own makes of it would get lost."""
        for k in t.__mro__:
            if k is base:
                return
            if not standard(k.__module__) and any(n[:1] != "_" for n in k.__dict__):
                self.number(t)  # the judge hears of a class that its values do not tell of
            lost = TOLD & k.__dict__.keys()
            if lost and not standard(k.__module__) and k.__module__.partition(".")[0] != "numpy":
                raise Bad("a %s of the class %s, which has its own %s" % (base.__name__, t.__name__, min(lost)))

    def enc_record(self, v, t, depth):
        enum = loaded("enum", "Enum")
        if enum is not None and issubclass(t, enum):
            name = v._name_
            if type(name) is str and t._member_map_.get(name) is v:
                return ["e", self.number(t), name, self.enc(v._value_, depth + 1)]
        if issubclass(t, tuple) and type(getattr(t, "_fields", None)) is tuple and tuple_fields(t._fields):
            return ["n", self.number(t)] + [self.enc(x, depth + 1) for x in tuple.__iter__(v)]
        return None

    def enc_object(self, v, t):
        if isinstance(v, type):
            return self.enc_class(v)
        if issubclass(t, BaseException):
            return self.enc_exception(v, t)
        if t is type(sys):
            return ["m", self.handle(v), str(v.__name__), hasattr(v, "__path__")]
        scalar = loaded("numpy", "generic")
        if scalar is not None and issubclass(t, scalar):
            plain = v.item()
            if type(plain) is not t:
                return self.enc(plain)
        return ["o", self.handle(v), self.number(t)]

    def enc_class(self, c):
        import builtins

        name, module = c.__name__, c.__module__
        if module == "builtins" and getattr(builtins, name, None) is c:
            if name in BASIC_TYPES or issubclass(c, BaseException):
                return ["g", module, name]
        elif (issubclass(c, BaseException) and standard(module) or module in PLAIN_MODULES) and loaded(module, name) is c:
            return ["g", module, name]
        return ["C", self.number(c)]

    def enc_exception(self, e, t, depth=0):
        if depth > MAX_CAUSES:
            raise Bad("an exception with more than %d causes" % MAX_CAUSES)
        try:
            text = str.__str__(str(e))[:65536]
        except Exception:
            text = ""
        args = ["t"]
        try:
            args = self.enc(tuple.__getitem__(e.args, slice(None)))
        except Exception:
            pass
        cls = self.enc_class(t)
        attributes = self.held(e, cls[0] == "g") + self.causes(e, depth)
        # one of a standard class is made anew in the judge: nobody will ask for it
        return ["x", 0 if cls[0] == "g" else self.handle(e), cls, _str(self, text, 0), args, attributes]

    def held(self, e, made):
        """What an exception carries; the judge asks for the attributes of a class of the pushed code's own."""
        out = []
        for k, x in list(getattr(e, "__dict__", {}).items())[:32]:
            if type(k) is str and (k == "__notes__" or k[:2] != "__") and (made or type(x) in (str, int, bool, type(None), bytes, float)):
                out.append([k, self.enc(x)])
        for name, attributes in HELD:
            if issubclass(type(e), getattr(sys.modules["builtins"], name)):
                for k in attributes:
                    x = getattr(e, k, None)
                    if type(x) in (str, bytes):
                        out.append([k, self.enc(x)])
        notes = getattr(e, "__notes__", None)
        if not made and type(notes) is list:
            out.append(["__notes__", self.enc(notes)])
        return out

    def causes(self, e, depth):
        get = BaseException.__dict__
        out = []
        for name in ("__cause__", "__context__"):
            x = get[name].__get__(e)
            if x is not None:
                out.append([name, self.enc_exception(x, type(x), depth + 1)])
            if name == "__cause__" and x is not None and get["__context__"].__get__(e) is x:
                return out + [["__context__", True]]
        if get["__suppress_context__"].__get__(e):
            out.append(["__suppress_context__", True])
        return out

    def number(self, c):
        n = self.class_numbers.get(c)
        if n is None:
            n = len(self.classes) + 1
            if n > MAX_OBJECTS:
                raise Bad("too many classes")
            self.classes[n] = c
            self.class_numbers[c] = n
            self.described.append(self.describe(n, c))
        return n

    def describe(self, n, c):
        names = set()
        for k in c.__mro__:
            if k is not object:
                names.update(k.__dict__)
        bases = []
        for b in c.__bases__:
            if issubclass(b, BaseException):
                bases.append(self.enc_class(b))
            elif b.__module__ not in ("builtins", "abc", "typing", "enum"):
                bases.append(["C", self.number(b)])
        bases += [["g", module, name] for module, name in self.kinds(c)]
        kind, extra = self.kind(c)
        shown = set()
        if kind in "enx":
            names = self.own(c)
            shown = {n for n in SHOWING & names if not standard(str(getattr(getattr(c, n), "__module__", None)))}
        if self.mixed_in(c, "__contains__"):
            names.discard("__contains__")  # it looks at what there is, as the judge does
        dunders = sorted(DUNDERS & names | shown)
        return [n, str(c.__name__), str(c.__qualname__), str(c.__module__), bases, kind, dunders, extra]

    @staticmethod
    def own(c):
        """What the class of an enum, a named tuple or an exception does otherwise than such classes do."""
        names = set()
        for k in c.__mro__:
            flag = k.__module__ == "enum" and k.__name__ == "Flag" and not issubclass(c, int)
            if flag or not standard(k.__module__):
                names.update(k.__dict__)
        return names

    @staticmethod
    def mixed_in(c, name):
        return all(standard(k.__module__) for k in c.__mro__ if name in k.__dict__)

    @staticmethod
    def kinds(c):
        """The standard classes that an instance of c is one of, without being a proxy of them."""
        for base in BASES:
            if c is not base and issubclass(c, base):
                yield "builtins", base.__name__
        enum = loaded("enum", "Enum")
        if enum is not None and issubclass(c, enum):
            yield next(("enum", k.__name__) for k in c.__mro__ if k.__module__ == "enum")
        for name, base in STOPPING:
            if c is base:  # the class itself: what pushed code makes is none, whatever it calls itself
                yield "types", name
        for module, name, _ in STANDARD + tuple([("collections", name, None) for name, _ in COLLECTIONS]):
            base = loaded(module, name)
            if base is not None and c is not base and issubclass(c, base):
                yield module, name
        for module, names in ABSTRACT:
            for name in names.split() if module in sys.modules else ():
                base = loaded(module, name)
                try:
                    if base is not None and c is not base and issubclass(c, base):
                        yield module, name
                except Exception:  # of a metaclass of the pushed code's own
                    pass

    def kind(self, c):
        if issubclass(c, BaseException):
            return "x", []
        enum = loaded("enum", "Enum")
        if enum is not None and issubclass(c, enum):
            return "e", ["int" if issubclass(c, int) else "str" if issubclass(c, str) else ""]
        if issubclass(c, tuple) and type(getattr(c, "_fields", None)) is tuple and tuple_fields(c._fields):
            return "n", [str(f) for f in c._fields]
        fields = getattr(c, "__dataclass_fields__", None)
        if fields is None:
            return "o", []
        marker = sys.modules["dataclasses"]._FIELD
        plain = all(f._field_type is not sys.modules["dataclasses"]._FIELD_INITVAR for f in fields.values())
        fields = [[f.name, bool(f.init), bool(getattr(f, "kw_only", False)), bool(f.compare)] for f in fields.values() if f._field_type is marker]
        params = getattr(c, "__dataclass_params__", None)
        frozen = bool(getattr(params, "frozen", False))
        order = bool(getattr(params, "order", False)) and all(self.generated(c, "__%s__" % n) for n in ("lt", "le", "gt", "ge"))
        hashed = "none" if c.__hash__ is None else "fields" if self.generated(c, "__hash__") else "own"
        return "D", [order, frozen, plain and self.takes_over(c, frozen), self.generated(c, "__eq__"), hashed] + fields

    @staticmethod
    def generated(c, name):
        """Whether a method of a dataclass is the one that dataclasses has written for it."""
        return getattr(getattr(getattr(c, name), "__code__", None), "co_filename", "") == "<string>"

    @staticmethod
    def takes_over(c, frozen):
        """Whether making an instance does nothing but take its fields over."""
        made = getattr(getattr(c.__init__, "__code__", None), "co_filename", "") == "<string>"
        return (made and not hasattr(c, "__post_init__") and c.__new__ is object.__new__ and type(c).__call__ is type.__call__
                and (frozen or c.__setattr__ is object.__setattr__))

    # -- the plain picture of an object for a comparison in the judge

    def plain(self, v, depth=0):
        t = type(v)
        if depth > MAX_DEPTH:
            raise Bad("a value nested deeper than %d" % MAX_DEPTH)
        depth += 1
        if t is tuple:
            return ["t"] + [self.plain(x, depth) for x in v]
        if t in ENC and t not in (list, dict, set, bytearray):
            return self.enc(v)
        if hasattr(t, "__dataclass_fields__"):
            number = self.number(t)
            marker = sys.modules["dataclasses"]._FIELD
            names = [f.name for f in t.__dataclass_fields__.values() if f._field_type is marker]
            return ["K", number] + [self.plain(getattr(v, n), depth) for n in names]
        out = self.enc_record(v, t, depth)
        if out is not None:
            return out
        if issubclass(t, list):
            return ["L"] + [self.plain(x, depth) for x in list.__iter__(v)]
        if issubclass(t, dict):
            out = ["M"]
            for k, x in list(dict.items(v)):
                out.append(self.plain(k, depth))
                out.append(self.plain(x, depth))
            return out
        if issubclass(t, set):
            return ["G"] + [self.plain(x, depth) for x in set.__iter__(v)]
        if issubclass(t, bytearray):
            return ["A", bytearray.hex(v)]
        return self.enc(v)

    # -- in

    def apply(self, definitions):
        rest = [d for d in definitions if d[1] != BORN]
        self.make(rest)
        for d in definitions:
            if d[1] == BORN:
                self.bear(*d)
        self.fill_all(rest)

    def bear(self, handle, _, number, given, others):
        try:
            v = self.classes[number](**{n: self.dec(x) for n, x in given})
            for n, x in others:
                object.__setattr__(v, n, self.dec(x))
        except Exception as e:
            raise Bad("a dataclass that takes no fields: %s" % type(e).__name__)
        self.handles[handle] = v
        self.numbers[id(v)] = handle

    def dec_class(self, v):
        return self.classes[v[1]]

    def dec_object(self, v):
        return self.handles[v[1]]

    dec_module = dec_object

    def dec_named(self, v):
        return tuple.__new__(self.classes[v[1]], [self.dec(x) for x in v[2:]])

    def dec_enum(self, v):
        return self.classes[v[1]]._member_map_[v[2]]

    def dec_global(self, v):
        module = __import__(v[1], None, None, ["*"])
        for part in v[2].split("."):
            module = getattr(module, part)
        return module

    def dec_exception(self, v):
        e = self.dec_global(v)(*self.dec(v[3]))
        return e


def standard(module):
    names = getattr(sys, "stdlib_module_names", None)
    top = module.split(".")[0]
    if names is not None:
        return top in names
    if top in sys.builtin_module_names:  # some of them say nothing of where they are from, up to Python 3.8
        return True
    origin = getattr(getattr(sys.modules.get(top), "__spec__", None), "origin", None) or ""
    if origin == "frozen":
        return True
    # encodings is always there, and always the interpreter's own
    base = sys.modules["encodings"].__file__.rpartition("/encodings/")[0] + "/"
    return origin.startswith(base) and not origin.startswith((base + "site-packages/", base + "dist-packages/"))


class Driver:
    def __init__(self, tree, packages):
        self.mirror = Mirror()
        self.mirror.module = self.stdlib
        self.tree, self.packages = tree, packages
        self.loop = None
        self.patches = {}
        self.entry = None

    def serve(self):
        while True:
            text = read_frame(REQUESTS)
            if text is None:
                posix._exit(0)
            text = text.decode("ascii")
            ident = text[7:23]
            write_frame(REPLIES, '{"id":"' + ident + '","r":' + self.answer(text[29:-1]) + "}")

    def answer(self, text):
        m = self.mirror
        m.described = []
        try:
            request = loads(text)
            act = getattr(self, "do_" + request[0], None)
            if act is None:
                raise Bad("an unknown request")
            m.apply(request[1])
            for i in request[2]:
                m.forget(i)
            for n in request[3]:
                m.release(n)
        except Bad as e:
            return dumps(["bad", str(e)])
        try:
            try:
                out = act(*request[4:])
                kind = "ok"
            except (Bad, Shown):
                raise
            except BaseException as e:
                e.__traceback__ = None
                if isinstance(e, StopIteration) and request[0] != "row":
                    kind, out = "stop", m.enc(e.value)
                else:
                    kind, out = "raise", m.enc_exception(e, type(e))
            return self.reply(kind, out)
        except Bad as e:
            return dumps(["bad", str(e)[:500]])
        except Shown as e:
            return dumps(["fail", e.args[0], e.args[1]])
        except Exception as e:
            return dumps(["bad", "the driver: " + type(e).__name__])

    def reply(self, kind, out):
        definitions = self.mirror.changes()
        text = dumps([kind, out, definitions, self.mirror.described])
        if len(text) > MAX_FRAME - 64:
            raise Bad("more than 8 MiB in one reply")
        return text

    # -- requests

    def do_open(self, root, sources, leftovers):
        base = self.tree + ("/" + root if root else "")
        path = []
        if self.packages:
            version = "python%d.%d" % sys.version_info[:2]
            path += [self.packages + "/lib/" + version + "/site-packages", self.packages]
        own = __file__.rpartition("/")[0]
        standard = [p for p in sys.path if p not in ("", own)]
        self.standard_path = standard
        sys.path[:] = [base if s in ("", ".") else base + "/" + s for s in sources] + standard + path
        sys.argv = [""]
        posix.chdir(base)
        temporary = posix.environ.get(b"TMPDIR", b"/tmp").decode("utf-8", "surrogateescape")
        self.temporary = temporary
        for name in leftovers:
            if name.startswith("/tmp/"):
                name = temporary + name[4:]
            try:
                posix.close(posix.open(name, posix.O_CREAT | posix.O_WRONLY, 0o600))
            except OSError:
                pass
        self.base = base
        return None

    def stdlib(self, name):
        """A module of the standard library, and what it imports itself, whatever files the tree has of that name."""
        if name not in sys.modules:
            path = sys.path[:]
            sys.path[:] = self.standard_path
            try:
                __import__(name)
            finally:
                sys.path[:] = path
        return sys.modules[name]

    def do_load(self, modules):
        for name, optional in modules:
            try:
                __import__(name)
            except BaseException as e:
                if optional and type(e) is ModuleNotFoundError and e.name == name:
                    continue
                raise Shown(name, self.output(e))
        return None

    def output(self, e):
        traceback = self.stdlib("traceback")
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            pass
        tb = e.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
            tb = tb.tb_next
        while tb is not None and tb.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
            tb = tb.tb_next
        text = "".join(traceback.format_exception(type(e), e, tb)).replace(self.base + "/", "")
        for real, told in ((self.tree, "/tree"), (self.packages, "/library")):
            if real:  # a sandbox that cannot mount leaves directories where they are on the host
                text = text.replace(real, told)
        return text if len(text) <= SHOWN else text[:1024] + "\n...\n" + text[5 + 1024 - SHOWN:]

    def do_import(self, name):
        __import__(name)
        return self.mirror.enc(sys.modules[name])

    def do_get(self, target, name):
        m = self.mirror
        v = m.dec(target)
        if name == "__all__" and type(v) is type(sys) and not hasattr(v, "__all__"):
            return m.enc([n for n in vars(v) if not n.startswith("_")])
        return m.enc(getattr(v, name))

    def do_set(self, target, name, value):
        setattr(self.mirror.dec(target), name, self.mirror.dec(value))
        return None

    def do_del(self, target, name):
        delattr(self.mirror.dec(target), name)
        return None

    def do_call(self, target, args, kwargs):
        m = self.mirror
        return m.enc(m.dec(target)(*[m.dec(a) for a in args], **{k: m.dec(a) for k, a in kwargs}))

    def do_method(self, target, name, args, kwargs):
        m = self.mirror
        return m.enc(getattr(m.dec(target), name)(*[m.dec(a) for a in args], **{k: m.dec(a) for k, a in kwargs}))

    def do_op(self, name, *args):
        m = self.mirror
        return m.enc(OPERATORS[name](*[m.dec(a) for a in args]))

    def do_defaults(self, target):
        missing = sys.modules["dataclasses"].MISSING
        out = []
        for f in self.mirror.dec(target).__dataclass_fields__.values():
            if f.default is not missing:
                out.append((f.name, f.default))
            elif f.default_factory is not missing:
                out.append((f.name, f.default_factory()))
        return self.mirror.enc(tuple(out))

    def do_plain(self, target):
        return self.mirror.plain(self.mirror.dec(target))

    def do_exit(self, target, error):
        m = self.mirror
        v = m.dec(target)
        if error is None:
            return bool(type(v).__exit__(v, None, None, None))
        e = m.dec(error)
        return bool(type(v).__exit__(v, type(e), e, None))

    def do_aexit(self, target, error):
        m = self.mirror
        v = m.dec(target)
        if error is None:
            return m.enc(type(v).__aexit__(v, None, None, None))
        e = m.dec(error)
        return m.enc(type(v).__aexit__(v, type(e), e, None))

    def do_await(self, target):
        return self.mirror.enc(self.wait(self.mirror.dec(target)))

    def wait(self, v):
        if self.loop is None:
            self.loop = self.stdlib("asyncio").new_event_loop()

        async def wait():
            return await v

        return self.loop.run_until_complete(wait())

    def do_resolve(self, text):
        return self.mirror.enc(self.find(text)[-1])

    def find(self, text):
        """The object that "package.module:a.b" or "package.module.a.b" names, with its owner and last name."""
        module, _, rest = text.partition(":")
        parts = rest.split(".") if rest else []
        if not parts:
            names = module.split(".")
            for n in range(len(names) - 1 or 1, 0, -1):
                try:
                    __import__(".".join(names[:n]))
                    break
                except ModuleNotFoundError as e:
                    if n == 1 or not e.name or not ".".join(names[:n]).startswith(e.name):
                        raise
            module, parts = ".".join(names[:n]), names[n:]
        __import__(module)
        owner, name, v = None, "", sys.modules[module]
        for name in parts:
            owner, v = v, getattr(v, name)
        return owner, name, v

    def do_patch(self, text, value, returns):
        owner, name, old = self.find(text)
        if owner is None:
            raise ValueError("a module cannot be replaced")
        new = self.mirror.dec(value)
        if returns:
            given = new

            def new(*args, **kwargs):
                return given

        space = getattr(owner, "__dict__", {})
        own = name in space
        if own and isinstance(owner, type):
            old = space[name]  # a static or class method, and not what it gives
        setattr(owner, name, new)
        n = len(self.patches)
        self.patches[n] = (owner, name, old, own)
        return n

    def do_unpatch(self, n):
        owner, name, old, own = self.patches.pop(n)
        if own:
            setattr(owner, name, old)
        else:
            delattr(owner, name)
        return None

    def do_run(self, argv, stdin, limit):
        subprocess, tempfile = self.stdlib("subprocess"), self.stdlib("tempfile")
        m = self.mirror
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            p = subprocess.run(m.dec(argv), input=m.dec(stdin), stdout=out, stderr=err, cwd=self.base, timeout=limit)
            out.seek(0)
            err.seek(0)
            return m.enc((p.returncode, out.read(1 << 20), err.read(1 << 20)))

    def do_seed(self, value):
        self.stdlib("random").seed(self.mirror.dec(value))
        return None

    def do_write(self, name, data):
        parts = name.split("/")
        if not name or "\0" in name or any(p in ("", ".", "..") for p in parts):
            raise ValueError("no name of a file: %r" % name)
        here = self.temporary + "/given"
        for part in parts:
            try:
                posix.mkdir(here, 0o700)
            except FileExistsError:
                pass
            here += "/" + part
        fd = posix.open(here, posix.O_CREAT | posix.O_WRONLY | posix.O_TRUNC, 0o600)
        try:
            data = self.mirror.dec(data)
            while data:
                data = data[posix.write(fd, data):]
        finally:
            posix.close(fd)
        return here

    # -- invariants: one entry, called row by row

    def do_entry(self, text):
        self.entry = None
        module, _, names = text.partition(":")
        try:
            __import__(module)
            v = sys.modules[module]
            for name in names.split("."):
                v = getattr(v, name)
        except BaseException as e:
            raise Shown(text, self.output(e))
        if not callable(v):
            raise Shown(text, "%s cannot be called: it is of type %s\n" % (text, type(v).__name__))
        self.entry = v
        return None

    def do_row(self, form, text, repeat, seed, take):
        f = self.entry
        if f is None or form not in ("named", "listed"):
            raise Bad("a row without an entry, or in an unknown form")
        given = arguments(text)
        if seed is not None:
            self.sow(seed)
        flat = Flat(self, take)
        out = ["t"]
        for _ in range(repeat):
            v = f(**given) if form == "named" else f(*given)
            if hasattr(type(v), "__await__"):
                v = self.wait(v)
            out.append(flat(v))
        return out


    def sow(self, seed):
        self.stdlib("random").seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed)


def arguments(text):
    """What json.loads gives. Pushed code may have lowered the limit of digits, which is not the row's fault."""
    limit = sys.get_int_max_str_digits() if hasattr(sys, "get_int_max_str_digits") else None
    if limit is not None:
        sys.set_int_max_str_digits(0)
    try:
        return loads(text)
    except (ValueError, StopIteration):
        raise Bad("arguments that are no JSON")
    finally:
        if limit is not None:
            sys.set_int_max_str_digits(limit)


class Flat:
    """The plain picture of what an entry gave: everything inline, nothing remembered but the numbers of classes."""

    def __init__(self, driver, take):
        self.driver, self.mirror, self.take = driver, driver.mirror, take

    def __call__(self, v, depth=0):
        t = type(v)
        atom = ATOMS.get(t)
        if atom is not None:
            return atom(self.mirror, v, depth)
        if depth > MAX_DEPTH:
            raise Bad("a value nested deeper than %d" % MAX_DEPTH)
        if t not in BASES:
            out = self.record(v, t, depth)
            if out is not None:
                return out
        for base in BASES:
            if t is base or issubclass(t, base):
                return self.based(v, t, base, depth)
        for module, name, f in STANDARD:
            base = loaded(module, name)
            if base is not None and issubclass(t, base):
                return f(self.mirror, v, depth)
        return self.other(v, t, depth)

    def based(self, v, t, base, depth):
        """The value by the slots of its base: what a subclass says about itself does not count."""
        depth += 1
        if base is list or base is tuple or base is set or base is frozenset:
            return [SEQUENCES[base]] + [self(x, depth) for x in base.__iter__(v)]
        if base is dict:
            ordered = t is not dict and loaded("collections", "OrderedDict")
            out = ["O" if ordered and issubclass(t, ordered) else "M"]
            for k, x in list(dict.items(v)):
                out.append(self(k, depth))
                out.append(self(x, depth))
            return out
        if base is bytearray:
            return ["A", bytearray.hex(v)]
        return ENC[base](self.mirror, v, depth)

    def record(self, v, t, depth):
        enum = loaded("enum", "Enum")
        if enum is not None and issubclass(t, enum):
            return self.member(v, t, depth)
        if issubclass(t, tuple) and type(getattr(t, "_fields", None)) is tuple and tuple_fields(t._fields):
            return ["n", self.mirror.number(t)] + [self(x, depth + 1) for x in tuple.__iter__(v)]
        fields = getattr(t, "__dataclass_fields__", None)
        if fields is None or not getattr(getattr(t, "__dataclass_params__", None), "eq", False):
            return None
        marker = sys.modules["dataclasses"]._FIELD
        names = [f.name for f in fields.values() if f._field_type is marker and f.compare]
        return ["K", self.mirror.number(t)] + [self(getattr(v, n), depth + 1) for n in names]

    def member(self, v, t, depth):
        for base in BASES:
            if issubclass(t, base):
                return self.based(v, t, base, depth)
        name = v._name_
        return ["e", self.mirror.number(t), name if type(name) is str else "", self(v._value_, depth + 1)]

    def other(self, v, t, depth):
        if isinstance(v, type):
            return self.mirror.enc_class(v)
        if t is KEYS or t is ITEMS:
            return ["G"] + [self(x, depth + 1) for x in t.__iter__(v)]
        deque = loaded("collections", "deque")
        if deque is not None and issubclass(t, deque):
            return ["K", self.mirror.number(deque)] + [self(x, depth + 1) for x in deque.__iter__(v)]
        path = loaded("pathlib", "PurePath")
        if path is not None and issubclass(t, path):
            return ["K", self.mirror.number(t), self(str(v), depth + 1)]
        scalar = loaded("numpy", "generic")
        if scalar is not None and issubclass(t, scalar):
            plain = v.item()
            if type(plain) is not t:
                return self(plain, depth + 1)
        if self.take and t is VALUES:
            v = iter(v)
            t = type(v)
        if self.take and hasattr(t, "__next__"):
            return self.items(lambda: next(v), StopIteration, depth + 1)
        if self.take and hasattr(t, "__anext__"):
            return self.items(lambda: self.driver.wait(t.__anext__(v)), StopAsyncIteration, depth + 1)
        return ["o", 0, self.mirror.number(t)]

    def items(self, step, end, depth):
        """Up to take items of an iterator, and whether it ended by then."""
        out = ["I", False]
        while len(out) - 2 < self.take:
            try:
                x = step()
            except end:
                out[1] = True
                break
            out.append(self(x, depth))
        return out


KEYS, VALUES, ITEMS = type({}.keys()), type({}.values()), type({}.items())
SEQUENCES = {list: "L", tuple: "t", set: "G", frozenset: "z"}
ATOMS = {t: f for t, f in ENC.items() if t not in (list, dict, set, bytearray, tuple, frozenset)}


class Shown(BaseException):
    """The pushed code did not load; nothing sealed has been sent yet."""


def _copy(name):
    def f(v):
        import copy

        return getattr(copy, name)(v)

    return f


def _operators():
    import _operator as o

    table = {"__%s__" % n: getattr(o, n if hasattr(o, n) else n + "_") for n in
             "add sub mul matmul truediv floordiv mod pow lshift rshift and xor or iadd isub imul imatmul itruediv ifloordiv "
             "imod ipow ilshift irshift iand ixor ior neg pos abs invert getitem setitem delitem contains index".split()}
    for n, f in (("len", len), ("iter", iter), ("next", next), ("reversed", reversed), ("divmod", divmod), ("int", int),
                 ("float", float), ("complex", complex), ("bytes", bytes), ("round", round), ("str", str), ("repr", repr),
                 ("format", format), ("dir", dir), ("copy", _copy("copy")), ("deepcopy", _copy("deepcopy"))):
        table["__%s__" % n] = f
    for n in ("trunc", "floor", "ceil", "enter", "aenter", "aiter", "anext", "fspath"):
        table["__%s__" % n] = _special("__%s__" % n)
    return table


def _special(name):
    return lambda v: getattr(type(v), name)(v)


OPERATORS = _operators()

if __name__ == "__main__":
    posix.set_inheritable(REQUESTS, False)
    posix.set_inheritable(REPLIES, False)
    Driver(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "").serve()
