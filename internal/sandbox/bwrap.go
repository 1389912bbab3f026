//go:build linux

package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Inside, every command is the same user, and on the same host where its Spec
// names none, whatever slot it runs in.
const (
	insideID   = "1000"
	insideHost = "sandbox"
)

// bwrapTier is bubblewrap with every namespace.
type bwrapTier struct{ sb *Sandbox }

func (t bwrapTier) level() int { return 1 }

func (t bwrapTier) name() string {
	if t.sb.ownUIDs {
		return "1: bubblewrap, own uids"
	}
	return "1: bubblewrap, single uid"
}

func (t bwrapTier) facts() []string {
	if t.sb.noNested {
		return []string{"nested user namespaces forbidden by bubblewrap and by seccomp"}
	}
	return []string{"nested user namespaces forbidden by seccomp alone"}
}

func (t bwrapTier) path(_, target string) string { return target }

func (t bwrapTier) grip(p *process, _ *plumbing) grip { return &bwrapGrip{p: p, first: -1} }

// prepare gives bubblewrap three descriptors of its own, which it closes before
// the command runs.
func (t bwrapTier) prepare(pl *plumbing, cmd *exec.Cmd, _ int, s Spec, l Limits) error {
	args, argsWrite, err := pl.toChild()
	if err != nil {
		return err
	}
	filter, filterWrite, err := pl.toChild()
	if err != nil {
		return err
	}
	report, reportRead, err := pl.fromChild()
	if err != nil {
		return err
	}
	pl.statusRead = reportRead
	argsFD := 3 + len(cmd.ExtraFiles)
	cmd.ExtraFiles = append(cmd.ExtraFiles, args, filter, report)
	program, err := asBytes(t.sb.filter)
	if err != nil {
		return err
	}
	words := append(t.sb.bwrapArgs(s, l), "--seccomp", strconv.Itoa(argsFD+1), "--json-status-fd", strconv.Itoa(argsFD+2))
	pl.writes = []write{
		{argsWrite, []byte(strings.Join(words, "\x00") + "\x00")},
		{filterWrite, program},
	}
	cmd.Path = t.sb.config.Bwrap
	cmd.Args = append([]string{bwrapName(t.sb.token), "--args", strconv.Itoa(argsFD), "--"}, append(l.argv(1), s.Argv...)...)
	return nil
}

// bwrapGrip is bubblewrap outside (the monitor, hookd's child), and inside its
// first process, whose end is the end of everything in the pid namespace.
type bwrapGrip struct {
	p     *process
	first int // pidfd of the first process inside; -1 none
	// whether the command was started, and how it ended
	exited bool
	code   int
	lost   error // why there is no first although the command was started
}

// read reads bubblewrap's reports (--json-status-fd): first the pid of the
// first process inside, at the end the exit code. The latter is missing when
// the command was never started.
func (g *bwrapGrip) read(r *os.File) {
	var report struct {
		Child *int `json:"child-pid"`
		Exit  *int `json:"exit-code"`
	}
	d := json.NewDecoder(r)
	if d.Decode(&report) == nil && report.Child != nil {
		g.meet(*report.Child)
	}
	close(g.p.known)
	for d.Decode(&report) == nil {
		if report.Exit != nil {
			g.exited, g.code = true, *report.Exit
		}
	}
}

// meet takes hold of the first process inside. The monitor is not reaped
// before this returns, so a process that is the monitor's child is the right
// one even if numbers were handed out again.
func (g *bwrapGrip) meet(pid int) {
	p := g.p
	fd, err := holdOn(pid)
	if errors.Is(err, unix.ESRCH) {
		return // gone already
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		g.lost = fmt.Errorf("take hold of its first process: %w", err)
		p.killGroup()
		return
	}
	if parentOf(pid) != p.cmd.Process.Pid {
		_ = unix.Close(fd)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g.first = fd
	if p.killed {
		g.killFirst()
		return
	}
	p.helpers.Go(func() { p.watchMemory(func() int64 { return memoryBelow(pid) }) })
}

// holdOn opens a handle on a process. Where hookd or the host has no descriptor
// left it asks again for a while: without a handle nobody knows when all of the
// command has ended.
func holdOn(pid int) (fd int, err error) {
	for range 20 {
		fd, err = pidfdOpen(pid, 0)
		if err == nil || errors.Is(err, unix.ESRCH) {
			return fd, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return -1, err
}

// pidfdOpen is a variable for tests of a host that has no descriptor left.
var pidfdOpen = unix.PidfdOpen

// kill ends the first process inside: the kernel then ends the namespace, and
// the monitor follows. Killing the monitor first could leave a first process
// that has not yet asked for its parent-death signal.
func (g *bwrapGrip) kill() { g.killFirst() }

func (g *bwrapGrip) killFirst() {
	if g.first >= 0 {
		_ = unix.PidfdSendSignal(g.first, unix.SIGKILL, nil, 0)
	}
}

func (g *bwrapGrip) force() {
	g.killFirst()
	g.p.killGroup()
}

func (g *bwrapGrip) reaped() {}

func (g *bwrapGrip) patience() time.Duration { return grace }

// bury sees the first process dead, and with it everything inside.
func (g *bwrapGrip) bury(deadline time.Time) error {
	g.p.mu.Lock()
	g.killFirst()
	first := g.first
	g.first = -1
	g.p.mu.Unlock()
	if g.lost != nil {
		return g.lost
	}
	if first < 0 {
		return nil
	}
	defer func() { _ = unix.Close(first) }()
	if !waitReadable(first, deadline) {
		return errors.New("its first process was killed and does not end")
	}
	return nil
}

func (g *bwrapGrip) leaves() []string { return nil }

func (g *bwrapGrip) outcome(state *os.ProcessState, killed bool, stderr []byte) (int, string, error) {
	switch {
	case g.exited:
		exit, signal := decodeShell(g.code)
		return exit, signal, nil
	case killed:
		return -1, unix.SIGKILL.String(), nil
	default:
		return 0, "", fmt.Errorf("set up sandbox: bubblewrap ended with %v: %q", state, stderr)
	}
}

// decodeShell undoes what bubblewrap does to a death by signal.
func decodeShell(code int) (exit int, signal string) {
	if code > 128 && code <= 128+64 {
		return -1, syscall.Signal(code - 128).String()
	}
	return code, ""
}

// bwrapArgs is the whole of bubblewrap's command line but the file descriptors
// and the command, one element an argument. It travels through a pipe, so that
// the environment does not stand in the host's process list.
func (sb *Sandbox) bwrapArgs(s Spec, l Limits) []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session",
		"--cap-drop", "ALL",
		"--uid", insideID, "--gid", insideID, "--hostname", cmp.Or(s.Host, insideHost),
	}
	if sb.noNested {
		args = append(args, "--disable-userns")
	}
	args = append(args, rootArgs...)
	args = append(args,
		"--ro-bind", sb.etc(), "/etc",
		"--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
		"--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
		"--proc", "/proc",
		// Process 1 is bubblewrap's own and runs without the filter; without
		// this its memory could be written through /proc/1/mem.
		"--tmpfs", "/proc/1", "--remount-ro", "/proc/1",
		"--tmpfs", "/proc/sys", "--remount-ro", "/proc/sys",
		"--dev", "/dev",
		"--perms", "1777", "--size", strconv.FormatInt(max(l.Tmp/shmShare, 1), 10), "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
		"--perms", "1777", "--size", strconv.FormatInt(l.Tmp, 10), "--tmpfs", "/tmp",
	)
	for _, b := range s.Binds {
		args = append(args, "--ro-bind", b.Source, b.Target)
	}
	args = append(args, "--remount-ro", "/", "--clearenv")
	for _, pair := range s.Env {
		name, value, _ := strings.Cut(pair, "=")
		args = append(args, "--setenv", name, value)
	}
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	return append(args, "--chdir", dir)
}

// rootArgs show the host's /usr and whatever of its siblings are not links
// into it.
var rootArgs = systemDirs()

// systemLinks are what of the system may stand beside /usr.
var systemLinks = []string{"/bin", "/sbin", "/lib", "/lib64", "/lib32"}

func systemDirs() []string {
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range systemLinks {
		target, err := os.Readlink(dir)
		if err == nil {
			args = append(args, "--symlink", target, dir)
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	return args
}

// check refuses a Spec that could not mean what it says.
func (s Spec) check() error {
	if s.Role != Candidate && s.Role != Judge {
		return fmt.Errorf("unknown role %d", s.Role)
	}
	if len(s.Argv) == 0 || !path.IsAbs(s.Argv[0]) {
		return fmt.Errorf("command %q does not start with an absolute path", s.Argv)
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		return fmt.Errorf("directory %q is not absolute", s.Dir)
	}
	words := append([]string{s.Dir}, s.Argv...)
	for _, pair := range s.Env {
		if i := strings.IndexByte(pair, '='); i <= 0 {
			return errors.New("an element of the environment is not NAME=value")
		}
		words = append(words, pair)
	}
	for _, b := range s.Binds {
		if err := b.check(); err != nil {
			return err
		}
		words = append(words, b.Source, b.Target)
	}
	for _, w := range words {
		if strings.IndexByte(w, 0) >= 0 {
			return errors.New("a NUL byte in the command, its environment or its binds")
		}
	}
	return nil
}

// ours are the places of the sandbox that no bind may replace.
var ours = []string{"/proc", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"}

func (b Bind) check() error {
	if !filepath.IsAbs(b.Source) || !path.IsAbs(b.Target) {
		return fmt.Errorf("bind %q at %q: both must be absolute", b.Source, b.Target)
	}
	if b.Target != path.Clean(b.Target) || b.Target == "/" || b.Target == "/tmp" {
		return fmt.Errorf("bind %q at %q: not a place for a bind", b.Source, b.Target)
	}
	for _, dir := range ours {
		if b.Target == dir || strings.HasPrefix(b.Target, dir+"/") {
			return fmt.Errorf("bind %q at %q: %s is the sandbox's own", b.Source, b.Target, dir)
		}
	}
	return nil
}
