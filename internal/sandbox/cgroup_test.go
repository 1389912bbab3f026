//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHierarchies(t *testing.T) {
	hybrid := "25 1 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"26 25 0:2 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n" +
		"27 25 0:3 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"28 25 0:4 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
		"29 25 0:5 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ name, cgroup, mounts, want string }{
		{"version 2", "0::/system.slice/x.service\n", "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n", "v2 /sys/fs/cgroup/system.slice/x.service"},
		{"version 1 and 2", "4:memory:/m/x\n3:pids:/\n1:name=systemd:/\n0::/u\n", hybrid, "memory /sys/fs/cgroup/memory/m/x; pids /sys/fs/cgroup/pids; v2 /sys/fs/cgroup/unified/u"},
		{"two controllers in one", "4:pids,memory:/a\n", "26 25 0:2 / /c rw - cgroup cgroup rw,memory,pids\n", "memory,pids /c/a"},
		{"a part is mounted", "0::/docker/1/x\n", "30 1 0:1 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "v2 /sys/fs/cgroup/x"},
		{"another part is mounted", "0::/docker/12/x\n", "30 1 0:1 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "v2 "},
		{"outside of its namespace", "0::/../x\n", "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "v2 "},
		{"mounted twice", "0::/x\n", "30 1 0:1 / /a rw - cgroup2 cgroup2 rw\n31 1 0:1 / /b rw - cgroup2 cgroup2 rw\n", "v2 /a/x"},
		{"names with blanks and colons", "0::/a:b c\n", `30 1 0:1 / /c\040d rw - cgroup2 cgroup2 rw` + "\n", "v2 /c d/a:b c"},
		{"nothing", "", "", ""},
		{"not understood", "0:\nx\n", "30 1 - cgroup2\n - \n", ""},
	} {
		var got []string
		for _, h := range hierarchies(c.cgroup, c.mounts) {
			name := strings.Join(h.controllers, ",")
			if h.unified {
				name = "v2"
			}
			got = append(got, name+" "+h.own)
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

func FuzzHierarchies(f *testing.F) {
	f.Add("0::/a\n4:memory:/b\n", "30 1 0:1 / /c rw - cgroup2 cgroup2 rw\n26 25 0:2 /b /d rw - cgroup cgroup rw,memory\n")
	f.Add("0::/..\n", `30 1 0:1 / /c\04 rw - cgroup2 cgroup2 rw`)
	f.Fuzz(func(t *testing.T, cgroup, mounts string) {
		for _, h := range hierarchies(cgroup, mounts) {
			if h.own != "" && h.own != filepath.Join(h.mount) && !below(h.own, strings.TrimSuffix(filepath.Clean(h.mount), "/")) {
				t.Errorf("%q lies outside of %q", h.own, h.mount)
			}
		}
	})
}

// fakeGroup is a directory with the files of a group of version 2.
func fakeGroup(t *testing.T, files ...string) *group {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &group{unified: true, places: []place{{dir, []string{memoryController, "pids"}}}}
}

func TestLimitsOfAGroupOfVersion2(t *testing.T) {
	g := fakeGroup(t, "memory.max", "memory.swap.max", "memory.events", "pids.max")
	dir := g.places[0].dir
	events := func(oom, kills int) {
		t.Helper()
		text := fmt.Sprintf("low 0\nhigh 0\nmax 7\noom %d\noom_kill %d\noom_group_kill 0\n", oom, kills)
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	events(3, 4)
	if err := g.bound(Limits{Total: 1000, Tmp: 400, Processes: 5}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1500", "memory.swap.max": "0", "pids.max": strconv.Itoa(5 + sparePids)} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, c := range []struct {
		name       string
		oom, kills int
		want       bool
	}{
		{"an earlier command's", 3, 4, false},
		{"for the host's memory", 3, 5, false},
		{"at its limit and got on", 4, 4, false},
		{"at its limit and ended", 4, 5, true},
	} {
		if events(c.oom, c.kills); g.exhausted() != c.want {
			t.Errorf("%s: %t", c.name, !c.want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "memory.swap.max")); err != nil {
		t.Fatal(err)
	}
	if err := g.bound(Limits{}); err != nil {
		t.Errorf("where there is no swap: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "memory.max")); err != nil {
		t.Fatal(err)
	}
	if g.bound(Limits{}) == nil {
		t.Error("a limit that cannot be set is none")
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("oom x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.count(); err == nil {
		t.Error("no counter was read as one")
	}
}

func TestGroupsOfOthersStay(t *testing.T) {
	base := t.TempDir()
	sb := &Sandbox{config: Config{Log: func(string) {}}, scratch: "/here"}
	gs := &groups{sb: sb, at: places{unified: true, in: []place{{dir: base}}}}
	ours, other := groupPrefix+sb.place()+"-", groupPrefix+"000000000000-x"
	for _, name := range []string{ours + "gone/7", ours + "lives", other, "user.slice", ownLeaf} {
		if err := os.MkdirAll(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := lockGroup(filepath.Join(base, ours+"lives"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	gs.clearLeft()
	var left []string
	for _, dir := range groupsIn(base, "") {
		left = append(left, filepath.Base(dir))
	}
	want := []string{ours + "lives", other, "user.slice", ownLeaf}
	slices.Sort(left)
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left %q\nwant %q", left, want)
	}
}

func TestNoGroupsIsAFact(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openWith(t, Config{Cgroup: noGroups})
	facts := strings.Join(sb.Facts(), "\n")
	if strings.Contains(sb.Tier(), "cgroup") || !strings.Contains(facts, "no cgroup (the configuration wants none)") {
		t.Errorf("tier %q, facts %q", sb.Tier(), facts)
	}
}

// groupEnv names the directories of the groups that root has made for a run of
// the tests: in version 1 or in version 2.
const (
	groupEnv = "SEALGATE_SANDBOX_TEST_GROUP"
	version1 = "v1"
	version2 = "v2"
)

// inGroup reports whether the test should go on here, in groups of its own. As root
// it makes them, below its own, runs itself in them, and removes them.
func inGroup(t *testing.T, version string, modes ...string) bool {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv(groupEnv) == "" && os.Getenv("CI") != "" && os.Getenv(rootRanEnv) == "" {
			t.Fatal("needs root once, to make control groups")
		}
		return os.Getenv(groupEnv) == version
	}
	binary := copyOfSelf(t)
	var all sync.WaitGroup
	made := map[string][]string{}
	for _, mode := range modes {
		dirs := makeGroups(t, version == version2, mode)
		if len(dirs) == 0 {
			t.Skipf("this host has no control groups %s that root may make", version)
		}
		made[mode] = dirs
	}
	for mode, dirs := range made {
		all.Go(func() {
			runAs(t, mode, binary, t.Name(), func(cmd *exec.Cmd) {
				script := `for d in $DIRS; do echo $$ >"$d/cgroup.procs" || exit 99; done; exec "$0" "$@"`
				cmd.Env = append(cmd.Env, groupEnv+"="+version, "DIRS="+strings.Join(dirs, " "))
				cmd.Args = append([]string{"sh", "-c", script, cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/bin/sh"
			})
		})
	}
	all.Wait()
	for mode, dirs := range made {
		for _, dir := range dirs {
			if left := groupsIn(dir, ""); len(left) > 0 {
				t.Errorf("as %s: groups are left: %q", mode, left)
			}
			removeGroups(t, dir)
		}
	}
	return false
}

// makeGroups makes a group in each hierarchy of the version that has one of the
// controllers, and gives it to a mode's user.
func makeGroups(t *testing.T, unified bool, mode string) []string {
	t.Helper()
	var files [2]string
	for i, name := range []string{"/proc/self/cgroup", "/proc/self/mountinfo"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = string(data)
	}
	var dirs []string
	for _, h := range hierarchies(files[0], files[1]) {
		if h.unified != unified || h.own == "" {
			continue
		}
		dir := filepath.Join(h.own, "sealgate-test-"+mode+"-"+strconv.Itoa(os.Getpid()))
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, unix.EROFS) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removeGroups(t, dir) })
		user := userOfMode(mode)
		for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
			if err := os.Lchown(filepath.Join(dir, name), user, user); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func removeGroups(t *testing.T, dir string) {
	for _, sub := range groupsIn(dir, "") {
		removeGroups(t, sub)
	}
	g := &group{places: []place{{dir: dir}}}
	if err := g.remove(time.Now().Add(5 * time.Second)); err != nil {
		t.Error(err)
	}
}

func overTotal(r Result) error {
	if !r.OverTotal || r.TimedOut {
		return fmt.Errorf("want an end by the total")
	}
	return dies("killed")(r)
}

func notOver(f func(Result) error) func(Result) error {
	return func(r Result) error {
		if r.OverTotal {
			return errors.New("want no end by the total")
		}
		return f(r)
	}
}

const manyInodes = "import os\nd=os.environ['TMPDIR']\nfor i in range(1000000): open(d+'/%d'%i,'w').close()"

// What a group bounds, each with its honest twin. Rows without limits of their own
// run one after the other in the same groups.
var bounded = []behaviour{
	{"memory in many processes", Spec{Argv: python("import os,time\nfor i in range(3): os.fork()\nx=bytearray(40000000)\ntime.sleep(60)"), Limits: Limits{Total: 100 << 20, Tmp: 4 << 20}}, overTotal},
	{"memory in a child, whose parent goes on", Spec{Argv: python("import os,time\nif os.fork()==0: x=bytearray(200000000)\ntime.sleep(60)"), Limits: Limits{Total: 100 << 20, Tmp: 4 << 20}}, overTotal},
	{"shared memory without a name", Spec{Argv: python("import mmap\nm=[]\nfor j in range(9):\n m.append(mmap.mmap(-1,40000000))\n for i in range(0,len(m[j]),4096): m[j][i]=1"), Limits: Limits{Total: 100 << 20, Tmp: 4 << 20}}, overTotal},
	{"a little of each", Spec{Argv: python("import os,mmap\nx=bytearray(20000000)\nm=mmap.mmap(-1,20000000)\nfor i in range(0,len(m),4096): m[i]=1\nopen(os.environ['TMPDIR']+'/x','wb').write(x[:3000000])\nprint('x')"), Limits: Limits{Total: 100 << 20, Tmp: 4 << 20}}, notOver(prints("x\n"))},
	{"exit status", Spec{Argv: shell("exit 3")}, notOver(exits(3))},
	{"kills itself", Spec{Argv: shell("kill -9 $$")}, notOver(dies("killed"))},
	{"ends in time", Spec{Argv: shell("sleep 100"), Env: searchPath, Limits: Limits{Wall: 500 * time.Millisecond}}, notOver(timesOut)},
	{"forks for ever", Spec{Argv: python("import os\nwhile True:\n try: os.fork()\n except OSError: pass"), Limits: Limits{Wall: time.Second, Processes: 32}}, notOver(timesOut)},
	{"children", Spec{Argv: python("import subprocess\nprint(subprocess.check_output(['/usr/bin/echo','x']))")}, notOver(prints("b'x\\n'\n"))},
}

func TestGroupsBoundCommands(t *testing.T) {
	if inGroup(t, version1, modeOwn, modeOnly, modeTwo) {
		boundsCommands(t, "cgroup v1: memory, pids")
	}
}

func TestGroupsOfVersion2BoundCommands(t *testing.T) {
	if !inGroup(t, version2, modeOwn, modeOnly, modeTwo) {
		return
	}
	if withoutControllers {
		t.Skip("this host has the memory controller in version 1")
	}
	boundsCommands(t, "cgroup v2: memory, pids")
}

func boundsCommands(t *testing.T, name string) {
	t.Helper()
	sb := openHere(t)
	if !strings.HasSuffix(sb.Tier(), ", "+name) || !strings.Contains(strings.Join(sb.Facts(), "\n"), name+": the kernel holds") {
		t.Fatalf("tier %q, facts %q", sb.Tier(), sb.Facts())
	}
	rows := bounded
	switch {
	case mode() == modeOnly:
		rows = bounded[:4]
	case sb.Level() == 1:
		rows = append(rows, behaviour{"inodes", Spec{Argv: python(manyInodes), Limits: Limits{Total: 60 << 20, Tmp: 4 << 20}}, overTotal})
	}
	for _, b := range rows {
		t.Run(b.name, func(t *testing.T) {
			r := run(t, sb, b.spec)
			if err := b.check(r); err != nil {
				t.Errorf("%v: exit %d, signal %q, timed out %t, over %t, stdout %.200q, stderr %.500q", err, r.Exit, r.Signal, r.TimedOut, r.OverTotal, r.Stdout, r.Stderr)
			}
			for name, g := range sb.groups.made {
				if pids := g.populated(); len(pids) > 0 {
					t.Errorf("group %s still has %v", name, pids)
				}
			}
		})
	}
	t.Run("each slot again", func(t *testing.T) {
		files := openFiles(t)
		for range min(cap(sb.slots), testCount) + 2 {
			if r := run(t, sb, Spec{Argv: shell("exit 0")}); r.Exit != 0 || r.OverTotal {
				t.Errorf("%+v", r)
			}
		}
		if now := openFiles(t); now != files {
			t.Errorf("%d open files, before %d", now, files)
		}
	})
	t.Run("a neighbour", func(t *testing.T) {
		attack, err := sb.Start(context.Background(), Spec{Argv: bounded[0].spec.Argv, Limits: bounded[0].spec.Limits})
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, sb, Spec{Argv: python("import time\nx=bytearray(100000000)\ntime.sleep(1)\nprint('fine')")})
		if a, err := attack.Wait(); err != nil || overTotal(a) != nil || string(r.Stdout) != "fine\n" || r.OverTotal {
			t.Errorf("%+v, %v; neighbour %+v", a, err, r)
		}
	})
	sb.Close()
	for _, top := range sb.groups.tops {
		if _, err := os.Stat(top); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q is left: %v", top, err)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestGroupsInADirectoryThatIsNamed(t *testing.T) {
	if !inGroup(t, version1, modeOwn) {
		return
	}
	at, err := findPlaces("")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range at.in {
		if !slices.Contains(p.controllers, memoryController) {
			continue
		}
		sb := openWith(t, Config{Cgroup: p.dir})
		if !strings.Contains(sb.Tier(), ", cgroup v1: memory") {
			t.Errorf("tier %q", sb.Tier())
		}
		if r := run(t, sb, bounded[0].spec); overTotal(r) != nil {
			t.Errorf("%+v", r)
		}
		above := filepath.Dir(p.dir) // root's
		if _, err := Open(context.Background(), Config{Cgroup: above}); err == nil || !strings.Contains(err.Error(), "hookd may make no groups in it") {
			t.Errorf("a group of somebody else: %v", err)
		}
	}
}

func TestANamedDirectoryIsNeededByTheDaemonAlone(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openWith(t, Config{Cgroup: "/sys/fs/cgroup/no-such-group", Beside: true})
	if facts := strings.Join(sb.Facts(), "\n"); strings.Contains(sb.Tier(), "cgroup") || !strings.Contains(facts, "no cgroup (there is no such directory)") {
		t.Errorf("tier %q, facts %q", sb.Tier(), facts)
	}
}

func TestSelfAttackInGroups(t *testing.T) {
	if !inGroup(t, version1, modeOwn, modeTwo) {
		return
	}
	sb := openHere(t)
	if err := sb.SelfCheck(context.Background()); err != nil || sb.groups == nil {
		t.Errorf("groups %t: %v", sb.groups != nil, err)
	}
}

// A hookd that is killed leaves its groups; the next one removes them.
func TestGroupsOfAKilledHookdAreRemoved(t *testing.T) {
	if !inGroup(t, version1, modeOwn, modeOnly, modeTwo) {
		return
	}
	leftIsCleared(t)
}

func leftIsCleared(t *testing.T) {
	t.Helper()
	const mark = "22360679.7"
	at, err := findPlaces("")
	if err != nil {
		t.Fatal(err)
	}
	tops := func() (all []string) {
		for _, p := range at.in {
			all = append(all, groupsIn(p.dir, groupPrefix)...)
		}
		return slices.DeleteFunc(all, func(dir string) bool { return filepath.Base(dir) == ownLeaf })
	}
	others := tops()
	dir := reachable(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimEnv+"="+mark, "TMPDIR="+dir, firstEnv+"="+strconv.Itoa(testFirst+testCount))
	cmd.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: heldCaps()}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	before := slices.DeleteFunc(tops(), func(top string) bool { return slices.Contains(others, top) })
	if len(before) != len(at.in) {
		t.Fatalf("the victim has the groups %q", before)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c := Config{Scratch: dir}
	if mode() != modeOnly {
		c.UIDs = UIDs{First: testFirst + testCount, Count: testCount}
	}
	sb := openWith(t, c)
	now := tops()
	for _, top := range before {
		if slices.Contains(now, top) {
			t.Errorf("%q is left", top)
		}
	}
	for _, top := range others {
		if !slices.Contains(now, top) {
			t.Errorf("%q is gone, and its sandbox lives", top)
		}
	}
	if pids := left(mark); len(pids) > 0 {
		t.Errorf("%v outlived hookd", pids)
	}
	if r := run(t, sb, Spec{Argv: shell("exit 4")}); r.Exit != 4 {
		t.Errorf("%+v", r)
	}
}

// Where version 2 has no controller, its mechanics can be tried all the same.
func TestGroupsOfVersion2HoldCommands(t *testing.T) {
	if !inGroup(t, version2, modeOwn, modeOnly) {
		return
	}
	at, err := findPlaces("")
	if err != nil {
		t.Fatal(err)
	}
	sb := openHere(t)
	if !strings.Contains(sb.Tier(), "cgroup v2") {
		t.Fatalf("tier %q, facts %q", sb.Tier(), sb.Facts())
	}
	const mark = "24494897.4"
	outRead, outWrite := pipe(t)
	p, err := sb.Start(context.Background(), Spec{Argv: shell("setsid -f sleep " + mark + " </dev/null >/dev/null 2>&1; echo >&3; sleep " + mark), Env: searchPath, Files: []*os.File{outWrite}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = outRead.Read(make([]byte, 1))
	g := p.(*process).group
	if inside := g.populated(); len(inside) < len(left(mark)) || len(left(mark)) == 0 {
		t.Errorf("in the group %v, of the command %v", inside, left(mark))
	}
	g.kill()
	if r, err := p.Wait(); err == nil && r.Exit == 0 || len(left(mark)) > 0 || len(g.populated()) > 0 {
		t.Errorf("%+v, %v; left %v", r, err, left(mark))
	}
	files := openFiles(t)
	for range 20 {
		if r := run(t, sb, Spec{Argv: shell("exit 4")}); r.Exit != 4 || r.OverTotal {
			t.Errorf("%+v", r)
		}
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d open files, before %d", now, files)
	}
	leftIsCleared(t)
	in, err := findPlaces("")
	if err != nil || in.own != filepath.Join(at.own, ownLeaf) {
		t.Errorf("hookd is in %q, was in %q: %v", in.own, at.own, err)
	}
	sb.Close()
	if in, err := findPlaces(""); err != nil || in.own != at.own {
		t.Errorf("hookd is in %q, was in %q: %v", in.own, at.own, err)
	}
}
