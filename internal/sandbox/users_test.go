//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"io"
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

	"github.com/sealgate/sealgate/internal/sandbox/sandboxtest"
)

// The sandbox refuses to run as root, and its own-uid mode needs capabilities
// that an ordinary user lacks. So a test that needs one asks asUser first: as
// root it runs itself again as ordinary users: one with the capabilities and a
// range of uids, one without, and one with both where no user namespace can be
// had.
const (
	modeEnv = "SEALGATE_SANDBOX_TEST_MODE"
	// rootRanEnv is set by scripts/test.sh for the run as an ordinary user, which
	// follows the run as root: what only root can arrange has been tested then.
	rootRanEnv = "SEALGATE_TESTED_AS_ROOT"

	modeOwn  = "own"
	modeOnly = "single"
	modeTwo  = "two"

	// firstEnv tells a user's run the first uid of its range.
	firstEnv = "SEALGATE_SANDBOX_TEST_FIRST"

	testCount = 16
)

// modes are the users that root's tests run themselves again as, all at once: each
// has an account and a range of its own, and no other run of these tests has them.
var modes = []string{modeOwn, modeOnly, modeTwo}

// userOfMode is who a mode's run is. What still runs as it afterwards is ours to end.
func userOfMode(mode string) int {
	return 1_897_000_000 + os.Getpid()%100_000*len(modes) + slices.Index(modes, mode)
}

// firstOfMode begins the range of a mode's run, and one more for a second hookd.
func firstOfMode(mode string) int {
	return 1_898_000_000 + (os.Getpid()%100_000*len(modes)+slices.Index(modes, mode))*2*testCount
}

// testFirst begins the range of this process.
var testFirst = func() int {
	if n, err := strconv.Atoi(os.Getenv(firstEnv)); err == nil {
		return n
	}
	return firstOfMode(modeOnly)
}()

// asUser reports whether the test should go on here.
func asUser(tb testing.TB, run string) bool {
	tb.Helper()
	if _, err := os.Stat(DefaultBwrap); err != nil {
		tb.Fatalf("bubblewrap is missing: %v", err)
	}
	if os.Getuid() != 0 {
		if os.Getenv(modeEnv) == "" && os.Getenv("CI") != "" && os.Getenv(rootRanEnv) == "" {
			tb.Fatal("needs root once, to become users with and without capabilities")
		}
		return true
	}
	binary := copyOfSelf(tb)
	var all sync.WaitGroup
	for _, mode := range modes {
		if testing.Short() && mode == modeOnly { // the race detector's run, which has the others
			continue
		}
		all.Go(func() { runAs(tb, mode, binary, run) })
	}
	all.Wait()
	return false
}

func copyOfSelf(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sealgate-sandbox-test-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		tb.Fatal(err)
	}
	defer self.Close()
	name := filepath.Join(dir, "sandbox.test")
	to, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := io.Copy(to, self); err != nil {
		tb.Fatal(err)
	}
	if err := to.Close(); err != nil {
		tb.Fatal(err)
	}
	return name
}

func userArgs(mode string) []string {
	id := fmt.Sprint(userOfMode(mode))
	args := []string{"--reuid=" + id, "--regid=" + id, "--clear-groups"}
	if mode != modeOnly {
		const caps = "+setuid,+setgid,+kill"
		args = append(args, "--inh-caps="+caps, "--ambient-caps="+caps, "--bounding-set=-all,"+caps)
	}
	return args
}

func runAs(tb testing.TB, mode, binary, run string, prepare ...func(*exec.Cmd)) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 11*time.Minute)
	defer cancel()
	args := append(userArgs(mode), binary, "-test.v", "-test.timeout=10m", "-test.parallel=4")
	if strings.HasPrefix(run, "Benchmark") {
		args = append(args, "-test.run=^$", "-test.bench=^"+run+"$", "-test.benchtime=40x")
	} else {
		args = append(args, "-test.run=^"+run+"$")
	}
	cmd := exec.CommandContext(ctx, "setpriv", args...)
	cmd.Dir = filepath.Dir(binary)
	cmd.Env = append(os.Environ(), modeEnv+"="+mode, firstEnv+"="+strconv.Itoa(firstOfMode(mode)), "HOME=/nonexistent", "TMPDIR=/tmp")
	for _, f := range prepare {
		f(cmd)
	}
	if mode == modeTwo {
		if err := sandboxtest.WithoutUserNamespaces(cmd); err != nil {
			tb.Errorf("as %s: %v", mode, err)
			return
		}
	}
	out, err := cmd.CombinedOutput()
	endAllOf(userOfMode(mode))
	if err != nil {
		tb.Errorf("as %s: %v\n%s", mode, err, out)
		return
	}
	tb.Logf("as %s:\n%s", mode, out)
}

// endAllOf ends what a weakened sandbox left running as a user: with a single uid
// there is no range in which the next sandbox would look for it.
func endAllOf(uid int) {
	for _, pid := range pids() {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// mode is the kind of user that this process is.
func mode() string {
	if m := os.Getenv(modeEnv); m != "" {
		return m
	}
	return modeOnly
}

func openHere(tb testing.TB) *Sandbox {
	tb.Helper()
	return openWith(tb, Config{})
}

func openWith(tb testing.TB, c Config) *Sandbox {
	tb.Helper()
	if mode() != modeOnly {
		if c.UIDs.Count == 0 {
			c.UIDs = UIDs{First: testFirst, Count: testCount}
		}
		sweepHere(tb) // a sandbox that a test has weakened may have left something
	}
	c.Reclaim = true
	c.Log = func(m string) { tb.Log(m) }
	sb, err := Open(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(sb.Close)
	return sb
}

// run is a command from start to end.
func run(tb testing.TB, sb *Sandbox, s Spec) Result {
	tb.Helper()
	p, err := sb.Start(context.Background(), s)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := p.Wait()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }
func python(script string) []string {
	return []string{"/usr/bin/python3", "-S", "-s", "-E", "-c", script}
}
