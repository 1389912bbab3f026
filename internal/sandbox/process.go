//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// burying is how long the last of a command may take to end when everything of
// it has been killed.
const burying = 10 * time.Second

// handOver is how long bubblewrap may take to read arguments that are larger
// than a pipe.
const handOver = 30 * time.Second

// process is one running command.
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
	grip    grip
	group   *group        // its control group; nil where there are none
	known   chan struct{} // closed when grip holds what there is to hold
	told    chan struct{} // closed when grip has read all reports
	stops   []func() bool
	ended   chan struct{}
	// unburied says what is left of a command that would not end.
	unburied error

	mu        sync.Mutex
	killed    bool
	timedOut  bool
	overTotal bool
	reaped    bool
	helpers   sync.WaitGroup // what may kill; Wait waits for them
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
	s.Env = withTmp(s.Env)
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

// withTmp tells every command where its temporary files go: not every tier can
// make /tmp its own.
func withTmp(env []string) []string {
	for _, pair := range env {
		if strings.HasPrefix(pair, "TMPDIR=") {
			return env
		}
	}
	return append(env[:len(env):len(env)], "TMPDIR=/tmp")
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
		sb: sb, slot: slot, cmd: cmd, started: time.Now(), total: l.Total,
		known: make(chan struct{}), told: make(chan struct{}), ended: make(chan struct{}),
	}
	p.grip = sb.tier.grip(p, &pl)
	if sb.groups != nil {
		if p.group, err = sb.groups.slot(slot); err != nil {
			return nil, err
		}
	}
	if err := p.group.bound(l); err != nil {
		return nil, err
	}
	if err := sb.thread.startIn(cmd, p.group); err != nil {
		return nil, err
	}
	pl.closeChildEnds()
	p.watch(ctx, &pl, s, l)
	if !sb.add(p) { // closed meanwhile
		p.Kill()
		_, _ = p.finish()
		if p.unburied != nil {
			sb.config.Log("sandbox: " + p.unburied.Error())
		}
		return nil, errClosed
	}
	return p, nil
}

// plumbing holds the pipes of one start until they are handed over.
type plumbing struct {
	child, parent                      []*os.File
	outRead, errRead, statusRead, feed *os.File
	writes                             []write

	life *os.File // of tier 2: the line that ends the command when it closes
	tmp  string   // of tier 2: the command's directory of temporary files
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
// command come first, so that they keep their numbers inside; the tier's own
// follow.
func (sb *Sandbox) command(pl *plumbing, slot int, s Spec, l Limits) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Dir: "/", Env: []string{}, ExtraFiles: append([]*os.File{}, s.Files...)}
	cmd.SysProcAttr = sb.attributes(slot, s.Role)
	if err := sb.streams(pl, cmd, s); err != nil {
		return nil, err
	}
	if err := sb.tier.prepare(pl, cmd, slot, s, l); err != nil {
		return nil, err
	}
	sb.weaken.apply(pl, cmd)
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
	go func() {
		defer close(p.told)
		p.grip.read(pl.statusRead)
	}()
	for _, w := range pl.writes {
		_ = w.to.SetWriteDeadline(time.Now().Add(handOver))
		_, _ = w.to.Write(w.data) // one that fails ends bubblewrap, and its report says so
		_ = w.to.Close()
	}
	p.reads = pl.keep()
	timer := time.AfterFunc(l.Wall, p.timeOut)
	p.stops = []func() bool{timer.Stop, context.AfterFunc(ctx, p.timeOut)}
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

// kill ends the command once. mu is held.
func (p *process) kill() {
	if p.killed || p.reaped {
		return
	}
	p.killed = true
	p.grip.kill()
	p.helpers.Go(p.killLate)
}

// killLate ends a command that hangs before or after its work.
func (p *process) killLate() {
	select {
	case <-p.ended:
		return
	case <-time.After(p.grip.patience()):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grip.force()
	p.group.kill()
}

// killGroup ends hookd's child and what is still in its group. mu is held.
func (p *process) killGroup() {
	if !p.reaped {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
}

// Wait returns the result, or an error when the command could not be started
// at all, or when something of it would not end: then its slot is not used
// again. Statuses above 128 are read as the shell's: 137 is "killed", also
// when the command chose that number.
func (p *process) Wait() (Result, error) {
	r, err := p.finish()
	p.sb.remove(p)
	p.sb.giveBack(p)
	return r, err
}

// finish is Wait without giving the slot back.
func (p *process) finish() (Result, error) {
	<-p.known
	state, waitErr := p.reap()
	p.unburied = p.bury()
	<-p.told
	for _, stop := range p.stops {
		stop()
	}
	r := p.result()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unburied != nil {
		return Result{}, fmt.Errorf("end sandboxed command: %w", p.unburied)
	}
	if waitErr != nil {
		return Result{}, fmt.Errorf("wait for sandboxed command: %w", waitErr)
	}
	if p.group.exhausted() && !p.timedOut {
		p.overTotal = true
	}
	var err error
	r.Exit, r.Signal, err = p.grip.outcome(state, p.killed || p.overTotal, r.Stderr)
	if err != nil {
		return Result{}, err
	}
	r.TimedOut, r.OverTotal = p.timedOut, p.overTotal
	return r, nil
}

// reap waits for hookd's child without holding mu, then marks its number as no
// longer ours.
func (p *process) reap() (*os.ProcessState, error) {
	waitForExit(p.cmd.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grip.reaped()
	p.reaped = true
	return p.cmd.Process.Wait()
}

// bury sees everything that the command started dead, then takes what is left
// in the pipes.
func (p *process) bury() error {
	deadline := time.Now().Add(burying)
	err := errors.Join(p.grip.bury(deadline), p.group.clear(deadline))
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
	return err
}

func (p *process) result() Result {
	return Result{
		Stdout: p.stdout.kept, Stderr: p.stderr.kept,
		Dropped: p.stdout.dropped + p.stderr.dropped,
		Wall:    time.Since(p.started),
	}
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

// waitReadable reports whether a pidfd says before the deadline that its process
// has ended.
func waitReadable(pidfd int, deadline time.Time) bool {
	for {
		left := max(0, int(time.Until(deadline).Milliseconds()))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, left)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
