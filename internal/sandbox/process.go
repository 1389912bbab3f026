//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long bubblewrap may take to end after its first process was
// killed, before it is killed itself.
const grace = 2 * time.Second

// handOver is how long bubblewrap may take to read arguments that are larger
// than a pipe.
const handOver = 30 * time.Second

// process is one running command: bubblewrap outside (the monitor), and inside
// its first process, whose end is the end of everything in the pid namespace.
type process struct {
	sb      *Sandbox
	slot    int
	cmd     *exec.Cmd
	started time.Time
	total   int64 // bytes of memory all processes together
	stdout  *capture
	stderr  *capture
	reads   []*os.File
	stdin   chan struct{} // closed when stdin is written; nil without
	status  chan status
	known   chan struct{} // closed when first is settled
	stops   []func() bool
	ended   chan struct{}

	mu         sync.Mutex
	first      int // pidfd of the first process inside; -1 none
	killed     bool
	timedOut   bool
	overMemory bool
	reaped     bool
	helpers    sync.WaitGroup // what may kill; Wait waits for them
}

// status is what bubblewrap reported: whether the command was started, and how
// it ended.
type status struct {
	exited bool
	code   int
}

// Start starts one command. It waits for a free slot under ctx; ctx also ends
// the command.
//
// The arguments of the command can be seen in the host's process list, its
// environment cannot: nothing sealed belongs in Argv. bubblewrap adds PWD to
// the environment. A Stdin that is no file must come to its end, Wait waits
// for it. What is bound must be reachable for the slot, and Source must not be
// a name that pushed code chose.
func (sb *Sandbox) Start(ctx context.Context, s Spec) (Process, error) {
	defer closeAll(s.Files)
	p, err := sb.start(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("start sandboxed command: %w", err)
	}
	return p, nil
}

func (sb *Sandbox) start(ctx context.Context, s Spec) (*process, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	limits, err := s.Limits.settle(sb.config.Limits)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a free slot: %w", context.Cause(ctx))
	case slot := <-sb.slots:
		p, err := sb.launch(ctx, slot, s, limits)
		if err != nil {
			sb.slots <- slot
			return nil, err
		}
		return p, nil
	}
}

// launch builds the command, starts it on the starting thread, and sets
// everything that watches it going.
func (sb *Sandbox) launch(ctx context.Context, slot int, s Spec, l Limits) (*process, error) {
	var pl plumbing
	defer pl.close()
	cmd, err := sb.command(&pl, slot, s, l)
	if err != nil {
		return nil, err
	}
	p := &process{
		sb: sb, slot: slot, cmd: cmd, started: time.Now(), total: l.Total, first: -1,
		status: make(chan status, 1), known: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := sb.thread.start(cmd); err != nil {
		return nil, err
	}
	pl.closeChildEnds()
	p.watch(ctx, &pl, s, l)
	if !sb.add(p) { // closed meanwhile
		p.Kill()
		_, _ = p.finish()
		return nil, errClosed
	}
	return p, nil
}

// plumbing holds the pipes of one start until they are handed over.
type plumbing struct {
	child, parent                      []*os.File
	outRead, errRead, statusRead, feed *os.File
	writes                             []write
}

// write is what the parent sends down a pipe once the child is there to read.
type write struct {
	to   *os.File
	data []byte
}

func (pl *plumbing) pipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return r, w, nil
}

func (pl *plumbing) fromChild() (childEnd, parentEnd *os.File, err error) {
	r, w, err := pl.pipe()
	if err != nil {
		return nil, nil, err
	}
	pl.child, pl.parent = append(pl.child, w), append(pl.parent, r)
	return w, r, nil
}

func (pl *plumbing) toChild() (childEnd, parentEnd *os.File, err error) {
	r, w, err := pl.pipe()
	if err != nil {
		return nil, nil, err
	}
	pl.child, pl.parent = append(pl.child, r), append(pl.parent, w)
	return r, w, nil
}

func (pl *plumbing) closeChildEnds() {
	closeAll(pl.child)
	pl.child = nil
}

// keep hands the parent's ends over to the process.
func (pl *plumbing) keep() []*os.File {
	kept := pl.parent
	pl.parent = nil
	return kept
}

func (pl *plumbing) close() {
	closeAll(pl.child)
	closeAll(pl.parent)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// command is everything about a start but the start. Descriptors of the
// command come first, so that they keep their numbers inside; bubblewrap's own
// follow, and it closes them before the command runs.
func (sb *Sandbox) command(pl *plumbing, slot int, s Spec, l Limits) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Dir: "/", Env: []string{}, ExtraFiles: append([]*os.File{}, s.Files...)}
	cmd.SysProcAttr = sb.attributes(slot, s.Role)
	if err := sb.streams(pl, cmd, s); err != nil {
		return nil, err
	}
	if sb.config.Development {
		return cmd, plainCommand(cmd, s, l)
	}
	args, argsWrite, err := pl.toChild()
	if err != nil {
		return nil, err
	}
	filter, filterWrite, err := pl.toChild()
	if err != nil {
		return nil, err
	}
	report, reportRead, err := pl.fromChild()
	if err != nil {
		return nil, err
	}
	pl.statusRead = reportRead
	argsFD := 3 + len(cmd.ExtraFiles)
	cmd.ExtraFiles = append(cmd.ExtraFiles, args, filter, report)
	words := append(sb.bwrapArgs(s, l), "--seccomp", strconv.Itoa(argsFD+1), "--json-status-fd", strconv.Itoa(argsFD+2))
	pl.writes = []write{
		{argsWrite, []byte(strings.Join(words, "\x00") + "\x00")},
		{filterWrite, sb.filter},
	}
	cmd.Path = sb.config.Bwrap
	cmd.Args = append([]string{"bwrap", "--args", strconv.Itoa(argsFD), "--"}, append(l.argv(1), s.Argv...)...)
	return cmd, nil
}

func (sb *Sandbox) attributes(slot int, role Role) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if sb.ownUIDs {
		gid, _ := sb.Group(role)
		a.Credential = &syscall.Credential{Uid: uint32(slot), Gid: uint32(slot), Groups: []uint32{uint32(gid)}}
	}
	return a
}

func (sb *Sandbox) streams(pl *plumbing, cmd *exec.Cmd, s Spec) error {
	out, outRead, err := pl.fromChild()
	if err != nil {
		return err
	}
	errs, errRead, err := pl.fromChild()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, errs
	pl.outRead, pl.errRead = outRead, errRead
	if s.Stdin == nil {
		return nil // os/exec opens /dev/null
	}
	if f, ok := s.Stdin.(*os.File); ok {
		cmd.Stdin = f
		return nil
	}
	in, inWrite, err := pl.toChild()
	if err != nil {
		return err
	}
	cmd.Stdin, pl.feed = in, inWrite
	return nil
}

// watch starts whatever reads from, writes to and times the command.
func (p *process) watch(ctx context.Context, pl *plumbing, s Spec, l Limits) {
	budget := new(atomic.Int64)
	budget.Store(l.Output)
	p.stdout, p.stderr = startCapture(pl.outRead, budget), startCapture(pl.errRead, budget)
	if pl.feed != nil {
		p.stdin = feed(pl.feed, s.Stdin)
	}
	go p.readStatus(pl.statusRead)
	for _, w := range pl.writes {
		_ = w.to.SetWriteDeadline(time.Now().Add(handOver))
		_, _ = w.to.Write(w.data) // one that fails ends bubblewrap, and its report says so
		_ = w.to.Close()
	}
	p.reads = pl.keep()
	timer := time.AfterFunc(l.Wall, p.timeOut)
	p.stops = []func() bool{timer.Stop, context.AfterFunc(ctx, p.timeOut)}
}

// readStatus reads bubblewrap's reports (--json-status-fd): first the pid of
// the first process inside, at the end the exit code. The latter is missing
// when the command was never started.
func (p *process) readStatus(r *os.File) {
	var s status
	defer func() { p.status <- s }()
	if r == nil { // no sandbox, nothing reports
		close(p.known)
		return
	}
	var report struct {
		Child *int `json:"child-pid"`
		Exit  *int `json:"exit-code"`
	}
	d := json.NewDecoder(r)
	if d.Decode(&report) == nil && report.Child != nil {
		p.meet(*report.Child)
	}
	close(p.known)
	for d.Decode(&report) == nil {
		if report.Exit != nil {
			s = status{exited: true, code: *report.Exit}
		}
	}
}

// meet takes hold of the first process inside. The monitor is not reaped
// before this returns, so a process that is the monitor's child is the right
// one even if numbers were handed out again.
func (p *process) meet(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone already
	}
	if parentOf(pid) != p.cmd.Process.Pid {
		_ = unix.Close(fd)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first = fd
	if p.killed {
		p.killFirst()
		return
	}
	p.helpers.Go(func() { p.watchMemory(pid, p.total) })
}

// Kill ends the command and everything that it started.
func (p *process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
}

func (p *process) timeOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.timedOut = true
	p.kill()
}

// kill ends the first process inside: the kernel then ends the namespace, and
// the monitor follows. Killing the monitor first could leave a first process
// that has not yet asked for its parent-death signal. mu is held.
func (p *process) kill() {
	if p.killed || p.reaped {
		return
	}
	p.killed = true
	if p.sb.config.Development {
		p.killGroup()
		return
	}
	p.killFirst()
	p.helpers.Go(p.killLate)
}

func (p *process) killFirst() {
	if p.first >= 0 {
		_ = unix.PidfdSendSignal(p.first, unix.SIGKILL, nil, 0)
	}
}

// killLate ends a bubblewrap that hangs before or after its work.
func (p *process) killLate() {
	select {
	case <-p.ended:
		return
	case <-time.After(grace):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killFirst()
	p.killGroup()
}

// killGroup ends the monitor, and the first process while it is still in the
// monitor's group. mu is held.
func (p *process) killGroup() {
	if !p.reaped {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
}

// Wait returns the result, or an error when the command could not be started
// at all. Statuses above 128 are read as the shell's: 137 is "killed", also
// when the command chose that number.
func (p *process) Wait() (Result, error) {
	r, err := p.finish()
	p.sb.remove(p)
	p.sb.slots <- p.slot
	return r, err
}

// finish is Wait without giving the slot back.
func (p *process) finish() (Result, error) {
	<-p.known
	state, waitErr := p.reap()
	p.bury()
	s := <-p.status
	for _, stop := range p.stops {
		stop()
	}
	r := p.result()
	p.mu.Lock()
	defer p.mu.Unlock()
	r.TimedOut, r.OverTotal = p.timedOut, p.overMemory
	switch {
	case waitErr != nil:
		return Result{}, fmt.Errorf("wait for sandboxed command: %w", waitErr)
	case p.sb.config.Development:
		r.Exit, r.Signal = decode(state)
	case s.exited:
		r.Exit, r.Signal = decodeShell(s.code)
	case p.killed:
		r.Exit, r.Signal = -1, unix.SIGKILL.String()
	default:
		return Result{}, fmt.Errorf("set up sandbox: bubblewrap ended with %v: %q", state, r.Stderr)
	}
	return r, nil
}

// reap waits for the monitor without holding mu, then marks its number as no
// longer ours.
func (p *process) reap() (*os.ProcessState, error) {
	waitForExit(p.cmd.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sb.config.Development {
		p.killGroup()
	}
	p.reaped = true
	return p.cmd.Process.Wait()
}

// bury sees the first process dead, and with it everything inside, then takes
// what is left in the pipes.
func (p *process) bury() {
	p.mu.Lock()
	p.killFirst()
	first := p.first
	p.first = -1
	p.mu.Unlock()
	if first >= 0 {
		waitReadable(first)
		_ = unix.Close(first)
	}
	close(p.ended)
	p.helpers.Wait()
	for _, r := range p.reads {
		_ = r.SetReadDeadline(time.Now().Add(grace))
	}
	<-p.stdout.done
	<-p.stderr.done
	if p.stdin != nil {
		<-p.stdin
	}
	closeAll(p.reads)
}

func (p *process) result() Result {
	return Result{
		Stdout: p.stdout.kept, Stderr: p.stderr.kept,
		Dropped: p.stdout.dropped + p.stderr.dropped,
		Wall:    time.Since(p.started),
	}
}

// decodeShell undoes what bubblewrap does to a death by signal.
func decodeShell(code int) (exit int, signal string) {
	if code > 128 && code <= 128+64 {
		return -1, syscall.Signal(code - 128).String()
	}
	return code, ""
}

func decode(state *os.ProcessState) (exit int, signal string) {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return -1, ws.Signal().String()
	}
	return state.ExitCode(), ""
}

// waitForExit returns when a child has ended, and leaves it to be reaped.
func waitForExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// waitReadable returns when a pidfd says that its process has ended.
func waitReadable(pidfd int) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
