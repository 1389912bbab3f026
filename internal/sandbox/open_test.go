//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const victimEnv = "SEALGATE_SANDBOX_TEST_VICTIM"

// TestMain can also be a hookd that is going to be killed.
func TestMain(m *testing.M) {
	Init()
	if os.Getenv(groupEnv) == version2 {
		at, err := findPlaces("")
		withoutControllers = err != nil || !at.unified
	}
	if mark := os.Getenv(victimEnv); mark != "" {
		if err := victim(mark); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	if mark := os.Getenv(burstEnv); mark != "" {
		fmt.Println(burst(mark))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func victim(mark string) error {
	c := Config{Scratch: os.Getenv("TMPDIR")}
	if mode() != modeOnly {
		c.UIDs = UIDs{First: testFirst, Count: testCount}
	}
	sb, err := Open(context.Background(), c)
	if err != nil {
		return err
	}
	_, err = sb.Start(context.Background(), Spec{
		Argv: shell("setsid -f sleep " + mark + " </dev/null >/dev/null 2>&1; echo ready >&3; exec sleep " + mark),
		Env:  searchPath, Files: []*os.File{os.Stdout},
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Minute)
	return nil
}

func TestCommandsDieWithHookd(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	const mark = "17320508.1"
	dir := reachable(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimEnv+"="+mark, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: heldCaps()}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	// A process that is just becoming another program has no command line.
	for deadline := time.Now().Add(10 * time.Second); len(left(mark)) < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command does not run")
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); len(left(mark)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v outlived hookd", left(mark))
		}
	}
}

func TestOpenRefusesRoot(t *testing.T) {
	if os.Getuid() != 0 {
		return // the run as root covers it
	}
	for _, c := range []Config{{}, {Development: true}, {UIDs: UIDs{First: testFirst, Count: testCount}}} {
		if _, err := Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), "root") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestOpenRefusesLessThanItWasAskedFor(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	fake := filepath.Join(reachable(t), "bwrap")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		c    Config
		says string
	}{
		{"no bubblewrap", Config{Bwrap: "/no/bwrap"}, "install the package bubblewrap"},
		{"a cgroup that is not there", Config{Cgroup: "/sys/fs/cgroup/no-such-group"}, `cgroup "/sys/fs/cgroup/no-such-group": there is no such directory`},
		{"a cgroup that is none", Config{Cgroup: "/usr"}, "no group that has the controllers"},
		{"a cgroup that is a file", Config{Cgroup: "/etc/passwd"}, "not a directory"},
		{"a cgroup by a relative path", Config{Cgroup: "some"}, "not the path of a directory"},
		{"a cgroup of somebody else", Config{Cgroup: "/sys/fs/cgroup"}, `cgroup "/sys/fs/cgroup": `},
		{"a tier that there is not", Config{Tier: 3}, "no tier 3"},
		{"tier 2 with a single uid", Config{Tier: 2}, "range of uids"},
		{"no user namespaces", Config{Bwrap: fake}, "No permissions to create new namespace"},
		{"own uid in the range", Config{UIDs: UIDs{First: os.Getuid() - 1, Count: 9}}, "hookd's own uid"},
		{"range too short", Config{UIDs: UIDs{First: testFirst, Count: 2}}, "at least 3"},
		{"range from root", Config{UIDs: UIDs{First: 0, Count: 9}}, "above 0"},
		{"range too high", Config{UIDs: UIDs{First: 1 << 31, Count: 9}}, "above 0"},
		{"negative range", Config{UIDs: UIDs{First: -5, Count: 3}}, "above 0"},
	}
	if mode() == modeOnly {
		cases = append(cases, struct {
			name string
			c    Config
			says string
		}{"no capabilities", Config{UIDs: UIDs{First: testFirst, Count: testCount}}, "CAP_SETUID"})
	}
	for _, c := range cases {
		sb, err := Open(context.Background(), c.c)
		if err == nil {
			sb.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestDevelopmentSaysSo(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb, err := Open(context.Background(), Config{Development: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if sb.Tier() != "development: none" || sb.Sealed() || !sb.SingleUID() {
		t.Errorf("tier %q, sealed %t", sb.Tier(), sb.Sealed())
	}
	if b := sb.Bind("/a", "/b"); b.Target != "/a" {
		t.Errorf("bind %+v", b)
	}
	if _, err := sb.Start(context.Background(), Spec{Argv: shell("exit 0"), Binds: []Bind{{"/tmp", "/work"}}}); err == nil {
		t.Error("a bind at another place was accepted")
	}
	if r := run(t, sb, Spec{Argv: shell("echo $A; exit 3"), Env: []string{"A=b"}}); r.Exit != 3 || string(r.Stdout) != "b\n" {
		t.Errorf("%+v", r)
	}
	r := run(t, sb, Spec{Argv: shell("sleep 16180339.8 & sleep 100"), Env: searchPath, Limits: Limits{Wall: 200 * time.Millisecond}})
	if !r.TimedOut || r.Signal != "killed" || len(left("16180339.8")) != 0 {
		t.Errorf("%+v, left %v", r, left("16180339.8"))
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	p, err := sb.Start(context.Background(), Spec{Argv: shell("sleep 100"), Env: searchPath})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan Result, 1)
	go func() { r, _ := p.Wait(); waited <- r }()
	sb.Close()
	if r := <-waited; r.Signal != "killed" {
		t.Errorf("%+v", r)
	}
	if _, err := sb.Start(context.Background(), Spec{Argv: shell("exit 0")}); err == nil {
		t.Error("started after Close")
	}
	sb.Close()
}

func TestOtherChildrenOfHookdGetNoCapabilities(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	openHere(t)
	if mode() != modeOnly && clearAmbientEverywhere() != nil {
		t.Log("built with cgo: hookd is not")
		return
	}
	out, err := exec.Command("/usr/bin/grep", "-E", "^Cap(Prm|Eff|Amb)", "/proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Trim(strings.Fields(line)[1], "0") != "" {
			t.Errorf("a helper is started with %q", line)
		}
	}
}
