# Attacks on the sandbox from inside. Every probe says how it went in one line,
# "held NAME" or "broke NAME: what it got". A probe breaks only by getting
# something; any error holds.
import ctypes
import errno
import mmap
import os
import platform
import signal
import socket
import sys

ROUND, CANARY, TCP, ABSTRACT, HOST_PID, MARK = sys.argv[1:7]
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


class Broke(Exception):
    pass


def call(number, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), "call %d" % number)
    return r


def number(x86, arm):
    return x86 if X86 else arm


def read(path):
    with open(path, "rb") as f:
        return f.read(64)


def processes():
    return [int(n) for n in os.listdir("/proc") if n.isdigit()]


def canary():
    for path in [CANARY] + ["/proc/%d/root%s" % (p, CANARY) for p in processes()]:
        try:
            data = read(path)
        except OSError:
            continue
        raise Broke("read " + path + " " + repr(data))


def host_processes():
    seen = [p for p in processes() if p not in (1, os.getpid(), os.getppid())]
    for p in seen:
        try:
            line = read("/proc/%d/cmdline" % p)
        except OSError:
            continue
        if line.strip(b"\0") and MARK.encode() not in line:
            raise Broke("process %d %r" % (p, line))
    if len(seen) > 3:
        raise Broke("%d processes" % len(seen))


def neighbour():
    for p in processes():
        try:
            if b"neighbour-" + MARK.encode() in open("/proc/%d/cmdline" % p, "rb").read():
                raise Broke("neighbour is process %d" % p)
        except OSError:
            pass


def first_process():
    for name in ("mem", "environ", "maps", "root/etc/passwd", "fd", "task/1/mem"):
        path = "/proc/1/" + name
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            continue
        raise Broke("opened " + path)


def loopback():
    s = socket.socket()
    s.settimeout(2)
    s.connect(("127.0.0.1", int(TCP)))
    raise Broke("connected to the host's loopback")


def abstract_socket():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(2)
    s.connect("\0" + ABSTRACT)
    raise Broke("connected to the host's abstract socket")


def families():
    for family in range(2, 46):
        if family in (socket.AF_INET, socket.AF_INET6):
            continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                socket.socket(family, kind, 0).close()
            except OSError:
                continue
            raise Broke("socket of family %d type %d" % (family, kind))


def raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raise Broke("raw socket")


def outside_network():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("192.0.2.1", 9))
    raise Broke("there is a route")


def writable():
    for root, dirs, files in os.walk("/"):
        dirs[:] = [d for d in dirs if os.path.join(root, d) not in ("/proc", "/tmp", "/dev/shm", "/dev/pts", "/usr")]
        attempt_write(root)
    for place in ("/usr", "/usr/bin", "/usr/lib", "/etc", "/proc", "/proc/sys", "/proc/1"):
        attempt_write(place)


def attempt_write(place):
    path = os.path.join(place, "left-behind")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError:
        return
    raise Broke("created " + path)


def namespaces():
    for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x04000000, 0x08000000, 0x02000000, 0x80):
        try:
            call(number(272, 97), flag)
        except OSError:
            continue
        raise Broke("unshare 0x%x" % flag)


def clone_namespace():
    pid = call(number(56, 220), 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    raise Broke("clone with a new user namespace")


def clone3():
    args = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call(435, ctypes.byref(args), ctypes.sizeof(args))
    if pid == 0:
        os._exit(0)
    raise Broke("clone3")


def trace():
    call(number(101, 117), 0, 0, 0, 0)  # PTRACE_TRACEME: the least that ptrace does
    raise Broke("ptrace")


def foreign_memory():
    buf = ctypes.create_string_buffer(8)
    iov = (ctypes.c_void_p * 2)(ctypes.addressof(buf), 8)
    call(number(310, 270), os.getpid(), ctypes.byref(iov), 1, ctypes.byref(iov), 1, 0)
    raise Broke("process_vm_readv")


def keyring():
    for ring in (-1, -3, -4, -5):
        try:
            call(number(250, 219), 0, ring, 1)
        except OSError:
            continue
        raise Broke("keyring %d" % ring)


def mounting():
    for number_, args in ((number(165, 40), (b"none", b"/tmp", b"tmpfs", 0, 0)), (430, (b"tmpfs", 0)), (428, (-100, b"/", 1))):
        try:
            call(number_, *args)
        except OSError:
            continue
        raise Broke("mount call %d" % number_)


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
        ("shmget", number(29, 194), (0, 4096, 0o1600)),
    ):
        try:
            call(n, *args)
        except OSError:
            continue
        raise Broke(name)


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
            got = attempt()
        except BaseException:
            os._exit(0)
        os._exit(1 if got > 0 else 0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
        raise Broke(what)


def descriptors():
    mine = os.open("/proc/self/fd", os.O_RDONLY)
    for name in os.listdir(mine):
        fd = int(name)
        if fd > 2 and fd != mine:
            try:
                target = os.readlink("/proc/self/fd/%d" % fd)
            except OSError:
                continue
            raise Broke("descriptor %d is %s" % (fd, target))


def devices():
    allowed = {"console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
    more = set(os.listdir("/dev")) - allowed
    if more:
        raise Broke("devices " + " ".join(sorted(more)))
    os.mknod("/tmp/null", 0o020600, os.makedev(1, 1))
    raise Broke("made a device")


def kernel_files():
    for path in ("/proc/kcore", "/proc/sysrq-trigger", "/proc/kmsg", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/sys/kernel", "/proc/keys/x"):
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            continue
        raise Broke("opened " + path)


def signals():
    for pid in (int(HOST_PID), -1 * int(HOST_PID)):
        try:
            os.kill(pid, 0)
        except OSError:
            continue
        if int(HOST_PID) not in processes():
            raise Broke("signalled %d" % pid)


def set_ids():
    for attempt in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
        try:
            attempt()
        except OSError:
            continue
        raise Broke("changed its ids")


def more_rights():
    for line in open("/proc/self/status"):
        key, _, value = line.partition(":")
        if key in ("CapInh", "CapPrm", "CapEff", "CapAmb") and int(value, 16):
            raise Broke(line.strip())
        if key == "NoNewPrivs" and value.strip() != "1" or key == "Seccomp" and value.strip() != "2":
            raise Broke(line.strip())


def raise_limits():
    import resource

    for which in (resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        soft, hard = resource.getrlimit(which)
        if hard == resource.RLIM_INFINITY:
            raise Broke("limit %d is open" % which)
        try:
            resource.setrlimit(which, (hard + 1, hard + 1))
        except (OSError, ValueError):
            continue
        raise Broke("raised limit %d" % which)


def leftovers():
    for place in ("/tmp", "/dev/shm"):
        found = os.listdir(place)
        if found:
            raise Broke("%s holds %s" % (place, found))
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect("\0left-" + MARK)
    except OSError:
        return
    raise Broke("abstract socket of an earlier run")


def leave():
    for place in ("/tmp", "/dev/shm"):
        with open(place + "/left-" + MARK, "w") as f:
            f.write(MARK)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in (0, 1, 2):
                os.close(fd)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            s = socket.socket(socket.AF_UNIX)
            s.bind("\0left-" + MARK)
            s.listen()
            while True:
                signal.pause()
        os._exit(0)
    os.wait()


PROBES = [
    leftovers, canary, host_processes, neighbour, first_process, loopback, abstract_socket, families, raw_socket,
    outside_network, writable, namespaces, clone_namespace, clone3, trace, foreign_memory, keyring, mounting,
    wide_calls, other_architecture, x32, descriptors, devices, kernel_files, signals, set_ids, more_rights,
    raise_limits,
]

def attempt(probe):
    try:
        probe()
    except Broke as e:
        return "broke %s: %s" % (probe.__name__, e)
    except OSError:
        pass
    return "held " + probe.__name__


# A process each: what one does to itself must not hold the next.
for probe in PROBES:
    pid = os.fork()
    if pid == 0:
        try:
            print(attempt(probe), flush=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status == signal.SIGSYS:
        print("held " + probe.__name__, flush=True)
if ROUND == "1":
    leave()
print("end", flush=True)
