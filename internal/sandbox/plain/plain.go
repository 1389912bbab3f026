//go:build unix

// Package plain starts commands of a sandbox.Spec without a sandbox: for `git
// oracle run`, where a contributor runs code of his own on his own machine, and
// for tests of what runs inside a sandbox. Hookd cannot link it.
package plain

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sealgate/sealgate/internal/sandbox"
)

// outputKept is what is kept of each output stream where the Spec says nothing.
const outputKept = 64 << 10

// Starter is a sandbox.Starter that isolates nothing. The targets of binds in a
// command line and in its directory stand for their sources. Of the limits it
// keeps time and output.
type Starter struct{}

// Start starts a command in a process group of its own.
func (Starter) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	defer func() {
		for _, f := range s.Files {
			_ = f.Close()
		}
	}()
	where := func(path string) string {
		for _, b := range s.Binds {
			if path == b.Target || strings.HasPrefix(path, b.Target+"/") {
				return b.Source + path[len(b.Target):]
			}
		}
		return path
	}
	argv := make([]string, len(s.Argv))
	for i, a := range s.Argv {
		argv[i] = where(a)
	}
	limit := outputKept
	if s.Limits.Output > 0 {
		limit = int(s.Limits.Output)
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), out: capped{limit: limit}, err: capped{limit: limit}}
	p.cmd.Env = append([]string{}, s.Env...)
	p.cmd.Dir = "/"
	if s.Dir != "" {
		p.cmd.Dir = where(s.Dir)
	}
	p.cmd.Stdin = s.Stdin
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.ExtraFiles = s.Files
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.stop = context.AfterFunc(ctx, p.Kill)
	if s.Limits.Wall > 0 {
		p.timer = time.AfterFunc(s.Limits.Wall, func() {
			p.mu.Lock()
			p.late = true
			p.mu.Unlock()
			p.Kill()
		})
	}
	return p, nil
}

type process struct {
	cmd      *exec.Cmd
	out, err capped
	stop     func() bool
	timer    *time.Timer
	mu       sync.Mutex
	late     bool
}

// Kill kills the process group.
func (p *process) Kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// Wait waits for the command, and ends what is left of its group.
func (p *process) Wait() (sandbox.Result, error) {
	err := p.cmd.Wait()
	p.Kill()
	p.stop()
	if p.timer != nil {
		p.timer.Stop()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return sandbox.Result{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	res := sandbox.Result{Exit: p.cmd.ProcessState.ExitCode(), TimedOut: p.late, Stdout: p.out.Bytes(), Stderr: p.err.Bytes(), Dropped: p.out.dropped + p.err.dropped}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		res.Signal = status.Signal().String()
	}
	return res, nil
}

// capped keeps the first bytes and counts the rest.
type capped struct {
	buf     bytes.Buffer
	limit   int
	dropped int64
}

func (c *capped) Write(p []byte) (int, error) {
	keep := min(len(p), c.limit-c.buf.Len())
	c.buf.Write(p[:keep])
	c.dropped += int64(len(p) - keep)
	return len(p), nil
}

func (c *capped) Bytes() []byte { return c.buf.Bytes() }
