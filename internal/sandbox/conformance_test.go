//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// behaviour is one row of the suite that every tier must pass: an attack that
// must come to nothing, or its honest twin that must work.
type behaviour struct {
	name  string
	spec  Spec
	check func(r Result) error
}

func exits(code int) func(Result) error {
	return func(r Result) error {
		if r.Exit != code || r.TimedOut {
			return fmt.Errorf("want exit %d", code)
		}
		return nil
	}
}

func prints(want string) func(Result) error {
	return func(r Result) error {
		if string(r.Stdout) != want {
			return fmt.Errorf("want stdout %q", want)
		}
		return exits(0)(r)
	}
}

// printsAlso wants the lines of want, and may see one more that begins so.
func printsAlso(want, also string) func(Result) error {
	return func(r Result) error {
		var rest strings.Builder
		for line := range strings.Lines(string(r.Stdout)) {
			if !strings.HasPrefix(line, also) {
				rest.WriteString(line)
			}
		}
		if rest.String() != want {
			return fmt.Errorf("want stdout %q", want)
		}
		return exits(0)(r)
	}
}

func dies(signal string) func(Result) error {
	return func(r Result) error {
		if r.Exit != -1 || r.Signal != signal {
			return fmt.Errorf("want death by %q", signal)
		}
		return nil
	}
}

func timesOut(r Result) error {
	if !r.TimedOut {
		return fmt.Errorf("want a time-out")
	}
	return nil
}

var searchPath = []string{"PATH=/usr/bin"}

var behaviours = []behaviour{
	// honest work
	{"exit status", Spec{Argv: shell("exit 3")}, exits(3)},
	{"both outputs", Spec{Argv: shell("echo out; echo err >&2")}, func(r Result) error {
		if string(r.Stderr) != "err\n" {
			return fmt.Errorf("want stderr %q", "err\n")
		}
		return prints("out\n")(r)
	}},
	{"argument with a NUL's neighbours", Spec{Argv: []string{"/usr/bin/printf", "%s", "\x01\xff\n--"}}, prints("\x01\xff\n--")},
	{"environment is what was given", Spec{Argv: []string{"/usr/bin/env"}, Env: []string{"A=b=c", "E="}}, printsAlso("A=b=c\nE=\nPWD=/\n", "TMPDIR=")},
	{"environment larger than a pipe", Spec{Argv: shell("echo ${#A}"), Env: []string{"A=" + strings.Repeat("x", 100000)}}, prints("100000\n")},
	{"working directory", Spec{Argv: shell("test $(pwd) = $TMPDIR && echo own"), Dir: "/tmp"}, prints("own\n")},
	{"standard input", Spec{Argv: []string{"/usr/bin/cat"}, Stdin: strings.NewReader("in")}, prints("in")},
	{"standard input that nobody reads", Spec{Argv: shell("exit 0"), Stdin: bytes.NewReader(make([]byte, 1<<20))}, exits(0)},
	{"no standard input", Spec{Argv: []string{"/usr/bin/cat"}}, prints("")},
	{"same user and host in every slot", Spec{Argv: shell("id -u; id -un; uname -n")}, prints("1000\nuser\nsandbox\n")},
	{"temporary files", Spec{Argv: python("import tempfile\nwith tempfile.TemporaryDirectory() as d:\n open(d+'/f','w').write('x'*1000000)")}, exits(0)},
	{"threads", Spec{Argv: python("import threading\nt=[threading.Thread(target=print,args=('x',)) for _ in range(8)]\n[x.start() for x in t]\n[x.join() for x in t]")}, prints(strings.Repeat("x\n", 8))},
	{"children", Spec{Argv: python("import subprocess\nprint(subprocess.check_output(['/usr/bin/echo','x']))")}, prints("b'x\\n'\n")},
	{"process pool", Spec{Argv: python("import multiprocessing as m\nwith m.Pool(2) as p: print(sum(p.map(abs,range(9))))"), Limits: Limits{Memory: 1 << 30}}, prints("36\n")},
	{"address space that is only reserved", Spec{Argv: python("import mmap\nm=mmap.mmap(-1,3<<30,flags=mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS,prot=mmap.PROT_READ)\nprint('x')")}, prints("x\n")},
	{"many threads at once", Spec{Argv: python("import threading\nb=threading.Barrier(40)\nt=[threading.Thread(target=lambda: (b.wait(), [0]*10000)) for _ in range(40)]\n[x.start() for x in t]\n[x.join() for x in t]\nprint('x')")}, prints("x\n")},
	{"asyncio", Spec{Argv: python("import asyncio\nasync def f(): await asyncio.sleep(0); print('x')\nasyncio.run(f())")}, prints("x\n")},
	{"server on its own loopback", Spec{Argv: python("import socket\ns=socket.create_server(('127.0.0.1',0))\nc=socket.create_connection(('localhost',s.getsockname()[1]))\ns.accept()[0].send(b'x')\nprint(c.recv(1))")}, prints("b'x'\n")},
	{"own user's name", Spec{Argv: python("import pwd,os\nprint(pwd.getpwuid(os.getuid()).pw_name)")}, prints("user\n")},
	{"database file", Spec{Argv: python("import sqlite3,os\nc=sqlite3.connect(os.environ['TMPDIR']+'/d')\nc.execute('create table t(a)')\nc.commit()\nprint('x')")}, prints("x\n")},
	{"abort", Spec{Argv: python("import os\nos.abort()")}, dies("aborted")},
	{"program that is not there", Spec{Argv: []string{"/usr/bin/no-such-program"}}, exits(127)},

	// leaving, staying, exhausting
	{"kills itself", Spec{Argv: shell("kill -9 $$")}, dies("killed")},
	{"sleeps", Spec{Argv: shell("sleep 100"), Env: searchPath, Limits: Limits{Wall: 300 * time.Millisecond}}, timesOut},
	{"ignores signals", Spec{Argv: shell("trap '' TERM INT HUP; while :; do :; done"), Limits: Limits{Wall: 300 * time.Millisecond}}, timesOut},
	{"burns time", Spec{Argv: shell("while :; do :; done"), Limits: Limits{CPU: time.Second, Wall: 30 * time.Second}}, func(r Result) error {
		if r.TimedOut || r.Signal == "" {
			return fmt.Errorf("want death by the limit of CPU time")
		}
		return nil
	}},
	{"takes memory", Spec{Argv: python("bytearray(1<<30)")}, exits(1)},
	{"takes memory in many processes", Spec{Argv: python("import os,time\nfor i in range(3): os.fork()\nx=bytearray(100000000)\ntime.sleep(60)"), Limits: Limits{Total: 300 << 20}}, func(r Result) error {
		if !r.OverTotal || r.TimedOut || r.Wall > 40*time.Second {
			return fmt.Errorf("want an end by the total")
		}
		return dies("killed")(r)
	}},
	{"takes shared memory in many processes", Spec{Argv: python("import os,time,mmap\nfor i in range(3): os.fork()\nm=mmap.mmap(-1,100000000)\nfor i in range(0,len(m),4096): m[i]=1\ntime.sleep(60)"), Limits: Limits{Total: 300 << 20}}, func(r Result) error {
		if !r.OverTotal || r.TimedOut || r.Wall > 40*time.Second {
			return fmt.Errorf("want an end by the total")
		}
		return dies("killed")(r)
	}},
	{"fills /tmp", Spec{Argv: shell("for i in 1 2 3 4; do head -c 3000000 /dev/zero >$TMPDIR/$i || exit 9; done"), Env: searchPath, Limits: Limits{Tmp: 8 << 20}}, exits(9)},
	{"fills /dev/shm", Spec{Argv: shell("head -c 3000000 /dev/zero >/dev/shm/x || exit 9"), Env: searchPath, Limits: Limits{Tmp: 8 << 20}}, exits(9)},
	{"writes one huge file", Spec{Argv: shell("exec head -c 3000000 /dev/zero >$TMPDIR/x"), Env: searchPath, Limits: Limits{FileSize: 1 << 20}}, dies("file size limit exceeded")},
	{"opens many files", Spec{Argv: python("import os\nfor i in range(1000): os.open('/dev/null',0)"), Limits: Limits{OpenFiles: 32}}, exits(1)},
	{"floods its output", Spec{Argv: shell("exec yes"), Env: searchPath, Limits: Limits{Wall: time.Second, Output: 1000}}, func(r Result) error {
		if kept := len(r.Stdout) + len(r.Stderr); kept > 1000 || r.Dropped > 0 && kept != 1000 {
			return fmt.Errorf("kept %d, dropped %d", kept, r.Dropped)
		}
		return timesOut(r) // that much is dropped shows the row below
	}},
	{"floods both outputs", Spec{Argv: shell("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"), Env: searchPath, Limits: Limits{Output: 1000}}, func(r Result) error {
		if len(r.Stdout)+len(r.Stderr) != 1000 || r.Dropped != 2000000-1000 {
			return fmt.Errorf("kept %d and %d, dropped %d", len(r.Stdout), len(r.Stderr), r.Dropped)
		}
		return exits(0)(r)
	}},
	{"forks for ever", Spec{Argv: python("import os\nwhile True:\n try: os.fork()\n except OSError: pass"), Limits: Limits{Wall: time.Second, Processes: 32}}, timesOut},
	{"has many threads", Spec{Argv: python("import threading,time\nfor i in range(100): threading.Thread(target=time.sleep,args=(9,),daemon=True).start()"), Limits: Limits{Processes: 20, Memory: 2 << 30}}, exits(1)},
}

// gaps are the rows that a tier does not give, and why.
var gaps = map[int]map[string]string{
	2: {
		"same user and host in every slot": "no user and no UTS namespace",
		"own user's name":                  "no /etc/passwd of its own",
		"server on its own loopback":       "no network namespace, so no network",
		"process pool":                     "no /dev/shm of its own",
		"fills /dev/shm":                   "no /dev/shm of its own",
		"fills /tmp":                       "a directory of the host: the command is ended, see the row beside",
	},
}

func TestGapsAreRows(t *testing.T) {
	rows := map[string]bool{}
	for _, b := range behaviours {
		rows[b.name] = true
	}
	for level, names := range gaps {
		for name := range names {
			if !rows[name] {
				t.Errorf("tier %d: no row %q", level, name)
			}
		}
	}
}

func TestConformance(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if _, ok := gaps[sb.Level()][b.name]; ok {
				return
			}
			r := run(t, sb, b.spec)
			if err := b.check(r); err != nil {
				t.Errorf("%v: exit %d, signal %q, timed out %t, stdout %.200q, stderr %.500q", err, r.Exit, r.Signal, r.TimedOut, r.Stdout, r.Stderr)
			}
		})
	}
}

// left is the processes of this run of the tests whose command line holds mark.
func left(mark string) (found []int) {
	for _, pid := range pids() {
		if uid := userOf(pid); uid != os.Getuid() && (uid < testFirst || uid >= testFirst+2*testCount) {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(line, []byte(mark)) && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

func TestNothingIsLeftWhenWaitReturns(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	const mark = "31415926.5"
	for name, script := range map[string]string{
		"background":      "sleep " + mark + " & exit 0",
		"own session":     "setsid sleep " + mark + " >/dev/null 2>&1 </dev/null & exit 0",
		"many":            "for i in 1 2 3 4 5 6 7 8 9; do setsid -f sleep " + mark + "; done",
		"holding the out": "(trap '' HUP TERM; sleep " + mark + ") & exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				r := run(t, sb, Spec{Argv: shell(script), Env: searchPath})
				if pids := left(mark); len(pids) != 0 || r.Exit != 0 || r.TimedOut {
					t.Fatalf("left %v, exit %d %q timed out %t", pids, r.Exit, r.Stderr, r.TimedOut)
				}
			}
		})
	}
}

// A command is killed at many moments of its start, when bubblewrap's pieces
// do not yet hold on to each other.
func TestKillAtAnyMoment(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	const mark = "27182818.2"
	for i := range 40 {
		p, err := sb.Start(context.Background(), Spec{Argv: shell("sleep " + mark), Env: searchPath})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 500 * time.Microsecond)
		p.Kill()
		p.Kill()
		r, err := p.Wait()
		p.Kill()
		if err != nil || r.Exit != -1 || r.Signal != "killed" || r.TimedOut {
			t.Errorf("after %d steps: %+v, %v", i, r, err)
		}
		if pids := left(mark); len(pids) != 0 {
			t.Fatalf("after %d steps: left %v", i, pids)
		}
	}
}

func TestContextEndsCommand(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	p, err := sb.Start(ctx, Spec{Argv: shell("sleep 100"), Env: searchPath})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Wait(); err != nil || !r.TimedOut || r.Wall > 20*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := sb.Start(ctx, Spec{Argv: shell("exit 0")}); err == nil {
		t.Error("started under an ended context")
	}
}

func TestFilesKeepTheirNumbersAndNothingElseComesAlong(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	stray, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(stray) }()
	inRead, inWrite := pipe(t)
	outRead, outWrite := pipe(t)
	p, err := sb.Start(context.Background(), Spec{
		Argv:  python("import os\ndef there(fd):\n try: os.fstat(fd)\n except OSError: return False\n return True\nfds=[fd for fd in range(1000) if there(fd)]\nos.write(4,os.read(3,10)+str(fds).encode())"),
		Files: []*os.File{inRead, outWrite},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inRead.Stat(); err == nil {
		t.Error("Start left its copy of a file open")
	}
	_, _ = inWrite.Write([]byte("hello "))
	answer := make([]byte, 100)
	n, _ := outRead.Read(answer)
	if got := string(answer[:n]); got != "hello [0, 1, 2, 3, 4]" {
		t.Errorf("got %q", got)
	}
	if r, err := p.Wait(); err != nil || r.Exit != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

func TestEnvironmentIsInNoProcessList(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	const secret = "kept-from-the-list"
	outRead, outWrite := pipe(t)
	p, err := sb.Start(context.Background(), Spec{Argv: shell("echo ready >&3; sleep 100"), Env: append(searchPath, "S="+secret), Files: []*os.File{outWrite}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = outRead.Read(make([]byte, 10))
	if pids := left(secret); len(pids) != 0 {
		t.Errorf("in the command line of %v", pids)
	}
	p.Kill()
	_, _ = p.Wait()
}

func TestBindsAreReadOnly(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	dir := reachable(t)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := run(t, sb, Spec{
		Binds: []Bind{{dir, "/job/tree"}},
		Dir:   "/job/tree",
		Env:   searchPath,
		Argv:  shell("cat f; echo y >f; echo y >g; rm f; chmod 777 f; touch f; mkdir ../other; mv f $TMPDIR; mv . ../moved"),
	})
	if string(r.Stdout) != "x" {
		t.Errorf("stdout %q, stderr %q", r.Stdout, r.Stderr)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "x" {
		t.Errorf("file is %q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

// reachable is a directory that slots can pass, unlike t.TempDir's.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sealgate-sandbox-dir-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSetupThatFailsIsAnError(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	for range cap(sb.slots) + 2 { // no slot is lost
		p, err := sb.Start(context.Background(), Spec{Argv: shell("exit 0"), Binds: []Bind{{"/no/such/place", "/job"}}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(); err == nil || !strings.Contains(err.Error(), "/no/such/place") {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	for name, s := range map[string]Spec{
		"no command":         {},
		"relative command":   {Argv: []string{"sh"}},
		"unknown role":       {Argv: shell(""), Role: 7},
		"NUL in argument":    {Argv: shell("a\x00b")},
		"NUL in environment": {Argv: shell(""), Env: []string{"A=\x00"}},
		"no name":            {Argv: shell(""), Env: []string{"=b"}},
		"no value":           {Argv: shell(""), Env: []string{"A"}},
		"relative directory": {Argv: shell(""), Dir: "tmp"},
		"bind over /proc":    {Argv: shell(""), Binds: []Bind{{"/tmp", "/proc"}}},
		"bind below /etc":    {Argv: shell(""), Binds: []Bind{{"/tmp", "/etc/x"}}},
		"bind over all":      {Argv: shell(""), Binds: []Bind{{"/tmp", "/"}}},
		"bind climbing":      {Argv: shell(""), Binds: []Bind{{"/tmp", "/a/../etc"}}},
		"bind relative":      {Argv: shell(""), Binds: []Bind{{"tmp", "/a"}}},
		"negative limit":     {Argv: shell(""), Limits: Limits{Wall: -1}},
	} {
		if _, err := sb.Start(context.Background(), s); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

func TestStartWaitsForASlot(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	taken := cap(sb.slots) - 1
	for range taken {
		<-sb.slots
	}
	p, err := sb.Start(context.Background(), Spec{Argv: shell("sleep 100"), Env: searchPath})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := sb.Start(ctx, Spec{Argv: shell("exit 0")}); err == nil || !strings.Contains(err.Error(), "slot") {
		t.Errorf("started without a slot: %v", err)
	}
	time.AfterFunc(200*time.Millisecond, p.Kill)
	waited := make(chan struct{})
	go func() { _, _ = p.Wait(); close(waited) }()
	if r := run(t, sb, Spec{Argv: shell("exit 4")}); r.Exit != 4 {
		t.Errorf("%+v", r)
	}
	<-waited
}

// F6: while one command takes all that it can, another one must not notice.
func TestNeighbourOfAnAttackIsFine(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	for name, script := range map[string]string{
		"forks":  "import os\nwhile True:\n try: os.fork()\n except OSError: pass",
		"memory": "import os\nfor i in range(5): os.fork()\nk=[]\nwhile True:\n try: k.append(bytearray(1<<20))\n except MemoryError: pass",
		"disk":   "import itertools,os\nfor i in itertools.count():\n try: open(os.environ['TMPDIR']+'/%d'%i,'w').write('x'*9999)\n except OSError: pass",
		"files":  "import os\nk=[]\nwhile True:\n try: k.append(os.dup(0))\n except OSError: pass",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack, err := sb.Start(context.Background(), Spec{Argv: python(script), Limits: Limits{Wall: 20 * time.Second, Memory: 256 << 20}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			r := run(t, sb, Spec{Argv: python("import os,subprocess\nfor i in range(5): subprocess.check_call(['/usr/bin/true'])\nopen(os.environ['TMPDIR']+'/x','w').write('y'*1000000)\nbytearray(100000000)\nprint('fine')")})
			attack.Kill()
			_, _ = attack.Wait()
			if string(r.Stdout) != "fine\n" {
				t.Errorf("%+v %s", r, r.Stderr)
			}
		})
	}
}

func TestOwnUIDs(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	if mode() == modeOnly {
		if !sb.SingleUID() || sb.tier.name() != "1: bubblewrap, single uid" {
			t.Errorf("tier %q", sb.Tier())
		}
		return
	}
	if want := map[string]string{modeOwn: "1: bubblewrap, own uids", modeTwo: "2: Landlock, own uids"}[mode()]; sb.SingleUID() || sb.tier.name() != want {
		t.Errorf("tier %q", sb.Tier())
	}
	const mark = "14142135.6"
	var seen []uint32
	for range 2 {
		outRead, outWrite := pipe(t)
		p, err := sb.Start(context.Background(), Spec{Argv: shell("echo >&3; exec sleep " + mark), Env: searchPath, Files: []*os.File{outWrite}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = outRead.Read(make([]byte, 1))
		defer func() { p.Kill(); _, _ = p.Wait() }()
	}
	time.Sleep(100 * time.Millisecond)
	for _, pid := range left(mark) {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil {
			seen = append(seen, st.Uid)
		}
	}
	uids := map[uint32]bool{}
	for _, u := range seen {
		uids[u] = true
		if int(u) < testFirst+2 || int(u) >= testFirst+testCount {
			t.Errorf("a command runs as uid %d", u)
		}
	}
	if len(uids) != 2 {
		t.Errorf("two commands run as %v", seen)
	}
}

func TestOnlyTheRightRoleReads(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	if _, ok := sb.Group(7); ok {
		t.Error("an unknown role has a group")
	}
	if err := sb.ShareWith(7, "/nonexistent"); err == nil {
		t.Error("shared with an unknown role")
	}
	if mode() == modeOnly {
		return // one uid reads all that is bound
	}
	for _, owner := range []Role{Candidate, Judge} {
		dir := reachable(t)
		before := filepath.Join(dir, "before")
		if err := os.WriteFile(before, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := sb.ShareWith(owner, dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "after"), []byte("x"), 0o640); err != nil {
			t.Fatal(err)
		}
		for _, reader := range []Role{Candidate, Judge} {
			r := run(t, sb, Spec{Role: reader, Argv: []string{"/usr/bin/cat", "/job/before", "/job/after"}, Binds: []Bind{{dir, "/job"}}})
			if got, want := string(r.Stdout) == "xx", reader == owner; got != want {
				t.Errorf("role %d reads what is role %d's: %t: %s", reader, owner, got, r.Stderr)
			}
		}
	}
}
