//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTwo opens tier 2; nil in the other modes.
func openTwo(t *testing.T) *Sandbox {
	t.Helper()
	if !asUser(t, t.Name()) || mode() != modeTwo {
		return nil
	}
	sb := openHere(t)
	if sb.Level() != 2 {
		t.Fatalf("level %d", sb.Level())
	}
	return sb
}

// attackPy is what the attacks share: call makes a system call, tries says
// whether something was possible.
const attackPy = `
import ctypes, os, socket, sys, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
def call(x86, arm, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(x86 if X86 else arm), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), "call")
    return r
`

// What only Landlock and the narrower filter stand against. Each attack must end
// with an error of the system, and prints "held".
func TestTierTwoHolds(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	dir := reachable(t)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(secret, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	for _, network := range []string{"unix", "unixgram"} {
		at := socket
		if network == "unixgram" {
			at += "-datagram"
		}
		addr := &net.UnixAddr{Name: at, Net: network}
		if network == "unix" {
			l, err := net.ListenUnix(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
		} else {
			l, err := net.ListenUnixgram(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
		}
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	attacks := []struct{ name, script string }{
		{"reads a file that anybody may read", "open('" + secret + "').read()"},
		{"writes a file that anybody may write", "open('" + secret + "','a')"},
		{"truncates it", "os.truncate('" + secret + "', 0)"},
		{"lists the directory", "os.listdir('" + dir + "')"},
		{"makes a file beside it", "os.open('" + dir + "/new', os.O_CREAT|os.O_WRONLY)"},
		{"removes it", "os.remove('" + secret + "')"},
		{"moves it into its own", "os.rename('" + secret + "', os.environ['TMPDIR']+'/x')"},
		{"links it into its own", "os.link('" + secret + "', os.environ['TMPDIR']+'/x')"},
		{"moves its own out", "d=os.environ['TMPDIR']; open(d+'/y','w'); os.rename(d+'/y', '" + dir + "/y')"},
		{"removes its own directory", "os.rmdir(os.environ['TMPDIR'])"},
		{"reads the accounts", "open('/etc/passwd').read()"},
		{"reads /proc", "open('/proc/self/status').read()"},
		{"reads its parent's memory", "open('/proc/%d/mem' % os.getppid(), 'rb')"},
		{"lists /", "os.listdir('/')"},
		{"makes a device", "os.mknod(os.environ['TMPDIR']+'/n', 0o020600, os.makedev(1, 1))"},
		{"opens a terminal", "open('/dev/ptmx')"},
		{"shared memory", "open('/dev/shm/x', 'w')"},
		{"a socket of the host", "s=socket.socket(socket.AF_UNIX); s.connect('" + socket + "')"},
		{"a network socket", "socket.socket()"},
		{"a datagram pair", "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"},
		{"a datagram pair with a flag", "call(53, 199, socket.AF_UNIX, socket.SOCK_DGRAM|socket.SOCK_CLOEXEC, 0, ctypes.create_string_buffer(8))"},
		{"a raw pair", "socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)"},
		{"sends a stream elsewhere", "a,b=socket.socketpair(); a.sendto(b'x', '" + socket + "-datagram')"},
		{"listens on a pair", "a,b=socket.socketpair(); a.listen()"},
		{"binds a pair", "a,b=socket.socketpair(); a.bind(os.environ['TMPDIR']+'/s')"},
		{"message queue", "call(240, 180, b'/x', os.O_CREAT|os.O_RDWR, 0o600, 0)"},
		{"message queue of System V", "call(68, 186, 4711, 0o1600)"},
		{"semaphores of System V", "call(64, 190, 4711, 1, 0o1600)"},
		{"shared memory of System V", "call(29, 194, 4711, 4096, 0o1600)"},
		{"watches a file", "call(294, 26, 0)"},
		{"holds its parent", "call(434, 434, os.getppid(), 0)"},
		{"limits of its parent", "call(302, 261, os.getppid(), 7, 0, ctypes.create_string_buffer(16))"},
		{"slows its parent", "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)"},
		{"slows its user", "os.setpriority(os.PRIO_USER, 0, 19)"},
		{"schedules its parent", "os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0))"},
		{"chooses its parent's processor", "os.sched_setaffinity(os.getppid(), {min(os.sched_getaffinity(0))})"},
		{"watches a directory by a signal", "import fcntl; fcntl.fcntl(os.open('/usr/bin', 0), 1026, 0x1)"},
		{"signals its parent", "os.kill(os.getppid(), 0)"},
		{"signals hookd", fmt.Sprintf("os.kill(%d, 0)", os.Getpid())},
		{"a user namespace", "call(272, 97, 0x10000000)"},
		{"asks for the page cache", "f=os.open('/usr/bin/env',0); call(451, 451, f, ctypes.create_string_buffer(16), ctypes.create_string_buffer(64), 0)"},
	}
	script := attackPy
	for _, a := range attacks {
		script += "try:\n " + strings.ReplaceAll(a.script, "; ", "\n ") + fmt.Sprintf("\nexcept OSError as e: print(%q)\nelse: print(%q)\n", "held "+a.name, "broke "+a.name)
	}
	r := run(t, sb, Spec{Argv: python(script), Env: []string{"PYTHONUNBUFFERED=1"}})
	for _, a := range attacks {
		if !strings.Contains(string(r.Stdout), "held "+a.name+"\n") {
			t.Errorf("%s: got through, or broke the probe: %q", a.name, r.Stderr)
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "x" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

// The honest twins of the attacks.
func TestTierTwoServes(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	honest := map[string]string{
		"a stream pair":                  "d=os.environ['TMPDIR']; a,b=socket.socketpair(); a.sendall(b'x'); assert b.recv(1)==b'x'",
		"renames across directories":     "d=os.environ['TMPDIR']; os.mkdir(d+'/a'); open(d+'/f','w'); os.rename(d+'/f', d+'/a/f')",
		"links and pipes":                "d=os.environ['TMPDIR']; open(d+'/f','w'); os.link(d+'/f', d+'/g'); os.symlink('f', d+'/h'); os.mkfifo(d+'/p')",
		"runs what it wrote":             "import subprocess; d=os.environ['TMPDIR']; open(d+'/s','w').write('#!/bin/sh\\nexit 0\\n'); os.chmod(d+'/s',0o700); subprocess.check_call([d+'/s'])",
		"signals its child":              "import signal; p=os.fork(); (p==0 and signal.pause()); os.kill(p, 9); os.waitpid(p, 0)",
		"its own processors":             "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
		"its own priority":               "os.setpriority(os.PRIO_PROCESS, 0, 19); os.nice(1)",
		"its own limits":                 "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (20,20))",
		"temporary files":                "import tempfile; tempfile.NamedTemporaryFile().write(b'x')",
		"/tmp in the environment":        "assert os.environ['HOME']==os.environ['TMPDIR']+'/home' and os.environ['OTHER']=='/tmpfs', os.environ",
		"random and nothing":             "open('/dev/urandom','rb').read(3); open('/dev/null','w').write('x')",
		"an interpreter's own time zone": "import time; os.environ['TZ']='Pacific/Kiritimati'; time.tzset(); assert time.timezone==-14*3600",
	}
	script := attackPy
	for name, work := range honest {
		script += "if os.fork() == 0:\n " + strings.ReplaceAll(work, "; ", "\n ") + fmt.Sprintf("\n print(%q, flush=True)\n os._exit(0)\nos.wait()\n", name)
	}
	r := run(t, sb, Spec{Argv: python(script), Env: []string{"HOME=/tmp/home", "OTHER=/tmpfs"}})
	for name := range honest {
		if !strings.Contains(string(r.Stdout), name+"\n") {
			t.Errorf("%s did not work: %q", name, r.Stderr)
		}
	}
}

// Nothing of a warden is in its command's domain, whichever of its threads started
// it: no signal may reach it, sent or had sent.
func TestCommandCannotEndItsWarden(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	for range 10 {
		r := run(t, sb, Spec{Argv: python(attackPy + `
import fcntl, struct
parent = os.getppid()
def tries(f, *args):
    try:
        f(*args)
    except OSError:
        pass
tries(os.kill, -parent, 9)
tries(os.kill, parent, 9)
a, b = socket.socketpair()
def sent(tid):
    for own in (lambda: fcntl.fcntl(a, 15, struct.pack("ii", 0, tid)), lambda: fcntl.fcntl(a, 8, tid),
                lambda: fcntl.ioctl(a, 0x8901, struct.pack("i", tid)), lambda: fcntl.ioctl(a, 0x8902, struct.pack("i", tid))):
        tries(own)
        tries(fcntl.fcntl, a, 10, 9)
        tries(fcntl.fcntl, a, fcntl.F_SETFL, fcntl.fcntl(a, fcntl.F_GETFL) | os.O_ASYNC)
        b.send(b"x"); a.recv(1)
for tid in range(parent, parent + 200):
    if tid == os.getpid():
        continue
    for attempt in ((62, 129, tid, 9), (200, 130, tid, 9), (234, 131, parent, tid, 9)):
        tries(call, *attempt)
    sent(tid)
os.close(0)
print("still there")
`), Stdin: strings.NewReader("")})
		if string(r.Stdout) != "still there\n" || r.Exit != 0 {
			t.Fatalf("%+v %q", r, r.Stderr)
		}
	}
}

// tmpDirs are the directories of slots that are there.
func tmpDirs(sb *Sandbox) (n int) {
	for _, dirs := range sb.tier.(*landlockTier).leftDirs() {
		n += len(dirs)
	}
	return n
}

func TestTierTwoLeavesNoFiles(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	for name, script := range map[string]string{
		"deep":      "d=os.environ['TMPDIR']; os.chdir(d)\nfor i in range(450):\n  os.mkdir('deep'*3); os.chdir('deep'*3); open('f','w')",
		"closed":    "d=os.environ['TMPDIR']; os.makedirs(d+'/a/b/c'); open(d+'/a/b/c/f','w')\nfor x in ('/a/b/c','/a/b','/a',''): os.chmod(d+x, 0)",
		"links":     "d=os.environ['TMPDIR']; os.symlink('/usr', d+'/usr'); os.symlink('..', d+'/up'); os.symlink('nowhere', d+'/no')",
		"names":     "d=os.environ['TMPDIR']\nfor i in range(300): os.makedirs(d+'/%d/%d' % (i, i+1))",
		"read-only": "d=os.environ['TMPDIR']; os.mkdir(d+'/a'); open(d+'/a/f','w'); os.chmod(d+'/a', 0o500); os.chmod(d, 0o500)",
	} {
		t.Run(name, func(t *testing.T) {
			if r := run(t, sb, Spec{Argv: python("import os\n" + script)}); r.Exit != 0 {
				t.Errorf("%+v %q", r, r.Stderr)
			}
			if n := tmpDirs(sb); n != 0 {
				t.Errorf("%d directories are left", n)
			}
		})
	}
}

func TestTierTwoBoundsTmp(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	sb.weaken = editOrders(func(o *orders) { o.TmpEntries = 4000 })
	for name, script := range map[string]string{
		"bytes":                       "for i in range(1000):\n  open(os.environ['TMPDIR']+'/%d'%i,'w').write('x'*1000000); time.sleep(0.01)",
		"many":                        "for i in range(10**7):\n  os.mkdir(os.environ['TMPDIR']+'/%d'%i)",
		"bytes in a closed directory": "d=os.environ['TMPDIR']+'/h'; os.mkdir(d); os.chmod(d,0o300); os.chdir(d)\nfor i in range(1000):\n  open('%d'%i,'w').write('x'*1000000); time.sleep(0.01)",
		"many in a closed directory":  "d=os.environ['TMPDIR']+'/h'; os.mkdir(d); os.chmod(d,0o300); os.chdir(d)\nfor i in range(10**7):\n  os.mkdir('%d'%i)",
		"bytes behind a long path":    "os.chdir(os.environ['TMPDIR'])\nfor i in range(30):\n  os.mkdir('d'*200); os.chdir('d'*200)\nfor i in range(1000):\n  open('%d'%i,'w').write('x'*1000000); time.sleep(0.01)",
		"bytes below any depth":       "os.chdir(os.environ['TMPDIR'])\nfor i in range(1000):\n  os.mkdir('d'); os.chdir('d')\nfor i in range(1000):\n  open('%d'%i,'w').write('x'*1000000); time.sleep(0.01)",
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, sb, Spec{Argv: python("import os,time\n" + script), Limits: Limits{Tmp: 8 << 20}})
			if !r.OverTotal || r.TimedOut || r.Signal != "killed" {
				t.Errorf("%+v %q", r, r.Stderr)
			}
			if n := tmpDirs(sb); n != 0 {
				t.Errorf("%d directories are left", n)
			}
		})
	}
}

// The honest twin: what a command closes to itself is counted, and stays as it was.
func TestClosedDirectoriesAreCounted(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(closed, "inner", "file"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o700, 0o300, 0o400, 0} {
		if err := os.Chmod(closed, mode); err != nil {
			t.Fatal(err)
		}
		s := sizeOf(dir, 100)
		if s.hidden || s.entries != 4 || s.bytes < 1<<20 {
			t.Errorf("mode %o: %+v", mode, s)
		}
		if info, err := os.Stat(closed); err != nil || info.Mode().Perm() != mode {
			t.Errorf("mode %o has become %v, %v", mode, info, err)
		}
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if s := sizeOf(dir, 2); s.entries != 3 {
		t.Errorf("counted on beyond the limit: %+v", s)
	}
}

// What a command makes on disk does not become memory of its warden, which nothing
// limits, however often it has to be counted.
func TestWardenStaysSmall(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	p, err := sb.Start(context.Background(), Spec{Argv: python(`
import os, time
os.chdir(os.environ['TMPDIR'])
while len(os.getcwd()) < 3600:
    os.mkdir('d' * 200); os.chdir('d' * 200)
for i in range(10000):
    os.mknod('%d' % i, 0o100600)
grow = os.open('grow', os.O_CREAT | os.O_RDWR, 0o600)
os.unlink('grow')
for i in range(3):
    os.posix_fallocate(grow, 0, 40 << 20); time.sleep(0.3)
    os.ftruncate(grow, 0); time.sleep(0.3)
`), Limits: Limits{Tmp: 16 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	most := make(chan int64)
	go func() {
		var n int64
		for {
			select {
			case <-p.(*process).ended:
				most <- n
				return
			case <-time.After(50 * time.Millisecond):
				n = max(n, ownMemory(p.(*process).cmd.Process.Pid))
			}
		}
	}()
	r, err := p.Wait()
	if n := <-most; err != nil || r.Exit != 0 || n > wardenMemory || n == 0 {
		t.Errorf("the warden has had %d bytes; %+v %q, %v", n, r, r.Stderr, err)
	}
}

// A disk that is full is nobody's fault: it is an error, never a result.
func TestFullDiskIsAnError(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	tier := sb.tier.(*landlockTier)
	tier.free = 1 << 62
	p, err := sb.Start(context.Background(), Spec{Argv: shell("exit 0")})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Wait(); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("%+v, %v", r, err)
	}
	if n := tmpDirs(sb); n != 0 {
		t.Errorf("%d directories are left", n)
	}
	var g gauge
	o := orders{Tmp: t.TempDir(), TmpBytes: 1 << 40, TmpEntries: 1 << 20, TmpFree: 1 << 62}
	if err := g.look(o); !errors.Is(err, errNoRoom) {
		t.Errorf("while it runs: %v", err)
	}
	o.TmpFree = 0
	if err := g.look(o); err != nil {
		t.Errorf("with room: %v", err)
	}
	tier.free = leastFree
	if r := run(t, sb, Spec{Argv: shell("exit 4")}); r.Exit != 4 {
		t.Errorf("%+v", r)
	}
}

// A slot whose directory takes long to clear is used again when it is gone.
func TestSlotComesBackWhenItIsEmpty(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	_, total := sb.Slots()
	slot := sb.share.First + 5
	tier := sb.tier.(*landlockTier)
	left := filepath.Join(tier.tmpRoot(Candidate), "left")
	gid, _ := sb.Group(Candidate)
	cmd := &exec.Cmd{Path: "/bin/mkdir", Args: []string{"mkdir", left}, SysProcAttr: &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(slot), Gid: uint32(slot), Groups: []uint32{uint32(gid)}}}}
	if err := sb.thread.start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || tmpDirs(sb) != 1 {
		t.Fatalf("%v, %d directories", err, tmpDirs(sb))
	}
	if hole := (hole{}); !errors.As(sb.nothingLeft(nil), &hole) || hole.probe != "leftovers" || sb.nothingLeft(tier.leftDirs()) != nil {
		t.Error("a directory that is left is not seen, or one that was there before is")
	}
	late, cancel := context.WithCancel(context.Background())
	cancel()
	sb.clearLeft(late, tier.leftDirs())
	sb.recovering.Wait()
	if free, now := sb.Slots(); free != total || now != total || tmpDirs(sb) != 0 {
		t.Errorf("%d of %d slots, %d before; %d directories", free, now, total, tmpDirs(sb))
	}
	if r := run(t, sb, Spec{Argv: shell("exit 4")}); r.Exit != 4 {
		t.Errorf("%+v", r)
	}
}

// A warden that is killed leaves its command to hookd, and is the command's death:
// else pushed code that finds a way would choose not to be judged.
func TestKilledWardenLeavesNothing(t *testing.T) {
	sb := openTwo(t)
	if sb == nil {
		return
	}
	const mark = "26457513.1"
	outRead, outWrite := pipe(t)
	p, err := sb.Start(context.Background(), Spec{
		Argv: shell("setsid -f sleep " + mark + " </dev/null >/dev/null 2>&1; echo ready >&3; exec sleep " + mark), Env: searchPath, Files: []*os.File{outWrite},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = outRead.Read(make([]byte, 10))
	if n := len(left(mark)); n < 1 {
		t.Errorf("%d processes run", n)
	}
	_ = unix.Kill(p.(*process).cmd.Process.Pid, unix.SIGKILL)
	if r, err := p.Wait(); err != nil || r.Exit != -1 || r.Signal != "killed" {
		t.Errorf("a command without a warden has the result %+v, %v", r, err)
	}
	if pids, dirs := left(mark), tmpDirs(sb); len(pids) != 0 || dirs != 0 {
		t.Errorf("left %v and %d directories", pids, dirs)
	}
	if free, total := sb.Slots(); free != total || total != testCount-2 {
		t.Errorf("%d of %d slots", free, total)
	}
}

func TestTierTwoRefusesLess(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeOnly {
		if _, err := Open(context.Background(), Config{Tier: 2}); err == nil || !strings.Contains(err.Error(), "range of uids") {
			t.Errorf("without uids: %v", err)
		}
		return
	}
	sb := openWith(t, Config{Tier: 2})
	sb.landlock = func() int { return 5 }
	if err := sb.takeLandlock(context.Background()); err == nil || !strings.Contains(err.Error(), "Linux 6.12") {
		t.Errorf("with version 5: %v", err)
	}
	if _, err := Open(context.Background(), Config{Tier: 3, UIDs: UIDs{First: testFirst, Count: testCount}}); err == nil {
		t.Error("tier 3 was opened")
	}
}

// A sweeper kills all that it may: it must be nobody but the slot.
func TestSweeperRefuses(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeOnly {
		return
	}
	sb := openHere(t)
	u := sb.config.UIDs
	slot := u.First + 3
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := sb.sweep(ctx, slot, ""); err != nil {
		t.Errorf("a sweeper that is a slot: %v", err)
	}
	if err := sb.sweep(ctx, os.Getuid(), ""); err == nil {
		t.Error("hookd's own user was swept")
	}
	with := sweepCommand(u, slot, "")
	with.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_KILL}
	other := sweepCommand(u, slot, "")
	other.Args[1] = fmt.Sprint(slot + 1)
	outside := sweepCommand(u, slot, "")
	outside.Args[2] = fmt.Sprint(slot + 1)
	group := sweepCommand(u, u.First+1, "")
	for name, cmd := range map[string]*exec.Cmd{"another uid": other, "outside the range": outside, "the number of a group": group, "a capability": with} {
		if err := sb.thread.start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s: a sweeper went to work", name)
		}
	}
}
