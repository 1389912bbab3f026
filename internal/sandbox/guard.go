//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardName is this program as the guard of a hookd.
const guardName = "sealgate-guard"

// guard stands beside hookd and does nothing until hookd is gone without a word,
// killed, that is. Then it ends what hookd left: commands end with hookd by
// themselves, but not those that were just about to start.
type guard struct {
	sb *Sandbox

	mu    sync.Mutex
	line  *os.File
	pid   int
	over  bool
	ended chan struct{}
}

// startGuard starts the guard, and again whenever it ends too early.
func startGuard(sb *Sandbox) (*guard, error) {
	g := &guard{sb: sb, ended: make(chan struct{})}
	cmd, err := g.start()
	if err != nil {
		return nil, err
	}
	go g.keep(cmd)
	return g, nil
}

func (g *guard) start() (*exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to the guard: %w", err)
	}
	defer func() { _ = r.Close() }()
	u := UIDs{}
	if g.sb.ownUIDs {
		u = g.sb.config.UIDs
	}
	s := g.sb.share
	cmd := &exec.Cmd{
		Path: selfPath, Dir: "/", Env: []string{"GOMAXPROCS=1"}, Stdin: r,
		Args: append(g.sb.guardWords(), strconv.Itoa(os.Getpid()), g.sb.token, strconv.Itoa(u.First), strconv.Itoa(u.Count), strconv.Itoa(s.First), strconv.Itoa(s.Count)),
		// A session of its own: what ends hookd's terminal must not end the guard first.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if g.sb.lock != nil {
		cmd.ExtraFiles = []*os.File{g.sb.lock} // held until the guard ends
	}
	if g.sb.ownUIDs {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID}
	}
	if err := g.sb.thread.start(cmd); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.line, g.pid = w, cmd.Process.Pid
	return cmd, nil
}

// keep waits for the guard, and has another one when it was not told to end.
func (g *guard) keep(cmd *exec.Cmd) {
	defer close(g.ended)
	for {
		err := cmd.Wait()
		g.mu.Lock()
		over := g.over
		_ = g.line.Close()
		g.mu.Unlock()
		if over {
			return
		}
		g.sb.config.Log(fmt.Sprintf("sandbox: the guard ended (%v) and is started again", err))
		for cmd = nil; cmd == nil; {
			time.Sleep(guardAgain)
			if g.told() {
				return
			}
			if cmd, err = g.start(); errors.Is(err, errClosed) {
				return
			}
		}
		g.mu.Lock()
		if g.over { // it was said to the one before
			g.farewell()
		}
		g.mu.Unlock()
	}
}

// told reports whether there is to be no guard any more.
func (g *guard) told() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// farewell tells the guard that nothing is left: it reads to the end of its line.
func (g *guard) farewell() {
	_, _ = g.line.Write([]byte(goodbye))
	_ = g.line.Close()
}

const (
	goodbye    = "over"
	guardAgain = 200 * time.Millisecond
)

// stop tells the guard that nothing is left, and waits for its end.
func (g *guard) stop() {
	g.mu.Lock()
	g.over = true
	g.farewell()
	g.mu.Unlock()
	<-g.ended
}

// guardMain is the life of a guard.
func guardMain() error {
	if len(os.Args) != 8 {
		return errors.New("want place, number of hookd, token and ranges")
	}
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(os.Args[4+i]); err != nil {
			return fmt.Errorf("number %d: %w", i, err)
		}
	}
	unix.CloseOnExec(3) // the lock on the share, if there is one: sweepers do not hold it
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	// Commands of hookd inherit nothing that the guard holds open but its line.
	said, _ := io.ReadAll(io.LimitReader(os.Stdin, 64))
	if string(said) == goodbye {
		return nil
	}
	runtime.LockOSThread()
	if err := dropInheritance(); err != nil {
		return err
	}
	share := UIDs{First: n[2], Count: n[3]}
	for _, wait := range guardLooks {
		time.Sleep(wait)
		endMarked(bwrapName(os.Args[3])+"\x00", func(int) bool { return true })
		if share.Count > 0 {
			_ = sweepAllCommand(share).Run() // the next look, or the next hookd, does it again
		}
	}
	return nil
}

// guardLooks are the pauses before each look of a guard: what hookd was starting
// when it ended can appear a little later.
var guardLooks = []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second}

// endMarked kills the bubblewraps whose command line begins so and that are
// wanted; all that is in their pid namespace ends with them.
func endMarked(begin string, wanted func(pid int) bool) {
	for _, pid := range pids() {
		if marked(pid, []byte(begin)) && wanted(pid) {
			killMarked(pid, []byte(begin))
		}
	}
}

func killMarked(pid int, want []byte) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if marked(pid, want) { // the number is still the same process's
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

func marked(pid int, want []byte) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.HasPrefix(line, want)
}

// bwrapName is what bubblewrap is called in the process list. The first process
// inside keeps it.
func bwrapName(token string) string { return "bwrap-" + token }

// place marks what two sandboxes must not have at the same time, a share of the
// range or else a scratch directory: so the next one knows what the last one left.
func (sb *Sandbox) place() string {
	what := sb.scratch
	if sb.ownUIDs {
		what = fmt.Sprint(sb.share)
	}
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:6])
}

// newToken marks one sandbox, at its place.
func (sb *Sandbox) newToken() string { return sb.place() + "-" + rand.Text() }

func (sb *Sandbox) guardWords() []string { return []string{guardName, sb.place()} }

// inUse reports the guard of another hookd of this user's, which lives and has some of
// this sandbox's slots: with another data directory nothing else tells of it.
func (sb *Sandbox) inUse() (pid int) {
	if !sb.ownUIDs {
		return 0
	}
	for _, pid := range pids() {
		if !marked(pid, []byte(guardName+"\x00")) || !alive(pid) || userOf(pid) != os.Getuid() {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if len(words) != 8 || words[3] == sb.token || words[2] != strconv.Itoa(parentOf(pid)) {
			continue // its own, or orphaned: see relieve
		}
		first, err1 := strconv.Atoi(words[6])
		count, err2 := strconv.Atoi(words[7])
		if err1 == nil && err2 == nil && first < sb.share.First+sb.share.Count && sb.share.First < first+count {
			return pid
		}
	}
	return 0
}

// alone refuses where another hookd has some of this sandbox's slots.
func (sb *Sandbox) alone() error {
	if pid := sb.inUse(); pid != 0 {
		return fmt.Errorf("user ids %d to %d: hookd process %d has some of them: give each hookd a range of its own", sb.share.First, sb.share.First+sb.share.Count-1, parentOf(pid))
	}
	return nil
}

// relieve sees the guard of an earlier hookd at this place gone: at its work it
// would end what this one starts. Whoever may end what is left takes its place;
// who may not waits until it is done.
func (sb *Sandbox) relieve(ctx context.Context) error {
	want := []byte(strings.Join(sb.guardWords(), "\x00") + "\x00")
	for deadline := time.Now().Add(guardTakes); ; {
		pid := orphanedGuard(want)
		if pid == 0 {
			return nil
		}
		if sb.config.Reclaim {
			killMarked(pid, want)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d, the guard of an earlier hookd, does not end", pid)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// guardTakes is more than a guard needs for its looks.
const guardTakes = 30 * time.Second

// orphanedGuard finds a guard of this user's whose hookd has ended: its parent is
// another one than it was told. Anybody can call a process so.
func orphanedGuard(want []byte) int {
	for _, pid := range pids() {
		if !marked(pid, want) || !alive(pid) || userOf(pid) != os.Getuid() {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(string(line), "\x00")
		if len(words) > 2 && words[2] != strconv.Itoa(parentOf(pid)) {
			return pid
		}
	}
	return 0
}
