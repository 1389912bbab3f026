//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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
		if uid >= testFirst && uid < testFirst+testCount {
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

// Both killed at once: the next hookd ends what is left before it serves, and
// another one that does not hold the lock does not.
func TestReclaimEndsWhatBothLeft(t *testing.T) {
	if !asUser(t, t.Name()) {
		return
	}
	if mode() == modeOnly {
		return
	}
	const mark = "28284271.2"
	sb := openHere(t)
	hurry(t)
	slot := sb.share.First + 5
	orphan := exec.Command("/bin/sh", "-c", "setsid -f /bin/sh -c 'while :; do /bin/sleep 0.01; done'; exec setsid -f sleep "+mark)
	orphan.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(slot), Gid: uint32(slot), Groups: []uint32{}}}
	orphan.Dir = "/"
	if err := sb.thread.start(orphan); err != nil {
		t.Fatal(err)
	}
	if err := orphan.Wait(); err != nil {
		t.Fatal(err)
	}
	sb.Close()
	c := Config{UIDs: sb.config.UIDs}
	if other, err := Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), "of the sandbox's range") {
		t.Errorf("opened over somebody's processes: %v", err)
		if err == nil {
			other.Close()
		}
	}
	c.Reclaim = true
	next, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if pid, uid := processIn(c.UIDs); pid != 0 && uid == slot {
		t.Errorf("process %d of the earlier hookd still runs", pid)
	}
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
	next, err := Open(context.Background(), Config{UIDs: sb.config.UIDs, Reclaim: true})
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
		if err := syscall.Kill(sb.guard.pid, syscall.SIGKILL); err != nil {
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
