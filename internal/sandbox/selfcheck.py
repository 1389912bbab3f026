# Attacks on the sandbox from inside. Every probe says how it went in one line:
# "held NAME", "broke NAME: what it got", or "failed NAME: why it could not try".
# A probe breaks only by getting something; only a refusal holds.
import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket
import sys

ROUND, SHOWN = sys.argv[1:3]
TOLD = dict(word.split("=", 1) for word in sys.argv[3:])
MARK, HOST_PID, LEVEL = TOLD["mark"], int(TOLD["host"]), int(TOLD["level"])
TMP = os.environ.get("TMPDIR", "/tmp")
PARENT = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"

# Errors of an attack that was not made: nobody refused it.
UNABLE = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EAGAIN, errno.EINTR, errno.EDQUOT)


class Broke(Exception):
    pass


class Unable(Exception):
    pass


def got(attempt, *args):
    """What an attempt got, in a tuple; None where it was refused."""
    try:
        return (attempt(*args),)
    except OSError as e:
        if e.errno in UNABLE:
            raise Unable(str(e))
        return None


def call(number, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), "call %d" % number)
    return r


def number(x86, arm):
    return x86 if X86 else arm


def numbers(name):
    return [int(n) for n in TOLD[name].split(",") if n]


def read(path):
    with open(path, "rb") as f:
        return f.read(4096)


def opens(path, flags=os.O_RDONLY):
    fd = got(os.open, path, flags | os.O_NONBLOCK, 0o600)
    if fd:
        os.close(fd[0])
    return fd is not None


def processes():
    listed = got(os.listdir, "/proc")
    return [int(n) for n in listed[0] if n.isdigit()] if listed else []


def foreign(pid):
    """Whether a number of the host's is not one of ours by chance: in a pid
    namespace of our own the parent is process 1."""
    return pid > 0 and (PARENT != 1 or pid not in processes())


# F4: reading what is not its own


def canary():
    for path in [TOLD["private"]] + ["/proc/%d/root%s" % (p, TOLD["private"]) for p in processes()]:
        if got(read, path):
            raise Broke("read hookd's own " + path)


def sealed_paths():
    if got(read, TOLD["sealed"]):
        raise Broke("read what is sealed from it: " + TOLD["sealed"])


def other_tree():
    if got(os.listdir, TOLD["tree"]) or got(read, TOLD["tree"] + "/file"):
        raise Broke("read the tree of another repository: " + TOLD["tree"])


def listing():
    for path in (TOLD["scratch"], os.path.dirname(TOLD["private"])):
        if got(os.listdir, path):
            raise Broke("listed " + path)


def host_files():
    for path in ("/root", "/home", "/srv", "/var", "/boot", "/run", "/mnt", "/media", "/opt"):
        if not any(root.startswith(path + "/") for root in TOLD["roots"].split(":")) and got(os.listdir, path):
            raise Broke("listed " + path)
    if got(read, "/etc/shadow") or got(read, "/etc/machine-id"):
        raise Broke("read the host's /etc")


def host_processes():
    seen = [p for p in processes() if p not in (1, os.getpid(), os.getppid())]
    for p in seen:
        line = got(read, "/proc/%d/cmdline" % p)
        if line and line[0].strip(b"\0") and MARK.encode() not in line[0]:
            raise Broke("process %d" % p)
    if len(seen) > 3:
        raise Broke("%d processes" % len(seen))


def neighbour():
    for p in processes() + [int(TOLD["neighbour"])]:
        line = got(read, "/proc/%d/cmdline" % p)
        if line and b"neighbour-" + MARK.encode() in line[0]:
            raise Broke("neighbour is process %d" % p)


def first_process():
    for name in ("cmdline", "status", "mem", "environ", "maps", "root/etc/passwd", "fd", "task/1/mem"):
        if opens("/proc/1/" + name):
            raise Broke("opened /proc/1/" + name)


def parent():
    # In tier 1 the parent is process 1 of its own namespace, in tier 2 a warden
    # with the same uid.
    for name in ("mem", "environ", "maps", "fd", "root", "cwd"):
        if opens("/proc/%d/%s" % (PARENT, name)):
            raise Broke("opened %s of its parent" % name)
    limits = (ctypes.c_uint64 * 2)()
    for what, attempt in (
        ("signalled", lambda: os.kill(PARENT, 0)),
        ("asked the limits of", lambda: call(number(302, 261), PARENT, 7, 0, ctypes.byref(limits))),
        ("slowed down", lambda: os.setpriority(os.PRIO_PROCESS, PARENT, 0)),
    ):
        if got(attempt):
            raise Broke(what + " its parent")


def environment():
    more = set(os.environ) - set(TOLD["env"].split(","))
    if more:
        raise Broke("variables " + " ".join(sorted(more)))


def descriptors():
    for fd in range(3, 256):
        if got(fcntl.fcntl, fd, fcntl.F_GETFD):
            raise Broke("descriptor %d" % fd)


def loopback():
    if got(stream, socket.AF_INET, ("127.0.0.1", int(TOLD["tcp"]))):
        raise Broke("connected to the host's loopback")


def abstract_socket():
    if got(stream, socket.AF_UNIX, "\0" + TOLD["abstract"]):
        raise Broke("connected to the host's abstract socket")


def pathname_socket():
    place = TOLD["stream"]
    if got(stream, socket.AF_UNIX, place):
        raise Broke("connected to " + place)
    if got(os.chdir, os.path.dirname(place)) and got(stream, socket.AF_UNIX, os.path.basename(place)):
        raise Broke("connected to " + place)


def stream(family, address):
    with socket.socket(family) as s:
        s.settimeout(2)
        s.connect(address)


def datagram_pair():
    pair = got(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
    if not pair:
        pair = got(socket.socketpair, socket.AF_UNIX, socket.SOCK_STREAM)
    if not pair:
        return
    place = TOLD["datagram"]
    names = [place, "\0" + TOLD["abstract"] + "-datagram"]
    if got(os.chdir, os.path.dirname(place)):
        names.append(os.path.basename(place))
    for name in names:
        if got(pair[0][0].sendto, b"x", name) or got(pair[0][0].connect, name):
            raise Broke("reached the host's socket " + repr(name))


def families():
    for family in range(2, 46):
        if family in (socket.AF_INET, socket.AF_INET6):
            continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            made = got(socket.socket, family, kind, 0)
            if made:
                raise Broke("socket of family %d type %d" % (family, kind))


def protocols():
    for kind, protocol in ((socket.SOCK_RAW, 1), (socket.SOCK_STREAM, 262), (socket.SOCK_STREAM, 132), (socket.SOCK_DGRAM, 136)):
        try:
            socket.socket(socket.AF_INET, kind, protocol).close()
        except OSError as e:
            if e.errno == errno.EAFNOSUPPORT:  # the filter's word
                continue
        raise Broke("the kernel was asked for type %d protocol %d" % (kind, protocol))


def outside_network():
    made = got(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
    if made and got(made[0].connect, ("192.0.2.1", 9)):
        raise Broke("there is a route")


def keyring():
    for ring in (-1, -3, -4, -5):
        if got(call, number(250, 219), 0, ring, 1):
            raise Broke("keyring %d" % ring)


def kernel_files():
    for path in ("/proc/kcore", "/proc/sysrq-trigger", "/proc/kmsg", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname"):
        if opens(path):
            raise Broke("opened " + path)


def system_files():
    for path in ("/sys", "/sys/kernel", "/sys/fs/cgroup"):
        if got(os.listdir, path):
            raise Broke("listed " + path)


def devices():
    allowed = {"console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
    listed = got(os.listdir, "/dev")
    more = set(listed[0]) - allowed if listed else set()
    if more:
        raise Broke("devices " + " ".join(sorted(more)))
    if got(os.mknod, TMP + "/null", 0o020600, os.makedev(1, 1)):
        raise Broke("made a device")


# F4: rights, calls, other processes


def namespaces():
    # The first needs no right, the second none where there are user namespaces.
    for flag in (0x200, 0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x04000000, 0x08000000, 0x02000000, 0x80):
        if got(call, number(272, 97), flag):
            raise Broke("unshare 0x%x" % flag)


def clone_namespace():
    made = got(call, number(56, 220), 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if made and made[0] == 0:
        os._exit(0)
    if made:
        raise Broke("clone with a new user namespace")


def clone3():
    args = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    made = got(call, 435, ctypes.byref(args), ctypes.sizeof(args))
    if made and made[0] == 0:
        os._exit(0)
    if made:
        raise Broke("clone3")


def trace():
    if got(call, number(101, 117), 0, 0, 0, 0):  # PTRACE_TRACEME: the least that ptrace does
        raise Broke("ptrace")


def foreign_memory():
    buf = ctypes.create_string_buffer(8)
    iov = (ctypes.c_void_p * 2)(ctypes.addressof(buf), 8)
    if got(call, number(310, 270), os.getpid(), ctypes.byref(iov), 1, ctypes.byref(iov), 1, 0):
        raise Broke("process_vm_readv")


def mounting():
    # open_tree without flags needs no right at all, mounting needs some.
    for nr, args in ((428, (-100, b"/", 0)), (number(165, 40), (b"none", TMP.encode(), b"tmpfs", 0, 0)), (430, (b"tmpfs", 0))):
        if got(call, nr, *args):
            raise Broke("mount call %d" % nr)


def wide_calls():
    page = ctypes.create_string_buffer(256)
    for name, n, args in (
        ("io_uring_setup", 425, (4, page)),
        ("bpf", number(321, 280), (0, page, 128)),
        ("perf_event_open", number(298, 241), (page, 0, -1, -1, 0)),
        ("userfaultfd", number(323, 282), (1,)),
        ("memfd_create", number(319, 279), (b"x", 0)),
        ("name_to_handle_at", number(303, 264), (-100, b"/", page, page, 0)),
        ("personality", number(135, 92), (0x0040000,)),
        ("fanotify_init", number(300, 262), (0x200, 0)),
    ):
        if got(call, n, *args):
            raise Broke(name)


def denied_calls():
    answered("denied", errno.EPERM)


def absent_calls():
    answered("absent", errno.ENOSYS)


def answered(table, want):
    """Every call of a table is answered by the filter, whatever it is asked."""
    for nr in numbers(table):
        try:
            call(nr, -1, -1, -1, -1, -1, -1)
        except OSError as e:
            if e.errno == want:
                continue
        raise Broke("call %d reached the kernel" % nr)


def terminal():
    with open("/dev/null") as f:
        try:
            fcntl.ioctl(f, 0x5412, b"x")  # TIOCSTI: type into a terminal
        except OSError as e:
            if e.errno == errno.EPERM:
                return
    raise Broke("the filter lets TIOCSTI through")


def other_architecture():
    if not X86:
        return
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov eax, 20 (getpid); int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    entry = ctypes.addressof(ctypes.c_char.from_buffer(page))
    survives("32-bit call", lambda: ctypes.CFUNCTYPE(ctypes.c_int)(entry)())


def x32():
    if X86:
        survives("x32 call", lambda: call(0x40000000 | 39))


def survives(what, attempt):
    pid = os.fork()
    if pid == 0:
        try:
            answer = attempt()
        except BaseException:
            os._exit(0)
        os._exit(1 if answer > 0 else 0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
        raise Broke(what)


def signals():
    for pid in (HOST_PID, -HOST_PID, int(TOLD["neighbour"])):
        if foreign(abs(pid)) and got(os.kill, pid, 0):
            raise Broke("signalled %d of the host" % pid)


def foreign_limits():
    limits = (ctypes.c_uint64 * 2)()
    for pid in (HOST_PID, int(TOLD["neighbour"])):
        if not foreign(pid):
            continue
        if got(call, number(302, 261), pid, 7, 0, ctypes.byref(limits)):
            raise Broke("read the limits of %d of the host" % pid)
        cores = got(os.sched_getaffinity, pid)
        if cores and got(os.sched_setaffinity, pid, cores[0]):
            raise Broke("chose the cores of %d of the host" % pid)


def set_ids():
    for attempt in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
        if got(attempt):
            raise Broke("changed its ids")


def more_rights():
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    call(number(125, 90), ctypes.byref(header), ctypes.byref(data))
    if any(data):
        raise Broke("capabilities %s" % " ".join("%x" % word for word in data))
    if any(libc.prctl(47, 1, cap, 0, 0) == 1 for cap in range(64)):
        raise Broke("ambient capabilities")
    if libc.prctl(39, 0, 0, 0, 0) != 1:
        raise Broke("programs can give it more rights (no_new_privs is off)")
    if libc.prctl(21, 0, 0, 0, 0) != 2:
        raise Broke("there is no filter of system calls")


def raise_limits():
    import resource

    for which in (resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        _, hard = resource.getrlimit(which)
        if hard == resource.RLIM_INFINITY:
            raise Broke("limit %d is open" % which)
        try:
            resource.setrlimit(which, (hard + 1, hard + 1))
        except (OSError, ValueError):
            continue
        raise Broke("raised limit %d" % which)


# F5: leaving something behind


def writable():
    for root, dirs, _ in os.walk("/"):
        dirs[:] = [d for d in dirs if os.path.join(root, d) not in ("/proc", "/sys", "/tmp", "/dev/shm", "/dev/pts", "/usr", SHOWN)]
        create_in(root)
    for place in ("/usr", "/usr/bin", "/usr/lib", "/etc", "/proc", "/proc/sys", "/proc/1", "/var/tmp", "/run", TOLD["scratch"], TOLD["tree"]):
        create_in(place)
    for place in ("/tmp", "/dev/shm"):
        if LEVEL == 2:
            create_in(place)


def create_in(place):
    path = os.path.join(place, "left-behind-" + MARK)
    if opens(path, os.O_CREAT | os.O_WRONLY):
        got(os.unlink, path)
        raise Broke("created " + path)


def bound_files():
    name = SHOWN + "/file"
    for what, attempt in (
        ("opened for writing", lambda: os.close(os.open(name, os.O_WRONLY))),
        ("changed the mode of", lambda: os.chmod(name, 0o777)),
        ("marked", lambda: os.setxattr(name, "user.mark", b"x")),
        ("made a directory beside", lambda: os.mkdir(SHOWN + "/made")),
        ("made a link beside", lambda: os.symlink("x", SHOWN + "/link")),
        ("linked", lambda: os.link(name, TMP + "/linked")),
        ("renamed", lambda: os.rename(name, SHOWN + "/renamed")),
        ("removed", lambda: os.unlink(name)),
    ):
        if got(attempt):
            raise Broke(what + " a file that it may only read")


def file_times():
    for name in (SHOWN + "/timed", SHOWN):
        if got(os.utime, name) or got(os.utime, name, (1, 1)):
            raise Broke("set the time of a file that it may only read")


def file_locks():
    with open(SHOWN + "/lock") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Broke("somebody still holds a lock of an earlier run")


def message_queue():
    queue = got(call, number(240, 180), TOLD["queue"].encode(), os.O_RDWR, 0, 0)
    if queue:
        raise Broke("opened a message queue of the host")


def system_v():
    for what, nr, args, control in (
        ("message queue", number(68, 186), (0, 0o1600), (number(71, 187), 0, 0)),
        ("semaphore", number(64, 190), (0, 1, 0o1600), (number(66, 191), 0, 0, 0)),
        ("shared memory", number(29, 194), (0, 4096, 0o1600), (number(31, 195), 0, 0)),
    ):
        made = got(call, nr, *args)
        if made:
            got(call, control[0], made[0], *control[1:])  # take it away again
            raise Broke("made a %s that outlives it" % what)


def leftovers():
    for place in (TMP, "/dev/shm"):
        found = got(os.listdir, place)
        mounted = {root[len(place) + 1 :].split("/")[0] for root in TOLD["roots"].split(":") if root.startswith(place + "/")}
        left = set(found[0]) - mounted if found else ()
        if left:
            raise Broke("%s holds %s" % (place, " ".join(sorted(left))))
    if got(stream, socket.AF_UNIX, "\0left-" + TOLD["role"] + MARK):
        raise Broke("abstract socket of an earlier run")


def leave():
    """Leaves what the next run must not find, and says whether it could."""
    with open(TMP + "/left-" + MARK, "w") as f:
        f.write(MARK)
    if LEVEL == 1:
        with open("/dev/shm/left-" + MARK, "w") as f:
            f.write(MARK)
    there, done = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            linger(done)
        os._exit(0)
    os.close(done)
    os.wait()
    if os.read(there, 1) != b"x":
        raise Unable("what should stay did not start")


def linger(done):
    for fd in (0, 1, 2):
        os.close(fd)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(60)  # not for ever where nothing ends it
    lock = open(SHOWN + "/lock")
    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    if LEVEL == 1:
        s = socket.socket(socket.AF_UNIX)
        s.bind("\0left-" + TOLD["role"] + MARK)
        s.listen()
    os.write(done, b"x")
    while True:
        signal.pause()


# F6: taking more than its part. Each holds what it took until it is told to go
# on, while hookd asks a neighbour whether it can still work.


def hold():
    os.write(3, b".")
    if os.read(4, 1) != b".":
        raise Unable("nobody says how the neighbour is")


def forks():
    most, children = numbers("processes")[0], []
    try:
        while len(children) <= 2 * most:
            try:
                pid = os.fork()
            except OSError:
                break
            if pid == 0:
                signal.pause()
                os._exit(0)
            children.append(pid)
        hold()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    bounded("processes", len(children), most)


def disk():
    bounded("bytes in TMPDIR", fill(TMP, numbers("tmp")[0]), numbers("tmp")[0])


def shared_memory():
    bounded("bytes in /dev/shm", fill("/dev/shm", numbers("tmp")[0]), numbers("tmp")[0])


def fill(place, most):
    chunk, taken, names = b"x" * 65536, 0, []
    try:
        while taken <= 2 * most:
            names.append("%s/%d" % (place, len(names)))
            fd = os.open(names[-1], os.O_CREAT | os.O_WRONLY, 0o600)
            try:
                taken += os.write(fd, chunk)
            finally:
                os.close(fd)
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise Unable(str(e))
    hold()
    for name in names:
        os.unlink(name)
    return taken


def open_files():
    most, files = numbers("files")[0], []
    try:
        while len(files) <= 2 * most:
            files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as e:
        if e.errno != errno.EMFILE:
            raise Unable(str(e))
    hold()
    bounded("open files", len(files), most)


def file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most, name = numbers("size")[0], TMP + "/large"
    fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o600)
    taken = 0
    try:
        os.ftruncate(fd, 4 * most)
        taken = 4 * most
    except OSError as e:
        if e.errno != errno.EFBIG:
            raise Unable(str(e))
        taken = os.write(fd, b"x" * most)
    hold()
    os.unlink(name)
    bounded("bytes of one file", taken, most)


def bounded(what, taken, most):
    if taken > most:
        raise Broke("took %d %s; %d is the limit" % (taken, what, most))
    if taken < 1:
        raise Unable("took no %s at all" % what)


def memory():
    """Takes too much in many processes, and waits to be ended for it."""
    for _ in range(numbers("total")[0] // (4 << 20) + 1):
        if os.fork() == 0:
            kept = b"x" * (4 << 20)
            signal.pause()
            os._exit(len(kept) and 0)
    signal.alarm(numbers("patience")[0])
    signal.pause()


def room():
    """Takes too much of its directory, and waits to be ended for it."""
    for i in range(4 * numbers("tmp")[0] // 65536):
        with open("%s/%d" % (TMP, i), "w") as f:
            f.write("x" * 65536)
    signal.alarm(numbers("patience")[0])
    signal.pause()


PROBES = {
    "attack": [
        leftovers, canary, sealed_paths, other_tree, listing, host_files, host_processes, neighbour, first_process,
        environment, descriptors, loopback, abstract_socket, pathname_socket, datagram_pair, families, protocols,
        outside_network, keyring, kernel_files, system_files, devices, namespaces, clone_namespace, clone3, trace,
        foreign_memory, mounting, wide_calls, denied_calls, absent_calls, terminal, other_architecture, x32, signals,
        foreign_limits, set_ids, more_rights, raise_limits, writable, bound_files, file_times, message_queue, system_v,
    ],
    "again": [leftovers, file_locks],
    "exhaust": [forks, open_files, file_size],
}
if LEVEL == 1:
    PROBES["exhaust"] += [disk, shared_memory]
if LEVEL == 2:
    PROBES["attack"] += [parent]


def attempt(probe):
    name = probe.__name__
    try:
        probe()
    except Broke as e:
        return "broke %s: %s" % (name, e)
    except Exception as e:  # an error of the system too: a refusal is what got takes for one
        return "failed %s: %s: %s" % (name, type(e).__name__, e)
    return "held " + name


def say(line):
    os.write(1, (line.replace("\n", " ") + "\n").encode(errors="replace"))


# Those that change their process, or want one in which nothing was opened, also where
# they are held.
ALONE = (descriptors, pathname_socket, datagram_pair, forks, open_files, file_size, disk, shared_memory)


def all_of(probes):
    # A process makes one after another: to start one costs more than most attacks do.
    # What gets something may have changed its process, so the next has a new one, as
    # where the filter has ended it.
    at = mmap.mmap(-1, mmap.PAGESIZE)  # shared with it: the probe that it is at
    first = 0
    while first < len(probes):
        at[0] = first
        pid = os.fork()
        if pid == 0:
            try:
                several(probes, first, at)
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status == signal.SIGSYS:
            say("held " + probes[at[0]].__name__)
        first = at[0] + 1


def several(probes, first, at):
    for i in range(first, len(probes)):
        if i > first and probes[i] in ALONE:
            return
        at[0] = i
        word = attempt(probes[i])
        say(word)
        if probes[i] in ALONE or not word.startswith("held "):
            return


if ROUND in ("memory", "room"):
    {"memory": memory, "room": room}[ROUND]()
    sys.exit("was let be")
all_of(PROBES[ROUND])
if ROUND == "attack":
    leave()
say("end")
if ROUND == "exhaust":
    for _ in range(16):
        os.write(1, b"x" * 65536)
