//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const burstEnv = "SEALGATE_SANDBOX_TEST_BURST"

// burst is a hookd that starts commands without end, eight at a time, until it
// is killed.
func burst(mark string) error {
	c := Config{Scratch: os.Getenv("TMPDIR"), Reclaim: true}
	if mode() != modeOnly {
		c.UIDs = UIDs{First: testFirst, Count: testCount}
	}
	sb, err := Open(context.Background(), c)
	if err != nil {
		return err
	}
	fmt.Println("ready", sb.guard.pid)
	for range 8 {
		go func() {
			for {
				p, err := sb.Start(context.Background(), Spec{
					Argv: []string{"/bin/sh", "-c", "setsid -f sleep " + mark + " </dev/null >/dev/null 2>&1; sleep 0.05"}, Env: searchPath,
				})
				if err == nil {
					_, _ = p.Wait()
				}
			}
		}()
	}
	select {}
}

// ofHookd are processes that a hookd which is gone has left: marked commands, its
// helpers and its bubblewraps, of this user and of the range.
func ofHookd(mark string) (found []string) {
	for _, pid := range pids() {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil || !alive(pid) {
			continue
		}
		uid := int(st.Uid)
		if uid >= testFirst && uid < testFirst+2*testCount {
			found = append(found, fmt.Sprintf("%d of uid %d", pid, uid))
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(line, []byte(mark)) && uid == os.Getuid() {
			found = append(found, fmt.Sprintf("%d %q", pid, line))
		}
	}
	return found
}

// hookd is killed in the middle of starts, again and again, and every fourth time
// its guard with it. Nothing is left: the guard ends it, or the next hookd.
func TestKilledInABurstLeavesNothing(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	mark := fmt.Sprintf("2360679.%d", os.Getpid())
	dir := reachable(t)
	kills := 8
	if n, err := strconv.Atoi(os.Getenv("SEALGATE_SANDBOX_TEST_KILLS")); err == nil {
		kills = n
	}
	for i := range kills {
		killBurst(t, mark, dir, i%4 == 3)
		if t.Failed() {
			return
		}
	}
	if entries, _ := filepath.Glob(filepath.Join(dir, "tmp-*", "*")); len(entries) != 0 {
		t.Errorf("directories are left: %v", entries)
	}
}

func killBurst(t *testing.T, mark, dir string, guardToo bool) {
	t.Helper()
	cmd, guard := startVictim(t, burstEnv+"="+mark, dir)
	time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond)
	if guardToo { // the next hookd has it to do
		_ = unix.Kill(guard, unix.SIGKILL)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		cmd, _ = startVictim(t, burstEnv+"="+mark, dir)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	nothingOf(t, mark)
}

func nothingOf(t *testing.T, mark string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		found := ofHookd(mark)
		if len(found) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("outlived hookd: %v", found)
			return
		}
	}
}

// startVictim starts this program as a hookd that is going to be killed, and
// returns it with the number of its guard.
func startVictim(t *testing.T, as, dir string) (*exec.Cmd, int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), as, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: heldCaps()}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	words := strings.Fields(line)
	if len(words) != 2 || words[0] != "ready" {
		t.Fatalf("%q, %v", line, err)
	}
	guard, err := strconv.Atoi(words[1])
	if err != nil {
		t.Fatal(err)
	}
	return cmd, guard
}

// heldCaps are what a victim needs, in the modes that have them: this process may
// have given up handing them on.
func heldCaps() (caps []uintptr) {
	if mode() == modeOnly {
		return nil
	}
	for _, c := range wanted {
		caps = append(caps, uintptr(c.bit))
	}
	return caps
}

// hurry waits a shorter time for what does not end.
func hurry(t *testing.T) {
	t.Helper()
	before := reclaimFor
	reclaimFor = 300 * time.Millisecond
	t.Cleanup(func() { reclaimFor = before })
}

// died writes what a hookd of this range leaves in its scratch directory when it is
// killed, with the range and the time of the host's start as they are given.
func died(t *testing.T, scratch string, u UIDs, boot string) {
	t.Helper()
	if boot == "" {
		data, err := os.ReadFile(bootFile)
		if err != nil {
			t.Fatal(err)
		}
		boot = strings.TrimSpace(string(data))
	}
	share := u.share(false)
	path := filepath.Join(scratch, fmt.Sprintf("share-%d-%d.lock", share.First, share.Count))
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d %d %s\n", u.First, u.Count, boot), 0o600); err != nil {
		t.Fatal(err)
	}
}

// orphanAs starts a command as a slot, whose parent is process 1. It holds the second
// end of a pipe.
func orphanAs(t *testing.T, slot int, argv []string) (ends *os.File) {
	t.Helper()
	r, w := pipe(t)
	thread := startSpawner()
	defer thread.stop()
	cmd := exec.Command("/usr/bin/setsid", append([]string{"-f"}, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(slot), Gid: uint32(slot), Groups: []uint32{}}}
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{w}
	if err := thread.start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return r
}

// hasEnded reports whether nobody holds the second end any more.
func hasEnded(r *os.File, within time.Duration) bool {
	_ = r.SetReadDeadline(time.Now().Add(within))
	_, err := r.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// Both killed at once: the next hookd ends what is left before it serves, where its
// data directory says that it had the range and did not end well. Without that, what
// runs there is somebody's.
func TestReclaimEndsWhatItsOwnRecordNames(t *testing.T) {
	if !asUser(t, t.Name()) || mode() == modeOnly {
		return
	}
	hurry(t)
	u := UIDs{First: testFirst, Count: testCount}
	scratch := reachable(t)
	c := Config{UIDs: u, Scratch: scratch, Reclaim: true}
	orphan := orphanAs(t, testFirst+7, []string{"/bin/sh", "-c", "while :; do /bin/sleep 0.01; done"})
	for name, refused := range map[string]func() Config{
		"no record":                                 func() Config { return c },
		"a record of another range":                 func() Config { died(t, scratch, UIDs{u.First, u.Count + 1}, ""); return c },
		"a record from before the host was started": func() Config { died(t, scratch, u, "5e3f1c52"); return c },
		"a record, and the lock is not asked for":   func() Config { died(t, scratch, u, ""); return Config{UIDs: u, Scratch: scratch} },
		"a record in another directory":             func() Config { died(t, scratch, u, ""); return Config{UIDs: u, Scratch: reachable(t), Reclaim: true} },
	} {
		if err := os.RemoveAll(filepath.Join(scratch, fmt.Sprintf("share-%d-%d.lock", u.First+2, u.Count-2))); err != nil {
			t.Fatal(err)
		}
		other, err := Open(context.Background(), refused())
		if err == nil {
			other.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "of the sandbox's range") || hasEnded(orphan, time.Millisecond) {
			t.Errorf("%s: somebody's process is no hindrance, or was ended: %v", name, err)
		}
	}
	died(t, scratch, u, "")
	// Who forks and ends all the time is in no list for long enough to be looked at.
	comet := orphanAs(t, testFirst+3, python("import os,time\nend=time.time()+60\nwhile time.time()<end:\n if os.fork(): os._exit(0)"))
	next, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !hasEnded(orphan, 5*time.Second) || !hasEnded(comet, 5*time.Second) {
		t.Error("something of the earlier hookd still runs")
	}
	if r := run(t, next, Spec{Argv: shell("exit 4")}); r.Exit != 4 {
		t.Errorf("%+v", r)
	}
	if again := (&Sandbox{config: c, lock: next.lock}); true {
		if unwell, err := again.endedBadly(); err != nil || !unwell {
			t.Errorf("while it works its record is %t, %v", unwell, err)
		}
	}
	next.Close()
	late := orphanAs(t, testFirst+7, []string{"/bin/sleep", "60"})
	if other, err := Open(context.Background(), c); err == nil || hasEnded(late, time.Millisecond) {
		if err == nil {
			other.Close()
		}
		t.Error("one that ended well has left something")
	}
	sweepHere(t)
}

// The sweep of a share sees nothing of what it ends: every slot, and nobody else.
func TestAShareIsSweptUnseen(t *testing.T) {
	if !asUser(t, t.Name()) || mode() == modeOnly {
		return
	}
	share := UIDs{First: testFirst + 2, Count: 3}
	var in []*os.File
	for i := range share.Count {
		in = append(in, orphanAs(t, share.First+i, []string{"/bin/sleep", "60"}))
	}
	outside := orphanAs(t, share.First+share.Count, []string{"/bin/sleep", "60"})
	self := exec.Command("/bin/sleep", "60")
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	sb := &Sandbox{share: share, thread: startSpawner()}
	defer sb.thread.stop()
	if err := sb.sweepUnseen(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, r := range in {
		if !hasEnded(r, 5*time.Second) {
			t.Errorf("slot %d was not swept", i)
		}
	}
	if hasEnded(outside, time.Millisecond) || !alive(self.Process.Pid) {
		t.Error("somebody outside of the share was ended")
	}
	_ = self.Process.Kill()
	_ = self.Wait()
	more := sweepAllCommand(share)
	more.SysProcAttr.AmbientCaps = append(more.SysProcAttr.AmbientCaps, unix.CAP_KILL)
	none := sweepAllCommand(share)
	none.SysProcAttr.AmbientCaps = nil
	mine := sweepAllCommand(UIDs{First: os.Getuid() - 1, Count: 3})
	root := sweepAllCommand(UIDs{First: 0, Count: 3})
	for name, cmd := range map[string]*exec.Cmd{"with the right to kill": more, "with no right": none, "its own user": mine, "root": root} {
		if err := sb.thread.start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s: a sweeper went to work", name)
		}
	}
	sweepHere(t)
}

// sweepHere ends what a test has left in this process's range.
func sweepHere(tb testing.TB) {
	tb.Helper()
	sb := &Sandbox{share: UIDs{First: testFirst + 2, Count: testCount - 2}, thread: startSpawner()}
	defer sb.thread.stop()
	if err := sb.sweepUnseen(context.Background()); err != nil {
		tb.Error(err)
	}
}

// Another data directory does not make a range free that a live hookd has, whether it
// runs something or not.
func TestARangeHasOneHookdWhateverItsDirectory(t *testing.T) {
	if !asUser(t, t.Name()) || mode() == modeOnly {
		return
	}
	sb := openHere(t)
	for name, u := range map[string]UIDs{"the same range": {testFirst, testCount}, "one that overlaps": {testFirst + testCount - 3, 9}} {
		other, err := Open(context.Background(), Config{UIDs: u, Reclaim: true})
		if err == nil {
			other.Close()
		}
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("hookd process %d has some of them", os.Getpid())) {
			t.Errorf("%s: %v", name, err)
		}
	}
	beside, err := Open(context.Background(), Config{UIDs: UIDs{testFirst + testCount, testCount}})
	if err != nil {
		t.Fatal(err)
	}
	beside.Close()
	sb.Close()
	next, err := Open(context.Background(), Config{UIDs: UIDs{testFirst, testCount}})
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
}

// A process of the range that somebody else's process holds is not hookd's: a
// container's, or a login's. It is named, and lives on.
func TestReclaimLeavesWhatOthersHoldAlone(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeOnly {
		return
	}
	sb := openHere(t)
	hurry(t)
	slot := strconv.Itoa(sb.share.First + 5)
	holder := exec.Command("/bin/sh", "-c", "setpriv --reuid="+slot+" --regid="+slot+" --clear-groups --inh-caps=-all --ambient-caps=-all sleep 28284271.4; true")
	holder.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 65533, Gid: 65533, Groups: []uint32{}},
		AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID},
	}
	holder.Dir = "/"
	var said bytes.Buffer
	holder.Stderr = &said
	if err := sb.thread.start(holder); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- holder.Wait() }()
	var held int
	for held == 0 {
		select {
		case err := <-ended:
			t.Fatalf("%v: %s", err, said.Bytes())
		case <-time.After(10 * time.Millisecond):
			held, _ = processIn(sb.share)
		}
	}
	defer func() {
		if err := syscall.Kill(held, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-ended
	}()
	sb.Close()
	scratch := reachable(t)
	died(t, scratch, sb.config.UIDs, "")
	next, err := Open(context.Background(), Config{UIDs: sb.config.UIDs, Reclaim: true, Scratch: scratch})
	if err == nil {
		next.Close()
		t.Error("opened over somebody's process")
	} else if !strings.Contains(err.Error(), "of the sandbox's range") {
		t.Error(err)
	}
	if !alive(held) {
		t.Error("somebody's process was ended")
	}
}

// A guard that has just died is no reason not to close.
func TestCloseEndsAlsoWhenTheGuardHasJustDied(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	for range 5 {
		sb := openHere(t)
		sb.guard.mu.Lock()
		pid := sb.guard.pid
		sb.guard.mu.Unlock()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		sb.Close()
	}
}

// What a live hookd runs is not swept by another one, whatever it asks for.
func TestReclaimLeavesALiveHookdAlone(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeOnly {
		return
	}
	sb := openHere(t)
	hurry(t)
	outRead, outWrite := pipe(t)
	p, err := sb.Start(context.Background(), Spec{Argv: shell("echo up; read x <&3; echo $x"), Env: searchPath, Files: []*os.File{outRead}})
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Open(context.Background(), Config{UIDs: sb.config.UIDs, Reclaim: true}); err == nil {
		t.Error("a second hookd took the range of the first")
		other.Close()
	}
	_, _ = outWrite.Write([]byte("there\n"))
	if r, err := p.Wait(); err != nil || string(r.Stdout) != "up\nthere\n" {
		t.Errorf("the first hookd's command was ended: %+v, %v", r, err)
	}
}

func TestRangeIsShared(t *testing.T) {
	for _, c := range []struct {
		u              UIDs
		daemon, beside UIDs
	}{
		{UIDs{1000, 16}, UIDs{1002, 14}, UIDs{1002, 14}},
		{UIDs{1000, 33}, UIDs{1002, 31}, UIDs{1002, 31}},
		{UIDs{1000, 34}, UIDs{1002, 24}, UIDs{1026, 8}},
		{UIDs{1000, 130}, UIDs{1002, 112}, UIDs{1114, 16}},
	} {
		if d, b := c.u.share(false), c.u.share(true); d != c.daemon || b != c.beside {
			t.Errorf("%v: %v and %v", c.u, d, b)
		}
	}
}

func TestARangeThatIsSomebodysIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	oldPasswd, oldSubuid := passwdFile, subuidFile
	t.Cleanup(func() { passwdFile, subuidFile = oldPasswd, oldSubuid })
	passwdFile = write("passwd", fmt.Sprintf("root:x:0:0::/:/bin/sh\nbroken\nann:x:5010:5010::/:/bin/sh\nme:x:%d:1::/:/bin/sh\n", os.Getuid()))
	subuidFile = write("subuid", "ann:100000:65536\nme:200000:65536\nodd:x:y\n")
	for _, c := range []struct {
		u  UIDs
		ok bool
	}{
		{UIDs{5000, 10}, true},
		{UIDs{5000, 11}, false},
		{UIDs{5010, 3}, false},
		{UIDs{99998, 2}, true},
		{UIDs{99998, 3}, false},
		{UIDs{165535, 3}, false},
		{UIDs{165536, 3}, true},
		{UIDs{200000, 100}, true}, // set aside for hookd itself
	} {
		if err := nobodysRange(c.u); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.u, err)
		}
	}
	passwdFile, subuidFile = filepath.Join(dir, "none"), filepath.Join(dir, "none")
	if err := nobodysRange(UIDs{5000, 100}); err != nil {
		t.Errorf("without the files: %v", err)
	}
	if passwdFile = dir; nobodysRange(UIDs{5000, 100}) == nil {
		t.Error("a list of accounts that cannot be read lists none")
	}
}

// A start whose first process cannot be held for want of descriptors is an error,
// and its slot is not used again before nothing of it is left for sure.
func TestCommandThatCannotBeHeldIsAnError(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	sb := openHere(t)
	if sb.Level() != 1 {
		return // a warden is hookd's own child
	}
	pidfdOpen = func(int, int) (int, error) { return -1, unix.EMFILE }
	t.Cleanup(func() { pidfdOpen = unix.PidfdOpen })
	_, before := sb.Slots()
	p, err := sb.Start(context.Background(), Spec{Argv: shell("sleep 100"), Env: searchPath})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Wait(); err == nil {
		t.Errorf("%+v", r)
	}
	kept := before - 1
	if sb.ownUIDs {
		kept = before
		sb.recovering.Wait()
	}
	if free, total := sb.Slots(); total != kept || free != total {
		t.Errorf("%d free of %d", free, total)
	}
	pidfdOpen = func(int, int) (int, error) { return -1, unix.ESRCH } // it has ended already
	if r := run(t, sb, Spec{Argv: shell("exit 3")}); r.Exit != 3 {
		t.Errorf("%+v", r)
	}
	if _, total := sb.Slots(); total != kept {
		t.Errorf("%d slots", total)
	}
}

func TestAProgramWithoutInitOpensNoSandbox(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	ready.Store(false)
	defer ready.Store(true)
	if sb, err := Open(context.Background(), Config{}); err == nil {
		sb.Close()
		t.Error("opened")
	}
}
