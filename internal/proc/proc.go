// Package proc starts trusted helpers (git, ssh-keygen): an environment that
// the caller spells out, output that is capped, a process group that is killed
// as a whole, and a time limit that has a name. Untrusted commands belong to
// package sandbox.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	defaultLimit = 1 << 20
	stderrLimit  = 16 << 10
	killGrace    = 2 * time.Second
)

// ErrOutputLimit says that a helper wrote more than its Spec allows.
var ErrOutputLimit = errors.New("it wrote more than it may")

// Spec is one helper to start.
type Spec struct {
	// Path is the program, absolute or found in the caller's PATH.
	Path string
	Args []string
	// Dir is the working directory; empty is the caller's.
	Dir string
	// Env is the whole environment; nothing is inherited.
	Env []string
	// Stdin is what the helper reads; nil is nothing.
	Stdin io.Reader
	// Stdout and Stderr take the output as it comes; where nil, Run captures it.
	Stdout, Stderr io.Writer
	// Limit caps captured output in bytes; 0 is 1 MiB.
	Limit int64
	// Timeout ends the helper; 0 is the context's.
	Timeout time.Duration
	// Foreground leaves the helper in the caller's process group and terminal, for
	// programs that ask for a passphrase. Only it is killed then, not its children.
	Foreground bool
	// Hold is a lock's file that the helper and what it starts keep open: the lock
	// lasts until they have ended, also where their caller was killed.
	Hold *os.File
}

// Result is what a helper that ended by itself left.
type Result struct {
	// Code is its exit status.
	Code           int
	Stdout, Stderr []byte
}

// Run starts a helper and waits. An exit status other than 0 is a Result, not
// an error; an error says that the helper did not start, was killed, or wrote
// too much.
func Run(ctx context.Context, spec Spec) (Result, error) {
	ctx, cancel := spec.deadline(ctx)
	defer cancel()
	cmd := spec.command(ctx)
	out := &Capped{Limit: spec.limit(), exceeded: cancel}
	diag := &Capped{Limit: stderrLimit}
	cmd.Stdin = spec.Stdin
	cmd.Stdout, cmd.Stderr = out, diag
	if spec.Stdout != nil {
		cmd.Stdout = spec.Stdout
	}
	if spec.Stderr != nil {
		cmd.Stderr = spec.Stderr
	}
	err := cmd.Run()
	if out.Exceeded() {
		return Result{}, fmt.Errorf("run %s: %w: %d bytes", spec, ErrOutputLimit, out.Limit)
	}
	code, err := ended(ctx, spec, err)
	if err != nil {
		return Result{}, err
	}
	return Result{Code: code, Stdout: out.Bytes(), Stderr: diag.Bytes()}, nil
}

// Process is a helper that runs beside its caller.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	spec   Spec
	cmd    *exec.Cmd
	ctx    context.Context
	cancel context.CancelFunc
	diag   *Capped
}

// Start starts a helper whose standard streams are the Process's. The caller
// must Wait. The context's end kills the group.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	ctx, cancel := spec.deadline(ctx)
	p := &Process{spec: spec, ctx: ctx, cancel: cancel, cmd: spec.command(ctx), diag: &Capped{Limit: stderrLimit}}
	p.cmd.Stderr = p.diag
	if spec.Stderr != nil {
		p.cmd.Stderr = spec.Stderr
	}
	var err error
	if p.Stdout, err = p.cmd.StdoutPipe(); err == nil {
		if spec.Stdin != nil {
			p.cmd.Stdin = spec.Stdin
		} else {
			p.Stdin, err = p.cmd.StdinPipe()
		}
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", spec, err)
	}
	return p, nil
}

// Wait closes the helper's input, waits for its end, and answers its exit
// status. What was not read of Stdout is lost.
func (p *Process) Wait() (int, error) {
	if p.Stdin != nil {
		p.Stdin.Close()
	}
	defer p.cancel()
	return ended(p.ctx, p.spec, p.cmd.Wait())
}

// Kill kills the helper; the caller still has to Wait or Stop.
func (p *Process) Kill() { p.cancel() }

// Stop kills the helper and waits for its end.
func (p *Process) Stop() {
	p.cancel()
	_ = p.cmd.Wait() // killed, as asked
}

// Stderr is the start of what the helper said; complete after Wait.
func (p *Process) Stderr() string { return strings.TrimSpace(string(p.diag.Bytes())) }

func (s Spec) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	cause := fmt.Errorf("%s took longer than %s", s, s.Timeout)
	return context.WithTimeoutCause(ctx, s.Timeout, cause)
}

func (s Spec) limit() int64 {
	if s.Limit > 0 {
		return s.Limit
	}
	return defaultLimit
}

func (s Spec) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Path, s.Args...)
	cmd.Dir = s.Dir
	cmd.Env = s.Env
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.WaitDelay = killGrace
	if s.Hold != nil {
		cmd.ExtraFiles = []*os.File{s.Hold}
	}
	if !s.Foreground {
		ownGroup(cmd)
	}
	return cmd
}

// String names the helper and its first arguments for an error.
func (s Spec) String() string {
	const shown = 12
	words := append([]string{s.Path}, s.Args[:min(len(s.Args), shown)]...)
	return fmt.Sprintf("%q", strings.Join(words, " "))
}

// ended tells an exit status from an end that was not the helper's own.
func ended(ctx context.Context, spec Spec, err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return -1, fmt.Errorf("run %s: %w", spec, cause)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return -1, fmt.Errorf("run %s: %w", spec, err)
}
